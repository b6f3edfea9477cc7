# SPDX-License-Identifier: Apache-2.0
"""QoS profiles that several nodes use; the driver's where it defines them."""

from collections.abc import Collection

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSCompatibility, QoSProfile, qos_check_compatible

UNKNOWN_NODE = '_NODE_NAME_UNKNOWN_'
"""Rmw's name of a node whose name has not arrived yet; of one without rcl it never does."""

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def fresh(lifespan: float) -> QoSProfile:
    """
    Return the QoS of commands: one that is older than `lifespan` [s] is not delivered.

    Otherwise DDS delivers a reliable request when a cut link returns, seconds after the sender
    has given up and stopped: a gripper once opened that way while the arm carried the part.
    """
    return QoSProfile(depth=10, lifespan=Duration(nanoseconds=round(1e9 * lifespan)))


def mismatches(node: Node, topic: str, names: Collection[str]) -> dict[str, str]:
    """
    Return why publishers of a topic do not reach subscriptions of nodes of some names.

    Returns by the publishers' node; empty if every message arrives.
    """
    found: dict[str, str] = {}
    listeners = node.get_subscriptions_info_by_topic(topic)
    for listener in listeners:
        if listener.node_name not in names:
            continue
        for publisher in node.get_publishers_info_by_topic(topic):
            match, why = qos_check_compatible(publisher.qos_profile, listener.qos_profile)
            if publisher.topic_type != listener.topic_type:
                found[publisher.node_name] = f'{publisher.topic_type}, not {listener.topic_type}'
            elif match == QoSCompatibility.ERROR:
                found[publisher.node_name] = why.removeprefix('ERROR: ').rstrip('; ').lower()
    return found


SWITCHING = fresh(0.5)
"""For small requests; a lossy link delivers them within about 0.1 s."""
