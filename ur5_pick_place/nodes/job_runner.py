# SPDX-License-Identifier: Apache-2.0
"""Ticks the job of the moment on joint_states and sends what it commands."""

import threading
from collections.abc import Callable, Generator, Sequence

import numpy as np
from moveit_msgs.action import ExecuteTrajectory
from numpy.typing import NDArray
from rclpy.action import ActionClient
from rclpy.action.client import ClientGoalHandle
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, String

from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.nodes.carried_part import CarriedPart
from ur5_pick_place.nodes.conversions import joints_from_state, to_seconds, trajectory_to_msg
from ur5_pick_place.nodes.peer import watch_peer
from ur5_pick_place.nodes.robot_io import RobotIo
from ur5_pick_place.task.job import Carry, Job, Move, Observation

PLANNER = 'trajectory_planner'
_TICK_EVERY = 4  # joint_states per tick: 32 ms of robot time
_STOPPED = 'stopped: '


class JobRunner:
    """
    Runs one job at a time; moves the arm through the planner node only.

    Parameters
    ----------
    node : Node
    joint_names : sequence of str
        With the prefix, in controller order.
    carried : CarriedPart
        Tells the planner what is in the hand.
    on_end : callable
        Takes the job's name and why it ended early, or ''.
    on_change : callable
        Called when something may have changed that others want to know.
    on_planner_death : callable
        Called when the planner has gone.

    """

    def __init__(
        self,
        node: Node,
        joint_names: Sequence[str],
        carried: CarriedPart,
        on_end: Callable[[str, str], None],
        on_change: Callable[[], None],
        on_planner_death: Callable[[], None],
    ) -> None:
        self.q: NDArray[np.float64] | None = None
        self.stamp = 0.0  # [s] ROS time of `q`: a job's clock, as /clock may come late
        self.planner_state = ''
        self._speed_scaling = 1.0
        self.outcome = Future()
        self._names = list(joint_names)
        self._carried, self._on_end, self._on_change = carried, on_end, on_change
        # Ticks, replies and requests come from different threads of the executor.
        self._lock = threading.RLock()
        self._job: Job | None = None
        self._goal: ClientGoalHandle | None = None
        self._reply: str | None = None
        self._heard = 0
        group = MutuallyExclusiveCallbackGroup()
        self._io = RobotIo(node, group)
        self._execute = ActionClient(
            node, ExecuteTrajectory, 'execute_trajectory', callback_group=group
        )
        watch_peer(node, f'{PLANNER}/motion_state', self._hear_planner, on_planner_death, group)
        node.create_subscription(
            Float64,
            'speed_scaling_state_broadcaster/speed_scaling',
            self._hear_scaling,
            qos_profile_sensor_data,
            callback_group=group,
        )
        node.create_subscription(
            JointState,
            'joint_states',
            self._hear_joints,
            qos_profile_sensor_data,
            callback_group=group,
        )

    @property
    def job_name(self) -> str:
        """Name of the running job; empty if there is none."""
        job = self._job
        return job.name if job else ''

    def present_joints(self) -> NDArray[np.float64]:
        """Return the measured joints (6,) [rad], or raise `ExecutionError`."""
        if self.q is None:
            raise ExecutionError('no joint_states yet; is the driver running?')
        return self.q

    def start(self, name: str, steps: Generator) -> Future:
        """
        Start a job.

        Returns
        -------
        Future
            Completes with why the job ended early, or ''.

        Raises
        ------
        ExecutionError
            Another job runs, or the planner is not ready.

        """
        with self._lock:
            if self._job:
                raise ExecutionError(f'busy with {self._job.name}: wait or call ~/stop')
            state = self.planner_state if self._execute.server_is_ready() else ''
            if state != 'ready':
                raise ExecutionError(f'the planner is {state or "not there"}: start or rearm it')
            if not self._io.is_there:
                raise ExecutionError('set_io and set_payload are not there: start the driver')
            self._job, self.outcome, self._reply = Job(name, steps), Future(), None
            return self.outcome

    def end(self, reason: str) -> None:
        """End the job where it is and let the arm brake; nothing happens without a job."""
        with self._lock:
            job, self._job = self._job, None
            if job is None:
                return
            if not job.is_done:
                job.abandon(reason)
            self.cancel_motion()
            self._on_end(job.name, job.error)
            self.outcome.set_result(job.error)

    def cancel_motion(self) -> None:
        """Brake along the path; nothing happens without a motion."""
        with self._lock:
            if self._goal is not None:
                self._goal.cancel_goal_async()

    def _hear_planner(self, message: String) -> None:
        self.planner_state = message.data
        self._carried.repeat()  # to a planner that was started anew
        if message.data.startswith(_STOPPED):
            self._tick()
        self._on_change()

    def _hear_scaling(self, message: Float64) -> None:
        self._speed_scaling = message.data / 100.0  # the driver publishes percent

    def _hear_joints(self, message: JointState) -> None:
        self._heard += 1
        try:
            self.q = joints_from_state(message, self._names)
            self.stamp = to_seconds(message.header.stamp)
        except InvalidInput:
            return  # the planner hears it too, and stops the arm
        if self._heard % _TICK_EVERY == 0:
            self._tick()

    def _tick(self) -> None:
        with self._lock:
            if self._job is None:
                return
            command = self._job.tick(self.observe())
            if self._job.is_done:
                self.end(self._job.error)
            elif command is not None:
                self._reply = None
                if isinstance(command, Move):
                    self._send_motion(command)
                elif isinstance(command, Carry):
                    self._carried.tell(command.load)
                    self._set_reply('')
                else:
                    self._io.send(command, self._set_reply)
        self._on_change()

    def observe(self) -> Observation:
        """Return what is seen of the robot now."""
        inputs, outputs = self._io.pins()
        is_stopped = self.planner_state.startswith(_STOPPED)
        return Observation(
            t=self.stamp,
            q=self.q,
            inputs=inputs,
            outputs=outputs,
            tool_voltage=self._io.tool_voltage,
            stopped=self.planner_state.removeprefix(_STOPPED) if is_stopped else '',
            reply=self._reply,
            speed_scaling=self._speed_scaling,
        )

    def _send_motion(self, command: Move) -> None:
        if not self._execute.server_is_ready():
            self._set_reply('action server execute_trajectory is not there: start the planner')
            return
        goal = ExecuteTrajectory.Goal()
        goal.trajectory.joint_trajectory = trajectory_to_msg(command.trajectory, self._names)
        job = self._job
        self._execute.send_goal_async(goal).add_done_callback(
            lambda future: self._on_goal(job, future.result())
        )

    def _on_goal(self, job: Job | None, handle: ClientGoalHandle) -> None:
        with self._lock:
            if not handle.accepted:
                self._set_reply('the planner refused the motion')
                return
            self._goal = handle
            if self._job is not job:  # it ended while the goal was on its way
                handle.cancel_goal_async()
        handle.get_result_async().add_done_callback(self._on_result)

    def _on_result(self, future: Future) -> None:
        code = future.result().result.error_code
        with self._lock:
            self._goal = None
            self._set_reply('' if code.val == code.SUCCESS else code.message or f'code {code.val}')

    def _set_reply(self, reply: str) -> None:
        self._reply = reply
