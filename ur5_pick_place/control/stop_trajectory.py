# SPDX-License-Identifier: Apache-2.0
"""Come to rest on the path that is being followed, and set off on it again, within the limits."""

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.timing import stretch
from ur5_pick_place.planning.trajectory import Trajectory, at_rest

_KNOTS = 24
_DENSE = np.linspace(0.0, 1.0, 1000)
# Messages carry whole nanoseconds: rounding the times of points that are 1 ms apart adds up to
# 40 % of jerk, as it grows with the cube. So points are sampled at whole nanoseconds, well apart.
_GAP = 4e-3  # [s] between two points at least
_DIGITS = 9
_SPACING = 0.02  # [s] between points that repeat the trajectory
_DELAYS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)  # [s] beyond the time to take over
_LENGTHS = tuple(np.geomspace(0.1, 2.0, 14))  # [s]
_SLACK = 1.005
_JERK_SLACK = 1.05
# Rather than not before the end of the motion: the plan repeated at other points than its own
# costs some jerk where the plan is at its limit.
_HASTY_JERK = 1.5


def brake(
    trajectory: Trajectory, t: float, limits: Limits, takeover_time: float = 0.1
) -> Trajectory:
    """
    Return a motion that leaves `trajectory` at time `t` [s] and stops early on its path.

    The pace sigma falls from 1 to 0 as a smooth step, so that a step of length h advances the
    plan's time by h / 2. Where the plan itself already brakes with all it has, slowing down
    further would break its limits: then the step begins later, or takes half as much jerk again,
    or the plan is followed to its end. The earliest rest that keeps the limits is taken.

    The first point moves, and for a while the motion repeats the plan: sent with the stamp at
    which the plan was at `t`, the controller joins it without a jolt if it gets it within the
    `takeover_time` [s]; later than that it meets the ramp half-way and catches up with it.

    """
    if t >= trajectory.duration:
        return at_rest(trajectory.q[-1])
    remaining = trajectory.duration - t
    t = round(t, _DIGITS)
    choices = sorted(
        (takeover_time + d + h, takeover_time + d, h)
        for d in _DELAYS
        for h in _LENGTHS
        if takeover_time + d + h < remaining
    )
    hasty: Trajectory | None = None
    for _, delay, length in choices:
        stopping = _slow_down(trajectory, t, delay, length)
        if _is_within(stopping, limits):
            return stopping
        if hasty is None and _is_within(stopping, limits, _HASTY_JERK):
            hasty = stopping
    return hasty or _rest_of(trajectory, t)


def set_off_again(trajectory: Trajectory, q: Array, limits: Limits) -> Trajectory:
    """
    Return the rest of `trajectory` for an arm that came to rest on its path at joints `q` (6,).

    The pace rises from 0 to 1 as a smooth step, nowhere faster than the plan; the quickest start
    that keeps the limits is taken.

    """
    times = trajectory.dense_times(_SPACING / 10)
    t = float(times[np.abs(trajectory.sample(times)[0] - q).max(axis=1).argmin()])
    if trajectory.duration - t < _SPACING / 10:
        return at_rest(trajectory.q[-1])
    for length in _LENGTHS:
        rest = _speed_up(trajectory, t, length)
        if _is_within(rest, limits):
            return rest
    return stretch(rest, _excess(rest, limits))


def _used(trajectory: Trajectory, limits: Limits) -> tuple[float, float, float]:
    """Return the largest shares of the limits on velocity, acceleration and jerk."""
    _, qd, qdd, qddd = trajectory.sample(trajectory.dense_times(4e-3))
    shares = (qd / limits.qd, qdd / limits.qdd, qddd / limits.qddd)
    velocity, acceleration, jerk = (float(np.abs(share).max()) for share in shares)
    return velocity, acceleration, jerk


def _is_within(trajectory: Trajectory, limits: Limits, jerk_slack: float = _JERK_SLACK) -> bool:
    velocity, acceleration, jerk = _used(trajectory, limits)
    return max(velocity, acceleration) <= _SLACK and jerk <= jerk_slack


