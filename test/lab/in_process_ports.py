# SPDX-License-Identifier: Apache-2.0
"""The simulated driver as execution manager and task see it, link faults included; no ROS."""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ur5_pick_place.control.controller import Goal, GoalListener
from ur5_pick_place.control.escalation import StopProgress
from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.rollout import loop_of
from ur5_pick_place.control.loops.splicing import gap_form, has_gap, next_segment
from ur5_pick_place.control.loops.stream import TrajectorySegment
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.motion_state import MotionState, parse_motion_state
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import DONE, OnOutcome, Outcome
from ur5_pick_place.planning.paths.trajectory import Trajectory, hold_trajectory
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.sim.controllers import goals
from ur5_pick_place.sim.controllers.controller_manager import PASSTHROUGH
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.gripper_server import GripperFault, GripperGoal
from ur5_pick_place.sim.io_controller import SET_DIGITAL_OUT, SET_TOOL_VOLTAGE, Request
from ur5_pick_place.task import job
from ur5_pick_place.task.grippers.action import ActionSettings, GripperJoint, no_server, rejected

_MONITOR_PERIOD = 0.05  # [s] of feedback and results, the driver's action_monitor_rate


class ControllerPort:
    """
    A trajectory controller of the driver, as `controller.Controller`.

    `motions` counts the goals and trajectory segments that it was sent, `holds` the hold commands.
    """

    def __init__(self, driver: Driver, controller: str, tracking: TrackingSettings) -> None:
        self._driver, self._controller = driver, driver.trajectory[controller]
        self._tracking = tracking
        self._has_tolerances = controller != PASSTHROUGH  # as `trajectory_controller` sends them
        self._running: list[tuple[Goal, goals.AcceptedGoal, GoalListener]] = []
        self._due = 0.0
        self.motions = self.holds = 0

    conflict = why_not_canceled = ''

    @property
    def why_unavailable(self) -> str:
        link = self._driver.link
        if link.actions_absent or link.killed:
            return 'action server follow_joint_trajectory is not there; is the driver running?'
        return ''

    @property
    def why_no_stream(self) -> str:
        self._controller.splices = False  # as `Replacement` sets it
        return ''

    @property
    def goals(self) -> frozenset[bytes]:
        return frozenset(goal.id for goal, running, _ in self._running if running.outcome is None)

    def prepare(self, trajectory: Trajectory) -> None:
        """Do nothing: a trajectory is sent as it is."""

    def may_replace(self, points: Array, stamp: float) -> bool:
        splices = self._controller.splices
        return not splices or has_gap(points, self._arrival, self._driver.period)

    def send(self, goal: Goal, listener: GoalListener) -> None:
        self.motions += 1
        motion, stamp, passed = goal.trajectory, 0.0, 0.0
        if goal.replaced is not None and self._controller.splices:
            period = self._driver.period
            stamp, passed = gap_form(goal.segment, goal.replaced, self._arrival, period)
        elif goal.begin > 0.0:
            motion, stamp = next_segment(goal.segment, self._arrival)
        command = _command(self._driver.joint_names, motion, stamp, passed)
        self._driver.link.to_driver.send(
            lambda: self._start(goal, command, listener), self._driver.time, reliable=True
        )

    def cancel(self) -> None:
        if self.why_unavailable:
            return

        def cancel_all() -> None:
            for _, running, _ in self._running:
                self._controller.cancel(running)

        self._driver.link.to_driver.send(cancel_all, self._driver.time, reliable=True)

    def follow(self, segment: TrajectorySegment) -> None:
        self.motions += 1
        self._publish(*next_segment(segment, self._arrival))

    def hold(self, q: Array) -> None:
        self.holds += 1
        self._publish(hold_trajectory(q))

    def stop_other_motion(self, stop_progress: Callable[[], StopProgress]) -> None:
        """Do nothing: no other controller is ever active in process."""

    @property
    def _arrival(self) -> float:
        """When the controller takes what is sent now [s]."""
        return self._driver.time + self._driver.period

    def _publish(self, motion: Trajectory, begin: float = 0.0) -> None:
        def deliver() -> None:
            command = _command(self._driver.joint_names, motion, begin)
            with contextlib.suppress(InvalidInput):  # the driver logs and drops it
                self._controller.follow(command, self._driver.time)

        self._driver.link.to_driver.send(deliver, self._driver.time)

    def monitor(self) -> None:
        """Report progress and results; call it every cycle."""
        if self._driver.time < self._due or self.why_unavailable:
            return
        self._due = self._driver.time + _MONITOR_PERIOD
        for entry in list(self._running):
            goal, running, listener = entry
            if running.outcome is None:
                if running.tracking is not None:
                    at = running.tracking
                    listener.on_feedback(goal, at.time, at.reference_time)
                continue
            self._running.remove(entry)
            end = running.outcome
            done = end.status == 'succeeded' and end.code == goals.SUCCESSFUL
            failure = Outcome.failed(f'goal {end.status} (code {end.code}: {end.message})')
            listener.on_result(goal, DONE if done else failure)

    def _start(self, goal: Goal, command: TrajectoryCommand, listener: GoalListener) -> None:
        tracking, now = self._tracking, self._driver.time
        names = self._driver.joint_names if self._has_tolerances else ()
        try:
            running = self._controller.start_goal(
                command,
                now,
                [goals.JointTolerance(name, tracking.path_tolerance) for name in names],
                [goals.JointTolerance(name, tracking.goal_tolerance) for name in names],
                tracking.goal_time,
            )
        except InvalidInput:
            listener.on_answer(goal, False)
            return
        self._running.append((goal, running, listener))
        listener.on_answer(goal, True)


