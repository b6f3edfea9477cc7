# SPDX-License-Identifier: Apache-2.0
"""Odd clocks and malformed messages end no node."""

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
from task_client import TaskClient
from tf2_msgs.msg import TFMessage
from ur_msgs.msg import IOStates

pytestmark = [pytest.mark.nodes, pytest.mark.drill]
MALFORMED = QoSProfile(depth=30, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@pytest.fixture(scope='module')
def client(ros_domain, tmp_path_factory):
    with running_cell(TaskClient, ros_domain, tmp_path_factory.mktemp('cell')) as client:
        client.do('teach_home')
        yield client


def test_the_clock_of_a_running_node_is_not_changed(client):
    for _ in range(10):
        for name in client.processes.pids:
            for value in (True, False):
                wish = Parameter('use_sim_time', value=value).to_parameter_msg()
                reply = client.call(SetParameters, f'{name}/set_parameters', parameters=[wish])
                (result,) = reply.results
                is_as_it_was = value == (name != 'sim_driver')
                assert result.successful == is_as_it_was, (name, value, result.reason)
                assert is_as_it_was or f'start {name} again' in result.reason
    client.processes.check()
    client.job('go_home')


def test_a_clock_that_goes_back_stands_still_or_leaps_ends_no_node(client):
    clock = client.node.create_publisher(Clock, '/clock', 10)
    for sec in (0, -1, 5, 5, 5, 100_000, 3, 2_000_000_000, -2_000_000_000, 2**31 - 1, 1):
        message = Clock()
        message.clock.sec = sec
        for _ in range(5):
            clock.publish(message)
            client.run(0.02)
    client.processes.check()
    client.until(lambda: client.ask('rearm').success, 'the cell to be rearmed')
    client.job('go_home')


@pytest.mark.parametrize('data', [b'', b'\0\1\0\0' + b'\xff' * 40, b'\0\1\0\0' + bytes(9)])
def test_a_malformed_message_ends_no_node(client, data):
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
    client.processes.check()

    def goes_home() -> bool:  # a busy PC may read a message after the request that came later
        everything = PlanningScene(is_diff=False)
        assert client.call(ApplyPlanningScene, 'apply_planning_scene', scene=everything).success
        client.until(lambda: client.ask('rearm').success, 'the cell to be rearmed')
        client.run(3.0)  # pick_place follows the planner's scene a moment later
        return client.ask('go_home').success

    since = len(client.events)
    client.until(goes_home, 'the scene to be clear', 30.0)
    client.event('done', since=since, job='go_home')
    client.processes.check()
