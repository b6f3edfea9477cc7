# SPDX-License-Identifier: Apache-2.0
"""
Teach, plan and run the pick-and-place task; the arm moves through the planner node alone.

- ~/teach_home, ~/teach_start, ~/teach_target: teach a place from the present joints
- ~/<place>_pose: topic: teach a pose of the TCP (geometry_msgs/msg/PoseStamped)
- ~/plan, ~/run, ~/pause, ~/resume, ~/stop, ~/rearm, ~/go_home: the cycle
- ~/init_gripper, ~/open_gripper, ~/close_gripper: the gripper alone
- gripper_action_controller/gripper_command: action (control_msgs/action/GripperCommand)
- ~/freedrive: switch freedrive (std_srvs/srv/SetBool)
- ~/state, ~/event: topics: the present state, and events (JSON)
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.client import Client
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ur5_pick_place.config_files import user_path
from ur5_pick_place.control.motion_state import STOPPING
from ur5_pick_place.control.robot_status import HealthSettings
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.context import make_cell
from ur5_pick_place.nodes.cell.robot_settings import config_file, warn_of_gaps
from ur5_pick_place.nodes.driver.controller_goals import ControllerGoals, check_method
from ur5_pick_place.nodes.driver.controller_manager import ControllerManager
from ur5_pick_place.nodes.messages.conversions import to_seconds
from ur5_pick_place.nodes.messages.refusals import reason_of
from ur5_pick_place.nodes.pick_place import gripper_command, rviz
from ur5_pick_place.nodes.pick_place.arm_stop import ArmStop, PlannerLatch
from ur5_pick_place.nodes.pick_place.freedrive import Freedrive
from ur5_pick_place.nodes.pick_place.settings import TaskNodeSettings, chosen_gripper
from ur5_pick_place.nodes.pick_place.statistics_file import StatisticsFile, statistics_path
from ur5_pick_place.nodes.pick_place.task_port import PLANNER, TaskPort
from ur5_pick_place.nodes.pick_place.teaching import PoseTopics, Taught, Teaching, stamp_text
from ur5_pick_place.nodes.ros.diagnostics import GRIPPER, GRIPPER_ADVICE, Diagnostics
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.liveness import Heartbeat
from ur5_pick_place.nodes.ros.parameters import declare_all
from ur5_pick_place.nodes.ros.process import refuse_if_served, run_node
from ur5_pick_place.nodes.ros.service_calls import call_service
from ur5_pick_place.nodes.scene.planning_scene import SceneFollower
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.scene.world import World
from ur5_pick_place.task import events
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.machine import PLANNER_GONE, RUN
from ur5_pick_place.task.plan_report import report_text
from ur5_pick_place.task.station import Station, StationSettings

_BRAKING = 1.5  # [s, steady clock] for a braking motion before this node ends


class PickPlace(SerialNode):
    """The requests and the published topics; the decisions are made in `task.machine`."""

    def __init__(self) -> None:
        super().__init__('pick_place')
        kind = chosen_gripper(self)
        self._settings = settings = declare_all(self, TaskNodeSettings, grip=kind.settings_type)
        robot, health, grip = settings.robot, settings.health, settings.grip
        gripper = kind(grip, robot.tool_voltage)
        cycle = load_cycle(config_file(settings.files.cycle_file), gripper.pins)
        self._places = cycle.places
        refuse_if_served(self, _served(self._places))
        check_method(robot.controller, settings.task.method)
        keep = max((p.max_age for p in self._places.values() if p.from_frame), default=0.0)
        self._cell = cell = make_cell(self, robot, settings.stamps, keep)
        checks = {'check_modes': health.check_modes, 'confirm_pins': grip.confirm_pins}
        warn_of_gaps(self, cell.model, cell.unset_parameters, **checks)
        self._port = TaskPort(
            cell,
            health,
            grip,
            self._on_tick,
            self._on_planner_death,
            is_busy=lambda: bool(self._machine.job_name),
        )
        self._port.joint_listener.record_in(cell.frames.joints)
        x, y, z = robot.payload_centre
        station = Station(
            StationSettings(
                settings.motion,
                settings.task,
                settings.pattern,
                settings.loops,
                gripper,
                cycle,
                (robot.payload_mass or 0.0, (x, y, z)),
            ),
            cell.model,
            cell.scene,
            Dynamics(cell.model, [cell.tool_load], cell.scene.mounting),
            self._port,
            self._emit,
        )
        self._station, self._run, self._machine = station, station.run, station.machine
        self._published, self._publishing = '', threading.Lock()
        self._offer(health)

    def _offer(self, health: HealthSettings) -> None:
        """Read the taught poses and offer every topic and service."""
        station, cell = self._station, self._cell
        file = user_path(self._settings.files.poses_file)
        # Before ~/state, as it may raise: a state that loses its publisher is, to the planner, a
        # dead task node.
        self._teaching = Teaching(cell, station, file, self._places)
        self._statistics = StatisticsFile(statistics_path(file), self.get_logger().warning)
        self._state = Heartbeat(self, '~/state', health.peer_timeout, self._on_suspended)
        self._event = self.create_publisher(String, '~/event', 100)
        self._drawing = rviz.PlanDrawing(cell, station)
        self._offer_services(health.check_modes)
        self._poses = PoseTopics(
            self, list(self._places), lambda: self._port.q, self._teach_pose, self._emit
        )
        gripper_command.GripperCommands(self, station, self._settings.choice)
        teaching, prefix = self._teaching, cell.robot.tf_prefix
        self._teach_markers = rviz.TeachMarkers(
            self, prefix, teaching.places, self._poses.put, teaching.movable
        )
        Diagnostics(
            self,
            lambda: (not self._machine.stop_reason, self._machine.state),
            self._figures,
        )
        if self._teaching.warning:
            self._emit(events.RECOVERED, reason=self._teaching.warning)
        self._take_world(cell.scene.world)
        SceneFollower(
            self,
            cell.frames,
            lambda world, _part: self._take_world(world),
            restores=True,
        )
        self._publish_state()

    def _figures(self) -> dict[str, str]:
        found, advice = self._station.gripper.readiness(self._port.observe())
        return {**self._statistics.figures(), GRIPPER: found, GRIPPER_ADVICE: advice}

    def _offer_services(self, checks_modes: bool) -> None:
        machine, run, gripper = self._machine, self._run, self._station.gripper
        serve = self._serve
        serve('pause', machine.pause)
        serve('resume', machine.resume)
        serve('init_gripper', lambda: machine.start('init_gripper', gripper.initialise()))
        serve('open_gripper', lambda: machine.start('open_gripper', run.open(), closes=False))
        serve('close_gripper', lambda: machine.start('close_gripper', run.close(), closes=True))
        serve('plan', self._make_plan, is_long=True)
        serve('go_home', lambda: machine.go_home(self._teaching.poses), is_long=True)
        # These wait for joint_states that are newer than the request: their stamps date the run's
        # events, and on a busy PC a request overtakes them.
        serve(
            'run',
            lambda: machine.start_run(self._teaching.unmoved_poses()),
            is_long=True,
            is_at_rest=True,
        )
        for name in self._places:
            teach = partial(self._teach_joints, name)
            serve(f'teach_{name}', teach, is_long=True, is_at_rest=True)
        self._rearm_planner: Client[Any, Any] = self.create_client(Trigger, f'{PLANNER}/rearm')
        self._stop_planner: Client[Any, Any] = self.create_client(Trigger, f'{PLANNER}/stop')
        self._latch = PlannerLatch(self, self._stop_planner, lambda: self._port.is_stopped)
        self.create_service(Trigger, '~/stop', self._stop)
        self.create_service(Trigger, '~/rearm', self._rearm)
        controllers, cell = ControllerManager(self), self._cell
        self._arm_stop = ArmStop(self, ControllerGoals(cell, controllers), self._port)
        self._freedrive = Freedrive(
            cell, controllers, self._station, checks_modes, self._publish_state
        )

    def _serve(
        self,
        name: str,
        action: Callable[[], str],
        is_long: bool = False,
        is_at_rest: bool = False,
    ) -> None:
        async def answer(_request: Any, reply: Trigger.Response) -> Trigger.Response:
            if is_at_rest:
                await self._port.wait_for_rest()
            if is_long:
                return await self.in_pool(self._answer, name, action, reply)
            return self._answer(name, action, reply)

        self.create_service(Trigger, f'~/{name}', answer)

    # -- requests: each returns a message, or raises --------------------------------------------

    def _answer(
        self, name: str, action: Callable[[], str], reply: Trigger.Response, stamp: str = ''
    ) -> Trigger.Response:
        try:
            reply.message, reply.success = action(), True
        except Exception as error:  # whatever it is, it must not end the node
            reply.message, reply.success = reason_of(self, error), False
            self._emit(events.REFUSED, request=name, reason=reply.message, stamp=stamp)
        self._publish_state()
        return reply

    def _teach_joints(self, name: str) -> str:
        q = self._port.present_joints()
        if reason := self._port.why_not_at_rest:
            raise ExecutionError(f'{name} not taught: {reason}')
        taught = self._teaching.teach_joints(name, q)
        if not taught.is_new:
            self._machine.renew_pattern(name)
        message = self._on_taught(name, taught)
        self._teach_markers.show()
        return message

    async def _teach_pose(self, name: str, message: PoseStamped, q: Array | None) -> None:
        header = message.header
        is_now = not to_seconds(header.stamp)
        if is_now and await self.in_pool(self._cell.frames.is_carried, header.frame_id):
            await self._port.wait_for_rest()
        stamp = stamp_text(header.stamp)

        def teach() -> str:
            moving = self._port.why_not_at_rest_since(q)
            taught = self._teaching.teach_pose(name, message, q, moving)
            return self._on_taught(name, taught, stamp)

        await self.in_pool(self._answer, f'{name}_pose', teach, Trigger.Response(), stamp)
        self._teach_markers.show()  # a refused marker returns to its place

    def _on_taught(self, name: str, taught: Taught, stamp: str = '') -> str:
        pose, warning, is_new = taught
        if is_new:
            self._machine.forget_plan(name)
        self._emit(
            events.TAUGHT,
            place=name,
            pose=pose.pose,
            joints=pose.joints,
            warning=warning,
            stamp=stamp,
        )
        branch = f' on branch {pose.branch}' if pose.branch else ''
        return f'{name} taught{branch}{f"; warning: {warning}" if warning else ""}'

    def _make_plan(self) -> str:
        if self._cell.unset_parameters:
            raise InvalidInput(self._cell.unset_parameters)
        self._port.present_joints()  # or why they are not to be used
        poses = self._station.cycle_planner.converted(self._teaching.read_poses())
        for conversion in self._teaching.conversions(poses):
            self._emit(events.CONVERTED, **conversion)
        message = self._machine.make_plan(poses)
        if plan := self._machine.plan:  # else a place was taught, or a fault came, meanwhile
            self._drawing.show_plan(plan, poses)
        return message

    async def _stop(self, _request: Any, reply: Trigger.Response) -> Trigger.Response:
        self._machine.stop('stop requested')
        reply.success, reply.message = True, STOPPING
        self._publish_state()
        # The planner brakes along the path; the stop does not depend on it.
        if not await self._latch.request_stop():
            self._arm_stop.begin()
            reply.message += '; the planner did not answer at once: canceling all goals without it'
        # In freedrive an arm with a wrong payload sinks.
        if still_on := await self._freedrive.end():
            reply.message += f'; {still_on}'
        self._publish_state()
        return reply

    async def _rearm(self, _request: Any, reply: Trigger.Response) -> Trigger.Response:
        stops = self._machine.stops
        try:
            answer = await call_service(self, self._rearm_planner, Trigger.Request())
        except ExecutionError as error:
            reply.success, reply.message = False, f'the planner is not there: {error}'
            return reply
        reply.success, reply.message = answer.success, answer.message
        if answer.success and self._machine.stops != stops:
            reply.success, reply.message = False, 'a stop came meanwhile; call ~/rearm again'
        elif answer.success:
            self._latch.end()
            self._arm_stop.end()
            self._machine.rearmed()
        self._publish_state()
        return reply

    def _on_tick(self) -> None:
        is_stopped = bool(self._machine.stop_reason) or self._port.is_stopped
        self._freedrive.on_tick(is_stopped, bool(self._port.planner_state))
        self._machine.tick()
        self._drawing.remove_outdated()
        self._latch.send_if_due()
        self._publish_state()

    def come_to_rest(self) -> Iterator[None]:
        """Let the planner brake, as this node ends; it cancels a motion without this node."""
        if self._port.is_moving:
            self._machine.stop('the pick_place node ends')
            self._stop_planner.call_async(Trigger.Request())
            deadline = time.monotonic() + _BRAKING
            while self._port.is_moving and time.monotonic() < deadline:
                yield
        self._station.gripper.shutdown()

    def _on_planner_death(self) -> None:
        """Stop the arm in place of the planner, whichever client moves it, and latch."""
        self._latch.begin()
        self._arm_stop.begin()
        self._state.beat()  # both may have been suspended: that is then the reason
        self._machine.stop(PLANNER_GONE, is_fault=True)
        self._publish_state()

    def _on_suspended(self, seconds: float) -> None:
        """Latch the stop; the planner has latched it meanwhile."""
        reason = f'this node was suspended for {seconds:.1f} s: find the cause, then call ~/rearm'
        self._machine.stop(reason, is_fault=True)
        self._publish_state()

    # -- publishing ------------------------------------------------------------------------------

    def _take_world(self, world: World) -> None:
        self._station.planner.set_scene(replace(self._cell.scene, world=world))
        self._drawing.show()

    def _publish_state(self) -> None:
        with self._publishing:  # else an older state may follow a newer one
            text = self._machine.state
            if text != self._published:
                self._published = text
                self._state.publish(text)

    def _emit(self, event: str, **data: Any) -> None:
        line = json.dumps({'time': round(self._port.stamp, 3), 'event': event, **data})
        self._event.publish(String(data=line))
        self._statistics.take(self._port.stamp, event, data)
        if event == events.DONE and data['job'] == RUN:
            self._drawing.remove_ghosts()
        if event == events.PLANNING:
            self._publish_state()  # it is `planning` now
            self.get_logger().debug(line)
        elif event == events.STOPPED:
            self.get_logger().error(line)
        elif event == events.PLAN_REPORT:
            self.get_logger().info(f'the plan:\n{report_text(data["rows"])}')
        else:
            self.get_logger().info(line)


def _served(places: Iterable[str]) -> list[str]:
    """Return the names of all services, with one to teach each place, and of the action's."""
    own = (
        *('plan', 'run', 'pause', 'resume', 'stop', 'rearm', 'go_home', 'freedrive'),
        *('init_gripper', 'open_gripper', 'close_gripper'),
    )
    return [
        *(f'~/{name}' for name in own),
        *(f'~/teach_{place}' for place in places),
        f'{rviz.TOPIC}/get_interactive_markers',
        f'{gripper_command.NAME}/_action/send_goal',
    ]


def main() -> None:
    """Run the node until it is shut down."""
    run_node(PickPlace)
