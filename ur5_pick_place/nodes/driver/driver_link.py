# SPDX-License-Identifier: Apache-2.0
"""Keeps what the driver publishes about the robot in one `RobotStatus`."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rclpy.client import Client
from rclpy.subscription import Subscription
from std_msgs.msg import Bool
from ur_dashboard_msgs.msg import ProgramState, RobotMode, SafetyMode
from ur_dashboard_msgs.srv import GetProgramState

from ur5_pick_place.control.controller import REPLY_TIMEOUT
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.nodes.driver.joint_listener import JointListener, Joints
from ur5_pick_place.nodes.driver.speed_scaling import subscribe_to_scaling
from ur5_pick_place.nodes.ros.diagnostics import Jitter
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.qos import LATCHED, fresh
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall
from ur5_pick_place.nodes.ros.topic_reader import ARM_PERIOD

_MOVING_PERIOD = 0.002  # [s] between two polls for joints while the arm moves
_REQUEST_PERIOD = 0.2  # [s] between requests to the dashboard
_DASHBOARD_TIME = 1.0  # [s] at speed scaling 0 without an answer that shows the cause
_IO = 'io_and_status_controller'
_GAP_PERIOD = 1.0  # [s] between two warnings about gaps
_GRAPH_PERIOD = 1.0  # [s] between two polls of the ROS graph
_CONFIRMATION = 1.5  # [s] for latched messages to arrive anew

PROGRAM_RUNNING = f'{_IO}/robot_program_running'
"""The driver's topic, on which a driver that starts with the program stopped sends nothing."""

GOAL = fresh(REPLY_TIMEOUT)
"""QoS of goals: a long one has many packets; one accepted after this time is canceled."""


