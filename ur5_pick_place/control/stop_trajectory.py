# SPDX-License-Identifier: Apache-2.0
"""Brake to rest on the path of a running trajectory, and resume it, within the limits."""

from collections.abc import Callable

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.timing import stretch
from ur5_pick_place.planning.trajectory import Trajectory, at_rest

_KNOTS = 24
_DENSE = np.linspace(0.0, 1.0, 1000)
# Messages carry whole nanoseconds. Rounding the times of points 1 ms apart would add up to 40 % of
# jerk, which grows with the cube. So points are sampled at whole nanoseconds, at least _GAP apart.
_GAP = 4e-3  # [s]
_DIGITS = 9
_SPACING = 0.02  # [s] between points that repeat the trajectory
_DELAYS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)  # [s] beyond the takeover time
_LENGTHS = tuple(np.geomspace(0.1, 2.0, 14))  # [s]
_SLACK = 1.005
_JERK_SLACK = 1.05
# Accepted if the arm would otherwise stop only at the end of the motion: resampling the plan at
# other points adds some jerk where the plan is at its limit.
_HASTY_JERK = 1.5
_COARSE = np.linspace(0.0, 1.0, 33)  # fractions of a ramp at which it is first looked at
_GRID = 4e-3  # [s] between samples of the plan for that
_DOUBT = 1.15  # a first look that exceeds a limit by less is followed by a second one


def brake(
    trajectory: Trajectory,
    t: float,
    limits: Limits,
    takeover_time: float = 0.1,
    is_late: Callable[[], bool] = lambda: False,
) -> Trajectory | None:
    """
    Return a motion that leaves `trajectory` at time `t` [s] and stops early on its path.

    The time scaling sigma falls from 1 to 0 as a smooth step, so that a step of length h advances
    the plan's time by h / 2. Where the plan itself brakes at its limits, braking harder would
    exceed them: then the step begins later, or uses half as much jerk again, or the plan is
    followed to its end. The earliest stop that keeps the limits is chosen.

    The first point is moving, and at first the motion repeats the plan. Sent with the stamp at
    which the plan was at `t`, the controller takes it over without a jump if it is received within
    `takeover_time` [s]; after that it meets the ramp half-way and has to catch up.

    None once `is_late` returns True.

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
    jerks = _first_look(trajectory, t, np.array(choices)[:, 1:], limits) if choices else ()
    for (_, delay, length), jerk in zip(choices, jerks, strict=True):
        if is_late():
            return None
        if jerk > _DOUBT * (_JERK_SLACK if hasty else _HASTY_JERK):
            continue
        stopping = _slow_down(trajectory, t, delay, length)
        if _is_within(stopping, limits):
            return stopping
        if hasty is None and _is_within(stopping, limits, _HASTY_JERK):
            hasty = stopping
    return hasty or rest_of(trajectory, t)


def _first_look(trajectory: Trajectory, t: float, ramps: Array, limits: Limits) -> Array:
    """
    Return about which share of the jerk limit each ramp uses; infinity beyond another limit.

    `ramps` are delays and lengths (n, 2) [s]. All are looked at together, in a hundredth of the
    time that it takes to build and check each.

    """
    delay, length = ramps[:, :1], ramps[:, 1:]
    grid = np.arange(0.0, float((delay + length).max()) + _GRID, _GRID)
    plan = trajectory.sample(t + grid)[1:]
    u = _COARSE
    tau = delay + length * (u - 2.5 * u**4 + 3 * u**5 - u**6)
    qd, qdd, qddd = (values[np.rint(tau / _GRID).astype(int)] for values in plan)
    sigma = (1 - (10 * u**3 - 15 * u**4 + 6 * u**5))[:, None]
    rate = (-30 * u**2 * (1 - u) ** 2 / length)[..., None]
    curvature = (-60 * u * (1 - u) * (1 - 2 * u) / length**2)[..., None]
    acceleration = qdd * sigma**2 + qd * rate
    jerk = qddd * sigma**3 + 3 * qdd * sigma * rate + qd * curvature
    braking = np.abs(acceleration / limits.qdd).max(axis=(1, 2)) <= _DOUBT * _SLACK
    return np.where(braking, np.abs(jerk / limits.qddd).max(axis=(1, 2)), np.inf)


def resume_on_path(trajectory: Trajectory, q: Array, limits: Limits) -> Trajectory:
    """
    Return the rest of `trajectory` for an arm that came to rest on its path at joints `q` (6,).

    The time scaling rises from 0 to 1 as a smooth step, nowhere faster than the plan; the quickest
    start that keeps the limits is chosen.

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
    """Return the largest fractions of the limits on velocity, acceleration and jerk."""
    _, qd, qdd, qddd = trajectory.sample(trajectory.dense_times(4e-3))
    shares = (qd / limits.qd, qdd / limits.qdd, qddd / limits.qddd)
    velocity, acceleration, jerk = (float(np.abs(share).max()) for share in shares)
    return velocity, acceleration, jerk


