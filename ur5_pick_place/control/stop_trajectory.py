# SPDX-License-Identifier: Apache-2.0
"""
Brake to rest on the path of a running trajectory, and resume it, within the limits.

A stop follows one law: from some moment on the speed along the path falls to zero with constant
jerk, constant deceleration and constant jerk again. The speed is the norm of the joint velocities,
each in units of its acceleration limit. Several moments and fractions of the limits are compared,
all at once, on samples of the plan, and the earliest stop counts that keeps the limits. It is
nowhere faster than the plan was at the same place: with sigma, the fraction of the plan's speed,
at most 1, it keeps every bound on speed that the plan has kept there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline

from ur5_pick_place.control.path_position import first_pass
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.dynamics import Dynamics, slowdown_for_torque
from ur5_pick_place.planning.gate import JERK_SLACK, SLACK
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.trajectory import Trajectory, hold_trajectory
from ur5_pick_place.planning.timing.ptp import stretch

_KNOTS = 24
_DENSE = np.linspace(0.0, 1.0, 1000)
# Messages carry whole nanoseconds. Rounding the times of points 1 ms apart would add up to 40 % of
# jerk, an error that grows as 1 / spacing^3. So points are sampled at whole nanoseconds, at least
# _GAP apart.
_GAP = 4e-3  # [s]
_CLOSE = 1e-3  # [s] at least between those of a stop, where a missing switch of jerk costs more
_LEAST_GAP = 1e-4  # [s] between a point of the plan and the first one
_DIGITS = 9
_SPACING = 0.02  # [s] between points of a motion that begins again; another stop needs the gap
_STARTS = tuple(np.geomspace(0.1, 2.0, 14))  # [s] from rest to the speed of the plan
_BETWEEN = 1.002  # margin for values between samples, and for rounding in messages
# Fractions of the limits that a stop may use: of the deceleration, of the jerk until it is reached
# and of the jerk at the end. Where the plan itself is at a limit of jerk, only a gentle beginning
# is possible.
_FRACTIONS = np.array(
    [(peak, first, last) for peak in (0.97, 0.75, 0.5) for first in (0.97, 0.6, 0.3, 0.12)
     for last in (0.97, 0.6)]
)  # fmt: skip
_LATER = np.linspace(0.0, 1.0, 16) ** 1.5  # of the largest delay of a stop
_SAMPLES = 120
_TORQUE_STEP = 2  # samples between two at which torques are computed
_PROFILE_SAMPLES = 20  # of each stop that is compared
_TOGETHER = (24, 96)  # the earliest stops are compared together, then the next, then all others
# Stops that are made and measured, in all and of those that begin at one moment; another is needed
# only if one misses a limit.
_TRIES, _TRIES_OF_ONE = 8, 2
_SAME_SPEED = 1.0008  # sigma at most; the gate allows 1.001 of the limit of speed
_MOST_ACCELERATION, _MOST_JERK = 1.0005, 1.05  # likewise of the limits
_MOST_TORQUE = 0.98
# Share of `_FRACTIONS`, and how much later a stop may begin [s], or 1.2 times the shortest stop.
_SOON, _LATE, _GENTLER = (1.0, 0.3), (1.0, 1.0), (0.4, 1.0)
_LONG = 0.8  # [s]; a plan that goes on for longer is stopped more gently, or with too much torque
_SHORTEST = 0.06  # [s]; a stop from a slow motion takes at least that
_STANDING = 1e-6  # [s]; joint speed divided by the acceleration limit
_AT_REST = 1e-9  # [rad/s], [rad/s^2]


class SpeedProfile:
    """
    Speeds that fall to zero within limits on their first two derivatives.

    - `speed`, `rate` (n,): initial values; `speed` is positive
    - `max_rate` (n,): limit on the magnitude of the first derivative
    - `first_jerk`, `last_jerk` (n,): magnitude of the second derivative until that is reached, and
      at the end

    - `is_possible` (n,): False where the rate is so low that the speed would fall below zero
    - `duration` (n,)
    - `knots` (2, n): times at which the second derivative jumps
    """

    def __init__(
        self, speed: Array, rate: Array, max_rate: Array, first_jerk: Array, last_jerk: Array
    ) -> None:
        lost = speed + rate**2 / (2.0 * first_jerk)
        both = 1.0 / first_jerk + 1.0 / last_jerk
        peak = np.maximum(np.minimum(max_rate, np.sqrt(2.0 * lost / both)), -rate)
        held = np.maximum(0.0, lost / peak - peak * both / 2.0)
        self.is_possible = (rate >= 0.0) | (speed >= rate**2 / (2.0 * last_jerk))
        self._parts = np.stack([speed, rate, peak, first_jerk, last_jerk])
        self._lengths = np.stack([(rate + peak) / first_jerk, held, peak / last_jerk])
        ends = np.cumsum(self._lengths, axis=0)
        self.knots, self.duration = ends[:2], ends[2]

    def at(self, times: Array) -> tuple[Array, Array, Array, Array]:
        """Return way, speed, rate and second derivative at times (n, k) [s], or (k,) of one."""
        speed, rate, peak, first, last = self._parts[..., None]
        rising, held, falling = self._lengths[..., None]
        a = times.clip(0.0, rising)
        b = (times - rising).clip(0.0, held)
        c = (times - rising - held).clip(0.0, falling)
        middle = speed + rising * (rate - first * rising / 2.0)
        end = middle - peak * held
        way = a * (speed + a * (rate / 2.0 - first * a / 6.0)) + b * (middle - peak * b / 2.0)
        way = way + c * (end - c * (peak / 2.0 - last * c / 6.0))
        now = speed + a * (rate - first * a / 2.0) - peak * (b + c) + last * c**2 / 2.0
        jerk = np.where(times < rising, -first, np.where(times < rising + held, 0.0, last))
        values = (way, now, rate - first * a + last * c, jerk)
        return tuple(of[0] if times.ndim == 1 else of for of in values)  # type: ignore[return-value]


def brake(
    trajectory: Trajectory,
    t: float,
    limits: Limits,
    delay: float = 0.1,
    dynamics: Dynamics | None = None,
) -> Trajectory:
    """
    Return a motion that replaces `trajectory` from time `t` [s] on and stops on its path.

    It repeats the plan for `delay` [s], and for longer if the plan leaves no room for braking yet:
    where it brakes at its limits it is followed, to its end if need be. It exceeds no limit of
    joint velocity, acceleration and jerk. With `dynamics`, a joint needs at most its torque limit,
    or what the plan itself needs there, unless the plan goes on for long without such a stop.
    """
    if t >= trajectory.duration:
        return hold_trajectory(trajectory.q[-1])
    t = round(t, _DIGITS)
    # If the plan's jerk switches when the stop may begin, it begins at the switch.
    switches = trajectory.t[np.abs(trajectory.t - t - delay) < _GAP]
    delay = round(float(switches[0]) - t if len(switches) else delay, _DIGITS)
    rest = _next_rest(trajectory, t)
    if t + delay + _GAP < rest:
        attempts = [(dynamics, *_SOON)]
        if rest - t > _LONG:
            attempts += [(dynamics, *_LATE), (dynamics, *_GENTLER), (None, *_LATE)]
        for model, share, longest in attempts:
            plan = _PlanAhead.of(trajectory, t + delay, rest, limits, longest)
            tried: list[float] = []
            for stop in plan.stops(limits, model, share):
                if tried.count(stop.later) == _TRIES_OF_ONE:
                    continue
                begin, last = round(delay + stop.later, _DIGITS), min(t + delay + stop.end, rest)
                stopping = _slow_along(trajectory, t, begin, last, limits, stop.fractions)
                if stopping and _is_within(stopping, limits) and plan.carries(stopping, model):
                    return stopping
                tried.append(stop.later)
                if len(tried) == _TRIES:
                    break
    return rest_of(trajectory, t, rest)


def _next_rest(trajectory: Trajectory, t: float) -> float:
    """Return when the plan is at rest next after time `t` [s]; the last point is at rest."""
    moving = np.abs(trajectory.qd).max(axis=1) + np.abs(trajectory.qdd).max(axis=1) > _AT_REST
    resting = trajectory.t[~moving & (trajectory.t > t + _GAP)]
    return float(resting[0]) if len(resting) else trajectory.duration


class _Stop(NamedTuple):
    """
    A stop that begins `later` [s], with fractions of the limits as in `_FRACTIONS`.

    `end` is about the time [s] of the plan, counted from the first sample, at which it ends.
    """

    later: float
    fractions: Array
    end: float


def _speed_along(qd: Array, qdd: Array, limits: Limits) -> tuple[Array, Array, Array]:
    """Return speed along the path, its rate, and the speed in multiples of the fastest joint's."""
    qd, qdd = qd / limits.qdd, qdd / limits.qdd
    speed = np.linalg.norm(qd, axis=-1)
    safe = np.maximum(speed, _STANDING)
    fastest = np.maximum(np.abs(qd).max(axis=-1), _STANDING)
    return speed, (qd * qdd).sum(axis=-1) / safe, safe / fastest


