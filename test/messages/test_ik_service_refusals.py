# SPDX-License-Identifier: Apache-2.0
"""The IK node, in a process of its own, survives wrong requests and says what is wrong."""

import math
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip('rclpy')

from geometry_msgs.msg import PoseStamped
from ik_client import UR5, Client, Codes, ik_request, joints_of
from ik_client import client as client
from ik_client import context as context
from ik_garbage import GARBAGE
from moveit_msgs.msg import JointConstraint, PositionConstraint
from moveit_msgs.srv import GetPositionFK, GetPositionIK

from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward
from ur5_pick_place.kinematics.transforms import quat_from_matrix


def set_quaternion(request: GetPositionIK.Request, *xyzw: float) -> None:
    q = request.ik_request.pose_stamped.pose.orientation
    q.x, q.y, q.z, q.w = xyzw


WRONG: dict[str, tuple[Callable, int, str]] = {
    'position is NaN': (
        lambda r: setattr(r.ik_request.pose_stamped.pose.position, 'x', math.nan),
        Codes.INVALID_GOAL_CONSTRAINTS,
        'not finite',
    ),
    'zero quaternion': (
        lambda r: set_quaternion(r, 0.0, 0.0, 0.0, 0.0),
        Codes.INVALID_GOAL_CONSTRAINTS,
        'has norm 0: must be a unit quaternion',
    ),
    'unknown frame': (
        lambda r: setattr(r.ik_request.pose_stamped.header, 'frame_id', 'moon'),
        Codes.FRAME_TRANSFORM_FAILURE,
        "frame 'moon' is not known",
    ),
    'unknown link': (
        lambda r: setattr(r.ik_request, 'ik_link_name', 'elbow'),
        Codes.INVALID_LINK_NAME,
        "tip link 'elbow' is not known: use one of tool0, wrist_3_link, flange, ft_frame, tcp",
    ),
    'unknown group': (
        lambda r: setattr(r.ik_request, 'group_name', 'left_leg'),
        Codes.INVALID_GROUP_NAME,
        "group 'left_leg' is unknown: use ur_manipulator, arm or none",
    ),
    'unknown branch': (
        lambda r: setattr(r.ik_request.constraints, 'name', 'elbow_up'),
        Codes.INVALID_GOAL_CONSTRAINTS,
        "branch 'elbow_up': must be one of left-up-down",
    ),
    'wrong joint names': (
        lambda r: setattr(r.ik_request.robot_state.joint_state, 'name', list('abcdef')),
        Codes.INVALID_ROBOT_STATE,
        'has no position of shoulder_pan_joint',
    ),
    'a joint twice': (
        lambda r: setattr(
            r.ik_request.robot_state.joint_state, 'name', ['elbow_joint', *JOINT_NAMES[1:]]
        ),
        Codes.INVALID_ROBOT_STATE,
        'names a joint twice',
    ),
    'too few positions': (
        lambda r: setattr(r.ik_request.robot_state.joint_state, 'position', [0.0]),
        Codes.INVALID_ROBOT_STATE,
        '6 joint names and a position array of length 1',
    ),
    'seed is NaN': (
        lambda r: setattr(r.ik_request.robot_state.joint_state, 'position', [math.nan] * 6),
        Codes.INVALID_ROBOT_STATE,
        'position of shoulder_pan_joint is nan',
    ),
    'huge lists': (
        lambda r: (
            setattr(r.ik_request.robot_state.joint_state, 'name', [f'j{i}' for i in range(9999)]),
            setattr(r.ik_request.robot_state.joint_state, 'position', [0.0] * 9999),
        ),
        Codes.INVALID_ROBOT_STATE,
        'at most 256',
    ),
    'constraint on an unknown joint': (
        lambda r: r.ik_request.constraints.joint_constraints.append(
            JointConstraint(joint_name='knee')
        ),
        Codes.INVALID_GOAL_CONSTRAINTS,
        "joint 'knee' is unknown: must be one of shoulder_pan_joint",
    ),
    'constraint that is NaN': (
        lambda r: r.ik_request.constraints.joint_constraints.append(
            JointConstraint(joint_name='elbow_joint', position=math.nan)
        ),
        Codes.INVALID_GOAL_CONSTRAINTS,
        'constraint on elbow_joint: position nan',
    ),
    'a kind of constraint we do not know': (
        lambda r: r.ik_request.constraints.position_constraints.append(PositionConstraint()),
        Codes.INVALID_GOAL_CONSTRAINTS,
        'position constraints are not supported',
    ),
    'several tips': (
        lambda r: r.ik_request.pose_stamped_vector.append(PoseStamped()),
        Codes.INVALID_LINK_NAME,
        'this arm has one tip',
    ),
}


@pytest.mark.parametrize('what', WRONG)
def test_a_wrong_request_gets_its_code_and_a_reason(client: Client, what: str) -> None:
    spoil, code, message = WRONG[what]
    request = ik_request(forward(UR5, HOME))
    spoil(request)
    for service in ('compute_ik', 'compute_ik_all'):
        reply = client.call(service, request)
        assert reply.error_code.val == code
        assert message in reply.error_code.message
        assert not reply.solution.joint_state.name


def test_hundreds_of_wrong_requests_on_the_wire_leave_the_node_alive(
    client: Client, rng: np.random.Generator
) -> None:
    for i in range(320):
        spoil, code = GARBAGE[i % len(GARBAGE)]
        request = ik_request(forward(UR5, HOME))
        spoil(request.ik_request, rng)
        reply = client.call(('compute_ik', 'compute_ik_all')[i // 8 % 2], request)
        assert reply.error_code.val == code, reply.error_code.message
    assert len(joints_of(client.call('compute_ik', ik_request(forward(UR5, HOME))))) == 6


def test_a_rounded_quaternion_is_normalised(client: Client) -> None:
    T = forward(UR5, HOME)
    request = ik_request(T)
    set_quaternion(request, *(1.005 * quat_from_matrix(T[:3, :3])))
    assert np.abs(joints_of(client.call('compute_ik', request)) - HOME).max() < 1e-9


def test_fk_of_an_unknown_link_is_refused(client: Client) -> None:
    request = GetPositionFK.Request(fk_link_names=['tool0', 'nose'])
    request.robot_state.joint_state.name = list(JOINT_NAMES)
    request.robot_state.joint_state.position = [0.0] * 6
    reply = client.call('compute_fk', request)
    assert reply.error_code.val == Codes.INVALID_LINK_NAME
    assert "'nose' is not known" in reply.error_code.message and not reply.pose_stamped
    request.fk_link_names = ['tool0'] * 65
    assert 'must be at most 64' in client.call('compute_fk', request).error_code.message
