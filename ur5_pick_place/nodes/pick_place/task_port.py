# SPDX-License-Identifier: Apache-2.0
"""The task's connection to robot and planner: topics in, actions and services out."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from moveit_msgs.action import ExecuteTrajectory
from rclpy.action import ActionClient
from rclpy.action.client import ClientGoalHandle
from rclpy.task import Future
from std_msgs.msg import String

from ur5_pick_place.control.motion_state import MotionState, parse_motion_state
from ur5_pick_place.control.robot_status import HealthSettings, io_timeout
from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.driver.driver_link import GOAL
from ur5_pick_place.nodes.driver.gripper_client import GripperClient
from ur5_pick_place.nodes.driver.joint_listener import JointListener, Joints
from ur5_pick_place.nodes.driver.robot_io import RobotIo
from ur5_pick_place.nodes.driver.speed_scaling import subscribe_to_scaling
from ur5_pick_place.nodes.messages.conversions import trajectory_to_msg
from ur5_pick_place.nodes.ros.distro import name_method, read
from ur5_pick_place.nodes.ros.liveness import watch_peer
from ur5_pick_place.nodes.ros.service_calls import wait_until
from ur5_pick_place.nodes.ros.topic_reader import ARM_PERIOD
from ur5_pick_place.nodes.scene.carried_part import CarriedPart
from ur5_pick_place.outcome import DONE, OnOutcome, Outcome
from ur5_pick_place.task.grippers.action import ActionSettings
from ur5_pick_place.task.grippers.base import GripperSettings
from ur5_pick_place.task.job import (
    Carry,
    Command,
    Compute,
    GripperView,
    MoveGripper,
    Observation,
    RunMotion,
    silent_io,
)

PLANNER = 'trajectory_planner'
_JOB_PERIOD = 0.008  # [s] between two polls of the arm's topics during a job
_TICK = 0.006  # [s] least robot time between ticks; below 8 ms, so that none is skipped
_FRESH = 0.3  # [s]; older joints do not show whether the arm is at rest now
_REST_TIMEOUT = 1.0  # [s]
_SETTLES = 2e-3  # [rad] by which an arm may move that counts as arrived
_IDLE = 2.0  # [s] for which the planner is ready again without having replied
_BEGIN = 30.0  # [s] until the planner reports motion; a closed loop is rolled out again first
_ARRIVED = 0.01  # [rad]
LOST = Outcome.failed("the planner's reply to a motion was lost: check the planner, then ~/rearm")


@dataclass(eq=False)
class PendingMotion:
    """Awaits one reply, which may be lost: a server can miss a client that has matched it."""

    q_goal: Array  # (6,) where the motion ends [rad]
    on_reply: OnOutcome  # called once, with how the motion ended
    sent: float  # steady time [s]
    is_over: bool = False
    _has_moved: bool = False
    _idle_since: float | None = None  # steady time [s]

    def reply(self, outcome: Outcome) -> None:
        """Forward the reply, unless the motion has already ended."""
        if not self.is_over:
            self.is_over = True
            self.on_reply(outcome)

    def on_planner_state(self, state: MotionState | None, now: float) -> None:
        """Take the planner's motion state, as it reports it, at a steady time [s]."""
        self._has_moved |= state is MotionState.MOVING
        is_idle = state is MotionState.READY and self._has_moved
        self._idle_since = now if is_idle else None

    def on_joints(self, q: Array, now: float) -> None:
        """Decide by the joints (6,) [rad] whether the motion is done if no reply has arrived."""
        if self._idle_since is not None and now - self._idle_since > _IDLE:
            self.reply(DONE if np.abs(q - self.q_goal).max() <= _ARRIVED else LOST)
        elif not self._has_moved and now - self.sent > _BEGIN:
            self.reply(LOST)


