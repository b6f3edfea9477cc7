# SPDX-License-Identifier: Apache-2.0
"""
The planner node: plans motions, and is the only node that commands them.

Services and actions have MoveIt's names and types, so that MoveIt clients can use it.

"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from moveit_msgs.action import ExecuteTrajectory
from moveit_msgs.msg import MotionPlanRequest, MoveItErrorCodes, RobotTrajectory
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan
from rclpy.action import ActionServer, CancelResponse
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.rollout import loop_of
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.robot_status import HealthSettings
from ur5_pick_place.errors import (
    IncompletePath,
    InvalidInput,
    InvalidRobotState,
    Ur5PickPlaceError,
    one_line,
)
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.loads import arm_dynamics
from ur5_pick_place.nodes.cell.robot_settings import (
    GroupSettings,
    RobotSettings,
    load_cell,
    warn_of_gaps,
)
from ur5_pick_place.nodes.driver.one_driver import OneDriver
from ur5_pick_place.nodes.driver.trajectory_client import TrajectoryClient
from ur5_pick_place.nodes.messages import markers
from ur5_pick_place.nodes.messages.conversions import (
    code_with_message,
    joint_state_msg,
    success,
    trajectory_from_msg,
    trajectory_to_msg,
)
from ur5_pick_place.nodes.messages.refusals import refusal
from ur5_pick_place.nodes.ros.diagnostics import ACCEPTED, STREAMS, Diagnostics
from ur5_pick_place.nodes.ros.distro import read
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.liveness import watch_peer
from ur5_pick_place.nodes.ros.parameters import declare_settings
from ur5_pick_place.nodes.ros.process import refuse_if_served, run_node
from ur5_pick_place.nodes.ros.steady_expiry import steady_expiry
from ur5_pick_place.nodes.scene.planning_scene import SCENE_SERVICES, SceneOwner
from ur5_pick_place.nodes.tf.frames import Frames, StampSettings
from ur5_pick_place.nodes.trajectory_planner.execution import (
    STOP_EVENT,
    Execution,
    check_begins_now,
)
from ur5_pick_place.nodes.trajectory_planner.jogging import Jogging
from ur5_pick_place.nodes.trajectory_planner.move_action import MoveAction
from ur5_pick_place.nodes.trajectory_planner.plan_requests import CartesianSettings, PlanRequests
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner, PlannedMotion

_TASK_GONE = 'the pick_place node has gone or is stuck: start it again, then call ~/rearm'
_SERVED = (
    'plan_kinematic_path',
    'compute_cartesian_path',
    'execute_trajectory/_action/send_goal',
    'move_action/_action/send_goal',
    *SCENE_SERVICES,
    *('~/stop', '~/rearm'),
)
_ENDS = 'the planner node ends: start it again'
_BRAKING = 1.5  # [s, steady clock] for a braking motion before this node ends
# [s] of silence after which the joints count as unknown; joint_state_timeout if that is more
_PRESENT = 0.5


class TrajectoryPlanner(SerialNode):
    """Plans, checks and executes; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__('trajectory_planner')
        self._is_ending = False
        robot, motion, health, tracking, groups, cartesian, self._loops, stamps = declare_settings(
            self,
            RobotSettings,
            MotionSettings,
            HealthSettings,
            TrackingSettings,
            GroupSettings,
            CartesianSettings,
            LoopSettings,
            StampSettings,
        )
        self._present_time = max(_PRESENT, health.joint_state_timeout)
        cell = load_cell(robot)
        warn_of_gaps(self, cell.unset_parameters, check_modes=health.check_modes)
        self._names = cell.joint_names
        self._planner = MotionPlanner(
            cell.model, motion, cell.scene, arm_dynamics(cell.model, robot)
        )
        self._frames = Frames(self, robot.tf_prefix, cell.T_tool_tcp, cell.model, stamps)
        refuse_if_served(self, _SERVED)
        self._trajectory_client = self._make_client(robot, health, tracking, cell.unset_parameters)
        self._trajectory_client.link.joint_listener.record_in(self._frames.joints)
        self._requests = PlanRequests(
            self._planner,
            self._frames,
            self._names,
            groups,
            cartesian,
            self._loops,
            self._present_joints,
            self._warn,
        )
        self._scene = SceneOwner(
            self,
            self._planner,
            self._names,
            self._frames,
            self._present_joints,
            self._trajectory_client.manager.stop_if_blocked,
        )
        self._jogging = Jogging(
            self,
            self._trajectory_client,
            self._trajectory_client.controllers,
            self._planner,
            self._frames,
            self._names,
            self._loops,
            robot.controller,
        )
        watch_peer(
            self, 'pick_place/state', health.peer_timeout, self._on_task_state, self._on_task_gone
        )
        Diagnostics(self, self._trajectory_client.readiness, self._figures)
        self._path = self.create_publisher(MarkerArray, 'planned_path', 1)
        self._planning = ThreadPoolExecutor(1)  # one request after the other
        self._offer()

    def _make_client(
        self,
        robot: RobotSettings,
        health: HealthSettings,
        tracking: TrackingSettings,
        unset_parameters: str,
    ) -> TrajectoryClient:
        return TrajectoryClient(
            self,
            robot.controller,
            self._planner,
            self._names,
            health,
            tracking,
            unset_parameters,
            OneDriver(self, robot.is_simulated),
        )

    def _offer(self) -> None:
        for kind, name, answer in (
            (GetMotionPlan, 'plan_kinematic_path', self._plan),
            (GetCartesianPath, 'compute_cartesian_path', self._cartesian),
        ):
            planned = partial(self.in_pool, answer, threads=self._planning)
            self.create_service(kind, name, planned)
        self._execution = Execution(self._trajectory_client, self)
        self._action = ActionServer(
            steady_expiry(self),
            ExecuteTrajectory,
            'execute_trajectory',
            self._execute,
            handle_accepted_callback=self._execution.accept,
            cancel_callback=self._on_cancel,
        )
        MoveAction(
            self, self._motion_plan, self._trajectory_client, self._execution, self._names
        )
        self.create_subscription(String, 'trajectory_execution_event', self._on_event, 10)
        self.create_service(Trigger, '~/stop', self._on_stop)
        self.create_service(Trigger, '~/rearm', self._on_rearm)

    def come_to_rest(self) -> Iterator[None]:
        """Brake, as this node ends, and cancel what has not come to rest in time."""
        self._is_ending, manager = True, self._trajectory_client.manager
        manager.stop(_ENDS, latch=False)
        deadline = time.monotonic() + _BRAKING
        while manager.is_moving:
            if time.monotonic() > deadline:
                manager.fail(_ENDS)
            yield

    def _on_task_gone(self) -> None:
        if self._is_ending:
            return  # the launch ends both
        manager = self._trajectory_client.manager
        manager.status.is_in_freedrive = False  # it is no longer kept enabled
        self._jogging.task_state = ''  # it does nothing any more
        # One that ends in order has requested a stop first: the arm brakes already.
        end = partial(manager.stop, latch=True) if manager.is_latched else manager.fail
        end(_TASK_GONE)

    def _on_task_state(self, state: String) -> None:
        self._trajectory_client.manager.status.is_in_freedrive = state.data == 'freedrive'
        self._jogging.task_state = state.data

    def _figures(self) -> dict[str, str]:
        client = self._trajectory_client
        streams = {STREAMS: client.why_no_stream or ACCEPTED}
        return client.link.jitter.summary() | streams | self._jogging.figures()

    def _present_joints(self) -> Array | None:
        status = self._trajectory_client.link.status
        if status.bad_joints:
            raise InvalidRobotState(status.bad_joints)
        silence = time.monotonic() - (status.arrived or 0.0)
        return status.q if silence < self._present_time else None

    # -- planning ------------------------------------------------------------------------------

    def _plan(
        self, request: GetMotionPlan.Request, reply: GetMotionPlan.Response
    ) -> GetMotionPlan.Response:
        response, wanted = reply.motion_plan_response, request.motion_plan_request
        response.group_name = wanted.group_name
        stops = self._trajectory_client.manager.stops
        planned, response.error_code, response.planning_time = self._motion_plan(
            wanted, lambda: self._trajectory_client.manager.stops == stops
        )
        if planned:
            response.trajectory_start.joint_state = self._first_joints(planned)
            response.trajectory.joint_trajectory = self._message(planned)
        return reply

    def _motion_plan(
        self, request: MotionPlanRequest, is_wanted: Callable[[], bool]
    ) -> tuple[PlannedMotion | None, MoveItErrorCodes, float]:
        """Return the requested motion, or None; the code; the planning time [s]."""
        begin = time.perf_counter()
        try:
            self._scene.wait()
            planned, note = self._requests.motion_plan(request, is_wanted)
            self._show(planned)
        except Exception as error:
            return None, self._refusal(error), time.perf_counter() - begin
        seconds = time.perf_counter() - begin
        if planned.detour:
            self.get_logger().info(f'planned a {planned.detour}')
        return planned, code_with_message(MoveItErrorCodes.SUCCESS, note), seconds

    def _cartesian(
        self, request: GetCartesianPath.Request, response: GetCartesianPath.Response
    ) -> GetCartesianPath.Response:
        stops = self._trajectory_client.manager.stops
        try:
            self._scene.wait()
            planned, end = self._requests.cartesian_path(
                request, lambda: self._trajectory_client.manager.stops == stops
            )
            self._show(planned)
        except Exception as error:
            response.error_code = self._refusal(error)
            response.fraction = error.fraction if isinstance(error, IncompletePath) else 0.0
            return response
        response.error_code, response.fraction = success(), 1.0
        if end:
            response.error_code = code_with_message(MoveItErrorCodes.SUCCESS, str(end))
            response.fraction = end.fraction
        response.start_state.joint_state = self._first_joints(planned)
        response.solution.joint_trajectory = self._message(planned)
        return response

    def _refusal(self, error: Exception) -> MoveItErrorCodes:
        """Return the code of a request that failed, and log it."""
        if isinstance(error, Ur5PickPlaceError):
            self.get_logger().info(f'refused: {error}')
        return refusal(self, error)

    def _first_joints(self, planned: PlannedMotion) -> JointState:
        return joint_state_msg(planned.trajectory.q[0], self._names)

    def _message(self, planned: PlannedMotion) -> JointTrajectory:
        return trajectory_to_msg(planned.trajectory, self._names)

    def _show(self, planned: PlannedMotion) -> None:
        if self._path.get_subscription_count():
            path = markers.tool_path(self._planner, planned.trajectory)
            self._path.publish(self._frames.prefixed(path))

    # -- moving --------------------------------------------------------------------------------

    async def _execute(self, goal: Any) -> ExecuteTrajectory.Result:
        is_wanted = self._execution.is_wanted(goal)

        def begin() -> 'Future[Any]':
            self._scene.wait()
            # rclpy keeps a request for 10 s after its end: 80 MB of a motion of 100,000 points.
            message, goal.request.trajectory = goal.request.trajectory, RobotTrajectory()
            now = self.get_clock().now().to_msg()
            check_begins_now(message.joint_trajectory.header.stamp, now)
            method, trajectory = _method(goal.request), trajectory_from_msg(message, self._names)
            if not method:
                return self._trajectory_client.start(trajectory, is_wanted)
            make_loop = partial(loop_of, self._planner, method, trajectory, self._loops)
            return self._trajectory_client.start_loop(make_loop, trajectory, is_wanted)

        code = await self._execution.run(goal, begin, is_wanted, ExecuteTrajectory.Feedback)
        return ExecuteTrajectory.Result(error_code=code)

    def _on_cancel(self, goal: Any) -> CancelResponse:
        self._execution.cancel(goal)
        return CancelResponse.ACCEPT

    def _on_event(self, message: String) -> None:
        if message.data == 'stop':
            self._trajectory_client.manager.stop(STOP_EVENT, latch=False)
        else:
            self._warn(f'trajectory_execution_event {message.data!r} ignored: must be "stop"')

    def _warn(self, text: str) -> None:
        self.get_logger().warning(one_line(text))

    def _on_stop(self, _request: Trigger.Request, reply: Trigger.Response) -> Trigger.Response:
        self._trajectory_client.manager.stop('stop requested', latch=True)
        reply.success, reply.message = True, 'stopping; call ~/rearm before the next motion'
        return reply

    async def _on_rearm(
        self, _request: Trigger.Request, reply: Trigger.Response
    ) -> Trigger.Response:
        outcome = await self._trajectory_client.rearm()
        reply.success, reply.message = outcome.ok, outcome.reason or 'ready'
        return reply


def _method(request: ExecuteTrajectory.Goal) -> str:
    """Return the closed-loop method that a request names; empty to follow the trajectory."""
    names: list[str] = list(read(request, 'controller_names', ()))
    if len(names) > 1 or not set(names) <= set(METHODS):
        raise InvalidInput(
            f'controller_names = {names}: must be one of {", ".join(METHODS)}, or empty to run '
            'the trajectory'
        )
    return names[0] if names else ''


def main() -> None:
    """Run the node until it is shut down."""
    run_node(TrajectoryPlanner)
