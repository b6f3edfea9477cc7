# SPDX-License-Identifier: Apache-2.0
"""One line of /diagnostics a second: whether the node is well, and its state in words."""

from collections.abc import Callable, Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

_PERIOD = 1.0  # [s], steady clock: it must go on when simulated time stands still


class Diagnostics:
    """
    Publishes a node's state.

    Parameters
    ----------
    node : Node
    state : callable
        Returns (is well, state in words).
    figures : callable
        Returns further values as text, by name.

    """

    def __init__(
        self,
        node: Node,
        state: Callable[[], tuple[bool, str]],
        figures: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._node, self._state, self._figures = node, state, figures
        self._publisher = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        node.create_timer(_PERIOD, self._publish, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _publish(self) -> None:
        is_well, text = self._state()
        status = DiagnosticStatus(
            level=DiagnosticStatus.OK if is_well else DiagnosticStatus.ERROR,
            name=self._node.get_fully_qualified_name(),
            message=text,
            hardware_id='ur',
            values=[
                KeyValue(key=key, value=value)
                for key, value in {'state': text, **self._figures()}.items()
            ],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)
