# SPDX-License-Identifier: Apache-2.0
"""The one place that commands motion: admits it, watches it, and owns the stop latch; no ROS."""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.control.braking import brake
from ur5_pick_place.control.closed_loop import AT_REST, ClosedLoop
from ur5_pick_place.control.controller import Controller, Goal, OnEnd
from ur5_pick_place.control.health import (
    SAFETY_REDUCED,
    HealthSettings,
    RobotStatus,
    find_fault,
)
from ur5_pick_place.control.supervision import MotionMonitor, Standstill, TrackingSettings
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.trajectory import Trajectory

T = TypeVar('T')
IsWanted = Callable[[], bool]

REPLY_TIMEOUT = 2.0
"""How long the controller may take to answer a goal [s, steady clock]."""
_HOLDS = 5  # times that an ended stream is ended; nobody confirms it, and messages may be lost
_HOLDS_AT_REST = 2
_PATH_STEP = 0.02  # [s] between samples of the rest of a motion
_ELSEWHERE = 1e-3  # [rad] from where the controller holds


@dataclass(eq=False)
class _Stream:
    """A closed loop on its way; `is_wanted` of a stop that somebody asked for."""

    loop: ClosedLoop
    trajectory: Trajectory  # its roll-out
    on_end: OnEnd
    standstill: Standstill
    is_wanted: bool = False


