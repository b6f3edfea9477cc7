# SPDX-License-Identifier: Apache-2.0
"""
The task node: teach, plan, run; it moves the arm only through the planner node.

Its thinking is in `task`; here observations are gathered, a job is ticked on joint_states, and
what the job commands is sent.

"""

import json
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_msgs.action import GripperCommand
from geometry_msgs.msg import PoseStamped
from moveit_msgs.action import ExecuteTrajectory
from rclpy.action import ActionClient, ActionServer, GoalResponse
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.errors import ExecutionError, InvalidInput, Ur5PickPlaceError
from ur5_pick_place.nodes import markers
from ur5_pick_place.nodes.cell import SHARED, RobotSettings, config_file, load_cell
from ur5_pick_place.nodes.conversions import joints_from_state, trajectory_to_msg
from ur5_pick_place.nodes.diagnostics import Diagnostics
from ur5_pick_place.nodes.frames import Frames
from ur5_pick_place.nodes.parameters import declare_settings
from ur5_pick_place.nodes.process import refuse_if_served, run_node
from ur5_pick_place.nodes.robot_io import RobotIo
from ur5_pick_place.nodes.robot_link import LATCHED
from ur5_pick_place.nodes.teaching import Teaching
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.cycle import load_cycle
from ur5_pick_place.task.gripper import Gripper, GripperSettings
from ur5_pick_place.task.job import Job, Move, Observation
from ur5_pick_place.task.plan import CyclePlan, CyclePlanner, TaskSettings
from ur5_pick_place.task.poses import TAUGHT, Provenance, numbers_from_matrix
from ur5_pick_place.task.run import CycleRun

# One for a plan being made, one for joints and pins, one for the services meanwhile.
_THREADS = 3
_TICK_EVERY = 4  # joint_states per tick of a job: 32 ms of robot time
_PLANNER = 'trajectory_planner'


@dataclass(frozen=True)
class NodeSettings(Settings):
    """Files and thresholds of this node."""

    method: str = setting('ik', 'how Cartesian paths are followed', choices=('ik',))
    poses_file: str = setting('~/.ros/ur5_pick_place/poses.yaml', 'where taught poses are kept')
    cycle_file: str = setting('cycle.yaml', 'the stages; a path, or a file name within config/')
    gripper_threshold: float = setting(
        0.02, 'GripperCommand positions above it open, others close', unit='m', low=0.0, high=0.2
    )


