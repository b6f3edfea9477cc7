# SPDX-License-Identifier: Apache-2.0
"""The ROS side of a client: a node in a context and a thread of its own, and bounded waits."""

import atexit
import contextlib
import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionClient
from rclpy.client import Client
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from sensor_msgs.msg import JointState

from ur5_pick_place.client.connection import IK, PLANNER, STATES, TASK, Connection, own_node
from ur5_pick_place.client.received import ReceivedMessages
from ur5_pick_place.control.motion_state import STOPPING
from ur5_pick_place.errors import ExecutionError, TimedOut, Ur5PickPlaceError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.driver.joint_listener import OneSource
from ur5_pick_place.nodes.messages.conversions import is_of_this_arm, to_seconds
from ur5_pick_place.nodes.ros.distro import on_liveliness, origin_of
from ur5_pick_place.nodes.ros.liveness import liveliness_qos

T = TypeVar('T')

_NAMES = (TASK, PLANNER, IK)
_LATEST = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
# All in wall-clock time, as they are about processes:
_CHECK_PERIOD = 0.05  # [s] between two checks of what no message announces
_SUSPENDED = 1.0  # [s] of a wait for `_CHECK_PERIOD`: this process was, as by Ctrl-Z
_CATCH_UP = 0.5  # [s] to receive what came meanwhile
_RETRY = 1.0  # [s] before a request is repeated whose reply may have been lost in discovery
_LEASES = 2.0  # peer_timeouts after which a silent node counts as dead
_STOP_REPLY = 3.0  # [s]
_REST = 10.0  # [s] for an arm that brakes to be at rest
_JOIN = 5.0  # [s] for the thread to end
_PERIOD = 0.02  # [s] between two messages of `repeat`

_numbers = itertools.count()


