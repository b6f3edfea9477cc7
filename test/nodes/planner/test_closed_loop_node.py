# SPDX-License-Identifier: Apache-2.0

"""
Closed loops through the planner node, against the simulated driver and through real rclpy clients.

A roll-out is planned like any motion and run by naming its method. How it ends at a stop or at a
fault is in `test/unit/control`.
"""

import numpy as np
import pytest
from planner_client import CODE, MODEL, T_BASE_LINK_BASE, joints, moved_by, pose_goal

from ur5_pick_place.kinematics import HOME, forward

pytestmark = [pytest.mark.nodes, pytest.mark.usefixtures('at_home')]
METHODS = {'resolved_rate': 'RESOLVED_RATE', 'gradient': 'JACOBIAN_TRANSPOSE'}
WAY = np.array([0.03, 0.1, -0.04])  # [m]


@pytest.mark.parametrize('method', METHODS)
def test_a_roll_out_is_run_as_a_closed_loop_to_its_goal(client, method):
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    T[:3, 3] += WAY
    planned = client.plan(pose_goal(T), METHODS[method])
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    _, code = client.end(client.start(planned.trajectory, [method]))
    assert code.val == CODE.SUCCESS, code.message
    miss = (T_BASE_LINK_BASE @ forward(MODEL, client.look()))[:3, 3] - T[:3, 3]
    assert 1e3 * np.linalg.norm(miss) <= 0.2
    assert 'moving' in client.states
    client.state('ready')


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
