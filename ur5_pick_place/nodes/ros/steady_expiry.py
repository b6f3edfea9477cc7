# SPDX-License-Identifier: Apache-2.0
"""Let the results of an action server expire by the steady clock."""

from types import SimpleNamespace
from typing import Any, cast

from rclpy.clock import Clock, ClockType
from rclpy.node import Node


class _SteadyNode:
    """
    A node whose action servers stamp goals by its clock, and let results expire by the steady one.

    With ROS time, rcl wakes the executor at every message of /clock once the first result could
    have expired, even if there never was one. It then builds a wait set and finds nothing to do,
    125 times a second, which takes a tenth of a core.
    """

    def __init__(self, node: Node) -> None:
        self._node, steady = node, Clock(clock_type=ClockType.STEADY_TIME)
        # `steady` must live as long as its handle.
        self._clock = SimpleNamespace(
            now=node.get_clock().now, handle=steady.handle, steady=steady
        )

    def get_clock(self) -> Any:
        return self._clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def steady_expiry(node: Node) -> Node:
    """Return a node, for an `ActionServer`, whose results expire by the steady clock."""
    return cast(Node, _SteadyNode(node))
