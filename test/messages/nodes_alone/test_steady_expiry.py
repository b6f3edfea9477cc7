# SPDX-License-Identifier: Apache-2.0
"""An action server of a node with simulated time does not wake its executor at each /clock."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from control_msgs.action import GripperCommand
from rclpy import executors
from rclpy.action import ActionServer
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.time import Time

from ur5_pick_place.nodes.ros.executor import SteadyNode

MESSAGES = 60
PERIOD = 0.005  # [s]


class CountedWaitSets:
    """rclpy's C++ functions, with a count of the wait sets that are built."""

    def __init__(self, functions: Any) -> None:
        self._functions, self.count = functions, 0

    def WaitSet(self, *sizes: Any) -> Any:
        self.count += 1
        return self._functions.WaitSet(*sizes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._functions, name)


@pytest.fixture
def simulated(ros_domain: int) -> Iterator[Node]:
    rclpy.init()
    node = Node('server', parameter_overrides=[Parameter('use_sim_time', value=True)])
    yield node
    node.destroy_node()
    rclpy.shutdown()


def wait_sets(monkeypatch, node: Node, as_seen: Callable[[Node], Node]) -> int:
    """Return how many wait sets an idle executor builds while simulated time passes."""
    server = ActionServer(as_seen(node), GripperCommand, 'grip', lambda _goal: None)
    executor = executors.SingleThreadedExecutor()
    executor.add_node(node)
    clock = node.get_clock()
    clock.set_ros_time_override(Time(seconds=1000.0, clock_type=clock.clock_type))
    for _ in range(20):  # what waits from the start
        executor.spin_once(timeout_sec=0.01)
    counted = CountedWaitSets(executors._rclpy)
    monkeypatch.setattr(executors, '_rclpy', counted)

    def let_time_pass() -> None:
        for k in range(MESSAGES):
            now = Time(seconds=1001.0 + k * PERIOD, clock_type=clock.clock_type)
            clock.set_ros_time_override(now)
            time.sleep(PERIOD)

    passing = threading.Thread(target=let_time_pass)
    passing.start()
    executor.spin_once(timeout_sec=MESSAGES * PERIOD)
    passing.join()
    monkeypatch.undo()
    executor.shutdown()
    server.destroy()
    return counted.count


def test_time_that_passes_does_not_wake_a_server_whose_results_expire_steadily(
    monkeypatch, simulated
):
    assert wait_sets(monkeypatch, simulated, SteadyNode) < 5


def test_it_wakes_a_server_as_rclpy_makes_it(monkeypatch, simulated):
    """Else `SteadyNode` is needed no longer."""
    assert wait_sets(monkeypatch, simulated, lambda node: node) > MESSAGES / 4


def test_goals_are_stamped_by_the_clock_of_the_node(simulated):
    clock = simulated.get_clock()
    clock.set_ros_time_override(Time(seconds=77.0, clock_type=clock.clock_type))
    assert SteadyNode(simulated).get_clock().now().nanoseconds == 77e9
