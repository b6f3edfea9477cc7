# SPDX-License-Identifier: Apache-2.0
"""Come to rest on the path that is being followed, within the limits."""

import numpy as np

from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.trajectory import Trajectory, at_rest

_KNOTS = 24
_SHORTEST, _LONGEST = 0.1, 3.0  # [s]
_SLACK = 1.01


def brake(trajectory: Trajectory, t: float, limits: Limits) -> Trajectory:
    """
    Return the shortest motion that leaves `trajectory` at time `t` [s] and stops on its path.

    The pace sigma falls from 1 to 0 as a smooth step of length h, so that the plan's time
    advances by h / 2; h is the shortest that keeps the limits. The first point moves.

    """
    if t >= trajectory.duration:
        return at_rest(trajectory.q[-1])
    best, least = None, np.inf
    for h in np.geomspace(_SHORTEST, _LONGEST, 24):
        candidate = _slow_down(trajectory, t, float(h))
        _, _, qdd, qddd = candidate.sample(candidate.dense_times(2e-3))
        excess = max(np.abs(qdd / limits.qdd).max(), np.abs(qddd / limits.qddd).max())
        if excess <= _SLACK:
            return candidate
        if excess < least:
            best, least = candidate, excess
    assert best is not None
    return best


def _slow_down(trajectory: Trajectory, t: float, h: float) -> Trajectory:
    u = np.linspace(0.0, 1.0, _KNOTS)
    # sigma = 1 - (10 u^3 - 15 u^4 + 6 u^5), and its integral and derivative by time
    pace = (1 - (10 * u**3 - 15 * u**4 + 6 * u**5))[:, None]
    pace_rate = (-30 * u**2 * (1 - u) ** 2 / h)[:, None]
    tau = t + h * (u - 2.5 * u**4 + 3 * u**5 - u**6)
    q, qd, qdd, _ = trajectory.sample(tau)
    moving = (tau < trajectory.duration)[:, None]
    qd, qdd = np.where(moving, qd, 0.0), np.where(moving, qdd, 0.0)
    velocity, acceleration = qd * pace, qdd * pace**2 + qd * pace_rate
    velocity[-1] = acceleration[-1] = 0.0
    return Trajectory(u * h, q, velocity, acceleration)
