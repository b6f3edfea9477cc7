# SPDX-License-Identifier: Apache-2.0
"""The action server and the joint of simulated fingers, as a Robotiq's node offers them."""

from threading import Lock
from typing import Any

from control_msgs.action import GripperCommand, ParallelGripperCommand
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.messages.conversions import time_to_msg
from ur5_pick_place.nodes.sim.publishers import SYSTEM_DEFAULT
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.gripper_server import JOINT, GripperGoal, GripperServer
from ur5_pick_place.sim.grippers import PARALLEL

ACTION = 'robotiq_gripper_controller/gripper_cmd'


class GripperActions:
    """
    Offers the gripper's action and publishes its joint, on the node of the simulated driver.

    Parameters
    ----------
    server : GripperServer
        The driver's.
    lock : Lock
        Held by whoever touches the driver.

    """

    def __init__(
        self, node: Node, driver: Driver, server: GripperServer, lock: Lock, group: CallbackGroup
    ) -> None:
        self._node, self._driver, self._core = node, driver, server
        self._lock, self._group = lock, group
        self._is_parallel = server.kind == PARALLEL
        self._type: Any = ParallelGripperCommand if self._is_parallel else GripperCommand
        self._running: dict[bytes, tuple[Any, GripperGoal, Future[Any]]] = {}
        self._unanswered: list[Future[Any]] = []
        self._server: ActionServer[Any, Any, Any] | None = None
        self._joint = node.create_publisher(JointState, 'joint_states', SYSTEM_DEFAULT)
        self._offer()

    def publish(self) -> None:
        """Publish the gripper's joint, every cycle."""
        if not self._core.is_joint_silent:
            stamp = time_to_msg(self._driver.time)
            position = [self._core.true_position]
            self._joint.publish(
                JointState(header=Header(stamp=stamp), name=[JOINT], position=position)
            )

    def monitor(self) -> None:
        """Deliver feedback and results; called at 20 Hz of simulated time by the executor."""
        self._offer()
        if not self._core.is_silent:
            for answer in self._unanswered:
                answer.set_result(None)
            self._unanswered.clear()
        for handle, goal, future in list(self._running.values()):
            if not goal.ended:
                self._feed_back(handle)
            elif not future.done() and (goal.ended != 'canceled' or handle.is_cancel_requested):
                future.set_result(None)

    def destroy(self) -> None:
        """Destroy the action server; running goals get no result."""
        if self._server is not None:
            self._server.destroy()
        self._server = None
        self._running.clear()

    def _offer(self) -> None:
        """Create or destroy the action server, as the faults require."""
        if self._core.is_absent and self._server is not None:
            self.destroy()
        elif not self._core.is_absent and self._server is None:
            consider: Any = self._consider  # rclpy awaits it, though its types do not say so
            self._server = ActionServer(
                self._node,
                self._type,
                ACTION,
                execute_callback=self._execute,
                goal_callback=consider,
                handle_accepted_callback=self._start,
                cancel_callback=self._cancel,
                callback_group=self._group,
            )

    async def _consider(self, request: Any) -> GoalResponse:
        if self._core.is_silent:
            answer: Future[Any] = Future()
            self._unanswered.append(answer)
            await answer
        try:
            self._core.check(self._position_of(request))
        except (InvalidInput, IndexError) as error:
            self._node.get_logger().error(f'{ACTION}: goal rejected: {error}')
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _position_of(self, request: Any) -> float:
        position = request.command.position
        return float(position[0] if self._is_parallel else position)

    def _start(self, handle: Any) -> None:
        with self._lock:
            goal = self._core.start(self._position_of(handle.request))
        self._running[_key(handle)] = handle, goal, Future()
        handle.execute()

    async def _execute(self, handle: Any) -> Any:
        if _key(handle) not in self._running:  # the server has gone meanwhile
            handle.abort()
            return self._type.Result()
        _, goal, future = self._running[_key(handle)]
        await future
        self._running.pop(_key(handle), None)
        if goal.ended == 'succeeded':
            handle.succeed()
        elif goal.ended == 'canceled':
            handle.canceled()
        else:
            handle.abort()
        result = self._filled(self._type.Result(), goal.final)
        result.stalled, result.reached_goal = goal.stalled, goal.reached_goal
        return result

    def _cancel(self, handle: Any) -> CancelResponse:
        if _key(handle) in self._running:
            with self._lock:
                self._core.cancel(self._running[_key(handle)][1])
        return CancelResponse.ACCEPT

    def _feed_back(self, handle: Any) -> None:
        handle.publish_feedback(self._filled(self._type.Feedback(), self._core.position))

    def _filled(self, message: Any, position: float) -> Any:
        """Return a result or feedback with the position of the knuckle [rad]."""
        if self._is_parallel:
            message.state = JointState(name=[JOINT], position=[position])
        else:
            message.position = position
        return message


def _key(handle: Any) -> bytes:
    return bytes(handle.goal_id.uuid)
