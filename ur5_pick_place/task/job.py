# SPDX-License-Identifier: Apache-2.0
"""
A job: the next command, given the latest observation; it owns no clock, thread or ROS.

A job's steps are generators that yield a command (or None, to wait) and receive the next
observation; they yield `OBSERVE_NOW` to receive the present one. A sequence such as "set the pin,
wait until io_states shows it" thus reads from top to bottom, and a test can drive it with
synthetic observations.
"""

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar

from ur5_pick_place.errors import ExecutionError, text_of
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.scene.inertias import Load

_KEPT = 8  # replies; two commands at most are outstanding


@dataclass(frozen=True)
class GripperReport:
    """What a gripper's action server reported about the latest goal."""

    target: float  # position of the goal [unit of the server]
    position: float = math.nan  # of the fingers
    stalled: bool = False
    ended: str = ''  # '' while the goal runs, else 'succeeded', 'aborted' or 'canceled'


@dataclass(frozen=True)
class GripperView:
    """A gripper with an action server, as observed."""

    is_there: bool = False  # whether its server is available
    report: GripperReport | None = None  # None before a goal was accepted
    # of the gripper's joint on joint_states [unit of the server]; None if none was received lately
    position: float | None = None
    is_still: bool = False  # whether that joint has not moved lately
    # whether that joint was received before, and is now missing for too long, as
    # `GripperJoint.is_silent`
    is_silent: bool = False


@dataclass(frozen=True)
class Observation:
    """The robot as observed at one tick."""

    t: float  # ROS time [s]
    q: Array  # (6,) measured joints [rad]
    # inputs, outputs: digital pins as last published in io_states; a pin that was never published
    # is absent
    inputs: Mapping[int, bool] = field(default_factory=lambda: MappingProxyType({}))
    outputs: Mapping[int, bool] = field(default_factory=lambda: MappingProxyType({}))
    tool_voltage: int | None = None  # as last published in tool_data [V]
    # why the planner is stopped, or why the robot is not observed; empty if neither
    stop_reason: str = ''
    reply: Outcome | None = None  # of the last command; None while it runs
    is_at_rest: bool = True  # whether the joints are at rest
    speed_scaling: float = 1.0  # 0 to 1, from the robot's speed slider and its own slow-down
    gripper: GripperView = GripperView()  # empty for grippers without an action server
    # the latest replies, each with its command
    replies: tuple[tuple['Command', Outcome], ...] = ()

    def answering(self, command: 'Command | None') -> 'Observation':
        """Return it with the reply to a command, this very object; None while it runs."""
        replies = (reply for answered, reply in self.replies if answered is command)
        return replace(self, reply=next(replies, None))


@dataclass(frozen=True)
class RunMotion:
    """Execute a trajectory, or run the closed loop of the method that planned it, to its end."""

    trajectory: Trajectory
    method: str = ''


# Inputs and outputs alike, as `set_io` and `io_states` count them; the last two are the tool's.
DIGITAL_PINS = 18
TOOL_PINS = (16, 17)


@dataclass(frozen=True)
class SetOutput:
    """Set a digital output; done when the driver has queued it, before the pin has changed."""

    pin: int
    state: bool

    def __str__(self) -> str:
        return f'output {self.pin}'


@dataclass(frozen=True)
class SetToolVoltage:
    """Set the tool supply [V]."""

    voltage: int

    def __str__(self) -> str:
        return f'tool voltage {self.voltage} V'


@dataclass(frozen=True)
class MoveGripper:
    """Send a goal to the gripper's server; done when accepted, `Observation` has the rest."""

    position: float  # [unit of the server]
    max_effort: float  # [N or N m, as the server]; 0 = the server's default
    timeout: float  # a goal that is accepted later than this is canceled [s]


@dataclass(frozen=True)
class SetPayload:
    mass: float  # [kg]
    centre: tuple[float, float, float]  # centre of gravity in tool0 [m]
    # about that centre, along the axes of tool0: xx, yy, zz, xy, xz, yz [kg m2]
    inertia: tuple[float, float, float, float, float, float] = (0.0,) * 6

    def __str__(self) -> str:
        return f'set_payload {self.mass:.3f} kg'


@dataclass(frozen=True)
class Carry:
    """Publish to the planner what the gripper holds from now on: a load in tool0, or None."""

    load: Load | None


@dataclass(frozen=True)
class Compute:
    """Run `work`, which takes longer than a tick, in the background; done when it returns."""

    work: Callable[[], object]
    what: str = 'a computation'

    def __str__(self) -> str:
        return self.what

    def attempt(self) -> Outcome:
        """Run the work; return how it ended."""
        try:
            self.work()
        except Exception as error:  # also of a gripper's own driver: it must not end the node
            return Outcome.failed(text_of(error) or type(error).__name__)
        return DONE


