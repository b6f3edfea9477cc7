# SPDX-License-Identifier: Apache-2.0
"""
How the callbacks of a node run: one after the other, in one thread; what takes long says so.

rclpy's `MultiThreadedExecutor` hands every message to a pool: with 500 messages a second on two
busy cores it needed three to eight times the processor time and lost a third to two thirds of
them.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from rcl_interfaces.msg import ParameterType, SetParametersResult
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.action import ActionServer
from rclpy.callback_groups import CallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidHandle
from rclpy.executors import (
    ConditionReachedException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
)
from rclpy.node import Node
from rclpy.task import Future

from ur5_pick_place.nodes.ros.distro import has_waiting, qos_event_class
from ur5_pick_place.nodes.ros.topic_reader import TopicReader

T = TypeVar('T')
_THREADS = 4  # of what takes long
_LOOK_PERIOD = 1.0  # [s] between two looks at QoS events


class SerialNode(Node):
    """
    A node whose callbacks run one after the other, and none waits for another that awaits.

    Each must be short: a stop is one of them. What computes, or waits without awaiting, goes
    through `in_pool`.

    - `lock`: held by each callback, and by each pass of `reader`
    - `reader`: polls topics with many messages
    """

    def __init__(self, name: str, **options: Any) -> None:
        self._group = ReentrantCallbackGroup()
        self.lock = threading.RLock()
        self._pool = ThreadPoolExecutor(_THREADS)
        self._in_pool: set[Future[Any]] = set()
        super().__init__(name, **options)
        self.reader = TopicReader(self, self.lock)

    @property
    def default_callback_group(self) -> CallbackGroup:
        return self._group

    def create_service(
        self, srv_type: Any, srv_name: str, callback: Callable[..., Any], **options: Any
    ) -> Any:
        """Create a service; those that set parameters refuse a type on which rclpy would end."""
        if srv_type in (SetParameters, SetParametersAtomically):
            callback = partial(_set_parameters, callback)
        return super().create_service(srv_type, srv_name, callback, **options)

    def create_action_server(
        self, kind: type, name: str, execute: Callable[[Any], Any], **options: Any
    ) -> 'ActionServer[Any, Any, Any]':
        """Return the server of an action, whose results expire by the steady clock."""
        return ActionServer(cast(Node, SteadyNode(self)), kind, name, execute, **options)

    async def in_pool(
        self, work: Callable[..., T], *arguments: Any, threads: ThreadPoolExecutor | None = None
    ) -> T:
        """
        Return what `work` returns, which runs beside the callbacks; to be awaited in one.

        `threads`: that run it, instead of those of all.
        """
        ended: Future[T] = Future()

        def run() -> None:
            try:
                result = work(*arguments)
            except Exception as error:
                ended.set_exception(error)
            else:
                ended.set_result(result)
            self._in_pool.discard(ended)
            self.wake()

        self._in_pool.add(ended)  # first: a signal may interrupt this thread anywhere
        (threads or self._pool).submit(run)
        return await ended  # type: ignore[return-value]

    async def ended(self, begin: 'Callable[[Callable[[T], None]], object]') -> T:
        """Return how something ended that `begin` starts, which takes what takes its end."""
        ended: Future[T] = Future()
        begin(partial(self.finish, ended))
        return await ended  # type: ignore[return-value]

    @property
    def is_working(self) -> bool:
        """Whether something of `in_pool` has not ended."""
        return bool(self._in_pool)

    def begin(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Have the executor call a function or run a coroutine, from any thread."""
        assert self.executor is not None  # it spins this node
        self.executor.create_task(callback, *arguments)

    def finish(self, future: 'Future[T]', result: T) -> None:
        """Set the result of a future that a callback awaits, from any thread."""
        future.set_result(result)
        self.wake()

    def wake(self) -> None:
        """Have the executor resume what waits; a future that another thread set wakes nobody."""
        if self.executor is not None:
            self.executor.wake()


class SteadyNode:
    """
    A node whose action servers stamp goals by its clock, and let results expire by the steady one.

    With ROS time, rcl wakes the executor at every message of /clock once the first result could
    have expired, even if there never was one. It then builds a wait set and finds nothing to do,
    125 times a second, which takes a tenth of a core.
    """

    def __init__(self, node: Node) -> None:
        self._node, steady = node, Clock(clock_type=ClockType.STEADY_TIME)
        # `steady` must live as long as its handle.
        self._clock = SimpleNamespace(
            now=node.get_clock().now, handle=steady.handle, steady=steady
        )

    def get_clock(self) -> Any:
        return self._clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def _set_parameters(callback: Callable[[Any, Any], Any], request: Any, response: Any) -> Any:
    given = request.parameters
    wrong = [p.value.type for p in given if p.value.type > ParameterType.PARAMETER_STRING_ARRAY]
    if not wrong:
        return callback(request, response)
    reason = f'a parameter has the type {wrong[0]}: must be one of rcl_interfaces/ParameterType'
    refused = SetParametersResult(successful=False, reason=reason)
    if hasattr(response, 'results'):
        response.results = [refused] * len(given)
    else:
        response.result = refused
    return response


class LockedExecutor(SingleThreadedExecutor):
    """
    Runs each callback of one node while it holds the node's lock.

    QoS events of the node's own group, mostly warnings, are looked at once a second: each costs
    time at every wake-up, and there are two or three for every topic.
    """

    def __init__(self, node: SerialNode) -> None:
        super().__init__()
        self._lock, self._group = node.lock, node.default_callback_group
        self._event, self._looked, self._looks = qos_event_class(), 0.0, True
        self.add_node(node)

    def can_execute(self, entity: Any) -> bool:
        if isinstance(entity, self._event) and entity.callback_group is self._group:
            if not self._looks:
                return False
            self._looked = time.monotonic()
        return super().can_execute(entity)

    def _spin_once_impl(
        self, timeout_sec: Any = None, wait_condition: Callable[[], bool] = lambda: False
    ) -> None:
        self._looks = time.monotonic() - self._looked >= _LOOK_PERIOD
        try:
            task, _entity, _node = self.wait_for_ready_callbacks(timeout_sec, None, wait_condition)
        except (ShutdownException, TimeoutException, ConditionReachedException):
            return
        except InvalidHandle:
            # Another thread has destroyed an entity (rclpy guards the wait itself, not the check
            # of its outcome). What was ready still is, and the next call finds it.
            return
        with self._lock:
            task()
        if task.done():
            task.result()  # raises the task's exception
            if has_waiting(self):
                self.wake()  # a waiting task may await what this one has done

    def fail(self, error: Exception) -> None:
        """Raise an exception of another thread in a spin."""

        def raise_it() -> None:
            raise error

        self.create_task(raise_it)
