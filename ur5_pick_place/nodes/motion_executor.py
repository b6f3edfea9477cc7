# SPDX-License-Identifier: Apache-2.0
"""Sends an admitted motion to the controller, watches it, and owns the stop latch."""

import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from rclpy.action import ActionClient
from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String

from ur5_pick_place.control.braking import brake
from ur5_pick_place.control.health import SAFETY_REDUCED, HealthSettings, find_fault
from ur5_pick_place.control.supervision import MotionMonitor, TrackingSettings
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.nodes.conversions import (
    duration_to_msg,
    time_to_msg,
    to_seconds,
    trajectory_to_msg,
)
from ur5_pick_place.nodes.peer import ALIVE
from ur5_pick_place.nodes.robot_link import RobotLink
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.trajectory import Trajectory

T = TypeVar('T')

_WATCH_PERIOD = 0.02  # [s], steady clock
_REPLY_TIMEOUT = 2.0  # [s], steady clock: the controller's answer to a goal

_STATUS = {
    GoalStatus.STATUS_ABORTED: 'aborted',
    GoalStatus.STATUS_CANCELED: 'canceled by somebody else',
}


def _locked(method: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(method)
    def locked(self: 'MotionExecutor', *args: Any, **kwargs: Any) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return locked


@dataclass
class _Motion:
    """One motion on its way; `outcome` becomes '' or the reason it failed."""

    trajectory: Trajectory
    monitor: MotionMonitor
    outcome: Future
    sent: float  # steady clock [s]
    is_accepted: bool = False
    has_arrived: bool = False  # by the controller's word; the joints have the last
    stop_reason: str = ''  # set while braking
    progress: tuple[float, float] = (0.0, 0.0)  # stamp [s] and where the controller was then [s]

    def time_at(self, stamp: float, speed_scaling: float) -> float:
        """Return where the controller is in the trajectory at `stamp`, by its own word [s]."""
        return self.progress[1] + (stamp - self.progress[0]) * speed_scaling


class MotionExecutor:
    """
    The one place that commands motion.

    One lock guards its state: rclpy runs the done-callbacks of futures outside any callback
    group, beside the subscriptions and the timer.

    Parameters
    ----------
    node : Node
    controller : str
        Name of the joint trajectory controller.
    planner : MotionPlanner
        Its gate looks at every motion.
    health, tracking : settings
    missing : str
        What the user has not told about the cell; non-empty refuses all motion.
    group : CallbackGroup
        Of the subscriptions, the timer and the clients.

    """

    def __init__(
        self,
        node: Node,
        controller: str,
        planner: MotionPlanner,
        joint_names: tuple[str, ...],
        health: HealthSettings,
        tracking: TrackingSettings,
        missing: str,
        group: CallbackGroup,
    ) -> None:
        self._node, self._planner, self._names = node, planner, joint_names
        self._health, self._tracking, self._missing = health, tracking, missing
        self._lock = threading.RLock()
        self._motion: _Motion | None = None
        self._latch = ''
        self._was_ready = False  # before the robot was there and well nothing is latched
        self._published = ''
        self.link = RobotLink(node, joint_names, self._on_joints, self._watch, group)
        name = f'{controller}/follow_joint_trajectory'
        self._action = name
        self._client = ActionClient(node, FollowJointTrajectory, name, callback_group=group)
        self._cancel_all = node.create_client(
            CancelGoal, f'{name}/_action/cancel_goal', callback_group=group
        )
        self._state = node.create_publisher(String, '~/motion_state', ALIVE)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(_WATCH_PERIOD, self._watch, callback_group=group, clock=steady)

    # -- what others ask ---------------------------------------------------------------------

    @property
    def motion_state(self) -> str:
        """`ready`, `moving` or `stopped: <reason>`."""
        if self._latch:
            return f'stopped: {self._latch}'
        if not self._was_ready:
            return f'stopped: {self._missing or self.fault() or self._not_there()}'
        return 'moving' if self._motion else 'ready'

    def health(self) -> tuple[bool, str]:
        """Return whether the arm could move now, and the motion state."""
        state = self.motion_state
        return not state.startswith('stopped'), state

    def fault(self) -> str | None:
        """Why the robot must not move at this moment, or None."""
        return find_fault(self.link.status, time.monotonic(), self._health)

    def start(self, trajectory: Trajectory) -> Future:
        """
        Gate a motion and send it.

        Returns
        -------
        Future
            Completes with '' once the joints have arrived, else with the reason.

        Raises
        ------
        GateRefusal, ExecutionError
            Nothing was sent, and why.

        """
        self._check_ready()
        status = self.link.status
        # Outside the lock: the gate takes some 50 ms, in which joint_states must be heard.
        self._planner.check(trajectory, status.q, status.safety_mode == SAFETY_REDUCED)
        with self._lock:
            self._check_ready()
            self._motion = self._send(trajectory, Future())
            self._publish()
            return self._motion.outcome

    def _check_ready(self) -> None:
        state = self.motion_state
        if state != 'ready':
            cure = '; call ~/rearm once the cause is gone' if self._latch else ''
            raise ExecutionError(f'motion refused, planner is {state}{cure}')
        if fault := self.fault():
            raise ExecutionError(f'motion refused: {fault}')
        if not self._client.server_is_ready():
            raise ExecutionError(self._not_there())

    def _not_there(self) -> str:
        return (
            f'action server {self._action} is not there; is the driver running and the parameter '
            '"controller" right?'
        )

    @_locked
    def stop(self, reason: str, latch: bool) -> None:
        """Brake along the path; `latch` = refuse all motion until rearmed."""
        if latch and not self._latch:
            self._latch = reason
        motion = self._motion
        if motion and not motion.stop_reason:
            status = self.link.status
            t = motion.time_at(status.stamp, status.speed_scaling)
            if motion.is_accepted and t < motion.trajectory.duration:
                stopping = brake(motion.trajectory, max(t, 0.0), self._planner.limits)
                self._motion = self._send(stopping, motion.outcome, status.stamp)
                self._motion.stop_reason = reason
            else:
                motion.stop_reason = reason
                self._cancel()
        self._publish()

    @_locked
    def fail_if_moving(self, reason: str) -> None:
        """Stop at once and latch, if a motion is under way."""
        if self._motion:
            self._fail(reason)

    @_locked
    def rearm(self) -> str:
        """Open the latch and return '', or return why it stays shut."""
        if self._missing:
            return self._missing
        if self._motion:
            return 'the arm is still coming to rest; try again'
        if fault := self.fault():
            return f'the cause persists: {fault}'
        if not self._client.server_is_ready():
            return self._not_there()
        self._latch = ''
        self._was_ready = True
        self._publish()
        return ''

    # -- what the robot says -------------------------------------------------------------------

    @_locked
    def _on_joints(self) -> None:
        status = self.link.status
        if status.bad_joints:
            self._watch()
            return
        motion = self._motion
        if motion is None or status.q is None or status.qd is None:
            return
        lost = motion.monitor.tick(status.stamp, status.q, status.speed_scaling)
        if motion.has_arrived and motion.monitor.arrived(status.q, status.qd):
            self._finish(motion.stop_reason)
        elif lost and motion.is_accepted:
            self._fail(lost)
        elif motion.monitor.is_overdue:
            self._fail('the motion has not ended in time; its goal was not reached')

    @_locked
    def _watch(self) -> None:
        fault = self._missing or self.fault()
        if fault and self._was_ready:
            self._fail(fault)
        elif not fault and not self._was_ready:
            self._was_ready = self._client.server_is_ready()
        motion = self._motion
        if motion and not motion.is_accepted and time.monotonic() - motion.sent > _REPLY_TIMEOUT:
            self._fail(f'the controller did not answer the goal within {_REPLY_TIMEOUT} s')
        self._publish()

    def _fail(self, reason: str) -> None:
        """A fault: cancel at once, also while the arm is frozen, and latch."""
        if not self._latch:
            self._latch = reason
            self._node.get_logger().error(f'stopped: {reason}')
        if self._motion:
            self._cancel()
            self._finish(reason)
        self._publish()

    def _finish(self, reason: str) -> None:
        motion, self._motion = self._motion, None
        if motion and not motion.outcome.done():
            motion.outcome.set_result(reason)
        self._publish()

    def _publish(self) -> None:
        state = self.motion_state
        if state != self._published:
            self._published = state
            self._state.publish(String(data=state))

    # -- what goes to the controller -----------------------------------------------------------

    def _send(self, trajectory: Trajectory, outcome: Future, begin: float = 0.0) -> _Motion:
        """Send a goal that begins at the stamp `begin` [s], or on arrival."""
        # Stamps, not this node's clock: on a busy machine /clock arrives later than the joints.
        monitor = MotionMonitor(trajectory, self._tracking, self.link.status.stamp)
        motion = _Motion(trajectory, monitor, outcome, time.monotonic())
        motion.progress = (self.link.status.stamp, 0.0)
        goal = FollowJointTrajectory.Goal()
        goal.trajectory = trajectory_to_msg(trajectory, self._names)
        goal.trajectory.header.stamp = time_to_msg(begin)
        goal.path_tolerance = self._tolerances(self._tracking.path_tolerance)
        goal.goal_tolerance = self._tolerances(self._tracking.goal_tolerance)
        goal.goal_time_tolerance = duration_to_msg(self._tracking.goal_time)
        reply = self._client.send_goal_async(
            goal, lambda message: self._on_feedback(motion, message.feedback)
        )
        reply.add_done_callback(lambda future: self._on_reply(motion, future.result()))
        return motion

    def _tolerances(self, position: float) -> list[JointTolerance]:
        return [JointTolerance(name=n, position=position) for n in self._names]

    @_locked
    def _on_reply(self, motion: _Motion, handle: Any) -> None:
        if motion is not self._motion:
            if handle.accepted:
                self._cancel()  # answered after we had given it up
            return
        if not handle.accepted:
            self._fail(
                'the controller refused the motion: it is not active or another one is; see '
                'controller_manager/list_controllers and the log of the driver'
            )
            return
        motion.is_accepted = True
        handle.get_result_async().add_done_callback(
            lambda future: self._on_result(motion, future.result())
        )

    def _on_feedback(self, motion: _Motion, feedback: FollowJointTrajectory.Feedback) -> None:
        motion.progress = (
            to_seconds(feedback.header.stamp),
            to_seconds(feedback.desired.time_from_start),
        )

    @_locked
    def _on_result(self, motion: _Motion, reply: Any) -> None:
        if motion is not self._motion:
            return
        # A canceled goal also carries error code 0: only status and code together are success.
        if reply.status == GoalStatus.STATUS_SUCCEEDED and reply.result.error_code == 0:
            motion.has_arrived = True
        elif motion.stop_reason:
            self._finish(motion.stop_reason)
        else:
            what = _STATUS.get(reply.status, f'ended with status {reply.status}')
            why = reply.result.error_string or 'no reason given'
            self._fail(f'goal {what} (code {reply.result.error_code}: {why})')

    def _cancel(self) -> None:
        """Cancel every goal of the controller, also one whose acceptance is still on its way."""
        self._cancel_all.call_async(CancelGoal.Request())
