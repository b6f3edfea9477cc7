# SPDX-License-Identifier: Apache-2.0
"""A client of the simulated cell that injects faults and counts commands."""

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTrajectoryControllerState
from rcl_interfaces.srv import GetParameters
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory
from ur_msgs.msg import IOStates

from ur5_pick_place.demo.simulated_cell import SimulatedCell
from ur5_pick_place.errors import ExecutionError, InvalidRobotState
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.messages.conversions import (
    joints_from_state,
    to_seconds,
    velocities_from_state,
)
from ur5_pick_place.nodes.ros.distro import distro
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.pins import TOOL_PINS
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.sim.faults import FAULTS
from ur5_pick_place.task.events import GRASP_VERIFIED, read_event

_TASK, _NODES = 'pick_place', ('pick_place', 'trajectory_planner')
_BUTTONS = ('unlock_protective_stop', 'brake_release', 'play')
_SEEN = 0.2  # [s] longest gap in io_states across which a switched output is counted
_FRESH = 0.3  # [s] for which the last controller state is valid
_SILENCE = 3.0  # [s] on the wall without a clock
_CHECK_PERIOD = 0.002  # [s] between two looks at a condition
_STAYS = 2e-3  # [rad] from the arm, up to which a streamed point counts as a hold command


class FaultOperator(SimulatedCell):
    """
    A `SimulatedCell` with counters, whose jobs are started and not waited for.

    `clock`: last time received on `/clock` [s]. `gripped`: joints (6,) [rad] and pose of the cube
    (4, 4) when it was gripped last. `peak`: largest joint speeds received (6,) [rad/s]. Both may
    be reset.
    """

    def __init__(self, scene: Scene, watch: Callable[[], object]) -> None:
        self.clock, self._silence = 0.0, _SILENCE
        self.events: list[dict[str, Any]] = []
        self.gripped: tuple[Array, Array] | None = None
        self.peak, self._joints = np.zeros(6), np.full(6, np.nan)
        self._controlled = -math.inf, self._joints
        self._goals: set[bytes] = set()
        self._streamed = self._holds = self._switched = 0
        self._pins, self._pins_received = (False,) * len(TOOL_PINS), -math.inf
        super().__init__(scene, watch)
        # Early: a request before the discovery is complete may get no reply.
        for name in ('run', 'rearm', 'init_gripper', 'go_home', 'open_gripper'):
            self._link.client(Trigger, f'{_TASK}/{name}')
        for name in _BUTTONS:
            self._link.client(Trigger, f'dashboard_client/{name}')
        for fault in FAULTS:
            self._link.client(SetBool, f'sim_driver/faults/{fault}')
        controller = distro().controller
        status = FollowJointTrajectory.Impl.GoalStatusMessage
        action = f'{controller}/follow_joint_trajectory/_action/status'
        stream, pins = f'{controller}/joint_trajectory', 'io_and_status_controller/io_states'
        state = f'{controller}/controller_state'
        for kind, topic, callback, qos in (
            (String, f'{_TASK}/event', self._on_event, 1000),
            (Clock, '/clock', self._on_clock, 10),
            (JointState, 'joint_states', self._on_joints, qos_profile_sensor_data),
            (JointTrajectoryControllerState, state, self._on_state, qos_profile_sensor_data),
            (IOStates, pins, self._on_pins, qos_profile_sensor_data),
            (status, action, self._on_goals, LATCHED),
            (JointTrajectory, stream, self._on_stream, 10),
        ):
            self._link.node.create_subscription(kind, topic, callback, qos)

    @property
    def q(self) -> Array:
        """
        Actual joints, (6,) [rad].

        Faults of `joint_states` do not affect the controller state, so that is used; while the
        controller is inactive, `joint_states` are.
        """
        t, q = self._controlled
        return q if self.clock - t < _FRESH else self._joints

    @property
    def commands(self) -> tuple[int, int, int]:
        """
        Counts of motion commands, hold commands and switched gripper outputs.

        Outputs that switch while `io_states` are silent are not counted, as the time is unknown.
        """
        return len(self._goals) + self._streamed, self._holds, self._switched

    def inject(self, fault: str, is_on: bool = True) -> None:
        """Inject or clear a fault; `ExecutionError` if the state of the cell does not allow it."""
        self._ask(SetBool, f'sim_driver/faults/{fault}', data=is_on)

    def clear_faults(self) -> None:
        """Clear all faults; `ExecutionError` if one stays."""
        self._ask(Trigger, 'sim_driver/clear_faults')

    def press(self, button: str) -> None:
        """Call a service of the dashboard; `ExecutionError` if the robot refuses."""
        self._ask(Trigger, f'dashboard_client/{button}')

    def _ask(self, kind: Any, name: str, **fields: Any) -> None:
        reply = self._link.call(kind, name, kind.Request(**fields))
        if not reply.success:
            raise ExecutionError(f'{name}: {reply.message}')

    def start(self, job: str) -> None:
        """Start a job of the task node; `ExecutionError` if it refuses."""
        if reason := self.refusal(job):
            raise ExecutionError(f'{job}: {reason}')

    def refusal(self, name: str) -> str:
        """Call a service of the task node; return why it refuses, or ''."""
        is_done, message = self._trigger(name)
        return '' if is_done else message

    def ask_parameters(self) -> None:
        """Ask task node and planner for a parameter, which changes nothing."""
        request = GetParameters.Request(names=['use_sim_time'])
        for name in _NODES:
            self._link.call(GetParameters, f'{name}/get_parameters', request)

    def kill_driver(self) -> None:
        """Kill the driver's process; its silence is no error from here on."""
        killing = self._link.client(SetBool, 'sim_driver/faults/driver_killed')
        killing.call_async(SetBool.Request(data=True))
        self._silence, self._link.watch = math.inf, lambda: None

    def await_true(self, is_done: Callable[[], bool]) -> None:
        """Wait until a condition holds; errors as `watch`, or if the clock stands still."""
        while not is_done():
            self._link.watch()
            if time.monotonic() > self.heard + self._silence:
                raise ExecutionError(f'no clock for {_SILENCE:.0f} s')
            time.sleep(_CHECK_PERIOD)

    def _on_event(self, message: String) -> None:
        if event := read_event(message.data):
            if event['event'] == GRASP_VERIFIED:
                self.gripped = self.q, self.T_base_link_parts[-1]
            self.events.append(event)

    def _on_clock(self, message: Clock) -> None:
        self.clock, self.heard = to_seconds(message.clock), time.monotonic()

    def _on_joints(self, message: JointState) -> None:
        with contextlib.suppress(InvalidRobotState):  # a fault
            self._joints = joints_from_state(message, JOINT_NAMES)
            self.peak = np.fmax(self.peak, np.abs(velocities_from_state(message, JOINT_NAMES)))

    def _on_state(self, message: JointTrajectoryControllerState) -> None:
        order = [message.joint_names.index(name) for name in JOINT_NAMES]
        q = np.array(message.feedback.positions)[order]
        self._controlled = to_seconds(message.header.stamp), q

    def _on_pins(self, message: IOStates) -> None:
        pins = tuple(bool(message.digital_out_states[pin].state) for pin in TOOL_PINS)
        if self.clock - self._pins_received < _SEEN:
            self._switched += sum(a != b for a, b in zip(self._pins, pins, strict=True))
        self._pins, self._pins_received = pins, self.clock

    def _on_goals(self, message: Any) -> None:
        self._goals |= {bytes(s.goal_info.goal_id.uuid) for s in message.status_list}

    def _on_stream(self, message: JointTrajectory) -> None:
        """Count motion commands and hold commands of the stream."""
        order = [message.joint_names.index(name) for name in JOINT_NAMES]
        last = np.array(message.points[-1].positions)[order]
        is_motion = len(message.points) > 1 or np.abs(last - self.q).max() > _STAYS
        self._streamed += int(is_motion)
        self._holds += int(not is_motion)
