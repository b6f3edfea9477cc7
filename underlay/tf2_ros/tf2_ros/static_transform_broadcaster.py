# SPDX-License-Identifier: Apache-2.0
"""Publishes transforms that hold at every time."""

from collections.abc import Iterable

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage

from tf2_ros.transform_broadcaster import as_list


class StaticTransformBroadcaster:
    """Publishes on `/tf_static`, latched: every message holds all that was ever sent."""

    def __init__(self, node: Node, qos: QoSProfile | int | None = None) -> None:
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.pub_tf = node.create_publisher(TFMessage, '/tf_static', qos or latched)
        self._sent: dict[str, TransformStamped] = {}

    def sendTransform(self, transform: TransformStamped | Iterable[TransformStamped]) -> None:
        """Send one transform or several; a later one of the same child replaces the earlier."""
        self._sent.update((item.child_frame_id, item) for item in as_list(transform))
        self.pub_tf.publish(TFMessage(transforms=list(self._sent.values())))
