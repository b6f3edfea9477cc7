# SPDX-License-Identifier: Apache-2.0
"""Call another node's service from within a callback, with a timeout."""

import time
from collections.abc import Callable
from typing import Any

from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.task import Future

from ur5_pick_place.errors import ExecutionError

REPLY_TIME = 3.0
"""Default timeout of a service call [s, steady clock]."""

_CHECK_PERIOD = 0.02  # [s, steady clock]


async def call_service(
    node: Node, client: 'Client[Any, Any]', request: Any, reply_time: float = REPLY_TIME
) -> Any:
    """
    Return the reply of a service; to be awaited in a callback.

    Raises
    ------
    ExecutionError
        The service is not available, or its reply timed out.

    """
    name = client.srv_name
    if not client.service_is_ready():
        raise ExecutionError(f'service {name} is not there: start its node')
    reply: Future[Any] = Future()

    def settle(result: Any) -> None:
        if not reply.done():
            reply.set_result(result)

    sent = client.call_async(request)
    sent.add_done_callback(lambda future: settle(future.result()))
    # A dead node's service counts as ready until discovery notices, and never replies.
    steady = Clock(clock_type=ClockType.STEADY_TIME)
    timer = node.create_timer(reply_time, lambda: settle(None), clock=steady)
    answer = await reply
    node.destroy_timer(timer)
    if answer is None:
        client.remove_pending_request(sent)  # else rclpy keeps it for ever
        raise ExecutionError(f'service {name} did not answer within {reply_time} s')
    return answer


async def wait_until(node: Node, is_so: Callable[[], bool], at_most: float) -> None:
    """Wait until something is so, but `at_most` [s, steady clock]; to be awaited in a callback."""
    end = time.monotonic() + at_most
    over: Future[None] = Future()

    def check() -> None:
        if not over.done() and (is_so() or time.monotonic() >= end):
            over.set_result(None)

    timer = node.create_timer(_CHECK_PERIOD, check, clock=Clock(clock_type=ClockType.STEADY_TIME))
    await over
    node.destroy_timer(timer)


class RepeatedCall:
    """
    Calls a service again and again, whether or not the calls before were answered.

    rclpy keeps every request without a reply; of a node that hangs, and once it wakes answers them
    all, that would be more and more. Here the old ones are given up.

    Parameters
    ----------
    patience : float
        Age at which a request without a reply is given up [s, steady clock].

    """

    def __init__(self, client: 'Client[Any, Any]', patience: float = REPLY_TIME) -> None:
        self._client, self._patience = client, patience
        self._sent: dict[Future[Any], float] = {}

    def send(self, request: Any, on_reply: Callable[[Any], None]) -> None:
        """Send a request; `on_reply` takes its reply, unless that is late."""
        now = time.monotonic()
        for future, sent in list(self._sent.items()):
            if future.done() or now - sent > self._patience:
                self._client.remove_pending_request(future)
                del self._sent[future]
        future = self._client.call_async(request)
        self._sent[future] = now
        future.add_done_callback(lambda done: on_reply(done.result()))
