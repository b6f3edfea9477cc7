# SPDX-License-Identifier: Apache-2.0
"""Come to rest on the path that is being followed, within the limits."""

import numpy as np

from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.trajectory import Trajectory, at_rest

_KNOTS = 24
_SPACING = 0.02  # [s] between points that repeat the trajectory
_LEAD = 0.1  # [s] in which the controller takes over, wherever it is by then
_DELAYS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)  # [s] beyond that
_LENGTHS = tuple(np.geomspace(0.1, 2.0, 14))  # [s]
_SLACK = 1.005
_JERK_SLACK = 1.05


def brake(trajectory: Trajectory, t: float, limits: Limits) -> Trajectory:
    """
    Return a motion that leaves `trajectory` at time `t` [s] and stops early on its path.

    The pace sigma falls from 1 to 0 as a smooth step, so that a step of length h advances the
    plan's time by h / 2. Where the plan itself already brakes with all it has, slowing down
    further would break its limits: then the step begins later, or the plan is followed to its
    end. The earliest rest that keeps the limits is taken.

    The first point moves, and for a while the motion repeats the plan: sent with the stamp at
    which the plan was at `t`, the controller joins it without a jolt however late it gets it.

    """
    if t >= trajectory.duration:
        return at_rest(trajectory.q[-1])
    remaining = trajectory.duration - t
    choices = sorted(
        (_LEAD + d + h, _LEAD + d, h)
        for d in _DELAYS
        for h in _LENGTHS
        if _LEAD + d + h < remaining
    )
    for _, delay, length in choices:
        stopping = _slow_down(trajectory, t, delay, length)
        _, qd, qdd, qddd = stopping.sample(stopping.dense_times(4e-3))
        used = max(np.abs(qd / limits.qd).max(), np.abs(qdd / limits.qdd).max())
        if used <= _SLACK and np.abs(qddd / limits.qddd).max() <= _JERK_SLACK:
            return stopping
    return _rest_of(trajectory, t)


def _slow_down(trajectory: Trajectory, t: float, delay: float, length: float) -> Trajectory:
    u = np.linspace(0.0, 1.0, _KNOTS)
    # sigma = 1 - (10 u^3 - 15 u^4 + 6 u^5), its rate, and the plan's time as its integral
    pace = 1 - (10 * u**3 - 15 * u**4 + 6 * u**5)
    pace_rate = -30 * u**2 * (1 - u) ** 2 / length
    tau = t + delay + length * (u - 2.5 * u**4 + 3 * u**5 - u**6)
    before = np.arange(0.0, delay - _SPACING / 2, _SPACING)
    pace = np.concatenate([np.ones_like(before), pace])[:, None]
    pace_rate = np.concatenate([np.zeros_like(before), pace_rate])[:, None]
    q, qd, qdd, _ = trajectory.sample(np.concatenate([t + before, tau]))
    velocity, acceleration = qd * pace, qdd * pace**2 + qd * pace_rate
    velocity[-1] = acceleration[-1] = 0.0
    return Trajectory(np.concatenate([before, delay + u * length]), q, velocity, acceleration)


def _rest_of(trajectory: Trajectory, t: float) -> Trajectory:
    times = np.concatenate([[t], trajectory.t[trajectory.t > t + 1e-3]])
    q, qd, qdd, _ = trajectory.sample(times)
    qd[-1] = qdd[-1] = 0.0
    return Trajectory(times - t, q, qd, qdd)
