# SPDX-License-Identifier: Apache-2.0
"""
The UR3 laboratory exercise: its world and gripper frames, for the model 'ur3_lab'.

The exercise commands the gripper's point in the world frame, in metres, and a yaw; the tool always
points down. Both functions below use the same two constants. The exercise's own forward kinematics
uses 0.060 m where its inverse uses 0.0535 m, so that the two differ by 6.5 mm along the
yaw direction.

"""

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.kinematics.transforms import (
    Array,
    exp_so3,
    inverse_transform,
    make_transform,
)

LAB_BRANCH = 'left-up-up'  # elbow up, theta_5 = -pi/2

# The world frame is offset on the table, and the exercise aims 8 mm lower than its z says.
T_BASE_WORLD = make_transform(np.eye(3), [0.15, -0.15, -0.008])

# The gripper's point: 59 mm beyond the flange and 53.5 mm to the side, along the yaw direction.
T_TOOL_GRIP = make_transform(np.diag([-1.0, 1.0, -1.0]), [-0.0535, 0.0, 0.059])


def lab_tool_pose(position: ArrayLike, yaw: float) -> Array:
    """
    Return T_base_tool (4, 4) for the gripper's point in the world [m] and its yaw [rad].

    Pass the result to `inverse` with the model 'ur3_lab'; the exercise's own joints are those in
    the row of `LAB_BRANCH`.

    """
    T_world_grip = make_transform(exp_so3([0.0, 0.0, yaw]), position)
    T_base_tool: Array = T_BASE_WORLD @ T_world_grip @ inverse_transform(T_TOOL_GRIP)
    return T_base_tool


def lab_grip_pose(T_base_tool: ArrayLike) -> Array:
    """Return T_world_grip (..., 4, 4) of poses T_base_tool (..., 4, 4)."""
    T_base_grip = np.asarray(T_base_tool, dtype=np.float64) @ T_TOOL_GRIP
    T_world_grip: Array = inverse_transform(T_BASE_WORLD) @ T_base_grip
    return T_world_grip
