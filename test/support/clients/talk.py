# SPDX-License-Identifier: Apache-2.0
"""A node that polls its topics while it is spun, and a speaker; and transforms to publish."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import rclpy
from fake_manager import Graph
from geometry_msgs.msg import TransformStamped
from rclpy.serialization import serialize_message
from tf2_msgs.msg import TFMessage

from ur5_pick_place.nodes.ros.distro import TakenMessage


class Talk(Graph):
    """A graph whose tested node polls its topics, and a node with publishers for it."""

    def __init__(self) -> None:
        super().__init__()
        self.speaker = self.begin('speaks')

    def publisher(self, kind: type, topic: str):
        publisher = self.speaker.create_publisher(kind, topic, 300)
        self.until(publisher.get_subscription_count)
        return publisher

    def until(self, is_so: Callable[[], object], seconds: float = 10.0) -> None:
        with self.polling():
            super().until(is_so, seconds)

    def polling(self) -> AbstractContextManager[None]:
        """Poll the topics of the node as its process does."""
        failures: list[Exception] = []
        return self.node.reader.running(failures.append)


class ByHand:
    """A node with a reader whose messages a test hands over."""

    def __init__(self, node) -> None:
        self.reader, self.get_logger = self, node.get_logger
        self.get_publishers_info_by_topic = node.get_publishers_info_by_topic

    def subscribe(self, _kind, _topic, take, _qos, _period) -> None:
        def take_all(*messages, publisher=b'driver') -> None:
            take([TakenMessage(serialize_message(m), 0, 0, publisher) for m in messages])

        self.take = take_all


@pytest.fixture
def talk(ros_domain: int) -> Iterator[Talk]:
    rclpy.init()
    talk = Talk()
    yield talk
    talk.close()


def transforms(x: float, *children: str) -> TFMessage:
    frames = [TransformStamped(child_frame_id=child) for child in children]
    for frame in frames:
        frame.header.frame_id = 'base_link'
        frame.header.stamp.sec, frame.header.stamp.nanosec = 7, round(1e8 * x)
        frame.transform.translation.x = x
        frame.transform.rotation.w = 1.0
    return TFMessage(transforms=frames)
