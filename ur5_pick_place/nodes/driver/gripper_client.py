# SPDX-License-Identifier: Apache-2.0
"""The client of a gripper's action: GripperCommand or ParallelGripperCommand."""

import math
import time
from collections.abc import Sequence
from typing import Any

from action_msgs.msg import GoalStatus
from control_msgs.action import GripperCommand, ParallelGripperCommand
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from ur5_pick_place.nodes.ros.distro import TakenMessage
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.qos import SWITCHING
from ur5_pick_place.nodes.ros.topic_reader import BoundedReader, Period
from ur5_pick_place.outcome import DONE, OnOutcome, Outcome
from ur5_pick_place.task.grippers.action import (
    GRIPPER_COMMAND,
    ActionSettings,
    GripperJoint,
    no_server,
    rejected,
)
from ur5_pick_place.task.job import GripperReport, GripperView, MoveGripper

_ENDS = {
    GoalStatus.STATUS_SUCCEEDED: 'succeeded',
    GoalStatus.STATUS_ABORTED: 'aborted',
    GoalStatus.STATUS_CANCELED: 'canceled',
}
_LARGEST = 16_384  # [bytes] of joint_states that are converted
_JOINTS = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)


class GripperClient:
    """
    Sends goals to the gripper and keeps what it reports; callbacks never wait.

    `joint_timeout`: see `GripperJoint`.
    """

    def __init__(
        self,
        node: SerialNode,
        settings: ActionSettings,
        period: Period,
        joint_timeout: float,
    ) -> None:
        self._settings, self._clock = settings, node.get_clock()
        self._is_parallel = settings.gripper_action_type != GRIPPER_COMMAND
        self._action: Any = ParallelGripperCommand if self._is_parallel else GripperCommand
        # A goal that a cut link or a frozen server delays for seconds is no longer delivered.
        self._client: ActionClient[Any, Any, Any] = ActionClient(
            node,
            self._action,
            settings.gripper_action,
            goal_service_qos_profile=SWITCHING,
        )
        self._goals = 0
        self._report: GripperReport | None = None
        self._joint = GripperJoint(settings.position_tolerance, joint_timeout)
        self._name = settings.gripper_joint.encode()
        self._reader = BoundedReader(node, JointState, 'joint_states', _LARGEST)
        if self._name:
            node.reader.subscribe(
                JointState, 'joint_states', self.on_joint_states, _JOINTS, period
            )

    def view(self) -> GripperView:
        """Return what is known of the gripper now."""
        now = time.monotonic()
        return GripperView(
            self._client.server_is_ready(),
            self._report,
            self._joint.position(now),
            self._joint.is_still(now),
            self._joint.is_silent(now),
        )

    def send(self, command: MoveGripper, on_reply: OnOutcome) -> None:
        """Send a goal; `on_reply` takes whether it is accepted."""
        if not self._client.server_is_ready():
            on_reply(Outcome.failed(no_server(self._settings)))
            return
        self._goals += 1
        number, sent, self._report = self._goals, self._clock.now(), None
        self._joint.forget()

        def on_answer(future: Any) -> None:
            handle = future.result()
            if not handle.accepted:
                on_reply(Outcome.failed(rejected(self._settings, command)))
            elif (self._clock.now() - sent).nanoseconds > 1e9 * command.timeout:
                handle.cancel_goal_async()  # nobody waits for it any more
            else:
                if number == self._goals:
                    self._report = GripperReport(command.position)
                handle.get_result_async().add_done_callback(
                    lambda result: self._on_result(number, command.position, result.result())
                )
                on_reply(DONE)

        self._client.send_goal_async(self._goal(command)).add_done_callback(on_answer)

    def _goal(self, command: MoveGripper) -> Any:
        goal = self._action.Goal()
        if self._is_parallel:
            goal.command.name = [self._settings.gripper_joint] if self._name else []
            goal.command.position = [command.position]
            goal.command.effort = [command.max_effort] if command.max_effort else []
        else:
            goal.command.position = command.position
            goal.command.max_effort = command.max_effort
        return goal

    def _on_result(self, number: int, target: float, answer: Any) -> None:
        if number != self._goals:
            return  # of an earlier goal
        self._joint.forget()
        result = answer.result
        if self._is_parallel:
            position = position_in(result.state, self._settings.gripper_joint)
        else:
            position = result.position
        ended = _ENDS.get(answer.status, 'lost')
        self._report = GripperReport(target, position, result.stalled, ended)

    def on_joint_states(self, waiting: Sequence[TakenMessage]) -> None:
        # Most messages are the arm's own and lack the name: they are not converted.
        ours = [taken.data for taken in waiting if self._name in taken.data]
        for data in reversed(ours):  # the newest may have only a longer name that contains it
            state = self._reader.read(data)
            if state is not None and self._settings.gripper_joint in state.name:
                position = position_in(state, self._settings.gripper_joint)
                self._joint.update(time.monotonic(), position)
                break


def position_in(state: JointState, joint: str) -> float:
    """Return the position of a joint, the first one's if it is not named; NaN without one."""
    names = list(state.name)
    index = names.index(joint) if joint in names else 0
    return float(state.position[index]) if index < len(state.position) else math.nan
