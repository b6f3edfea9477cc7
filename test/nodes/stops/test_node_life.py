# SPDX-License-Identifier: Apache-2.0
"""
Odd clocks end no node; a signal ends each at once, also while a plan is made.

The tests share one cell and go from the gentlest to the last, which ends it.

"""

import os
import signal
import time

import pace
import pytest
from action_msgs.msg import GoalStatusArray
from cells import running_cell
from driver_client import SCALED
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import CollisionObject, PlanningScene
from moveit_msgs.srv import ApplyPlanningScene
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from task_client import TaskClient
from tf2_msgs.msg import TFMessage
from ur_msgs.msg import IOStates

pytestmark = [pytest.mark.nodes, pytest.mark.drill]
SLOW_TO_PLAN = {'/**/pick_place': {'method': 'gradient'}}
MALFORMED = QoSProfile(depth=30, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Cell:
    """A client of all four nodes, and a second source of time."""

    def __init__(self, client):
        self.client, self.processes = client, client.processes
        self.names = list(self.processes.pids)
        self.clock = client.node.create_publisher(Clock, '/clock', 10)
        client.do('teach_home')

    def is_alive(self):
        self.processes.check()
        return True


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    folder = tmp_path_factory.mktemp('cell')
    with running_cell(TaskClient, ros_domain, folder, own=SLOW_TO_PLAN) as client:
        yield Cell(client)


def test_the_clock_of_a_running_node_is_not_changed(cell):
    client = cell.client
    for _ in range(10):
        for name in cell.names:
            for value in (True, False):
                wish = Parameter('use_sim_time', value=value).to_parameter_msg()
                reply = client.call(SetParameters, f'{name}/set_parameters', parameters=[wish])
                (result,) = reply.results
                is_as_it_was = value == (name != 'sim_driver')
                assert result.successful == is_as_it_was, (name, value, result.reason)
                assert is_as_it_was or f'start {name} again' in result.reason
    assert cell.is_alive()
    client.job('go_home')


def test_a_clock_that_goes_back_stands_still_or_leaps_ends_no_node(cell):
    client = cell.client
    for sec in (0, -1, 5, 5, 5, 100_000, 3, 2_000_000_000, -2_000_000_000, 2**31 - 1, 1):
        message = Clock()
        message.clock.sec = sec
        for _ in range(5):
            cell.clock.publish(message)
            client.run(0.02)
    assert cell.is_alive()
    client.until(lambda: client.ask('rearm').success, 'the cell to be rearmed')
    client.job('go_home')


@pytest.mark.parametrize('data', [b'', b'\0\1\0\0' + b'\xff' * 40, b'\0\1\0\0' + bytes(9)])
def test_a_malformed_message_ends_no_node(cell, data):
    client = cell.client
    publishers = [
        client.node.create_publisher(kind, topic, MALFORMED)
        for kind, topic in (
            (JointState, 'joint_states'),
            (TFMessage, '/tf'),
            (IOStates, 'io_and_status_controller/io_states'),
            (GoalStatusArray, f'{SCALED}/follow_joint_trajectory/_action/status'),
            (CollisionObject, 'collision_object'),
            (String, 'trajectory_execution_event'),
            (PoseStamped, 'pick_place/start_pose'),
        )
    ]
    client.until(lambda: all(p.get_subscription_count() for p in publishers), 'the nodes to hear')
    for publisher in publishers:
        for _ in range(20):
            publisher.publish(data)
    client.run(0.5)
    for publisher in publishers:
        client.node.destroy_publisher(publisher)
    assert cell.is_alive()

    def goes_home() -> bool:  # a busy PC may read a message after the request that came later
        everything = PlanningScene(is_diff=False)
        assert client.call(ApplyPlanningScene, 'apply_planning_scene', scene=everything).success
        client.until(lambda: client.ask('rearm').success, 'the cell to be rearmed')
        client.run(3.0)  # pick_place follows the planner's scene a moment later
        return client.ask('go_home').success

    since = len(client.events)
    client.until(goes_home, 'the scene to be clear', 30.0)
    client.event('done', since=since, job='go_home')
    assert cell.is_alive()


def test_every_node_ends_within_two_seconds_of_ctrl_c_while_a_plan_is_made(cell):
    client = cell.client
    client.teach_places()
    since = len(client.events)
    plan = client._clients['pick_place/plan'].call_async(Trigger.Request())
    client.event('planning', since=since)
    is_planning = not plan.done()
    pids = cell.processes.pids
    begin = time.monotonic()
    for pid in pids.values():
        os.kill(pid, signal.SIGINT)
    time.sleep(0.1)
    for pid in pids.values():
        os.kill(pid, signal.SIGINT)
    codes = {
        name: process.wait(20.0) for name, process in cell.processes._processes.items()
    }
    took = time.monotonic() - begin
    assert codes == dict.fromkeys(pids, 0), cell.processes.log()
    assert took < pace.wall(2.0)
    assert 'Traceback' not in cell.processes.log()
    assert is_planning
