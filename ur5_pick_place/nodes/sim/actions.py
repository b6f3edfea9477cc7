# SPDX-License-Identifier: Apache-2.0
"""The trajectory controllers' action servers, topics and query service on the simulated cell."""

from threading import Lock
from typing import Any

from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance as JointToleranceMsg
from control_msgs.srv import QueryTrajectoryState
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue, SetParametersResult
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.task import Future
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
from ur5_pick_place.sim.controller_manager import PASSTHROUGH
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.goals import INVALID_GOAL, AcceptedGoal, GoalResult, JointTolerance
from ur5_pick_place.sim.spline import TrajectoryCommand, Waypoint


class TrajectoryServer:
    """
    One trajectory controller's interface.

    Parameters
    ----------
    name : str
        Of the controller.
    lock : Lock
        Held by whoever touches the driver.

    """

    def __init__(
        self, node: Node, driver: Driver, name: str, lock: Lock, group: CallbackGroup
    ) -> None:
        self._node, self._driver, self._name, self._lock = node, driver, name, lock
        self._controller = driver.trajectory[name]
        self._group = group
        self._running: dict[bytes, tuple[Any, AcceptedGoal, Future[Any]]] = {}
        self._server: ActionServer[Any, Any, Any] | None = None
        self._offer()
        self._has_parameter = self._controller.splices
        node.create_service(
            GetParameters, f'{name}/get_parameters', self._get_parameters, callback_group=group
        )
        node.create_service(
            SetParameters, f'{name}/set_parameters', self._set_parameters, callback_group=group
        )
        if name == PASSTHROUGH:
            return
        node.create_subscription(
            JointTrajectory,
            f'{name}/joint_trajectory',
            through_link(driver, self._follow),
            SYSTEM_DEFAULT,
            callback_group=group,
        )
        node.create_service(
            QueryTrajectoryState, f'{name}/query_state', self._query, callback_group=group
        )

    def monitor(self) -> None:
        """Deliver feedback and results; called at 20 Hz of simulated time by the executor."""
        self._offer()
        for handle, goal, future in list(self._running.values()):
            outcome = goal.outcome
            if outcome is None:
                self._feed_back(handle, goal)
            # A goal is canceled before rclpy has set its state; its result must wait for that.
            elif not future.done() and (
                outcome.status != 'canceled' or handle.is_cancel_requested
            ):
                future.set_result(outcome)

    def destroy(self) -> None:
        """Destroy the action server; running goals get no result."""
        if self._server is not None:
            self._server.destroy()
        self._server = None
        self._running.clear()

    def _offer(self) -> None:
        """Create or destroy the action server, as the faults require."""
        absent = self._driver.link.actions_absent
        if absent and self._server is not None:
            self.destroy()
        elif not absent and self._server is None:
            start = through_link(self._driver, self._start, reliable=True)
            self._server = ActionServer(
                self._node,
                FollowJointTrajectory,
                f'{self._name}/follow_joint_trajectory',
                execute_callback=self._execute,
                goal_callback=self._consider,
                handle_accepted_callback=start,
                cancel_callback=self._cancel,
                callback_group=self._group,
            )

    def _consider(self, request: FollowJointTrajectory.Goal) -> GoalResponse:
        try:
            with self._lock:
                command = command_from_msg(request.trajectory)
                tolerances = tolerances_from_msg(request.goal_tolerance)
                self._controller.check_goal(command, self._driver.time, tolerances)
        except InvalidInput as error:
            self._node.get_logger().error(f'{self._name}: goal rejected: {error}')
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _start(self, handle: Any) -> None:
        if self._server is None:  # destroyed since the goal was accepted
            return
        request = handle.request
        try:
            with self._lock:
                goal = self._controller.start_goal(
                    command_from_msg(request.trajectory),
                    self._driver.time,
                    tolerances_from_msg(request.path_tolerance),
                    tolerances_from_msg(request.goal_tolerance),
                    to_seconds(request.goal_time_tolerance),
                )
        except InvalidInput as error:  # it became inactive since the goal was accepted
            goal = AcceptedGoal(self._controller.defaults)
            goal.outcome = GoalResult('aborted', INVALID_GOAL, str(error))
        self._running[_key(handle)] = handle, goal, Future()
        handle.execute()

    async def _execute(self, handle: Any) -> FollowJointTrajectory.Result:
        outcome: GoalResult = await self._running[_key(handle)][2]  # type: ignore[assignment]
        del self._running[_key(handle)]
        end = {'succeeded': handle.succeed, 'aborted': handle.abort, 'canceled': handle.canceled}
        end[outcome.status]()
        return FollowJointTrajectory.Result(error_code=outcome.code, error_string=outcome.message)

    def _cancel(self, handle: Any) -> CancelResponse:
        through_link(self._driver, self._cancel_now, reliable=True)(handle)
        return CancelResponse.ACCEPT

    def _cancel_now(self, handle: Any) -> None:
        if _key(handle) in self._running:
            with self._lock:
                self._controller.cancel(self._running[_key(handle)][1])

    def _feed_back(self, handle: Any, goal: AcceptedGoal) -> None:
        tracking = goal.tracking
        if tracking is None:  # accepted since the last cycle
            return
        feedback = FollowJointTrajectory.Feedback(
            header=Header(stamp=time_to_msg(tracking.time)),
            joint_names=self._controller.joint_names,
            desired=desired_point(tracking),
            actual=actual_point(tracking),
            error=error_point(tracking),
        )
        fill(feedback, index=tracking.reference.index)  # control_msgs 6.3 and later
        handle.publish_feedback(feedback)

    def _follow(self, message: JointTrajectory) -> None:
        try:
            with self._lock:
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
        with self._lock:
            self._controller.splices = parameter.value.bool_value
        return SetParametersResult(successful=True)

    def _is_declared(self, name: str) -> bool:
        return self._has_parameter and name == 'allow_trajectory_replacement'

    def _query(
        self, request: QueryTrajectoryState.Request, response: QueryTrajectoryState.Response
    ) -> QueryTrajectoryState.Response:
        with self._lock:
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


def command_from_msg(message: JointTrajectory) -> TrajectoryCommand:
    """Return a trajectory message as a controller's command, unchecked."""
    points = [
        Waypoint(
            to_seconds(p.time_from_start), p.positions, p.velocities, p.accelerations, p.effort
        )
        for p in message.points
    ]
    return TrajectoryCommand(message.joint_names, points, to_seconds(message.header.stamp))


def tolerances_from_msg(messages: list[JointToleranceMsg]) -> list[JointTolerance]:
    """Return a goal's tolerances as the controller's, unchecked."""
    return [JointTolerance(m.name, m.position, m.velocity, m.acceleration) for m in messages]


def _key(handle: Any) -> bytes:
    return bytes(handle.goal_id.uuid)
