# SPDX-License-Identifier: Apache-2.0
"""Motion planners of the cell, a place to begin and goals, for the tests of what they plan."""

from pathlib import Path

import numpy as np

from ur5_pick_place.kinematics import load_model
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene_file import load_scene

CONFIG = Path(__file__).parents[1] / 'config'
MODEL = load_model('ur5')
FAST = MotionSettings(
    max_acceleration=10.0,
    max_jerk=100.0,
    max_speed=1.5,
    velocity_scaling=1.0,
    acceleration_scaling=1.0,
)
PICK = np.array([0, -np.pi / 2, np.pi / 2, -np.pi / 2, -np.pi / 2, 0])


def make_planner(settings=FAST):
    return MotionPlanner(MODEL, settings, load_scene(CONFIG / 'scene_sim.yaml'))


def tool_down(x, y, z, yaw):
    """T_base_tool with the TCP of the cell at x, y, z [m] in base_link, tool pointing down."""
    c, s = np.cos(yaw), np.sin(yaw)
    T = np.array([[c, s, 0, x], [s, -c, 0, y], [0, 0, -1, z + 0.145], [0, 0, 0, 1.0]])
    return np.diag([-1.0, -1.0, 1.0, 1.0]) @ T
