# SPDX-License-Identifier: Apache-2.0
"""
Where on its path an arm is, from its joints alone.

A path that retraces itself passes the same joints more than once: of passes that are about equally
near the earliest counts, so that nothing after it is left out.
"""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics._ik import nearest_row
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.paths.trajectory import PATH_STEP, Trajectory

_STEP = 2e-3  # [s] between samples
_EQUALLY_NEAR = 5e-3  # [rad]
_MUCH_NEARER = 0.02  # [rad]; by which a later pass must be, to be where a path ahead begins
_STANDING = 1e-6  # [rad^2/s^2]; square of the speed of a path that hardly moves


def first_pass(
    trajectory: Trajectory,
    q: Array,
    within: tuple[float, float],
    equally_near: float = _EQUALLY_NEAR,
) -> float:
    """
    Return when the path first passes joints `q` (6,), between the times `within` [s].

    Those are times of samples near the arm, which may be just before the first of them.
    """
    times = trajectory.dense_times(_STEP)
    first = min(int(np.searchsorted(times, within[0] - 2.0 * _STEP)), len(times) - 1)
    times = times[first : max(int(np.searchsorted(times, within[1], side='right')), first + 1)]
    away = np.linalg.norm(trajectory.sample(times)[0] - q, axis=1)
    before, after = np.append(np.inf, away[:-1]), np.append(away[1:], np.inf)
    passes = (away <= before) & (away <= after) & (away <= away.min() + equally_near)
    t, least, most = float(times[passes.argmax()]), float(times[0]), float(times[-1])
    # At the speed of the path samples are up to 6 mrad apart: what begins here would be a step.
    for _ in range(2):
        (at,), (speed,), *_ = trajectory.sample(np.array([t]))
        ahead = float((q - at) @ speed) / max(float(speed @ speed), _STANDING)
        t = min(max(t + min(max(ahead, -_STEP), _STEP), least), most)
    return t


def path_from(
    q: Array, trajectory: Trajectory, within: tuple[float, float] = (0.0, np.inf)
) -> Array:
    """Return joints (n, 6) [rad] from `q` (6,) on; the arm is between two times `within` [s]."""
    times = trajectory.dense_times(PATH_STEP)
    later = times[times >= first_pass(trajectory, q, within, _MUCH_NEARER)]
    return np.vstack([q, trajectory.sample(later)[0]])


@dataclass(eq=False)
class PathTracker:
    """Follows an arm along its path, always forwards."""

    path: Array  # (n, 6) joints [rad]
    ahead: int  # of so many samples the nearest one counts
    equally_near: float = 0.0  # [rad]; of samples that are, the first one counts
    index: int = 0  # of the sample at which the arm is

    def advance(self, q: Array) -> Array:
        """Find the sample nearest to joints (6,) [rad]; return each joint's distance from it."""
        ahead = self.path[self.index : self.index + self.ahead]
        self.index += nearest_row(ahead, q, self.equally_near)
        return np.asarray(np.abs(self.path[self.index] - q))
