# SPDX-License-Identifier: Apache-2.0
"""The UR5 of the simulated cell with its tool down over the table, and boxes beside it."""

import numpy as np
from solids import UR5

from ur5_pick_place.kinematics import inverse
from ur5_pick_place.planning.scene.scene import Box

HALF_CUBE = 0.0225


def tool_down(x, y, z, yaw=0.0):
    """Pose of tool0 in `base` that puts the TCP, pointing down, to a spot in base_link."""
    c, s = np.cos(yaw), np.sin(yaw)
    T = np.eye(4)
    T[:3, :3] = [[c, s, 0], [s, -c, 0], [0, 0, -1]]
    T[:3, 3] = -x, -y, z + 0.145
    return T


def elbow_up_at(x, y, z, yaw=0.0):
    """Joints on branch left-up-down."""
    q, ok = inverse(UR5, tool_down(x, y, z, yaw))
    assert ok[0]
    return q[0]


def box_at(name, position, size):
    T = np.eye(4)
    T[:3, 3] = position
    return Box(name, T, size)
