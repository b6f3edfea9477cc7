# SPDX-License-Identifier: Apache-2.0
"""Two nodes of one process, for tests of what is polled; and transforms to publish."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from geometry_msgs.msg import TransformStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from tf2_msgs.msg import TFMessage

from ur5_pick_place.nodes.ros.executor import SerialNode


class Talk:
    """A node to be tested, and publishers of another one."""

    def __init__(self) -> None:
        self.node, self.speaker = SerialNode('hears'), Node('speaks')
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.turns = 0

    def publisher(self, kind: type, topic: str):
        publisher = self.speaker.create_publisher(kind, topic, 300)
        self.until(publisher.get_subscription_count)
        return publisher

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10.0
        with self.polling():
            while not is_so():
                assert time.monotonic() < deadline
                self.executor.spin_once(timeout_sec=0.02)
                self.turns += 1

    def polling(self) -> AbstractContextManager[None]:
        """Poll the topics of the node as its process does."""
        failures: list[Exception] = []
        return self.node.reader.running(failures.append)


def transforms(x: float, *children: str) -> TFMessage:
    frames = [TransformStamped(child_frame_id=child) for child in children]
    for frame in frames:
        frame.header.frame_id = 'base_link'
        frame.header.stamp.sec, frame.header.stamp.nanosec = 7, round(1e8 * x)
        frame.transform.translation.x = x
        frame.transform.rotation.w = 1.0
    return TFMessage(transforms=frames)
