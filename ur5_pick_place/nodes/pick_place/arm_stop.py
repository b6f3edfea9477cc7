# SPDX-License-Identifier: Apache-2.0
"""Stops the arm without the planner, which may have died, be frozen or be overloaded."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rclpy.client import Client
from std_srvs.srv import Trigger

from ur5_pick_place.control.controller import REPLY_TIMEOUT
from ur5_pick_place.control.escalation import Escalation
from ur5_pick_place.nodes.driver.controller_goals import ControllerGoals
from ur5_pick_place.nodes.pick_place.task_port import TaskPort
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall, wait_until

_PERIOD = 0.05  # [s], steady clock
_IN_TRANSIT = 0.3  # [s] in which a goal may not be reported yet
_AT_MOST = 60.0  # [s]; after that an operator must stop the arm
# [s, steady clock] after which a planner that does not begin a stop counts as hung, the second if
# this PC is busy.
_REPLY, _BUSY_REPLY = 0.03, 0.25
_TICK = 0.01  # [s, steady clock]
_BUSY = 0.02  # share of the time in which this node waits for a processor
_SAMPLES = 21  # of that, one each `_PERIOD`
_SCHEDULED = '/proc/thread-self/schedstat'
_LATCHING_PERIOD = 0.5  # [s, steady clock] between requests to a planner that comes back


def _waited() -> float:
    """Return how long this thread has waited for a processor [s]; 0 where Linux is not asked."""
    with suppress(OSError, IndexError, ValueError), open(_SCHEDULED, 'rb', buffering=0) as file:
        return 1e-9 * int(file.read().split()[1])
    return 0.0


class ProcessorWaits:
    """How long a thread of this process could not run for want of a processor, as Linux counts."""

    def __init__(self, read: Callable[[], float] = _waited) -> None:
        self._read = read
        self._samples: deque[tuple[float, float]] = deque(maxlen=_SAMPLES)

    def sample(self, now: float) -> None:
        """Note the time at a steady time [s]; to be called periodically, in one thread."""
        self._samples.append((now, self._read()))

    @property
    def is_busy(self) -> bool:
        """Whether this PC has been busy of late."""
        if len(self._samples) < 2:
            return False
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        return last - first > _BUSY * (ended - began)


class PlannerLatch:
    """
    Latches a stop in the planner node, and in a restarted one as soon as its `~/stop` is there.

    `stop`: of that service. `is_stopped`: whether the planner reports that it is stopped.
    """

    def __init__(
        self, node: SerialNode, stop: 'Client[Any, Any]', is_stopped: Callable[[], bool]
    ) -> None:
        self._node, self._stop, self._is_stopped = node, stop, is_stopped
        self._is_due, self._next = False, 0.0
        self._calls, self.waits = RepeatedCall(stop), ProcessorWaits()
        node.reader.every(_PERIOD, lambda: self.waits.sample(time.monotonic()))

    async def request_stop(self) -> bool:
        """
        Request the stop, and return whether the planner has begun it; to be awaited in a callback.

        It has if it replies or reports that it is stopped, which is before it has searched for the
        braking motion. It has longer for that if this PC is busy.
        """
        if not self._stop.service_is_ready():
            return False
        was_stopped, patience = self._is_stopped(), _BUSY_REPLY if self.waits.is_busy else _REPLY
        reply = self._stop.call_async(Trigger.Request())

        def is_begun() -> bool:
            return reply.done() or (self._is_stopped() and not was_stopped)

        await wait_until(self._node, is_begun, patience, _TICK)
        if not reply.done():
            self._stop.remove_pending_request(reply)  # else rclpy keeps it for ever
        return is_begun()

    def begin(self) -> None:
        """Latch the stop in the next planner node."""
        self._is_due = True

    def end(self) -> None:
        """Latch it no more, as the planner has replied or motions are allowed again."""
        self._is_due = False

    def send_if_due(self) -> None:
        """Send the stop if it is due and the planner is there; to be called repeatedly."""
        now = time.monotonic()
        if not self._is_due or now < self._next or not self._stop.service_is_ready():
            return
        self._next = now + _LATCHING_PERIOD
        self._calls.send(Trigger.Request(), lambda _: self.end())


class ArmStop:
    """
    Stops the arm, from a request until it is at rest.

    `port`: shows the joints, and whether the planner is there.
    """

    def __init__(self, node: SerialNode, controllers: ControllerGoals, port: TaskPort) -> None:
        self._controllers, self._port = controllers, port
        self._log = node.get_logger()
        self._began: float | None = None
        self._escalation = Escalation(controllers, lambda: port.recent_stillness)
        node.reader.every(_PERIOD, self._repeat)

    def begin(self) -> None:
        """Cancel all goals now, and do what `Escalation` says until the arm is at rest."""
        self._began = time.monotonic()
        self._repeat()

    def end(self) -> None:
        """Do nothing more, as motions are allowed again."""
        self._began = None
        self._escalation.begin_again()

    def _repeat(self) -> None:
        if self._began is None:
            return
        lasts = time.monotonic() - self._began
        has_goals = lasts < _IN_TRANSIT or bool(self._controllers.goals)
        is_moving, has_planner = bool(self._port.why_not_at_rest), self._port.has_planner
        is_over = not self._escalation.advance(has_goals, is_moving, has_planner)
        if is_over and lasts > REPLY_TIMEOUT:  # not earlier: a goal may still be in transit
            self.end()
        elif lasts > _AT_MOST:
            self.end()
            self._log.error(
                f'the arm is not known to be at rest {_AT_MOST:.0f} s after the stop, and no more '
                'cancel requests are sent: if it moves, USE THE EMERGENCY STOP'
            )
