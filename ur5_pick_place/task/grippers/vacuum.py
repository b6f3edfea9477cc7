# SPDX-License-Identifier: Apache-2.0
"""A suction cup on one or two digital outputs: `gripper: vacuum`."""

from dataclasses import dataclass

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.settings import setting
from ur5_pick_place.task.grippers.outputs import LAST_PIN, OutputGripper, OutputSettings
from ur5_pick_place.task.job import Steps


@dataclass(frozen=True)
class VacuumSettings(OutputSettings):
    """
    Wiring and timing of a suction cup.

    `close_pin` switches the suction, `part_pin` shows the vacuum.
    """

    blow_pin: int = setting(
        -1,
        'second output, which blows the part off; -1 = none, the cup vents by itself',
        low=-1,
        high=LAST_PIN,
    )
    vacuum_time: float = setting(
        0.5, 'time to reach the vacuum where no input shows it', unit='s', low=0, high=10
    )
    blow_off_time: float = setting(
        0.3, 'how long blow_pin is on, and the least time to release', unit='s', low=0, high=10
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blow_pin == self.close_pin:
            raise InvalidInput(
                f'blow_pin = close_pin = {self.blow_pin}: must be two outputs, or blow_pin = -1'
            )


class VacuumGripper(OutputGripper):
    """A suction cup; see `Gripper`."""

    settings_type = VacuumSettings
    loss_text = 'the vacuum-reached input went off'
    closed_on_nothing = 'no vacuum: the cup does not seal'

    def travel_time(self, is_closed: bool) -> float:
        return float(self.settings.vacuum_time if is_closed else self.settings.blow_off_time)

    def outputs(self, is_closed: bool) -> list[tuple[int, bool]]:
        """Return the outputs for suction and blow-off; never both on."""
        s = self.settings
        suction = (s.close_pin, is_closed == s.closes_when_on)
        return [(s.blow_pin, False), suction] if s.blow_pin >= 0 else [suction]

    def begin_opening(self, is_holding: bool = False, is_moving: bool = False) -> Steps[None]:
        """Switch suction off, and the blow-off on unless the arm moves next."""
        yield from super().begin_opening(is_holding, is_moving)
        if self.settings.blow_pin >= 0 and not is_moving:
            seen = yield from self.set_output(self.settings.blow_pin, True)
            self.fingers_done_at = seen.t + self.travel_time(is_closed=False)

    def await_fingers(self) -> Steps[None]:
        """Wait as `OutputGripper`; a release takes its whole time, and the blow-off ends here."""
        yield from super().await_fingers()
        if self._closes:
            return
        while (yield None).t < self.fingers_done_at:
            pass
        if self.settings.blow_pin >= 0:
            yield from self.set_output(self.settings.blow_pin, False)
