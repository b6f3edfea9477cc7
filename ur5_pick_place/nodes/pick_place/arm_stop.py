# SPDX-License-Identifier: Apache-2.0
"""Stops the arm without the planner, which may have died, be frozen or be overloaded."""

import time
from typing import Any

from rclpy.client import Client
from std_srvs.srv import Trigger

from ur5_pick_place.control.controller import REPLY_TIMEOUT, StopProgress
from ur5_pick_place.nodes.driver.controller_goals import ControllerGoals
from ur5_pick_place.nodes.pick_place.task_port import TaskPort
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall

_PERIOD = 0.05  # [s], steady clock
_AT_LEAST = 0.3  # [s] of cancel requests even if no goal is reported, as one may be in transit
# Time until other controllers are deactivated if the arm does not stop [s]. With a planner it is
# longer, as the planner may still be braking a closed loop.
_DEACTIVATE_AFTER, _DEACTIVATE_ALONE_AFTER = 1.0, 0.3
_DEACTIVATE_PERIOD = 0.3  # [s] between repetitions
_AT_MOST = 60.0  # [s]; after that an operator must stop the arm
_LATCHING_PERIOD = 0.5  # [s, steady clock] between requests to a planner that comes back


class ArmStop:
    """
    Cancels every goal of the trajectory controllers until the arm is at rest.

    `port`: shows the joints, and whether the planner is there.

    """

    def __init__(self, node: SerialNode, goals: ControllerGoals, port: TaskPort) -> None:
        self._goals, self._port = goals, port
        self._log = node.get_logger()
        self._began: float | None = None
        self._last_deactivation = 0.0
        node.reader.every(_PERIOD, self._repeat)

    def begin(self) -> None:
        """Cancel all goals now, and repeatedly until the arm is at rest."""
        self._began, self._last_deactivation = time.monotonic(), 0.0
        self._goals.cancel()

    def end(self) -> None:
        """Stop canceling, as motions are allowed again."""
        self._began = None

    def _stop_progress(self) -> StopProgress:
        began = self._began
        if began is None:
            return StopProgress.OVER
        return self._port.stop_progress(time.monotonic() - began)

    def _repeat(self) -> None:
        if self._began is None:
            return
        now = time.monotonic()
        lasts = now - self._began
        is_over = not self._goals.active and self._port.is_at_rest
        if is_over and lasts > REPLY_TIMEOUT:
            self._began = None
        elif is_over and lasts > _AT_LEAST:
            return  # but keep watching: a goal may still be in transit
        elif lasts > _AT_MOST:
            self._began = None
            self._log.error(
                f'the arm is not known to be at rest {_AT_MOST:.0f} s after the stop, and no more '
                'cancel requests are sent: if it moves, USE THE EMERGENCY STOP'
            )
        else:
            self._goals.cancel()
            delay = _DEACTIVATE_AFTER if self._port.has_planner else _DEACTIVATE_ALONE_AFTER
            if lasts > delay and now - self._last_deactivation > _DEACTIVATE_PERIOD:
                self._last_deactivation = now
                self._goals.stop_other_motion(self._stop_progress)


class PlannerLatch:
    """
    Latches a stop in a restarted planner node as soon as its service `~/stop` is available.

    `stop`: of the planner's `~/stop`.

    """

    def __init__(self, stop: 'Client[Any, Any]') -> None:
        self._stop, self._is_due, self._next = stop, False, 0.0
        self._calls = RepeatedCall(stop)

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
