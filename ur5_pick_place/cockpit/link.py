# SPDX-License-Identifier: Apache-2.0
"""The cockpit as a client of the cell's nodes: what it requests and what it receives."""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from moveit_msgs.srv import GetPositionFK, GetPositionIK
from rcl_interfaces.msg import Log
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import MarkerArray
from visualization_msgs.srv import GetInteractiveMarkers

from ur5_pick_place.client.requests import check_code
from ur5_pick_place.cockpit.actions import CellState
from ur5_pick_place.errors import ExecutionError, TimedOut, one_line
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose, pose_to_matrix
from ur5_pick_place.nodes.ros.bounded_reader import BoundedReader
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall
from ur5_pick_place.task.events import read_event
from ur5_pick_place.task.places.names import HOME

TASK, PLANNER, SIM_DRIVER = 'pick_place', 'trajectory_planner', 'sim_driver'
_NODES = (PLANNER, TASK)

_LARGEST_TEXT = 262_144  # [bytes] of a state or an event; a plan's report is the longest
_LARGEST_DRAWING = 4_194_304  # [bytes] of the markers of a plan
_REPLY_TIME = 10.0  # [s] for an answer
# [s] other timeouts: `plan` answers when planning has ended; a stop without an answer must be
# reported soon
_TIMEOUTS = {f'{TASK}/plan': 120.0, f'{TASK}/stop': 1.0, f'{PLANNER}/stop': 1.0}
_FK_TIME = 3.0  # [s]
_SOLUTION_TIME = 1.0  # [s] after which the solutions of a dragged pose are no longer wanted
_WARNING_PERIOD = 10.0  # [s]
_LONGEST = 400  # characters of a reason that are shown
_PLACE = re.compile(r'[A-Za-z]\w{0,63}', re.ASCII)

Answer = Callable[[bool | None, str], object]
"""Takes whether a request succeeded, None if nobody answered, and the node's message."""


@dataclass(eq=False)
class _Pending:
    what: str
    timeout: float  # [s]
    on_answer: Answer
    give_up: Callable[[], object]  # so that rclpy does not keep it for ever
    is_settled: bool = False

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.timeout

    def expire_if_due(self) -> None:
        if time.monotonic() > self._deadline:
            late = f'no reply within {self.timeout:g} s; the request may still take effect'
            self.settle(None, f'{self.what}: {late}')

    def settle(self, success: bool | None, message: str) -> None:
        if not self.is_settled:
            self.is_settled = True
            self.on_answer(success, one_line(message)[:_LONGEST])


@dataclass(frozen=True)
class Offers:
    """
    What the nodes of the cell offer at present.

    Attributes
    ----------
    teachable, pose_teachable, movable : tuple of str
        Places that can be taught from the joints, those that can be taught by a pose (all but
        home), and which of these a drag can teach: the others are read from TF.
    faults : tuple of str
        Of the simulated cell; empty for another.
    is_simulated, has_feeder, has_jogging : bool

    """

    teachable: tuple[str, ...] = ()
    pose_teachable: tuple[str, ...] = ()
    movable: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    is_simulated: bool = False
    has_feeder: bool = False
    has_jogging: bool = False


