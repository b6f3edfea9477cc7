# SPDX-License-Identifier: Apache-2.0
"""The ROS node of a trial: requests to the cell, waiting, and subscriptions."""

import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from geometry_msgs.msg import PoseArray, PoseStamped
from numpy.typing import NDArray
from rclpy.client import Client
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ur5_pick_place.demo.record import Record
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose, pose_to_matrix, to_seconds
from ur5_pick_place.nodes.ros.distro import distro
from ur5_pick_place.nodes.ros.process import init_ros
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.report.events import is_event
from ur5_pick_place.task import events

# Wall time, as these concern processes and not the robot:
START_TIME = 30.0  # [s] for the nodes to start
_REPLY_TIME = 30.0  # [s] for a service; the longest plans take about 3 s
_DISCOVERY_TIME = 5.0  # [s] for the nodes to discover each other
_SILENCE = 3.0  # [s] without controller state
_REPEAT = 0.5  # [s] after which a request without effect is repeated
_CHECK_PERIOD = 0.05  # [s] between two checks while waiting
_PARTS_PERIOD = 0.007  # [s] simulated; an e-Series publishes the parts at 500 Hz

_EVERY_CYCLE = QoSProfile(depth=250, reliability=ReliabilityPolicy.BEST_EFFORT)
_NO_PROGRESS = 300.0  # [s] simulated, without an event of a job that runs

Kind = TypeVar('Kind', bound='CellClient')


