# SPDX-License-Identifier: Apache-2.0
"""
Planner and task watch each other's life, by the liveliness of a topic that each publishes.

The middleware of a living process asserts it, however busy its Python is; a killed one is missed
after the lease, a second or so sooner than discovery would notice.

"""

from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.duration import Duration
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile
from std_msgs.msg import String

_LEASE = Duration(seconds=1.0)

ALIVE = QoSProfile(
    depth=1,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
    liveliness=LivelinessPolicy.AUTOMATIC,
    liveliness_lease_duration=_LEASE,
)
"""Of a latched state whose publisher is watched; any latched subscriber fits it."""


def watch_peer(
    node: Node,
    topic: str,
    on_message: Callable[[String], None],
    on_death: Callable[[], None],
    group: CallbackGroup,
) -> None:
    """
    Hear a peer's latched state, and of its death.

    Parameters
    ----------
    node : Node
    topic : str
        Published with `ALIVE`.
    on_message : callable
    on_death : callable
        Called when the last publisher of the topic has gone, cleanly or not.
    group : CallbackGroup

    """

    def hear(event: Any) -> None:
        if event.alive_count == 0 and event.alive_count_change < 0:
            on_death()

    node.create_subscription(
        String,
        topic,
        on_message,
        ALIVE,
        callback_group=group,
        event_callbacks=SubscriptionEventCallbacks(liveliness=hear),
    )
