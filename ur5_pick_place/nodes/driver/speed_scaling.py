# SPDX-License-Identifier: Apache-2.0
"""The speed scaling that the driver reports."""

from collections.abc import Callable, Sequence

from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from std_msgs.msg import Float64

from ur5_pick_place.nodes.ros.bounded_reader import BoundedReader
from ur5_pick_place.nodes.ros.polling import PollGroup

_TOPIC = 'speed_scaling_state_broadcaster/speed_scaling'
_LARGEST = 64  # [bytes]; one number takes 12
_PERCENT = 100.0


class SpeedScaling:
    """
    Subscribes to the speed scaling.

    Parameters
    ----------
    on_scaling : callable
        Takes the scaling, 0 to 1.

    """

    def __init__(
        self, node: Node, on_scaling: Callable[[float], object], poll_group: PollGroup
    ) -> None:
        self._on_scaling = on_scaling
        self._reader = BoundedReader(node, Float64, _TOPIC, _LARGEST)
        poll_group.subscribe(Float64, _TOPIC, self._take, qos_profile_sensor_data)

    def _take(self, waiting: Sequence[bytes]) -> None:
        for data in reversed(waiting):
            message = self._reader.read(data)
            # The driver publishes percent, although its documentation says otherwise. Other values
            # and NaN are not from the driver.
            if message and 0.0 <= message.data <= _PERCENT:
                self._on_scaling(message.data / _PERCENT)
                return  # the latest is the present one
