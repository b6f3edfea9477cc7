# SPDX-License-Identifier: Apache-2.0
"""Stops the arm without the planner, which may have died, be frozen or be overloaded."""

import time

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from ur5_pick_place.control.controller import REPLY_TIMEOUT, Stopping
from ur5_pick_place.nodes.controller_goals import ControllerGoals
from ur5_pick_place.nodes.prompt_executor import AtOnce
from ur5_pick_place.nodes.task_port import TaskPort

_PERIOD = 0.05  # [s], steady clock
_AT_LEAST = 0.3  # [s] for which goals are canceled that are not reported yet
# [s] of an arm that does not stop; a planner that is there may be braking a closed loop meanwhile
_TAKE_OVER_AFTER, _ALONE_AFTER, _TAKE_OVER_PERIOD = 1.0, 0.3, 0.3
_AT_MOST = 60.0  # [s]; after that an operator must stop the arm


class ArmStop:
    """
    Cancels every goal of the trajectory controllers until the arm is at rest.

    Parameters
    ----------
    node : Node
    goals : ControllerGoals
    port : TaskPort
        Shows the joints, and whether the planner is there.

    """

    def __init__(self, node: Node, goals: ControllerGoals, port: TaskPort) -> None:
        self._goals, self._port = goals, port
        self._log = node.get_logger()
        self._began: float | None = None
        self._taken_over = 0.0
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(_PERIOD, self._repeat, callback_group=AtOnce(), clock=steady)

    def begin(self) -> None:
        """Cancel all goals now, and repeatedly until the arm is at rest."""
        self._began, self._taken_over = time.monotonic(), 0.0
        self._goals.cancel()

    def end(self) -> None:
        """Stop canceling, as motions are allowed again."""
        self._began = None

    def _see(self) -> Stopping:
        began = self._began
        return Stopping.OVER if began is None else self._port.stopping(time.monotonic() - began)

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
                f'timed out after {_AT_MOST:.0f} s waiting for the stopped arm to come to rest'
            )
        else:
            self._goals.cancel()
            patience = _TAKE_OVER_AFTER if self._port.has_planner else _ALONE_AFTER
            if lasts > patience and now - self._taken_over > _TAKE_OVER_PERIOD:
                self._taken_over = now
                self._goals.take_over(self._see)
