# SPDX-License-Identifier: Apache-2.0
"""What every client of a cell asks of its nodes and hears from them, by callbacks."""

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rcl_interfaces.msg import Log
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.context import Context
from rclpy.exceptions import InvalidNamespaceException
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ur5_pick_place.errors import InvalidInput, one_line
from ur5_pick_place.nodes.ros.process import init_ros
from ur5_pick_place.nodes.ros.topic_reader import BoundedReader
from ur5_pick_place.task.events import read_event

TASK, PLANNER, IK, SIM_DRIVER = 'pick_place', 'trajectory_planner', 'ik_service', 'sim_driver'
STATES = {PLANNER: f'{PLANNER}/motion_state', TASK: f'{TASK}/state'}
"""The topic on which each node that can stop the arm has its state."""

Event = dict[str, Any]
"""An event of the task node, as `task.events` lists them."""

Answer = Callable[[bool | None, str], object]
"""Takes whether a request succeeded, None if nobody answered, and the node's message."""

_LARGEST_TEXT = 262_144  # [bytes] of a state or an event; a plan's report is the longest
_EVENTS = QoSProfile(depth=1000)
_LOG = QoSProfile(depth=100)
_REPLY_TIME = 10.0  # [s] for an answer
# [s] other timeouts: `plan` answers when planning has ended; a stop without an answer must be
# reported soon
_TIMEOUTS = {f'{TASK}/plan': 120.0, **{f'{node}/stop': 1.0 for node in STATES}}
_LONGEST = 400  # characters of an answer
_NAME = re.compile(r'[A-Za-z]\w{0,63}', re.ASCII)


OwnNode = TypeVar('OwnNode', bound=Node)


def own_node(kind: type[OwnNode], name: str, namespace: str, **options: Any) -> OwnNode:
    """
    Return a node with a context of its own, which leaves signals and ROS arguments to the program.

    Raises `InvalidInput`: the namespace or ROS_DOMAIN_ID is malformed.
    """
    context = Context()
    init_ros(context=context, signal_handler_options=SignalHandlerOptions.NO)
    try:
        return kind(
            name,
            namespace=namespace,
            context=context,
            use_global_arguments=False,
            start_parameter_services=False,
            **options,
        )
    except (InvalidNamespaceException, TypeError) as error:
        context.try_shutdown()
        raise InvalidInput(f'namespace = {namespace!r}: {error}') from error


class _Pending:
    """A request whose answer is awaited."""

    def __init__(
        self, client: 'Client[Any, Any]', request: Any, name: str, on_answer: Answer
    ) -> None:
        self._client, self._name, self._on_answer = client, name, on_answer
        self._timeout = _TIMEOUTS.get(name, _REPLY_TIME)
        self._deadline = time.monotonic() + self._timeout
        self.is_settled = False
        self._future: Future[Any] = client.call_async(request)
        self._future.add_done_callback(self._on_reply)

    def _on_reply(self, future: 'Future[Any]') -> None:
        reply: Any = future.result()
        self.settle(bool(reply.success), str(reply.message))

    def settle(self, success: bool | None, message: str) -> None:
        """Give the answer, once."""
        if not self.is_settled:
            self.is_settled = True
            self._on_answer(success, one_line(message)[:_LONGEST])

    def expire_if_due(self) -> None:
        """Answer that nobody did, if it is time."""
        if time.monotonic() > self._deadline:
            late = f'no reply within {self._timeout:g} s; the request may still take effect'
            self.settle(None, f'{self._name}: {late}')

    def give_up(self) -> None:
        """Have rclpy forget the request, which it would keep for ever."""
        self._client.remove_pending_request(self._future)


class Connection:
    """
    Clients and subscriptions of a cell's nodes, on any node in their namespace.

    `group`: of the clients.
    """

    def __init__(self, node: Node, group: CallbackGroup | None = None) -> None:
        self.node, self._group = node, group
        self._clients: dict[str, Client[Any, Any]] = {}
        self._pending: list[_Pending] = []
        for name in STATES:  # a stop must not wait for discovery
            self.client(Trigger, f'{name}/stop')

    # -- what the nodes publish ------------------------------------------------------------------

    def hear(
        self,
        kind: type,
        topic: str,
        take: Callable[[Any], object],
        qos: QoSProfile,
        largest: int = _LARGEST_TEXT,
        **options: Any,
    ) -> None:
        """Subscribe to a topic; messages that are malformed or too large are ignored."""
        reader = BoundedReader(self.node, kind, topic, largest)

        def forward(data: bytes) -> None:
            if (message := reader.read(data)) is not None:
                take(message)

        self.node.create_subscription(kind, topic, forward, qos, raw=True, **options)

    def hear_state(
        self, name: str, take: Callable[[str], object], qos: QoSProfile, **options: Any
    ) -> None:
        """Take the states of a node of `STATES`."""
        self.hear(String, STATES[name], lambda message: take(message.data), qos, **options)

    def hear_events(self, take: Callable[[Event], object]) -> None:
        """Take the events of the task node; any other text is ignored."""

        def read(message: String) -> None:
            if (event := read_event(message.data)) is not None:
                take(event)

        self.hear(String, f'{TASK}/event', read, _EVENTS)

    def hear_planner(self, take: Callable[[Log], object]) -> None:
        """Take the lines of the planner's log."""
        name = '.'.join(filter(None, [*self.node.get_namespace().split('/'), PLANNER]))

        def read(message: Log) -> None:
            if message.name == name:
                take(message)

        self.hear(Log, '/rosout', read, _LOG)

    # -- what they offer -------------------------------------------------------------------------

    def services(self, prefix: str) -> tuple[str, ...]:
        """Return what follows `prefix` in the names of services, sorted."""
        start = f'{self.node.get_namespace().rstrip("/")}/{prefix}'
        names = [name for name, _types in self.node.get_service_names_and_types()]
        found = (name.removeprefix(start) for name in names if name.startswith(start))
        return tuple(sorted(word for word in found if _NAME.fullmatch(word)))

    # -- requests; may be called from any thread -------------------------------------------------

    def client(self, kind: type, name: str) -> 'Client[Any, Any]':
        """Return the client of a service; create it early, as discovery takes a moment."""
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name, callback_group=self._group)
        return self._clients[name]

    def request(self, kind: Any, name: str, on_answer: Answer, **fields: Any) -> None:
        """Call a Trigger or SetBool service."""
        if not self.client(kind, name).service_is_ready():
            on_answer(False, f'{name} is not there: its node has ended or is starting')
            return
        self._send(kind, name, on_answer, **fields)

    def _send(self, kind: Any, name: str, on_answer: Answer, **fields: Any) -> _Pending:
        pending = _Pending(self.client(kind, name), kind.Request(**fields), name, on_answer)
        self._pending.append(pending)
        return pending

    def expire(self) -> None:
        """Answer late requests, and forget those that were answered; call it now and then."""
        for pending in list(self._pending):
            pending.expire_if_due()
            if pending.is_settled:
                self._pending.remove(pending)
                pending.give_up()

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
            if len(failures) == len(STATES):
                on_answer(False, '; '.join(failures))

        for name in STATES:
            pending = self._send(Trigger, f'{name}/stop', take)
            if not self.client(Trigger, f'{name}/stop').service_is_ready():
                pending.settle(False, f'{name} is not there')