class CellClient:
    """
    A client of the cell's nodes; leaving the context closes it.

    Parameters
    ----------
    domain : int
        ROS_DOMAIN_ID of the nodes.
    watch : callable
        Called during every wait; raises an error to end the wait.
    show : callable
        Called during every wait with the record so far.

    """

    def __init__(
        self, domain: int, watch: Callable[[], None], show: Callable[[Record], None]
    ) -> None:
        self.record = Record()
        """Received samples; may be replaced by an empty record."""
        self.events: list[dict[str, Any]] = []
        """All events of the task node."""
        self.now = 0.0
        """Simulated time [s]."""
        self.planner_state = ''
        self._watch, self._show, self._silence = watch, show, _SILENCE
        self._checked = self._received = time.monotonic()
        self.context = Context()
        """Context of the client's node."""
        # The demo handles Ctrl-C itself and ends its nodes in order.
        init_ros(
            context=self.context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO
        )
        self._node = Node('demo', context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self._node)
        self._connect()

    def _connect(self) -> None:
        node = self._node
        self._poses = {
            name: node.create_publisher(PoseStamped, name, 10)
            for name in (
                'sim_driver/place_part',
                'pick_place/start_pose',
                'pick_place/target_pose',
            )
        }
        self.services: dict[str, Client[Any, Any]] = {
            name: node.create_client(Trigger, f'pick_place/{name}')
            for name in ('teach_home', 'init_gripper', 'plan', 'run')
        }
        for kind, topic, callback, qos in (
            (String, 'trajectory_planner/motion_state', self._on_planner_state, LATCHED),
            (String, 'pick_place/event', self._on_event, 100),
            (PoseArray, 'sim_driver/part_poses', self._on_parts, 10),
            (JointState, 'sim_driver/finger_states', self._on_fingers, 10),
            (
                JointTrajectoryControllerState,
                f'{distro().controller}/controller_state',
                self._on_controller_state,
                _EVERY_CYCLE,
            ),
        ):
            node.create_subscription(kind, topic, callback, qos)

    def __enter__(self: Kind) -> Kind:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._executor.shutdown()
        self._node.destroy_node()
        self.context.try_shutdown()

    # -- requests ------------------------------------------------------------------------------

    def send_pose(self, topic: str, T_base_link_pose: NDArray[Any]) -> None:
        """Publish a pose (4, 4)."""
        message = PoseStamped(pose=matrix_to_pose(T_base_link_pose))
        message.header.frame_id = 'base_link'
        if topic not in self._poses:
            self._poses[topic] = self._node.create_publisher(PoseStamped, topic, 10)
        self._poses[topic].publish(message)

    def call(self, name: str) -> None:
        """Call a service of the task node; raises ExecutionError if it refuses."""
        future = self.services[name].call_async(Trigger.Request())
        self.wait(future.done, f'pick_place/{name} to answer', _REPLY_TIME)
        reply: Any = future.result()
        if not reply.success:
            raise ExecutionError(f'{name}: {reply.message}')

    def do(self, job: str, longest: float = _NO_PROGRESS) -> None:
        """
        Run a job of the task node to its end.

        Raises
        ------
        ExecutionError
            It fails, or the task node reports nothing for `longest` [s] of simulated time.

        """
        has_ended = self.expect(events.DONE, job=job)
        self.call(job)
        reported, since = len(self.events), self.now

        def is_over() -> bool:
            nonlocal reported, since
            if len(self.events) > reported:
                reported, since = len(self.events), self.now
            return has_ended() or self.now > since + longest

        self.wait(is_over, f'{job} to end')
        if not has_ended():
            raise ExecutionError(
                f'timed out waiting for {job} to end: no event for {longest:.0f} s'
            )

    # -- waiting -------------------------------------------------------------------------------

    def wait(self, is_done: Callable[[], bool], what: str, timeout: float = math.inf) -> None:
        """
        Process messages until a condition holds.

        Raises
        ------
        ExecutionError
            The condition does not hold after `timeout` [s] of wall time, or the controller state
            is silent.

        """
        deadline = time.monotonic() + timeout
        while not is_done():
            self._executor.spin_once(timeout_sec=_CHECK_PERIOD)
            now = time.monotonic()
            if now < self._checked + _CHECK_PERIOD:
                continue
            self._checked = now
            self._watch()
            self._look()
            if now > deadline:
                raise ExecutionError(f'timed out after {timeout:.0f} s waiting for {what}')
            if self.now > 0.0 and now > self._received + self._silence:
                raise ExecutionError(
                    f'no controller state for {_SILENCE:.0f} s while waiting for {what}'
                )

    def _look(self) -> None:
        """Do what is due during every wait."""
        self._show(self.record)

    def wait_simulated(self, duration: float) -> None:
        """Wait for a simulated duration [s]."""
        end = self.now + duration
        self.wait(lambda: self.now >= end, 'simulated time to pass')

    def expect(self, event: str, **data: Any) -> Callable[[], bool]:
        """
        Return a function that returns whether an event has arrived since this call.

        The function raises ExecutionError if that job or place was stopped or refused instead;
        what others ask of the task node is not its concern.

        """
        known = len(self.events)

        def has_come() -> bool:
            for seen in self.events[known:]:
                if _has_failed(seen, **data):
                    stage = f'stage {seen["stage"]!r}: ' if seen.get('stage') else ''
                    raise ExecutionError(f'{stage}{seen["reason"]}')
                if seen['event'] == event and data.items() <= seen.items():
                    return True
            return False

        return has_come

    def until(
        self, request: Callable[[], None], has_effect: Callable[[], bool], what: str
    ) -> None:
        """Repeat an idempotent request until its effect is seen."""
        deadline = time.monotonic() + START_TIME
        while not has_effect():
            if time.monotonic() > deadline:
                raise ExecutionError(f'timed out after {START_TIME:.0f} s waiting for {what}')
            request()
            self._wait_for(_REPEAT, has_effect)

    def persist(self, action: Callable[[], None]) -> None:
        """Retry an action for 5 s: it is refused until all nodes have discovered each other."""
        deadline = time.monotonic() + _DISCOVERY_TIME
        while True:
            try:
                return action()
            except ExecutionError:
                if time.monotonic() > deadline:
                    raise
            self._wait_for(_CHECK_PERIOD, lambda: False)

    def _wait_for(self, seconds: float, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + seconds
        self.wait(lambda: is_done() or time.monotonic() > end, 'the retry')

    # -- subscriptions --------------------------------------------------------------------------

    def _on_planner_state(self, message: String) -> None:
        self.planner_state = message.data

    def _on_event(self, message: String) -> None:
        event = events.read_event(message.data)
        if event is None or not is_event(event):
            return
        if set(events.FIELDS.get(event['event'], ())) <= event.keys():
            self.events.append(event)
            self.record.events.append(event)

    def _on_parts(self, message: PoseArray) -> None:
        t, parts = to_seconds(message.header.stamp), self.record.parts
        if not parts or t > parts[-1][0] + _PARTS_PERIOD:
            parts.append((t, np.array([pose_to_matrix(pose) for pose in message.poses])))

    def _on_fingers(self, message: JointState) -> None:
        self.record.fingers.append((to_seconds(message.header.stamp), message.position))

    def _on_controller_state(self, message: JointTrajectoryControllerState) -> None:
        self._received = time.monotonic()
        self.now = to_seconds(message.header.stamp)
        order = [message.joint_names.index(name) for name in JOINT_NAMES]
        measured, planned = message.feedback, message.reference
        q, qd, q_planned = (
            [row[i] for i in order]
            for row in (measured.positions, measured.velocities, planned.positions)
        )
        self.record.joints.append((self.now, q, qd, q_planned))


def _has_failed(seen: dict[str, Any], job: str = '', place: str = '') -> bool:
    """Return whether an event tells that this job, or the teaching of this place, has failed."""
    if seen['event'] == events.REFUSED:
        return seen['request'] in (job, f'{place}_pose', f'teach_{place}')
    return seen['event'] == events.STOPPED and bool(job) and seen['job'] in (job, '')
