# SPDX-License-Identifier: Apache-2.0
"""The robot and the planner as the task sees them: topics in, actions and services out."""

import time
from collections.abc import Callable, Sequence

from moveit_msgs.action import ExecuteTrajectory
from rclpy.action import ActionClient
from rclpy.action.client import ClientGoalHandle
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.task import Future
from std_msgs.msg import Float64, String

from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.carried_part import CarriedPart
from ur5_pick_place.nodes.conversions import (
    trajectory_to_msg,
)
from ur5_pick_place.nodes.distro import name_method
from ur5_pick_place.nodes.joint_listener import JointListener, Joints
from ur5_pick_place.nodes.liveness import watch_peer
from ur5_pick_place.nodes.qos import GOAL
from ur5_pick_place.nodes.robot_io import RobotIo
from ur5_pick_place.task.job import Carry, Command, Compute, Move, Observation, silent_io
from ur5_pick_place.task.pending_motion import PendingMotion

PLANNER = 'trajectory_planner'
_TICK_EVERY = 4  # joint_states per tick: 32 ms of robot time
_STOPPED = 'stopped: '
_FRESH = 0.3  # [s] joints that are older show nothing of the present

OnReply = Callable[[str], object]


class TaskPort:
    """
    A `machine.Port` over ROS; moves the arm through the planner node only.

    Parameters
    ----------
    node : Node
    joint_names : sequence of str
        With the prefix, in controller order.
    carried : CarriedPart
        Tells the planner what is in the hand.
    io_timeout : float
        io_states silent for longer ends any job [s]; infinite where there is none.
    peer_timeout : float
        See `HealthSettings`.
    on_tick : callable
        Called at every fourth joint_states, and when the planner has stopped.
    on_planner_death : callable
        Called when the planner has gone.

    """

    def __init__(
        self,
        node: Node,
        joint_names: Sequence[str],
        carried: CarriedPart,
        io_timeout: float,
        peer_timeout: float,
        on_tick: Callable[[], None],
        on_planner_death: Callable[[], None],
    ) -> None:
        self._stillness = Stillness()
        self._arrived = 0.0  # steady time of `q` [s]
        self._node = node
        self.q: Array | None = None
        self.stamp = 0.0  # [s] ROS time of `q`: a job's clock, as /clock may come late
        self.planner_state = ''
        self._speed_scaling = 1.0
        self._names = list(joint_names)
        self._carried, self._io_timeout, self._on_tick = carried, io_timeout, on_tick
        self._goal: ClientGoalHandle | None = None
        self._motions = 0
        self._pending: PendingMotion | None = None
        self._heard = 0
        group = MutuallyExclusiveCallbackGroup()
        self._io = RobotIo(node, group)
        self._execute = ActionClient(
            node,
            ExecuteTrajectory,
            'execute_trajectory',
            goal_service_qos_profile=GOAL,
            callback_group=group,
        )
        state = f'{PLANNER}/motion_state'
        watch_peer(node, state, peer_timeout, self._hear_planner, on_planner_death)

        def hear(kind: type, topic: str, callback: Callable) -> None:
            node.create_subscription(
                kind, topic, callback, qos_profile_sensor_data, callback_group=group
            )

        hear(Float64, 'speed_scaling_state_broadcaster/speed_scaling', self._hear_scaling)
        # Bad joints are the planner's to judge, which hears them too.
        JointListener(node, joint_names, self._hear_joints, lambda _problem: None, group)

    @property
    def missing(self) -> str:
        state = self.planner_state if self._execute.server_is_ready() else ''
        if state != 'ready':
            return f'the planner is {state or "not there"}: start or rearm it'
        if not self._io.is_there:
            return 'set_io and set_payload are not there: start the driver'
        return ''

    def present_joints(self) -> Array:
        """Return the measured joints (6,) [rad], or raise `ExecutionError`."""
        if self.q is None:
            raise ExecutionError('no joint_states yet; is the driver running?')
        return self.q

    @property
    def is_at_rest(self) -> bool:
        """Whether fresh joints show the arm at rest."""
        age = time.monotonic() - self._arrived
        return age < _FRESH and self._stillness.is_at_rest

    def observe(self) -> Observation:
        inputs, outputs = self._io.pins()
        stopped = ''
        if self.planner_state.startswith(_STOPPED):
            stopped = self.planner_state.removeprefix(_STOPPED)
        elif self._io.silence > self._io_timeout:
            stopped = silent_io(self._io_timeout)
        return Observation(
            t=self.stamp,
            q=self.q,
            inputs=inputs,
            outputs=outputs,
            tool_voltage=self._io.tool_voltage,
            stopped=stopped,
            is_at_rest=self.is_at_rest,
            speed_scaling=self._speed_scaling,
        )

    def send(self, command: Command, on_reply: OnReply) -> None:
        if isinstance(command, Move):
            self._move(command, on_reply)
        elif isinstance(command, Carry):
            self._carried.tell(command.load)
            on_reply('')
        elif isinstance(command, Compute):
            # The executor's pool does it, beside the messages.
            self._node.executor.create_task(lambda: on_reply(command.attempt()))
        else:
            self._io.send(command, on_reply)

    def cancel_motion(self) -> None:
        self._motions += 1  # a goal whose acceptance is still on its way is canceled then
        if self._goal is not None:
            self._goal.cancel_goal_async()

    def _move(self, command: Move, on_reply: OnReply) -> None:
        if not self._execute.server_is_ready():
            on_reply('action server execute_trajectory is not there: start the planner')
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

    def _on_goal(self, motion: int, handle: ClientGoalHandle, on_reply: OnReply) -> None:
        if not handle.accepted:
            on_reply('the planner refused the motion')
            return
        self._goal = handle
        if motion != self._motions:
            handle.cancel_goal_async()
        handle.get_result_async().add_done_callback(
            lambda future: self._on_result(handle, future, on_reply)
        )

    def _on_result(self, handle: ClientGoalHandle, future: Future, on_reply: OnReply) -> None:
        code = future.result().result.error_code
        if self._goal is handle:  # else it is the result of an earlier one
            self._goal = None
        on_reply('' if code.val == code.SUCCESS else code.message or f'code {code.val}')

    def _hear_planner(self, message: String) -> None:
        self.planner_state = message.data
        if self._pending:
            self._pending.hear_planner(message.data, time.monotonic())
        self._on_tick()

    def _hear_scaling(self, message: Float64) -> None:
        if 0.0 <= message.data <= 100.0:  # what else comes is no driver's; NaN too
            self._speed_scaling = message.data / 100.0

    def _hear_joints(self, joints: Joints) -> None:
        before = self._heard // _TICK_EVERY
        self._heard += joints.count
        self.q, self.stamp = joints.q, joints.stamp
        self._arrived = time.monotonic()
        self._stillness.update(self.stamp, self.q)
        if self._heard // _TICK_EVERY > before:
            if self._pending and not self._pending.is_over:
                self._pending.look(self.q, self._arrived)
            self._on_tick()
