# SPDX-License-Identifier: Apache-2.0
"""QoS profiles that several nodes use, the driver's where it defines them; who does not match."""

from collections.abc import Callable, Collection

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSCompatibility, QoSProfile, qos_check_compatible

from ur5_pick_place.nodes.ros.service_calls import steady_timer

UNKNOWN_NODE = '_NODE_NAME_UNKNOWN_'
"""Rmw's name of a node whose name has not arrived yet; of one without rcl it never does."""

_LOOK_PERIOD = 1.0  # [s] between two looks at the ROS graph

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


class Unheard:
    """
    Finds publishers whose messages do not reach this node; DDS tells nobody of another type.

    `topics`: those that the node subscribes. `tell`: takes a topic, and what is wrong, once for
    each publisher that is there.
    """

    def __init__(
        self, node: Node, topics: Collection[str], tell: Callable[[str, str], object]
    ) -> None:
        self._node, self._tell = node, tell
        self._topics = {node.resolve_topic_name(topic): topic for topic in topics}
        self._before: set[tuple[str, str, str]] = set()
        self._told: set[tuple[str, str, str]] = set()
        steady_timer(node, _LOOK_PERIOD, self._look)

    def _look(self) -> None:
        node = self._node
        now = {
            (topic, who, why)
            for topic in self._topics
            if node.count_publishers(topic)
            for who, why in mismatches(node, topic, [node.get_name()]).items()
        }
        news = (now & self._before) - self._told  # DDS finds a publisher before its node's name
        self._before, self._told = now, (self._told & now) | news
        for topic, who, why in sorted(news):
            self._tell(self._topics[topic], f'{who} publishes {topic} with {why}')


SWITCHING = fresh(0.5)
"""For small requests; a lossy link delivers them within about 0.1 s."""
