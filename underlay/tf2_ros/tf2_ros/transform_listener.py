# SPDX-License-Identifier: Apache-2.0
"""Fills a buffer from the topics."""

import threading

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage

from tf2_ros.buffer import Buffer

_AUTHORITY = 'default_authority'


class TransformListener:
    """
    Subscribes a node to `/tf` and `/tf_static` on behalf of a buffer.

    With `spin_thread` the node is spun in a thread of its own; otherwise somebody must spin it.

    """

    def __init__(
        self,
        buffer: Buffer,
        node: Node,
        *,
        spin_thread: bool = False,
        qos: QoSProfile | int | None = None,
        static_qos: QoSProfile | int | None = None,
    ) -> None:
        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.buffer = buffer
        self.node = node
        # Reentrant: a callback of the node may wait for a transform.
        group = ReentrantCallbackGroup()
        self.tf_sub = node.create_subscription(
            TFMessage, '/tf', self._receive, qos or QoSProfile(depth=100), callback_group=group
        )
        self.tf_static_sub = node.create_subscription(
            TFMessage, '/tf_static', self._receive_static, static_qos or latched,
            callback_group=group,
        )
        self._executor: SingleThreadedExecutor | None = None
        if spin_thread:
            self._executor = SingleThreadedExecutor()
            self._executor.add_node(node)
            threading.Thread(target=self._executor.spin, daemon=True).start()

    def unregister(self) -> None:
        """Stop listening."""
        if self._executor is not None:
            self._executor.shutdown()
        self.node.destroy_subscription(self.tf_sub)
        self.node.destroy_subscription(self.tf_static_sub)

    def _receive(self, message: TFMessage) -> None:
        for transform in message.transforms:
            self.buffer.set_transform(transform, _AUTHORITY)

    def _receive_static(self, message: TFMessage) -> None:
        for transform in message.transforms:
            self.buffer.set_transform_static(transform, _AUTHORITY)
