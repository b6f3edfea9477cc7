# SPDX-License-Identifier: Apache-2.0
"""
The planner node beside the simulated driver, through real rclpy clients.

Every request gets the code that it deserves, and nothing moves that was not checked.
"""

import subprocess
import sys

import numpy as np
import pytest
from cells import CONFIG
from moveit_msgs.action import MoveGroup
from rclpy.action import ActionServer

from ur5_pick_place.kinematics import HOME

pytestmark = [pytest.mark.nodes, pytest.mark.usefixtures('at_home')]


def test_a_joint_goal_is_planned_executed_and_reached(client):
    goal = HOME + [0.4, -0.2, 0.2, 0.1, 0.1, -0.5]
    client.go(goal)
    assert np.abs(client.look() - goal).max() <= 0.002
    assert {'moving', 'ready'} <= set(client.states)


def run_planner(*ros_args):
    main = 'from ur5_pick_place.nodes.trajectory_planner.node import main; main()'
    words = [sys.executable, '-c', main, '--ros-args', *ros_args]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def test_a_wrong_parameter_is_refused_at_the_start(ros_domain):
    node = run_planner('-r', '__ns:=/lonely', '-p', 'max_sped:=0.2')
    assert node.returncode == 2
    assert "unknown parameter 'max_sped'; did you mean max_speed?" in node.stderr


@pytest.mark.drill
def test_a_planner_refuses_to_start_beside_another_server_of_move_action(client):
    server = ActionServer(client.node, MoveGroup, '/other/move_action', lambda _goal: None)
    node = run_planner('-r', '__ns:=/other', '--params-file', str(CONFIG / 'robot_sim.yaml'))
    server.destroy()
    assert node.returncode == 2, node.stderr
    assert '/other/move_action/_action/send_goal is already offered' in node.stderr
