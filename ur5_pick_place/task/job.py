# SPDX-License-Identifier: Apache-2.0
"""
A job: what to do next, given what is seen; it owns no clock, thread or ROS.

A job's steps are generators that yield a command (or None, to wait) and are sent the next
observation. That keeps a sequence such as "set the pin, wait until it shows" readable from top to
bottom, and lets a test drive it with made-up observations.

"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ur5_pick_place.errors import ExecutionError, Ur5PickPlaceError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.inertias import Load
from ur5_pick_place.planning.trajectory import Trajectory


@dataclass(frozen=True)
class Observation:
    """
    What is seen of the robot at one tick.

    Attributes
    ----------
    t : float
        ROS time [s].
    q : ndarray, shape (6,)
        Measured joints [rad].
    inputs, outputs : mapping of int to bool
        Digital pins as last shown in io_states; a pin that was never shown is absent.
    tool_voltage : int or None
        As last shown in tool_data [V].
    stopped : str
        Why the planner is stopped, or the robot cannot be seen; empty if neither.
    reply : str or None
        To the last command: None while it runs, '' when it is done, else why it failed.
    is_at_rest : bool
        Whether the joints have not moved for a moment.
    speed_scaling : float
        0 to 1, by the robot's slider and by its own slowing down.

    """

    t: float
    q: Array
    inputs: Mapping[int, bool] = field(default_factory=lambda: MappingProxyType({}))
    outputs: Mapping[int, bool] = field(default_factory=lambda: MappingProxyType({}))
    tool_voltage: int | None = None
    stopped: str = ''
    reply: str | None = None
    is_at_rest: bool = True
    speed_scaling: float = 1.0

    def with_reply(self, reply: str | None) -> 'Observation':
        """Return the same with a reply."""
        return replace(self, reply=reply)


@dataclass(frozen=True)
class RunMotion:
    """Execute a trajectory, or run the loop of the method that made it, until the arm is there."""

    trajectory: Trajectory
    method: str = ''


@dataclass(frozen=True)
class SetOutput:
    """Set a digital output; done when the driver has queued it, which proves nothing yet."""

    pin: int
    state: bool


@dataclass(frozen=True)
class SetToolVoltage:
    """Set the tool supply [V]."""

    voltage: int


@dataclass(frozen=True)
class SetPayload:
    """
    Tell the robot what it carries.

    Attributes
    ----------
    mass : float
        [kg]
    centre : tuple of float
        Centre of gravity in tool0 [m].
    inertia : tuple of float
        About that centre, along the axes of tool0: xx, yy, zz, xy, xz, yz [kg m2].

    """

    mass: float
    centre: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float] = (0.0,) * 6


@dataclass(frozen=True)
class Carry:
    """Tell the planner what is in the hand from now on: the part as a load in tool0, or None."""

    load: Load | None


@dataclass(frozen=True)
class Compute:
    """Do what takes longer than a tick, beside the ticks; done when `work` has returned."""

    work: Callable[[], object]

    def attempt(self) -> str:
        """Do it; return '' or why it failed."""
        try:
            self.work()
        except Ur5PickPlaceError as error:
            return str(error)
        return ''


Command = RunMotion | SetOutput | SetToolVoltage | SetPayload | Carry | Compute
Steps = Generator[Command | None, Observation, None]


def silent_io(limit: float) -> str:
    """Say that the pins are not seen any more."""
    return f'io_states silent for more than {limit} s: check the driver and the link to the robot'


class Job:
    """
    Runs steps, one tick at a time.

    Parameters
    ----------
    name : str
    steps : generator

    """

    def __init__(self, name: str, steps: Steps) -> None:
        self.name = name
        self.is_done = False
        self.error = ''
        """Why the job ended before its last step; empty if it did not."""
        self._steps = steps
        self._is_started = False

    def tick(self, seen: Observation) -> Command | None:
        """Return the next command, or None; a stopped planner ends the job at once."""
        if self.is_done:
            return None
        try:
            if seen.stopped:
                self._steps.throw(ExecutionError(seen.stopped))
            if not self._is_started:
                self._is_started = True
                return next(self._steps)
            return self._steps.send(seen)
        except StopIteration:
            self.is_done = True
        except Ur5PickPlaceError as error:
            self.is_done, self.error = True, str(error)
        return None

    def abandon(self, reason: str) -> None:
        """End the job where it is."""
        self._steps.close()
        self.is_done, self.error = True, reason


def perform(command: Command, timeout: float = float('inf')) -> Generator:
    """
    Issue a command and wait for its end; a step to `yield from`.

    Parameters
    ----------
    command : Command
    timeout : float
        In ROS time [s]; motions have none, the planner watches them in scaled time.

    Returns
    -------
    Observation
        The one that carried the reply.

    Raises
    ------
    ExecutionError
        The command failed, or was not answered in time.

    """
    seen = yield command
    deadline = seen.t + timeout
    while seen.reply is None:
        if seen.t > deadline:
            raise ExecutionError(f'{command} was not answered within {timeout} s')
        seen = yield None
    if seen.reply:
        raise ExecutionError(seen.reply)
    return seen