class CellLink:
    """
    Clients and subscriptions of the cockpit.

    Parameters
    ----------
    base_link : str
        With the prefix.
    on_event : callable
        Takes an event of the task node.
    on_drawing : callable
        Takes a name and a MarkerArray: `plan` or `path`.
    on_jog : callable
        Takes what the planner logs about a jog: why it was refused, slowed or ended.
    on_figures : callable
        Takes the values of the task node's diagnostics, by name.

    Attributes
    ----------
    state : CellState

    """

    def __init__(
        self,
        node: Node,
        base_link: str,
        on_event: Callable[[dict[str, Any]], object],
        on_drawing: Callable[[str, MarkerArray], object],
        on_jog: Callable[[str], object],
        on_figures: Callable[[dict[str, str]], object],
    ) -> None:
        self._node, self._base_link, self._on_event = node, base_link, on_event
        self._group = ReentrantCallbackGroup()
        self._pending: list[_Pending] = []
        self._clients: dict[str, Client[Any, Any]] = {}
        self._poses: dict[str, Any] = {}
        self._task_nodes = 0
        self._movable: set[str] | None = None  # until the task node has reported it
        self.state = CellState()
        for name in _NODES:  # before they are needed, so that a stop finds them
            self._client(f'{name}/stop', Trigger)
        self._ik: Client[Any, Any] = node.create_client(
            GetPositionIK, 'compute_ik_all', callback_group=self._group
        )
        self._solving = RepeatedCall(self._ik, _SOLUTION_TIME)
        self._fk: Client[Any, Any] = node.create_client(
            GetPositionFK, 'compute_fk', callback_group=self._group
        )
        markers = f'{TASK}/teach_markers/get_interactive_markers'
        self._markers = self._client(markers, GetInteractiveMarkers)
        self._finding = RepeatedCall(self._markers)
        self._subscribe_text(f'{TASK}/state', self._on_task, LATCHED)
        self._subscribe_text(f'{PLANNER}/motion_state', self._on_planner, LATCHED)
        self._subscribe_text(f'{TASK}/event', self._read_event, QoSProfile(depth=100))
        for topic, name, qos in (
            (f'{TASK}/markers', 'plan', LATCHED),
            ('planned_path', 'path', QoSProfile(depth=1)),
        ):
            reader = BoundedReader(node, MarkerArray, topic, _LARGEST_DRAWING)
            take = partial(_forward, reader, partial(on_drawing, name))
            node.create_subscription(MarkerArray, topic, take, qos, raw=True)
        own = [*node.get_namespace().strip('/').split('/'), PLANNER]
        self._planner_log, self._on_jog = '.'.join(filter(None, own)), on_jog
        self._task_name = f'{node.get_namespace().rstrip("/")}/{TASK}'
        self._on_figures = on_figures
        for kind, topic, listen in (
            (Log, '/rosout', self._on_log),
            (DiagnosticArray, '/diagnostics', self._on_diagnostics),
        ):
            reader = BoundedReader(node, kind, topic, _LARGEST_TEXT)
            node.create_subscription(kind, topic, partial(_forward, reader, listen), 100, raw=True)

    def _subscribe_text(self, topic: str, take: Callable[[str], object], qos: QoSProfile) -> None:
        reader = BoundedReader(self._node, String, topic, _LARGEST_TEXT)
        take_text = partial(_forward, reader, lambda message: take(message.data))
        self._node.create_subscription(String, topic, take_text, qos, raw=True)

    def _on_task(self, text: str) -> None:
        self.state = CellState(one_line(text)[:_LONGEST], self.state.planner)

    def _on_planner(self, text: str) -> None:
        self.state = CellState(self.state.task, one_line(text)[:_LONGEST])

    def _read_event(self, text: str) -> None:
        event = read_event(text)
        if event is None:
            return
        try:
            self._on_event({key: _shown(value) for key, value in event.items()})
        except Exception as error:  # whatever another node publishes, the page stays
            self._node.get_logger().warning(
                one_line(f'{TASK}/event: {type(error).__name__}: {error}; the event is ignored: '
                         f'list its publishers: ros2 topic info -v {TASK}/event'),
                throttle_duration_sec=_WARNING_PERIOD,
            )

    def _on_log(self, message: Log) -> None:
        if message.name == self._planner_log and message.msg.startswith('jog'):
            self._on_jog(one_line(message.msg)[:_LONGEST])

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == self._task_name:
                self._on_figures({item.key: item.value for item in status.values})

    # -- what is offered -------------------------------------------------------------------------

    def poll_offers(self) -> Offers:
        """Return what the nodes offer; call this once a second. Ends requests without answer."""
        node = self._node
        task_nodes = node.count_publishers(f'{TASK}/state')
        if not task_nodes:
            self._on_task('')
        if task_nodes != self._task_nodes:
            self._task_nodes, self._movable = task_nodes, None
        if self._movable is None:
            self._find_movable()
        if not node.count_publishers(f'{PLANNER}/motion_state'):
            self._on_planner('')
        for pending in list(self._pending):
            pending.expire_if_due()
            if pending.is_settled:
                self._pending.remove(pending)
                pending.give_up()
        own = node.get_namespace().rstrip('/')
        services = [name for name, _ in node.get_service_names_and_types()]
        topics = [name for name, _ in node.get_topic_names_and_types()]
        pose_teachable = [  # home is defined by its joints: no pose can teach it
            place
            for place in _between(topics, f'{own}/{TASK}/', '_pose')
            if place != HOME and node.count_subscribers(f'{TASK}/{place}_pose')
        ]
        return Offers(
            teachable=_between(services, f'{own}/{TASK}/teach_', ''),
            pose_teachable=tuple(pose_teachable),
            movable=tuple(pose_teachable if (known := self._movable) is None else known),
            faults=_between(services, f'{own}/{SIM_DRIVER}/faults/', ''),
            is_simulated=f'{own}/{SIM_DRIVER}/clear_faults' in services,
            has_feeder=f'{own}/{SIM_DRIVER}/feed_part' in services,
            has_jogging=bool(node.count_subscribers(f'{PLANNER}/delta_twist_cmds')),
        )

    def _find_movable(self) -> None:
        """Query which places may be dragged: only the task node knows which it reads from TF."""
        if self._markers.service_is_ready():
            self._finding.send(GetInteractiveMarkers.Request(), self._take_movable)

    def _take_movable(self, reply: Any) -> None:
        self._movable = {str(marker.name) for marker in reply.markers}

    # -- requests; may be called from any thread --------------------------------------------------

    def stop(self, on_answer: Answer) -> None:
        """
        Stop the arm by both nodes at once, waiting for neither.

        The requests are sent even to a node that seems not to be there. Each node stops the arm
        by itself, so each success is reported, and a failure only if both fail. The task node
        answers later than the planner, as it ends freedrive first.

        """
        failures: list[str] = []

        def take(success: bool | None, message: str) -> None:
            if success:
                on_answer(True, message)
            else:
                failures.append(message)
            if len(failures) == len(_NODES):
                on_answer(False, '; '.join(failures))

        for name in _NODES:
            pending = self._send(f'{name}/stop', Trigger, Trigger.Request(), take)
            if not self._client(f'{name}/stop', Trigger).service_is_ready():
                pending.settle(False, f'{name} is not there')

    def trigger(self, service: str, on_answer: Answer) -> None:
        """Call a Trigger service, such as `pick_place/plan`."""
        self._call(service, Trigger, Trigger.Request(), on_answer)

    def switch(self, service: str, is_on: bool, on_answer: Answer) -> None:
        """Call a SetBool service."""
        self._call(service, SetBool, SetBool.Request(data=is_on), on_answer)

    def send_pose(self, topic: str, T_base_link_pose: Array) -> None:
        """Publish a pose (4, 4) in `base_link`."""
        if topic not in self._poses:
            self._poses[topic] = self._node.create_publisher(PoseStamped, topic, 10)
        self._poses[topic].publish(self._stamped(T_base_link_pose))

    def prepare_pose(self, topic: str) -> None:
        """Create a topic's publisher early: a pose sent before discovery would be lost."""
        if topic not in self._poses:
            self._poses[topic] = self._node.create_publisher(PoseStamped, topic, 10)

    def solve(
        self, T_base_link_tcp: Array, link: str, on_reply: Callable[[Any], None]
    ) -> None:
        """Request all solutions of a pose of `link`; nothing happens without the IK node."""
        if not self._ik.service_is_ready():
            return
        request = GetPositionIK.Request()
        request.ik_request.pose_stamped = self._stamped(T_base_link_tcp)
        request.ik_request.ik_link_name = link
        request.ik_request.avoid_collisions = True
        self._solving.send(request, on_reply)

    def pose_of(self, link: str, frame: str, joints: JointState) -> Array:
        """
        Return the pose (4, 4) of a link in a frame at joints, as the nodes' kinematics has it.

        It waits for the answer: not to be called from the thread that spins the node.

        """
        request = GetPositionFK.Request(fk_link_names=[link])
        request.header.frame_id, request.robot_state.joint_state = frame, joints
        if not self._fk.service_is_ready():
            raise ExecutionError('compute_fk is not there: start ik_service')
        future, answered = self._fk.call_async(request), threading.Event()
        future.add_done_callback(lambda _done: answered.set())
        if not answered.wait(_FK_TIME):
            self._fk.remove_pending_request(future)
            raise TimedOut(f'compute_fk did not answer within {_FK_TIME:g} s')
        reply: Any = future.result()
        check_code(reply.error_code, 'compute_fk')
        return pose_to_matrix(reply.pose_stamped[0].pose)

    def _stamped(self, T: Array) -> PoseStamped:
        message = PoseStamped(pose=matrix_to_pose(T))
        message.header.frame_id = self._base_link
        return message

    def _client(self, service: str, kind: Any) -> 'Client[Any, Any]':
        if service not in self._clients:
            self._clients[service] = self._node.create_client(
                kind, service, callback_group=self._group
            )
        return self._clients[service]

    def prepare(self, service: str, kind: Any) -> None:
        """Create a client before it is needed, as discovery takes a moment."""
        self._client(service, kind)

    def _call(self, service: str, kind: Any, request: Any, on_answer: Answer) -> None:
        client = self._client(service, kind)
        if not client.service_is_ready():
            on_answer(False, f'{service} is not there: its node has ended or is starting')
            return
        self._send(service, kind, request, on_answer)

    def _send(self, service: str, kind: Any, request: Any, on_answer: Answer) -> _Pending:
        client = self._client(service, kind)
        sent = client.call_async(request)
        give_up = partial(client.remove_pending_request, sent)
        pending = _Pending(service, _TIMEOUTS.get(service, _REPLY_TIME), on_answer, give_up)
        self._pending.append(pending)

        def done(future: 'Future[Any]') -> None:
            reply: Any = future.result()
            pending.settle(bool(reply.success), str(reply.message))

        sent.add_done_callback(done)
        return pending


def _shown(value: Any) -> Any:
    """
    Return a value of an event for the page.

    Text becomes one line. Of a dict only the keys are shown. A list becomes the word 'list' unless
    it holds numbers only. Other values are unchanged.

    """
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):  # such as what a conversion has changed
        return one_line(', '.join(value))
    if isinstance(value, list) and not all(isinstance(item, (int, float)) for item in value):
        return type(value).__name__
    return value


def _forward(reader: BoundedReader, take: Callable[[Any], object], data: bytes) -> None:
    message = reader.read(data)
    if message is not None:
        take(message)


def _between(names: list[str], prefix: str, suffix: str) -> tuple[str, ...]:
    """Return what stands between prefix and suffix, if it can be a place or a fault, sorted."""
    found = (
        name[len(prefix) : len(name) - len(suffix)]
        for name in names
        if name.startswith(prefix) and name.endswith(suffix)
    )
    return tuple(sorted(word for word in found if _PLACE.fullmatch(word)))
