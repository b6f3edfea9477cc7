# SPDX-License-Identifier: Apache-2.0
"""The interface of the robot's trajectory controller, and the goals sent to it."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from ur5_pick_place.control.loops.streamed_loop import TrajectorySegment
from ur5_pick_place.control.motion_monitor import MotionMonitor
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import OnOutcome, Outcome
from ur5_pick_place.planning.paths.trajectory import Trajectory

REPLY_TIMEOUT = 2.0
"""Largest time for the controller to answer a goal [s, steady clock]."""

_BEFORE = -0.05  # [s]; an earlier time in the trajectory means that the clock was set back
# [s], plus 1.5 cycles per point, that the passthrough controller needs to transfer a trajectory
_TRANSFER = 0.5
# [s] from sending to acceptance; above it the goal itself may have been delayed, not only the
# answer: an arm that has not moved by then may still begin.
_LATE = 0.05
_AT_REST_TIME = 2.0  # [s] by stamps of joint_states, for the arm to come to rest after a cancel


def transfer_time(trajectory: Trajectory) -> float:
    """Return how long the driver takes to transfer a whole trajectory to the robot [s]."""
    return _TRANSFER + 1.5 * CYCLE * len(trajectory.t)


class StopProgress(Enum):
    """How far a stop of the arm has come, by the measured joints."""

    OVER = 'no stop is active any more'
    UNSEEN = 'no recent joint_states show the arm'
    BRAKING = 'the arm is at rest or slows down'
    MOVING_ON = 'the arm does not slow down, or has moved for longer than any braking takes'


@dataclass(eq=False)
class Goal:
    """
    A motion that was sent to the controller.

    Attributes
    ----------
    trajectory : Trajectory
    monitor : MotionMonitor
    on_end : callable
        Called once, at the end, with the outcome: `DONE` if the joints have arrived.
    sent : float
        Time of sending [s, steady clock].
    begin : float
        Stamp at which it begins [s]; 0 = on arrival.
    speed_scaling : float
        The robot's at that stamp.
    progress : tuple of float
        Stamp [s], and the time in the trajectory [s] that the controller reported for it.
    replaced : ndarray, shape (n,), optional
        When the controller passes the points of the motion that it replaces [s].
    waits : int
        How often its stop has waited for a better moment.
    is_accepted, has_arrived : bool
        As the controller reports; the measured joints decide.
    began_late : bool
        Whether it began some time after it was sent: without feedback it is then unknown at what
        time of the trajectory the arm is.
    stop_reason : str
        Why it ends early; set while it brakes or is canceled.
    is_canceled : bool
        Whether it is being canceled; the request is repeated until it has ended.
    has_ended_early : bool
        Whether it has ended early; the arm may still be coming to rest.
    ended_at : float
        Stamp of the joints when it ended early [s].
    prepared : object
        The trajectory in the controller's own form, if it begins on arrival.
    id : bytes
        The id under which the controller reports it.

    """

    trajectory: Trajectory
    monitor: MotionMonitor
    on_end: OnOutcome
    sent: float
    begin: float
    speed_scaling: float
    progress: tuple[float, float]
    prepared: Any
    replaced: Array | None = None
    waits: int = 0
    is_accepted: bool = False
    has_arrived: bool = False
    began_late: bool = False
    stop_reason: str = ''
    is_canceled: bool = False
    ended_at: float = 0.0
    has_ended_early: bool = False
    id: bytes = field(default_factory=lambda: uuid.uuid4().bytes)

    def time_at(self, stamp: float, speed_scaling: float) -> float:
        """Return the time in the trajectory at `stamp`, both in [s]."""
        return self.progress[1] + (stamp - self.progress[0]) * speed_scaling

    @property
    def segment(self) -> TrajectorySegment:
        """The motion as a segment that begins at the stamp `begin`."""
        return TrajectorySegment(self.trajectory, 0.0, self.begin, self.speed_scaling)

    def allow_late_start(self, status: RobotStatus) -> None:
        """Allow for a late start if it was accepted late and the arm has not begun to move."""
        is_late = status.stamp - self.progress[0] > _LATE
        if not is_late or self.begin > 0.0 or self.has_feedback or status.q is None:
            return
        self.began_late = self.monitor.allow_late_start(status.q)

    @property
    def has_feedback(self) -> bool:
        """Whether the controller has reported a time in its trajectory."""
        return self.progress[1] > 0.0

    def is_running_at(self, t: float) -> bool:
        """Return whether the controller is known to follow it, at time `t` [s] of its plan."""
        is_known = self.has_feedback or not self.began_late
        return self.is_accepted and is_known and _BEFORE < t < self.trajectory.duration

    def failure(self, now: float, stamp: float) -> str:
        """Return why it has failed at a steady time `now` and a stamp of the joints, both [s]."""
        if not self.is_accepted and now - self.sent > REPLY_TIMEOUT:
            return f'the controller did not answer the goal within {REPLY_TIMEOUT} s'
        if self.has_ended_early and stamp - self.ended_at > _AT_REST_TIME:
            return 'the arm does not come to rest after its goal was canceled'
        return ''

    @property
    def is_braking(self) -> bool:
        """Whether it is a braking motion that is not canceled."""
        return bool(self.stop_reason) and not self.is_canceled


class GoalListener(Protocol):
    """Receives what the controller reports about a goal, in any thread."""

    def on_answer(self, goal: Goal, is_accepted: bool) -> None:
        """Called when the controller has accepted or rejected the goal."""
        ...

    def on_feedback(self, goal: Goal, stamp: float, t: float) -> None:
        """Called when the controller was at time `t` of the trajectory at `stamp`, both [s]."""
        ...

    def on_result(self, goal: Goal, outcome: Outcome) -> None:
        """Called when the controller reports the end of an accepted goal."""
        ...


class Controller(Protocol):
    """What the execution manager needs of the robot's trajectory controller."""

    @property
    def why_unavailable(self) -> str:
        """Why it is not available now; empty if it is."""
        ...

    @property
    def why_no_stream(self) -> str:
        """Why it cannot follow a stream of trajectories; empty if it can."""
        ...

    @property
    def conflict(self) -> str:
        """Why commands might reach another arm, or be scaled by its speed slider; empty if not."""
        ...

    @property
    def goals(self) -> frozenset[bytes]:
        """Ids of the goals that it reports as not ended, from any client."""
        ...

    @property
    def why_not_canceled(self) -> str:
        """Why a goal goes on although it was canceled, and what to do; empty if unknown."""
        ...

    def prepare(self, trajectory: Trajectory) -> Any:
        """Return what is sent for a trajectory, for `Goal.prepared`; may take long."""
        ...

    def may_replace(self, points: Array, stamp: float) -> bool:
        """
        Return whether a motion may now replace one that passes its points at stamps (n,) [s].

        `stamp` is that of the latest joints [s].

        """
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

    def stop_other_motion(self, stop_progress: Callable[[], StopProgress]) -> None:
        """
        Deactivate the other controllers that move the arm.

        If none is active, stop the trajectory that our controller follows.

        Parameters
        ----------
        stop_progress : callable
            Returns how far the stop has come; called when the controller manager has answered,
            which may be late.

        """
        ...
