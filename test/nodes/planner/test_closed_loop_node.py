# SPDX-License-Identifier: Apache-2.0

"""
Closed loops through the planner node, against the simulated driver and through real rclpy clients.

A roll-out is planned like any motion and run by naming its method; it ends at the goal, at a stop,
or at a fault, after which nothing is sent that moves the arm.
"""

import numpy as np
import pytest
from planner_client import (
    CODE,
    MODEL,
    T_BASE_LINK_BASE,
    joints,
    moved_by,
    pose_goal,
)

from ur5_pick_place.kinematics import HOME, forward

pytestmark = [pytest.mark.nodes, pytest.mark.usefixtures('at_home')]
METHODS = {'resolved_rate': 'RESOLVED_RATE', 'gradient': 'JACOBIAN_TRANSPOSE'}
WAY = np.array([0.03, 0.1, -0.04])  # [m]


def plan(client, method, way=WAY):
    """The goal in base_link and the roll-out to it."""
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    T[:3, 3] += way
    planned = client.plan(pose_goal(T), METHODS[method])
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    return T, planned.trajectory


def set_off(client):
    """Start a long way; returns its handle once the arm moves."""
    _, trajectory = plan(client, 'resolved_rate', 3.0 * WAY)
    handle = client.start(trajectory, ['resolved_rate'])
    client.until(lambda: np.abs(client.qd).max() > 0.1, 'the arm to move')
    return handle


@pytest.mark.parametrize('method', METHODS)
def test_a_roll_out_is_run_as_a_closed_loop_to_its_goal(client, method):
    T, trajectory = plan(client, method)
    _, code = client.end(client.start(trajectory, [method]))
    assert code.val == CODE.SUCCESS, code.message
    miss = (T_BASE_LINK_BASE @ forward(MODEL, client.look()))[:3, 3] - T[:3, 3]
    assert 1e3 * np.linalg.norm(miss) <= 0.2
    assert 'moving' in client.states
    client.state('ready')


def test_a_stop_brakes_a_closed_loop_and_latches(client):
    handle = set_off(client)
    assert client.trigger('stop').success
    _, code = client.end(handle)
    assert code.val == CODE.CONTROL_FAILED and 'stop requested' in code.message
    client.look()  # the result overtakes joints that wait to be read
    assert np.abs(client.qd).max() < 0.02
    client.state('stopped: stop requested')
    assert moved_by(client, lambda: None) < 1e-3
    assert client.trigger('rearm').success


def test_what_is_no_roll_out_of_a_method_is_refused_and_nothing_moves(client):
    """The same way in joint space swings the tool off the line."""
    goal = HOME + [1.2, 0.3, -0.6, 0.2, 0.0, 0.5]
    trajectory = client.plan(joints(goal)).trajectory

    def ask():
        for names, code in (
            (['magic'], CODE.INVALID_GOAL_CONSTRAINTS),
            (['gradient', 'resolved_rate'], CODE.INVALID_GOAL_CONSTRAINTS),
            (['resolved_rate'], CODE.INVALID_MOTION_PLAN),
        ):
            _, reply = client.end(client.start(trajectory, names))
            assert reply.val == code, reply.message

    assert moved_by(client, ask, 0.1) < 1e-4
