# SPDX-License-Identifier: Apache-2.0
"""Brake to rest on the path of a running trajectory, and resume it, within the limits."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from ur5_pick_place.control.loops.ramp import Ramp, SpeedProfile
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.trajectory import Trajectory, hold_trajectory
from ur5_pick_place.planning.timing.ptp import stretch

_KNOTS = 24
_DENSE = np.linspace(0.0, 1.0, 1000)
# Messages carry whole nanoseconds. Rounding the times of points 1 ms apart would add up to 40 % of
# jerk, an error that grows as 1 / spacing^3. So points are sampled at whole nanoseconds, at least
# _GAP apart.
_GAP = 4e-3  # [s]
_DIGITS = 9
_SPACING = 0.02  # [s] between points that repeat the trajectory
_DELAYS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)  # [s] beyond the takeover time
_LENGTHS = tuple(np.geomspace(0.1, 1.5, 20))  # [s]
_STARTS = tuple(np.geomspace(0.1, 2.0, 14))  # [s] from rest to the speed of the plan
_RAMPS = tuple(Ramp(rise, fall) for rise in (0.1, 0.25, 0.45) for fall in (0.1, 0.25, 0.45))
_CHOICES = np.array(
    sorted((d + h, d, h, ramp) for d in _DELAYS for h in _LENGTHS for ramp in range(len(_RAMPS)))
)
_EQUALLY_NEAR = 5e-3  # [rad]; how much nearer a later pass must be to count as the present one
_SLACK = 1.005
_JERK_SLACK = 1.05  # as the gate's
_BETWEEN = 1.002  # margin for values between samples, and for rounding in messages
# A plan at its jerk limit leaves nothing for braking: a stop that comes sooner by _SOONER [s] may
# use more.
_HIGH_JERK, _SOONER = 1.5, 0.1
# Fractions of the limits that a stop along the path may use.
_SHARES = (0.95, 0.8, 0.65, 0.5, 0.4)
# A motion may end as planned if less than _NEAR_END [s], or less than _NEAR_END_STOPS times the
# shortest stop, is left.
_NEAR_END, _NEAR_END_STOPS = 1.0, 1.5
_GENTLER = 0.03  # [s] by which the next stop tried is later, where one needs too much torque
_PATH_SAMPLES = 200
# [s]; joint speed divided by the acceleration limit, below which the arm counts as at rest
_STANDING = 1e-3
_COARSE = np.linspace(0.0, 1.0, 33)  # fractions of a ramp at which its jerk is estimated
_PROFILES = np.array(
    [[ramp.advanced(_COARSE), ramp.sigma(_COARSE), ramp.rate(_COARSE), ramp.curvature(_COARSE)]
     for ramp in _RAMPS]
)  # fmt: skip
_GRID = 4e-3  # [s] between the samples of the plan for the jerk estimate
_AT_ONCE = 96  # ramps that are estimated together


def brake(
    trajectory: Trajectory,
    t: float,
    limits: Limits,
    takeover_time: float = 0.1,
    is_late: Callable[[], bool] = lambda: False,
    dynamics: Dynamics | None = None,
) -> Trajectory | None:
    """
    Return a motion that replaces `trajectory` from time `t` [s] on and stops on its path.

    Two kinds of stop are tried. First the speed along the path falls as a `SpeedProfile`, which is
    best where the plan speeds up; it is taken if it is within 0.1 s of the shortest stop that the
    limits allow. Otherwise the time scaling falls from 1 to 0 as a `Ramp`, if that stops earlier.
    Of each kind the earliest stop that keeps the limits is chosen, or one with up to 1.5 times the
    jerk limit if it comes 0.1 s sooner. Where the plan brakes at its limits, braking harder would
    exceed them: then the ramp begins later, or the plan is followed to its end, if that is near.
    None if nothing is found.

    At the first point the arm is moving, and at first the motion repeats the plan. Sent with the
    stamp at which the plan was at `t`, the controller takes it over without a jump if it is
    received within `takeover_time` [s]; if it is received later, the ramp has already begun, and
    the controller has to catch up.

    With `dynamics`, no stop is chosen that needs more torque than the joints have, unless nothing
    else is found. Once `is_late` returns True, the best so far is returned, even if it needs more;
    None if there is none.

    """
    if t >= trajectory.duration:
        return hold_trajectory(trajectory.q[-1])
    t = round(t, _DIGITS)
    # If the plan's jerk switches close to the takeover time, the ramp begins at the switch.
    switches = trajectory.t[np.abs(trajectory.t - t - takeover_time) < _GAP]
    delay = round(float(switches[0]) - t, _DIGITS) if len(switches) else takeover_time
    least = delay + _stop_time(trajectory, t, limits)
    along, high_torque = _along_path(trajectory, t, limits, delay, dynamics)
    if along and along.duration < least + _SOONER:
        return along
    remaining = trajectory.duration - t
    end = along.duration if along else remaining
    scaled, scaled_high_torque = _time_scaled(trajectory, t, limits, delay, end, is_late, dynamics)
    stopping, high_torque = scaled or along, high_torque or scaled_high_torque
    if stopping or is_late():
        return stopping or high_torque
    is_near_end = remaining < max(_NEAR_END, _NEAR_END_STOPS * least)
    return rest_of(trajectory, t) if is_near_end else high_torque


def _time_scaled(
    trajectory: Trajectory,
    t: float,
    limits: Limits,
    delay: float,
    end: float,
    is_late: Callable[[], bool],
    dynamics: Dynamics | None,
) -> tuple[Trajectory | None, Trajectory | None]:
    """Return the earliest `Ramp` stop before `end` [s], and one that needs too much torque."""
    choices = _CHOICES + (delay, delay, 0.0, 0.0)
    choices = choices[choices[:, 0] < end]
    high_jerk: Trajectory | None = None
    high_torque: Trajectory | None = None
    earliest = 0.0
    for (stop, begin, length, ramp), jerk in _estimated_jerk(trajectory, t, choices, limits):
        if is_late() or (high_jerk and stop > high_jerk.duration + _SOONER):
            return high_jerk, high_torque
        max_jerk = _JERK_SLACK if high_jerk else _HIGH_JERK
        if jerk > max_jerk or stop < earliest:
            continue
        stopping = _slow_down(trajectory, t, begin, length, _RAMPS[int(ramp)])
        velocity, acceleration, jerk = _used(stopping, limits)
        if max(velocity, acceleration) > _SLACK or jerk > max_jerk:
            continue
        if dynamics and _exceeds_torque(stopping, dynamics):
            high_torque, earliest = stopping, stop + _GENTLER
        elif jerk <= _JERK_SLACK:
            return stopping, None
        else:
            high_jerk = stopping
    is_sooner = high_jerk and high_jerk.duration + _SOONER < end
    return high_jerk if is_sooner else None, high_torque


def _stop_time(trajectory: Trajectory, t: float, limits: Limits) -> float:
    """Return how long the joints take to stop from time `t`, each within its own limits [s]."""
    _, qd, qdd, _ = np.abs(trajectory.sample(np.array([t])))[:, 0]
    rise = qdd / limits.qddd  # until the acceleration is 0
    speed = qd + qdd * rise / 2
    is_quick = speed * limits.qddd < limits.qdd**2
    quick, slow = 2 * np.sqrt(speed / limits.qddd), speed / limits.qdd + limits.qdd / limits.qddd
    return float((rise + np.where(is_quick, quick, slow)).max())


def _along_path(
    trajectory: Trajectory,
    t: float,
    limits: Limits,
    delay: float,
    dynamics: Dynamics | None,
) -> tuple[Trajectory | None, Trajectory | None]:
    """
    Return the earliest stop by a `SpeedProfile`, and one that needs too much torque.

    None where there is none that is earlier than the end of the plan.

    """
    high_jerk = high_torque = None
    for share in _SHARES:
        stopping = _slow_along(trajectory, t, delay, limits, share)
        if stopping is None or stopping.duration + _SOONER > trajectory.duration - t:
            break  # with a lower share it would be later
        velocity, acceleration, jerk = _used(stopping, limits)
        if max(velocity, acceleration) > _SLACK or jerk > _HIGH_JERK:
            continue
        if dynamics and _exceeds_torque(stopping, dynamics):
            high_torque = stopping
        elif jerk > _JERK_SLACK:
            high_jerk = high_jerk or stopping
        elif high_jerk and high_jerk.duration + _SOONER < stopping.duration:
            break
        else:
            return stopping, None
    return high_jerk, high_torque


def _estimated_jerk(
    trajectory: Trajectory, t: float, choices: Array, limits: Limits
) -> Iterator[tuple[Array, float]]:
    """
    Yield each choice, and the estimated fraction of the jerk limit that it uses.

    That is infinity where the acceleration limit is exceeded.

    `choices` are the time of the stop, delay and length [s] and index of the ramp, (n, 4). Many
    are estimated together, in a hundredth of the time that it takes to build and check each.

    """
    if not len(choices):
        return
    grid = np.arange(0.0, float(choices[:, 0].max()) + _GRID, _GRID)
    plan = trajectory.sample(t + grid)[1:]
    for some in np.array_split(choices, range(_AT_ONCE, len(choices), _AT_ONCE)):
        delay, length, ramp = some[:, 1:2], some[:, 2:3], some[:, 3].astype(int)
        advanced, sigma, rate, curvature = np.moveaxis(_PROFILES[ramp], 1, 0)
        reached = np.rint((delay + length * advanced) / _GRID).astype(int)
        qd, qdd, qddd = (values[reached] for values in plan)
        sigma, rate = sigma[..., None], (rate / length)[..., None]
        acceleration = qdd * sigma**2 + qd * rate
        jerk = qddd * sigma**3 + 3 * qdd * sigma * rate + qd * (curvature / length**2)[..., None]
        is_within = np.abs(acceleration / limits.qdd).max(axis=(1, 2)) <= _SLACK
        yield from zip(
            some, np.where(is_within, np.abs(jerk / limits.qddd).max(axis=(1, 2)), np.inf),
            strict=True,
        )  # fmt: skip


def resume_on_path(
    trajectory: Trajectory,
    q: Array,
    limits: Limits,
    within: tuple[float, float] = (0.0, np.inf),
) -> Trajectory:
    """
    Return the rest of `trajectory` for an arm that came to rest on its path at joints `q` (6,).

    The arm is at a time between the two of `within` [s]. A path that retraces itself passes `q`
    more than once: the earliest pass counts, so that no place after it is left out.

    The time scaling rises from 0 to 1 as a smooth step, nowhere faster than the plan; the quickest
    start that keeps the limits is chosen.

    """
    t = _first_pass(trajectory, q, within)
    if trajectory.duration - t < _SPACING / 10:
        return hold_trajectory(trajectory.q[-1])
    for length in _STARTS:
        rest = _speed_up(trajectory, t, length)
        if _is_within(rest, limits):
            break
    return _slowed(rest, _excess(rest, limits))


def _first_pass(trajectory: Trajectory, q: Array, within: tuple[float, float]) -> float:
    """Return when the path first passes joints `q` (6,), between the times `within` [s]."""
    times = trajectory.dense_times(_SPACING / 10)
    first = min(int(np.searchsorted(times, within[0])), len(times) - 1)
    times = times[first : max(int(np.searchsorted(times, within[1], side='right')), first + 1)]
    away = np.linalg.norm(trajectory.sample(times)[0] - q, axis=1)
    before, after = np.append(np.inf, away[:-1]), np.append(away[1:], np.inf)
    passes = (away <= before) & (away <= after) & (away <= away.min() + _EQUALLY_NEAR)
    return float(times[passes.argmax()])


def _used(trajectory: Trajectory, limits: Limits) -> tuple[float, float, float]:
    """Return the largest fractions of the limits on velocity, acceleration and jerk."""
    _, qd, qdd, _ = trajectory.sample(trajectory.dense_times(4e-3))
    shares = (qd / limits.qd, qdd / limits.qdd, trajectory.jerk_peaks()[1] / limits.qddd)
    velocity, acceleration, jerk = (float(np.abs(share).max()) for share in shares)
    return velocity, acceleration, jerk


def _is_within(trajectory: Trajectory, limits: Limits) -> bool:
    velocity, acceleration, jerk = _used(trajectory, limits)
    return max(velocity, acceleration) <= _SLACK and jerk <= _JERK_SLACK


def _exceeds_torque(trajectory: Trajectory, dynamics: Dynamics) -> bool:
    """Return whether a motion needs more torque than a joint has, at one of its points."""
    torque = dynamics.inverse(trajectory.q, trajectory.qd, trajectory.qdd)
    return bool((np.abs(torque) > _SLACK * dynamics.torque_max).any())


def _excess(trajectory: Trajectory, limits: Limits) -> float:
    """Return the factor by which a motion must be stretched to pass the gate, at least 1."""
    velocity, acceleration, jerk = _used(trajectory, limits)
    acceleration *= _BETWEEN
    return float(max(1.0, velocity, acceleration**0.5, (_BETWEEN * jerk / _JERK_SLACK) ** (1 / 3)))


def _slowed(trajectory: Trajectory, factor: float) -> Trajectory:
    """Return a motion to rest that takes `factor` times as long, its times whole nanoseconds."""
    if factor == 1.0:
        return trajectory
    slowed = stretch(trajectory, factor)
    q, qd, qdd, _ = slowed.sample(times := np.round(slowed.t, _DIGITS))
    q[-1], qd[-1], qdd[-1] = trajectory.q[-1], 0.0, 0.0
    return Trajectory(times, q, qd, qdd)


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


def _slow_down(
    trajectory: Trajectory, t: float, delay: float, length: float, ramp: Ramp
) -> Trajectory:
    reached = np.interp(trajectory.t - t - delay, length * ramp.advanced(_DENSE), _DENSE)
    gap = _GAP / length
    # Two points that round to the same nanosecond are no valid trajectory.
    own = [*reached, *(knot for knot in ramp.knots if np.abs(reached - knot).min() >= gap)]
    u = _whole(_merged(np.linspace(0.0, 1.0, _KNOTS), np.sort(own), gap), length)
    tau = t + delay + length * ramp.advanced(u)
    return _scaled(trajectory, t, delay, u * length, tau, ramp.sigma(u), ramp.rate(u) / length)


def _slow_along(
    trajectory: Trajectory, t: float, delay: float, limits: Limits, share: float
) -> Trajectory | None:
    """
    Return a stop that reduces the speed along the path; None if the plan itself ends sooner.

    That speed is the norm of the joint velocities, each in units of its acceleration limit. The
    stop uses a fraction `share` of the limits.

    """
    begin, remaining = t + delay, trajectory.duration - t - delay
    if remaining <= 0.0:
        return None
    (speed,), (speed_rate,), (ratio,) = _speed_along(trajectory, np.array([begin]), limits)
    jerk = share * ratio * float((limits.qddd / limits.qdd).min())
    if min(speed, speed - np.copysign(speed_rate**2, -speed_rate) / (2 * jerk)) < _STANDING:
        return None  # the plan comes to rest
    profile = SpeedProfile(speed, speed_rate, share * ratio, jerk)
    tau = begin + np.linspace(0.0, min(profile.duration, remaining), _PATH_SAMPLES)
    speeds, rates, _ = _speed_along(trajectory, tau, limits)
    if speeds.min() < _STANDING:
        return None
    step = tau[1] - tau[0]
    lengths = step / 2 * (speeds[1:] + speeds[:-1]) - step**2 / 12 * np.diff(rates)
    distance = np.append(0.0, np.cumsum(lengths))
    if distance[-1] < profile.distance(profile.duration):
        return None
    time_at = CubicHermiteSpline(distance, tau, 1.0 / speeds)
    even = np.linspace(0.0, profile.duration, _KNOTS)
    dense = profile.duration * _DENSE
    own = np.interp(trajectory.t, time_at(profile.distance(dense)), dense)
    for knot in profile.knots:
        if np.abs(own - knot).min() >= _GAP:
            own = np.append(own, knot)
    times = np.round(_merged(even, np.sort(own), _GAP), _DIGITS)
    tau = time_at(profile.distance(times))
    speeds, rates, _ = _speed_along(trajectory, tau, limits)
    sigma = profile.speed(times) / speeds
    sigma_rate = (profile.rate(times) - rates * sigma**2) / speeds
    return _scaled(trajectory, t, delay, times, tau, sigma, sigma_rate)


def _speed_along(
    trajectory: Trajectory, tau: Array, limits: Limits
) -> tuple[Array, Array, Array]:
    """Return speed along the path, its rate, and the speed in multiples of the fastest joint's."""
    _, qd, qdd, _ = trajectory.sample(tau)
    qd, qdd = qd / limits.qdd, qdd / limits.qdd
    speed = np.linalg.norm(qd, axis=1)
    safe = np.maximum(speed, _STANDING)
    fastest = np.maximum(np.abs(qd).max(axis=1), _STANDING)
    return speed, (qd * qdd).sum(axis=1) / safe, safe / fastest


def _scaled(
    trajectory: Trajectory,
    t: float,
    delay: float,
    times: Array,
    tau: Array,
    sigma: Array,
    sigma_rate: Array,
) -> Trajectory:
    """
    Return a motion that follows the plan from `t` for `delay` [s] and then, time-scaled, to rest.

    `times` (n,) [s] count from then; there the plan's time is `tau` (n,) [s], and advances by
    `sigma`, which changes by `sigma_rate`, both (n,).

    """
    even = np.append(np.arange(0.0, delay, _SPACING), delay)
    before = _merged(even, trajectory.t - t, _GAP)
    before = np.round(before[before < delay - _GAP], _DIGITS)
    sigma = np.concatenate([np.ones_like(before), sigma])[:, None]
    sigma_rate = np.concatenate([np.zeros_like(before), sigma_rate])[:, None]
    q, qd, qdd, _ = trajectory.sample(np.concatenate([t + before, tau]))
    velocity, acceleration = qd * sigma, qdd * sigma**2 + qd * sigma_rate
    velocity[-1] = acceleration[-1] = 0.0
    return Trajectory(np.concatenate([before, delay + times]), q, velocity, acceleration)


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
