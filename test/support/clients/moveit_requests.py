# SPDX-License-Identifier: Apache-2.0
"""Good requests to IK service and planner, and what puts one wrong value into them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose
from motion_planners import PICK, tool_down
from moveit_msgs.msg import (
    CollisionObject,
    Constraints,
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
)
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan, GetPositionFK, GetPositionIK
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward, load_model
from ur5_pick_place.nodes.messages.conversions import joint_state_msg, matrix_to_pose

CONFIG = Path(__file__).parents[3] / 'config'
UR5 = load_model('ur5')
Codes = MoveItErrorCodes
Rng = np.random.Generator
GOAL = tool_down(0.45, -0.1, 0.3, 0.5)
FOO, NONE = (('-p', f'groups:={groups}', '-r', '__ns:=/groups') for groups in ('[foo]', '[]'))
BEYOND = (-0.1, -1e300, 1.0001, 2.0, math.nan, math.inf, -math.inf)  # scalings that count as 1
WORDS = ('moon', 'base link', 'tool0 ', 'TCP', 'böse', '0', 'a/b', '\t', 'x' * 5000)


def put(message: Any, path: str, value: Any) -> None:
    """Set what lies at a path in a message, such as `waypoints.0.position.x`."""
    *way, last = path.split('.')
    for step in way:
        message = message[int(step)] if step.isdigit() else getattr(message, step)
    if last.isdigit():
        message[int(last)] = value
    else:
        setattr(message, last, value)


def ik_request(
    T: np.ndarray, seed: np.ndarray | None = HOME, frame: str = 'base'
) -> GetPositionIK.Request:
    request = GetPositionIK.Request()
    request.ik_request.pose_stamped.header.frame_id = frame
    request.ik_request.pose_stamped.pose = matrix_to_pose(T)
    if seed is not None:
        request.ik_request.robot_state.joint_state = joint_state_msg(seed, JOINT_NAMES)
    return request


def fk_request(*links: str, q: np.ndarray = HOME, frame: str = 'base') -> GetPositionFK.Request:
    request = GetPositionFK.Request(fk_link_names=list(links))
    request.header.frame_id = frame
    request.robot_state.joint_state = joint_state_msg(q, JOINT_NAMES)
    return request


def motion_request(
    planner_id: str = 'LIN', T: np.ndarray = GOAL, goals: Sequence[Constraints] = ()
) -> GetMotionPlan.Request:
    """A goal for the tool in base, or other `goals`, from a known start."""
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
    wish.goal_constraints = list(goals) or wish.goal_constraints
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


def box_message(
    name: str, at: Sequence[float] = (3.0, 3.0, 3.0), size: Sequence[float] = (0.1, 0.1, 0.1)
) -> CollisionObject:
    message = CollisionObject(id=name, operation=CollisionObject.ADD)
    message.header.frame_id = 'base_link'
    message.pose.orientation.w = 1.0
    message.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=list(size))]
    x, y, z = (float(v) for v in at)
    message.primitive_poses = [Pose(position=Point(x=x, y=y, z=z))]
    return message
