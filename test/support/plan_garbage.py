# SPDX-License-Identifier: Apache-2.0
"""Requests to the planner: good ones, and every way to spoil them, with the code it earns."""

import math

import numpy as np
from geometry_msgs.msg import Pose
from ik_garbage import NUMBERS, WORDS, spoil_names
from motion_planners import PICK, tool_down
from moveit_msgs.msg import (
    CollisionObject,
    Constraints,
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
)
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.kinematics import JOINT_NAMES, forward, load_model
from ur5_pick_place.nodes.messages.conversions import joint_state_msg, matrix_to_pose

UR5 = load_model('ur5')
Codes = MoveItErrorCodes
Rng = np.random.Generator
GOAL = tool_down(0.45, -0.1, 0.3, 0.5)
BEYOND = (-0.1, -1e300, 1.0001, 2.0, math.nan, math.inf, -math.inf)  # scalings that count as 1
LENGTHS = (-1e-9, -1.0, math.nan, math.inf, -math.inf)


def motion_request(planner_id: str = 'LIN', T: np.ndarray = GOAL) -> GetMotionPlan.Request:
    """A goal for the tool in base, from a known start."""
    request = GetMotionPlan.Request()
    wish = request.motion_plan_request
    wish.planner_id = planner_id
    wish.start_state.joint_state = joint_state_msg(PICK, JOINT_NAMES)
    pose = matrix_to_pose(T)
    position = PositionConstraint()
    position.constraint_region.primitive_poses = [Pose(position=pose.position)]
    orientation = OrientationConstraint(orientation=pose.orientation)
    position.header.frame_id = orientation.header.frame_id = 'base'
    wish.goal_constraints = [
        Constraints(position_constraints=[position], orientation_constraints=[orientation])
    ]
    if planner_id == 'CIRC':
        arc_point = PositionConstraint()
        arc_point.header.frame_id = 'base'
        p = 0.5 * (forward(UR5, PICK) + T)[:3, 3] + [0.0, 0.0, 0.05]
        x, y, z = (float(v) for v in p)
        arc_point.constraint_region.primitive_poses = [matrix_to_pose(np.eye(4))]
        at = arc_point.constraint_region.primitive_poses[0].position
        at.x, at.y, at.z = x, y, z
        wish.path_constraints = Constraints(name='interim', position_constraints=[arc_point])
    return request


def line_request(*waypoints: np.ndarray) -> GetCartesianPath.Request:
    request = GetCartesianPath.Request(max_step=0.005)
    request.header.frame_id = 'base'
    request.start_state.joint_state = joint_state_msg(PICK, JOINT_NAMES)
    request.waypoints = [matrix_to_pose(T) for T in waypoints or (GOAL,)]
    return request


def joint_goal(q: np.ndarray) -> Constraints:
    return Constraints(
        joint_constraints=[
            JointConstraint(joint_name=name, position=float(v))
            for name, v in zip(JOINT_NAMES, q, strict=True)
        ]
    )


def any_of(rng: Rng, choices):
    return choices[rng.integers(len(choices))]


def spoil_pose(pose: Pose, rng: Rng, turned: Pose | None = None) -> None:
    """Spoil a position, or the orientation of `turned`."""
    q = (turned or pose).orientation
    match rng.integers(3):
        case 0:
            setattr(pose.position, any_of(rng, 'xyz'), any_of(rng, NUMBERS))
        case 1:
            setattr(q, any_of(rng, 'xyzw'), any_of(rng, NUMBERS))
        case _:
            scale = any_of(rng, (0.0, 1e-320, 0.98, 1.02, -3.0, 1e200))
            q.x, q.y, q.z, q.w = (scale * v for v in (q.x, q.y, q.z, q.w))


def spoil_pace(wish, rng: Rng) -> None:
    """Spoil what both services have: scalings and the bound on speed."""
    if rng.random() < 0.5:
        wish.max_cartesian_speed = any_of(rng, LENGTHS)
    else:
        kind = any_of(rng, ('velocity', 'acceleration'))
        setattr(wish, f'max_{kind}_scaling_factor', any_of(rng, (1e-5, 1e-300)))


def spoil_start(wish, rng: Rng) -> None:
    if rng.random() < 0.5:
        spoil_names(_Renamed(wish.start_state), rng)
    else:
        wish.start_state.joint_state.position[rng.integers(6)] = any_of(rng, NUMBERS)


class _Renamed:
    """A start state by the name that it has in IK requests."""

    def __init__(self, state) -> None:
        self.robot_state = state


def spoil_group(wish, rng: Rng) -> None:
    wish.group_name = any_of(rng, WORDS[1:])


def spoil_limited_link(wish, rng: Rng) -> None:
    wish.cartesian_speed_limited_link = any_of(rng, WORDS[1:])


