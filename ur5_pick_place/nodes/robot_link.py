# SPDX-License-Identifier: Apache-2.0
"""What the driver says of the robot, kept as one `RobotStatus`."""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64
from ur_dashboard_msgs.msg import RobotMode, SafetyMode

from ur5_pick_place.control.health import RobotStatus
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.conversions import joints_from_state, to_seconds, velocities_from_state

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
# No joint of a UR5 can be farther out or faster; such a message is a fault, not a position.
_IMPOSSIBLE_POSITION = 2 * math.pi + 0.1  # [rad]
_IMPOSSIBLE_VELOCITY = 8.0  # [rad/s] between two messages; the fastest UR wrist does 2 pi
_STEP_SLACK = 0.05  # [rad]
_IO = 'io_and_status_controller'
Stamped = tuple[float, np.ndarray]  # stamp [s], joints (6,) [rad]


class RobotLink:
    """
    Subscribes to joints and modes.

    Parameters
    ----------
    node : Node
    joint_names : sequence of str
        In controller order, with the prefix.
    on_joints, on_mode : callable
        Called after every joint_states and after every change of a mode.
    group : CallbackGroup

    """

    def __init__(
        self,
        node: Node,
        joint_names: Sequence[str],
        on_joints: Callable[[], None],
        on_mode: Callable[[], None],
        group: CallbackGroup,
    ) -> None:
        self.status = RobotStatus()
        self._names = list(joint_names)
        self._last: Stamped | None = None  # as heard, be it possible or not
        self._on_joints, self._on_mode = on_joints, on_mode

        def subscribe(kind: type, topic: str, callback: Callable, qos: QoSProfile) -> None:
            node.create_subscription(kind, topic, callback, qos, callback_group=group)

        subscribe(JointState, 'joint_states', self._hear_joints, qos_profile_sensor_data)
        subscribe(RobotMode, f'{_IO}/robot_mode', self._hear_robot_mode, LATCHED)
        subscribe(SafetyMode, f'{_IO}/safety_mode', self._hear_safety_mode, LATCHED)
        subscribe(Bool, f'{_IO}/robot_program_running', self._hear_program, LATCHED)
        subscribe(
            Float64,
            'speed_scaling_state_broadcaster/speed_scaling',
            self._hear_scaling,
            qos_profile_sensor_data,
        )

    def _hear_joints(self, message: JointState) -> None:
        status = self.status
        try:
            q = joints_from_state(message, self._names)
            qd = velocities_from_state(message, self._names)
            stamp = to_seconds(message.header.stamp)
            before, self._last = self._last, (stamp, q)
            _check_possible(q, stamp, before, self._names)
        except InvalidInput as error:
            status.bad_joints = str(error)
        else:
            status.q, status.qd, status.bad_joints = q, qd, ''
            status.stamp, status.heard = stamp, time.monotonic()
        self._on_joints()

    def _hear_robot_mode(self, message: RobotMode) -> None:
        self.status.robot_mode = message.mode
        self._on_mode()

    def _hear_safety_mode(self, message: SafetyMode) -> None:
        self.status.safety_mode = message.mode
        self._on_mode()

    def _hear_program(self, message: Bool) -> None:
        self.status.program_running = message.data
        self._on_mode()

    def _hear_scaling(self, message: Float64) -> None:
        # The driver publishes percent, whatever its documentation says.
        self.status.speed_scaling = message.data / 100.0


def _check_possible(
    q: np.ndarray, stamp: float, before: Stamped | None, names: Sequence[str]
) -> None:
    joint = int(np.abs(q).argmax())
    if abs(q[joint]) > _IMPOSSIBLE_POSITION:
        raise InvalidInput(f'{names[joint]} = {q[joint]:.3f} rad is outside any UR range')
    if before is None:
        return
    # Messages may be lost on a busy machine, so a step is judged by the time it took.
    gap, step = stamp - before[0], np.abs(q - before[1])
    joint = int(step.argmax())
    if step[joint] > _STEP_SLACK + _IMPOSSIBLE_VELOCITY * max(gap, 0.0):
        raise InvalidInput(f'{names[joint]} jumped by {step[joint]:.3f} rad within {gap:.3f} s')