class Link(Connection):
    """
    A connection that waits for answers.

    Its `node` is spun in a thread, beside any other user of rclpy in the process; `close` ends it
    with its context. `timeout`: for the nodes to be there, and for a reply [s]. `watch`: called
    about 20 times a second during every wait but that for a stop; an error that it raises ends the
    wait.
    """

    def __init__(
        self, node: Node, timeout: float, watch: Callable[[], object] = lambda: None
    ) -> None:
        self._is_closed, self._process = False, os.getpid()
        super().__init__(node)
        self.timeout, self.watch = timeout, watch
        self.received = ReceivedMessages()
        self.parameters: dict[str, Any] = {}
        """Some of the planner's."""
        self._actions: dict[str, ActionClient[Any, Any, Any]] = {}
        self._publishers: dict[str, Publisher[Any]] = {}
        self._source = OneSource(node)
        node.create_subscription(JointState, 'joint_states', self._on_joints, _LATEST)
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(node)
        self._thread = threading.Thread(target=self._spin, name='pick_place client', daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @classmethod
    def to_cell(cls, namespace: str, timeout: float, watch: Callable[[], object]) -> 'Link':
        """
        Return a link to all nodes of a cell.

        Raises `TimedOut`: names what is missing; `InvalidInput`: as `own_node`.
        """
        name = f'client_{os.getpid()}_{next(_numbers)}'
        link = cls(own_node(Node, name, namespace), timeout, watch)
        try:
            link._find_nodes()
        except BaseException:
            link.close()
            raise
        return link

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            while not self._is_closed:
                self._executor.spin_once(timeout_sec=_CHECK_PERIOD)

    def close(self) -> None:
        """End thread, node and context; may be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        self._executor.wake()
        self._thread.join(_JOIN)
        self._executor.shutdown()
        self.node.destroy_node()
        self.node.context.try_shutdown()

    # -- finding the nodes ---------------------------------------------------------------------

    def _find_nodes(self) -> None:
        self.hear_events(self.received.on_event)
        self.hear_planner(self.received.on_log)
        # A node that has answered one of these has discovered the subscriptions before them.
        clients = {name: self.client(GetParameters, f'{name}/get_parameters') for name in _NAMES}
        deadline = time.monotonic() + self.timeout
        self._wait_for_nodes(clients, deadline)
        self.parameters = self._parameters(clients, deadline)
        lease = _LEASES * self.parameters['peer_timeout']
        self.received.prefix = self.parameters['tf_prefix']
        for name in STATES:
            watched = on_liveliness(partial(self.received.on_liveliness, name))
            take = partial(self.received.on_state, name)
            self.hear_state(name, take, liveliness_qos(lease), event_callbacks=watched)
        states, left = self.received.states, deadline - time.monotonic()
        self.wait(lambda: len(states) == len(STATES), 'the states of the nodes', left)
        left = deadline - time.monotonic()
        self.wait(lambda: self.received.has_joints, 'joint_states (is the driver running?)', left)

    def _on_joints(self, message: JointState, info: Mapping[str, Any]) -> None:
        names = self.received.joint_names
        if is_of_this_arm(message, names):
            problem = self._source.problem(message, names, *origin_of(info))
            self.received.on_joints(message, problem)

    def _wait_for_nodes(self, clients: 'dict[str, Client[Any, Any]]', deadline: float) -> None:
        while absent := [name for name, c in clients.items() if not c.service_is_ready()]:
            self.watch()
            if time.monotonic() > deadline:
                space, domain = self.node.get_namespace(), self.node.context.get_domain_id()
                server = os.environ.get('ROS_DISCOVERY_SERVER')
                through = server and (
                    f'; nodes find each other through ROS_DISCOVERY_SERVER={server} alone: start '
                    'that server, or unset the variable in every terminal'
                )
                raise TimedOut(
                    f'{", ".join(absent)} not found within {self.timeout:g} s in namespace '
                    f'{space!r}, ROS_DOMAIN_ID {domain}: start the cell '
                    f'(make cell, or the launch file), or give its namespace{through or ""}'
                )
            time.sleep(_CHECK_PERIOD)

    def _parameters(
        self, clients: 'dict[str, Client[Any, Any]]', deadline: float
    ) -> dict[str, Any]:
        wanted = {PLANNER: ['tf_prefix', 'peer_timeout', 'scene_file', 'mounting']}
        found: dict[str, Any] = {}
        for name, client in clients.items():
            names = wanted.get(name, [])
            while True:
                future = client.call_async(GetParameters.Request(names=names))
                timeout = min(_RETRY, max(0.0, deadline - time.monotonic()))
                with contextlib.suppress(TimedOut):
                    reply = self.await_future(future, f'{name} to answer', timeout)
                    break
                client.remove_pending_request(future)
                if time.monotonic() > deadline:
                    raise TimedOut(
                        f'{name} was found but did not answer within {self.timeout:g} s: look at '
                        'its log, has it ended, or is it stuck?'
                    )
            values = (v.double_value or v.string_value for v in reply.values)
            found |= dict(zip(names, values, strict=True))
        return found

    def check_open(self) -> None:
        """Raise `ExecutionError` once this client is closed, and in a forked process."""
        if self._process != os.getpid():  # its requests would have the numbers of its parent's
            raise ExecutionError('this client is of another process: make a PickPlaceClient here')
        if self._is_closed:
            raise ExecutionError('this client is closed: make a new PickPlaceClient')

    def joints(self) -> tuple[Array, JointState]:
        """See `ReceivedMessages`; `ExecutionError` once this client is closed."""
        self.check_open()
        return self.received.joints()

    # -- waiting -------------------------------------------------------------------------------

    def wait(
        self,
        find: Callable[[], T | None],
        what: str,
        seconds: float | None = None,
        is_working: Callable[[], bool] = lambda: False,
        despite_death: bool = False,
    ) -> T:
        """
        Return what `find` returns as soon as it is true.

        `what`: is waited for, as text. `seconds`: at most, by default the link's timeout; that in
        which `is_working`, as the nodes are at work on it, does not count. `despite_death`: wait
        on although task node or planner has died, and without `watch`.

        Raises `TimedOut`: names what did not come; `ExecutionError`: task node or planner has died
        meanwhile, or this client was closed.
        """
        self.check_open()
        seconds = self.timeout if seconds is None else seconds
        deadline = time.monotonic() + seconds
        with self.received.changed:
            while not (found := find()):
                if self._is_closed:
                    raise ExecutionError(f'the client was closed while waiting for {what}')
                if not despite_death:
                    self.watch()
                    if missing := self.received.missing_nodes_text():
                        raise ExecutionError(f'{missing}, while waiting for {what}')
                if is_working():
                    deadline = time.monotonic() + seconds
                if (left := deadline - time.monotonic()) <= 0.0:
                    raise TimedOut(f'timed out after {seconds:.0f} s waiting for {what}')
                begin = time.monotonic()
                self.received.changed.wait(min(_CHECK_PERIOD, left))
                if time.monotonic() - begin > _SUSPENDED:
                    self.received.changed.wait_for(lambda: False, _CATCH_UP)
                    deadline += time.monotonic() - begin
        return found

    def await_future(
        self,
        future: 'Future[Any]',
        what: str,
        seconds: float | None = None,
        is_working: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Return the result of a future; as `wait`."""
        future.add_done_callback(lambda _future: self.received.notify())
        self.wait(future.done, what, seconds, is_working)
        return future.result()

    # -- requests ------------------------------------------------------------------------------

    def client(self, kind: type, name: str) -> 'Client[Any, Any]':
        """See `Connection`; `ExecutionError` once this client is closed."""
        self.check_open()
        return super().client(kind, name)

    def call(
        self,
        kind: type,
        name: str,
        request: Any,
        is_working: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Return the reply of a service; as `wait`."""
        client = self.client(kind, name)
        self.wait(client.service_is_ready, f'service {client.srv_name} (is its node running?)')
        future = client.call_async(request)
        try:
            what = f'{client.srv_name} to answer'
            return self.await_future(future, what, is_working=is_working)
        finally:
            if not future.done():
                client.remove_pending_request(future)

    def stop_arm(self) -> None:
        """
        Have both nodes stop the arm, and return once it is at rest.

        Raises `ExecutionError`: no node has accepted the stop, or the arm still moves.
        """
        self.check_open()
        answers: list[tuple[bool | None, str]] = []

        def take(success: bool | None, message: str) -> None:
            answers.append((success, message))
            self.received.notify()
            if success and message not in ('', STOPPING):  # a warning, which may come late
                self.node.get_logger().warning(f'stop: {message}')

        self.stop(take)
        try:
            is_granted, message = self.wait(
                lambda: answers[0] if answers else None,
                ' or '.join(f'{node}/stop' for node in STATES),
                _STOP_REPLY,
                despite_death=True,
            )
            if not is_granted:
                raise ExecutionError(message)
            self.wait_for_rest(despite_death=True)
        except Ur5PickPlaceError as error:
            raise ExecutionError(f'stop: {error}; USE THE EMERGENCY STOP') from error
        finally:
            self.expire()

    def wait_for_rest(self, despite_death: bool = False) -> None:
        """Wait up to 10 s, whatever the timeout, until the arm is at rest; errors as `wait`."""
        what = 'the arm to come to rest'
        self.wait(self.received.is_at_rest, what, _REST, despite_death=despite_death)

    def action(self, kind: type, name: str) -> 'ActionClient[Any, Any, Any]':
        """Return the client of an action whose server is there; errors as `wait`."""
        self.check_open()
        if name not in self._actions:
            self._actions[name] = ActionClient(self.node, kind, name)
        action = self._actions[name]
        self.wait(action.server_is_ready, f'action {name} (is {PLANNER} running?)')
        return action

    def reach(
        self, kind: type, name: str, goal: Any, halt: 'Callable[[Future[Any]], object]'
    ) -> Any:
        """
        Send a goal of an action that moves the arm, and return its result; errors as `wait`.

        There is no timeout once it is accepted: a slow speed slider is no fault, and the planner
        watches the arm. `halt` takes the future of the goal's handle where an exception, such as
        one of `watch`, ends the wait: the goal may have been accepted, or be so later.
        """
        sent = self.reply_of(self.action(kind, name).send_goal_async, goal)
        is_over = False
        try:
            handle = self.await_future(sent, f'{name} to accept the goal')
            if not handle.accepted:
                is_over = True
                raise ExecutionError(
                    f'{name} rejected the goal: look at {PLANNER}/motion_state; after a stop call '
                    'rearm'
                )
            reply = self.reply_of(handle.get_result_async)
            result = self.await_future(reply, 'the motion to end', math.inf)
            is_over = True
        finally:
            if not is_over:
                halt(sent)
        return result.result

    def reply_of(self, ask: 'Callable[..., Future[Any]]', *arguments: Any) -> 'Future[Any]':
        """
        Return the reply to a request of an action that the executor's thread sends.

        Where another one does, rclpy of Jazzy drops a reply that comes before it has noted the
        request.
        """
        reply: Future[Any] = Future()

        def send() -> None:
            try:
                asked = ask(*arguments)
            except Exception as error:  # its sender's, not this thread's
                reply.set_exception(error)
            else:
                asked.add_done_callback(lambda done: reply.set_result(done.result()))

        self._executor.create_task(send)
        return reply

    def publisher(self, kind: type, topic: str, seconds: float) -> 'Publisher[Any]':
        """Return a publisher that somebody listens to; `TimedOut` after `seconds` without."""
        self.check_open()
        if topic not in self._publishers:
            self._publishers[topic] = self.node.create_publisher(kind, topic, 10)
        publisher = self._publishers[topic]
        self.wait(publisher.get_subscription_count, f'a subscriber of {topic}', seconds)
        return publisher

    def repeat(self, publisher: 'Publisher[Any]', message: Any, seconds: float) -> float:
        """
        Publish a stamped message at 50 Hz for a while; errors as `joints` and `wait`.

        Returns the ROS time that has passed [s]; in a simulation it differs from wall-clock time.
        """
        begin, first = time.monotonic(), self.joints()[1].header.stamp
        for i in range(max(1, round(seconds / _PERIOD))):
            if missing := self.received.missing_nodes_text():
                raise ExecutionError(f'{missing}')
            message.header.stamp = self.joints()[1].header.stamp
            publisher.publish(message)
            time.sleep(max(0.0, begin + (i + 1) * _PERIOD - time.monotonic()))
        return to_seconds(self.joints()[1].header.stamp) - to_seconds(first)
