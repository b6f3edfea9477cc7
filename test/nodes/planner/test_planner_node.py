# SPDX-License-Identifier: Apache-2.0
"""
The planner node beside the simulated driver, through real rclpy clients.

Every request gets the code that it deserves, and nothing moves that was not checked.

"""

import re
import subprocess
import sys

import numpy as np
import pytest
from cells import CONFIG
from moveit_msgs.action import MoveGroup
from planner_client import (
    CODE,
    MODEL,
    T_BASE_LINK_BASE,
    joints,
    pose_goal,
    tool_down,
)
from rclpy.action import ActionServer

from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose

pytestmark = [pytest.mark.nodes, pytest.mark.usefixtures('at_home')]


def test_a_joint_goal_is_planned_executed_and_reached(client):
    goal = HOME + [0.4, -0.2, 0.2, 0.1, 0.1, -0.5]
    client.go(goal)
    assert np.abs(client.look() - goal).max() <= 0.002
    assert {'moving', 'ready'} <= set(client.states)


@pytest.mark.parametrize('frame', ['base_link', 'base', ''])
def test_a_pose_goal_is_reached_in_any_known_frame(client, frame):
    T = tool_down(0.5, 0.15, 0.35)
    given = T_BASE_LINK_BASE @ T if frame == 'base' else T
    planned = client.plan(pose_goal(given, frame=frame))
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    end = planned.trajectory.joint_trajectory.points[-1].positions
    np.testing.assert_allclose(T_BASE_LINK_BASE @ forward(MODEL, end), T, atol=1e-9)


def test_lin_and_the_cartesian_service_go_along_the_line(client):
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    T[:3, 3] += [0.05, 0.2, -0.05]
    lin = client.plan(pose_goal(T), planner_id='LIN').trajectory
    path = client.line([matrix_to_pose(T)])
    assert (path.error_code.val, path.fraction) == (CODE.SUCCESS, 1.0)
    for trajectory in (lin, path.solution):
        q = np.array([p.positions for p in trajectory.joint_trajectory.points])
        p = (T_BASE_LINK_BASE @ forward(MODEL, q))[:, :3, 3]
        way = p[-1] - p[0]
        away = np.cross(p - p[0], way / np.linalg.norm(way))
        assert np.linalg.norm(away, axis=1).max() < 5e-5
        np.testing.assert_allclose(p[-1], T[:3, 3], atol=1e-9)
    assert client.end(client.start(path.solution))[1].val == CODE.SUCCESS


def test_a_path_that_cannot_be_followed_is_refused_whole(client):
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    T[0, 3] += 1.0
    path = client.line([matrix_to_pose(T)])
    assert path.error_code.val == CODE.PLANNING_FAILED
    assert 0.1 < path.fraction < 0.7
    assert not path.solution.joint_trajectory.points
    assert re.search(r'at pose \d+ of \d+.*too far.*short', path.error_code.message)


def test_a_wrong_request_gets_its_code_and_moves_nothing(client):
    for goal, fields, code in (
        (joints(HOME), {'group_name': 'leg'}, CODE.INVALID_GROUP_NAME),
        (joints(HOME + np.nan), {}, CODE.INVALID_GOAL_CONSTRAINTS),
        (pose_goal(np.eye(4), frame='moon'), {}, CODE.FRAME_TRANSFORM_FAILURE),
        (pose_goal(tool_down(1.5, 0, 0.3)), {}, CODE.NO_IK_SOLUTION),
    ):
        assert client.plan(goal, **fields).error_code.val == code
    assert client.line([]).error_code.val == CODE.INVALID_GOAL_CONSTRAINTS
    assert client.states[-1] == 'ready'


def run_planner(*ros_args):
    main = 'from ur5_pick_place.nodes.trajectory_planner.node import main; main()'
    words = [sys.executable, '-c', main, '--ros-args', *ros_args]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ('override', 'message'),
    [
        ('max_sped:=0.2', "unknown parameter 'max_sped'; did you mean max_speed?"),
        pytest.param('max_speed:=250.0', 'max_speed', marks=pytest.mark.drill),
        pytest.param(
            'ur_type:=ur6', "ur_type = 'ur6': must be one of ur3, ur5", marks=pytest.mark.drill
        ),
        ('scene_file:=/nowhere.yaml', '/nowhere.yaml'),
    ],
)
def test_a_wrong_parameter_is_refused_at_the_start(ros_domain, override, message):
    node = run_planner('-r', '__ns:=/lonely', '-p', override)
    assert node.returncode == 2
    assert message in node.stderr


@pytest.mark.drill
def test_a_planner_refuses_to_start_beside_another_server_of_move_action(client):
    server = ActionServer(client.node, MoveGroup, '/other/move_action', lambda _goal: None)
    node = run_planner('-r', '__ns:=/other', '--params-file', str(CONFIG / 'robot_sim.yaml'))
    server.destroy()
    assert node.returncode == 2, node.stderr
    assert '/other/move_action/_action/send_goal is already offered' in node.stderr
