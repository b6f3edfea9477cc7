# SPDX-License-Identifier: Apache-2.0
"""The driver's topics on the robot, kept as one `RobotStatus`."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Bool
from ur_dashboard_msgs.msg import ProgramState, RobotMode, SafetyMode
from ur_dashboard_msgs.srv import GetProgramState

from ur5_pick_place.control.controller import REPLY_TIMEOUT
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.nodes.diagnostics import Jitter
from ur5_pick_place.nodes.joint_listener import JointListener, Joints
from ur5_pick_place.nodes.qos import LATCHED, fresh
from ur5_pick_place.nodes.rounds import ROUND, Rounds
from ur5_pick_place.nodes.speed_scaling import SpeedScaling

_REQUEST_PERIOD = 0.2  # [s] between requests to the dashboard
_IO = 'io_and_status_controller'
_GAP_PERIOD = 1.0  # [s] between two warnings about gaps

GOAL = fresh(REPLY_TIMEOUT)
"""QoS of goals: their many packets take long, and one that comes later is canceled at once."""


class DriverLink:
    """
    Subscribes to joints and modes.

    Parameters
    ----------
    node : Node
    joint_names : sequence of str
        In controller order, with the prefix.
    on_joints, on_mode : callable
        Called after joint_states and after every change of a mode.
    is_moving : callable
        Returns whether a motion runs: joints are then taken as they arrive.
    group : CallbackGroup

    """

    def __init__(
        self,
        node: Node,
        joint_names: Sequence[str],
        on_joints: Callable[[], None],
        on_mode: Callable[[], None],
        is_moving: Callable[[], bool],
        group: CallbackGroup,
    ) -> None:
        self.status = RobotStatus()
        self.jitter = Jitter()
        self._names, self._log = list(joint_names), node.get_logger()
        self._on_joints, self._on_mode = on_joints, on_mode
        self._next_request = 0.0  # steady clock [s]
        self._program: Client[Any, Any] = node.create_client(
            GetProgramState, 'dashboard_client/program_state', callback_group=group
        )

        def subscribe(
            kind: type, topic: str, callback: Callable[[Any], None], qos: QoSProfile
        ) -> None:
            node.create_subscription(kind, topic, callback, qos, callback_group=group)

        rounds = Rounds(node, ROUND, group)
        JointListener(
            node, joint_names, self._on_joint_states, self._on_bad_joints, rounds, is_moving
        )
        SpeedScaling(node, self._on_speed_scaling, rounds)
        subscribe(RobotMode, f'{_IO}/robot_mode', self._on_robot_mode, LATCHED)
        subscribe(SafetyMode, f'{_IO}/safety_mode', self._on_safety_mode, LATCHED)
        subscribe(Bool, f'{_IO}/robot_program_running', self._on_program_running, LATCHED)

    def _on_joint_states(self, joints: Joints) -> None:
        now = time.monotonic()
        self.jitter.tick(now)
        for stamp, q in joints.earlier:
            if self.status.is_impossible(stamp, q, self._names):
                self._on_joints()
        self.status.update_joints(
            joints.stamp, joints.q, joints.qd, self._names, now, joints.stamp_gap
        )
        if self.status.gap:
            self._log_gap()
        self._on_joints()

    def _on_bad_joints(self, problem: str) -> None:
        self.status.bad_joints = problem
        self._on_joints()

    def _log_gap(self) -> None:
        gap, self.status.gap = self.status.gap, ''
        self._log.warning(gap, throttle_duration_sec=_GAP_PERIOD)

    def _on_robot_mode(self, message: RobotMode) -> None:
        # Evaluated at the next watch: in an emergency stop the robot mode (power off) arrives
        # before the safety mode.
        self.status.robot_mode = message.mode

    def _on_safety_mode(self, message: SafetyMode) -> None:
        self.status.safety_mode = message.mode
        self._on_mode()

    def _on_program_running(self, message: Bool) -> None:
        self.status.program_running = message.data
        self._on_mode()

    def _on_speed_scaling(self, scaling: float) -> None:
        self.status.speed_scaling = scaling
        if scaling > 0.0:
            self.status.program_paused = False
        elif time.monotonic() >= self._next_request and self._program.service_is_ready():
            self._next_request = time.monotonic() + _REQUEST_PERIOD
            answer = self._program.call_async(GetProgramState.Request())
            answer.add_done_callback(lambda future: self._on_program_state(future.result()))

    def _on_program_state(self, answer: GetProgramState.Response) -> None:
        """Distinguish a paused program from a slider at 0, which no topic does."""
        self.status.program_paused = answer.success and answer.state.state == ProgramState.PAUSED
        self._on_mode()