class LatchedTopic:
    """
    A latched topic that the driver publishes on change only; its value ends with its publisher.

    A driver that is restarted may publish nothing for long: what the one before it published must
    not count any more. Beside another publisher, such as a recording that is played, the value is
    confirmed anew before it is lost.

    `on_message`: takes a message. `on_lost`: called when the publisher has ended or was replaced,
    or has not confirmed the value within `_CONFIRMATION` beside another one; the value is unknown
    from then on.
    """

    def __init__(
        self,
        node: SerialNode,
        kind: type,
        topic: str,
        on_message: Callable[[Any], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._node, self._kind, self._topic = node, kind, topic
        self._on_message, self._on_lost = on_message, on_lost
        self._unconfirmed_since = math.inf  # steady clock [s]
        self._subscription = self._subscribe()
        self._publishers: set[bytes] = set()
        node.reader.every(_GRAPH_PERIOD, self._check_publishers)

    def _subscribe(self) -> 'Subscription[Any]':
        return self._node.create_subscription(
            self._kind, self._topic, self._take, LATCHED
        )

    def _take(self, message: Any) -> None:
        self._unconfirmed_since = math.inf
        self._on_message(message)

    def _check_publishers(self) -> None:
        found = self._node.get_publishers_info_by_topic(self._topic)
        before, self._publishers = self._publishers, {bytes(f.endpoint_gid) for f in found}
        now = time.monotonic()
        if now - self._unconfirmed_since > _CONFIRMATION:
            self._unconfirmed_since = math.inf
            self._on_lost()
        # Also when one is added: a driver that was killed stays in the graph for up to 20 s.
        if not before or before == self._publishers:
            return
        if before & self._publishers:
            self._unconfirmed_since = now
        else:
            self._on_lost()
        if len(found) > 1:
            names = [f'{f.node_namespace.rstrip("/")}/{f.node_name}' for f in found]
            self._node.get_logger().warning(
                f'{self._topic} has {len(found)} publishers, {" and ".join(names)}: each may say '
                'whether the arm may move; end all but the driver (one that was killed is listed '
                'for up to 20 s)'
            )
        # Those that are there now publish their latest message anew, and only they.
        self._node.destroy_subscription(self._subscription)
        self._subscription = self._subscribe()


class DriverLink:
    """
    Subscribes to joints and modes.

    `joint_names`: in controller order, with the prefix. `on_joints` and `on_mode`: called after
    joint_states and after every change of a mode. `is_moving`: returns whether a motion runs:
    joints are then taken as they arrive.
    """

    def __init__(
        self,
        node: SerialNode,
        joint_names: Sequence[str],
        on_joints: Callable[[], None],
        on_mode: Callable[[], None],
        is_moving: Callable[[], bool],
    ) -> None:
        self.status = RobotStatus()
        self.jitter = Jitter()
        self._names, self._log = list(joint_names), node.get_logger()
        self._on_joints, self._on_mode = on_joints, on_mode
        self._last_check = time.monotonic()  # steady clock [s]
        self._unknown = 0.0  # [s] at scaling 0 without knowing whether the program is paused
        program: Client[Any, Any] = node.create_client(
            GetProgramState, 'dashboard_client/program_state'
        )
        self._program = RepeatedCall(program, _DASHBOARD_TIME)

        def period() -> float:
            return _MOVING_PERIOD if is_moving() else ARM_PERIOD

        # The scaling first: after a stall the joints that waited are judged by the present one.
        subscribe_to_scaling(node, self._on_speed_scaling, period)
        self.joint_listener = JointListener(
            node, joint_names, self._on_joint_states, self._on_bad_joints, period
        )

        for kind, topic, field in (
            (RobotMode, f'{_IO}/robot_mode', 'robot_mode'),
            (SafetyMode, f'{_IO}/safety_mode', 'safety_mode'),
            (Bool, PROGRAM_RUNNING, 'program_running'),
        ):
            keep = partial(self._keep_mode, field)
            LatchedTopic(node, kind, topic, keep, partial(keep, None))

    def _on_joint_states(self, joints: Joints) -> None:
        now = time.monotonic()
        self.jitter.tick(now)
        for stamp, q in joints.earlier:
            if self.status.is_impossible(stamp, q, self._names):
                self._on_joints()
        self.status.update_joints(
            joints.stamp, joints.q, joints.qd, self._names, now, joints.stamp_gap
        )
        gap, self.status.gap = self.status.gap, ''
        if gap:
            self._log.warning(gap, throttle_duration_sec=_GAP_PERIOD)
        self._on_joints()

    def _on_bad_joints(self, problem: str) -> None:
        self.status.bad_joints = problem
        self._on_joints()

    def _keep_mode(self, field: str, message: RobotMode | SafetyMode | Bool | None) -> None:
        """Keep what a message says in a field of the status, None once its driver has gone."""
        value = message.data if isinstance(message, Bool) else message and message.mode
        setattr(self.status, field, value)
        # A robot mode is left to the next periodic check: in an emergency stop (power off) it
        # arrives before the safety mode.
        if field != 'robot_mode' or message is None:
            self._on_mode()

    def _on_speed_scaling(self, scaling: float) -> None:
        status, now = self.status, time.monotonic()
        status.speed_scaling = scaling
        # Time in which this process did not run is not counted: an answer may be waiting.
        self._unknown += min(now - self._last_check, _REQUEST_PERIOD)
        self._last_check = now
        if scaling > 0.0:
            status.program_paused = status.is_pause_unknown = False
            self._unknown = 0.0
            return
        if self._program.is_there:
            request = GetProgramState.Request()
            self._program.send_if_due(request, self._on_program_state, _REQUEST_PERIOD)
        if self._unknown > _DASHBOARD_TIME and not status.is_pause_unknown:
            status.is_pause_unknown = True
            self._on_mode()

    def _on_program_state(self, answer: GetProgramState.Response) -> None:
        """Distinguish a paused program from a slider at 0, which no topic does."""
        if not answer.success:
            return  # time decides
        self._unknown = 0.0
        self.status.program_paused = answer.state.state == ProgramState.PAUSED
        self.status.is_pause_unknown = False
        self._on_mode()
