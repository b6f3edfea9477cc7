# SPDX-License-Identifier: Apache-2.0
"""Latched messages of one node alone: a recording that is played back has the same topics."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.timer import Timer

from ur5_pick_place.nodes.ros.distro import origin_of
from ur5_pick_place.nodes.ros.qos import UNKNOWN_NODE
from ur5_pick_place.nodes.ros.service_calls import steady_timer

# Deeper than what is published: each publisher has a latest message.
_QOS = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_PERIOD = 0.1  # [s] between two looks for the node of a publisher
_LOOKED_FOR = 10.0  # [s] after which a message of an unknown node is dropped


class LatchedFrom:
    """
    Subscribes to a topic as bytes, and hands on what a node of one name publishes.

    `owner`: the node that publishes it, in the namespace of `node`. `take`: takes a serialized
    message. `shows_others`: whether what others publish counts as long as that node is not there:
    of a recording that is replayed to be seen.
    """

    def __init__(
        self,
        node: Node,
        kind: type,
        topic: str,
        owner: str,
        take: Callable[[bytes], object],
        shows_others: bool = False,
    ) -> None:
        self._node, self._take = node, take
        self._shows_others = shows_others
        self._owner = f'{node.get_namespace().rstrip("/")}/{owner}'
        # By publisher until its node is known: steady time of arrival [s] and latest message.
        self._waiting: dict[bytes, tuple[float, bytes]] = {}
        self._timer: Timer | None = None
        subscription = node.create_subscription(
            kind, topic, self._receive, _QOS, raw=True
        )
        self._topic = subscription.topic_name

    def _receive(self, data: bytes, info: Mapping[str, Any]) -> None:
        if publisher := origin_of(info)[0]:
            self._waiting[publisher] = time.monotonic(), data
            self._sort()
        else:
            self._take(data)

    def _sort(self) -> None:
        """Hand on what the owner has published, and drop what others have."""
        nodes = {
            bytes(found.endpoint_gid): f'{found.node_namespace.rstrip("/")}/{found.node_name}'
            for found in self._node.get_publishers_info_by_topic(self._topic)
        }
        for publisher, (arrived, data) in list(self._waiting.items()):
            name = nodes.get(publisher, UNKNOWN_NODE)
            if name.endswith(UNKNOWN_NODE) and time.monotonic() - arrived < _LOOKED_FOR:
                continue
            del self._waiting[publisher]
            stands_in = self._shows_others and self._owner not in nodes.values()
            if name == self._owner or stands_in:
                self._take(data)
            else:
                self._node.get_logger().warning(
                    f'{self._topic}: what {name} publishes is ignored, only {self._owner} counts; '
                    'play a recording without this topic, or in a namespace of its own',
                    throttle_duration_sec=10.0,
                )
        if self._waiting and self._timer is None:
            self._timer = steady_timer(self._node, _PERIOD, self._sort)
        elif not self._waiting and self._timer is not None:
            self._node.destroy_timer(self._timer)
            self._timer = None
