# SPDX-License-Identifier: Apache-2.0
"""
What a node polls: topics with many messages, and checks that are due many times a second.

Before each callback rclpy's executor builds a wait set of everything that the node offers, which
takes a millisecond and more. With 125 joint states a second, and timers, that was a quarter of a
core in an idle node. A look at an empty queue takes a few microseconds.

"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile

from ur5_pick_place.nodes.distro import take_waiting

ROUND = 0.008
"""Period for topics of the arm [s]: one cycle of a CB3 robot, four of an e-Series."""

_URGENT = 0.002  # period of a topic that is urgent [s]

Take = Callable[[Sequence[bytes]], None]
"""Takes the serialized messages of a queue, oldest first; at least one."""


class Rounds:
    """
    What is looked at together, once per period; by a `Poller`, which the node's process runs.

    Parameters
    ----------
    node : Node
    period : float
        [s], steady clock

    """

    def __init__(self, node: Node, period: float) -> None:
        self._node, self._period, self._looked = node, period, time.monotonic()
        self._looks: list[Callable[[], object]] = []
        self._urgencies: list[Callable[[], bool]] = []
        _OF_NODES.setdefault(node, []).append(self)

    def subscribe(
        self,
        kind: type,
        topic: str,
        take: Take,
        qos: QoSProfile,
        is_urgent: Callable[[], bool] | None = None,
    ) -> None:
        """
        Subscribe to a topic.

        Parameters
        ----------
        kind : type
        topic : str
        take : callable
            A `Take`.
        qos : QoSProfile
            Its depth must hold the messages of a period, or of a stall of this PC if none may be
            lost.
        is_urgent : callable, optional
            Returns whether messages are now taken every 2 ms.

        """
        subscription = self._node.create_subscription(
            kind, topic, lambda data: take([data]), qos, callback_group=_Never(), raw=True
        )
        self._take_from(subscription, take, qos.depth)
        if is_urgent:
            self._urgencies.append(is_urgent)

    def adopt(self, subscription: Any) -> None:
        """Take over a subscription with its callback, which the executor no longer waits for."""
        receive = subscription.callback
        # Its events too: Fast DDS ends a wait for them with each message.
        for entity in (subscription, *subscription.event_handlers):
            entity.callback_group = _Never()
        self._take_from(subscription, lambda waiting: [receive(m) for m in waiting], 1)

    def add(self, look: Callable[[], object]) -> None:
        """Call a function once per period too."""
        self._looks.append(look)

    def look(self) -> None:
        """Take the messages that are queued now."""
        self._looked = time.monotonic()
        for look in self._looks:
            look()

    def rest(self, now: float) -> float:
        """Return the time until the next look [s] at a steady time [s]."""
        is_urgent = any(is_urgent() for is_urgent in self._urgencies)
        period = min(_URGENT, self._period) if is_urgent else self._period
        return self._looked + period - now

    def _take_from(self, subscription: Any, take: Callable[[Any], object], depth: int) -> None:
        def look() -> None:
            waiting: list[bytes] = []
            with contextlib.suppress(InvalidHandle):  # this node ends
                waiting = take_waiting(subscription, depth)
            if waiting:
                take(waiting)

        self._looks.append(look)


_OF_NODES: 'WeakKeyDictionary[Node, list[Rounds]]' = WeakKeyDictionary()


class Poller:
    """
    Runs all rounds of a node in one thread, from `with` on to its end.

    Parameters
    ----------
    node : Node
    lock : RLock
        Held in each round; to be held in each callback too, so that neither interrupts the other.
    after_round : callable
        Called after each round.
    on_failure : callable
        Takes the exception that ended the rounds.

    """

    def __init__(
        self,
        node: Node,
        lock: Any,
        after_round: Callable[[], object],
        on_failure: Callable[[Exception], object],
    ) -> None:
        self._rounds = _OF_NODES.get(node, [])
        self._lock, self._after_round, self._on_failure = lock, after_round, on_failure
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name='rounds', daemon=True)

    def __enter__(self) -> 'Poller':
        if self._rounds:
            self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._has_ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        rest = 0.0
        try:
            while not self._has_ended.wait(rest):
                now = time.monotonic()
                with self._lock:
                    for rounds in self._rounds:
                        if rounds.rest(now) <= 0.0:
                            rounds.look()
                self._after_round()
                now = time.monotonic()
                rest = max(0.0, min(rounds.rest(now) for rounds in self._rounds))
        except Exception as error:
            self._on_failure(error)


class _Never(CallbackGroup):
    """Keeps an executor from waiting for a subscription."""

    def can_execute(self, _entity: Any) -> bool:
        return False

    def beginning_execution(self, _entity: Any) -> bool:
        return False

    def ending_execution(self, _entity: Any) -> None:
        pass