class PickPlace(Node):
    """Teaches, plans and runs; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__('pick_place')
        robot, motion, task, grip, own = declare_settings(
            self, RobotSettings, MotionSettings, TaskSettings, GripperSettings, NodeSettings,
            shared=SHARED,
        )
        refuse_if_served(self, ('~/run', 'gripper_action_controller/gripper_command/_action/send_goal'))
        cell = load_cell(robot)
        self._settings, self._motion_settings = own, motion
        self._missing = cell.missing
        self._names = cell.joint_names
        planner = MotionPlanner(cell.model, motion, cell.scene)
        mass, centre = robot.payload_mass or 0.0, robot.payload_centre
        provenance = Provenance(
            cell.model.name, cell.model.calibration,
            numbers_from_matrix(cell.scene.tool.T_tool_tcp), mass,
        )
        frames = Frames(self, robot.tf_prefix, cell.scene.tool.T_tool_tcp)
        path = Path(own.poses_file).expanduser()
        self._teaching = Teaching(self, path, planner, provenance, frames, robot.tf_prefix)
        cycle = load_cycle(config_file(own.cycle_file))
        self._cycle = CyclePlanner(planner, task, cycle, provenance)
        self._gripper = Gripper(grip, robot.tool_voltage)
        self._run = CycleRun(self._cycle, self._gripper, task, (mass, centre), self._emit)
        self._lock = threading.RLock()
        self._job: Job | None = None
        self._job_end = Future()
        self._plan: CyclePlan | None = None
        self._stopped = ''
        self._planner_state = ''
        self._reply: str | None = None
        self._goal: Any = None
        self._q: Any = None
        self._heard = 0
        self._connect()

    def _connect(self) -> None:
        seeing, doing = MutuallyExclusiveCallbackGroup(), ReentrantCallbackGroup()
        self._state = self.create_publisher(String, '~/state', LATCHED)
        self._event = self.create_publisher(String, '~/event', 100)
        self._markers = self.create_publisher(MarkerArray, '~/markers', LATCHED)
        self._published = ''
        self._io = RobotIo(self, seeing)
        self._execute = ActionClient(
            self, ExecuteTrajectory, 'execute_trajectory', callback_group=doing
        )
        self._rearm_planner = self.create_client(
            Trigger, f'{_PLANNER}/rearm', callback_group=doing
        )
        self._stop_planner = self.create_client(Trigger, f'{_PLANNER}/stop', callback_group=doing)
        self.create_subscription(
            String, f'{_PLANNER}/motion_state', self._hear_planner, LATCHED, callback_group=seeing
        )
        self.create_subscription(
            JointState, 'joint_states', self._hear_joints, qos_profile_sensor_data,
            callback_group=seeing,
        )
        for name in ('start', 'target'):
            self.create_subscription(
                PoseStamped, f'~/{name}_pose',
                lambda message, name=name: self._teach_pose(name, message), 10,
                callback_group=doing,
            )
        self._offer(doing)
        self._diagnostics = Diagnostics(self, lambda: (not self._stopped, self._state_text()))
        self._publish_state()

    def _offer(self, group: ReentrantCallbackGroup) -> None:
        gripper = self._gripper
        services: dict[str, Callable[[], str]] = {
            **{f'teach_{n}': lambda n=n: self._teach_joints(n) for n in TAUGHT},
            'plan': self._make_plan,
            'run': self._start_run,
            'pause': self._pause,
            'resume': self._resume,
            'go_home': self._go_home,
            'init_gripper': lambda: self._start('init_gripper', gripper.initialise()),
            'open_gripper': lambda: self._start('open_gripper', gripper.open()),
            'close_gripper': lambda: self._start('close_gripper', gripper.close()),
        }
        for name, action in services.items():
            self.create_service(
                Trigger, f'~/{name}',
                lambda request, reply, name=name, action=action: self._answer(name, action, reply),
                callback_group=group,
            )
        self.create_service(Trigger, '~/stop', self._stop, callback_group=group)
        self.create_service(Trigger, '~/rearm', self._rearm, callback_group=group)
        self._gripper_action = ActionServer(
            self, GripperCommand, 'gripper_action_controller/gripper_command',
            self._run_gripper_command, callback_group=group,
            goal_callback=lambda _goal: GoalResponse.ACCEPT,
        )

    # -- services: each returns a message, or raises why not -------------------------------------

    def _answer(
        self, name: str, action: Callable[[], str], reply: Trigger.Response
    ) -> Trigger.Response:
        try:
            reply.message, reply.success = action(), True
        except Ur5PickPlaceError as error:
            reply.message, reply.success = str(error), False
            self._emit('refused', request=name, reason=str(error))
        self._publish_state()
        return reply

    def _teach_joints(self, name: str) -> str:
        if self._q is None:
            raise ExecutionError('no joint_states yet; is the driver running?')
        return self._taught(name, self._teaching.teach_joints(name, self._q))

    def _teach_pose(self, name: str, message: PoseStamped) -> None:
        self._answer(
            f'{name}_pose',
            lambda: self._taught(name, self._teaching.teach_pose(name, message)),
            Trigger.Response(),
        )

    def _taught(self, name: str, taught: Any) -> str:
        self._plan = None
        self._emit('taught', place=name, pose=taught.pose, joints=taught.joints)
        return f'{name} taught{f" on branch {taught.branch}" if taught.branch else ""}'

    def _make_plan(self) -> str:
        if self._missing:
            raise InvalidInput(self._missing)
        if self._q is None:
            raise ExecutionError('no joint_states yet; is the driver running?')
        if self._job:
            raise ExecutionError(f'busy with {self._job.name}: wait or stop it')
        self._plan = None
        plan = self._cycle.plan(self._teaching.poses, self._q)
        self._plan = plan
        if self._markers.get_subscription_count():
            self._markers.publish(markers.cycle(self._cycle.planner, plan, self._teaching.poses))
        text = f'{len(plan.stages)} stages on {plan.branch}, {plan.motion_time:.1f} s of motion'
        self._emit('planned', branch=plan.branch, motion_time=plan.motion_time,
                   stages=[s.stage.name for s in plan.stages])
        return text

    def _start_run(self) -> str:
        plan = self._plan
        if plan is None:
            raise ExecutionError('no plan: call ~/plan first')
        if plan.fingerprint != self._cycle.fingerprint(self._teaching.poses):
            raise ExecutionError('poses, scene, tool or settings changed since ~/plan: plan again')
        away = abs(self._q - plan.q_start).max()
        if away > self._motion_settings.start_tolerance:
            raise ExecutionError(
                f'the arm is {away:.3f} rad from where the plan starts: plan again or ~/go_home'
            )
        return self._start('run', self._run.cycle(plan))

    def _go_home(self) -> str:
        if self._q is None:
            raise ExecutionError('no joint_states yet; is the driver running?')
        motions = self._cycle.way_home(self._teaching.poses, self._q)
        return self._start('go_home', self._run.home(motions))

    def _pause(self) -> str:
        with self._lock:
            if self._job is None or self._job.name != 'run':
                raise ExecutionError('nothing to pause: no cycle is running')
            self._run.is_paused = True
            if self._goal is not None:
                self._goal.cancel_goal_async()
            return f'pausing at stage {self._run.stage!r}'

    def _resume(self) -> str:
        with self._lock:
            if not self._run.is_paused:
                raise ExecutionError('not paused')
            self._run.is_paused = False
            return f'resuming stage {self._run.stage!r}'

    def _start(self, name: str, steps: Generator) -> str:
        with self._lock:
            if self._stopped:
                raise ExecutionError(f'stopped: {self._stopped}; call ~/rearm first')
            if self._job:
                raise ExecutionError(f'busy with {self._job.name}: wait or ~/stop')
            if self._planner_state != 'ready':
                raise ExecutionError(
                    f'the planner is {self._planner_state or "not there"}: start or rearm it'
                )
            self._run.is_paused = False
            self._job, self._job_end, self._reply = Job(name, steps), Future(), None
        self._emit('started', job=name)
        return f'{name} started'

    async def _stop(self, _request: Any, reply: Trigger.Response) -> Trigger.Response:
        self._end_job('stop requested')
        self._stopped = self._stopped or 'stop requested'
        reply.success, reply.message = True, 'stopping; call ~/rearm before the next motion'
        if self._stop_planner.service_is_ready():
            await self._stop_planner.call_async(Trigger.Request())
        else:
            reply.success, reply.message = False, 'the planner is not there to stop the arm'
        self._publish_state()
        return reply

    async def _rearm(self, _request: Any, reply: Trigger.Response) -> Trigger.Response:
        if not self._rearm_planner.service_is_ready():
            reply.success, reply.message = False, 'the planner is not there: start it'
            return reply
        answer = await self._rearm_planner.call_async(Trigger.Request())
        reply.success, reply.message = answer.success, answer.message
        if answer.success:
            self._stopped, self._plan = '', None
            self._emit('rearmed')
        self._publish_state()
        return reply

    async def _run_gripper_command(self, goal: Any) -> GripperCommand.Result:
        position = goal.request.command.position
        is_open = position > self._settings.gripper_threshold
        result = GripperCommand.Result(position=position)
        try:
            self._start('gripper', self._gripper.open() if is_open else self._gripper.close())
            error = await self._job_end
        except Ur5PickPlaceError as refusal:
            error = str(refusal)
        if error:
            self.get_logger().error(f'gripper_command: {error}')
            goal.abort()
        else:
            result.reached_goal = True
            goal.succeed()
        return result

    # -- seeing ----------------------------------------------------------------------------------

    def _hear_planner(self, message: String) -> None:
        self._planner_state = message.data
        if message.data.startswith('stopped') and self._job:
            self._tick()
        self._publish_state()

    def _hear_joints(self, message: JointState) -> None:
        self._heard += 1
        try:
            self._q = joints_from_state(message, self._names)
        except InvalidInput:
            return  # the planner hears it too, and stops the arm
        if self._job and self._heard % _TICK_EVERY == 0:
            self._tick()

    def _tick(self) -> None:
        with self._lock:
            if self._job is None:
                return
            stopped = self._planner_state.removeprefix('stopped: ')
            seen = Observation(
                t=self.get_clock().now().nanoseconds * 1e-9,
                q=self._q,
                inputs=self._io.inputs,
                outputs=self._io.outputs,
                tool_voltage=self._io.tool_voltage,
                stopped=stopped if stopped != self._planner_state else '',
                reply=self._reply,
            )
            command = self._job.tick(seen)
            if self._job.is_done:
                self._end_job(self._job.error)
            elif isinstance(command, Move):
                self._reply = None
                self._send_motion(command)
            elif command is not None:
                self._reply = None
                self._io.send(command, self._set_reply)
        self._publish_state()

    # -- doing -----------------------------------------------------------------------------------

    def _send_motion(self, command: Move) -> None:
        goal = ExecuteTrajectory.Goal()
        goal.trajectory.joint_trajectory = trajectory_to_msg(command.trajectory, self._names)
        if not self._execute.server_is_ready():
            self._set_reply('action server execute_trajectory is not there: start the planner')
            return
        self._execute.send_goal_async(goal).add_done_callback(self._on_goal)

    def _on_goal(self, future: Future) -> None:
        handle = future.result()
        if not handle.accepted:
            self._set_reply('the planner refused the motion')
            return
        with self._lock:
            self._goal = handle
            if self._job is None or self._run.is_paused:
                handle.cancel_goal_async()
        handle.get_result_async().add_done_callback(self._on_result)

    def _on_result(self, future: Future) -> None:
        code = future.result().result.error_code
        self._goal = None
        self._set_reply('' if code.val == code.SUCCESS else code.message or f'code {code.val}')

    def _set_reply(self, reply: str) -> None:
        self._reply = reply

    def _end_job(self, error: str) -> None:
        with self._lock:
            job, self._job = self._job, None
            if job is None:
                return
            if not job.is_done:
                job.abandon(error)
            if self._goal is not None:
                self._goal.cancel_goal_async()
            self._run.is_paused = False
            if error:
                self._stopped = error
                self.get_logger().error(f'{job.name} stopped: {error}')
                self._emit('stopped', job=job.name, stage=self._run.stage, reason=error)
            else:
                self._emit('done', job=job.name)
            self._plan = None if job.name != 'run' or error else self._plan
            self._job_end.set_result(error)

    # -- telling ---------------------------------------------------------------------------------

    def _state_text(self) -> str:
        if self._stopped:
            return f'stopped: {self._stopped}'
        if self._job is None:
            return 'planned' if self._plan else 'idle'
        if self._job.name != 'run':
            return f'busy: {self._job.name}'
        return f'{"paused" if self._run.is_paused else "running"}: {self._run.stage}'

    def _publish_state(self) -> None:
        text = self._state_text()
        if text != self._published:
            self._published = text
            self._state.publish(String(data=text))

    def _emit(self, event: str, **data: Any) -> None:
        now = self.get_clock().now().nanoseconds * 1e-9
        line = json.dumps({'time': round(now, 3), 'event': event, **data})
        self._event.publish(String(data=line))
        self.get_logger().info(line)


def main() -> None:
    """Run the node until it is told to stop."""
    run_node(PickPlace, _THREADS)
