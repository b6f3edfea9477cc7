# SPDX-License-Identifier: Apache-2.0
"""The gripper on digital outputs, confirmed by io_states and by the part-present input."""

import math
from dataclasses import dataclass

from ur5_pick_place.errors import ExecutionError, InvalidInput, MissedGrasp
from ur5_pick_place.pins import DIGITAL_PINS, TOOL_PIN_0, TOOL_PINS
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.job import (
    Command,
    Observation,
    SetOutput,
    SetToolVoltage,
    Steps,
    perform,
)

TOOL_INPUT = 'tool_input'
SETTLING = 0.1
"""How long a level of the part-present input must be stable to count [s]."""
_BOUNCES, _BOUNCE_TIME = 4, 1.0  # changes, [s]; a grip causes one
_LAST_PIN = DIGITAL_PINS - 1
_TOOL_PINS = ', '.join(map(str, TOOL_PINS))
ANSWER_TIMEOUT = 5.0
"""Timeout for setting the payload [s]; the driver waits until the robot reports it."""
_SERVICE_TIMEOUT = 2.0  # [s]; the driver gives up on a pin after 0.55 s


@dataclass(frozen=True)
class GripperSettings(Settings):
    """Wiring and timing of the gripper."""

    close_pin: int = setting(
        TOOL_PIN_0,
        f'digital output that closes the gripper; {_TOOL_PINS} are the tool outputs',
        low=0,
        high=_LAST_PIN,
    )
    open_pin: int = setting(
        -1,
        'second output, which opens the gripper; -1 = none, switching the first one off opens',
        low=-1,
        high=_LAST_PIN,
    )
    closes_when_on: bool = setting(True, 'whether the closing output is on when closed')
    close_time: float = setting(
        0.8, 'time the fingers need to close', unit='s', low=0, high=10
    )
    open_time: float = setting(0.8, 'time the fingers need to open', unit='s', low=0, high=10)
    pin_timeout: float = setting(
        1.0, 'timeout for io_states to show a pin; usually 0.02 s', unit='s', low=0.1, high=5
    )
    grip_feedback: str = setting(
        TOOL_INPUT, 'how a grasp is verified', choices=(TOOL_INPUT, 'none')
    )
    part_pin: int = setting(
        TOOL_PIN_0,
        f'digital input that shows a part in the gripper; {_TOOL_PINS} are the tool inputs',
        low=0,
        high=_LAST_PIN,
    )
    part_when_on: bool = setting(True, 'whether that input is on when a part is held')
    part_timeout: float = setting(
        1.0, 'timeout for that input after the fingers have moved', unit='s', low=0, high=10
    )
    confirm_pins: bool = setting(
        True, 'require io_states to confirm outputs; false only for mock hardware, which has none'
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.open_pin == self.close_pin:
            raise InvalidInput(
                f'open_pin = close_pin = {self.open_pin}: must be two outputs, or open_pin = -1'
            )


class Gripper:
    """
    Opens, closes and verifies; each method is a generator of steps for a `Job`.

    Parameters
    ----------
    settings : GripperSettings
    voltage : int or None
        Supply that the gripper needs [V]; None if not configured.

    """

    def __init__(self, settings: GripperSettings, voltage: int | None) -> None:
        self._settings = settings
        self._voltage = voltage
        self._signal = PartSignal(settings)
        self._closes = self._is_shown = False
        self.fingers_end = 0.0
        """When the fingers will have moved [s], after `close_time` or `open_time`."""

    def initialise(self) -> Steps[None]:
        """
        Switch the tool supply to its configured voltage and wait for tool_data to show it.

        Raises
        ------
        ExecutionError
            The voltage is not configured, or tool_data does not show it within `pin_timeout`.

        """
        wanted = self._voltage
        if wanted is None:
            raise ExecutionError('tool_voltage is not set: set the parameter to 0, 12 or 24 V')
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

    def close(self) -> Steps[None]:
        """Close: switch the pins, wait for io_states to show them, then for the fingers."""
        yield from self.begin_closing()
        yield from self.await_fingers()

    def open(self) -> Steps[None]:
        """Open: as `close`."""
        yield from self.begin_opening()
        yield from self.await_fingers()

    def begin_closing(self) -> Steps[None]:
        """Switch the pins and wait for io_states to show them."""
        seen = yield None
        self._check_supply(seen)
        yield from self._switch(True, self._settings.close_time, self.holds_part(seen) is False)

    def begin_opening(self, is_holding: bool = False) -> Steps[None]:
        """Switch as `begin_closing`; `is_holding` = the input shows a part, which is released."""
        yield from self._switch(False, self._settings.open_time, is_holding)

    def await_fingers(self, command: Command | None = None) -> Steps[bool]:
        """
        Wait until the part-present input has changed, else for `close_time` or `open_time`.

        Parameters
        ----------
        command : Command, optional
            Issued and confirmed while the fingers move: when the input has changed, or immediately
            if there is no input.

        Returns
        -------
        bool
            Whether `command` was issued; it is not if the input never changes.

        """
        issued, is_answered = math.inf, True
        seen = yield None
        while True:
            level = self.holds_part(seen)
            is_there = self._signal.update(seen.t, level) is self._closes and self._is_shown
            is_answered = is_answered or _is_answered(command, seen, issued)
            if is_answered and (is_there or seen.t >= self.fingers_end):
                return issued < math.inf
            if command and issued == math.inf and level in (self._closes, None):
                issued, is_answered = seen.t, False
                seen = yield command
            else:
                seen = yield None

    def expect_part(self) -> Steps[None]:
        """
        Wait until the part-present input shows a part.

        Raises
        ------
        MissedGrasp
            It shows none.
        ExecutionError
            It shows one too late, it bounces, or io_states does not contain it.

        """
        yield from self._expect(True)

    def expect_no_part(self) -> Steps[None]:
        """Wait until the part-present input shows no part; errors as `expect_part`."""
        yield from self._expect(False)

    def stays_empty(self) -> Steps[None]:
        """Wait until the part-present input, which shows no part now, is stable."""
        seen = yield None
        while self._signal.update(seen.t, self.holds_part(seen)) is not False:
            if self.holds_part(seen) is not False:
                raise ExecutionError(
                    f'input {self._settings.part_pin} shows a part although the gripper is open: '
                    'remove the part, or check whether the input is stuck'
                )
            seen = yield None

    def holds_part(self, seen: Observation) -> bool | None:
        """Return whether a part is held; None if no input shows it."""
        if self._settings.grip_feedback != TOOL_INPUT:
            return None
        level = seen.inputs.get(self._settings.part_pin)
        return None if level is None else level == self._settings.part_when_on

    def is_closed(self, seen: Observation) -> bool:
        """Return whether io_states, if it is used at all, shows the closing output on."""
        s = self._settings
        return s.confirm_pins and seen.outputs.get(s.close_pin) == s.closes_when_on

    def is_open(self, seen: Observation) -> bool:
        """Return whether io_states, if it is used at all, shows the outputs of an open gripper."""
        return self._settings.confirm_pins and all(
            seen.outputs.get(pin) == state for pin, state in self._pins(is_closed=False)
        )

    def signal(self) -> 'PartSignal':
        """Return a new debounced view of the part-present input."""
        return PartSignal(self._settings)

    def _check_supply(self, seen: Observation) -> None:
        wanted = self._voltage
        if self._settings.confirm_pins and wanted is not None and seen.tool_voltage != wanted:
            raise ExecutionError(
                f'tool voltage is {seen.tool_voltage} V, not {wanted} V: call ~/init_gripper first'
            )

    def _pins(self, is_closed: bool) -> list[tuple[int, bool]]:
        """Return the outputs and their states, in the order in which they are switched."""
        s = self._settings
        changes = [(s.close_pin, is_closed == s.closes_when_on)]
        if s.open_pin >= 0:
            # First off, then on: a double-acting valve must never see both.
            changes = sorted([*changes, (s.open_pin, not changes[0][1])], key=lambda c: c[1])
        return changes

    def _switch(self, is_closed: bool, travel_time: float, is_shown: bool) -> Steps[None]:
        """Switch the pins; `is_shown` = the part-present input will show when it is done."""
        for pin, state in self._pins(is_closed):
            seen = yield from perform(SetOutput(pin, state), _SERVICE_TIMEOUT)
            seen = yield from self._see_output(seen, pin, state)
        self._closes, self._is_shown = is_closed, is_shown
        self._signal, self.fingers_end = PartSignal(self._settings), seen.t + travel_time

    def _see_output(self, seen: Observation, pin: int, state: bool) -> Steps[Observation]:
        if not self._settings.confirm_pins:
            return seen
        deadline = seen.t + self._settings.pin_timeout
        while seen.outputs.get(pin) != state:
            if seen.t > deadline:
                raise ExecutionError(
                    f'output {pin} was set {"on" if state else "off"} but io_states has not shown '
                    f'it within pin_timeout = {self._settings.pin_timeout} s: check tool power '
                    'and wiring'
                )
            seen = yield None
        return seen

    def _expect(self, wanted: bool) -> Steps[None]:
        seen = yield None
        if self._settings.grip_feedback != TOOL_INPUT:
            if not wanted and self.is_closed(seen):
                raise ExecutionError(
                    'the gripper is closed and no input shows whether it holds a part: check, and '
                    'open it with ~/open_gripper'
                )
            return
        timeout = self._settings.part_timeout
        begin, signal = seen.t, self._signal
        while signal.update(seen.t, self.holds_part(seen)) != wanted:
            if seen.t > begin + 2.0 * timeout + SETTLING:
                raise self._unmet(seen, wanted)
            seen = yield None
        waited = signal.since - begin
        if waited > timeout:
            raise ExecutionError(
                f'input {self._settings.part_pin} took {waited:.2f} s to show '
                f'{"the" if wanted else "no"} part, more than part_timeout = {timeout} s: check '
                'its sensor, or increase part_timeout'
            )

    def _unmet(self, seen: Observation, wanted: bool) -> ExecutionError:
        pin, waited = self._settings.part_pin, f'after {2.0 * self._settings.part_timeout} s'
        if self.holds_part(seen) is None:
            return ExecutionError(f'input {pin} is not in io_states: check part_pin')
        if wanted:
            return MissedGrasp(
                f'the gripper closed on nothing: no part at this place (input {pin}, {waited})'
            )
        if self.is_closed(seen):
            return ExecutionError(f'the gripper still holds a part (input {pin}, {waited})')
        return ExecutionError(
            f'input {pin} shows a part {waited} although the gripper is open: remove the part, '
            'or check whether the input is stuck'
        )


class PartSignal:
    """
    The part-present input, debounced.

    Attributes
    ----------
    since : float
        Time of the last change [s].

    """

    def __init__(self, settings: GripperSettings) -> None:
        self._pin = settings.part_pin
        self._level: bool | None = None
        self._latest = -math.inf
        self.since = 0.0
        self._changes: list[float] = []

    def update(self, t: float, level: bool | None) -> bool | None:
        """
        Take the level at time `t` [s] and return it once it is stable, else None.

        Raises
        ------
        ExecutionError
            It changes too often.

        """
        if level != self._level:
            if self._level is not None:
                self._changes = [past for past in self._changes if past > t - _BOUNCE_TIME] + [t]
            self._level, self.since = level, t
        elif t - self._latest > SETTLING:  # not sampled since: it may have changed
            self.since = t
        self._latest = t
        if len(self._changes) >= _BOUNCES:
            raise ExecutionError(
                f'input {self._pin} bounces: {len(self._changes)} changes within '
                f'{_BOUNCE_TIME} s; check the part-present sensor and its wiring'
            )
        return level if t - self.since >= SETTLING else None


def _is_answered(command: Command | None, seen: Observation, issued: float) -> bool:
    """Return whether a command issued at a time [s] is done; raise if it failed or timed out."""
    if seen.reply:
        raise ExecutionError(seen.reply)
    if seen.reply is None and seen.t > issued + ANSWER_TIMEOUT:
        raise ExecutionError(f'{command} was not answered within {ANSWER_TIMEOUT} s')
    return seen.reply is not None
