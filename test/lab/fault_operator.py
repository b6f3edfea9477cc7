# SPDX-License-Identifier: Apache-2.0
"""An operator that also injects faults, calls the dashboard, and counts commands."""

import contextlib
import math
import time
from typing import Any

import numpy as np
from control_msgs.action import FollowJointTrajectory
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory
from ur_msgs.msg import IOStates

from ur5_pick_place.demo.cell_client import START_TIME
from ur5_pick_place.demo.operator import Operator
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
from ur5_pick_place.sim.faults import FAULTS

_BUTTONS = ('unlock_protective_stop', 'brake_release', 'play')
_REPLY_TIME = 10.0  # [s] wall time
_SEEN = 0.2  # [s] longest gap in io_states across which a switched output is counted
_FRESH = 0.3  # [s] for which the last controller state is valid

_STAYS = 2e-3  # [rad] from the arm, up to which a streamed point counts as a hold command


class FaultOperator(Operator):
    """
    An `Operator` with faults, dashboard and counters.

    Attributes
    ----------
    clock : float
        Last time received on `/clock` [s].
    peak : ndarray, shape (6,)
        Largest joint speeds received [rad/s]; may be reset to zero.

    """

    def _connect(self) -> None:
        super()._connect()
        node, controller = self._node, distro().controller
        self.clock, self.peak = 0.0, np.zeros(6)
        self._joints = np.full(6, np.nan)
        self._goals: set[bytes] = set()
        self._streamed = self._holds = self._switched = 0
        self._pins, self._pins_received = (False,) * len(TOOL_PINS), -math.inf
        for name in ('rearm', 'go_home', 'open_gripper'):
            self.services[name] = node.create_client(Trigger, f'pick_place/{name}')
        self._buttons: dict[str, Client[Any, Any]] = {
            name: node.create_client(Trigger, f'dashboard_client/{name}') for name in _BUTTONS
        }
        self._buttons['clear_faults'] = node.create_client(Trigger, 'sim_driver/clear_faults')
        for fault in FAULTS:
            self._buttons[fault] = node.create_client(SetBool, f'sim_driver/faults/{fault}')
        self._parameters: list[Client[Any, Any]] = [
            node.create_client(GetParameters, f'{name}/get_parameters')
            for name in ('pick_place', 'trajectory_planner')
        ]
        status = FollowJointTrajectory.Impl.GoalStatusMessage
        action = f'{controller}/follow_joint_trajectory/_action/status'
        stream, pins = f'{controller}/joint_trajectory', 'io_and_status_controller/io_states'
        for kind, topic, callback, qos in (
            (Clock, '/clock', self._on_clock, 10),
            (JointState, 'joint_states', self._on_joints, qos_profile_sensor_data),
            (IOStates, pins, self._on_pins, qos_profile_sensor_data),
            (status, action, self._on_goals, LATCHED),
            (JointTrajectory, stream, self._on_stream, 10),
        ):
            node.create_subscription(kind, topic, callback, qos)

    def prepare(self) -> None:
        """Wait for all services, then prepare the cell as `Operator` does."""
        for name, client in self._buttons.items():
            self.wait(client.service_is_ready, f'service {name}', START_TIME)
        super().prepare()

    @property
    def q(self) -> Array:
        """
        Actual joints, (6,) [rad].

        Faults of `joint_states` do not affect the controller state, so that is used; while the
        controller is inactive, `joint_states` are.

        """
        t, q, *_ = self.record.joints[-1]
        return np.array(q) if self.clock - t < _FRESH else self._joints

    @property
    def commands(self) -> tuple[int, int, int]:
        """
        Counts of motion commands, hold commands and switched gripper outputs.

        Outputs that switch while `io_states` are silent are not counted, as the time is unknown.

        """
        return len(self._goals) + self._streamed, self._holds, self._switched

    def press(self, name: str, **fields: Any) -> tuple[bool, str]:
        """Call a service of dashboard or simulator; return success and message."""
        client = self._buttons[name]
        future = client.call_async(client.srv_type.Request(**fields))
        self.wait(future.done, f'{name} to answer', _REPLY_TIME)
        reply: Any = future.result()
        return reply.success, reply.message

    def ask_parameters(self) -> None:
        """Ask task node and planner for a parameter, which changes nothing; wait for both."""
        request = GetParameters.Request(names=['use_sim_time'])
        for future in [client.call_async(request) for client in self._parameters]:
            self.wait(future.done, 'parameters to arrive', _REPLY_TIME)

    def kill_driver(self) -> None:
        """Kill the driver's process; its silence is no error from here on."""
        self._buttons['driver_killed'].call_async(SetBool.Request(data=True))
        self._silence, self._watch = math.inf, lambda: None

    def refusal(self, name: str) -> str:
        """Call a service of the task node; return why it refuses, or ''."""
        try:
            self.call(name)
        except ExecutionError as error:
            return str(error)
        return ''

    def _on_clock(self, message: Clock) -> None:
        self.clock = to_seconds(message.clock)
        self._received = max(self._received, time.monotonic())

    def _on_joints(self, message: JointState) -> None:
        with contextlib.suppress(InvalidRobotState):  # a fault
            self._joints = joints_from_state(message, JOINT_NAMES)
            self.peak = np.fmax(self.peak, np.abs(velocities_from_state(message, JOINT_NAMES)))

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