class Observe(Enum):
    """The request for the present observation, which takes no tick."""

    NOW = 'now'


OBSERVE_NOW = Observe.NOW

Command = RunMotion | SetOutput | MoveGripper | SetToolVoltage | SetPayload | Carry | Compute
T = TypeVar('T')
Steps = Generator[Command | Observe | None, Observation, T]
"""A generator: yields a command (None: wait a tick), receives an observation, returns a T."""


def silent_io(limit: float) -> str:
    """Return the reason of a stop because io_states is silent for more than `limit` [s]."""
    return f'io_states silent for more than {limit} s: check the driver and the link to the robot'


class _Strand:
    """Steps that run beside others, and get the replies to their own commands alone."""

    def __init__(self, steps: Steps[Any]) -> None:
        self.steps, self.is_done = steps, False
        self.command: Command | None = None
        self.result: Any = None
        self._is_started = False

    def issues(self, seen: Observation) -> bool:
        """Give the steps an observation; return whether they issue a command."""
        seen = seen.answering(self.command)
        try:
            command = self.steps.send(seen) if self._is_started else next(self.steps)
            self._is_started = True
            while isinstance(command, Observe):
                command = self.steps.send(seen)
        except StopIteration as end_of_steps:
            self.is_done, self.result = True, end_of_steps.value
            return False
        self.command = command or self.command
        return command is not None


class Job:
    """Runs steps, one tick at a time."""

    def __init__(self, name: str, steps: Steps[None]) -> None:
        self.name = name
        self.is_done = False
        self.error = ''
        """Why the job ended before its last step; empty if it did not."""
        self._strand = _Strand(steps)
        self._replies: tuple[tuple[Command, Outcome], ...] = ()

    def answer(self, command: Command, reply: Outcome) -> None:
        self._replies = (*self._replies[1 - _KEPT :], (command, reply))

    def tick(self, seen: Observation) -> Command | None:
        """
        Return the next command, or None; a stopped planner ends the job at once.

        A reply in `seen` is one to the latest command.
        """
        if seen.stop_reason and not self.is_done:
            self.abandon(seen.stop_reason)
        if self.is_done:
            return None
        strand, replies = self._strand, self._replies
        if seen.reply is not None and strand.command is not None:
            replies = ((strand.command, seen.reply),)
        try:
            if strand.issues(replace(seen, replies=replies)):
                self._replies = tuple(r for r in self._replies if r[0] is not strand.command)
                return strand.command
            self.is_done = strand.is_done
        except Exception as error:  # also of a gripper's own driver: it must not end the node
            self.is_done, self.error = True, text_of(error)
        return None

    def abandon(self, reason: str) -> None:
        """End the job at its present step, with a reason; no step can prevent it."""
        self.is_done, self.error = True, reason
        end(self._strand.steps)


def end(steps: Steps[Any]) -> None:
    """End steps where they are, whatever a gripper's own do about it."""
    with suppress(Exception):
        steps.close()


def perform(
    command: Command, timeout: float = float('inf'), late: str = ''
) -> Steps[Observation]:
    """
    Issue a command and return the observation with its reply; to be used with `yield from`.

    `timeout`: in ROS time [s]; motions have none, as the planner monitors them in scaled time.
    `late`: the error of a timeout.

    Raises `ExecutionError`: the command failed, or its reply timed out.
    """
    seen = yield command
    deadline = seen.t + timeout
    while seen.reply is None:
        if seen.t > deadline:
            cure = '' if isinstance(command, Compute) else ': check the driver and its log'
            raise ExecutionError(late or f'{command} was not answered within {timeout:g} s{cure}')
        seen = yield None
    if not seen.reply.ok:
        raise ExecutionError(seen.reply.reason)
    return seen


def watched(steps: Steps[None], check: Callable[[Observation], None]) -> Steps[None]:
    """Perform steps; `check` sees every observation before they do, and may raise to end them."""
    try:
        command = next(steps)
        while True:
            seen = yield command
            check(seen)
            command = steps.send(seen)
    except StopIteration:
        return
    finally:
        end(steps)


def both(steps: Steps[T], other: Steps[Any]) -> Steps[T]:
    """
    Perform `steps` and `other` side by side; return what `steps` return, once both have ended.

    An error of one ends both.
    """
    first, second = strands = _Strand(steps), _Strand(other)
    waiting: list[_Strand] = []  # whose command is to be issued
    seen = yield OBSERVE_NOW
    try:
        while True:
            waiting += [
                strand
                for strand in strands
                if not strand.is_done and strand not in waiting and strand.issues(seen)
            ]
            if first.is_done and second.is_done:
                result: T = first.result
                return result
            seen = yield (waiting.pop(0).command if waiting else None)
    finally:
        end(steps)
        end(other)
