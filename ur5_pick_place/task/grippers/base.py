# SPDX-License-Identifier: Apache-2.0
"""The interface of a gripper, and what every kind of gripper needs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.grippers.signals import PartSignal
from ur5_pick_place.task.job import Observation, SetOutput, SetToolVoltage, Steps, perform

TOOL_INPUT, NO_FEEDBACK = 'tool_input', 'none'
ANSWER_TIMEOUT = 5.0
"""Timeout for setting the payload [s]; the driver waits until the robot reports it."""
SERVICE_TIMEOUT = 2.0
"""Timeout for setting an output or the tool voltage [s]; the driver's own is 0.55 s."""


@dataclass(frozen=True)
class GripperSettings(Settings):
    """What every kind of gripper has."""

    confirm_pins: bool = setting(
        True, 'require io_states to confirm outputs; false only for mock hardware, which has none'
    )
    grip_feedback: str = setting(
        TOOL_INPUT,
        'how a grasp is verified: by the feedback that this kind of gripper has, or not at all',
        choices=(TOOL_INPUT, NO_FEEDBACK),
    )
    pin_timeout: float = setting(
        1.0,
        'timeout for the driver to show a pin or the tool voltage; usually 0.02 s',
        unit='s',
        low=0.1,
        high=5,
    )


