# SPDX-License-Identifier: Apache-2.0
"""Whose arm would move: two drivers, or a robot's driver beside the simulated cell."""

import time
from collections.abc import Iterator

import pytest
import rclpy
from controller_manager_msgs.srv import SwitchController
from rclpy.node import Node
from ur_msgs.srv import SetIO

from ur5_pick_place.nodes.driver import one_driver
from ur5_pick_place.nodes.driver.one_driver import OneDriver

SERVICE = 'io_and_status_controller/set_io'


@pytest.fixture
def nodes(ros_domain: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    """Nodes that end with the test; the first one looks at the graph, and waits for less."""
    monkeypatch.setattr(one_driver, '_PERIOD', 0.05)
    monkeypatch.setattr(one_driver, '_LASTS', 0.5)
    rclpy.init()
    nodes = [Node('planner')]
    yield nodes
    for node in nodes:
        node.destroy_node()
    rclpy.shutdown()


def offer(nodes: list[Node], name: str, kind: type = SetIO, service: str = SERVICE) -> None:
    nodes.append(Node(name))
    nodes[-1].create_service(kind, service, lambda _request, reply: reply)


def problem_of(driver: OneDriver, seconds: float = 10.0) -> str:
    end = time.monotonic() + seconds
    while not driver.problem and time.monotonic() < end:
        time.sleep(0.05)
    return driver.problem


def test_two_drivers_are_refused_once_they_stay(nodes) -> None:
    driver = OneDriver(nodes[0], is_simulated=False)
    offer(nodes, 'one')
    assert problem_of(driver, 1.0) == '' and not driver.has_another
    offer(nodes, 'other')
    end = time.monotonic() + 10.0
    while not driver.has_another:
        assert time.monotonic() < end
    assert driver.problem == '', 'the other may have been killed'
    assert '2 drivers offer io_and_status_controller/set_io' in problem_of(driver)
    nodes.pop().destroy_node()
    end = time.monotonic() + 10.0
    while driver.problem:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_second_controller_manager_is_refused_by_name_but_is_no_second_arm(nodes) -> None:
    driver = OneDriver(nodes[0], is_simulated=False)
    for name in ('arm', 'gripper'):
        offer(nodes, name, SwitchController, 'controller_manager/switch_controller')
    problem = problem_of(driver)
    assert '2 controller managers offer controller_manager/switch_controller' in problem
    assert 'in a namespace of its own' in problem
    assert not driver.has_another, 'an arm that drifts must be held'
    nodes.pop().destroy_node()
    end = time.monotonic() + 10.0
    while driver.problem:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize('is_simulated', [True, False])
def test_the_values_of_the_simulated_cell_move_nothing_beside_a_robots_driver(
    nodes, is_simulated
) -> None:
    driver = OneDriver(nodes[0], is_simulated)
    offer(nodes, 'controller_manager')
    assert problem_of(driver, 1.0) == ''
    nodes.append(Node('io_and_status_controller'))
    found = problem_of(driver, 10.0 if is_simulated else 1.0)
    assert ("a robot's driver is running" in found) == is_simulated
    assert driver.has_another == is_simulated
