# SPDX-License-Identifier: Apache-2.0
"""What the execution manager needs of the robot's trajectory controller, and what it sends."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ur5_pick_place.control.closed_loop import TrajectorySegment
from ur5_pick_place.control.motion_monitor import MotionMonitor
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.trajectory import Trajectory

OnEnd = Callable[[str], object]

REPLY_TIMEOUT = 2.0
"""Time within which the controller must answer a goal [s, steady clock]."""


@dataclass(eq=False)
class Goal:
    """
    A motion on its way.

    Attributes
    ----------
    trajectory : Trajectory
    monitor : MotionMonitor
    on_end : callable
        Takes '' once the joints have arrived, else the reason why not.
    sent : float
        Steady clock [s].
    begin : float
        Stamp at which it begins [s]; 0 = on arrival.
    progress : tuple of float
        Stamp [s], and where the controller was in the trajectory then, by its own report [s].
    is_accepted, has_arrived : bool
        By the controller's report; the joints have the last word.
    stop_reason : str
        Why it is to end early; set while it brakes or is canceled.
    is_canceled : bool
        Whether it is canceled, again and again, until it has ended.
    has_stopped : bool
        Whether it has ended early; the arm may still be coming to rest.
    stopped_at : float
        Stamp of the joints then [s].
    prepared : object
        The trajectory as the controller takes it.
    id : bytes
        Under which the controller reports it.

    """

    trajectory: Trajectory
    monitor: MotionMonitor
    on_end: OnEnd
    sent: float
    begin: float
    progress: tuple[float, float]
    prepared: Any
    is_accepted: bool = False
    has_arrived: bool = False
    stop_reason: str = ''
    is_canceled: bool = False
    stopped_at: float = 0.0
    has_stopped: bool = False
    id: bytes = field(default_factory=lambda: uuid.uuid4().bytes)

    def time_at(self, stamp: float, speed_scaling: float) -> float:
        """Return where the controller is in the trajectory at `stamp` [s]."""
        return self.progress[1] + (stamp - self.progress[0]) * speed_scaling

    @property
    def is_braking(self) -> bool:
        """Whether it is the motion that brakes, and may do so."""
        return bool(self.stop_reason) and not self.is_canceled


class GoalListener(Protocol):
    """Takes what the controller reports of a goal, in any thread."""

    def on_answer(self, goal: Goal, is_accepted: bool) -> None:
        """Take whether the controller accepts the goal."""
        ...

    def on_feedback(self, goal: Goal, stamp: float, t: float) -> None:
        """Take where in the goal's trajectory `t` the controller was at `stamp`, both [s]."""
        ...

    def on_result(self, goal: Goal, failure: str) -> None:
        """Take the end of an accepted goal: '' or why it did not succeed."""
        ...


class Controller(Protocol):
    """The robot's trajectory controller."""

    @property
    def missing(self) -> str:
        """Why it takes no requests now; empty if it does."""
        ...

    @property
    def goals(self) -> frozenset[bytes]:
        """Ids of the goals that it reports as not ended, from any client."""
        ...

    def prepare(self, trajectory: Trajectory) -> Any:
        """Return what is sent for a trajectory, for `Goal.prepared`; may take long."""
        ...

    def send(self, goal: Goal, listener: GoalListener) -> None:
        """Send a goal and report to `listener` what becomes of it."""
        ...

    def cancel(self) -> None:
        """Request the cancellation of every goal, from any client."""
        ...

    def follow(self, segment: TrajectorySegment) -> None:
        """Let it follow a segment in place of the one before."""
        ...

    def hold(self, q: Array) -> None:
        """Let it hold joint positions (6,) [rad] in place of what it follows."""
        ...

    def take_over(self) -> None:
        """Deactivate any other controller that moves the arm."""
        ...
