# SPDX-License-Identifier: Apache-2.0
"""
What a MoveIt client of the usual kind sends, field by field, and how it asks `move_action`.

Written after the requests that pymoveit2 makes: a start state copied whole from joint_states, in
that topic's order, with velocities and efforts; goals as a sphere of 1 mm and tolerances of 1e-3;
a workspace, attempts and a planning time that it never tells its user of.

"""

from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import Pose
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import (
    Constraints,
    JointConstraint,
    MotionPlanRequest,
    OrientationConstraint,
    PositionConstraint,
)
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose

_LATEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


def wanted_joints(q: Sequence[float], tolerance: float = 1e-3) -> list[JointConstraint]:
    return [
        JointConstraint(
            joint_name=name,
            position=float(v),
            tolerance_above=tolerance,
            tolerance_below=tolerance,
            weight=1.0,
        )
        for name, v in zip(JOINT_NAMES, q, strict=True)
    ]


def wanted_pose(
    T: np.ndarray, frame: str = 'base_link', link: str = 'tool0'
) -> tuple[PositionConstraint, OrientationConstraint]:
    pose = matrix_to_pose(T)
    position = PositionConstraint(link_name=link, weight=1.0)
    position.header.frame_id = frame
    position.constraint_region.primitives = [
        SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[1e-3])
    ]
    position.constraint_region.primitive_poses = [Pose(position=pose.position)]
    orientation = OrientationConstraint(link_name=link, orientation=pose.orientation, weight=1.0)
    orientation.header.frame_id = frame
    for axis in 'xyz':
        setattr(orientation, f'absolute_{axis}_axis_tolerance', 1e-3)
    return position, orientation


def motion_request(
    goals: Sequence[Constraints], start: JointState, scaling: float = 0.0
) -> MotionPlanRequest:
    request = MotionPlanRequest(
        goal_constraints=list(goals),
        group_name='ur_manipulator',
        num_planning_attempts=5,
        allowed_planning_time=0.5,
        max_velocity_scaling_factor=scaling,
        max_acceleration_scaling_factor=scaling,
        cartesian_speed_limited_link='tool0',
    )
    workspace = request.workspace_parameters
    workspace.header.frame_id = 'base_link'
    for corner, value in ((workspace.min_corner, -1.0), (workspace.max_corner, 1.0)):
        corner.x = corner.y = corner.z = value
    request.start_state.joint_state = start
    return request


class MoveGroupClient:
    """Asks `move_action` through a `DriverClient`, and keeps what it is told meanwhile."""

    def __init__(self, client) -> None:
        self._client = client
        self.states: list[str] = []
        self._action = ActionClient(
            client.node,
            MoveGroup,
            'move_action',
            goal_service_qos_profile=QoSProfile(depth=1),
            feedback_sub_qos_profile=_LATEST,
            status_sub_qos_profile=_LATEST,
        )

    def start(self, *goals: Constraints, scaling: float = 0.0, **options):
        """Send a goal from where the arm is; returns its handle."""
        self._client.until(self._action.server_is_ready, 'move_action')
        goal = MoveGroup.Goal()
        goal.request = motion_request(goals, self._client.joints[-1], scaling)
        for name, value in options.items():
            setattr(goal.planning_options, name, value)
        self.states.clear()
        sent = self._action.send_goal_async(goal, lambda m: self.states.append(m.feedback.state))
        return self._client.wait(sent, 'the answer to a goal of move_action')

    def end(self, handle) -> tuple[int, MoveGroup.Result]:
        reply = self._client.wait(handle.get_result_async(), 'the end of a goal', 60.0)
        return reply.status, reply.result
