# SPDX-License-Identifier: Apache-2.0
"""
Topics with many messages, polled in rounds instead of one callback per message.

Before each callback an executor builds a wait set of everything that a node offers. At 500 joint
states and as many transforms a second that takes a third of a core, with any callback.

"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile

from ur5_pick_place.nodes.distro import take_waiting

ROUND = 0.008
"""Period for topics of the arm [s]: one cycle of a CB3 robot, four of an e-Series."""

Take = Callable[[Sequence[bytes]], None]
"""Takes the serialized messages of a queue, oldest first; at least one."""


class Rounds:
    """
    Subscriptions whose queued messages are taken together, once per period.

    Parameters
    ----------
    node : Node
    period : float
        [s], steady clock
    group : CallbackGroup, optional
        Callback group of the timer.

    """

    def __init__(self, node: Node, period: float, group: CallbackGroup | None = None) -> None:
        self._node, self._looks = node, list[Callable[[], None]]()
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(period, self.look, callback_group=group, clock=steady)

    def subscribe(
        self,
        kind: type,
        topic: str,
        take: Take,
        qos: QoSProfile,
        is_urgent: Callable[[], bool] = lambda: False,
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
        is_urgent : callable
            Returns whether messages are now taken as they arrive.

        """

        def look() -> None:
            waiting: list[bytes] = []
            with contextlib.suppress(InvalidHandle):  # this node ends
                waiting = take_waiting(subscription, qos.depth)
            if waiting:
                take(waiting)

        subscription: Any = self._node.create_subscription(
            kind,
            topic,
            lambda data: take([data, *take_waiting(subscription, qos.depth)]),
            qos,
            callback_group=_OnlyIf(is_urgent),
            raw=True,
        )
        self._looks.append(look)

    def look(self) -> None:
        """Take the messages that are queued now."""
        for look in self._looks:
            look()


class _OnlyIf(CallbackGroup):
    """Lets an executor wait for a subscription only while `is_urgent` returns true."""

    def __init__(self, is_urgent: Callable[[], bool]) -> None:
        super().__init__()
        self._is_urgent = is_urgent

    def can_execute(self, _entity: Any) -> bool:
        return self._is_urgent()

    def beginning_execution(self, _entity: Any) -> bool:
        return True

    def ending_execution(self, _entity: Any) -> None:
        pass
