# SPDX-License-Identifier: Apache-2.0
"""
The action servers of the simulated cell: those of trajectory controllers, and of its fingers.

The former with their topics and services, the latter with its joint, as a Robotiq's node has them.
"""

from collections.abc import Callable
from typing import Any

from control_msgs.action import FollowJointTrajectory, GripperCommand, ParallelGripperCommand
from control_msgs.srv import QueryTrajectoryState
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue, SetParametersResult
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.messages.conversions import time_to_msg, to_seconds
from ur5_pick_place.nodes.ros.distro import fill
from ur5_pick_place.nodes.sim.publishers import (
    SYSTEM_DEFAULT,
    actual_point,
    desired_point,
    error_point,
)
from ur5_pick_place.nodes.sim.services import through_link
from ur5_pick_place.sim.controllers.controller_manager import PASSTHROUGH
from ur5_pick_place.sim.controllers.goals import INVALID_GOAL, AcceptedGoal, GoalResult
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.gripper_server import JOINT, GripperFault, GripperGoal
from ur5_pick_place.sim.grippers import PARALLEL

GRIPPER_ACTION = 'robotiq_gripper_controller/gripper_cmd'


class ActionFace:
    """
    One action server of the simulated driver, whose goals run in the driver's own time.

    `core`: cancels them; `ended` of a goal is 'succeeded', 'aborted' or 'canceled', '' while it
    runs. `kind`: of the action. `name`: of the action.
    """

    def __init__(self, node: Node, driver: Driver, core: Any, kind: Any, name: str) -> None:
        self._node, self._driver, self._core = node, driver, core
        self._kind, self._action = kind, name
        self._running: dict[bytes, tuple[Any, Any, Future[Any]]] = {}
        self._server: ActionServer[Any, Any, Any] | None = None
        self._offer()

    @property
    def is_absent(self) -> bool:
        """Whether a fault removes the server."""
        raise NotImplementedError

    async def consider(self, request: Any) -> None:
        """Raise `InvalidInput` or `IndexError` for a goal that is rejected."""
        raise NotImplementedError

    def begin(self, request: Any) -> Any:
        """Begin a goal in the driver."""
        raise NotImplementedError

    def result(self, goal: Any) -> Any:
        """Return the result of a goal that has ended."""
        raise NotImplementedError

    def feedback(self, goal: Any) -> Any:
        """Return the feedback of a goal, None if there is none yet."""
        raise NotImplementedError

    def pass_on(self, callback: Callable[[Any], None], handle: Any) -> None:
        """Hand a goal or its cancel to a callback."""
        callback(handle)

    def monitor(self) -> None:
        """Deliver feedback and results; called at 20 Hz of simulated time by the executor."""
        self._offer()
        for handle, goal, future in list(self._running.values()):
            if not goal.ended:
                feedback = self.feedback(goal)
                if feedback is not None:
                    handle.publish_feedback(feedback)
            # A goal is canceled before rclpy has set its state; its result must wait for that.
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
        if self.is_absent and self._server is not None:
            self.destroy()
        elif not self.is_absent and self._server is None:
            consider: Any = self._consider  # rclpy awaits it, though its types do not say so
            self._server = ActionServer(
                self._node,
                self._kind,
                self._action,
                execute_callback=self._execute,
                goal_callback=consider,
                handle_accepted_callback=lambda handle: self.pass_on(self._start, handle),
                cancel_callback=self._cancel,
            )

    async def _consider(self, request: Any) -> GoalResponse:
        try:
            await self.consider(request)
        except (InvalidInput, IndexError) as error:
            self._node.get_logger().error(f'{self._action}: goal rejected: {error}')
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _start(self, handle: Any) -> None:
        if self._server is None:  # destroyed since the goal was accepted
            return
        goal = self.begin(handle.request)
        self._running[_key(handle)] = handle, goal, Future()
        handle.execute()

    async def _execute(self, handle: Any) -> Any:
        if _key(handle) not in self._running:  # the server has gone meanwhile
            handle.abort()
            return self._kind.Result()
        _, goal, future = self._running[_key(handle)]
        await future
        self._running.pop(_key(handle), None)
        end = {'succeeded': handle.succeed, 'aborted': handle.abort, 'canceled': handle.canceled}
        end[goal.ended]()
        return self.result(goal)

    def _cancel(self, handle: Any) -> CancelResponse:
        self.pass_on(self._cancel_now, handle)
        return CancelResponse.ACCEPT

    def _cancel_now(self, handle: Any) -> None:
        if _key(handle) in self._running:
            self._core.cancel(self._running[_key(handle)][1])


