# SPDX-License-Identifier: Apache-2.0
"""The action server and the joint of simulated fingers, as a Robotiq's node offers them."""

from typing import Any

from control_msgs.action import GripperCommand, ParallelGripperCommand
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from ur5_pick_place.nodes.messages.conversions import time_to_msg
from ur5_pick_place.nodes.sim.actions import ActionFace
from ur5_pick_place.nodes.sim.publishers import SYSTEM_DEFAULT
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.gripper_server import JOINT, GripperFault, GripperGoal
from ur5_pick_place.sim.grippers import PARALLEL

ACTION = 'robotiq_gripper_controller/gripper_cmd'


class GripperActions(ActionFace):
    """Offers the gripper's action and publishes its joint, on the node of the simulated driver."""

    def __init__(self, node: Node, driver: Driver) -> None:
        server = driver.gripper_server
        assert server
        self._is_parallel = server.kind == PARALLEL
        self._unanswered: list[Future[Any]] = []
        kind = ParallelGripperCommand if self._is_parallel else GripperCommand
        super().__init__(node, driver, server, kind, ACTION)
        self._joint = node.create_publisher(JointState, 'joint_states', SYSTEM_DEFAULT)

    def publish(self) -> None:
        """Publish the gripper's joint, every cycle."""
        if GripperFault.JOINT_SILENT not in self._core.faults:
            stamp = time_to_msg(self._driver.time)
            position = [self._core.true_position]
            self._joint.publish(
                JointState(header=Header(stamp=stamp), name=[JOINT], position=position)
            )

    def monitor(self) -> None:
        if not self._is_silent:
            for answer in self._unanswered:
                answer.set_result(None)
            self._unanswered.clear()
        super().monitor()

    @property
    def is_absent(self) -> bool:
        return GripperFault.GONE in self._core.faults

    @property
    def _is_silent(self) -> bool:
        return GripperFault.SILENT in self._core.faults

    async def consider(self, request: Any) -> None:
        if self._is_silent:
            answer: Future[Any] = Future()
            self._unanswered.append(answer)
            await answer
        self._core.check(self._position_of(request))

    def _position_of(self, request: Any) -> float:
        position = request.command.position
        return float(position[0] if self._is_parallel else position)

    def begin(self, request: Any) -> Any:
        return self._core.start(self._position_of(request))

    def result(self, goal: GripperGoal) -> Any:
        result = self._filled(self._kind.Result(), goal.final)
        result.stalled, result.reached_goal = goal.stalled, goal.reached_goal
        return result

    def feedback(self, goal: GripperGoal) -> Any:
        return self._filled(self._kind.Feedback(), self._core.position)

    def _filled(self, message: Any, position: float) -> Any:
        """Return a result or feedback with the position of the knuckle [rad]."""
        if self._is_parallel:
            message.state = JointState(name=[JOINT], position=[position])
        else:
            message.position = position
        return message
