# SPDX-License-Identifier: Apache-2.0
"""An executor that handles messages at once while requests are served in a pool."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rclpy.action import ActionClient
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.exceptions import InvalidHandle
from rclpy.executors import (
    ConditionReachedException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
)
from rclpy.guard_condition import GuardCondition
from rclpy.subscription import Subscription
from rclpy.task import Future, Task
from rclpy.timer import Timer

from ur5_pick_place.nodes.ros.distro import has_waiting, qos_event_class

_RESUMED = 0.005  # [s] between two checks of requests that wait
_EVENTS = 1.0  # [s] between two looks at QoS events, which are mostly warnings
_EVENT = qos_event_class()
_PROMPT = (Subscription, Timer, Client, ActionClient, GuardCondition)


class ImmediateCallbackGroup(ReentrantCallbackGroup):
    """For requests and QoS events that must not wait, such as a stop; with short callbacks."""


class PromptExecutor(SingleThreadedExecutor):
    """
    Runs messages, timers and replies in its own thread; requests and other tasks in a pool.

    Requests of a group `ImmediateCallbackGroup` run in its own thread too. QoS events of other
    groups are looked at once a second: each one costs time at every wake-up, and there are two or
    three for every topic.

    A request may take seconds (a plan), a message must not. rclpy's `MultiThreadedExecutor` hands
    every message to its pool too: with 500 messages a second on two busy cores it needed three to
    eight times the processor time and lost a third to two thirds of the messages.

    Parameters
    ----------
    threads : int
        Number of requests that may be served concurrently; 1 = in its own thread too.

    Attributes
    ----------
    lock : RLock
        Held while something runs in its own thread.
    is_busy : bool
        Whether the pool is working.

    """

    def __init__(self, threads: int) -> None:
        super().__init__()
        self.lock = threading.RLock()
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._begun: dict[Task[Any], bool] = {}  # True once it waits for something
        self._failure: Exception | None = None
        self._woken = self._looked = 0.0
        self._looks_at_events = True

    @property
    def is_busy(self) -> bool:
        return not all(self._begun.copy().values())

    def can_execute(self, entity: Any) -> bool:
        if isinstance(entity, _EVENT) and not _is_immediate(entity):
            if not self._looks_at_events:
                return False
            self._looked = time.monotonic()
        return super().can_execute(entity)

    def _spin_once_impl(
        self, timeout_sec: Any = None, wait_condition: Callable[[], bool] = lambda: False
    ) -> None:
        if self._failure:
            raise self._failure
        self._looks_at_events = time.monotonic() - self._looked >= _EVENTS
        try:
            task, entity, _node = self.wait_for_ready_callbacks(timeout_sec, None, wait_condition)
        except (ShutdownException, TimeoutException, ConditionReachedException):
            return
        except InvalidHandle:
            # Another thread has destroyed an entity (rclpy guards the wait itself, not the check
            # of its outcome). What was ready still is, and the next call finds it.
            return
        if self._pool is None or self._is_short(task, entity):
            with self.lock:
                task()  # after its wait the rest of a request is short
            if task.done():
                self._begun.pop(task, None)
                task.result()  # raises the task's exception
        elif task not in self._begun:
            self._begun[task] = False
            self._pool.submit(self._begin, task)

    def after_pass(self) -> None:
        """
        Resume requests that wait for what a poll may have brought.

        rclpy resumes a coroutine when it wakes, and a future set by another thread wakes nobody.

        """
        now = time.monotonic()
        if has_waiting(self) and now - self._woken >= _RESUMED:
            self._woken = now
            self.wake()

    def fail(self, error: Exception) -> None:
        """Raise an exception of another thread in the next `spin_once`."""
        self._failure = self._failure or error
        self.wake()

    def _is_short(self, task: 'Task[Any]', entity: Any) -> bool:
        if isinstance(entity, _PROMPT) or self._begun.get(task):
            return True
        # The done-callback of a reply is a separate task, without an entity.
        arguments = task._args or ()
        is_reply = entity is None and bool(arguments) and isinstance(arguments[0], Future)
        return is_reply or _is_immediate(entity)

    def _begin(self, task: 'Task[Any]') -> None:
        task()
        if task.done():
            self._begun.pop(task, None)
            if error := task.exception():
                self.fail(error)
        else:
            self._begun[task] = True
        self.wake()


def _is_immediate(entity: Any) -> bool:
    return isinstance(getattr(entity, 'callback_group', None), ImmediateCallbackGroup)