class TrajectoryServer(ActionFace):
    """
    One trajectory controller's interface.

    `name`: of the controller.
    """

    def __init__(self, node: Node, driver: Driver, name: str) -> None:
        self._name, self._controller = name, driver.trajectory[name]
        action = f'{name}/follow_joint_trajectory'
        super().__init__(node, driver, self._controller, FollowJointTrajectory, action)
        self._has_parameter = self._controller.splices
        node.create_service(GetParameters, f'{name}/get_parameters', self._get_parameters)
        node.create_service(SetParameters, f'{name}/set_parameters', self._set_parameters)
        if name == PASSTHROUGH:
            return
        follow = through_link(driver, self._follow)
        topic = f'{name}/joint_trajectory'
        node.create_subscription(JointTrajectory, topic, follow, SYSTEM_DEFAULT)
        node.create_service(QueryTrajectoryState, f'{name}/query_state', self._query)

    @property
    def is_absent(self) -> bool:
        return self._driver.link.actions_absent

    def pass_on(self, callback: Callable[[Any], None], handle: Any) -> None:
        """Pass it through the simulated link."""
        through_link(self._driver, callback, reliable=True)(handle)

    async def consider(self, request: FollowJointTrajectory.Goal) -> None:
        command = command_from_msg(request.trajectory)
        self._controller.check_goal(command, self._driver.time, request.goal_tolerance)

    def begin(self, request: FollowJointTrajectory.Goal) -> AcceptedGoal:
        try:
            return self._controller.start_goal(
                command_from_msg(request.trajectory),
                self._driver.time,
                request.path_tolerance,
                request.goal_tolerance,
                to_seconds(request.goal_time_tolerance),
            )
        except InvalidInput as error:  # it became inactive since the goal was accepted
            goal = AcceptedGoal(self._controller.defaults)
            goal.outcome = GoalResult('aborted', INVALID_GOAL, str(error))
            return goal

    def result(self, goal: AcceptedGoal) -> FollowJointTrajectory.Result:
        assert goal.outcome
        return FollowJointTrajectory.Result(
            error_code=goal.outcome.code, error_string=goal.outcome.message
        )

    def feedback(self, goal: AcceptedGoal) -> FollowJointTrajectory.Feedback | None:
        tracking = goal.tracking
        if tracking is None:  # accepted since the last cycle
            return None
        feedback = FollowJointTrajectory.Feedback(
            header=Header(stamp=time_to_msg(tracking.time)),
            joint_names=self._controller.joint_names,
            desired=desired_point(tracking),
            actual=actual_point(tracking),
            error=error_point(tracking),
        )
        fill(feedback, index=tracking.reference.index)  # control_msgs 6.3 and later
        return feedback

    def _follow(self, message: JointTrajectory) -> None:
        try:
            self._controller.follow(command_from_msg(message), self._driver.time)
        except InvalidInput as error:
            self._node.get_logger().error(f'{self._name}: trajectory ignored: {error}')

    def _get_parameters(
        self, request: GetParameters.Request, response: GetParameters.Response
    ) -> GetParameters.Response:
        """Return the one parameter, which a controller up to 6.9 lacks; no value at all if not."""
        if all(self._is_declared(name) for name in request.names):
            kind, value = ParameterType.PARAMETER_BOOL, self._controller.splices
            response.values = [ParameterValue(type=kind, bool_value=value) for _ in request.names]
        return response

    def _set_parameters(
        self, request: SetParameters.Request, response: SetParameters.Response
    ) -> SetParameters.Response:
        response.results = [self._set_parameter(each) for each in request.parameters]
        return response

    def _set_parameter(self, parameter: Parameter) -> SetParametersResult:
        if not self._is_declared(parameter.name):
            return SetParametersResult(
                reason=f"parameter '{parameter.name}' cannot be set because it was not declared"
            )
        if parameter.value.type != ParameterType.PARAMETER_BOOL:
            return SetParametersResult(reason=f"wrong type of parameter '{parameter.name}'")
        self._controller.splices = parameter.value.bool_value
        return SetParametersResult(successful=True)

    def _is_declared(self, name: str) -> bool:
        return self._has_parameter and name == 'allow_trajectory_replacement'

    def _query(
        self, request: QueryTrajectoryState.Request, response: QueryTrajectoryState.Response
    ) -> QueryTrajectoryState.Response:
        state = self._controller.query(to_seconds(request.time))
        response.success = state is not None
        if state is None:
            response.message = 'No trajectory runs at that time.'
            return response
        response.name = list(self._controller.joint_names)
        response.position, response.velocity, response.acceleration = (
            state.q.tolist(),
            state.qd.tolist(),
            state.qdd.tolist(),
        )
        return response


class GripperActions(ActionFace):
    """Offers the gripper's action and publishes its joint, on the node of the simulated driver."""

    def __init__(self, node: Node, driver: Driver) -> None:
        server = driver.gripper_server
        assert server
        self._is_parallel = server.kind == PARALLEL
        self._unanswered: list[Future[Any]] = []
        kind = ParallelGripperCommand if self._is_parallel else GripperCommand
        super().__init__(node, driver, server, kind, GRIPPER_ACTION)
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


def command_from_msg(message: JointTrajectory) -> TrajectoryCommand:
    """Return a trajectory message as a controller's command, unchecked."""
    points = [
        Waypoint(
            to_seconds(p.time_from_start), p.positions, p.velocities, p.accelerations, p.effort
        )
        for p in message.points
    ]
    return TrajectoryCommand(message.joint_names, points, to_seconds(message.header.stamp))


def _key(handle: Any) -> bytes:
    return bytes(handle.goal_id.uuid)
