# SPDX-License-Identifier: Apache-2.0
"""The interface of the robot's trajectory controller, and the goals sent to it."""

import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from ur5_pick_place.control.escalation import Controllers
from ur5_pick_place.control.loops.stream import TrajectorySegment
from ur5_pick_place.control.motion_monitor import MotionMonitor
from ur5_pick_place.control.path_position import path_from
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.control.stop_trajectory import brake
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import OnOutcome, Outcome
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner

REPLY_TIMEOUT = 2.0
"""Largest time for the controller to answer a goal [s, steady clock]."""

_BEFORE = -0.05  # [s]; an earlier time in the trajectory means that the clock was set back
# [s], plus 1.5 cycles per point, that the passthrough controller needs to transfer a trajectory
_TRANSFER = 0.5
# [s] from sending to acceptance; above it the goal itself may have been delayed, not only the
# answer: an arm that has not moved by then may still begin.
_LATE = 0.05
# [s] from acceptance to the first feedback, which comes at 20 Hz, and until it is received here
_FIRST_FEEDBACK = 0.15
# An arm follows its plan if its joint velocities are those of the plan at some time up to _LAG [s]
# earlier, within a share of the speed and a slack [rad/s].
_LAG, _SHARE, _SLACK = 0.1, 0.5, 0.03
_AT_REST_TIME = 2.0  # [s] by stamps of joint_states, for the arm to come to rest after a cancel


def transfer_time(trajectory: Trajectory) -> float:
    """Return how long the driver takes to transfer a whole trajectory to the robot [s]."""
    return _TRANSFER + 1.5 * CYCLE * len(trajectory.t)


class Phase(Enum):
    """What becomes of a goal; whether the controller has accepted it is another question."""

    RUNNING = 'the arm follows it to its end'
    BRAKING = 'it brakes the arm on the path of the motion that it replaced'
    CANCELING = 'its cancellation is requested until it has ended'
    SETTLING = 'it has ended early, and the arm comes to rest'


_NEXT = {
    Phase.RUNNING: {Phase.CANCELING},
    Phase.BRAKING: {Phase.CANCELING, Phase.SETTLING},
    Phase.CANCELING: {Phase.CANCELING, Phase.SETTLING},
    Phase.SETTLING: {Phase.SETTLING},
}


