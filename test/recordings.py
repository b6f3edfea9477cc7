# SPDX-License-Identifier: Apache-2.0
"""Runs that were never made, to draw."""

import numpy as np

from ur5_pick_place.kinematics import HOME
from ur5_pick_place.sim.cell import upright
from ur5_pick_place.trials.pictures import Recording


def lifting_recording(duration: float = 4.0) -> Recording:
    """Make up a run: the shoulder turns, the cube rises half-way and comes down again."""
    t = np.arange(0.0, duration, 0.008)
    x = t / duration
    T_start, T_target = upright(0.45, -0.3, 0.0225, 0.3), upright(0.5, 0.3, 0.0225, 0.0)
    T_world_part = np.tile(T_start, (t.size, 1, 1))
    T_world_part[:, 1, 3] += 0.6 * x
    T_world_part[:, 2, 3] += 0.3 * np.sin(np.pi * x)
    q = HOME + np.outer(x, [0.8, 0, 0, 0, 0, 0])
    return Recording(t, q, np.zeros((t.size, 2)), T_world_part, T_start, T_target)
