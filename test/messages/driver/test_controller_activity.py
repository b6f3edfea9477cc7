# SPDX-License-Identifier: Apache-2.0
"""What is known of the driver: whether its controller is active, and the end of what it told."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

rclpy = pytest.importorskip('rclpy')

from controller_manager_msgs.msg import ControllerState  # noqa: E402
from controller_manager_msgs.srv import ListControllers  # noqa: E402
from rclpy.callback_groups import ReentrantCallbackGroup  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.task import Future  # noqa: E402
from std_msgs.msg import Bool  # noqa: E402
from ur_dashboard_msgs.msg import RobotMode, SafetyMode  # noqa: E402

from ur5_pick_place.control.robot_status import RobotStatus, mode_fault  # noqa: E402
from ur5_pick_place.kinematics import JOINT_NAMES  # noqa: E402
from ur5_pick_place.nodes.driver import driver_link  # noqa: E402
from ur5_pick_place.nodes.driver.controller_manager import (  # noqa: E402
    ControllerActivity,
    ControllerManager,
)
from ur5_pick_place.nodes.driver.driver_link import DriverLink  # noqa: E402
from ur5_pick_place.nodes.ros.polling import Poller  # noqa: E402
from ur5_pick_place.nodes.ros.qos import LATCHED  # noqa: E402

OURS = 'scaled_joint_trajectory_controller'
IO = 'io_and_status_controller'


class Graph:
    """A node to be tested beside others, all spun by one executor."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.executor = SingleThreadedExecutor()
        self.node = self.begin('planner')

    def begin(self, name: str) -> Node:
        self.nodes.append(Node(name))
        self.executor.add_node(self.nodes[-1])
        return self.nodes[-1]

    def end(self, node: Node) -> None:
        self.nodes.remove(node)
        self.executor.remove_node(node)
        node.destroy_node()

    def until(self, is_so: Callable[[], object], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        with Poller(self.node, threading.RLock(), lambda: None, lambda _: None):
            while not is_so():
                assert time.monotonic() < deadline
                self.executor.spin_once(timeout_sec=0.02)

    def spin(self, seconds: float) -> None:
        begin = time.monotonic()
        self.until(lambda: time.monotonic() > begin + seconds)


@pytest.fixture
def graph(ros_domain: int) -> Iterator[Graph]:
    rclpy.init()
    graph = Graph()
    yield graph
    graph.executor.shutdown()
    for node in graph.nodes:
        node.destroy_node()
    rclpy.shutdown()


class Manager:
    """A controller manager; each answer waits while `late` is a future."""

    def __init__(self, graph: Graph, names: tuple[str, ...] = (OURS,)) -> None:
        self.names, self.states, self.asked = names, ['inactive'], 0
        self.late: Future | None = None
        graph.begin('manager').create_service(
            ListControllers,
            'controller_manager/list_controllers',
            self._list,
            callback_group=ReentrantCallbackGroup(),
        )
        self.status = RobotStatus()
        controllers = ControllerManager(graph.node, ReentrantCallbackGroup())
        self.activity = ControllerActivity(controllers, OURS, self.status)
        graph.until(lambda: controllers.is_there)

    async def _list(self, _request, response):
        self.asked += 1
        state = self.states[-1]
        if self.late is not None:
            await self.late
        response.controller = [ControllerState(name=name, state=state) for name in self.names]
        return response

    def look(self) -> str:
        self.activity.request_if_due()
        return self.status.why_inactive


def test_a_controller_in_doubt_counts_as_inactive_until_it_is_listed_as_active(graph):
    manager = Manager(graph)
    manager.look()
    assert manager.asked == 0 and not manager.status.why_inactive, 'nobody has a doubt'
    manager.activity.invalidate()
    assert 'to report whether' in manager.status.why_inactive
    graph.until(lambda: f'{OURS} is inactive' in manager.look())
    assert 'just after the program starts' in manager.status.why_inactive
    manager.states.append('active')
    graph.until(lambda: not manager.look())
    asked = manager.asked
    for _ in range(5):
        manager.look()
        graph.spin(0.1)
    assert manager.asked == asked


def test_an_answer_that_was_asked_for_before_the_doubt_does_not_end_it(graph):
    manager = Manager(graph)
    manager.states.append('active')
    manager.late = Future()
    manager.activity.invalidate()
    graph.until(lambda: manager.look() and manager.asked == 1)
    manager.states.append('inactive')
    manager.activity.invalidate()
    manager.late.set_result(None)
    graph.until(lambda: not manager.look() or f'{OURS} is inactive' in manager.status.why_inactive)
    assert manager.status.why_inactive


@pytest.mark.parametrize('is_there', [True, False])
def test_a_controller_that_no_manager_lists_is_not_refused(graph, is_there):
    if is_there:
        manager = Manager(graph, ('another_controller',))
        status, activity = manager.status, manager.activity
    else:
        status = RobotStatus()
        controllers = ControllerManager(graph.node, ReentrantCallbackGroup())
        activity = ControllerActivity(controllers, OURS, status)
    activity.invalidate()

    def is_over() -> bool:
        activity.request_if_due()
        return not status.why_inactive

    graph.until(is_over)


def publish(node: Node, program: bool | None) -> None:
    """Publish as a driver does at its start; None: the program has not run yet."""
    for kind, name, value in ((RobotMode, 'robot_mode', 7), (SafetyMode, 'safety_mode', 1)):
        publisher = node.create_publisher(kind, f'{IO}/{name}', LATCHED)
        publisher.publish(kind(mode=value))
    publisher = node.create_publisher(Bool, f'{IO}/robot_program_running', LATCHED)
    if program is not None:
        publisher.publish(Bool(data=program))


@pytest.mark.parametrize('overlap', [False, True], ids=['ended', 'killed'])
@pytest.mark.parametrize('program', [None, True])
def test_what_a_driver_told_ends_with_it(graph, monkeypatch, overlap, program):
    """A killed one stays in the graph for a while after its successor has begun."""
    monkeypatch.setattr(driver_link, '_GRAPH_PERIOD', 0.05)
    faults: list[str | None] = []
    link = DriverLink(
        graph.node,
        JOINT_NAMES,
        lambda: None,
        lambda: faults.append(mode_fault(link.status)),
        lambda: False,
        ReentrantCallbackGroup(),
    )
    first = graph.begin('driver')
    publish(first, True)
    graph.until(lambda: faults and faults[-1] is None)
    graph.spin(0.5)  # it is seen in the graph
    assert faults[-1] is None
    faults.clear()
    if overlap:
        publish(graph.begin('next_driver'), program)
        graph.spin(0.3)
        assert not any(faults), 'a second publisher alone makes no value unknown'
        graph.end(first)
    else:
        graph.end(first)
        graph.until(lambda: link.status.robot_mode is None and not link.status.program_running)
        publish(graph.begin('next_driver'), program)
    graph.spin(2.0)
    fault = mode_fault(link.status)
    if program:
        assert fault is None
    else:
        assert fault.startswith('External Control program not running; press Play')
