# SPDX-License-Identifier: Apache-2.0
"""Fingers on one or two digital outputs: `gripper: digital`."""

from dataclasses import dataclass

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.settings import setting
from ur5_pick_place.task.grippers.outputs import LAST_PIN, OutputGripper, OutputSettings


@dataclass(frozen=True)
class DigitalSettings(OutputSettings):
    """Wiring and timing of the fingers."""

    open_pin: int = setting(
        -1,
        'second output, which opens the gripper; -1 = none, the first one closes and opens',
        low=-1,
        high=LAST_PIN,
    )
    close_time: float = setting(
        0.8, 'time the fingers need to close', unit='s', low=0, high=10
    )
    open_time: float = setting(0.8, 'time the fingers need to open', unit='s', low=0, high=10)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.open_pin == self.close_pin:
            raise InvalidInput(
                f'open_pin = close_pin = {self.open_pin}: must be two outputs, or open_pin = -1'
            )


class DigitalGripper(OutputGripper):
    """Fingers that outputs open and close; see `Gripper`."""

    settings_type = DigitalSettings

    def travel_time(self, is_closed: bool) -> float:
        return float(self.settings.close_time if is_closed else self.settings.open_time)

    def outputs(self, is_closed: bool) -> list[tuple[int, bool]]:
        s = self.settings
        changes = [(s.close_pin, is_closed == s.closes_when_on)]
        if s.open_pin >= 0:
            # First off, then on: a double-acting valve must never see both.
            changes = sorted([*changes, (s.open_pin, not changes[0][1])], key=lambda c: c[1])
        return changes
