# SPDX-License-Identifier: Apache-2.0
"""
Grippers on one or two digital outputs: fingers, `gripper: digital`, and a cup, `gripper: vacuum`.

They are confirmed by io_states and by an input that shows a part.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from ur5_pick_place.errors import ExecutionError, InvalidInput, MissedGrasp
from ur5_pick_place.settings import setting
from ur5_pick_place.task.grippers.base import TOOL_INPUT, Gripper, GripperSettings
from ur5_pick_place.task.grippers.signals import SETTLING, PartSignal
from ur5_pick_place.task.job import DIGITAL_PINS, OBSERVE_NOW, TOOL_PINS, Observation, Steps

LAST_PIN = DIGITAL_PINS - 1
_TOOL_PINS = ', '.join(map(str, TOOL_PINS))


@dataclass(frozen=True)
class OutputSettings(GripperSettings):
    """Wiring of a gripper on digital outputs."""

    close_pin: int = setting(
        TOOL_PINS[0],
        f'digital output that closes the gripper, or switches suction on; {_TOOL_PINS} are the '
        'tool outputs',
        low=0,
        high=LAST_PIN,
    )
    closes_when_on: bool = setting(True, 'whether that output is on when closed, or sucking')
    part_pin: int = setting(
        TOOL_PINS[0],
        'digital input that shows a part in the gripper, or that vacuum is reached; '
        f'{_TOOL_PINS} are the tool inputs',
        low=0,
        high=LAST_PIN,
    )
    part_when_on: bool = setting(True, 'whether that input is on when a part is held')
    part_timeout: float = setting(
        1.0, 'timeout for that input after closing or opening', unit='s', low=0, high=10
    )


class OutputGripper(Gripper):
    """A gripper on digital outputs; see `Gripper`."""

    settings_type = OutputSettings
    closed_on_nothing: ClassVar[str] = 'the gripper closed on nothing'
    """What it means that the input shows no part after closing."""

    def __init__(self, settings: OutputSettings, voltage: int | None) -> None:
        super().__init__(settings, voltage)
        self._closes = self._is_shown = False

    @abstractmethod
    def travel_time(self, is_closed: bool) -> float:
        """Return the time to close, or to open, where no input shows it [s]."""

    @abstractmethod
    def outputs(self, is_closed: bool) -> list[tuple[int, bool]]:
        """Return the outputs and their states, in the order in which they are switched."""

    def begin_closing(self) -> Steps[None]:
        """Switch the pins and wait for io_states to show them."""
        seen = yield OBSERVE_NOW
        self._check_can_close(seen)
        yield from self._switch(True, self.part_signal(seen) is False)

    def begin_opening(self, is_holding: bool = False, is_moving: bool = False) -> Steps[None]:
        """
        Switch as `begin_closing`.

        If a part is held (`is_holding`), the part-present input, where there is one, will show
        its release.
        """
        yield from self._switch(False, is_holding)

    def await_fingers(self) -> Steps[None]:
        """
        Wait until the part-present input has changed, else until `fingers_done_at`.

        The grip counts as known when the input has changed, or at once if there is no input.
        """
        seen = yield OBSERVE_NOW
        while True:
            level = self.part_signal(seen)
            has_changed = self._signal.update(seen.t, level) is self._closes and self._is_shown
            self.is_grip_known |= level in (self._closes, None)
            if has_changed or seen.t >= self.fingers_done_at:
                return
            seen = yield None

    def expect_part(self) -> Steps[None]:
        yield from self._expect(True)

    def expect_no_part(self) -> Steps[None]:
        yield from self._expect(False)

    def await_empty(self) -> Steps[None]:
        """Wait until the part-present input, which shows no part now, is stable."""
        seen = yield None
        while (is_held := self._signal.update(seen.t, self.part_signal(seen))) is not False:
            if is_held or self.part_signal(seen) is None:
                raise ExecutionError(
                    self.silence(seen)
                    or f'input {self.settings.part_pin} shows a part although the gripper is '
                    'open: remove the part, or check whether the input is stuck'
                )
            seen = yield None

    def part_signal(self, seen: Observation) -> bool | None:
        if self.settings.grip_feedback != TOOL_INPUT:
            return None
        level = seen.inputs.get(self.settings.part_pin)
        is_unknown = level is None or self.silence(seen)
        return None if is_unknown else level == self.settings.part_when_on

    def silence(self, seen: Observation) -> str:
        """Return that the tool has no supply, if its input is off without it as with a part."""
        s = self.settings
        is_blind = s.part_pin in TOOL_PINS and not s.part_when_on
        return self._lack_of_supply(seen) if is_blind and s.grip_feedback == TOOL_INPUT else ''

    def why_not(self, is_to_close: bool, seen: Observation) -> str:
        switches_on = len(self.pins) > 1 or not self.settings.closes_when_on  # to open
        is_powered_by_tool = not self.pins.isdisjoint(TOOL_PINS)
        if is_to_close or (switches_on and is_powered_by_tool):
            return self._lack_of_supply(seen)
        return ''

    def readiness(self, seen: Observation) -> tuple[str, str]:
        s = self.settings
        if not s.confirm_pins:
            return 'pins are not confirmed (confirm_pins: false), for mock hardware only', ''
        if not seen.outputs:
            return 'io_states not received', 'is io_and_status_controller active?'
        for key in ('close_pin', 'open_pin', 'blow_pin', 'part_pin'):
            pin = getattr(s, key, -1)
            if pin >= 0 and pin not in (seen.inputs if key == 'part_pin' else seen.outputs):
                return f'{key} = {pin} is not in io_states', 'correct the pin'
        if s.grip_feedback != TOOL_INPUT:
            return 'pins are there; no part-present input: a grasp is not verified', ''
        is_on = 'on' if seen.inputs[s.part_pin] else 'off'
        return f'pins are there; the part-present input is {is_on}', ''

    @property
    def pins(self) -> frozenset[int]:
        """The outputs that it switches."""
        return frozenset(pin for pin, _ in self.outputs(is_closed=True))

    def is_closed(self, seen: Observation) -> bool:
        """
        Return whether io_states shows the closing output as when closed.

        False if `confirm_pins` is off.
        """
        s = self.settings
        return bool(s.confirm_pins and seen.outputs.get(s.close_pin) == s.closes_when_on)

    def is_open(self, seen: Observation) -> bool:
        """
        Return whether io_states shows the outputs of an open gripper.

        False if `confirm_pins` is off.
        """
        return self.settings.confirm_pins and all(
            seen.outputs.get(pin) == state for pin, state in self.outputs(is_closed=False)
        )

    def signal(self) -> PartSignal:
        return PartSignal(f'input {self.settings.part_pin}')

    def _switch(self, is_closed: bool, is_shown: bool) -> Steps[None]:
        """Switch the pins; `is_shown` = the part-present input will show when it is done."""
        self.is_grip_known = False
        for pin, state in self.outputs(is_closed):
            seen = yield from self.set_output(pin, state)
        self._closes, self._is_shown = is_closed, is_shown
        self._signal, self.fingers_done_at = self.signal(), seen.t + self.travel_time(is_closed)

    def _expect(self, wanted: bool) -> Steps[None]:
        seen = yield OBSERVE_NOW
        if self.settings.grip_feedback != TOOL_INPUT:
            if not wanted and self.is_closed(seen):
                raise ExecutionError(
                    'the gripper is closed and no input shows whether it holds a part: check, and '
                    'open it with ~/open_gripper'
                )
            return
        timeout = self.settings.part_timeout
        begin, signal = seen.t, self._signal
        # Twice the timeout, to tell a late signal, a fault of the sensor, from none.
        while signal.update(seen.t, self.part_signal(seen)) != wanted:
            if seen.t > begin + 2.0 * timeout + SETTLING:
                raise self._unmet(seen, wanted)
            seen = yield None
        waited = signal.since - begin
        if waited > timeout:
            raise ExecutionError(
                f'input {self.settings.part_pin} took {waited:.2f} s to show '
                f'{"the" if wanted else "no"} part, more than part_timeout = {timeout} s: check '
                'its sensor, or increase part_timeout'
            )

    def _unmet(self, seen: Observation, wanted: bool) -> ExecutionError:
        pin, waited = self.settings.part_pin, f'after {2.0 * self.settings.part_timeout} s'
        if self.part_signal(seen) is None:
            why = self.silence(seen) or f'input {pin} is not in io_states: check part_pin'
            return ExecutionError(why)
        if wanted:
            return MissedGrasp(
                f'{self.closed_on_nothing}: no part at this place (input {pin}, {waited})'
            )
        if self.is_closed(seen):
            return ExecutionError(f'the gripper still holds a part (input {pin}, {waited})')
        return ExecutionError(
            f'input {pin} shows a part {waited} although the gripper is open: remove the part, '
            'or check whether the input is stuck'
        )


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
