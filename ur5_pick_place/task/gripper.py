# SPDX-License-Identifier: Apache-2.0
"""The gripper on digital outputs: set, shown by io_states, and felt by the part-present input."""

from collections.abc import Generator
from dataclasses import dataclass

from ur5_pick_place.errors import ExecutionError, MissedGrasp
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.job import Observation, SetOutput, SetToolVoltage, perform

TOOL_INPUT = 'tool_input'
_SERVICE_TIMEOUT = 2.0  # [s]; the driver gives up on a pin after 0.55 s


@dataclass(frozen=True)
class GripperSettings(Settings):
    """Wiring and timing of the gripper."""

    close_pin: int = setting(
        16, 'digital output that closes the gripper; 16, 17 are the tool outputs', low=0, high=17
    )
    open_pin: int = setting(
        -1,
        'second output that opens it; -1 = none, the first one switched off opens',
        low=-1,
        high=17,
    )
    closes_when_on: bool = setting(True, 'whether the closing output is on when closed')
    close_time: float = setting(
        0.8, 'how long the fingers need to close', unit='s', low=0, high=10
    )
    open_time: float = setting(0.8, 'how long the fingers need to open', unit='s', low=0, high=10)
    pin_timeout: float = setting(
        1.0, 'how long io_states may take to show a pin; usually 0.02 s', unit='s', low=0.1, high=5
    )
    grip_feedback: str = setting(TOOL_INPUT, 'how a grasp is proved', choices=(TOOL_INPUT, 'none'))
    part_pin: int = setting(
        16, 'digital input that tells of a part; 16, 17 are the tool inputs', low=0, high=17
    )
    part_when_on: bool = setting(True, 'whether that input is on with a part')
    part_timeout: float = setting(
        1.0, 'how long the input may take after the fingers have moved', unit='s', low=0, high=10
    )
    confirm_pins: bool = setting(True, 'demand io_states; only mock hardware shows no pins')


class Gripper:
    """
    Steps that open, close and verify; each is a generator for a `Job`.

    Parameters
    ----------
    settings : GripperSettings
    voltage : int or None
        Supply the gripper needs [V]; None = never told.

    """

    def __init__(self, settings: GripperSettings, voltage: int | None) -> None:
        self._settings = settings
        self._voltage = voltage

    def initialise(self) -> Generator:
        """Switch the tool supply to its configured voltage and see it there."""
        wanted = self._voltage
        if wanted is None:
            raise ExecutionError('tool_voltage is not given: set the parameter to 0, 12 or 24')
        seen = yield from perform(SetToolVoltage(wanted), _SERVICE_TIMEOUT)
        if not self._settings.confirm_pins:
            return
        deadline = seen.t + self._settings.pin_timeout
        while seen.tool_voltage != wanted:
            if seen.t > deadline:
                raise ExecutionError(
                    f'tool voltage is {seen.tool_voltage} V, not {wanted} V, '
                    f'{self._settings.pin_timeout} s after it was set: check the tool connector'
                )
            seen = yield None

    def close(self) -> Generator:
        """Close, see the pin switched, and give the fingers their time."""
        self._check_supply((yield None))
        yield from self._switch(is_closed=True, travel_time=self._settings.close_time)

    def open(self) -> Generator:
        """Open likewise."""
        yield from self._switch(is_closed=False, travel_time=self._settings.open_time)

    def expect_part(self) -> Generator:
        """Wait until the input tells of a part."""
        complaint = 'the gripper closed on nothing: no part at this place'
        yield from self._expect(True, complaint, MissedGrasp)

    def expect_no_part(self) -> Generator:
        """Wait until the input tells of none."""
        yield from self._expect(False, 'the gripper still holds a part', ExecutionError)

    def holds_part(self, seen: Observation) -> bool | None:
        """Whether a part is held; None if nothing tells."""
        if self._settings.grip_feedback != TOOL_INPUT:
            return None
        level = seen.inputs.get(self._settings.part_pin)
        return None if level is None else level == self._settings.part_when_on

    def _check_supply(self, seen: Observation) -> None:
        wanted = self._voltage
        if self._settings.confirm_pins and wanted is not None and seen.tool_voltage != wanted:
            raise ExecutionError(
                f'tool voltage is {seen.tool_voltage} V, not {wanted} V: call ~/init_gripper first'
            )

    def _switch(self, is_closed: bool, travel_time: float) -> Generator:
        s = self._settings
        changes = [(s.close_pin, is_closed == s.closes_when_on)]
        if s.open_pin >= 0:
            # First off, then on: a double-acting valve must never see both.
            changes = sorted([*changes, (s.open_pin, not changes[0][1])], key=lambda c: c[1])
        for pin, state in changes:
            seen = yield from perform(SetOutput(pin, state), _SERVICE_TIMEOUT)
            yield from self._see_output(seen, pin, state)
        yield from pause(travel_time)

    def _see_output(self, seen: Observation, pin: int, state: bool) -> Generator:
        if not self._settings.confirm_pins:
            return
        deadline = seen.t + self._settings.pin_timeout
        while seen.outputs.get(pin) != state:
            if seen.t > deadline:
                raise ExecutionError(
                    f'output {pin} was set {"on" if state else "off"} but io_states has not shown '
                    f'it within {self._settings.pin_timeout} s: check tool power and wiring'
                )
            seen = yield None

    def _expect(self, wanted: bool, complaint: str, error: type[ExecutionError]) -> Generator:
        if self._settings.grip_feedback != TOOL_INPUT:
            return
        seen = yield None
        deadline = seen.t + self._settings.part_timeout
        while self.holds_part(seen) != wanted:
            if seen.t > deadline:
                raise error(
                    f'{complaint} (input {self._settings.part_pin} after '
                    f'{self._settings.part_timeout} s)'
                )
            seen = yield None


def pause(duration: float) -> Generator:
    """Wait for `duration` [s] of ROS time."""
    seen = yield None
    end = seen.t + duration
    while seen.t < end:
        seen = yield None
