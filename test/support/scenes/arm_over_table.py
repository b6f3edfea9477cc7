# SPDX-License-Identifier: Apache-2.0
"""The UR5 of the simulated cell with its tool down over the table, and boxes beside it."""

import numpy as np
from motion_planners import tool_down
from solids import UR5

from ur5_pick_place.kinematics import inverse
from ur5_pick_place.planning.scene.scene import Box

HALF_CUBE = 0.0225


def elbow_up_at(x, y, z, yaw=0.0):
    """Joints on branch left-up-down."""
    q, ok = inverse(UR5, tool_down(x, y, z, yaw))
    assert ok[0]
    return q[0]


def box_at(name, position, size):
    T = np.eye(4)
    T[:3, 3] = position
    return Box(name, T, size)
