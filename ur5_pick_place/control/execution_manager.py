# SPDX-License-Identifier: Apache-2.0
"""The only place that commands motion: starts it, monitors it, and stops the arm; no ROS."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ur5_pick_place.control.conditions import Conditions, ReducedMode
from ur5_pick_place.control.controller import Controller, Goal, Phase, transfer_time
from ur5_pick_place.control.escalation import Escalation
from ur5_pick_place.control.locking import locked
from ur5_pick_place.control.loops.closed_loop import ClosedLoop
from ur5_pick_place.control.loops.jog import Jog
from ur5_pick_place.control.loops.stream import Stream, StreamedLoop
from ur5_pick_place.control.motion_monitor import MotionMonitor, StallDetector, TrackingSettings
from ur5_pick_place.control.motion_state import MotionState, stopped_text
from ur5_pick_place.control.robot_status import HealthSettings, RobotStatus, was_suspended
from ur5_pick_place.control.stop_latch import StopLatch
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import DONE, OnOutcome, Outcome
from ur5_pick_place.planning.gate import GateReport
from ur5_pick_place.planning.paths.trajectory import Trajectory, hold_trajectory
from ur5_pick_place.planning.planner import MotionPlanner

_FIGURE = re.compile(r'\d+(\.\d+)?')
_REPLY = 0.25  # [s] for the controller to accept the braking motion; then all is canceled
_WAITS = 5  # messages of the joints for which a stop waits for a better moment to begin

IsWanted = Callable[[], bool]
"""Returns whether a motion is still requested; called when it has passed the gate."""


@dataclass(eq=False)
class ExecutionManager:
    """
    Executes one motion at a time, and stops the arm, whatever moves it.

    One lock guards its state: answers, joints and `watch` may come from different threads.
    """

    planner: MotionPlanner  # its gate checks every motion
    controller: Controller
    status: RobotStatus  # kept up to date by the owner
    settings: tuple[HealthSettings, TrackingSettings]
    unset_parameters: str  # which the user must set; not empty, it refuses all motion
    on_change: Callable[[str], object]  # called with the motion state when it changes
    clock: Callable[[], float]  # returns the steady time [s]
    # whether a trajectory may replace a running one; else a stop cancels, and the robot brakes
    replaces: bool = True
    stops: int = 0  # calls of `stop`, for callers that are about to plan
    # stops, faults and rearms: a motion requested before one does not begin after it
    interruptions: int = 0

    def __post_init__(self) -> None:
        self._health, self._tracking = self.settings
        self._published = ''  # the last motion state without its figures
        self._lock, self._gating = threading.RLock(), threading.Lock()
        self._goal: Goal | None = None
        self._stream: Stream | None = None
        self._seen = Conditions(
            self.controller, self.status, self._health, self.unset_parameters, self.clock
        )
        self._latch = StopLatch(self._seen)
        self._escalation = Escalation(
            self.controller,
            lambda: self._seen.recent_stillness,
            lambda: self._latch.hold(1),
            self.clock,
        )
        self._reduced = ReducedMode(self.planner, self.status)
        self._foreign, self._own = self._seen.foreign_motion, self._seen.own_goals
        self._last_watch = self.clock()

    # -- requests ------------------------------------------------------------------------------

    @property
    def is_latched(self) -> bool:
        """Whether all motion is refused until `rearm`."""
        return bool(self._latch.reason)

    @property
    def is_moving(self) -> bool:
        """Whether a motion is running, including one that brakes after a stop."""
        return bool(self._goal or self._stream)

    @property
    def is_at_rest(self) -> bool:
        """Whether the joints show the arm at rest."""
        return self._foreign.stillness.is_at_rest

    def stop_if_blocked(self) -> None:
        """Stop the running motion if its remaining path collides in the current scene."""
        while True:
            with self._lock:
                motion = self._goal or self._stream
                q = self.status.q
                path = motion.path_ahead(q) if motion and q is not None else None
            # Too long for the lock; if another motion runs afterwards, that is looked at.
            contact = '' if path is None else self.planner.why_blocked(path)
            with self._lock:
                if not contact:
                    return
                if motion is (self._goal or self._stream):
                    self.stop(f'the scene has changed: {contact}', latch=False, is_near=True)
                    return

    def start(
        self, trajectory: Trajectory, on_end: OnOutcome, is_wanted: IsWanted = lambda: True
    ) -> None:
        """
        Check a motion with the gate and send it; of two at the same time the first is executed.

        `on_end` is called at the end: done if the joints have reached the goal.

        Raises `GateRefusal`, `ExecutionError`: nothing was sent; gives the reason.
        """
        with self._admitted(trajectory):
            prepared = self.controller.prepare(trajectory)  # takes time if it is long
            with self._beginning(is_wanted):
                self._send(trajectory, on_end, prepared)

    def start_loop(
        self,
        make_loop: Callable[[GateReport], ClosedLoop],
        rollout: Trajectory,
        on_end: OnOutcome,
        is_wanted: IsWanted = lambda: True,
    ) -> None:
        """
        Check the roll-out of a closed loop with the gate, make the loop and run it, as `start`.

        `make_loop` takes the gate's report on the roll-out and may refuse it.
        """
        self._check_streams('a closed loop', 'use method ik, or')
        with self._admitted(rollout) as report:
            loop = make_loop(report)
            with self._beginning(is_wanted):
                self._begin_stream(loop, rollout, on_end)

    def start_jog(self, jog: Jog, on_end: OnOutcome, is_wanted: IsWanted = lambda: True) -> None:
        """Check the arm where it is with the gate, and run a jog, as `start`."""
        self._check_streams('a jog', 'to jog,')
        self._check_may_begin(is_wanted)
        assert self.status.q is not None  # it is ready
        with self._admitted(hold_trajectory(self.status.q)), self._beginning(is_wanted):
            self._begin_stream(jog, None, on_end)

    @locked
    def stop(self, reason: str, latch: bool, is_near: bool = False) -> None:
        """
        Brake along the path; `latch` = refuse all motion until rearmed.

        A motion that cannot brake is canceled at once. With `is_near` there is an obstacle in the
        path: a motion that cannot stop before it is canceled too. Each `watch` repeats the cancel
        until the goal has ended and, with `latch`, the arm is at rest.
        """
        self.stops += 1
        self.interruptions += 1
        if latch:
            self._latch.set(reason)
            self._publish_state()  # before the search for the braking motion: pick_place waits
            # The task node ends freedrive when the latch is first set, but not at a repeated stop:
            # the arm counts as guided again when that node reports it again.
            self.status.is_in_freedrive = False
        goal = self._goal
        if goal and goal.phase is Phase.RUNNING:
            self._stop_goal(goal, reason, is_near, can_wait=not (latch or is_near))
        elif goal and goal.phase is Phase.BRAKING and is_near:
            goal.enter(Phase.CANCELING, reason)  # an object in its braking path
        stream = self._stream
        if stream and not stream.ended and (is_near or not stream.stop_reason):
            braking = stream.stop(reason)
            if blocked := self._why_too_near(braking) if is_near else '':
                stream.ended = Outcome.failed(reason + blocked)
                self._latch.hold()
        self._cancel_stopped_motion()
        self._publish_state()

    def _stop_goal(self, goal: Goal, reason: str, is_near: bool, can_wait: bool) -> None:
        takeover = self._tracking.takeover_time
        are_old = self.status.age(self.clock()) > takeover
        can_tell = self.replaces and not (is_near or are_old)
        is_unknown = can_tell and goal.is_starting(self.status.stamp)
        if (are_old and can_wait) or is_unknown:
            goal.pending_stop = reason  # until joints and feedback show where the arm is
            return
        braking, now = None, self.clock()
        # Somebody else may have stopped the arm since old joints.
        if self.replaces and not self._seen.foreign_goal and not are_old:
            braking = goal.braking(self.status, self.planner, takeover, now)
        blocked = self._why_too_near(braking) if is_near else ''
        if braking is None or blocked:
            goal.enter(Phase.CANCELING, reason + blocked)
            return
        stamp, scaling = self.status.stamp, self.status.speed_scaling
        points = stamp + (goal.trajectory.t - goal.time_at(stamp, scaling)) / scaling
        is_late = self.clock() - now > takeover / 2  # as the search was not run for a while
        is_bad = is_late or not self.controller.may_replace(points, stamp)
        if is_bad and not is_near and goal.waits < _WAITS:
            goal.waits, goal.pending_stop = goal.waits + 1, reason
            return
        self._send(braking, goal.on_end, None, stamp, points, reason)

    def _why_too_near(self, braking: Trajectory | None) -> str:
        """Return what a stop reason adds if the arm cannot brake before an obstacle."""
        if braking is None or not self.planner.why_blocked(braking.path):
            return ''
        return (
            f'; the arm needs {braking.duration:.2f} s to brake and cannot stop before it, so the '
            'motion was canceled at once: look whether the arm has touched it'
        )

    @locked
    def fail(self, reason: str) -> None:
        """Cancel at once because of a fault and latch, even if the robot itself holds the arm."""
        is_new = not self._latch.reason
        self.interruptions += is_new
        self._latch.set(reason)
        self._latch.was_moving |= self.is_moving
        if is_new or self.is_moving:
            self.controller.cancel()
        if self._stream:
            self._latch.hold()
        if self.is_moving:
            self._finish(reason)
        self._publish_state()

    @locked
    def rearm(self) -> Outcome:
        """Return `DONE` and reset the latch, or return why it stays set."""
        if unset := self._seen.unset_parameters:
            return Outcome.failed(unset)
        if self.is_moving:
            return Outcome.failed('the arm is still coming to rest; try again')
        if fault := self._fault:
            return Outcome.failed(f'the cause persists: {fault}')
        if reason := self._seen.why_not_ready:
            return Outcome.failed(f'{reason}; try again')
        self.interruptions += 1
        self._latch.reset()
        self._escalation.begin_again()
        self._publish_state()
        return DONE

    # -- what the robot and its controller report ------------------------------------------------

    @locked
    def on_joints(self) -> None:
        """Process the joints that `status` now holds."""
        status = self.status
        if status.bad_joints:
            self.watch()
            return
        if status.q is None or status.qd is None:
            return
        self._foreign.stillness.update(status.stamp, status.q)
        if self._stream:
            self._tick(self._stream)
        if (goal := self._goal) and (reason := goal.pending_stop):
            goal.pending_stop = ''
            self._stop_goal(goal, reason, is_near=False, can_wait=True)
            self._cancel_stopped_motion()
            self._publish_state()
        if self._goal:
            self._follow(self._goal)

    def _follow(self, goal: Goal) -> None:
        """Compare the arm with a goal, which may end it."""
        status = self.status
        assert status.q is not None and status.qd is not None
        if goal.phase is Phase.SETTLING:
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
            is_there = goal.monitor.arrived(status.q, status.qd)
            what = 'the controller has not reported it' if is_there else 'its goal was not reached'
            self.fail(f'the motion has not ended in time; {what}: see the log of the driver')

    @locked
    def watch(self) -> None:
        """Check for faults and silence; to be called periodically and at every mode change."""
        self._note_stall()
        fault = self._seen.unset_parameters or self._fault
        if fault and not self._latch.has_never_been_ready:
            self.fail(fault)
        elif not fault and self._latch.has_never_been_ready and not self._seen.foreign_goal:
            self._latch.has_never_been_ready = bool(self._seen.why_not_ready)
        unavailable, now = self.controller.why_unavailable, self.clock()
        if self._goal and (failure := unavailable or self._goal.failure(now, self.status.stamp)):
            self.fail(failure)
        if unavailable:
            self._own.open.clear()
        current = self._goal.id if self._goal else None
        self._own.forget_lost(self.controller.goals, current, now)
        if foreign := self._foreign_fault:
            self.fail(foreign)
        if too_fast := self._reduced.objection(self._goal or self._stream):
            self.stop(too_fast, latch=False)
        self._cancel_stopped_motion()
        self._latch.update()
        self._publish_state()

    @locked
    def on_answer(self, goal: Goal, is_accepted: bool) -> None:
        """Process the controller's answer to a goal."""
        if not is_accepted:
            self._own.open.pop(goal.id, None)
            if goal is self._goal and goal.phase is not Phase.RUNNING:
                # The braking motion was refused: the motion that it should replace is canceled.
                goal.settle(self.status.stamp)
                self._cancel_stopped_motion()
            elif goal is self._goal:
                self.fail(
                    'the controller refused the motion: it is not active, or another one is; see '
                    'controller_manager/list_controllers and the log of the driver'
                )
        else:
            goal.accept(self.status)
            if goal.is_canceled or goal is not self._goal:
                self.controller.cancel()  # answered after it was replaced or stopped
        self._publish_state()

    def on_feedback(self, goal: Goal, stamp: float, t: float) -> None:
        """Record the time in a goal's trajectory [s] at a stamp [s]."""
        goal.progress = (stamp, t)

    @locked
    def on_result(self, goal: Goal, outcome: Outcome) -> None:
        """Process the end of a goal, as the controller reports it."""
        self._own.open.pop(goal.id, None)
        if goal is not self._goal:
            return
        if outcome.ok:
            goal.has_arrived = True
        elif goal.phase is not Phase.RUNNING and not self._seen.foreign_goal:
            goal.settle(self.status.stamp)
        else:
            self.fail(self._seen.foreign_goal or self._fault or outcome.reason)

    # -- whether a motion may begin ------------------------------------------------------------

    @contextmanager
    def _admitted(self, trajectory: Trajectory) -> Iterator[GateReport]:
        """
        Check a motion with the gate, then let the block prepare and begin it; one at a time.

        The block may take long. Raises as `start`.
        """
        with self._gating:
            self._check_may_begin()
            scene, q = self.planner.scene, self.status.q
            assert q is not None  # it is ready
            # Outside the lock: the gate takes about 50 ms, in which joint_states must be read.
            yield self.planner.check(trajectory, q, self._reduced.is_on)
            has_scene_changed = self.planner.scene is not scene
        if has_scene_changed:
            self.stop_if_blocked()

    @contextmanager
    def _beginning(self, is_wanted: IsWanted) -> Iterator[None]:
        """Let the block begin an admitted motion under the lock, if it is still allowed."""
        with self._lock:
            self._check_may_begin(is_wanted)
            self._latch.holds = 0
            yield

    def _check_may_begin(self, is_wanted: IsWanted = lambda: True) -> None:
        """Raise `ExecutionError` with the reason and what to do if no motion may begin now."""
        state = self.motion_state
        if not is_wanted():
            refusal = 'it was stopped before it began'
        elif state != MotionState.READY.value:
            advice = '; call ~/rearm once the cause is gone' if self._latch.reason else ''
            refusal = f'the planner is {state}{advice}'
        elif self.status.is_in_freedrive:
            refusal = 'the arm is in freedrive'
        else:
            refusal = self._seen.why_unusable or self._seen.why_too_old
        if refusal:
            raise ExecutionError(f'motion refused: {refusal}')

    def _check_streams(self, what: str, advice: str) -> None:
        """Raise `ExecutionError` unless the controller follows a stream, which `what` needs."""
        if not self.replaces:
            raise ExecutionError(
                f'{what} needs a controller that accepts a stream of trajectories; the '
                f'passthrough trajectory controller accepts complete trajectories only: {advice} '
                'start driver and nodes with another controller'
            )
        if why_not := self.controller.why_no_stream:
            raise ExecutionError(f'motion refused: {why_not}')

    # -- internals -----------------------------------------------------------------------------

    def _note_stall(self) -> None:
        """Discount silence while this process was not run; latch if it was suspended."""
        now = self.clock()
        gap, self._last_watch = now - self._last_watch, now
        self.status.discount_stall(gap, now)
        if was_suspended(gap, self._health.peer_timeout) and not self._latch.has_never_been_ready:
            reason = f'this node was suspended for {gap:.1f} s'
            self.fail(f'{reason}: find the cause, then call ~/rearm')

    @property
    def _fault(self) -> str | None:
        return self._seen.fault(is_streamed=bool(self._stream))

    @property
    def _foreign_fault(self) -> str:
        """The fault of motion from another source; empty if there is none."""
        seen, stamp = self._seen, self.status.stamp
        if seen.unset_parameters:
            return ''
        if self._latch.reason or self.is_moving or self.status.is_in_freedrive or self._fault:
            self._foreign.expect_motion(stamp)
            return '' if self._latch.reason else seen.foreign_goal
        if seen.foreign_goal or self.status.q is None or not seen.knows_joints:
            return seen.foreign_goal
        return self._foreign.motion(self.status.q, stamp)

    def _send(
        self,
        trajectory: Trajectory,
        on_end: OnOutcome,
        prepared: Any,
        begin: float = 0.0,
        replaced: Array | None = None,
        stop_reason: str = '',
    ) -> None:
        """Send a goal that begins at the stamp `begin` [s], 0 = on arrival; it brakes if told."""
        stamp = self.status.stamp  # under load /clock arrives later than the joints
        wait = 0.0 if self.replaces else transfer_time(trajectory)
        monitor = MotionMonitor(trajectory, self._tracking, stamp, wait)
        now, scaling, progress = self.clock(), self.status.speed_scaling, (stamp, 0.0)
        goal = Goal(
            trajectory,
            monitor,
            on_end,
            now,
            begin,
            scaling,
            progress,
            prepared,
            replaced,
            stop_reason,
            Phase.BRAKING if stop_reason else Phase.RUNNING,
        )
        self._goal = goal
        self._own.record_sent(goal.id, goal.sent)
        self._foreign.stillness.forget()
        self.controller.send(goal, self)
        self._publish_state()

    def _begin_stream(
        self, loop: StreamedLoop, trajectory: Trajectory | None, on_end: OnOutcome
    ) -> None:
        self._stream = Stream(loop, trajectory, on_end, StallDetector(self._tracking.stall_time))
        self._publish_state()

    def _tick(self, stream: Stream) -> None:
        """Advance a closed loop by the latest joints, and send its segment."""
        loop = stream.loop
        segment, fault = stream.tick(self.status)
        if segment is not None:
            self.controller.follow(segment)
        if loop.stop_reason and not stream.is_wanted_stop:
            self._latch.set(loop.stop_reason)
        if loop.outcome and loop.outcome.ok:
            self._finish('')
        elif fault:
            self.fail(fault)
        elif stream.ended:
            if self.is_at_rest:
                self._finish(stream.ended.reason)
        # A slow arm stops at once: its ramp would freeze at slider 0, and go on as that rises.
        elif loop.outcome or (loop.is_ending and self.status.is_slow):
            stream.ended = loop.outcome or Outcome.from_reason(loop.stop_reason)
            self._latch.hold()
        self._publish_state()

    def _cancel_stopped_motion(self) -> None:
        """Cancel a stopped motion until it has ended and the arm is at rest."""
        goal = self._goal
        if goal and goal.phase is Phase.BRAKING:
            is_late = not goal.is_accepted and self.clock() - goal.sent > _REPLY
            if is_late or self.status.is_slow:
                goal.enter(Phase.CANCELING)
        brakes = self._stream or (goal and (goal.phase is Phase.BRAKING or goal.pending_stop))
        if brakes and not self._seen.foreign_goal:
            self._escalation.begin_again()
        elif self._latch.reason:
            self._escalation.advance(self._seen.has_goals, self._seen.is_possibly_moving)
        elif goal and goal.is_canceled:
            self.controller.cancel()

    def _finish(self, reason: str) -> None:
        ended, self._goal, self._stream = self._goal or self._stream, None, None
        self._foreign.expect_motion(self.status.stamp)
        if ended:
            ended.on_end(Outcome.from_reason(reason))

    def _publish_state(self) -> None:
        text = self.motion_state
        if text == self._published:
            return
        # Figures such as the seconds of a silence in a reason grow at each call.
        bare = _FIGURE.sub('', text)
        if bare != self._published:
            self._published = bare
            self.on_change(text)

    # -- the motion state ----------------------------------------------------------------------

    @property
    def motion_state(self) -> str:
        """`ready`, `moving` or `stopped: <reason>`."""
        if self._latch.reason:
            return stopped_text(self._latch.reason)
        if self._latch.has_never_been_ready:
            reason = self._seen.unset_parameters or self._seen.why_not_ready
            return stopped_text(reason or 'checking the robot')
        return MotionState.MOVING.value if self.is_moving else MotionState.READY.value
