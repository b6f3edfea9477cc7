# SPDX-License-Identifier: Apache-2.0
"""
Point-to-point motions within velocity, acceleration, jerk and speed limits.

Knots lie where the jerk switches, because a quintic laid across such a place overshoots it.

"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from ruckig import InputParameter, Result, Ruckig, RuckigError, Synchronization
from ruckig import Trajectory as RuckigTrajectory

from ur5_pick_place.errors import PlanningError
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.trajectory import Trajectory, at_rest, check_duration

KNOT_SPACING = 0.02  # [s]; a quintic of this length stays within 0.01 mm of a Cartesian line
_MIN_KNOT_GAP = 1e-3  # [s]
_REST = 1e-9  # [rad]; shorter motions are none
_ROUNDS = 8

SpeedOf = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


def time_ptp(
    q_start: NDArray[np.float64],
    q_goal: NDArray[np.float64],
    limits: Limits,
    speed_of: SpeedOf,
    dynamics: Dynamics | None = None,
) -> Trajectory:
    """
    Return the jerk-limited point-to-point motion, rest to rest, all joints arriving together.

    Parameters
    ----------
    q_start, q_goal : ndarray, shape (6,)
        Joint positions [rad].
    limits : Limits
        Bounds; the joint part is met with equality by the slowest joint (the double-S optimum).
    speed_of : callable
        (q (n, 6), qd (n, 6)) -> speeds (n, k) [m/s] to keep under `limits.speed`.
    dynamics : Dynamics, optional
        The arm with its load; the whole motion is slowed down where its torque limits bind.

    """
    if np.abs(q_goal - q_start).max() < _REST:
        return at_rest(q_start)
    trajectory = _within_speed(q_start, q_goal, limits, speed_of)
    if dynamics is not None:
        _, q, qd, qdd, _ = _dense(trajectory)
        factor = slowdown_for_torque(q, qd, qdd, dynamics)
        if 1.0 < factor < np.inf:
            return stretch(trajectory, factor * 1.001)
    return trajectory


def _within_speed(
    q_start: NDArray[np.float64], q_goal: NDArray[np.float64], limits: Limits, speed_of: SpeedOf
) -> Trajectory:
    qd_max = limits.qd.copy()
    for _ in range(_ROUNDS):
        trajectory = _ruckig_ptp(q_start, q_goal, qd_max, limits)
        _, q, qd, _, _ = _dense(trajectory)
        excess = speed_of(q, qd).max() / limits.speed
        if excess <= 1.0:
            return trajectory
        # The joints may peak below their limit on a short move, so scale what they reach.
        qd_max = np.minimum(qd_max, np.abs(qd).max(axis=0).clip(1e-6)) / (excess * 1.001)
    return stretch(trajectory, excess * 1.001)


def _ruckig_ptp(
    q_start: NDArray[np.float64],
    q_goal: NDArray[np.float64],
    qd_max: NDArray[np.float64],
    limits: Limits,
) -> Trajectory:
    request = InputParameter(6)
    request.current_position, request.target_position = list(q_start), list(q_goal)
    request.max_velocity = list(qd_max)
    request.max_acceleration = list(limits.qdd)
    request.synchronization = Synchronization.Phase
    result = _solved(request, limits.qddd)
    check_duration(result.duration)
    switches = np.concatenate([np.cumsum(p.t) for p in result.profiles[0]])
    t = _knots(result.duration, switches)
    samples = np.array([result.at_time(x) for x in t])  # (n, 3, 6)
    samples[0, 1:] = samples[-1, 1:] = 0.0
    samples[-1, 0] = q_goal  # ruckig arrives within rounding
    return Trajectory(t, samples[:, 0], samples[:, 1], samples[:, 2])


def _solved(request: InputParameter, qddd_max: NDArray[np.float64]) -> RuckigTrajectory:
    """
    Let ruckig solve a request that lacks the jerk limits (6,) [rad/s3].

    Where a joint just reaches its acceleration or velocity limit, ruckig may find no profile at
    all: at 5 rad/s2 and 50 rad/s3 over 0.1 rad, exactly. A hair less jerk leads past that.

    """
    for share in (1.0, 1.0 - 1e-9, 1.0 - 1e-6):
        request.max_jerk = list(share * qddd_max)
        result = RuckigTrajectory(6)
        with suppress(RuckigError):
            if Ruckig(6).calculate(request, result) in (Result.Working, Result.Finished):
                return result
    raise PlanningError(
        f'no jerk-limited motion from {request.current_position} to {request.target_position} rad'
    )


def slowdown_for_torque(
    q: NDArray[np.float64],
    qd: NDArray[np.float64],
    qdd: NDArray[np.float64],
    dynamics: Dynamics,
) -> float:
    """
    Return by which factor a motion (n, 6) must be slowed down to keep the torque limits.

    Below 1 where there is room; infinite where gravity alone takes more than there is.

    """
    gravity = dynamics.gravity(q)
    inertial = dynamics.inverse(q, qd, qdd) - gravity
    room = dynamics.torque_max - np.sign(inertial) * gravity
    if room.min() <= 0.0:
        return np.inf
    return float(np.sqrt((np.abs(inertial) / room).max()))


def stretch(trajectory: Trajectory, factor: float) -> Trajectory:
    """Return the same path, `factor` times slower."""
    return Trajectory(
        trajectory.t * factor,
        trajectory.q,
        trajectory.qd / factor,
        trajectory.qdd / factor**2,
    )


def concatenate(legs: Sequence[Trajectory]) -> Trajectory:
    """Join motions that each start at rest where the one before ends."""
    legs = [leg for leg in legs if leg.t.size > 1] or list(legs[:1])
    starts = np.cumsum([0.0, *(leg.duration for leg in legs[:-1])])
    parts = [(leg.t + t0, leg.q, leg.qd, leg.qdd) for leg, t0 in zip(legs, starts, strict=True)]
    keep = [slice(0 if i == 0 else 1, None) for i in range(len(legs))]
    return Trajectory(
        *(np.concatenate([p[k][s] for p, s in zip(parts, keep, strict=True)]) for k in range(4))
    )


def _dense(trajectory: Trajectory) -> tuple[NDArray[np.float64], ...]:
    t = trajectory.dense_times(2e-3)
    return (t, *trajectory.sample(t))


def _knots(duration: float, switches: NDArray[np.float64]) -> NDArray[np.float64]:
    """
    Return a regular grid whose points give way to jerk switches close to them.

    In whole nanoseconds, as messages carry them: between two points 1 ms apart, half a nanosecond
    would otherwise be worth 100 rad/s^3.

    """
    inside = (switches > _MIN_KNOT_GAP) & (switches < duration - _MIN_KNOT_GAP)
    fixed = np.sort(np.concatenate([[0.0], switches[inside], [duration]]))
    fixed = fixed[np.concatenate([[True], np.diff(fixed) > 1e-6])]
    grid = np.linspace(0.0, duration, max(2, round(duration / KNOT_SPACING) + 1))
    gap = np.abs(grid[:, None] - fixed[None, :]).min(axis=1)
    return np.sort(np.concatenate([fixed, grid[gap > _MIN_KNOT_GAP]])).round(9)