def _locked(method: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(method)
    def locked(self: 'Executor', *args: Any, **kwargs: Any) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return locked


@dataclass
class _Latch:
    """Why no motion is taken; `is_first` until the robot was once there and well."""

    reason: str = ''
    is_first: bool = True
    unconfirmed: set[Goal] = field(default_factory=set)  # canceled goals that have not ended yet
    was_moving: bool = False  # when the fault came
    q_hold: NDArray[np.float64] | None = None  # what we asked the controller to hold
    holds: int = 0  # still to be sent


class Executor:
    """
    Executes one motion at a time.

    One lock guards its state: answers, joints and the watch may come from different threads.

    Parameters
    ----------
    planner : MotionPlanner
        Its gate looks at every motion.
    controller : Controller
    status : RobotStatus
        Kept up to date by the owner.
    settings : tuple of HealthSettings, TrackingSettings
    missing : str
        What the user has not told about the cell; non-empty refuses all motion.
    on_change : callable
        Takes the motion state whenever it is another one.
    clock : callable
        Returns the steady time [s].

    Attributes
    ----------
    stops : int
        How often `stop` was called, for who is about to start a motion.

    """

    def __init__(
        self,
        planner: MotionPlanner,
        controller: Controller,
        status: RobotStatus,
        settings: tuple[HealthSettings, TrackingSettings],
        missing: str,
        on_change: Callable[[str], object],
        clock: Callable[[], float],
    ) -> None:
        self._planner, self._controller, self.status = planner, controller, status
        self._health, self._tracking = settings
        self._missing, self._on_change, self._clock = missing, on_change, clock
        self._lock = threading.RLock()
        self._goal: Goal | None = None
        self._stream: _Stream | None = None
        self._latch = _Latch()
        self._told = ''
        self.stops = 0

    # -- what others ask ---------------------------------------------------------------------

    @property
    def motion_state(self) -> str:
        """`ready`, `moving` or `stopped: <reason>`."""
        if self._latch.reason:
            return f'stopped: {self._latch.reason}'
        if self._latch.is_first:
            return f'stopped: {self._missing or self.fault() or self._controller.missing}'
        return 'moving' if self.is_moving else 'ready'

    @property
    def is_moving(self) -> bool:
        """Whether a motion is under way, if only one that brakes after a stop."""
        return bool(self._goal or self._stream)

    def fault(self) -> str | None:
        """Why the robot must not move at this moment, or None."""
        return find_fault(self.status, self._clock(), self._health)

    def path_ahead(self) -> NDArray[np.float64] | None:
        """Return the joints (n, 6) [rad] of the rest of the motion under way; None at rest."""
        motion, q = self._goal or self._stream, self.status.q
        if motion is None or q is None:
            return None
        samples = motion.trajectory.sample(motion.trajectory.dense_times(_PATH_STEP))[0]
        nearest = int(np.abs(samples - q).max(axis=1).argmin())
        return np.vstack([q, samples[nearest:]])

    def start(
        self, trajectory: Trajectory, on_end: OnEnd, is_wanted: IsWanted = lambda: True
    ) -> None:
        """
        Gate a motion and send it.

        Parameters
        ----------
        trajectory : Trajectory
        on_end : callable
            Takes '' once the joints have arrived, else the reason.
        is_wanted : callable
            Whether nobody has canceled the motion, asked when it has passed the gate.

        Raises
        ------
        GateRefusal, ExecutionError
            Nothing was sent, and why.

        """
        self._check_ready()
        # Outside the lock: the gate takes some 50 ms, in which joint_states must be heard.
        is_reduced = self.status.safety_mode == SAFETY_REDUCED
        self._planner.check(trajectory, self.status.q, is_reduced)
        with self._lock:
            self._check_ready(is_wanted)
            self._latch.holds = 0
            self._send(trajectory, on_end)

    def start_loop(
        self,
        loop: ClosedLoop,
        rollout: Trajectory,
        on_end: OnEnd,
        is_wanted: IsWanted = lambda: True,
    ) -> None:
        """Gate the roll-out of a closed loop and run the loop; otherwise as `start`."""
        self._check_ready()
        is_reduced = self.status.safety_mode == SAFETY_REDUCED
        self._planner.check(rollout, self.status.q, is_reduced)
        with self._lock:
            self._check_ready(is_wanted)
            self._latch.holds = 0
            self._stream = _Stream(loop, rollout, on_end, Standstill(self._tracking.stall_time))
            self._tell()

    def _check_ready(self, is_wanted: IsWanted = lambda: True) -> None:
        if not is_wanted():
            raise ExecutionError('motion refused: it was stopped before it began')
        state = self.motion_state
        if state != 'ready':
            cure = '; call ~/rearm once the cause is gone' if self._latch.reason else ''
            raise ExecutionError(f'motion refused, planner is {state}{cure}')
        if fault := self.fault() or self._controller.missing:
            raise ExecutionError(f'motion refused: {fault}')

    @_locked
    def stop(self, reason: str, latch: bool) -> None:
        """Brake along the path; `latch` = refuse all motion until rearmed."""
        self.stops += 1
        if latch and not self._latch.reason:
            self._latch.reason = reason
        goal = self._goal
        if goal and not goal.stop_reason:
            t = goal.time_at(self.status.stamp, self.status.speed_scaling)
            if goal.is_accepted and t < goal.trajectory.duration:
                stopping = brake(
                    goal.trajectory,
                    max(t, 0.0),
                    self._planner.limits,
                    self._tracking.takeover_time,
                )
                self._send(stopping, goal.on_end, self.status.stamp)
                self._goal.stop_reason = reason
            else:
                goal.stop_reason = reason
                self._controller.cancel()
        if self._stream and not self._stream.loop.stop_reason:
            self._stream.is_wanted = True
            self._stream.loop.stop(reason)
        self._tell()

    @_locked
    def fail(self, reason: str) -> None:
        """
        A fault: cancel at once, also while the arm is frozen, and latch.

        What was canceled is canceled again at every watch until the controller confirms it, so
        that nothing goes on when the cause goes away.

        """
        self._latch.reason = self._latch.reason or reason
        self._latch.was_moving |= self.is_moving
        if self._goal:
            if not self._goal.has_arrived:  # else the controller has ended it already
                self._latch.unconfirmed.add(self._goal)
            self._controller.cancel()
            self._finish(reason)
        if self._stream:
            self._end_stream()
            self._finish(reason)
        self._tell()

    @_locked
    def fail_if_moving(self, reason: str) -> None:
        """Do so only if a motion is under way."""
        if self.is_moving:
            self.fail(reason)

    @_locked
    def rearm(self) -> str:
        """Open the latch and return '', or return why it stays shut."""
        if self._missing:
            return self._missing
        if self.is_moving:
            return 'the arm is still coming to rest; try again'
        if fault := self.fault():
            return f'the cause persists: {fault}'
        if self._controller.missing:
            return self._controller.missing
        if self._latch.unconfirmed:
            return (
                'the controller has not confirmed the end of the last motion; try again, or '
                'restart the driver'
            )
        self._latch = _Latch(is_first=False)
        self._tell()
        return ''

    # -- what the robot and its controller say -------------------------------------------------

    @_locked
    def on_joints(self) -> None:
        """Look at the joints that `status` now holds."""
        status, goal = self.status, self._goal
        if status.bad_joints:
            self.watch()
            return
        if self._stream and status.q is not None and status.qd is not None:
            self._tick(self._stream)
        if goal is None or status.q is None or status.qd is None:
            return
        lost = goal.monitor.tick(status.stamp, status.q, status.speed_scaling)
        if goal.has_arrived and goal.monitor.arrived(status.q, status.qd):
            self._finish(goal.stop_reason)
            self._tell()
        elif lost and goal.is_accepted:
            self.fail(lost)
        elif goal.monitor.is_overdue:
            self.fail('the motion has not ended in time; its goal was not reached')

    @_locked
    def watch(self) -> None:
        """Look for faults and silence; to be called often, and whenever a mode changes."""
        fault = self._missing or self.fault()
        if fault and not self._latch.is_first:
            self.fail(fault)
        elif not fault and self._latch.is_first:
            self._latch.is_first = bool(self._controller.missing)
        goal = self._goal
        if goal and not goal.is_accepted and self._clock() - goal.sent > REPLY_TIMEOUT:
            self.fail(f'the controller did not answer the goal within {REPLY_TIMEOUT} s')
        elif goal and self._controller.missing:
            self.fail(self._controller.missing)
        if self._latch.unconfirmed:
            if self._controller.missing:
                self._latch.unconfirmed.clear()  # it is gone, and its goals with it
            else:
                self._controller.cancel()
        self._hold_where_frozen()
        self._hold()
        self._tell()

    @_locked
    def on_answer(self, goal: Goal, is_accepted: bool) -> None:
        """Hear whether the controller takes a goal."""
        if not is_accepted:
            self._latch.unconfirmed.discard(goal)
            if goal is self._goal:
                self.fail(
                    'the controller refused the motion: it is not active or another one is; see '
                    'controller_manager/list_controllers and the log of the driver'
                )
                self._latch.unconfirmed.discard(goal)
        elif goal is self._goal:
            goal.is_accepted = True
        elif goal in self._latch.unconfirmed:
            self._controller.cancel()  # answered after we had given it up

    def on_feedback(self, goal: Goal, stamp: float, t: float) -> None:
        """Hear where in a goal's trajectory the controller was at a stamp [s]."""
        goal.progress = (stamp, t)

    @_locked
    def on_result(self, goal: Goal, failure: str) -> None:
        """Hear that a goal has ended, with '' or why it did not succeed."""
        self._latch.unconfirmed.discard(goal)
        if goal is not self._goal:
            return
        if not failure:
            goal.has_arrived = True
        elif goal.stop_reason:
            self._finish(goal.stop_reason)
            self._tell()
        else:
            self.fail(self.fault() or failure)
            self._latch.unconfirmed.discard(goal)

    # -- within --------------------------------------------------------------------------------

    def _send(self, trajectory: Trajectory, on_end: OnEnd, begin: float = 0.0) -> None:
        """Send a goal that begins at the stamp `begin` [s], or on arrival."""
        # Stamps, not this machine's clock: on a busy one /clock arrives later than the joints.
        stamp = self.status.stamp
        monitor = MotionMonitor(trajectory, self._tracking, stamp)
        self._goal = Goal(trajectory, monitor, on_end, self._clock(), begin, (stamp, 0.0))
        self._controller.send(self._goal)
        self._tell()

    def _tick(self, stream: _Stream) -> None:
        """Let a closed loop look at the joints, and send what it wants to."""
        loop, status = stream.loop, self.status
        window = loop.tick(status.stamp, status.q, status.qd, status.speed_scaling)
        if window is not None:
            self._controller.follow(window)
        if loop.stop_reason and not stream.is_wanted:
            self._latch.reason = self._latch.reason or loop.stop_reason
        if loop.outcome:
            self._end_stream()  # a slider at zero may have frozen the rest of its ramp
        if loop.outcome is not None:
            self._finish(loop.outcome)
        elif lost := stream.standstill.tick(status.stamp, status.q, loop.q_planned):
            self.fail(lost)
        self._tell()

    def _end_stream(self) -> None:
        """
        Let the arm hold where it is, also while it is frozen.

        With old or impossible joints nothing is sent: what was sent last ends at rest by itself,
        while a place that the arm has left would pull it back.

        """
        if self._knows_joints:
            self._latch.q_hold, self._latch.holds = self.status.q, _HOLDS
            self._hold()

    def _hold_where_frozen(self) -> None:
        """
        Let an arm that the robot has frozen hold where it came to rest.

        Since the cancel the controller holds where it was measured then: a servo lag and a way of
        braking ago, at full speed up to 0.1 rad, by which the arm would go back, unasked, as soon
        as somebody unlocks it or presses Play.

        """
        status, latch = self.status, self._latch
        if not (latch.was_moving and status.is_frozen and self._knows_joints):
            return
        if latch.unconfirmed or latch.holds or np.abs(status.qd).max() > AT_REST:
            return
        if latch.q_hold is None or np.abs(status.q - latch.q_hold).max() > _ELSEWHERE:
            latch.q_hold, latch.holds = status.q, _HOLDS_AT_REST

    @property
    def _knows_joints(self) -> bool:
        """Whether the joints are true and fresh."""
        silence = self._clock() - (self.status.heard or 0.0)
        return not self.status.bad_joints and silence <= self._health.joint_state_timeout

    def _hold(self) -> None:
        if self._latch.holds and self._latch.q_hold is not None:
            self._latch.holds -= 1
            self._controller.hold(self._latch.q_hold)

    def _finish(self, reason: str) -> None:
        ended, self._goal, self._stream = self._goal or self._stream, None, None
        if ended:
            ended.on_end(reason)

    def _tell(self) -> None:
        state = self.motion_state
        if state != self._told:
            self._told = state
            self._on_change(state)
