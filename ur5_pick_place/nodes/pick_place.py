# SPDX-License-Identifier: Apache-2.0
"""
The task node: teach, plan, run; it moves the arm only through the planner node.

The decisions are made in `task.machine`; here are the requests and the published topics.

"""

import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from control_msgs.action import GripperCommand
from geometry_msgs.msg import PoseStamped
from rclpy.action import ActionServer
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.control.loop_settings import LoopSettings
from ur5_pick_place.control.robot_status import HealthSettings, io_patience
from ur5_pick_place.errors import ExecutionError, InvalidInput, Ur5PickPlaceError
from ur5_pick_place.nodes import markers
from ur5_pick_place.nodes.arm_stop import ArmStop
from ur5_pick_place.nodes.asking import ask
from ur5_pick_place.nodes.carried_part import CarriedPart
from ur5_pick_place.nodes.controller_goals import ControllerGoals
from ur5_pick_place.nodes.diagnostics import Diagnostics
from ur5_pick_place.nodes.frames import Frames
from ur5_pick_place.nodes.freedrive import Freedrive
from ur5_pick_place.nodes.liveness import Heartbeat
from ur5_pick_place.nodes.loads import arm_dynamics
from ur5_pick_place.nodes.parameters import declare_settings
from ur5_pick_place.nodes.planning_scene import SceneFollower
from ur5_pick_place.nodes.process import refuse_if_served, run_node
from ur5_pick_place.nodes.prompt_executor import AtOnce
from ur5_pick_place.nodes.qos import LATCHED
from ur5_pick_place.nodes.robot_settings import (
    RobotSettings,
    TeachingSettings,
    config_file,
    load_cell,
    warn_of_gaps,
)
from ur5_pick_place.nodes.task_port import PLANNER, TaskPort
from ur5_pick_place.nodes.teach_markers import TeachMarkers
from ur5_pick_place.nodes.teaching import Teaching
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.world import World
from ur5_pick_place.settings import setting
from ur5_pick_place.task import events
from ur5_pick_place.task.cycle import load_cycle
from ur5_pick_place.task.gripper import GripperSettings
from ur5_pick_place.task.job import Steps
from ur5_pick_place.task.machine import PLANNER_GONE
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.pattern import PatternSettings
from ur5_pick_place.task.plan_report import report_text
from ur5_pick_place.task.poses import TAUGHT, TaughtPose
from ur5_pick_place.task.station import Station, StationSettings

# One for planning, one for joints and pins, one for the services meanwhile.
_THREADS = 3
_PLANNER_REPLY = 0.03  # [s, steady clock] before a stop no longer waits for the planner


@dataclass(frozen=True)
class NodeSettings(TeachingSettings):
    """Files and thresholds of this node."""

    cycle_file: str = setting(
        'cycle.yaml', 'the stages; a path, or a bare file name within config/'
    )
    gripper_threshold: float = setting(
        0.02, 'GripperCommand positions above it open, others close', unit='m', low=0.0, high=0.2
    )


