# SPDX-License-Identifier: Apache-2.0
"""Planning requests with something in the way, by the node's own callbacks."""


import numpy as np
import pytest
from callbacks import Services
from motion_planners import tool_down
from moveit_msgs.srv import GetMotionPlan
from moveit_requests import UR5, Codes, box_message, joint_goal, motion_request

from ur5_pick_place.kinematics import BRANCHES, JOINT_NAMES, inverse

HERE, THERE = inverse(UR5, np.array([tool_down(0.42, y, 0.1) for y in (-0.28, 0.28)]))[0][
    :, BRANCHES.index('left-up-up')
]


@pytest.fixture(scope='module', autouse=True)
def wall(services: Services) -> None:
    wall = box_message('wall', (0.43, 0.0, 0.175), (0.36, 0.02, 0.35))
    services['collision_object'](wall)


def plan(services, planner_id: str, goals, allowed: float = 0.0):
    request = motion_request(planner_id, goals=[joint_goal(q) for q in goals])
    wanted = request.motion_plan_request
    wanted.allowed_planning_time = allowed
    wanted.start_state.joint_state.name = list(JOINT_NAMES)
    wanted.start_state.joint_state.position = HERE.tolist()
    return services['plan_kinematic_path'](request, GetMotionPlan.Response()).motion_plan_response


@pytest.mark.parametrize('planner_id', ['', 'RRTConnectkConfigDefault'])
def test_the_default_planner_goes_round_and_says_so(services, planner_id):
    reply = plan(services, planner_id, [THERE], 3.0)
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    assert reply.error_code.message.startswith("way round object 'wall', ")
    np.testing.assert_allclose(reply.trajectory.joint_trajectory.points[-1].positions, THERE)


def test_ptp_stays_straight_or_is_refused(services):
    reply = plan(services, 'PTP', [THERE])
    assert reply.error_code.val == Codes.INVALID_MOTION_PLAN
    assert "object 'wall'" in reply.error_code.message


def test_the_fastest_of_alternatives_wins_be_it_straight_or_round(services):
    near = HERE + [-0.1, 0.0, 0.0, 0.0, 0.0, 0.0]
    reply = plan(services, 'AUTO', [THERE, near], 4.0)
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    assert reply.error_code.message.startswith('goal 2 of 2 is the fastest')
    np.testing.assert_allclose(reply.trajectory.joint_trajectory.points[-1].positions, near)


def test_an_unclear_planning_time_counts_as_the_default_with_a_warning(services, capfd):
    for wrong in (-1.0, float('nan')):
        plan(services, 'AUTO', [HERE], wrong)
        assert f'allowed_planning_time = {wrong}: using 1 s' in capfd.readouterr().err
