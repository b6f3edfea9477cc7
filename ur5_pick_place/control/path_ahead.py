# SPDX-License-Identifier: Apache-2.0
"""The path ahead of a running or braking motion, and whether an obstacle in it is too near."""

import numpy as np

from ur5_pick_place.control.controller import Goal
from ur5_pick_place.control.loops.stream import Stream
from ur5_pick_place.control.motion_monitor import path_from
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner

_STEP = 0.02  # [s] between samples; the collision check sweeps between them


def path_ahead(motion: Goal | Stream | None, q: Array | None) -> Array:
    """Return the joints (n, 6) [rad] that a motion will pass from `q` (6,) on; n = 0 if none."""
    if motion is None or q is None:
        return np.empty((0, 6))
    if motion.trajectory is None:
        return _joints_along(motion.loop.braking)
    within = motion.monitor.within if isinstance(motion, Goal) else (0.0, float('inf'))
    return path_from(q, motion.trajectory, within)


def _joints_along(braking: Trajectory | None) -> Array:
    if braking is None:
        return np.empty((0, 6))
    return braking.sample(braking.dense_times(_STEP))[0]


def too_near(planner: MotionPlanner, braking: Trajectory | None) -> str:
    """Return what to add to a stop reason if the arm cannot brake before an obstacle, or ''."""
    if braking is None or not planner.why_blocked(_joints_along(braking)):
        return ''
    return (
        f'; the arm needs {braking.duration:.2f} s to brake and cannot stop before it, so the '
        'motion was canceled at once: look whether the arm has touched it'
    )
