# SPDX-License-Identifier: Apache-2.0
"""What is known of the driver: whether its controller is active, and the end of what it told."""


import pytest
from fake_graph import FakeManager, Graph
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import Bool
from ur_dashboard_msgs.msg import RobotMode, SafetyMode

from ur5_pick_place.control.robot_status import RobotStatus, mode_fault
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.nodes.driver import driver_link
from ur5_pick_place.nodes.driver.controller_manager import ControllerActivity, ControllerManager
from ur5_pick_place.nodes.driver.driver_link import DriverLink
from ur5_pick_place.nodes.ros.qos import LATCHED

OURS = 'scaled_joint_trajectory_controller'
IO = 'io_and_status_controller'


class Activity:
    """What is known of `OURS` beside a controller manager, which lists it as inactive."""

    def __init__(self, graph: Graph, name: str = OURS) -> None:
        self.manager = FakeManager(graph, name)
        self.manager.active = set()
        self.status = RobotStatus()
        controllers = ControllerManager(graph.node)
        self.activity = ControllerActivity(controllers, OURS, self.status)
        graph.until(lambda: controllers.is_there)

    def look(self) -> str:
        self.activity.request_if_due()
        return self.status.why_inactive


def test_a_controller_in_doubt_counts_as_inactive_until_it_is_listed_as_active(graph):
    seen = Activity(graph)
    seen.look()
    assert seen.manager.asked == 0 and not seen.status.why_inactive, 'nobody has a doubt'
    seen.activity.invalidate()
    assert 'to report whether' in seen.status.why_inactive
    graph.until(lambda: f'{OURS} is inactive' in seen.look())
    assert 'just after the program starts' in seen.status.why_inactive
    seen.manager.active = {OURS}
    graph.until(lambda: not seen.look())
    asked = seen.manager.asked
    for _ in range(5):
        seen.look()
        graph.spin(0.1)
    assert seen.manager.asked == asked


def test_an_answer_that_was_asked_for_before_the_doubt_does_not_end_it(graph):
    seen = Activity(graph)
    seen.manager.active = {OURS}
    seen.manager.late = Future()
    seen.activity.invalidate()
    graph.until(lambda: seen.look() and seen.manager.asked == 1)
    seen.manager.active = set()
    seen.activity.invalidate()
    seen.manager.late.set_result(None)
    graph.until(lambda: not seen.look() or f'{OURS} is inactive' in seen.status.why_inactive)
    assert seen.status.why_inactive


@pytest.mark.parametrize('is_there', [True, False])
def test_a_controller_that_no_manager_lists_is_not_refused(graph, is_there):
    if is_there:
        seen = Activity(graph, 'another_controller')
        status, activity = seen.status, seen.activity
    else:
        status = RobotStatus()
        controllers = ControllerManager(graph.node)
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
def test_what_a_driver_told_ends_with_it(talk, monkeypatch, overlap, program):
    """A killed one stays in the graph for a while after its successor has begun."""
    monkeypatch.setattr(driver_link, '_GRAPH_PERIOD', 0.05)
    faults: list[str | None] = []
    link = DriverLink(
        talk.node,
        JOINT_NAMES,
        lambda: None,
        lambda: faults.append(mode_fault(link.status)),
        lambda: False,
    )
    first = talk.begin('driver')
    publish(first, True)
    talk.until(lambda: faults and faults[-1] is None)
    talk.spin(0.5)  # it is seen in the graph
    assert faults[-1] is None
    faults.clear()
    if overlap:
        publish(talk.begin('next_driver'), program)
        talk.spin(0.3)
        assert not any(faults), 'a second publisher alone makes no value unknown'
        talk.end(first)
    else:
        talk.end(first)
        talk.until(lambda: link.status.robot_mode is None and not link.status.program_running)
        publish(talk.begin('next_driver'), program)
    talk.spin(2.0)
    fault = mode_fault(link.status)
    if program:
        assert fault is None
    else:
        assert fault.startswith('External Control program not running; press Play')
