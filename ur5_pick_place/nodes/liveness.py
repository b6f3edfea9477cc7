# SPDX-License-Identifier: Apache-2.0
"""
Planner and task watch each other's life, by the liveliness of a topic that each publishes.

Each asserts it from the thread that hears messages, so that one that is frozen, or deaf because it
converts a huge message, is missed as a killed one is.

"""

import time
from collections.abc import Callable
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile
from std_msgs.msg import String

from ur5_pick_place.control.robot_status import is_frozen
from ur5_pick_place.nodes.distro import on_liveliness
from ur5_pick_place.nodes.prompt_executor import AtOnce

_BEATS = 8  # signs of life in a lease


def alive(lease: float) -> QoSProfile:
    """Return the QoS of a latched state whose publisher is watched; any latched client fits it."""
    return QoSProfile(
        depth=1,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        liveliness=LivelinessPolicy.MANUAL_BY_TOPIC,
        liveliness_lease_duration=Duration(seconds=lease),
    )


class Heartbeat:
    """
    Publishes a latched state, and keeps showing that its node is not stuck.

    Parameters
    ----------
    node : Node
    topic : str
    lease : float
        How long the node may give no sign of life [s], the same in both.
    on_frozen : callable
        Takes how long this node was not run [s], if it was frozen and not merely slow.

    """

    def __init__(
        self, node: Node, topic: str, lease: float, on_frozen: Callable[[float], None]
    ) -> None:
        self._publisher = node.create_publisher(String, topic, alive(lease))
        self._lease, self._on_frozen = lease, on_frozen
        self._last_beat: float | None = None  # before the node is spun for the first time
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(lease / _BEATS, self._assert, callback_group=AtOnce(), clock=steady)

    def publish(self, state: str) -> None:
        """Publish a state."""
        self._publisher.publish(String(data=state))

    def _assert(self) -> None:
        now = time.monotonic()
        frozen, self._last_beat = now - (self._last_beat or now), now
        self._publisher.assert_liveliness()
        if is_frozen(frozen, self._lease):
            self._on_frozen(frozen)


def watch_peer(
    node: Node,
    topic: str,
    lease: float,
    on_message: Callable[[String], None],
    on_death: Callable[[], None],
) -> None:
    """
    Hear a peer's latched state, and of its death.

    Parameters
    ----------
    node : Node
    topic : str
        Published with `alive`.
    lease : float
        How long a peer may be silent [s], the same in both.
    on_message : callable
    on_death : callable
        Called when a publisher of the topic has gone, cleanly or not, or is stuck.

    """

    def on_event(event: Any) -> None:
        # Not only when none is left: its successor may be there before its lease is over.
        if event.alive_count_change < 0:
            on_death()

    node.create_subscription(
        String,
        topic,
        on_message,
        alive(lease),
        callback_group=AtOnce(),
        event_callbacks=on_liveliness(on_event),
    )
