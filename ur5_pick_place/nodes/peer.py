# SPDX-License-Identifier: Apache-2.0
"""
Planner and task watch each other's life, by the liveliness of a topic that each publishes.

The middleware of a living process asserts it, however busy its Python is; a killed one is missed
after the lease, sooner than discovery would notice.

"""

from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile
from std_msgs.msg import String

from ur5_pick_place.nodes.distro import on_liveliness


def alive(lease: float) -> QoSProfile:
    """Return the QoS of a latched state whose publisher is watched; any latched client fits it."""
    return QoSProfile(
        depth=1,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        liveliness=LivelinessPolicy.AUTOMATIC,
        liveliness_lease_duration=Duration(seconds=lease),
    )


def watch_peer(
    node: Node,
    topic: str,
    lease: float,
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
        Published with `alive`.
    lease : float
        How long a peer may be silent [s], the same in both.
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
        alive(lease),
        callback_group=group,
        event_callbacks=on_liveliness(hear),
    )
