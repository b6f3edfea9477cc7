# SPDX-License-Identifier: Apache-2.0
"""
Other controllers and grippers through real nodes: one that splices, passthrough, an action.

Judged by the driver's joint states, and by where the cube lies.
"""

import math

import numpy as np
import pytest
from cells import running_cell
from control_msgs.msg import JointJog, JointTrajectoryControllerState
from driver_client import SCALED, by_name
from planner_client import CODE, MODEL, T_BASE_LINK_BASE, PlannerClient, pose_goal
from rcl_interfaces.srv import GetParameters
from task_client import START, TARGET, TaskClient

from ur5_pick_place.kinematics import JOINT_NAMES, forward
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.nodes.driver.trajectory_controller import SPLICES
from ur5_pick_place.nodes.messages.conversions import to_seconds

pytestmark = [pytest.mark.nodes, pytest.mark.drill]

PASSTHROUGH = 'passthrough_trajectory_controller'
LIMIT = 10.0  # [rad/s^2], of the simulated cell
WAY = np.array([0.05, 0.08, -0.04])  # [m]


def positions(messages):
    """Return the positions of tool0 in base_link, (n, 3) [m], in messages of the joints."""
    return (T_BASE_LINK_BASE @ forward(MODEL, np.array([*map(by_name, messages)])))[:, :3, 3]


def follow_a_line(client):
    """Return the largest distance from the line, and that of the end from the goal [m]."""
    client.go_home()
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    begin, since = T[:3, 3].copy(), len(client.joints)
    T[:3, 3] += WAY
    planned = client.plan(pose_goal(T), 'RESOLVED_RATE')
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    _, code = client.end(client.start(planned.trajectory, ['resolved_rate']))
    assert code.val == CODE.SUCCESS, code.message
    client.run(0.3)
    p = positions(client.joints[since:])
    share = np.clip((p - begin) @ WAY / (WAY @ WAY), 0.0, 1.0)
    away = np.linalg.norm(p - begin - share[:, None] * WAY, axis=1).max()
    return away, np.linalg.norm(p[-1] - T[:3, 3])


def largest_acceleration(states):
    """Return the largest acceleration [rad/s^2] of the commands in states of the controller."""
    t = np.array([to_seconds(state.header.stamp) for state in states])
    q = np.array([state.output.positions for state in states])
    step = np.diff(t)
    is_next = (np.abs(step - CYCLE) < 1e-4)[:-1] & (np.abs(step - CYCLE) < 1e-4)[1:]
    assert is_next.mean() > 0.5, 'most cycles were received'
    return np.abs(np.diff(q, 2, axis=0)[is_next]).max() / CYCLE**2


def jog(client):
    """Turn the first joint to and fro."""
    publisher = client.node.create_publisher(JointJog, 'trajectory_planner/delta_joint_cmds', 10)
    client.until(publisher.get_subscription_count, 'the planner to listen')
    begin = client.look()[0]
    for speed in (0.5, -0.5):
        for _ in range(25):
            publisher.publish(JointJog(joint_names=[JOINT_NAMES[0]], velocities=[speed]))
            client.run(0.03)
    assert max(abs(by_name(m)[0] - begin) for m in client.joints[-200:]) > 0.1
    client.state('ready')


def test_streams_are_smooth_on_a_controller_that_splices_however_late_messages_are(
    ros_domain, tmp_path
):
    own = {'/**/sim_driver': {'trajectory_replacement': 'splice', 'arrival_jitter': 2}}
    options = {'own': own, 'without': ['pick_place', 'ik_service'], 'quick': 1.0}
    with running_cell(PlannerClient, ros_domain, tmp_path, **options) as client:
        request = GetParameters.Request(names=[SPLICES])

        def splices():
            return client.call(GetParameters, f'{SCALED}/get_parameters', request).values

        client.until(lambda: not splices()[0].bool_value, 'the planner to set the parameter')
        topic = f'{SCALED}/controller_state'
        states = client.collect(JointTrajectoryControllerState, topic, 10)
        away, error = follow_a_line(client)
        jog(client)
        assert largest_acceleration(states) < 1.2 * LIMIT
        assert away < 0.5e-3 and error < 0.3e-3


GRIPPER = {'gripper': 'action', 'gripper_action_type': 'parallel_gripper_command'}


@pytest.mark.parametrize(
    'options',
    [{'controller': PASSTHROUGH}, {'own': {'/**': GRIPPER}}],
    ids=['passthrough', 'gripper_action'],
)
def test_a_cycle_places_the_cube(ros_domain, tmp_path, options):
    options['without'] = ['ik_service']
    with running_cell(TaskClient, ros_domain, tmp_path, **options) as client:
        is_passthrough = PASSTHROUGH in client.active_controllers()
        assert is_passthrough == ('controller' in options)
        client.put_part(START)
        client.teach_places()
        client.do('plan')
        client.do('run')
        client.event('grasp_verified')
        client.event('done', job='run')
        assert math.dist(client.part_at()[:2], TARGET[:2]) < 1e-3
