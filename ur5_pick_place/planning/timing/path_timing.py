# SPDX-License-Identifier: Apache-2.0
"""The fastest motion along a path, as points that the controller joins by quintics."""

import logging

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.dynamics import Dynamics, slowdown_for_torque
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.follow import JointPath
from ur5_pick_place.planning.paths.trajectory import Trajectory, hold_trajectory
from ur5_pick_place.planning.timing.time_optimal import (
    DEFAULT_INTERVALS,
    PathVelocityProfile,
    ProfileSearch,
    SpeedOf,
    derivatives,
    path_parameter,
)

_log = logging.getLogger(__name__)

SPACING = 0.02
"""Time [s] between two points, where the jerk has no kink between them."""
# The profile has a kink of jerk at every knot, of which only the sharp ones become points: a
# controller that splices lets a stop begin between two points only, see `splicing.gap_form`.
# Between two knots that are farther apart than both of these, points are added first:
_POINT_SPACING = 8e-3  # [s]
_POINT_TURN = 4e-3  # [rad] of any joint
_LONGEST = 0.032  # [s] between two points with a knot between them: 4 cycles of 8 ms
_MOST_JERK = 1.004  # share of the limit, at most, in a quintic across a knot
_PASSES = 2  # each of which leaves out at most every second point
_SAMPLED = 2e-3  # [s] between two moments at which limits are checked, more in a long motion
_LITTLE = 1.0002  # a slowdown of the whole motion up to this factor needs no further search
_NEAR_LIMIT = 0.8  # share of a joint's torque, below which it does not slow a motion down
_FASTEST = 0.95  # factor on the times of a motion that may be faster
_ROUNDS = 3  # searches, each slower where the quintics of the last one exceeded a limit


def time_path(
    path: JointPath,
    limits: Limits,
    speed_of: SpeedOf,
    dynamics: Dynamics | None = None,
    min_intervals: int = DEFAULT_INTERVALS,
) -> Trajectory:
    """
    Return the fastest motion along `path`, rest to rest, within `limits` everywhere.

    Limits hold on the quintics between the points, and one of them is met with equality. Where the
    quintics exceed a limit, the search is repeated for a slower motion there; one factor on all
    times removes the little that is left.

    `path`, `limits`, `speed_of`, `dynamics`, `min_intervals`: as for `ProfileSearch`.

    Raises `PlanningError`: the joint torques cannot hold the arm at rest somewhere on the path.
    """
    if path.is_point:
        return hold_trajectory(path.q[0])
    search = ProfileSearch(path, limits, speed_of, dynamics, min_intervals)
    best: Trajectory | None = None
    for _ in range(_ROUNDS):
        profile = search.fastest()
        near = _point_parameters(path, profile, limits)
        draft, x = _points(path, profile, near, 1.0)
        own = np.minimum(path.speed_at(path_parameter(x)), limits.speed)
        excess = _excess(draft, limits, own, speed_of, dynamics)
        factor = max(float(excess.max()), _FASTEST) * (1.0 + 1e-6)
        if best is None or factor * draft.duration < best.duration:
            best = _points(path, profile, near, factor)[0]
        if factor < _LITTLE:
            break
        search.slow_down(x, excess)
    if not profile.is_optimal:
        _log.warning('time-optimal search did not converge: the motion is slower than possible')
    assert best is not None
    return best


def _points(
    path: JointPath, profile: PathVelocityProfile, near: Array, factor: float
) -> tuple[Trajectory, Array]:
    """
    Return the motion stretched by `factor`, and the profile's parameter x at its points, (n,).

    The times are whole nanoseconds, so that x differs a little from `near` (n,). x goes from 0 to
    1; `path_parameter` converts it.
    """
    clock, x = profile.clock, near.copy()
    t = (clock(x) * factor).round(9)
    for _ in range(2):  # Newton steps to the x of the rounded time
        x[1:-1] -= ((clock(x) - t / factor) * np.sqrt(profile.rate(x)))[1:-1]
    q, f1, f2, _ = derivatives(path, x)
    b, slope = (profile.rate(x, nu=k)[:, None] for k in (0, 1))
    qd, qdd = f1 * np.sqrt(b) / factor, (f2 * b + 0.5 * f1 * slope) / factor**2
    return Trajectory(t, q, qd, qdd), x


def _point_parameters(path: JointPath, profile: PathVelocityProfile, limits: Limits) -> Array:
    """Return the profile's parameter x at each point, (n,)."""
    knots = profile.knots
    time = np.diff(profile.clock(knots))
    turn = np.abs(np.diff(derivatives(path, knots)[0], axis=0)).max(axis=1)
    parts = np.ceil(np.minimum(time / _POINT_SPACING, turn / _POINT_TURN)).clip(1).astype(int)
    first = np.concatenate([[0], np.cumsum(parts)])
    x = np.interp(np.arange(first[-1] + 1), first, knots)
    draft, kept = _points(path, profile, x, 1.0)[0], np.arange(len(x))
    for begin in [0, 1] * _PASSES:
        some = kept[begin::2]
        if len(some) > 1:
            t, *motion = (of[some] for of in (draft.t, draft.q, draft.qd, draft.qdd))
            jerk = (Trajectory(t - t[0], *motion).jerk_peaks()[1] / limits.qddd).max(axis=1)
            without = np.flatnonzero((np.diff(t) <= _LONGEST) & (jerk <= _MOST_JERK))
            kept = np.delete(kept, begin + 2 * without + 1)
    return np.asarray(x[kept])


def _excess(
    trajectory: Trajectory,
    limits: Limits,
    speed: Array,
    speed_of: SpeedOf,
    dynamics: Dynamics | None,
) -> Array:
    """
    Return the factor (n - 1,) by which each step must slow down; below 1 if it may be faster.

    `speed` (n,) bounds TCP and elbow [m/s] at each point; between two points the larger holds.
    """
    t = trajectory.dense_times(max(_SAMPLED, 1e-3 * trajectory.duration))
    q, qd, qdd, _ = trajectory.sample(t)
    step = np.searchsorted(trajectory.t, t, side='right').clip(1, len(speed) - 1) - 1
    speed_max = np.maximum(speed[:-1], speed[1:])[step, None]
    needed = [
        (np.abs(qd) / limits.qd).max(axis=1),
        np.sqrt((np.abs(qdd) / limits.qdd).max(axis=1)),
        (speed_of(q, qd) / speed_max).max(axis=1),
    ]
    excess = np.cbrt((trajectory.jerk_peaks()[1] / limits.qddd).max(axis=1))
    if dynamics is not None:
        torque = np.abs(dynamics.inverse(q, qd, qdd))
        near = (torque > _NEAR_LIMIT * dynamics.torque_max).any(axis=1)
        slowdown = np.zeros(len(q))
        slowdown[near] = slowdown_for_torque(q[near], qd[near], qdd[near], dynamics)
        needed.append(slowdown)
    np.maximum.at(excess, step, np.max(needed, axis=0))
    return np.asarray(excess)
