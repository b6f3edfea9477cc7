# SPDX-License-Identifier: Apache-2.0
"""Requests to the IK service: a good one, and every way to spoil it, with the code it earns."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import (
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionIKRequest,
)
from moveit_msgs.srv import GetPositionIK

from ur5_pick_place.kinematics import HOME, JOINT_NAMES, load_model
from ur5_pick_place.nodes.messages.conversions import joint_state_msg, matrix_to_pose

CONFIG = Path(__file__).parents[2] / 'config'
UR5 = load_model('ur5')
Codes = MoveItErrorCodes
Rng = np.random.Generator
Spoil = Callable[[PositionIKRequest, Rng], None]
FOO, NONE = (('-p', f'groups:={groups}', '-r', '__ns:=/groups') for groups in ('[foo]', '[]'))
NUMBERS = (math.nan, math.inf, -math.inf)
WORDS = ('', 'moon', 'base link', 'tool0 ', 'TCP', 'böse', '0', 'a/b', '\t', 'x' * 5000)


def ik_request(
    T: np.ndarray, seed: np.ndarray | None = HOME, frame: str = 'base'
) -> GetPositionIK.Request:
    request = GetPositionIK.Request()
    request.ik_request.pose_stamped.header.frame_id = frame
    request.ik_request.pose_stamped.pose = matrix_to_pose(T)
    if seed is not None:
        request.ik_request.robot_state.joint_state = joint_state_msg(seed, JOINT_NAMES)
    return request


def spoil_number(request: PositionIKRequest, rng: Rng) -> None:
    pose = request.pose_stamped.pose
    part, field = [(pose.position, a) for a in 'xyz'][rng.integers(3)]
    if rng.random() < 0.5:
        part, field = pose.orientation, 'xyzw'[rng.integers(4)]
    setattr(part, field, NUMBERS[rng.integers(3)])


def spoil_quaternion(request: PositionIKRequest, rng: Rng) -> None:
    q = request.pose_stamped.pose.orientation
    scale = (0.0, 1e-320, 0.98, 1.02, -3.0, 1e200)[rng.integers(6)]
    q.x, q.y, q.z, q.w = (scale * v for v in (q.x, q.y, q.z, q.w))


def spoil_frame(request: PositionIKRequest, rng: Rng) -> None:
    request.pose_stamped.header.frame_id = WORDS[rng.integers(1, len(WORDS))]


def spoil_link(request: PositionIKRequest, rng: Rng) -> None:
    if rng.random() < 0.3:
        request.ik_link_names = ['tool0'] * int(rng.integers(1, 3000))
    elif rng.random() < 0.3:
        request.pose_stamped_vector = [PoseStamped()] * int(rng.integers(1, 3000))
    else:
        request.ik_link_name = WORDS[rng.integers(1, len(WORDS))]


def spoil_group(request: PositionIKRequest, rng: Rng) -> None:
    request.group_name = WORDS[rng.integers(1, len(WORDS))]


def spoil_names(request: PositionIKRequest, rng: Rng) -> None:
    state = request.robot_state.joint_state
    one, other = rng.permutation(6)[:2]
    match rng.integers(5):
        case 0:  # unknown
            state.name[one] = WORDS[rng.integers(len(WORDS))]
        case 1:  # twice
            state.name[one] = JOINT_NAMES[other]
        case 2:  # one missing
            del state.name[one], state.position[one]
        case 3:  # lists of different length
            state.position = state.position[: int(rng.integers(6))]
        case _:  # a crowd
            n = int(rng.integers(300, 5000))
            state.name += [f'joint_{i}' for i in range(n)]
            state.position = [0.0] * (n + 6)


def spoil_seed(request: PositionIKRequest, rng: Rng) -> None:
    request.robot_state.joint_state.position[rng.integers(6)] = NUMBERS[rng.integers(3)]


def spoil_constraints(request: PositionIKRequest, rng: Rng) -> None:
    constraint = JointConstraint(
        joint_name='elbow_joint', position=1.5, tolerance_above=9.0, tolerance_below=9.0
    )
    match rng.integers(5):
        case 0:
            constraint.joint_name = WORDS[rng.integers(len(WORDS))]
        case 1:
            field = ('position', 'tolerance_above', 'tolerance_below')[rng.integers(3)]
            setattr(constraint, field, NUMBERS[rng.integers(3)])
        case 2:
            constraint.tolerance_below = -1e-3
        case 3:
            request.constraints.orientation_constraints = [OrientationConstraint()]
        case _:
            request.constraints.name = WORDS[rng.integers(1, len(WORDS))]
    request.constraints.joint_constraints = [constraint] * int(10.0 ** rng.uniform(0.0, 3.5))


GARBAGE: tuple[tuple[Spoil, int], ...] = (
    (spoil_number, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_quaternion, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_frame, Codes.FRAME_TRANSFORM_FAILURE),
    (spoil_link, Codes.INVALID_LINK_NAME),
    (spoil_group, Codes.INVALID_GROUP_NAME),
    (spoil_names, Codes.INVALID_ROBOT_STATE),
    (spoil_seed, Codes.INVALID_ROBOT_STATE),
    (spoil_constraints, Codes.INVALID_GOAL_CONSTRAINTS),
)