def _command(
    names: Sequence[str], motion: Trajectory, begin: float, passed: float = 0.0
) -> TrajectoryCommand:
    rows = zip((motion.t - passed).round(9), motion.q, motion.qd, motion.qdd, strict=True)
    return TrajectoryCommand(names, [Waypoint(*row) for row in rows], begin)


class InProcessTaskPort:
    """
    Robot and planner, as `machine.Port`.

    `planner`: the manager's, which must know what the gripper carries. `io_timeout`: silence of
    io_states that ends any job [s]. `gripper`: only of one with an action server.
    """

    def __init__(
        self,
        driver: Driver,
        manager: ExecutionManager,
        planner: MotionPlanner,
        loops: LoopSettings,
        io_timeout: float,
        gripper: ActionSettings | None = None,
    ) -> None:
        self._gripper = gripper
        self._joint = GripperJoint(gripper.position_tolerance if gripper else 1.0, io_timeout)
        self._gripper_goal: GripperGoal | None = None
        self._driver, self._manager, self._planner = driver, manager, planner
        self._loops = loops
        self._io_timeout, self._io_updated = io_timeout, 0.0
        self._inputs: dict[int, bool] = {}
        self._outputs: dict[int, bool] = {}
        self._requests: list[tuple[Request, OnOutcome]] = []
        self.gripper_commands = 0

    @property
    def why_not_ready(self) -> str:
        state = self._manager.motion_state
        if parse_motion_state(state)[0] is not MotionState.READY:
            return f'the planner is {state}: start or rearm it'
        return 'set_io is not there: start the driver' if self._driver.link.set_io_absent else ''

    def observe(self) -> job.Observation:
        _, stop_reason = parse_motion_state(self._manager.motion_state)
        status = self._manager.status
        if not stop_reason and self._driver.time - self._io_updated > self._io_timeout:
            stop_reason = job.silent_io(self._io_timeout)
        return job.Observation(
            t=status.stamp,
            q=np.full(6, np.nan) if status.q is None else status.q,
            inputs=self._inputs,
            outputs=self._outputs,
            tool_voltage=self._driver.robot.tool_voltage,
            stop_reason=stop_reason,
            is_at_rest=self._manager.is_at_rest,
            speed_scaling=status.speed_scaling,
            gripper=self._gripper_view(),
        )

    def send(self, command: job.Command, on_reply: OnOutcome) -> None:
        if isinstance(command, job.RunMotion):
            try:
                self._move(command, on_reply)
            except Ur5PickPlaceError as error:
                on_reply(Outcome.failed(str(error)))
        elif isinstance(command, job.Carry):
            self._planner.carry(command.load)
            on_reply(DONE)
        elif isinstance(command, job.Compute):
            on_reply(command.attempt())
        elif isinstance(command, job.MoveGripper):
            self._move_gripper(command, on_reply)
        else:
            self._request(command, on_reply)

    def _move_gripper(self, command: job.MoveGripper, on_reply: OnOutcome) -> None:
        server, settings = self._driver.gripper_server, self._gripper
        assert settings is not None
        self._gripper_goal = None
        if server is None or GripperFault.GONE in server.faults or self._driver.link.killed:
            on_reply(Outcome.failed(no_server(settings)))
        elif GripperFault.SILENT not in server.faults:
            try:
                server.check(command.position)
            except InvalidInput:
                on_reply(Outcome.failed(rejected(settings, command)))
                return
            self.gripper_commands += 1
            self._gripper_goal = server.start(command.position)
            on_reply(DONE)

    def _gripper_view(self) -> job.GripperView:
        server, goal, now = self._driver.gripper_server, self._gripper_goal, self._driver.time
        if server is None:
            return job.GripperView()
        is_there = GripperFault.GONE not in server.faults
        report = None
        if goal is not None:
            ended = goal.ended if is_there else ''
            report = job.GripperReport(goal.position, goal.final, goal.stalled, ended)
        joint = self._joint
        return job.GripperView(
            is_there,
            report,
            joint.position(now),
            joint.is_still(now),
            joint.is_silent(now),
        )

    def _move(self, command: job.RunMotion, on_reply: OnOutcome) -> None:
        motion = command.trajectory
        if command.method:
            make_loop = partial(loop_of, self._planner, command.method, motion, self._loops)
            self._manager.start_loop(make_loop, motion, on_reply)
        else:
            self._manager.start(motion, on_reply)

    def cancel_motion(self) -> None:
        self._manager.stop('canceled by the client', latch=False)

    def monitor(self) -> None:
        """Read the pins and the replies; call it every cycle."""
        link, pins, server = self._driver.link, self._driver.io.pins, self._driver.gripper_server
        if server and GripperFault.JOINT_SILENT not in server.faults:
            self._joint.update(self._driver.time, server.true_position)
        if not link.io_states_silent:
            self._inputs = dict(enumerate(pins.digital_in))
            self._outputs = dict(enumerate(pins.digital_out))
            self._io_updated = self._driver.time
        for entry in list(self._requests):
            request, on_reply = entry
            if request.reply is not None:
                self._requests.remove(entry)
                refused = Outcome.failed('the driver refused it; see its log')
                on_reply(DONE if request.reply else refused)

    def _request(self, command: job.Command, on_reply: OnOutcome) -> None:
        io = self._driver.io
        is_set_io = not isinstance(command, job.SetPayload)  # that is another service
        if is_set_io and self._driver.link.set_io_absent:
            reason = 'service set_io is not there; is the driver running?'
            on_reply(Outcome.failed(reason))
            return
        if isinstance(command, job.SetPayload):
            request = io.set_payload(command.mass, command.centre, command.inertia)
        elif isinstance(command, job.SetToolVoltage):
            request = io.set_io(SET_TOOL_VOLTAGE, 0, float(command.voltage))
        else:
            assert isinstance(command, job.SetOutput)
            self.gripper_commands += 1
            request = io.set_io(SET_DIGITAL_OUT, command.pin, float(command.state))
        self._requests.append((request, on_reply))
