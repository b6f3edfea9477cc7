# SPDX-License-Identifier: Apache-2.0
"""Let the results of an action server expire by the steady clock."""

import functools
from typing import Any, cast

from rclpy.clock import Clock, ClockType
from rclpy.node import Node


class _ServerClock:
    """Stamps goals by the node's clock; the expiry of results goes by the steady one."""

    def __init__(self, node: Node) -> None:
        self.now = node.get_clock().now
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)  # lives as long as its handle
        self.handle = self._steady.handle


class _SteadyNode:
    """
    A node whose action servers let results expire by the steady clock.

    With ROS time, rcl wakes the executor at every message of /clock once the first result could
    have expired, even if there never was one. It then builds a wait set and finds nothing to do,
    125 times a second, which takes a tenth of a core.

    """

    def __init__(self, node: Node) -> None:
        self._node = node

    @functools.cached_property
    def _clock(self) -> _ServerClock:
        return _ServerClock(self._node)

    def get_clock(self) -> _ServerClock:
        """Return the clock of the server."""
        return self._clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def steady_expiry(node: Node) -> Node:
    """Return a node, for an `ActionServer`, whose results expire by the steady clock."""
    return cast(Node, _SteadyNode(node))