class TaskPort:
    """
    A `machine.Port` over ROS, which moves the arm through the planner node only.

    `grip`: of the gripper; some have an action server. `on_tick`: called about every 8 ms of robot
    time during a job and 16 ms without one, for every motion state of the planner, and for every
    reply that reports success. `on_planner_death`: called when the planner node has died or is
    stuck. `is_busy`: returns whether a job runs.

    - `has_planner`: whether the planner has published a state since its last death
    """

    def __init__(
        self,
        cell: Cell,
        health: HealthSettings,
        grip: GripperSettings,
        on_tick: Callable[[], None],
        on_planner_death: Callable[[], None],
        is_busy: Callable[[], bool],
    ) -> None:
        node = cell.node
        self._stillness = Stillness()
        self._arrived = 0.0  # steady time of `q` [s]
        self._bad_joints = ''
        self._node = node
        self.q: Array | None = None
        self.stamp = 0.0  # [s] ROS time of `q`: the clock of jobs, as /clock may be late
        self.planner_state = ''  # as reported; empty before that
        self._motion_state: MotionState | None = None
        self._stop_reason = ''  # of the planner
        self._speed_scaling = 1.0
        self._names, self._on_tick = list(cell.joint_names), on_tick
        self._carried = CarriedPart(node, cell.scene, cell.robot.tf_prefix)
        # Silence of io_states that ends any job [s].
        self._io_timeout = io_timeout(health) if grip.confirm_pins else math.inf
        self.has_planner = False
        self._goal: ClientGoalHandle[Any, Any, Any] | None = None
        self._motions = 0
        self._pending: PendingMotion | None = None
        self._ticked = 0.0  # stamp of the latest tick [s]

        def period() -> float:
            return _JOB_PERIOD if is_busy() else ARM_PERIOD

        self._io = RobotIo(node, period)
        self._gripper = (
            GripperClient(node, grip, period, self._io_timeout)
            if isinstance(grip, ActionSettings)
            else None
        )
        self._execute: ActionClient[Any, Any, Any] = ActionClient(
            node,
            ExecuteTrajectory,
            'execute_trajectory',
            goal_service_qos_profile=GOAL,
        )

        def on_death() -> None:
            self.has_planner = False
            on_planner_death()

        state = f'{PLANNER}/motion_state'
        watch_peer(node, state, health.peer_timeout, self._on_planner_state, on_death)

        subscribe_to_scaling(node, partial(setattr, self, '_speed_scaling'), period)
        on_bad = partial(setattr, self, '_bad_joints')
        self.joint_listener = JointListener(
            node, cell.joint_names, self._on_joint_states, on_bad, period
        )

    @property
    def why_not_ready(self) -> str:
        is_there = self._execute.server_is_ready()
        if is_there and self.is_moving:
            return 'another client moves the arm: wait for its end, or call ~/stop'
        if not is_there or self._motion_state is not MotionState.READY:
            state = self.planner_state if is_there else ''
            return f'the planner is {state or "not there"}: start or rearm it'
        if not self._io.is_there:
            return 'set_io and set_payload are not there: start the driver'
        return ''

    def present_joints(self) -> Array:
        """Return the measured joints (6,) [rad], or raise `ExecutionError`."""
        if self._bad_joints:
            raise ExecutionError(self._bad_joints)
        if self.q is None:
            raise ExecutionError('no joint_states yet: check that the driver is running')
        return self.q

    @property
    def why_not_at_rest(self) -> str:
        """Return why the arm does not count as at rest, or ''."""
        if self._bad_joints:
            return self._bad_joints
        age = time.monotonic() - self._arrived
        if age >= _FRESH:
            return f'no joint_states for {age:.1f} s: check the driver, then try again'
        reason = self._stillness.why_not_at_rest
        return reason and f'{reason}; wait, or call ~/stop'

    def why_not_at_rest_since(self, q: Array | None) -> str:
        """Return why the arm does not count as at rest where it was, with joints `q`, or ''."""
        if reason := self.why_not_at_rest:
            return reason
        if q is None or self.q is None or np.abs(self.q - q).max() > _SETTLES:
            return 'the arm has moved since: send the pose again'
        return ''

    @property
    def recent_stillness(self) -> Stillness | None:
        """Whether the arm is at rest, by recent joint_states; None without them."""
        is_unseen = self._bad_joints or time.monotonic() - self._arrived >= _FRESH
        return None if is_unseen else self._stillness

    @property
    def is_stopped(self) -> bool:
        """Whether the planner reports that it is stopped."""
        return self._motion_state is MotionState.STOPPED

    @property
    def is_moving(self) -> bool:
        """Whether the planner moves the arm."""
        return self._motion_state is MotionState.MOVING

    async def wait_for_rest(self) -> None:
        """
        Wait for up to 1 s until the arm counts as at rest, unless the planner moves it.

        Needed as the 0.15 s of `Stillness` reach back into a motion that has just ended, and as a
        busy PC serves a request before the joint_states that were sent before it.
        """
        begin = time.monotonic()

        def is_over() -> bool:
            return self._arrived > begin and (self.is_moving or not self.why_not_at_rest)

        await wait_until(self._node, is_over, _REST_TIMEOUT)

    def observe(self) -> Observation:
        inputs, outputs = self._io.pins()
        stop_reason = self._stop_reason
        if not self.is_stopped and self._io.silence > self._io_timeout:
            stop_reason = silent_io(self._io_timeout)
        return Observation(
            t=self.stamp,
            q=np.full(6, np.nan) if self.q is None else self.q,
            inputs=inputs,
            outputs=outputs,
            tool_voltage=self._io.tool_voltage,
            stop_reason=stop_reason,
            is_at_rest=not self.why_not_at_rest,
            speed_scaling=self._speed_scaling,
            gripper=self._gripper.view() if self._gripper else GripperView(),
        )

    def send(self, command: Command, on_reply: OnOutcome) -> None:
        is_sent = False

        def reply(outcome: Outcome) -> None:
            on_reply(outcome)
            # Not to wait for the next joint_states, 8 ms. A failure has the time, in which the
            # planner's reason arrives.
            if is_sent and outcome.ok:
                self.joint_listener.poll()  # else the joints may be older than the reply
                self._on_tick()

        if isinstance(command, RunMotion):
            self._move(command, reply)
        elif isinstance(command, Carry):
            self._carried.publish(command.load)
            on_reply(DONE)
        elif isinstance(command, Compute):
            self._node.begin(self._compute, command, on_reply)
        elif isinstance(command, MoveGripper):
            assert self._gripper is not None
            self._gripper.send(command, reply)
        else:
            self._io.send(command, reply)
        is_sent = True

    async def _compute(self, command: Compute, on_reply: OnOutcome) -> None:
        on_reply(await self._node.in_pool(command.attempt))

    def cancel_motion(self) -> None:
        self._motions += 1  # a goal not yet accepted is canceled on acceptance
        if self._goal is not None:
            self._goal.cancel_goal_async()

    def _move(self, command: RunMotion, on_reply: OnOutcome) -> None:
        if not self._execute.server_is_ready():
            reason = 'action server execute_trajectory is not there: start the planner'
            on_reply(Outcome.failed(reason))
            return
        goal = ExecuteTrajectory.Goal()
        goal.trajectory.joint_trajectory = trajectory_to_msg(command.trajectory, self._names)
        name_method(goal, command.method)
        self._motions += 1
        motion = self._motions
        pending = PendingMotion(command.trajectory.q[-1], on_reply, time.monotonic())
        self._pending = pending
        self._execute.send_goal_async(goal).add_done_callback(
            lambda future: self._on_goal(motion, future.result(), pending.reply)
        )

    def _on_goal(self, motion: int, handle: Any, on_reply: OnOutcome) -> None:
        if not handle.accepted:
            on_reply(Outcome.failed('the planner refused the motion'))
            return
        self._goal = handle
        if motion != self._motions:
            handle.cancel_goal_async()
        handle.get_result_async().add_done_callback(
            lambda future: self._on_result(handle, future, on_reply)
        )

    def _on_result(self, handle: Any, future: 'Future[Any]', on_reply: OnOutcome) -> None:
        reply: Any = future.result()
        if self._goal is handle:  # else it is the result of an earlier one
            self._goal = None
        on_reply(outcome_of(reply.result.error_code))

    def _on_planner_state(self, message: String) -> None:
        self.planner_state, self.has_planner = message.data, True
        self._motion_state, self._stop_reason = parse_motion_state(message.data)
        if self._pending:
            self._pending.on_planner_state(self._motion_state, time.monotonic())
        self._on_tick()

    def _on_joint_states(self, joints: Joints) -> None:
        self.q, self.stamp, self._bad_joints = joints.q, joints.stamp, ''
        self._arrived = time.monotonic()
        self._stillness.update(self.stamp, self.q)
        if abs(self.stamp - self._ticked) >= _TICK:  # stamps may jump back
            self._ticked = self.stamp
            if self._pending and not self._pending.is_over:
                self._pending.on_joints(self.q, self._arrived)
            self._on_tick()


def outcome_of(code: Any) -> Outcome:
    """Return how a motion ended, by MoveIt's error code; Humble's has no message."""
    if code.val == code.SUCCESS:
        return DONE
    return Outcome.failed(read(code, 'message', '') or f'code {code.val}')