@dataclass(eq=False)
class Goal:
    """
    A motion that was sent to the controller.

    Times are stamps of joint states [s] or times in its trajectory [s], but for `sent`. The
    controller reports that it was accepted and has arrived; the measured joints decide.
    """

    trajectory: Trajectory
    monitor: MotionMonitor
    on_end: OnOutcome  # called once, at the end: `DONE` if the joints have arrived
    sent: float  # [s, steady clock]
    begin: float  # stamp; 0 = on arrival
    speed_scaling: float  # of the robot at that stamp
    progress: tuple[float, float]  # a stamp, and the time in the trajectory reported for it
    prepared: Any  # the trajectory in the controller's own form, if it begins on arrival
    replaced: Array | None = None  # stamps (n,) at which the points of the motion before pass
    stop_reason: str = ''  # why it ends early
    phase: Phase = Phase.RUNNING
    # Why it is to stop at the next joints, as these were old, showed no motion yet, or came at a
    # bad moment; `on_joints` tries again, and the bound on silent joints ends the wait.
    pending_stop: str = ''
    waits: int = 0  # how often its stop has waited for a better moment
    is_accepted: bool = False
    accepted: float = 0.0  # stamp of the joints at that
    has_arrived: bool = False
    began_late: bool = False  # without feedback it is then unknown where in it the arm is
    settles_since: float = 0.0
    id: bytes = field(default_factory=lambda: uuid.uuid4().bytes)  # as the controller reports it

    def enter(self, phase: Phase, reason: str = '') -> None:
        """Enter a phase that may follow the present one; a reason is added to those before."""
        assert phase in _NEXT[self.phase], (self.phase, phase)
        self.phase, self.pending_stop = phase, ''
        self.stop_reason = '; then '.join(filter(None, (self.stop_reason, reason)))

    def settle(self, stamp: float) -> None:
        """Wait from `stamp` on for the arm to come to rest: it has ended early."""
        self.enter(Phase.SETTLING)
        self.settles_since = stamp

    @property
    def within(self) -> tuple[float, float]:
        """The times of the trajectory between which the arm is."""
        return self.monitor.within

    @property
    def is_canceled(self) -> bool:
        """Whether the controller must end it, should it still have or receive it."""
        return self.phase in (Phase.CANCELING, Phase.SETTLING)

    def time_at(self, stamp: float, speed_scaling: float) -> float:
        """Return the time in the trajectory at a stamp."""
        return self.progress[1] + (stamp - self.progress[0]) * speed_scaling

    @property
    def segment(self) -> TrajectorySegment:
        """The motion as a segment that begins at the stamp `begin`."""
        return TrajectorySegment(self.trajectory, 0.0, self.begin, self.speed_scaling)

    def accept(self, status: RobotStatus) -> None:
        """Take that it was accepted; it may begin late if that is late and the arm is at rest."""
        self.is_accepted, self.accepted = True, status.stamp
        is_late = status.stamp - self.progress[0] > _LATE
        if is_late and self.begin == 0.0 and not self.has_feedback and status.q is not None:
            self.began_late = self.monitor.allow_late_start(status.q)

    @property
    def has_feedback(self) -> bool:
        """Whether the controller has reported a time in its trajectory."""
        return self.progress[1] > 0.0

    def is_starting(self, stamp: float) -> bool:
        """Return whether its feedback is to tell yet where the arm is in it, at a stamp [s]."""
        is_due = stamp - self.accepted < _FIRST_FEEDBACK
        return self.is_accepted and not self.has_feedback and is_due

    def braking(
        self, status: RobotStatus, planner: MotionPlanner, takeover_time: float, now: float
    ) -> Trajectory | None:
        """
        Return the motion that brakes it on its path; None if it is to be canceled.

        It begins at the stamp of the joints. The controller has `takeover_time` [s] from the
        steady time `now` [s] on to receive it before it brakes.
        """
        t = self.time_at(status.stamp, status.speed_scaling)
        is_known = self.is_accepted and (self.has_feedback or not self.began_late)
        is_running = is_known and _BEFORE < t < self.trajectory.duration
        if status.is_slow or not is_running or not self.is_followed(status, t):
            return None
        delay = takeover_time + status.speed_scaling * status.age(now)
        return brake(self.trajectory, max(t, 0.0), planner.limits, delay, planner.dynamics)

    def is_followed(self, status: RobotStatus, t: float) -> bool:
        """
        Return whether the arm has the plan's velocities of its time t [s], or just before.

        It has not if somebody else has stopped it and this node does not know it yet: pick_place
        cancels all goals where this node answers its stop late, as it may on a busy PC.
        """
        if status.qd is None:
            return False
        earlier = np.maximum(t - np.linspace(0.0, _LAG, 11) * status.speed_scaling, 0.0)
        planned = status.speed_scaling * self.trajectory.sample(earlier)[1]
        off, speed = np.abs(status.qd - planned).max(axis=1), np.abs(planned).max(axis=1)
        return bool((off <= _SHARE * speed + _SLACK).any())

    def path_ahead(self, q: Array) -> Array:
        """Return the joints (n, 6) [rad] that it will pass from `q` (6,) on."""
        return path_from(q, self.trajectory, self.within)

    def failure(self, now: float, stamp: float) -> str:
        """Return why it has failed at a steady time `now` and a stamp of the joints, both [s]."""
        if not self.is_accepted and now - self.sent > REPLY_TIMEOUT:
            return f'the controller did not answer the goal within {REPLY_TIMEOUT} s'
        if self.phase is Phase.SETTLING and stamp - self.settles_since > _AT_REST_TIME:
            return 'the arm does not come to rest after its goal was canceled'
        return ''


class GoalListener(Protocol):
    """Receives what the controller reports about a goal, in any thread."""

    def on_answer(self, goal: Goal, is_accepted: bool) -> None:
        """Called when the controller has accepted or rejected the goal."""

    def on_feedback(self, goal: Goal, stamp: float, t: float) -> None:
        """Called when the controller was at time `t` of the trajectory at `stamp`, both [s]."""

    def on_result(self, goal: Goal, outcome: Outcome) -> None:
        """Called when the controller reports the end of an accepted goal."""


class Controller(Controllers, Protocol):
    """What the execution manager needs of the robot's trajectory controller."""

    @property
    def why_unavailable(self) -> str:
        """Why it is not available now; empty if it is."""

    @property
    def why_no_stream(self) -> str:
        """Why it cannot follow a stream of trajectories; empty if it can."""

    @property
    def conflict(self) -> str:
        """Why commands might reach another arm, or be scaled by its speed slider; empty if not."""

    @property
    def goals(self) -> frozenset[bytes]:
        """Ids of the goals that it reports as not ended, from any client."""

    @property
    def why_not_canceled(self) -> str:
        """Why a goal goes on although it was canceled, and what to do; empty if unknown."""

    def prepare(self, trajectory: Trajectory) -> Any:
        """Return what is sent for a trajectory, for `Goal.prepared`; may take long."""

    def may_replace(self, points: Array, stamp: float) -> bool:
        """
        Return whether a motion may now replace one that passes its points at stamps (n,) [s].

        `stamp` is that of the latest joints [s].
        """

    def send(self, goal: Goal, listener: GoalListener) -> None:
        """Send a goal and report to `listener` what becomes of it."""

    def follow(self, segment: TrajectorySegment) -> None:
        """Let it follow a segment in place of the one before."""

    def hold(self, q: Array) -> None:
        """Let it hold joint positions (6,) [rad] in place of what it follows."""
