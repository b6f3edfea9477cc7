# SPDX-License-Identifier: Apache-2.0
"""Whether a closed loop still gets nearer to its goal, and what holds it up if not."""

import numpy as np

from ur5_pick_place.kinematics import JOINT_NAMES, Model, singularity
from ur5_pick_place.kinematics.transforms import Array

# By how much the error must shrink to count as progress: a share of it, or in metres.
_SHARE, _WAY = 0.05, 0.002
# What counts as near, when the cause of a stall is named.
_NEAR_LIMIT = 0.05  # [rad]
_NEAR = {'shoulder': (0.02, 'm'), 'elbow': (0.3, 'rad'), 'wrist': (0.15, 'rad')}


class ProgressMonitor:
    """
    Remembers the smallest error and when it was seen.

    Parameters
    ----------
    patience : float
        How long the error may stay the same [s].

    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._best, self._since = np.inf, 0.0

    def is_stalled(self, time: float, error: float) -> bool:
        """Take the error at a time [s]; return whether it has not shrunk for too long."""
        if error < max((1.0 - _SHARE) * self._best, self._best - _WAY):
            self._best, self._since = error, time
        return time - self._since > self._patience


def stall_reason(model: Model, q: Array) -> str:
    """Say what may hold the arm up at joints `q` (6,) [rad], and what to do."""
    margin = np.minimum(q - model.q_min, model.q_max - q)
    joint = int(margin.argmin())
    if margin[joint] < _NEAR_LIMIT:
        return (
            f'{JOINT_NAMES[joint]} = {np.degrees(q[joint]):.1f} deg is at the end of its range; '
            'start from another branch or turn'
        )
    distance = singularity(model, q)
    near = {
        name: float(getattr(distance, name)) / bound
        for name, (bound, _) in _NEAR.items()
        if float(getattr(distance, name)) < bound
    }
    if near:
        name = min(near, key=lambda n: near[n])
        return (
            f'the arm is {float(getattr(distance, name)):.3f} {_NEAR[name][1]} from its {name} '
            'singularity; move the line away from it or choose another branch'
        )
    return 'nothing of the arm is at an end; is something in its way, or the link or the PC late?'
