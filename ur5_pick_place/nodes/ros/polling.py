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
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile

from ur5_pick_place.nodes.ros.distro import TakenMessage, take_waiting

ARM_PERIOD = 0.016
"""Period for topics of the arm while a node does nothing with it [s]: two cycles of a CB3."""

# Share of its period by which a group may be polled early, in a pass that others need: a pass
# of its own would cost a wake-up.
_EARLY = 0.25
# Pause after each pass, in which the lock is free [s]. An RLock is not fair: without the pause
# this thread kept the executor's thread waiting for a second.
_PAUSE = 5e-4
_JOIN_TIMEOUT = 1.0  # [s] for the last pass to end

Take = Callable[[Sequence[Any]], None]
"""Takes the serialized messages of a queue, oldest first; at least one."""


class PollGroup:
    """
    A group of subscriptions and checks that a `Poller` polls once per period.

    Parameters
    ----------
    period : float
        [s], steady clock
    busy_period : float
        Period while `is_busy` [s].
    is_busy : callable
        Returns whether the node now needs its messages sooner.

    """

    def __init__(
        self,
        node: Node,
        period: float,
        busy_period: float = math.inf,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._node, self._period, self._last_poll = node, period, time.monotonic()
        self._busy_period, self._is_busy = busy_period, is_busy
        self._checks: list[Callable[[], object]] = []
        self._is_rest_due = False
        _groups_of(node).append(self)

    def subscribe(
        self,
        kind: type,
        topic: str,
        take: Take,
        qos: QoSProfile,
        budget: float = math.inf,
        taker: Callable[[Any, int, float], Sequence[Any]] | None = None,
    ) -> None:
        """
        Subscribe to a topic.

        Parameters
        ----------
        take : callable
            A `Take`.
        qos : QoSProfile
            Its depth must hold the messages of a period, or of a stall of this PC if none may be
            lost.
        budget : float
            Time for which a poll takes messages [s]; the rest is due in the next pass.
        taker : callable, optional
            `distro.take_with_info`, if `take` needs the origin of each message.

        """
        def receive(data: bytes) -> None:
            take([data if taker is None else TakenMessage(data, 0, 0, b'')])

        subscription = self._node.create_subscription(
            kind, topic, receive, qos, callback_group=PolledOnly(), raw=True
        )
        self._checks.append(
            self._taker(subscription, take, qos.depth, budget, taker or take_waiting)
        )

    @classmethod
    def poll_existing(cls, node: Node, subscription: Any) -> None:
        """
        Make a subscription the first that the group with the shortest period polls.

        The executor takes its messages no longer.

        Does nothing in a node without such groups.

        """
        if not (groups := _groups_of(node)):
            return
        most_frequent = min(groups, key=lambda group: group._period)
        receive = subscription.callback
        # Its events too: Fast DDS ends a wait for them with each message.
        for entity in (subscription, *subscription.event_handlers):
            entity.callback_group = PolledOnly()
        take = most_frequent._taker(
            subscription, lambda waiting: [*map(receive, waiting)], 1, math.inf, take_waiting
        )
        most_frequent._checks.insert(0, take)

    def add(self, check: Callable[[], object]) -> None:
        """Call a function once per period too."""
        self._checks.append(check)

    def poll(self) -> bool:
        """
        Take the messages that are queued now, and call the added functions.

        Returns whether no message was left because of a budget.

        """
        self._last_poll, self._is_rest_due = time.monotonic(), False
        for check in self._checks:
            check()
        return not self._is_rest_due

    def time_to_next(self, now: float) -> float:
        """Return the time until the next poll is due [s] at a steady time [s]."""
        return 0.0 if self._is_rest_due else self._last_poll + self._present_period() - now

    def poll_if_due(self, now: float) -> None:
        """Poll if that is due at a steady time [s], or nearly."""
        if self.time_to_next(now) <= _EARLY * self._present_period():
            self.poll()

    def _present_period(self) -> float:
        return self._busy_period if self._is_busy() else self._period

    def _taker(
        self,
        subscription: Any,
        take: Callable[[Any], object],
        depth: int,
        budget: float,
        taker: Callable[[Any, int, float], Sequence[Any]],
    ) -> Callable[[], None]:
        def take_queued() -> None:
            waiting: Sequence[Any] = []
            with contextlib.suppress(InvalidHandle):  # this node ends
                end = time.monotonic() + budget
                waiting = taker(subscription, depth, end)
                self._is_rest_due |= time.monotonic() > end and len(waiting) < depth
            if waiting:
                take(waiting)

        return take_queued


def _groups_of(node: Node) -> list[PollGroup]:
    # As an attribute, they live as long as the node.
    found: list[PollGroup] = vars(node).setdefault('_poll_groups', [])
    return found


class Poller:
    """
    Polls every `PollGroup` of a node in one thread, from `with` on to its end.

    Parameters
    ----------
    lock : RLock
        Held in each pass; to be held in each callback too, so that neither interrupts the other.
    after_pass : callable
        Called after each pass.
    on_failure : callable
        Takes the exception that ended the polling.

    """

    def __init__(
        self,
        node: Node,
        lock: Any,
        after_pass: Callable[[], object],
        on_failure: Callable[[Exception], object],
    ) -> None:
        self._groups = _groups_of(node)
        self._lock, self._after_pass, self._on_failure = lock, after_pass, on_failure
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, name='polling', daemon=True)

    def __enter__(self) -> 'Poller':
        if self._groups:
            self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._stop_requested.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_TIMEOUT)

    @property
    def is_running(self) -> bool:
        """Whether the thread still runs; after the end, whether a pass is still under way."""
        return self._thread.is_alive()

    def _run(self) -> None:
        wait = 0.0
        try:
            while not self._stop_requested.wait(max(wait, _PAUSE)):
                now = time.monotonic()
                with self._lock:
                    for group in self._groups:
                        group.poll_if_due(now)
                self._after_pass()
                now = time.monotonic()
                wait = min(group.time_to_next(now) for group in self._groups)
        except Exception as error:
            self._on_failure(error)


class PolledOnly(CallbackGroup):
    """Keeps executors from waiting for a subscription, which is polled."""

    def can_execute(self, _entity: Any) -> bool:
        return False

    def beginning_execution(self, _entity: Any) -> bool:
        return False

    def ending_execution(self, _entity: Any) -> None:
        pass
