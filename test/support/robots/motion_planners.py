# SPDX-License-Identifier: Apache-2.0
"""Motion planners of the cell, a place to begin, goals, and how far a motion uses its limits."""

from pathlib import Path

import numpy as np
import pytest

from ur5_pick_place.kinematics import forward, link_frames, load_model
from ur5_pick_place.planning.limits import MotionSettings, Scaling
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.scene_file import load_scene

CONFIG = Path(__file__).parents[3] / 'config'
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


@pytest.fixture(scope='module')
def planner():
    return make_planner()


def tool_down(x, y, z, yaw=0.0):
    """T_base_tool with the TCP of the cell at x, y, z [m] in base_link, tool pointing down."""
    c, s = np.cos(yaw), np.sin(yaw)
    T = np.array([[c, s, 0, x], [s, -c, 0, y], [0, 0, -1, z + 0.145], [0, 0, 0, 1.0]])
    return np.diag([-1.0, -1.0, 1.0, 1.0]) @ T


def excess(trajectory, planner):
    """Worst use of velocity, acceleration, jerk and speed limits; 1 is the limit."""
    t = np.arange(0.0, trajectory.duration, 1e-3)
    _, qd, qdd, qddd = trajectory.sample(t)
    limits = planner.limits
    step = 1e-6
    ahead, behind = (trajectory.sample(t[1:-1] + s)[0] for s in (step, -step))
    T_tool_tcp = planner.scene.tool.T_tool_tcp
    tcp = [(forward(MODEL, q) @ T_tool_tcp)[:, :3, 3] for q in (ahead, behind)]
    elbow = [link_frames(MODEL, q)[:, 2, :3, 3] for q in (ahead, behind)]
    speeds = [np.linalg.norm(a - b, axis=1).max() / (2 * step) for a, b in (tcp, elbow)]
    return [
        np.abs(qd / limits.qd).max(),
        np.abs(qdd / limits.qdd).max(),
        np.abs(qddd / limits.qddd).max(),
        max(speeds) / limits.speed,
    ]


def ptp_to_pose(planner, q_start, T, scaling=Scaling(), branch=''):
    """Return a joint motion to a pose of the tool, on a branch if one is given."""
    return planner.ptp_to_any(q_start, planner.joint_goals(T, q_start, branch), scaling)


def auto_to_pose(planner, q_start, T, branch=''):
    """Return a motion as `auto` to a pose of the tool, on a branch if one is given."""
    return planner.auto(q_start, planner.joint_goals(T, q_start, branch))
