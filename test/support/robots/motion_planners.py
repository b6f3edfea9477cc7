# SPDX-License-Identifier: Apache-2.0
"""Motion planners of the cell, a place to begin, goals, and how far a motion uses its limits."""

from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import BPoly

from ur5_pick_place.kinematics import load_model, transforms
from ur5_pick_place.planning.limits import MotionSettings, Scaling, tcp_and_elbow_speed
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
P_TCP = np.array([0.0, 0.0, 0.145])  # [m] in the tool
PICK = np.array([0, -np.pi / 2, np.pi / 2, -np.pi / 2, -np.pi / 2, 0])


def make_planner(settings=FAST):
    return MotionPlanner(MODEL, settings, load_scene(CONFIG / 'scene_sim.yaml'))


@pytest.fixture(scope='module')
def planner():
    return make_planner()


def tool_down(x, y, z, yaw=0.0):
    """T_base_tool with the TCP of the cell at x, y, z [m] in base_link, tool pointing down."""
    return np.diag([-1.0, -1.0, 1.0, 1.0]) @ transforms.tool_down(x, y, z + 0.145, yaw)


def speed_of(q, qd):
    """Speeds of TCP and elbow, (..., 2) [m/s]."""
    return tcp_and_elbow_speed(MODEL, q, qd, P_TCP)


def peaks(trajectory, limits):
    """
    Use of velocity, acceleration, jerk and speed limits; 1 is the limit.

    Of the trajectory as the controller interpolates it, read by SciPy's Hermite polynomials.
    """
    points = np.stack([trajectory.q, trajectory.qd, trajectory.qdd], axis=1)
    quintics = BPoly.from_derivatives(trajectory.t, points)
    t = np.arange(0.0, trajectory.duration, max(1e-4, trajectory.duration / 30000))
    q, qd, qdd, qddd = (quintics(t, nu=k) for k in range(4))
    return (
        np.abs(qd / limits.qd).max(),
        np.abs(qdd / limits.qdd).max(),
        np.abs(qddd / limits.qddd).max(),
        speed_of(q, qd).max() / limits.speed,
    )


def ptp_to_pose(planner, q_start, T, scaling=Scaling(), branch=''):
    """Return a joint motion to a pose of the tool, on a branch if one is given."""
    return planner.ptp_to_any(q_start, planner.joint_goals(T, q_start, branch), scaling)


def auto_to_pose(planner, q_start, T, branch=''):
    """Return a motion as `auto` to a pose of the tool, on a branch if one is given."""
    return planner.auto(q_start, planner.joint_goals(T, q_start, branch))
