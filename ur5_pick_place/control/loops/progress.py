# SPDX-License-Identifier: Apache-2.0
"""Whether a closed loop still approaches its goal, and the likely cause if not."""

import numpy as np

from ur5_pick_place.errors import fixed
from ur5_pick_place.kinematics import JOINT_NAMES, Model
from ur5_pick_place.kinematics.branches import nearest_singularity
from ur5_pick_place.kinematics.transforms import Array

# How far the error must fall to count as progress: a fraction of it, or a distance [m].
_FRACTION, _DISTANCE = 0.05, 0.002
_NEAR_LIMIT = 0.05  # [rad]


class ProgressMonitor:
    """
    Detects that the error no longer falls: keeps its smallest value and the time of it.

    `timeout`: longest time in which the error does not decrease [s].
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._best, self._since = np.inf, 0.0

    def is_stalled(self, time: float, error: float) -> bool:
        """Return whether the error, given at a time [s], has not fallen for too long."""
        if error < max((1.0 - _FRACTION) * self._best, self._best - _DISTANCE):
            self._best, self._since = error, time
        return time - self._since > self._timeout


def stall_reason(model: Model, q: Array) -> str:
    """Return the likely cause of a stall at joints `q` (6,) [rad], and what to do."""
    margin = np.minimum(q - model.q_min, model.q_max - q)
    joint = int(margin.argmin())
    if margin[joint] < _NEAR_LIMIT:
        return (
            f'{JOINT_NAMES[joint]} = {fixed(np.degrees(q[joint]), 1)} deg is at its joint limit; '
            'start from another branch, or with this joint a full turn away'
        )
    nearest = nearest_singularity(model, q)
    if nearest.is_near:
        return (
            f'the arm is {nearest.text}; move the line away from it or choose another branch'
        )
    return (
        'no joint limit or singularity is near; if the arm moved, check for an obstacle and for '
        'delays of network or PC, else use another method'
    )
