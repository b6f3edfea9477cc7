# SPDX-License-Identifier: Apache-2.0
"""The one place that commands motion: admits it, watches it, and stops the arm; no ROS."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ur5_pick_place.control.closed_loop import ClosedLoop
from ur5_pick_place.control.controller import REPLY_TIMEOUT, Controller, Goal, OnEnd
from ur5_pick_place.control.foreign_motion import ForeignMotion
from ur5_pick_place.control.motion_monitor import (
    MotionMonitor,
    StallDetector,
    TrackingSettings,
    path_from,
)
from ur5_pick_place.control.motion_state import (
    MotionState,
    motion_state_text,
    parse_motion_state,
)
from ur5_pick_place.control.robot_status import (
    SAFETY_REDUCED,
    HealthSettings,
    RobotStatus,
    find_fault,
    is_frozen,
    mode_fault,
)
from ur5_pick_place.control.stop_latch import StopLatch
from ur5_pick_place.control.stop_trajectory import brake
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.locking import locked
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.trajectory import Trajectory

IsWanted = Callable[[], bool]

_BRAKE_REPLY = 0.25  # [s] for the controller to accept the braking motion; then all is canceled
_SLOW = 0.2  # speed scaling below which a cancel is as gentle as braking, and quicker
_BEFORE = -0.05  # [s]; an earlier time in the trajectory means that the clock was set back
_FRESH = 0.1  # [s]; older joints are not the present ones
_SET_BACK = 0.1  # [s]; stamps that decrease by more mean that the clock was set back
_BLIND_PERIOD = 0.1  # [s] between two cancels while no joints are received
_AT_REST_TIME = 2.0  # [s] of robot time for the arm to come to rest after a cancel


@dataclass(eq=False)
class _Stream:
    """A running closed loop; `is_wanted` = its stop was requested."""

    loop: ClosedLoop
    trajectory: Trajectory  # its roll-out
    on_end: OnEnd
    stall: StallDetector
    is_wanted: bool = False
    stamp: float = 0.0


class ExecutionManager:
    """
    Executes one motion at a time, and stops the arm, whatever moves it.

    One lock guards its state: answers, joints and `watch` may come from different threads.

    Parameters
    ----------
    planner : MotionPlanner
        Its gate checks every motion.
    controller : Controller
    status : RobotStatus
        Kept up to date by the owner.
    settings : tuple of HealthSettings, TrackingSettings
    missing : str
        Settings of the cell that the user has not given; non-empty refuses all motion.
    on_change : callable
        Called with the motion state when it changes.
    clock : callable
        Returns the steady time [s].

    Attributes
    ----------
    stops : int
        Number of calls of `stop`, for callers that are about to start a motion.
    is_free : bool
        Whether the arm is guided by hand (freedrive), set by the owner.

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
        self._gating = threading.Lock()
        self._goal: Goal | None = None
        self._stream: _Stream | None = None
        self._latch = StopLatch(controller, status, clock)
        self._others = ForeignMotion(clock())
        self._open: dict[bytes, float] = {}  # our goals that have not ended: when they were sent
        self._last_watch = clock()
        self._canceled_blindly = 0.0
        self._published_state = ''
        self.stops = 0
        self.is_free = False

    # -- requests ------------------------------------------------------------------------------

    @property
    def motion_state(self) -> str:
        """`ready`, `moving` or `stopped: <reason>`."""
        if self._latch.reason:
            return motion_state_text(MotionState.STOPPED, self._latch.reason)
        if self._latch.is_first:
            reason = self._missing or self._obstacle or 'checking the robot'
            return motion_state_text(MotionState.STOPPED, reason)
        return motion_state_text(MotionState.MOVING if self.is_moving else MotionState.READY)

    @property
    def is_moving(self) -> bool:
        """Whether a motion is running, including one that brakes after a stop."""
        return bool(self._goal or self._stream)

    def fault(self) -> str | None:
        """Return why the robot must not move now, or None."""
        return find_fault(self.status, self._clock(), self._health, bool(self._stream))

    @property
    def _obstacle(self) -> str:
        """Why robot or controller do not allow a motion to start; empty if they do."""
        if obstacle := self.fault() or self._controller.missing:
            return obstacle
        if self.has_goals:
            return 'the controller still has a goal, which is being canceled'
        return '' if self.is_free or self.is_at_rest else 'the arm is moving'

    @property
    def is_at_rest(self) -> bool:
        """Whether the joints show the arm at rest."""
        return self._others.stillness.is_at_rest

    @property
    def has_goals(self) -> bool:
        """Whether the controller has a goal that has not ended, or may still receive ours."""
        return bool(self._open or self._controller.goals)

    def remaining_path(self) -> Array | None:
        """Return the joints (n, 6) [rad] of the rest of the running motion; None if none runs."""
        motion, q = self._goal or self._stream, self.status.q
        if motion is None or q is None:
            return None
        return path_from(q, motion.trajectory)

    def check_remaining_path(self) -> None:
        """Stop a motion whose rest collides in the present scene."""
        path = self.remaining_path()
        if path is not None and (obstacle := self._planner.obstacle(path)):
            self.stop(f'the scene has changed: {obstacle}', latch=False)

    def start(
        self, trajectory: Trajectory, on_end: OnEnd, is_wanted: IsWanted = lambda: True
    ) -> None:
        """
        Check a motion in the gate and send it; of two at the same time the first is executed.

        Parameters
        ----------
        trajectory : Trajectory
        on_end : callable
            Called at the end with '' if the joints have arrived, else with the reason.
        is_wanted : callable
            Returns whether the motion is still wanted; called when it has passed the gate.

        Raises
        ------
        GateRefusal, ExecutionError
            Nothing was sent; gives the reason.

        """
        prepared: list[Any] = []  # made outside the lock: a long motion takes time

        def prepare() -> None:
            prepared.append(self._controller.prepare(trajectory))

        def begin() -> None:
            self._send(trajectory, on_end, prepared[0])

        self._gated(trajectory, is_wanted, begin, prepare)

    def start_loop(
        self,
        loop: ClosedLoop,
        rollout: Trajectory,
        on_end: OnEnd,
        is_wanted: IsWanted = lambda: True,
    ) -> None:
        """Check the roll-out of a closed loop in the gate and run the loop; else as `start`."""

        def begin() -> None:
            self._stream = _Stream(loop, rollout, on_end, StallDetector(self._tracking.stall_time))
            self._publish_state()

        self._gated(rollout, is_wanted, begin)

    def _gated(
        self,
        trajectory: Trajectory,
        is_wanted: IsWanted,
        begin: Callable[[], None],
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        with self._gating:
            self._check_ready()
            scene = self._planner.scene
            # Outside the lock: the gate takes about 50 ms, in which joint_states must be read.
            is_reduced, q = self.status.safety_mode == SAFETY_REDUCED, self.status.q
            assert q is not None  # it is ready
            self._planner.check(trajectory, q, is_reduced)
            prepare()
            with self._lock:
                self._check_ready(is_wanted)
                self._latch.release()
                begin()
        if self._planner.scene is not scene:
            self.check_remaining_path()

    def _check_ready(self, is_wanted: IsWanted = lambda: True) -> None:
        if not is_wanted():
            raise ExecutionError('motion refused: it was stopped before it began')
        state = self.motion_state
        if parse_motion_state(state)[0] is not MotionState.READY:
            cure = '; call ~/rearm once the cause is gone' if self._latch.reason else ''
            raise ExecutionError(f'motion refused, planner is {state}{cure}')
        if self.is_free:
            raise ExecutionError('motion refused: the arm is in freedrive')
        if fault := self.fault() or self._controller.missing:
            raise ExecutionError(f'motion refused: {fault}')
        age = self._clock() - (self.status.arrived or 0.0)
        if age > self._health.joint_state_timeout:
            raise ExecutionError(
                f'motion refused: the joints are {age:.2f} s old (limit joint_state_timeout = '
                f'{self._health.joint_state_timeout} s); check the driver and the link to it'
            )

    @locked
    def stop(self, reason: str, latch: bool) -> None:
        """
        Brake along the path; `latch` = refuse all motion until rearmed.

        A motion that is not ours, not accepted yet or past its end is canceled at once, and again
        at every `watch` until it has ended and, with `latch`, the arm is at rest.

        """
        self.stops += 1
        if latch:
            self._latch.shut(reason)
        if self._goal and not self._goal.stop_reason:
            self._brake(self._goal, reason)
        if self._stream and not self._stream.loop.stop_reason:
            self._stream.is_wanted = True
            self._stream.loop.stop(reason)
        self._cancel_stopped_motion()
        self._publish_state()

    def _brake(self, goal: Goal, reason: str) -> None:
        status = self.status
        t = goal.time_at(status.stamp, status.speed_scaling)
        is_running = goal.is_accepted and _BEFORE < t < goal.trajectory.duration
        # A slow arm stops at once. With old joints the ramp would be taken over with a jump.
        age = self._clock() - (status.arrived or 0.0)
        is_known = age <= self._tracking.takeover_time and status.speed_scaling >= _SLOW
        if not (is_running and is_known) or self._foreign:
            goal.stop_reason, goal.is_canceled = reason, True
            return
        takeover_time = self._tracking.takeover_time
        stopping = brake(goal.trajectory, max(t, 0.0), self._planner.limits, takeover_time)
        prepared = self._controller.prepare(stopping)
        self._send(stopping, goal.on_end, prepared, status.stamp).stop_reason = reason

    @locked
    def fail(self, reason: str) -> None:
        """Cancel at once because of a fault, also while the arm is frozen, and latch."""
        is_new = not self._latch.reason
        self._latch.shut(reason)
        self._latch.was_moving |= self.is_moving
        if is_new or self.is_moving:
            self._controller.cancel()
        if self._goal:
            self._finish(reason)
        if self._stream:
            self._end_stream()
            self._finish(reason)
        self._publish_state()

    @locked
    def rearm(self) -> str:
        """Return '' and open the latch, or return why it stays shut."""
        if self._missing:
            return self._missing
        if self.is_moving:
            return 'the arm is still coming to rest; try again'
        if fault := self.fault():
            return f'the cause persists: {fault}'
        if self._obstacle:
            return f'{self._obstacle}; try again'
        self._latch.open()
        self._publish_state()
        return ''

    # -- what the robot and its controller report ------------------------------------------------

    @locked
    def on_joints(self) -> None:
        """Process the joints that `status` now holds."""
        status, goal = self.status, self._goal
        if status.bad_joints:
            self.watch()
            return
        if status.q is None or status.qd is None:
            return
        self._others.stillness.update(status.stamp, status.q)
        if self._stream:
            self._tick(self._stream)
        if goal is None:
            return
        if goal.has_stopped:
            if self.is_at_rest:
                self._finish(goal.stop_reason)
                self._publish_state()
            return
        lost = goal.monitor.tick(status.stamp, status.q, status.speed_scaling)
        if goal.has_arrived and goal.monitor.arrived(status.q, status.qd):
            self._finish(goal.stop_reason)
            self._publish_state()
        elif lost and goal.is_accepted:
            self.fail(lost)
        elif goal.monitor.is_overdue:
            self.fail('the motion has not ended in time; its goal was not reached')

    @locked
    def watch(self) -> None:
        """Check for faults and silence; to be called periodically and at every mode change."""
        self._note_suspension()
        fault = self._missing or self.fault()
        if fault and not self._latch.is_first:
            self.fail(fault)
        elif not fault and self._latch.is_first and not self._foreign:
            self._latch.is_first = bool(self._obstacle)
        goal = self._goal
        if goal and not goal.is_accepted and self._clock() - goal.sent > REPLY_TIMEOUT:
            self.fail(f'the controller did not answer the goal within {REPLY_TIMEOUT} s')
        elif goal and self._controller.missing:
            self.fail(self._controller.missing)
        elif goal and goal.has_stopped and self.status.stamp - goal.stopped_at > _AT_REST_TIME:
            self.fail('the arm does not come to rest after its goal was canceled')
        self._forget_lost_goals()
        if not self._missing and (foreign := self._foreign_motion()):
            self.fail(foreign)
        self._cancel_stopped_motion()
        self._latch.settle(self._has_recent_joints, self.has_goals)
        self._publish_state()

    @locked
    def on_answer(self, goal: Goal, is_accepted: bool) -> None:
        """Process the controller's answer to a goal."""
        if not is_accepted:
            self._open.pop(goal.id, None)
            if goal is self._goal and goal.stop_reason:
                # The braking motion was refused: the motion that it should replace is canceled.
                goal.is_canceled = goal.has_stopped = True
                goal.stopped_at = self.status.stamp
                self._cancel_stopped_motion()
            elif goal is self._goal:
                self.fail(
                    'the controller refused the motion: it is not active or another one is; see '
                    'controller_manager/list_controllers and the log of the driver'
                )
        else:
            goal.is_accepted = True
            if goal.is_canceled or goal is not self._goal:
                self._controller.cancel()  # answered after it was replaced or stopped
        self._publish_state()

    def on_feedback(self, goal: Goal, stamp: float, t: float) -> None:
        """Record the time in a goal's trajectory [s] at a stamp [s]."""
        goal.progress = (stamp, t)

    @locked
    def on_result(self, goal: Goal, failure: str) -> None:
        """Process the end of a goal; `failure` is '' or why it did not succeed."""
        self._open.pop(goal.id, None)
        if goal is not self._goal:
            return
        if not failure:
            goal.has_arrived = True
        elif goal.stop_reason and not self._foreign:
            goal.has_stopped, goal.stopped_at = True, self.status.stamp
        else:
            self.fail(self._foreign or self.fault() or failure)

    # -- internals -----------------------------------------------------------------------------

    def _note_suspension(self) -> None:
        """Excuse silence while this process was not run; latch if that was long."""
        now = self._clock()
        gap, self._last_watch = now - self._last_watch, now
        self.status.excuse(gap)
        if is_frozen(gap, self._health.peer_timeout) and not self._latch.is_first:
            self.fail(f'this node was frozen for {gap:.1f} s: find the cause, then call ~/rearm')

    def _forget_lost_goals(self) -> None:
        """Drop goals whose end cannot be reported any more."""
        if self._controller.missing:
            self._open.clear()  # the controller is gone, and its goals with it
            return
        # A goal is delivered within REPLY_TIMEOUT; if it is not reported after that, it has ended.
        last = self._clock() - 2.0 * REPLY_TIMEOUT
        known = self._controller.goals
        for name, sent in list(self._open.items()):
            is_current = self._goal is not None and self._goal.id == name
            if sent < last and name not in known and not is_current:
                del self._open[name]

    @property
    def _foreign(self) -> str:
        return self._others.goal(self._controller.goals)

    def _foreign_motion(self) -> str:
        """Return the fault of motion from another source; empty if there is none."""
        now = self._clock()
        if self._latch.reason or self.is_moving or self.is_free or self.fault():
            self._others.begin(now)
            return '' if self._latch.reason else self._foreign
        if self._foreign or not self._has_recent_joints or self.status.q is None:
            return self._foreign
        return self._others.motion(self.status.q, now)

    def _cancel_stopped_motion(self) -> None:
        """Cancel a stopped motion until it has ended and the arm is at rest."""
        goal = self._goal
        if goal and goal.is_braking:
            is_late = not goal.is_accepted and self._clock() - goal.sent > _BRAKE_REPLY
            goal.is_canceled = is_late or self.status.speed_scaling < _SLOW
        is_braking = bool((goal and goal.is_braking) or self._stream)
        if is_braking and not self._foreign:
            self._latch.end_motion(False)
            return
        # In freedrive or by the pendant. Without recent joints the arm may be moving.
        is_robot_unable = self._health.check_modes and bool(mode_fault(self.status))
        is_moved_otherwise = self.is_free or is_robot_unable
        is_seen = self._has_recent_joints
        is_moving = not is_moved_otherwise and not (is_seen and self.is_at_rest)
        if self._latch.reason:
            if self.has_goals or (is_moving and (is_seen or self._is_blind_cancel_due())):
                self._controller.cancel()
            self._latch.end_motion(is_moving and not self.has_goals, is_seen)
        elif goal and goal.is_canceled:
            self._controller.cancel()

    def _is_blind_cancel_due(self) -> bool:
        """Return once per `_BLIND_PERIOD` that a cancel without joints is due."""
        now = self._clock()
        is_due = now - self._canceled_blindly > _BLIND_PERIOD
        if is_due:
            self._canceled_blindly = now
        return is_due

    def _send(
        self, trajectory: Trajectory, on_end: OnEnd, prepared: Any, begin: float = 0.0
    ) -> Goal:
        """Send a goal that begins at the stamp `begin` [s]; 0 = on arrival."""
        # Stamps, not this machine's clock: under load /clock arrives later than the joints.
        stamp = self.status.stamp
        monitor = MotionMonitor(trajectory, self._tracking, stamp)
        now = self._clock()
        goal = Goal(trajectory, monitor, on_end, now, begin, (stamp, 0.0), prepared)
        self._goal = goal
        self._others.send(goal.id)
        self._open[goal.id] = goal.sent
        self._controller.send(goal, self)
        self._publish_state()
        return goal

    def _tick(self, stream: _Stream) -> None:
        """Advance a closed loop by the latest joints, and send its segment."""
        loop, status = stream.loop, self.status
        assert status.q is not None and status.qd is not None  # else the loop had not begun
        if status.stamp < stream.stamp - _SET_BACK:
            self.fail('the clock of joint_states was set back: check whether the driver restarted')
            return
        stream.stamp = status.stamp
        segment = loop.tick(status.stamp, status.q, status.qd, status.speed_scaling)
        if segment is not None:
            self._controller.follow(segment)
        if loop.stop_reason and not stream.is_wanted:
            self._latch.shut(loop.stop_reason)
        if loop.outcome:
            self._end_stream()  # a speed slider at zero may have frozen the rest of its ramp
        if loop.outcome is not None:
            self._finish(loop.outcome)
        elif lost := stream.stall.tick(status.stamp, status.q, loop.q_planned):
            self.fail(lost)
        self._publish_state()

    def _end_stream(self) -> None:
        """
        Command the arm to hold where it is, also while it is frozen.

        With old or impossible joints nothing is sent: the last segment ends at rest by itself,
        while holding old joints would pull the arm back.

        """
        if self._has_recent_joints and self.status.q is not None:
            self._latch.hold_where_it_is(self.status.q)

    @property
    def _has_recent_joints(self) -> bool:
        """Whether the joints are valid and recent."""
        age = self._clock() - (self.status.arrived or 0.0)
        return not self.status.bad_joints and age <= _FRESH

    def _finish(self, reason: str) -> None:
        ended, self._goal, self._stream = self._goal or self._stream, None, None
        self._others.begin(self._clock())
        if ended:
            ended.on_end(reason)

    def _publish_state(self) -> None:
        state = self.motion_state
        if state != self._published_state:
            self._published_state = state
            self._on_change(state)
