# SPDX-License-Identifier: Apache-2.0
"""
Planner and task monitor each other by the liveliness of a topic that each publishes.

Each asserts it from the thread that receives messages, so that a node that is frozen, or blocked
by converting a huge message, is detected like a killed one.
"""

import time
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile
from std_msgs.msg import String

from ur5_pick_place.control.robot_status import was_suspended
from ur5_pick_place.nodes.ros.distro import on_liveliness
from ur5_pick_place.nodes.ros.service_calls import steady_timer

_BEATS = 8  # assertions per lease


def liveliness_qos(lease: float) -> QoSProfile:
    """Return the QoS of a latched, monitored state; lease [s]; matches any latched subscriber."""
    return QoSProfile(
        depth=1,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        liveliness=LivelinessPolicy.MANUAL_BY_TOPIC,
        liveliness_lease_duration=Duration(seconds=lease),
    )


class Heartbeat:
    """
    Publishes a latched state and asserts its liveliness while the node is not stuck.

    `lease`: lease of the liveliness [s], the same in both nodes. `on_suspended`: called with the
    time [s] for which this process was not run, if it counts as suspended.
    """

    def __init__(
        self, node: Node, topic: str, lease: float, on_suspended: Callable[[float], None]
    ) -> None:
        self._publisher = node.create_publisher(String, topic, liveliness_qos(lease))
        self._lease, self._on_suspended = lease, on_suspended
        self._last_beat: float | None = None  # before the node is spun for the first time
        steady_timer(node, lease / _BEATS, self.beat)

    def publish(self, state: str) -> None:
        self._publisher.publish(String(data=state))

    def beat(self) -> None:
        """Assert the liveliness; first of all where this node may itself have been suspended."""
        now = time.monotonic()
        gap, self._last_beat = now - (self._last_beat or now), now
        self._publisher.assert_liveliness()
        if was_suspended(gap, self._lease):
            self._on_suspended(gap)


def watch_peer(
    node: Node,
    topic: str,
    lease: float,
    on_message: Callable[[String], None],
    on_death: Callable[[], None],
) -> None:
    """
    Subscribe to a peer's latched state and detect its death.

    `topic`: published with `liveliness_qos`. `lease`: lease of the liveliness [s], the same in
    both nodes. `on_death`: called when a publisher of the topic has ended, cleanly or not, or is
    stuck.
    """

    def on_event(event: Any) -> None:
        # Not only when none is left: a successor may start before the lease expires.
        if event.alive_count_change < 0:
            on_death()

    node.create_subscription(
        String,
        topic,
        on_message,
        liveliness_qos(lease),
        callback_group=ReentrantCallbackGroup(),  # of its own, whose events are not put off
        event_callbacks=on_liveliness(on_event),
    )