def spoil_goal_pose(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0]
    region = goal.position_constraints[0].constraint_region
    if rng.random() < 0.2:
        offset = goal.position_constraints[0].target_point_offset
        setattr(offset, any_of(rng, 'xyz'), any_of(rng, NUMBERS))
        return
    turned = Pose(orientation=goal.orientation_constraints[0].orientation)
    spoil_pose(region.primitive_poses[0], rng, turned)


def spoil_goal_joints(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0] = joint_goal(PICK)
    constraint = any_of(rng, goal.joint_constraints)
    match rng.integers(4):
        case 0:
            constraint.position = any_of(rng, NUMBERS)
        case 1:
            constraint.joint_name = any_of(rng, WORDS)
        case 2:
            goal.name = any_of(rng, WORDS[1:])
        case _:
            goal.joint_constraints *= int(rng.integers(2, 600))


def spoil_goal_shape(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0]
    match rng.integers(5):
        case 0:
            wish.goal_constraints = []
        case 1:
            goal.position_constraints = []
        case 2:
            goal.orientation_constraints = []
        case 3:
            goal.position_constraints[0].constraint_region.primitive_poses = []
        case _:
            goal.name = any_of(rng, WORDS[1:])


def spoil_goal_frame(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0]
    kind = any_of(rng, (goal.position_constraints, goal.orientation_constraints))
    kind[0].header.frame_id = any_of(rng, WORDS[1:])


def spoil_goal_link(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0]
    kind = any_of(rng, (goal.position_constraints, goal.orientation_constraints))
    kind[0].link_name = any_of(rng, WORDS[1:])


def spoil_path_constraints(wish, rng: Rng) -> None:
    path = wish.path_constraints
    match rng.integers(4):
        case 0:
            path.joint_constraints = joint_goal(PICK).joint_constraints
            wish.path_constraints.name = 'about'
        case 1:
            path.position_constraints = [PositionConstraint()] * int(rng.integers(2, 3000))
        case 2:
            path.orientation_constraints = [OrientationConstraint()]
            path.name = any_of(rng, WORDS)
        case _:
            path.position_constraints = [PositionConstraint()]


def spoil_waypoint(request: GetCartesianPath.Request, rng: Rng) -> None:
    request.waypoints = [matrix_to_pose(GOAL) for _ in range(int(rng.integers(1, 40)))]
    spoil_pose(any_of(rng, request.waypoints), rng)


def spoil_waypoints(request: GetCartesianPath.Request, rng: Rng) -> None:
    request.waypoints *= any_of(rng, (0, 1001, 5000))


def spoil_steps(request: GetCartesianPath.Request, rng: Rng) -> None:
    names = ('max_step', *(f'{kind}jump_threshold' for kind in ('', 'revolute_', 'prismatic_')))
    setattr(request, any_of(rng, names), any_of(rng, LENGTHS))


def spoil_frame(request: GetCartesianPath.Request, rng: Rng) -> None:
    request.header.frame_id = any_of(rng, WORDS[1:])


def spoil_link(request: GetCartesianPath.Request, rng: Rng) -> None:
    request.link_name = any_of(rng, WORDS[1:])


COMMON = (
    (spoil_pace, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_start, Codes.INVALID_ROBOT_STATE),
    (spoil_group, Codes.INVALID_GROUP_NAME),
    (spoil_limited_link, Codes.INVALID_LINK_NAME),
    (spoil_path_constraints, Codes.INVALID_GOAL_CONSTRAINTS),
)
MOTION_GARBAGE = (
    *COMMON,
    (spoil_goal_pose, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_goal_joints, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_goal_shape, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_goal_frame, Codes.FRAME_TRANSFORM_FAILURE),
    (spoil_goal_link, Codes.INVALID_LINK_NAME),
)
LINE_GARBAGE = (
    *COMMON,
    (spoil_waypoint, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_waypoints, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_steps, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_frame, Codes.FRAME_TRANSFORM_FAILURE),
    (spoil_link, Codes.INVALID_LINK_NAME),
)


def spoilt(i: int, rng: Rng) -> tuple[GetMotionPlan.Request | GetCartesianPath.Request, int]:
    """Give the i-th wrong request, and the code that it deserves."""
    garbage = (MOTION_GARBAGE, LINE_GARBAGE)[i % 2]
    spoil, code = garbage[i // 2 % len(garbage)]
    if i % 2:
        request = line_request()
        spoil(request, rng)
    else:
        request = motion_request(('PTP', 'LIN', 'CIRC')[rng.integers(3)])
        spoil(request.motion_plan_request, rng)
    return request, code


def box_message(name: str, n: int = 1) -> CollisionObject:
    message = CollisionObject(id=name, operation=CollisionObject.ADD)
    message.header.frame_id = 'base'
    message.pose = matrix_to_pose(np.eye(4))
    primitive = SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1, 0.1, 0.1])
    message.primitives = [primitive] * n
    far = np.eye(4)
    far[:3, 3] = [3.0, 3.0, 3.0]
    message.primitive_poses = [matrix_to_pose(far) for _ in range(n)]
    return message
