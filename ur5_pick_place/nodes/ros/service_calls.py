# SPDX-License-Identifier: Apache-2.0
"""Services of other nodes, called from within callbacks, and waits by the steady clock."""

import math
import time
from collections.abc import Callable
from typing import Any

from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.task import Future
from rclpy.timer import Timer

from ur5_pick_place.errors import ExecutionError

REPLY_TIME = 3.0
"""Default timeout of a service call [s, steady clock]."""

_CHECK_PERIOD = 0.02  # [s, steady clock]


async def call_service(
    node: Node, client: 'Client[Any, Any]', request: Any, reply_time: float = REPLY_TIME
) -> Any:
    """
    Return the reply of a service; to be awaited in a callback.

    Raises `ExecutionError`: the service is not available, or its reply timed out.
    """
    name = client.srv_name
    if not client.service_is_ready():
        raise ExecutionError(f'service {name} is not there: start its node')
    reply = client.call_async(request)
    # A dead node's service counts as ready until discovery notices, and never replies.
    await wait_until(node, reply.done, reply_time)
    if not reply.done():
        client.remove_pending_request(reply)  # else rclpy keeps it for ever
        raise ExecutionError(f'service {name} did not answer within {reply_time} s')
    return reply.result()


async def wait_until(
    node: Node, is_so: Callable[[], object], at_most: float, period: float = _CHECK_PERIOD
) -> None:
    """
    Wait until something is so, but `at_most` [s, steady clock]; to be awaited in a callback.

    `period`: between two looks [s].
    """
    end = time.monotonic() + at_most
    over: Future[None] = Future()

    def check() -> None:
        if not over.done() and (is_so() or time.monotonic() >= end):
            over.set_result(None)

    timer = steady_timer(node, period, check)
    await over
    node.destroy_timer(timer)


def steady_timer(node: Node, period: float, callback: Callable[[], Any]) -> Timer:
    """Return a timer whose period [s] is one of the steady clock."""
    return node.create_timer(period, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))


class RepeatedCall:
    """
    Calls a service again and again, whether or not the calls before were answered.

    rclpy keeps every request without a reply; of a node that hangs, and once it wakes answers them
    all, that would be more and more. Here the old ones are given up.

    `patience`: age at which a request without a reply is given up [s, steady clock].

    - `last`: steady time of the latest request [s]
    """

    def __init__(self, client: 'Client[Any, Any]', patience: float = REPLY_TIME) -> None:
        self._client, self._patience, self.last = client, patience, -math.inf
        self._sent: dict[Future[Any], float] = {}

    @property
    def is_there(self) -> bool:
        """Whether the service is available."""
        return self._client.service_is_ready()

    @property
    def is_waiting(self) -> bool:
        """Whether a request that is not given up has no reply yet."""
        self._give_up(time.monotonic() - self._patience)
        return bool(self._sent)

    def send(self, request: Any, on_reply: Callable[[Any], None]) -> None:
        """Send a request; `on_reply` takes its reply, unless that is late."""
        self.last = time.monotonic()
        self._give_up(self.last - self._patience)
        future = self._client.call_async(request)
        self._sent[future] = self.last

        def on_done(future: 'Future[Any]') -> None:
            if self._sent.pop(future, None) is not None:
                on_reply(future.result())

        future.add_done_callback(on_done)

    def send_if_due(
        self, request: Any, on_reply: Callable[[Any], None], period: float = 0.0
    ) -> bool:
        """Send a request once per period [s], one after the other; return whether it was sent."""
        is_due = time.monotonic() - self.last >= period and not self.is_waiting
        if is_due:
            self.send(request, on_reply)
        return is_due

    def forget(self) -> None:
        """Give up every request; the next one is due at once."""
        self._give_up(math.inf)
        self.last = -math.inf

    def _give_up(self, before: float) -> None:
        for future in [future for future, sent in self._sent.items() if sent < before]:
            self._client.remove_pending_request(future)
            del self._sent[future]
