# SPDX-License-Identifier: Apache-2.0
"""The speed scaling that the driver reports."""

from collections.abc import Callable, Sequence

from rclpy.qos import qos_profile_sensor_data
from std_msgs.msg import Float64

from ur5_pick_place.nodes.ros.distro import TakenMessage
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.topic_reader import BoundedReader, Period

_TOPIC = 'speed_scaling_state_broadcaster/speed_scaling'
_LARGEST = 64  # [bytes]; one number takes 12
_PERCENT = 100.0


def subscribe_to_scaling(
    node: SerialNode, on_scaling: Callable[[float], object], period: Period
) -> None:
    """Subscribe to the speed scaling; `on_scaling` takes it, 0 to 1."""
    reader = BoundedReader(node, Float64, _TOPIC, _LARGEST)

    def take(waiting: Sequence[TakenMessage]) -> None:
        for taken in reversed(waiting):
            message = reader.read(taken.data)
            # The driver publishes percent, although its documentation says otherwise. Other values
            # and NaN are not from the driver.
            if message and 0.0 <= message.data <= _PERCENT:
                on_scaling(message.data / _PERCENT)
                return  # the latest is the present one

    node.reader.subscribe(Float64, _TOPIC, take, qos_profile_sensor_data, period)