def _is_within(trajectory: Trajectory, limits: Limits, jerk_slack: float = _JERK_SLACK) -> bool:
    velocity, acceleration, jerk = _used(trajectory, limits)
    return max(velocity, acceleration) <= _SLACK and jerk <= jerk_slack


def _excess(trajectory: Trajectory, limits: Limits) -> float:
    """Return the factor by which a motion must be stretched to keep the limits, at least 1."""
    velocity, acceleration, jerk = _used(trajectory, limits)
    return float(max(1.0, velocity, acceleration**0.5, jerk ** (1 / 3)))


def _speed_up(trajectory: Trajectory, t: float, length: float) -> Trajectory:
    # The plan's time advances by length / 2 in the ramp, or the plan ends within it.
    def advanced(u: Array) -> Array:
        return length * (2.5 * u**4 - 3 * u**5 + u**6)

    end = float(np.interp(trajectory.duration - t, advanced(_DENSE), _DENSE))
    own = np.interp(trajectory.t - t, advanced(_DENSE), _DENSE)
    u = _whole(_merged(np.linspace(0.0, end, _KNOTS), own, _GAP / length), length)
    sigma = (10 * u**3 - 15 * u**4 + 6 * u**5)[:, None]
    sigma_rate = (30 * u**2 * (1 - u) ** 2 / length)[:, None]
    q, qd, qdd, _ = trajectory.sample(t + advanced(u))
    velocity, acceleration = qd * sigma, qdd * sigma**2 + qd * sigma_rate
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
    sigma = 1 - (10 * u**3 - 15 * u**4 + 6 * u**5)
    sigma_rate = -30 * u**2 * (1 - u) ** 2 / length
    even = np.append(np.arange(0.0, delay, _SPACING), delay)
    before = _merged(even, trajectory.t - t, _GAP)
    before = np.round(before[before < delay - _GAP], _DIGITS)
    sigma = np.concatenate([np.ones_like(before), sigma])[:, None]
    sigma_rate = np.concatenate([np.zeros_like(before), sigma_rate])[:, None]
    tau = np.concatenate([t + before, t + delay + advanced(u)])
    q, qd, qdd, _ = trajectory.sample(tau)
    velocity, acceleration = qd * sigma, qdd * sigma**2 + qd * sigma_rate
    velocity[-1] = acceleration[-1] = 0.0
    return Trajectory(np.concatenate([before, delay + u * length]), q, velocity, acceleration)


def _whole(u: Array, length: float) -> Array:
    """Return fractions of a ramp of `length` [s], rounded to whole nanoseconds."""
    return np.round(u * length, _DIGITS) / length


def _merged(even: Array, own: Array, gap: float) -> Array:
    """
    Return both sorted, within the ends of `even`, no even point closer than `gap` to an own one.

    The plan's own points have priority, because its jerk switches there.

    """
    first, last = even[0], even[-1]
    own = own[(own > first + gap) & (own < last - gap)]
    kept = np.concatenate([[first], own, [last]])
    far = np.abs(even[:, None] - kept).min(axis=1) >= gap
    return np.sort(np.concatenate([kept, even[far]]))


def rest_of(trajectory: Trajectory, t: float) -> Trajectory:
    """Return a trajectory from time `t` [s] on."""
    times = np.concatenate([[t], trajectory.t[trajectory.t > t + 1e-3]])
    q, qd, qdd, _ = trajectory.sample(times)
    qd[-1] = qdd[-1] = 0.0
    return Trajectory(times - t, q, qd, qdd)