class Gripper(ABC):
    """
    Opens, closes and verifies; each method that takes time is a generator of steps for a `Job`.

    A kind of gripper is a class with this interface and `settings_type`; the parameter `gripper`
    names it (`registry`). Its constructor touches no device, as the demo builds one to learn its
    `pins`: connect in `initialise`, after `super().initialise()` unless it needs no tool supply,
    and disconnect in `shutdown`. Without it fingers and part sensor of the simulated cell do
    nothing: its test sets `cell.driver.robot.tool_voltage = 24`.

    `part_signal`, `is_closed` and `is_open` are called every tick of 8 ms: for a slow device a
    thread keeps their values, and `initialise` reads the first by `Compute`.

    Give its connection to the constructor with a default, so that a test without a cell passes a
    fake. One with a cell (`test/cell/test_gripper_cycles.py`) fakes the device before it makes the
    cell, whose `teach` calls `initialise`: of a gripper in `KINDS` it replaces the function that
    connects; for another it puts a fake driver into `sys.modules` and takes the gripper's module
    out, which keeps that of another test. There `Compute` runs at once, and for a thread
    `cell.on_step = lambda: time.sleep(0.008)` makes time real.

    - `settings`: of the class's `settings_type`
    - `voltage`: supply that the gripper needs [V]; None if not configured

    - `fingers_done_at`: when the gripper should have opened or closed [s]
    - `is_grip_known`: whether it has shown, since it was last commanded, that a part is gripped or
      released: the payload may then be set, while the fingers may still move. Never set by a kind
      that cannot tell; the payload then waits for its own stage.
    """

    settings_type: ClassVar[type[GripperSettings]] = GripperSettings
    """The parameters of this kind; only these are declared."""

    loss_text: ClassVar[str] = 'the part-present input went off'
    """How the loss of a carried part shows."""

    releases_at_once: ClassVar[bool] = True
    """
    Whether a part is released once opening is confirmed; else once the fingers are open.

    False for a device that may confirm a command and then fail.
    """

    def __init__(self, settings: Any, voltage: int | None) -> None:
        self.voltage = voltage
        self.settings: Any = settings
        self._signal = self.signal()
        self.fingers_done_at = 0.0
        self.is_grip_known = False

    # -- what each kind does its own way --------------------------------------------------------

    @abstractmethod
    def begin_closing(self) -> Steps[None]:
        """Command closing, and wait until the command is confirmed."""

    @abstractmethod
    def begin_opening(self, is_holding: bool = False, is_moving: bool = False) -> Steps[None]:
        """
        Command opening, and wait until the command is confirmed.

        - `is_holding`: whether a part is held, which is released
        - `is_moving`: whether the arm moves next, without `await_fingers`; the gripper is then
          empty
        """

    def await_fingers(self) -> Steps[None]:
        """Wait until the gripper has opened or closed, which `fingers_done_at` tells."""
        while (yield None).t < self.fingers_done_at:
            pass

    @abstractmethod
    def expect_part(self) -> Steps[None]:
        """
        Wait until the closed gripper is known to hold a part.

        Raises `MissedGrasp`: it closed on nothing. `ExecutionError`: it cannot be known, though it
        should be.
        """

    @abstractmethod
    def expect_no_part(self) -> Steps[None]:
        """Wait until the gripper is known to hold no part; errors as `expect_part`."""

    def await_empty(self) -> Steps[None]:
        """Wait until the signal of the open, empty gripper is stable; raise if it shows a part."""
        yield from self.expect_no_part()

    @abstractmethod
    def part_signal(self, seen: Observation) -> bool | None:
        """Return whether a part is held; None if nothing shows it, or with `NO_FEEDBACK`."""

    @abstractmethod
    def is_closed(self, seen: Observation) -> bool:
        """Return whether the gripper is known to be closed, on a part or on nothing."""

    @abstractmethod
    def is_open(self, seen: Observation) -> bool:
        """Return whether the gripper is known to be open."""

    def why_not(self, is_to_close: bool, seen: Observation) -> str:
        """Return why it cannot be closed, or opened, now: a request is refused; else ""."""
        return ''

    def silence(self, seen: Observation) -> str:
        """Return why nothing shows any more whether a part is held; '' if something does."""
        return ''

    def proves(self, seen: Observation) -> bool | None:
        """Return whether a part is held; None if anything about the gripper is in doubt."""
        holds = self.part_signal(seen)
        if holds:
            return True if self.is_closed(seen) else None
        # Pins may be out of date during a stop, and an input without supply shows no part.
        is_sure = not seen.stop_reason and self.is_known(seen) and self.is_supplied(seen)
        return False if holds is False and is_sure else None

    def counts_as_holding(self, seen: Observation) -> bool:
        """
        Return whether the gripper is closed on a part, by this node or another client.

        Without feedback a closed gripper counts as one with a part: it might carry one.
        """
        holds = self.part_signal(seen)
        if holds is None and self.settings.grip_feedback == NO_FEEDBACK:
            holds = True
        return bool(holds) and self.is_closed(seen)

    def readiness(self, seen: Observation) -> tuple[str, str]:
        """Return for `preflight` what is seen of it, and what to do; '' if all is well."""
        shown = {True: 'a part', False: 'no part', None: 'nothing yet'}
        return f'{type(self).__name__} shows {shown[self.part_signal(seen)]}', ''

    def shutdown(self) -> None:  # noqa: B027 - most kinds need none
        """Disconnect, as the node ends; must not wait."""

    @property
    def pins(self) -> frozenset[int]:
        """The digital outputs that are the gripper's own; no stage of a cycle may set them."""
        return frozenset()

    def is_known(self, seen: Observation) -> bool:
        """Return whether the gripper has been observed since the node started."""
        return bool(seen.inputs and seen.outputs)

    # -- what they share -------------------------------------------------------------------------

    def initialise(self) -> Steps[None]:
        """
        Switch the tool supply to its configured voltage and wait for tool_data to show it.

        Raises `ExecutionError`: the voltage is not configured, or tool_data does not show it
        within `pin_timeout`.
        """
        wanted, timeout = self.voltage, self.settings.pin_timeout
        if wanted is None:
            raise ExecutionError('tool_voltage is not set: set the parameter to 0, 12 or 24 V')
        seen = yield from perform(SetToolVoltage(wanted), SERVICE_TIMEOUT)
        if not self.settings.confirm_pins:
            return
        deadline = seen.t + timeout
        while seen.tool_voltage != wanted:
            if seen.t > deadline:
                raise ExecutionError(
                    f'tool voltage is {seen.tool_voltage} V, not {wanted} V, '
                    f'{timeout} s after it was set: check the tool connector'
                )
            seen = yield None

    def set_output(self, pin: int, state: bool, stage: str = '') -> Steps[Observation]:
        """Set an output, maybe that of a stage; return the observation that shows it."""
        timeout = self.settings.pin_timeout
        seen = yield from perform(SetOutput(pin, state), SERVICE_TIMEOUT)
        deadline = seen.t + timeout
        while self.settings.confirm_pins and seen.outputs.get(pin) != state:
            if seen.t > deadline:
                cure = 'that the robot lets ROS set it' if stage else 'tool power and wiring'
                raise ExecutionError(
                    f'{stage and f"stage {stage!r}: "}output {pin} was set '
                    f'{"on" if state else "off"} but io_states has not shown it within '
                    f'pin_timeout = {timeout:g} s: check {cure}'
                )
            seen = yield None
        return seen

    def close(self) -> Steps[None]:
        """Close: command it, and wait until it is done."""
        yield from self.begin_closing()
        yield from self.await_fingers()

    def opens_in(self, seen: Observation) -> float:
        """Return the time [s] until the gripper, which is opening, will be open."""
        return self.fingers_done_at - seen.t

    def signal(self) -> PartSignal:
        """Return a new debounced view of `part_signal`."""
        return PartSignal('the signal of the gripper')

    def is_supplied(self, seen: Observation) -> bool:
        """Return whether the tool supply is as configured; True if nothing is to be checked."""
        wanted = self.voltage
        return not self.settings.confirm_pins or wanted in (None, seen.tool_voltage)

    def _check_can_close(self, seen: Observation) -> None:
        if reason := self.why_not(True, seen):
            raise ExecutionError(reason)

    def _lack_of_supply(self, seen: Observation) -> str:
        if self.is_supplied(seen):
            return ''
        return (
            f'tool voltage is {seen.tool_voltage} V, not {self.voltage} V: call '
            '~/init_gripper first'
        )
