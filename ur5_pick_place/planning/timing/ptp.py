# SPDX-License-Identifier: Apache-2.0
"""
Point-to-point motions within velocity, acceleration, jerk and speed limits.

Knots lie where the jerk switches, because a quintic across a switch overshoots.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from ruckig import InputParameter, Result, Ruckig, RuckigError, Synchronization
from ruckig import Trajectory as RuckigTrajectory

from ur5_pick_place.errors import PlanningError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.dynamics import Dynamics, slowdown_for_torque
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.follow import JointPath
from ur5_pick_place.planning.paths.trajectory import Trajectory, check_duration, hold_trajectory
from ur5_pick_place.planning.timing.path_timing import SPACING, time_path
from ur5_pick_place.planning.timing.time_optimal import FINE, SpeedOf

_MIN_KNOT_GAP = 1e-3  # [s]
_GRID_GAP = 0.01  # [s] between a point where the jerk switches and the next of a regular grid
_REST = 1e-9  # [rad]; shorter motions count as rest
_BRIEF = 4.0 * _MIN_KNOT_GAP  # [s]; shorter motions have jerk switches closer than knots may be
_LINE_SAMPLES = 24


def time_ptp(
    q_start: Array,
    q_goal: Array,
    limits: Limits,
    speed_of: SpeedOf,
    dynamics: Dynamics | None = None,
) -> Trajectory:
    """
    Return the jerk-limited point-to-point motion, rest to rest, all joints arriving together.

    `q_start` and `q_goal` (6,): joint positions [rad]. `limits`: if only joint limits bind, the
    slowest joint meets them with equality (the double-S optimum); otherwise the straight joint
    line is timed as a path. `speed_of`: (q (n, 6), qd (n, 6)) -> speeds (n, k) [m/s] to keep under
    `limits.speed`. `dynamics`: the arm with its load, whose torque limits are then kept too,
    unless the joint torques cannot hold the arm at rest somewhere.
    """
    if np.abs(q_goal - q_start).max() < _REST:
        return hold_trajectory(q_start)
    # A jerk that reaches the acceleration sooner would switch between the knots.
    limits = replace(limits, qddd=np.minimum(limits.qddd, limits.qdd / (2.0 * _MIN_KNOT_GAP)))
    trajectory = _ruckig_ptp(q_start, q_goal, limits)
    if trajectory.t.size == 2 or trajectory.duration < _BRIEF:
        trajectory = _one_quintic(q_start, q_goal, limits)
    excess = _excess(trajectory, limits, speed_of, dynamics)
    if excess <= 1.0:
        return trajectory
    if np.isinf(excess):  # the gate reports which joint cannot hold the arm, and where
        return time_ptp(q_start, q_goal, limits, speed_of)
    share = np.linspace(0.0, 1.0, _LINE_SAMPLES)[:, None]
    line = JointPath(q_start + share * (q_goal - q_start))
    as_path = time_path(line, limits, speed_of, dynamics, FINE)
    # The path timing may end in a local optimum, in which it is slower than the double S.
    factor = excess * 1.0001
    is_shorter = factor * trajectory.duration < as_path.duration
    return stretch(trajectory, factor) if is_shorter else as_path


def _excess(
    trajectory: Trajectory, limits: Limits, speed_of: SpeedOf, dynamics: Dynamics | None
) -> float:
    """Return the factor by which a motion must be slowed down for speeds and torques."""
    q, qd, qdd, _ = trajectory.sample(trajectory.dense_times(2e-3))
    speed = float(speed_of(q, qd).max()) / limits.speed
    if dynamics is None:
        return speed
    return max(speed, float(slowdown_for_torque(q, qd, qdd, dynamics).max()))


def _one_quintic(q_start: Array, q_goal: Array, limits: Limits) -> Trajectory:
    """Return the single quintic between two points within the joint limits."""
    dq = np.abs(q_goal - q_start)
    duration = max(
        (1.875 * dq / limits.qd).max(),
        np.sqrt((10.0 / np.sqrt(3.0) * dq / limits.qdd).max()),
        np.cbrt((60.0 * dq / limits.qddd).max()),
    )
    t = np.array([0.0, np.ceil(duration * 1e9) / 1e9])
    return Trajectory(t, np.stack([q_start, q_goal]), np.zeros((2, 6)), np.zeros((2, 6)))


def _ruckig_ptp(q_start: Array, q_goal: Array, limits: Limits) -> Trajectory:
    request = InputParameter(6)
    request.current_position, request.target_position = list(q_start), list(q_goal)
    request.max_velocity = list(limits.qd)
    request.max_acceleration = list(limits.qdd)
    request.synchronization = Synchronization.Phase
    result = _solved(request, limits.qddd)
    check_duration(result.duration)
    switches = np.concatenate([np.cumsum(p.t) for p in result.profiles[0]])
    t = _knots(result.duration, switches)
    samples = np.array([result.at_time(x) for x in t])  # (n, 3, 6)
    samples[0, 1:] = samples[-1, 1:] = 0.0
    samples[-1, 0] = q_goal  # ruckig arrives within rounding error
    return Trajectory(t, samples[:, 0], samples[:, 1], samples[:, 2])


def _solved(request: InputParameter, qddd_max: Array) -> RuckigTrajectory:
    """
    Return ruckig's solution of a request for jerk limits (6,) [rad/s3].

    Where a joint just reaches its acceleration or velocity limit, ruckig may find no profile: for
    example at 5 rad/s2 and 50 rad/s3 over exactly 0.1 rad. Slightly less jerk avoids this.
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


def stretch(trajectory: Trajectory, factor: float) -> Trajectory:
    """Return a motion to rest, `factor` times slower, at times that are whole nanoseconds."""
    rates = trajectory.qd / factor, trajectory.qdd / factor**2
    slower = Trajectory(trajectory.t * factor, trajectory.q, *rates)
    times = slower.t.round(9)
    q, qd, qdd, _ = slower.sample(times)
    q[-1], qd[-1], qdd[-1] = trajectory.q[-1], 0.0, 0.0
    return Trajectory(times, q, qd, qdd)


def concatenate(legs: Sequence[Trajectory]) -> Trajectory:
    """Return motions joined, each of which starts at rest where the previous one ends."""
    legs = [leg for leg in legs if leg.t.size > 1] or list(legs[:1])
    starts = np.cumsum([0.0, *(leg.duration for leg in legs[:-1])])
    parts = [(leg.t + t0, leg.q, leg.qd, leg.qdd) for leg, t0 in zip(legs, starts, strict=True)]
    keep = [slice(0 if i == 0 else 1, None) for i in range(len(legs))]
    return Trajectory(
        *(np.concatenate([p[k][s] for p, s in zip(parts, keep, strict=True)]) for k in range(4))
    )


def _knots(duration: float, switches: Array) -> Array:
    """
    Return a regular grid in which jerk switches replace the points close to them.

    Times are whole nanoseconds, as in messages: between two points 1 ms apart, half a nanosecond
    changes the jerk by 100 rad/s^3.
    """
    inside = (switches > _MIN_KNOT_GAP) & (switches < duration - _MIN_KNOT_GAP)
    fixed = np.sort(np.concatenate([[0.0], switches[inside], [duration]]))
    fixed = fixed[np.concatenate([[True], np.diff(fixed) > 1e-6])]
    grid = np.linspace(0.0, duration, max(2, round(duration / SPACING) + 1))
    gap = np.abs(grid[:, None] - fixed[None, :]).min(axis=1)
    return np.sort(np.concatenate([fixed, grid[gap > _GRID_GAP]])).round(9)
