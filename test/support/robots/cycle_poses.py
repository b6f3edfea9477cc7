# SPDX-License-Identifier: Apache-2.0
"""What a cycle needs to be planned: the cell, and places taught with its tool."""

import numpy as np
from motion_planners import CONFIG, MODEL

from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.kinematics.transforms import tool_down
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.task.places.poses import Provenance, TaughtPose, numbers_from_matrix

SCENE = load_scene(CONFIG / 'scene_sim.yaml')
ORIGIN = Provenance('ur5', '', numbers_from_matrix(SCENE.tool.T_tool_tcp), 0.0)


def taught(x, y, yaw=0.0, z=0.0225):
    T = np.diag([-1.0, -1.0, 1.0, 1.0]) @ tool_down(x, y, z, yaw)
    return TaughtPose(numbers_from_matrix(T), ORIGIN, '2020-01-01T00:00:00+00:00')


def home():
    T = forward(MODEL, HOME) @ SCENE.tool.T_tool_tcp
    return TaughtPose(numbers_from_matrix(T), ORIGIN, 't', tuple(HOME.tolist()), 'left-up-up')


POSES = {'home': home(), 'start': taught(0.45, -0.2), 'target': taught(0.35, 0.25, 1.0)}
