# SPDX-License-Identifier: Apache-2.0
"""Nodes that one executor spins, and a controller manager among them that does as it is told."""

import time
from collections.abc import Callable, Iterator

import pytest
import rclpy
from controller_manager_msgs.msg import ControllerState
from controller_manager_msgs.srv import ListControllers, SwitchController
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future

from ur5_pick_place.kinematics import JOINT_NAMES
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