def _excess(trajectory: Trajectory, limits: Limits) -> float:
    """Return how many times longer a motion must last to keep the limits."""
    velocity, acceleration, jerk = _used(trajectory, limits)
    return float(max(1.0, velocity, acceleration**0.5, jerk ** (1 / 3)))


def _speed_up(trajectory: Trajectory, t: float, length: float) -> Trajectory:
    # The plan's time advances by length / 2 in the ramp, or the plan ends within it.
    def advanced(u: Array) -> Array:
        return length * (2.5 * u**4 - 3 * u**5 + u**6)

    end = float(np.interp(trajectory.duration - t, advanced(_DENSE), _DENSE))
    own = np.interp(trajectory.t - t, advanced(_DENSE), _DENSE)
    u = _whole(_merged(np.linspace(0.0, end, _KNOTS), own, _GAP / length), length)
    pace = (10 * u**3 - 15 * u**4 + 6 * u**5)[:, None]
    pace_rate = (30 * u**2 * (1 - u) ** 2 / length)[:, None]
    q, qd, qdd, _ = trajectory.sample(t + advanced(u))
    velocity, acceleration = qd * pace, qdd * pace**2 + qd * pace_rate
    reached = t + advanced(u)[-1]
    after = trajectory.t > reached + _GAP
    times = np.concatenate([u * length, trajectory.t[after] - reached + u[-1] * length])
    rows = ((q, trajectory.q), (velocity, trajectory.qd), (acceleration, trajectory.qdd))
    joined = [np.concatenate([ramp, plan[after]]) for ramp, plan in rows]
    joined[0][-1] = trajectory.q[-1]
    joined[1][-1] = joined[2][-1] = 0.0
    return Trajectory(times, *joined)


def _slow_down(trajectory: Trajectory, t: float, delay: float, length: float) -> Trajectory:
    # sigma = 1 - (10 u^3 - 15 u^4 + 6 u^5), its rate, and the plan's time as its integral
    def advanced(u: Array) -> Array:
        return length * (u - 2.5 * u**4 + 3 * u**5 - u**6)

    own = np.interp(trajectory.t - t - delay, advanced(_DENSE), _DENSE)
    u = _whole(_merged(np.linspace(0.0, 1.0, _KNOTS), own, _GAP / length), length)
    pace = 1 - (10 * u**3 - 15 * u**4 + 6 * u**5)
    pace_rate = -30 * u**2 * (1 - u) ** 2 / length
    even = np.append(np.arange(0.0, delay, _SPACING), delay)
    before = _merged(even, trajectory.t - t, _GAP)
    before = np.round(before[before < delay - _GAP], _DIGITS)
    pace = np.concatenate([np.ones_like(before), pace])[:, None]
    pace_rate = np.concatenate([np.zeros_like(before), pace_rate])[:, None]
    tau = np.concatenate([t + before, t + delay + advanced(u)])
    q, qd, qdd, _ = trajectory.sample(tau)
    velocity, acceleration = qd * pace, qdd * pace**2 + qd * pace_rate
    velocity[-1] = acceleration[-1] = 0.0
    return Trajectory(np.concatenate([before, delay + u * length]), q, velocity, acceleration)


def _whole(u: Array, length: float) -> Array:
    """Return shares of a ramp of `length` [s], moved to the nearest whole nanosecond."""
    return np.round(u * length, _DIGITS) / length


def _merged(even: Array, own: Array, gap: float) -> Array:
    """
    Return both in order, within the ends of `even`, no two closer than `gap` to each other.

    The plan's own points are kept rather than even ones: there its jerk switches.

    """
    first, last = even[0], even[-1]
    own = own[(own > first + gap) & (own < last - gap)]
    kept = np.concatenate([[first], own, [last]])
    far = np.abs(even[:, None] - kept).min(axis=1) >= gap
    return np.sort(np.concatenate([kept, even[far]]))


def _rest_of(trajectory: Trajectory, t: float) -> Trajectory:
    times = np.concatenate([[t], trajectory.t[trajectory.t > t + 1e-3]])
    q, qd, qdd, _ = trajectory.sample(times)
    qd[-1] = qdd[-1] = 0.0
    return Trajectory(times - t, q, qd, qdd)
