# SPDX-License-Identifier: Apache-2.0
"""Whose arm would move: two drivers, or a robot's driver beside the simulated cell."""

import time

import pytest
from controller_manager_msgs.srv import SwitchController
from fake_graph import Graph
from rclpy.node import Node
from ur_msgs.srv import SetIO

from ur5_pick_place.nodes.driver import one_driver
from ur5_pick_place.nodes.driver.one_driver import OneDriver

SERVICE = 'io_and_status_controller/set_io'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_driver, '_PERIOD', 0.05)
    monkeypatch.setattr(one_driver, '_LASTS', 0.5)


def offer(graph: Graph, name: str, kind: type = SetIO, service: str = SERVICE) -> Node:
    node = graph.begin(name)
    node.create_service(kind, service, lambda _request, reply: reply)
    return node


def problem_of(driver: OneDriver, seconds: float = 10.0) -> str:
    end = time.monotonic() + seconds
    while not driver.problem and time.monotonic() < end:
        time.sleep(0.05)
    return driver.problem


def test_two_drivers_are_refused_once_they_stay(graph):
    driver = OneDriver(graph.node, is_simulated=False)
    offer(graph, 'one')
    assert problem_of(driver, 1.0) == '' and not driver.has_another
    other = offer(graph, 'other')
    graph.until(lambda: driver.has_another)
    assert driver.problem == '', 'the other may have been killed'
    assert '2 drivers offer io_and_status_controller/set_io' in problem_of(driver)
    graph.end(other)
    graph.until(lambda: not driver.problem)


def test_a_second_controller_manager_is_refused_by_name_but_is_no_second_arm(graph):
    driver = OneDriver(graph.node, is_simulated=False)
    for name in ('arm', 'gripper'):
        other = offer(graph, name, SwitchController, 'controller_manager/switch_controller')
    problem = problem_of(driver)
    assert '2 controller managers offer controller_manager/switch_controller' in problem
    assert 'in a namespace of its own' in problem
    assert not driver.has_another, 'an arm that drifts must be held'
    graph.end(other)
    graph.until(lambda: not driver.problem)


@pytest.mark.parametrize('is_simulated', [True, False])
def test_the_values_of_the_simulated_cell_move_nothing_beside_a_robots_driver(graph, is_simulated):
    driver = OneDriver(graph.node, is_simulated)
    offer(graph, 'controller_manager')
    assert problem_of(driver, 1.0) == ''
    graph.begin('io_and_status_controller')
    found = problem_of(driver, 10.0 if is_simulated else 1.0)
    assert ("a robot's driver is running" in found) == is_simulated
    assert driver.has_another == is_simulated
