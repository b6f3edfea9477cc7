# SPDX-License-Identifier: Apache-2.0
"""
What a node polls: topics with many messages, and checks that are due many times a second.

Before each callback rclpy's executor builds a wait set of everything that the node offers, which
takes a millisecond and more. With 125 joint states a second, and timers, that was a quarter of a
core in an idle node. A poll of an empty queue takes a few microseconds.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message

from ur5_pick_place.nodes.ros.distro import TakenMessage, take_with_info

ARM_PERIOD = 0.016
"""Period for topics of the arm while a node does nothing with it [s]: two cycles of a CB3."""

# Share of its period by which a check may be early, in a pass that others need: a pass of its own
# would cost a wake-up.
_EARLY = 0.25
# Pause after each pass, in which the lock is free [s]. An RLock is not fair: without the pause
# this thread kept the executor's thread waiting for a second.
_PAUSE = 5e-4
_LONGEST = 1.0  # [s] between two passes
_JOIN_TIMEOUT = 1.0  # [s] for the last pass to end
_WARNING_PERIOD = 10.0  # [s]

Period = Callable[[], float]
"""Returns the time between two polls [s]; it may change."""


@dataclass
class _Check:
    call: Callable[[], object]
    period: Period
    last: float  # steady clock [s]

    def is_due(self, now: float) -> bool:
        return self.last + (1.0 - _EARLY) * self.period() <= now

    def time_to_next(self, now: float) -> float:
        return self.last + self.period() - now


class TopicReader:
    """
    Polls the topics of a node, and calls its periodic checks, in one thread.

    `lock`: held in each pass, as in each callback of the node, so that neither interrupts the
    other.
    """

    def __init__(self, node: Node, lock: Any) -> None:
        self._node, self._lock = node, lock
        self._checks: list[_Check] = []
        self._first: list[Callable[[], object]] = []  # of each pass
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def subscribe(
        self,
        kind: type,
        topic: str,
        take: Callable[[Sequence[TakenMessage]], object],
        qos: QoSProfile,
        period: float | Period,
        budget: float = math.inf,
    ) -> Callable[[], bool]:
        """
        Subscribe to a topic.

        `take`: takes the serialized messages of the queue, oldest first; at least one. `qos`: its
        depth must hold the messages of a period, or of a stall of this PC if none may be lost.
        `period` [s]: steady clock. `budget`: time for which a poll takes messages [s]; the rest is
        for the next one.

        Returns polls the topic at once; returns whether there was a message.
        """
        def receive(data: bytes) -> None:
            take([TakenMessage(data, 0, 0, b'')])

        subscription: Any = self._node.create_subscription(
            kind, topic, receive, qos, callback_group=PolledOnly(), raw=True
        )

        def poll() -> bool:
            with self._lock:
                end = time.monotonic() + budget
                waiting = take_with_info(subscription, qos.depth, end)
                if waiting:
                    take(waiting)
                return bool(waiting)

        self.every(period, poll)
        return poll

    def take_over(self, subscription: Any) -> None:
        """
        Poll a subscription that rclpy has made first in each pass, but once a second at least.

        Executors then wait for it no longer.
        """
        # Its events too: Fast DDS ends a wait for them with each message.
        for entity in (subscription, *subscription.event_handlers):
            entity.callback_group = PolledOnly()

        def poll() -> None:
            for message in take_with_info(subscription, 1):
                subscription.callback(message.data)

        self._first.append(poll)
        self.every(_LONGEST, lambda: None)

    def every(self, period: float | Period, check: Callable[[], object]) -> None:
        """Call a function once per period [s]."""
        of_now = period if callable(period) else lambda: period
        self._checks.append(_Check(check, of_now, time.monotonic()))

    @contextlib.contextmanager
    def running(self, on_failure: Callable[[Exception], object]) -> Iterator[None]:
        """Poll in a thread; `on_failure` takes the exception that ended it."""
        self._ended.clear()
        self._thread = threading.Thread(
            target=self._run, args=(on_failure,), name='polling', daemon=True
        )
        if self._checks:
            self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            if self._checks:
                self._thread.join(_JOIN_TIMEOUT)

    @property
    def is_running(self) -> bool:
        """Whether the thread still runs; after the end, whether a pass is still under way."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self, on_failure: Callable[[Exception], object]) -> None:
        wait = 0.0
        try:
            while not self._ended.wait(max(wait, _PAUSE)):
                with self._lock, contextlib.suppress(InvalidHandle):  # this node ends
                    self._pass()
                now = time.monotonic()
                wait = min(check.time_to_next(now) for check in self._checks)
        except Exception as error:
            on_failure(error)

    def _pass(self) -> None:
        for poll in self._first:
            poll()
        now = time.monotonic()
        for check in self._checks:
            if check.is_due(now):
                check.last = now
                check.call()


class PolledOnly(CallbackGroup):
    """Keeps executors from waiting for a subscription, which is polled."""

    def can_execute(self, _entity: Any) -> bool:
        return False

    def beginning_execution(self, _entity: Any) -> bool:
        return False

    def ending_execution(self, _entity: Any) -> None:
        pass


class BoundedReader:
    """
    Converts the serialized messages of a raw subscription, unless they are too large or malformed.

    rclpy would convert a message of any size before it calls the callback, and block all other
    callbacks meanwhile.

    `topic`: for the warning about a message that was ignored. `largest`: largest size of a message
    that is converted [bytes].
    """

    def __init__(self, node: Node, kind: type, topic: str, largest: int) -> None:
        self._kind, self._topic, self._largest = kind, topic, largest
        self._log = node.get_logger()

    def read(self, data: bytes) -> Any:
        """Return the message, or None, with a warning, if it is too large or malformed."""
        if len(data) > self._largest:
            self._warn(f'a message of {len(data)} bytes was ignored (at most {self._largest})')
            return None
        try:
            return deserialize_message(data, self._kind)
        except RuntimeError:  # the base of rclpy's own, which is private
            self._warn(f'a malformed message of {len(data)} bytes was ignored')
            return None

    def _warn(self, text: str) -> None:
        self._log.warning(
            f'{self._topic}: {text}; list its publishers: ros2 topic info -v {self._topic}',
            throttle_duration_sec=_WARNING_PERIOD,
        )
