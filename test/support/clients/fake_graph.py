# SPDX-License-Identifier: Apache-2.0
"""Nodes that one executor spins, among them a speaker or an obedient controller manager."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import rclpy
from controller_manager_msgs.msg import ControllerState
from controller_manager_msgs.srv import ListControllers, SwitchController
from geometry_msgs.msg import TransformStamped
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.serialization import serialize_message
from rclpy.task import Future
from tf2_msgs.msg import TFMessage

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.nodes.ros.distro import TakenMessage
from ur5_pick_place.nodes.ros.executor import SerialNode


class Graph:
    """A node to be tested beside others, all spun by one executor."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.executor = SingleThreadedExecutor()
        self.node = self.begin('tested')

    def begin(self, name: str) -> SerialNode:
        self.nodes.append(SerialNode(name))
        self.executor.add_node(self.nodes[-1])
        return self.nodes[-1]

    def end(self, node: Node) -> None:
        self.nodes.remove(node)
        self.executor.remove_node(node)
        node.destroy_node()

    def until(self, is_so: Callable[[], object], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline
            self.executor.spin_once(timeout_sec=0.02)

    def close(self) -> None:
        self.executor.shutdown()
        for node in self.nodes:
            node.destroy_node()
        rclpy.shutdown()

    def spin(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end, seconds + 1.0)


@pytest.fixture
def context(ros_domain: int) -> Iterator[Context]:
    """Give a context of its own, as another process has one."""
    context = Context()
    rclpy.init(context=context)
    yield context
    context.try_shutdown()


@pytest.fixture
def graph(ros_domain: int) -> Iterator[Graph]:
    rclpy.init()
    graph = Graph()
    yield graph
    graph.close()


class FakeManager:
    """
    A controller manager of some controllers, of which one may be active if it `is_exclusive`.

    `claims`: by controller, otherwise the positions of the joints. `late`: each list waits for it,
    and tells what was so before. `switched`: on and off, in order.
    """

    def __init__(self, graph: Graph, *names: str, is_exclusive: bool = False) -> None:
        self.names, self.is_exclusive = names, is_exclusive
        self.active = {names[0]}
        self.claims: dict[str, list[str]] = {}
        self.switched: list[tuple[list[str], list[str]]] = []
        self.asked, self.late = 0, None
        self.node = graph.begin('manager')
        base, group = 'controller_manager', ReentrantCallbackGroup()
        for kind, name, serve in (
            (ListControllers, 'list_controllers', self._list),
            (SwitchController, 'switch_controller', self._switch),
        ):
            self.node.create_service(kind, f'{base}/{name}', serve, callback_group=group)

    def _state(self, name: str) -> ControllerState:
        if name not in self.active:
            return ControllerState(name=name, state='inactive')
        joints = [f'{joint}/position' for joint in JOINT_NAMES]
        claimed = self.claims.get(name, joints)
        return ControllerState(name=name, state='active', claimed_interfaces=claimed)

    async def _list(self, _request, response):
        self.asked += 1
        names = dict.fromkeys((*self.names, *self.claims))
        response.controller = [self._state(name) for name in names]
        late: Future | None = self.late
        if late is not None:
            await late
        return response

    def _switch(self, request, response):
        on, off = set(request.activate_controllers), set(request.deactivate_controllers)
        after = (self.active | on) - off
        is_possible = not self.is_exclusive or (off <= self.active and len(after) <= 1)
        response.ok = is_possible or request.strictness != SwitchController.Request.STRICT
        if is_possible:
            self.active = after
            self.switched.append((sorted(on), sorted(off)))
        return response


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
