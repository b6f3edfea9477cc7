# SPDX-License-Identifier: Apache-2.0
"""
Plan motions and check every one; the only node that moves the arm.

Services and actions have MoveIt's names and types, so that MoveIt clients can use it:

- plan_kinematic_path: AUTO, PTP, LIN, CIRC and more (moveit_msgs/srv/GetMotionPlan)
- compute_cartesian_path: a straight path (moveit_msgs/srv/GetCartesianPath)
- execute_trajectory: action (moveit_msgs/action/ExecuteTrajectory)
- move_action: action: plan and execute (moveit_msgs/action/MoveGroup)
- apply_planning_scene, get_planning_scene: services; and the scene topics
- ~/delta_twist_cmds: jog the TCP [m/s, rad/s] (geometry_msgs/msg/TwistStamped)
- ~/delta_joint_cmds: jog joints [rad/s] (control_msgs/msg/JointJog)
- ~/pause_servo, ~/switch_command_type: as of moveit_servo (std_srvs/srv/SetBool, moveit_msgs)
- ~/stop, ~/rearm: stop the arm; allow motion again (std_srvs/srv/Trigger)
- ~/motion_state: topic: ready, moving, or stopped: <reason>
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from moveit_msgs.action import ExecuteTrajectory
from moveit_msgs.msg import MotionPlanRequest, MoveItErrorCodes, RobotTrajectory
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.control.loops.rollout import loop_of
from ur5_pick_place.control.motion_state import (
    STOPPING,
    MotionState,
    is_stop_event,
    parse_motion_state,
)
from ur5_pick_place.control.robot_status import find_fault
from ur5_pick_place.errors import (
    IncompletePath,
    InvalidInput,
    InvalidRobotState,
    Ur5PickPlaceError,
    one_line,
)
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.context import make_cell
from ur5_pick_place.nodes.cell.robot_settings import warn_of_gaps
from ur5_pick_place.nodes.driver.controller_goals import PASSTHROUGH
from ur5_pick_place.nodes.driver.controller_manager import ControllerActivity, ControllerManager
from ur5_pick_place.nodes.driver.driver_link import DriverLink
from ur5_pick_place.nodes.driver.one_driver import OneDriver
from ur5_pick_place.nodes.driver.trajectory_controller import TrajectoryController
from ur5_pick_place.nodes.messages import markers
from ur5_pick_place.nodes.messages.conversions import (
    code_with_message,
    joint_state_msg,
    success,
    to_seconds,
    trajectory_from_msg,
    trajectory_to_msg,
)
from ur5_pick_place.nodes.messages.refusals import refusal
from ur5_pick_place.nodes.ros.diagnostics import ACCEPTED, STREAMS, Diagnostics
from ur5_pick_place.nodes.ros.distro import read
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.liveness import Heartbeat, watch_peer
from ur5_pick_place.nodes.ros.parameters import declare_all
from ur5_pick_place.nodes.ros.process import refuse_if_served, run_node
from ur5_pick_place.nodes.ros.service_calls import wait_until
from ur5_pick_place.nodes.scene.planning_scene import SCENE_SERVICES, SceneOwner
from ur5_pick_place.nodes.trajectory_planner.goal_run import STOP_EVENT, GoalRun, serve_goals
from ur5_pick_place.nodes.trajectory_planner.jogging import Jogging
from ur5_pick_place.nodes.trajectory_planner.move_action import MoveAction
from ur5_pick_place.nodes.trajectory_planner.plan_requests import PlanRequests
from ur5_pick_place.nodes.trajectory_planner.settings import PlannerSettings
from ur5_pick_place.outcome import OnOutcome, Outcome
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner, PlannedMotion

_TASK_GONE = 'the pick_place node has gone or is stuck: start it again, then call ~/rearm'
_SERVED = (
    'plan_kinematic_path',
    'compute_cartesian_path',
    'execute_trajectory/_action/send_goal',
    'move_action/_action/send_goal',
    *SCENE_SERVICES,
    *('~/stop', '~/rearm', '~/pause_servo', '~/switch_command_type'),
)
_ENDS = 'the planner node ends: start it again'
_BRAKING = 1.5  # [s, steady clock] for a braking motion before this node ends
_WATCH_PERIOD = 0.02  # [s], steady clock
_ACTIVATION = 1.0  # [s], steady clock, for the driver to activate the controller
_AT_ONCE = 1.0  # [s] by which a client's clock may be ahead of ours

Reply = TypeVar('Reply')


class TrajectoryPlanner(SerialNode):
    """Plans, checks and executes; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__('trajectory_planner')
        self._is_ending = False
        self._settings = settings = declare_all(self, PlannerSettings)
        self.cell = cell = make_cell(self, settings.robot, settings.stamps)
        health = settings.health
        warn_of_gaps(self, cell.model, cell.unset_parameters, check_modes=health.check_modes)
        dynamics = Dynamics(cell.model, [cell.tool_load], cell.scene.mounting)
        self._planner = MotionPlanner(cell.model, settings.motion, cell.scene, dynamics)
        refuse_if_served(self, _SERVED)
        self._link, self._manager = self._connect()
        self._requests = PlanRequests(cell, self._planner, settings, self._recent_joints)
        self._scene = SceneOwner(
            cell, self._planner, self._recent_joints, self._manager.stop_if_blocked
        )
        self._jogging = Jogging(
            cell, self._scene, self._manager, self._controllers, settings.loops
        )
        watch_peer(
            self, 'pick_place/state', health.peer_timeout, self._on_task_state, self._on_task_gone
        )
        Diagnostics(self, self._readiness, self._figures)
        self._path = self.create_publisher(MarkerArray, 'planned_path', 1)
        self._planning = ThreadPoolExecutor(1)  # one request after the other
        self._offer()

    def _connect(self) -> tuple[DriverLink, ExecutionManager]:
        """Return what receives from the driver, and what moves the arm through it."""
        settings, cell = self._settings, self.cell
        health, controller = settings.health, cell.robot.controller
        self._has_been_ready = self._was_running = False  # this node; the program on the robot
        self._state = Heartbeat(
            self, '~/motion_state', health.peer_timeout, lambda _seconds: self._watch()
        )
        link = DriverLink(
            self,
            cell.joint_names,
            lambda: self._manager.on_joints(),
            self._watch,
            lambda: self._manager.is_moving,
        )
        link.joint_listener.record_in(cell.frames.joints)
        self._controllers = ControllerManager(self)
        driver = OneDriver(self, settings.robot.is_simulated)
        self._controller = TrajectoryController(cell, self._controllers, settings.tracking, driver)
        manager = ExecutionManager(
            self._planner,
            self._controller,
            link.status,
            (health, settings.tracking),
            cell.unset_parameters,
            self._publish,
            time.monotonic,
            replaces=controller != PASSTHROUGH,
        )
        self._activity = ControllerActivity(self._controllers, controller, link.status)
        self.reader.every(_WATCH_PERIOD, self._watch)
        return link, manager

    def _watch(self) -> None:
        was_running, self._was_running = self._was_running, bool(self._link.status.program_running)
        if self._was_running and not was_running:
            self._activity.invalidate()
        self._activity.request_if_due()
        self._manager.watch()

    def _publish(self, text: str) -> None:
        state, _ = parse_motion_state(text)
        if state is MotionState.STOPPED and self._has_been_ready:
            self.get_logger().error(text)
        self._has_been_ready |= state is MotionState.READY
        self._state.publish(text)

    def _offer(self) -> None:
        for kind, name, answer in (
            (GetMotionPlan, 'plan_kinematic_path', self._plan),
            (GetCartesianPath, 'compute_cartesian_path', self._cartesian),
        ):
            self.create_service(kind, name, partial(self._answer_planned, answer))
        manager = self._manager
        self._action = serve_goals(
            self, manager, ExecuteTrajectory, 'execute_trajectory', self._execute
        )
        MoveAction(self.cell, self._scene, manager, self._motion_plan)
        self.create_subscription(String, 'trajectory_execution_event', self._on_event, 10)
        self.create_service(Trigger, '~/stop', self._on_stop)
        self.create_service(Trigger, '~/rearm', self._on_rearm)

    def come_to_rest(self) -> Iterator[None]:
        """Brake, as this node ends, and cancel what has not come to rest in time."""
        self._is_ending, manager = True, self._manager
        manager.stop(_ENDS, latch=False)
        deadline = time.monotonic() + _BRAKING
        while manager.is_moving:
            if time.monotonic() > deadline:
                manager.fail(_ENDS)
            yield

    def _on_task_gone(self) -> None:
        if self._is_ending:
            return  # the launch ends both
        manager = self._manager
        manager.status.is_in_freedrive = False  # it is no longer kept enabled
        self._jogging.task_state = ''  # it does nothing any more
        # One that ends in order has requested a stop first: the arm brakes already.
        end = partial(manager.stop, latch=True) if manager.is_latched else manager.fail
        end(_TASK_GONE)

    def _on_task_state(self, state: String) -> None:
        self._manager.status.is_in_freedrive = state.data == 'freedrive'
        self._jogging.task_state = state.data

    def _readiness(self) -> tuple[bool, str]:
        """Return whether the arm may move, and the text of the motion state."""
        text = self._manager.motion_state
        return parse_motion_state(text)[0] is not MotionState.STOPPED, text

    def _figures(self) -> dict[str, str]:
        streams = {STREAMS: self._controller.why_no_stream or ACCEPTED}
        return self._link.jitter.summary() | streams | self._jogging.figures()

    def _recent_joints(self) -> Array | None:
        status = self._link.status
        if status.bad_joints:
            raise InvalidRobotState(status.bad_joints)
        silence = time.monotonic() - (status.arrived or 0.0)
        return status.q if silence < self._settings.present_time else None

    # -- planning ------------------------------------------------------------------------------

    async def _answer_planned(
        self, answer: Callable[..., Reply], request: object, reply: object
    ) -> Reply:
        # A stop ends also what still waits for a thread.
        stops = self._manager.stops
        return await self.in_pool(
            answer, request, reply, lambda: self._manager.stops == stops, threads=self._planning
        )

    def _plan(
        self,
        request: GetMotionPlan.Request,
        reply: GetMotionPlan.Response,
        is_wanted: Callable[[], bool],
    ) -> GetMotionPlan.Response:
        response, wanted = reply.motion_plan_response, request.motion_plan_request
        response.group_name = wanted.group_name
        planned, response.error_code, response.planning_time = self._motion_plan(
            wanted, is_wanted
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
        self,
        request: GetCartesianPath.Request,
        response: GetCartesianPath.Response,
        is_wanted: Callable[[], bool],
    ) -> GetCartesianPath.Response:
        try:
            self._scene.wait()
            planned, end = self._requests.cartesian_path(request, is_wanted)
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
        return joint_state_msg(planned.trajectory.q[0], self.cell.joint_names)

    def _message(self, planned: PlannedMotion) -> JointTrajectory:
        return trajectory_to_msg(planned.trajectory, self.cell.joint_names)

    def _show(self, planned: PlannedMotion) -> None:
        if self._path.get_subscription_count():
            path = markers.tool_path(self._planner, planned.trajectory)
            self._path.publish(self.cell.frames.prefixed(path))

    # -- moving --------------------------------------------------------------------------------

    async def _execute(self, run: GoalRun) -> ExecuteTrajectory.Result:
        code = await run.move(partial(self._start, run), ExecuteTrajectory.Feedback)
        return ExecuteTrajectory.Result(error_code=code)

    def _start(self, run: GoalRun, on_end: OnOutcome) -> None:
        self._scene.wait()
        trajectory, method = self._requested(run.goal.request)
        if not method:
            self._manager.start(trajectory, on_end, run.is_wanted)
            return
        make_loop = partial(loop_of, self._planner, method, trajectory, self._settings.loops)
        self._manager.start_loop(make_loop, trajectory, on_end, run.is_wanted)

    def _requested(self, request: ExecuteTrajectory.Goal) -> tuple[Trajectory, str]:
        """Return a trajectory, and the closed loop that is to follow its line, if any."""
        # rclpy keeps a request for 10 s after its end: 80 MB of a motion of 100,000 points.
        message, request.trajectory = request.trajectory, RobotTrajectory()
        stamp = to_seconds(message.joint_trajectory.header.stamp)
        ahead = stamp - to_seconds(self.get_clock().now().to_msg())
        if ahead > _AT_ONCE:  # the gate checks it against the present joints
            raise InvalidInput(
                f'trajectory header.stamp is {ahead:.3f} s from now: a motion begins at once, '
                'leave it 0, and send the motion when it is due'
            )
        names: list[str] = list(read(request, 'controller_names', ()))
        if len(names) > 1 or not set(names) <= set(METHODS):
            raise InvalidInput(
                f'controller_names = {names}: must be one of {", ".join(METHODS)}, or empty to '
                'run the trajectory'
            )
        trajectory = trajectory_from_msg(message, self.cell.joint_names)
        return trajectory, names[0] if names else ''

    def _on_event(self, message: String) -> None:
        if is_stop_event(message.data):
            self._manager.stop(STOP_EVENT, latch=False)
        else:
            ignored = f'trajectory_execution_event {message.data!r} ignored: must be "stop"'
            self.get_logger().warning(one_line(ignored))

    def _on_stop(self, _request: Trigger.Request, reply: Trigger.Response) -> Trigger.Response:
        # A busy PC may have left joints unread, and from old ones the arm cannot brake.
        self._link.joint_listener.poll()
        self._manager.stop('stop requested', latch=True)
        reply.success, reply.message = True, STOPPING
        return reply

    async def _rearm(self) -> Outcome:
        """
        Rearm once the controller is active, at most a second later.

        The driver activates it only a moment after the program runs.
        """
        status, stops = self._link.status, self._manager.stops

        def is_decided() -> bool:
            is_refused = bool(find_fault(status, time.monotonic(), self._settings.health))
            return not status.why_inactive or status.is_in_freedrive or is_refused

        self._activity.invalidate()
        await wait_until(self, is_decided, _ACTIVATION)
        if self._manager.stops != stops:
            return Outcome.failed('a stop came meanwhile; call ~/rearm again')
        return self._manager.rearm()

    async def _on_rearm(
        self, _request: Trigger.Request, reply: Trigger.Response
    ) -> Trigger.Response:
        outcome = await self._rearm()
        reply.success, reply.message = outcome.ok, outcome.reason or 'ready'
        return reply


def main() -> None:
    """Run the node until it is shut down."""
    run_node(TrajectoryPlanner)
