# SPDX-License-Identifier: Apache-2.0
"""A status on /diagnostics once a second: whether the node is healthy, and its state."""

from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from ur5_pick_place.nodes.ros.service_calls import steady_timer

STREAMS = 'streams'
"""Key of the planner's value that tells why it refuses jogs and closed loops, or `ACCEPTED`."""
ACCEPTED = 'accepted'
GRIPPER, GRIPPER_ADVICE = 'gripper', 'gripper advice'
"""Keys of the task node's values that tell what is seen of the gripper, and what to do."""
_TICKS = 2000  # 16 s of a CB3 robot's joint_states


class Jitter:
    """Intervals between the latest ticks."""

    def __init__(self) -> None:
        self._gaps: deque[float] = deque(maxlen=_TICKS)
        self._last: float | None = None

    def tick(self, now: float) -> None:
        """Record a tick at steady time `now` [s]."""
        if self._last is not None:
            self._gaps.append(now - self._last)
        self._last = now

    def summary(self) -> dict[str, str]:
        """Return median, 99th percentile and maximum of the intervals in ms, as text by name."""
        if not self._gaps:
            return {}
        gaps = 1e3 * np.array(self._gaps)
        values = (np.median(gaps), np.percentile(gaps, 99), gaps.max())
        names = ('tick p50 [ms]', 'tick p99 [ms]', 'tick worst [ms]')
        return {name: f'{value:.1f}' for name, value in zip(names, values, strict=True)}


_PERIOD = 1.0  # [s], steady clock: it must continue while simulated time stands still


class Diagnostics:
    """
    Publishes a node's state.

    `state`: returns whether the node is healthy, and its state as text. `figures`: returns further
    values as text, by name.
    """

    def __init__(
        self,
        node: Node,
        state: Callable[[], tuple[bool, str]],
        figures: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._node, self._state, self._figures = node, state, figures
        self._publisher = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        steady_timer(node, _PERIOD, self._publish)

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