class PickPlace(Node):
    """Teaches, plans and runs; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__('pick_place')
        robot, motion, health, task, pattern, loops, grip, own = declare_settings(
            self,
            RobotSettings,
            MotionSettings,
            HealthSettings,
            TaskSettings,
            PatternSettings,
            LoopSettings,
            GripperSettings,
            NodeSettings,
        )
        refuse_if_served(
            self, ('~/run', 'gripper_action_controller/gripper_command/_action/send_goal')
        )
        cell = load_cell(robot)
        warn_of_gaps(
            self, cell.missing, check_modes=health.check_modes, confirm_pins=grip.confirm_pins
        )
        self._settings, self._robot, self._cell = own, robot, cell
        self._frames = Frames(self, robot.tf_prefix, cell.T_tool_tcp)
        self._port = TaskPort(
            self,
            cell.joint_names,
            CarriedPart(self, cell.scene, robot.tf_prefix),
            io_patience(health) if grip.confirm_pins else math.inf,
            health.peer_timeout,
            self._on_tick,
            self._on_planner_death,
        )
        cycle = load_cycle(config_file(own.cycle_file))
        payload = (robot.payload_mass or 0.0, robot.payload_centre)
        station = Station(
            StationSettings(
                motion, task, pattern, loops, grip, cycle, robot.tool_voltage, payload
            ),
            cell.model,
            cell.scene,
            arm_dynamics(cell.model, robot),
            self._port,
            self._emit,
        )
        self._station, self._run, self._machine = station, station.run, station.machine
        self._published, self._publishing = '', threading.Lock()
        self._offer(health.peer_timeout)

    def _offer(self, lease: float) -> None:
        """Read the taught poses and offer every topic and service; `lease` [s] of the state."""
        station, prefix = self._station, self._robot.tf_prefix
        file = Path(self._settings.poses_file).expanduser()
        # First, as it may raise: the planner takes a state whose publisher ends for a dead node.
        self._teaching = Teaching(
            self,
            file,
            station.planner,
            station.provenance,
            self._frames,
            prefix,
            station.cycle_planner.places.check_taught,
        )
        self._state = Heartbeat(self, '~/state', lease, self._on_frozen)
        self._event = self.create_publisher(String, '~/event', 100)
        self._markers = self.create_publisher(MarkerArray, '~/markers', LATCHED)
        group = ReentrantCallbackGroup()
        self._offer_services(group)
        self._offer_gripper_and_poses(group)
        self._teach_markers = TeachMarkers(
            self, prefix, self._teaching.places, self._teach_pose, group
        )
        Diagnostics(self, lambda: (not self._machine.stopped, self._machine.state))
        if self._teaching.warning:
            self._emit(events.RECOVERED, reason=self._teaching.warning)
        self._take_world(self._cell.scene.world)
        SceneFollower(
            self,
            self._frames,
            lambda world, _part: self._take_world(world),
            MutuallyExclusiveCallbackGroup(),
            restores=True,
        )
        self._publish_state()

    def _offer_services(self, group: ReentrantCallbackGroup) -> None:
        machine, run, gripper = self._machine, self._run, self._station.gripper
        services: dict[str, Callable[[], str]] = {
            **{f'teach_{n}': partial(self._teach_joints, n) for n in TAUGHT},
            'plan': self._make_plan,
            'run': lambda: machine.start_run(self._teaching.poses),
            'go_home': lambda: machine.go_home(self._teaching.poses),
            'init_gripper': lambda: machine.start('init_gripper', gripper.initialise()),
            'open_gripper': lambda: machine.start('open_gripper', run.open()),
            'close_gripper': lambda: machine.start('close_gripper', run.close()),
        }
        at_once = AtOnce()
        for name, action in services.items():
            self._serve(name, action, group)
        for name, action in (('pause', machine.pause), ('resume', machine.resume)):
            self._serve(name, action, at_once)
        self._rearm_planner: Client[Any, Any] = self.create_client(
            Trigger, f'{PLANNER}/rearm', callback_group=group
        )
        self._stop_planner: Client[Any, Any] = self.create_client(
            Trigger, f'{PLANNER}/stop', callback_group=at_once
        )
        self.create_service(Trigger, '~/stop', self._stop, callback_group=at_once)
        self.create_service(Trigger, '~/rearm', self._rearm, callback_group=group)
        self.create_service(SetBool, '~/freedrive', self._switch_freedrive, callback_group=group)
        controller = self._robot.controller
        goals = ControllerGoals(self, controller, self._cell.joint_names, at_once)
        self._arm_stop = ArmStop(self, goals, lambda: self._port.is_at_rest)
        self._freedrive = Freedrive(self, controller, group)

    def _offer_gripper_and_poses(self, group: ReentrantCallbackGroup) -> None:
        for name in ('start', 'target'):
            self.create_subscription(
                PoseStamped,
                f'~/{name}_pose',
                lambda message, name=name: self._teach_pose(name, message),
                10,
                callback_group=group,
            )
        self._gripper_action = ActionServer(
            self,
            GripperCommand,
            'gripper_action_controller/gripper_command',
            self._run_gripper_command,
            callback_group=group,
        )

    def _serve(self, name: str, action: Callable[[], str], group: ReentrantCallbackGroup) -> None:
        self.create_service(
            Trigger,
            f'~/{name}',
            lambda _request, reply: self._answer(name, action, reply),
            callback_group=group,
        )

    # -- requests: each returns a message, or raises --------------------------------------------

    def _answer(
        self, name: str, action: Callable[[], str], reply: Trigger.Response
    ) -> Trigger.Response:
        try:
            reply.message, reply.success = action(), True
        except Ur5PickPlaceError as error:
            reply.message, reply.success = str(error), False
            self._emit(events.REFUSED, request=name, reason=str(error))
        self._publish_state()
        return reply

    def _teach_joints(self, name: str) -> str:
        q = self._port.present_joints()
        if not self._port.is_at_rest:
            raise ExecutionError(f'{name} not taught: the arm is moving; wait, or call ~/stop')
        return self._taught(name, *self._teaching.teach_joints(name, q))

    def _teach_pose(self, name: str, message: PoseStamped) -> None:
        self._answer(
            f'{name}_pose',
            lambda: self._taught(name, *self._teaching.teach_pose(name, message)),
            Trigger.Response(),
        )

    def _taught(self, name: str, taught: TaughtPose, warning: str) -> str:
        self._machine.plan = None
        self._teach_markers.show()
        self._emit(
            events.TAUGHT, place=name, pose=taught.pose, joints=taught.joints, warning=warning
        )
        branch = f' on branch {taught.branch}' if taught.branch else ''
        return f'{name} taught{branch}{f"; warning: {warning}" if warning else ""}'

    def _make_plan(self) -> str:
        if self._cell.missing:
            raise InvalidInput(self._cell.missing)
        poses = self._station.cycle_planner.replayed(self._teaching.poses)
        for conversion in self._teaching.conversions(poses):
            self._emit(events.CONVERTED, **conversion)
        message = self._machine.make_plan(poses)
        assert self._machine.plan is not None
        drawing = markers.cycle(self._station.planner, self._machine.plan, poses)
        self._markers.publish(self._frames.prefixed(drawing))
        return message

    async def _stop(self, _request: Any, reply: Trigger.Response) -> Trigger.Response:
        self._machine.stop('stop requested')
        reply.success, reply.message = True, 'stopping; call ~/rearm before the next motion'
        self._publish_state()
        try:
            # The planner brakes along the path; the stop does not depend on its reply.
            await ask(self, self._stop_planner, Trigger.Request(), _PLANNER_REPLY)
        except ExecutionError:
            self._arm_stop.begin()
            reply.message += '; the planner did not answer at once: canceled what moves the arm'
        return reply

    async def _rearm(self, _request: Any, reply: Trigger.Response) -> Trigger.Response:
        stops = self._machine.stops
        try:
            answer = await ask(self, self._rearm_planner, Trigger.Request())
        except ExecutionError as error:
            reply.success, reply.message = False, f'the planner is not there: {error}'
            return reply
        reply.success, reply.message = answer.success, answer.message
        if answer.success and self._machine.stops != stops:
            reply.success, reply.message = False, 'a stop came meanwhile: rearm again'
        elif answer.success:
            self._arm_stop.end()
            self._machine.rearmed()
        self._publish_state()
        return reply

    async def _switch_freedrive(
        self, request: SetBool.Request, reply: SetBool.Response
    ) -> SetBool.Response:
        try:
            # With a wrong payload the arm sinks or rises in freedrive.
            if request.data and not self._freedrive.is_on:
                confirm = self._run.confirm_payload()
                stops = self._machine.stops
                if error := await self._job('confirm_payload', confirm):
                    raise ExecutionError(f'freedrive refused, payload not confirmed: {error}')
                if self._machine.stops != stops:
                    raise ExecutionError('freedrive refused: a stop was requested meanwhile')
            try:
                await self._freedrive.switch(request.data)
            finally:
                self._machine.is_free = self._freedrive.is_on
            reply.success, reply.message = True, f'freedrive {"on" if request.data else "off"}'
            self._emit(events.FREEDRIVE, is_on=request.data)
        except Ur5PickPlaceError as error:
            reply.success, reply.message = False, str(error)
        self._publish_state()
        return reply

    async def _run_gripper_command(self, goal: Any) -> GripperCommand.Result:
        position = goal.request.command.position
        result = GripperCommand.Result(position=position)
        try:
            error = await self._job('gripper', self._gripper_steps(position))
        except Ur5PickPlaceError as refusal:
            error = str(refusal)
        if error:
            self.get_logger().error(f'gripper_command: {error}')
            goal.abort()
        else:
            result.reached_goal, result.stalled = True, self._run.is_carrying
            goal.succeed()
        return result

    def _gripper_steps(self, position: float) -> Steps[None]:
        if not math.isfinite(position):
            raise InvalidInput(f'position = {position} m: must be a finite number')
        is_open = position > self._settings.gripper_threshold
        return self._run.open() if is_open else self._run.close()

    async def _job(self, name: str, steps: Steps[None]) -> str:
        """Run a job; return why it ended early, or ''."""
        outcome: Future[str] = Future()
        self._machine.start(name, steps, outcome.set_result)
        return str(await outcome)

    def _on_tick(self) -> None:
        if self._freedrive.is_on:  # left on by an earlier run of this node
            self._machine.is_free = True
        self._machine.tick()
        self._publish_state()

    def _on_planner_death(self) -> None:
        """Stop the arm in place of the planner, whichever client moves it, and latch."""
        self._arm_stop.begin()
        self._machine.stop(PLANNER_GONE, is_fault=True)
        self._publish_state()

    def _on_frozen(self, seconds: float) -> None:
        """Latch the stop; the planner has latched it meanwhile."""
        reason = f'this node was frozen for {seconds:.1f} s: look why, then ~/rearm'
        self._machine.stop(reason, is_fault=True)
        self._publish_state()

    # -- publishing ------------------------------------------------------------------------------

    def _take_world(self, world: World) -> None:
        scene = replace(self._cell.scene, world=world)
        self._station.planner.set_scene(scene)
        self._markers.publish(self._frames.prefixed(markers.surroundings(scene)))

    def _publish_state(self) -> None:
        with self._publishing:  # else an older state may follow a newer one
            text = self._machine.state
            if text != self._published:
                self._published = text
                self._state.publish(text)

    def _emit(self, event: str, **data: Any) -> None:
        line = json.dumps({'time': round(self._port.stamp, 3), 'event': event, **data})
        self._event.publish(String(data=line))
        if event == events.PLANNING:
            self._publish_state()  # it is `planning` now
            self.get_logger().debug(line)
        elif event == events.STOPPED:
            self.get_logger().error(line)
        elif event == events.PLAN_REPORT:
            self.get_logger().info(f'the plan:\n{report_text(data["rows"])}')
        else:
            self.get_logger().info(line)


def main() -> None:
    """Run the node until it is shut down."""
    run_node(PickPlace, _THREADS)