def _profile(speed: Array, rate: Array, ratio: Array, limits: Limits, part: Array) -> SpeedProfile:
    """Return the profiles from speeds, rates and ratios (n,), `part` (n, 3) of the limits."""
    jerk = ratio * float((limits.qddd / limits.qdd).min())
    gentle = 4.0 * (speed + rate**2 / (2.0 * jerk)) / _SHORTEST**2
    first, last = (np.minimum(part[:, k] * jerk, gentle) for k in (1, 2))
    return SpeedProfile(speed, rate, part[:, 0] * ratio, first, last)


@dataclass(frozen=True)
class _PlanAhead:
    """Even samples of the plan from where a stop may begin."""

    step: float  # [s]
    # q, qd, qdd, qddd: (n, 6)
    q: Array
    qd: Array
    qdd: Array
    qddd: Array
    # speed, rate, curvature, ratio, way: (n,) speed along the path, its first two derivatives by
    # time, see `_speed_along`, and the path length
    speed: Array
    rate: Array
    curvature: Array
    ratio: Array
    way: Array
    delay: float  # largest one of a stop [s]

    @classmethod
    def of(
        cls, trajectory: Trajectory, begin: float, end: float, limits: Limits, longest: float
    ) -> '_PlanAhead':
        _, qd, qdd, _ = trajectory.sample(np.array([begin]))
        speed, rate, ratio = _speed_along(qd, qdd, limits)
        shortest = _profile(speed.clip(0.01), rate, ratio, limits, _FRACTIONS[:1]).duration[0]
        delay = max(longest, 1.2 * shortest)
        step = min(end - begin, 2.0 * delay + 1.5 * shortest) / (_SAMPLES - 1)
        q, qd, qdd, qddd = trajectory.sample(begin + step * np.arange(_SAMPLES))
        speed, rate, ratio = _speed_along(qd, qdd, limits)
        way = np.append(0.0, np.cumsum(_lengths(speed, rate, step)))
        a, b, c = qd / limits.qdd, qdd / limits.qdd, qddd / limits.qdd
        bend = (b * b + a * c).sum(axis=1) - rate**2
        bend /= np.maximum(speed, _STANDING)  # exact: a difference would smear switches of jerk
        return cls(step, q, qd, qdd, qddd, speed, rate, bend, ratio, way, delay)

    def stops(
        self, limits: Limits, dynamics: Dynamics | None, share: float
    ) -> Iterator[_Stop]:
        """Yield the stops within a share of the limits on these samples, the earliest first."""
        last = _SAMPLES - 1
        begins = np.unique(np.rint(_LATER * self.delay / self.step).astype(int).clip(0, last))
        begin = begins.repeat(len(_FRACTIONS))
        part = np.tile(share * _FRACTIONS, (len(begins), 1))
        speed, rate = self.speed[begin], self.rate[begin]
        speeds, ratio = speed.clip(_STANDING), self.ratio[begin]
        profile = _profile(speeds, rate, ratio, limits, part)
        ends = begin * self.step + profile.duration
        may = (speed > _STANDING) & profile.is_possible & (ends < last * self.step)
        order = np.flatnonzero(may)[ends[may].argsort()]
        room = None if dynamics is None else self._torque_room(dynamics)
        for some in np.array_split(order, _TOGETHER):
            these = _profile(speeds[some], rate[some], ratio[some], limits, part[some])
            at, is_within = self._are_within(these, begin[some], limits, room)
            for k, end in zip(some[is_within], at[is_within, -1] + 1.0, strict=True):
                yield _Stop(float(begin[k] * self.step), part[k], float(end * self.step))

    def carries(self, stopping: Trajectory, dynamics: Dynamics | None) -> bool:
        """Return whether a stop needs at most the joints' torque, or what the plan needs."""
        if dynamics is None:
            return True
        states = stopping.sample(stopping.dense_times(4e-3))[:3]
        needed = np.abs(dynamics.inverse(*states)).max(axis=0)
        if (needed <= dynamics.torque_max).all():
            return True
        planned = np.abs(dynamics.inverse(self.q, self.qd, self.qdd)).max(axis=0)
        return bool((needed <= np.maximum(dynamics.torque_max, planned)).all())

    def _are_within(
        self,
        profile: SpeedProfile,
        begin: Array,
        limits: Limits,
        room: tuple[Array, Array, Array, Array] | None,
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the samples (n, k) that profiles pass, and which profiles keep the limits."""
        way, speed, rate, curvature = profile.at(
            profile.duration[:, None] * np.linspace(0.0, 1.0 - 1e-9, _PROFILE_SAMPLES)
        )
        way = way + self.way[begin][:, None]
        is_within = way[:, -1] <= self.way[-1]
        at = np.rint(np.interp(way, self.way, np.arange(_SAMPLES))).astype(int)
        plan = np.interp(way, self.way, self.speed).clip(_STANDING)
        sigma = speed / plan
        sigma_rate = (rate - self.rate[at] * sigma**2) / plan
        bend = 3.0 * sigma * sigma_rate * self.rate[at] + sigma**3 * self.curvature[at]
        bend = ((curvature - bend) / plan)[..., None]
        is_within &= (sigma <= _SAME_SPEED).all(axis=1)
        sigma, sigma_rate = sigma[..., None], sigma_rate[..., None]
        qd, qdd, qddd = self.qd[at], self.qdd[at], self.qddd[at]
        qddd = qddd * sigma**3 + 3.0 * qdd * sigma * sigma_rate + qd * bend
        is_within &= (np.abs(qddd) <= _MOST_JERK * limits.qddd).all(axis=(1, 2))
        qdd = qdd * sigma**2 + qd * sigma_rate
        is_within &= (np.abs(qdd) <= _MOST_ACCELERATION * limits.qdd).all(axis=(1, 2))
        if room is not None:
            hold, moving, slowing, most = (of[at // _TORQUE_STEP] for of in room)
            torque = hold + moving * sigma**2 + slowing * sigma_rate
            is_within &= (np.abs(torque) <= most).all(axis=(1, 2))
        return at, is_within

    def _torque_room(self, dynamics: Dynamics) -> tuple[Array, Array, Array, Array]:
        """
        Return torques (n, 6) at some samples: to hold the arm, to move it, to slow it, and most.

        Those to move grow with the square of sigma, those to slow with its rate.
        """
        q, qd, qdd = (of[::_TORQUE_STEP] for of in (self.q, self.qd, self.qdd))
        hold, planned = dynamics.gravity(q), dynamics.inverse(q, qd, qdd)
        needed = np.maximum(np.abs(hold), np.abs(planned))
        most = np.maximum(_MOST_TORQUE * dynamics.torque_max, needed)
        return hold, planned - hold, dynamics.inverse(q, 0.0, qd) - hold, most


def _lengths(speed: Array, rate: Array, step: Array | float) -> Array:
    """Return the path lengths (n - 1,) between samples `step` [s] apart."""
    return step / 2 * (speed[1:] + speed[:-1]) - step**2 / 12 * np.diff(rate)


def _slow_along(
    trajectory: Trajectory, t: float, delay: float, last: float, limits: Limits, part: Array
) -> Trajectory | None:
    """Return the stop `delay` [s] after `t` with fractions (3,) of the limits."""
    begin = t + delay
    state = trajectory.sample(np.array([begin]))
    profile = _profile(*_speed_along(*state[1:3], limits), limits, part[None])
    duration = float(profile.duration[0])
    tau = _merged(np.linspace(begin, last, _SAMPLES), trajectory.t, _LEAST_GAP)
    speeds, rates, _ = _speed_along(*trajectory.sample(tau)[1:3], limits)
    way = np.append(0.0, np.cumsum(_lengths(speeds, rates, np.diff(tau))))
    if (speeds[:-1] < _STANDING).any():
        return None
    time_at = CubicHermiteSpline(way, tau, 1.0 / speeds.clip(_STANDING))
    even = np.linspace(0.0, duration, _KNOTS)
    dense = duration * _DENSE
    own = np.interp(trajectory.t, time_at(profile.at(dense)[0]), dense)
    for knot in profile.knots[:, 0]:
        if np.abs(own - knot).min() >= _CLOSE:
            own = np.append(own, knot)
    times = np.round(_merged(even, np.sort(own), _CLOSE), _DIGITS)
    way, speed, rate, _ = profile.at(times)
    tau = time_at(way)
    before = trajectory.t[(trajectory.t > t + _LEAST_GAP) & (trajectory.t < begin - _LEAST_GAP)]
    q, qd, qdd, _ = trajectory.sample(np.concatenate([[t], before, tau]))
    n = len(before) + 1
    speeds, rates, _ = _speed_along(qd[n:], qdd[n:], limits)
    sigma = speed / speeds
    if sigma.max() > _SAME_SPEED:
        return None
    sigma_rate = (rate - rates * sigma**2) / speeds
    qdd[n:] = qdd[n:] * sigma[:, None]**2 + qd[n:] * sigma_rate[:, None]
    qd[n:] *= sigma[:, None]
    qd[-1] = qdd[-1] = 0.0
    times = np.concatenate([[0.0], before - t, delay + times])
    return Trajectory(np.round(times, _DIGITS), q, qd, qdd)


def resume_on_path(
    trajectory: Trajectory,
    q: Array,
    limits: Limits,
    within: tuple[float, float] = (0.0, np.inf),
    dynamics: Dynamics | None = None,
) -> Trajectory:
    """
    Return the rest of `trajectory` for an arm that came to rest on its path at joints `q` (6,).

    The arm is at a time between the two of `within` [s]. A path that retraces itself passes `q`
    more than once: the earliest pass counts, so that no place after it is left out.

    The time scaling rises from 0 to 1 as a smooth step, nowhere faster than the plan; the quickest
    start that keeps the limits, and with `dynamics` those of torque, is chosen.
    """
    t = first_pass(trajectory, q, within)
    if trajectory.duration - t < _SPACING / 10:
        return hold_trajectory(trajectory.q[-1])
    for length in _STARTS:
        rest = _speed_up(trajectory, t, length)
        torque = _torque_excess(rest, dynamics)
        if _is_within(rest, limits) and torque <= 1.0:
            break
    factor = max(_excess(rest, limits), _BETWEEN * torque if torque > 1.0 else 1.0)
    return rest if factor == 1.0 else stretch(rest, factor)


def _used(trajectory: Trajectory, limits: Limits) -> tuple[float, float, float]:
    """Return the largest fractions of the limits on velocity, acceleration and jerk."""
    _, qd, qdd, _ = trajectory.sample(trajectory.dense_times(4e-3))
    shares = (qd / limits.qd, qdd / limits.qdd, trajectory.jerk_peaks()[1] / limits.qddd)
    velocity, acceleration, jerk = (float(np.abs(share).max()) for share in shares)
    return velocity, acceleration, jerk


def _is_within(trajectory: Trajectory, limits: Limits) -> bool:
    velocity, acceleration, jerk = _used(trajectory, limits)
    return max(velocity, acceleration) <= SLACK and jerk <= JERK_SLACK


def _torque_excess(trajectory: Trajectory, dynamics: Dynamics | None) -> float:
    """Return the factor by which a motion must be stretched for its torque; 0 if that is vain."""
    if dynamics is None:
        return 0.0
    states = trajectory.sample(trajectory.dense_times(4e-3))[:3]
    factor = float(slowdown_for_torque(*states, dynamics).max())
    return factor if np.isfinite(factor) else 0.0


def _excess(trajectory: Trajectory, limits: Limits) -> float:
    """Return the factor by which a motion must be stretched to pass the gate, at least 1."""
    velocity, acceleration, jerk = _used(trajectory, limits)
    acceleration *= _BETWEEN
    return float(max(1.0, velocity, acceleration**0.5, (_BETWEEN * jerk / JERK_SLACK) ** (1 / 3)))


def _speed_up(trajectory: Trajectory, t: float, length: float) -> Trajectory:
    # The plan's time advances by length / 2 in the ramp, or the plan ends within it.
    def advanced(u: Array) -> Array:
        return length * (2.5 * u**4 - 3 * u**5 + u**6)

    end = float(np.interp(trajectory.duration - t, advanced(_DENSE), _DENSE))
    own = np.interp(trajectory.t - t, advanced(_DENSE), _DENSE)
    even = np.linspace(0.0, end, max(6, round(end * length / _SPACING) + 1))
    u = _whole(_merged(even, own, _SPACING / (2.0 * length)), length)
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


def rest_of(trajectory: Trajectory, t: float, end: float = np.inf) -> Trajectory:
    """Return a trajectory from time `t` [s] on, to its rest, or the one at `end` if earlier."""
    t = round(t, _DIGITS)
    later = (trajectory.t > t + _LEAST_GAP) & (trajectory.t <= end)
    times = np.concatenate([[t], trajectory.t[later]])
    q, qd, qdd, _ = trajectory.sample(times)
    qd[-1] = qdd[-1] = 0.0
    return Trajectory(times - t, q, qd, qdd)
