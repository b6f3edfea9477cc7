# SPDX-License-Identifier: Apache-2.0
"""
The fastest motion along a joint path, rest to rest, within velocity, acceleration and jerk limits.

The path parameter is l(x) = 10 x^3 - 15 x^4 + 6 x^5. It starts and stops like a motion of constant
jerk, so that b = (dx/dt)^2 stays positive from end to end. With f(x) the joints at l(x) and ' the
derivative with respect to x:

    velocity      f' sqrt(b)
    acceleration  f'' b + f' b' / 2
    jerk          (f''' b + 3/2 f'' b' + 1/2 f' b'') sqrt(b)
    torque        (M f'' + C(f') f') b + M f' b' / 2 + g

b is a cubic spline. Its coefficients minimise the integral of 1 / sqrt(b), the duration, plus a
logarithmic barrier for each of these bounds. Every iterate is a motion within the limits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import BSpline, CubicHermiteSpline
from scipy.linalg import LinAlgError

from ur5_pick_place.errors import PlanningError
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.cancellation import checkpoint
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.follow import JointPath
from ur5_pick_place.planning.timing.gauss_spline import (
    ABSCISSAE,
    ENTRIES,
    WEIGHTS,
    GaussSpline,
    gauss_spline,
)

SpeedOf = Callable[[Array, Array], Array]

DEFAULT_INTERVALS = 48
"""Smallest number of spline intervals for timing a path; duration within 0.3 %."""
FINE = 96
"""The same for a joint line, which has no bends; duration within 0.1 %."""
_STEP_INTERVALS = 48
_MAX_INTERVALS = 768
_INTERVALS_PER_BEND = 4.0  # where the path bends sharply: 20 to 30 for a rounded corner
_BARRIERS = (0.3, 0.06, 0.012, 1.5e-3, 2e-4)  # weights, as shares of the duration
_LAST_BARRIERS = _BARRIERS[-2:]  # from a motion that is nearly the fastest
_MAX_STEPS = 80
_MIN_LENGTH = 1e-4  # of a step, as a fraction of the Newton step


@dataclass(frozen=True)
class PathVelocityProfile:
    """The rate at which a motion passes its path, over a parameter x in [0, 1]."""

    rate: BSpline  # b = (dx/dt)^2 over x [1/s^2]: the square of the rate at which x grows
    is_optimal: bool  # whether the search converged; the motion is within the limits in any case

    @cached_property
    def knots(self) -> Array:
        """The parameters x between which the rate is one cubic."""
        return np.unique(self.rate.t)

    @cached_property
    def clock(self) -> CubicHermiteSpline:
        """The time [s] as a function of x, exact to about 1e-9 s."""
        x = np.linspace(0.0, 1.0, 10 * (len(self.knots) - 1) + 1)
        h = x[1]
        slowness = 1.0 / np.sqrt(self.rate(x[:-1, None] + h * ABSCISSAE))
        t = np.concatenate([[0.0], np.cumsum(h * (slowness @ WEIGHTS))])
        return CubicHermiteSpline(x, t, 1.0 / np.sqrt(self.rate(x)))


class ProfileSearch:
    """
    The search for the fastest profile along a path within limits.

    `speed_of`: (q (n, 6), qd (n, 6)) -> speeds (n, k) [m/s] to keep under `limits.speed`.
    `dynamics`: the arm with its load, whose torque limits are then kept too. `min_intervals`:
    smallest number of spline intervals; more are used where the path bends.

    Raises `PlanningError`: the joint torques cannot hold the arm at rest somewhere on the path.
    """

    def __init__(
        self,
        path: JointPath,
        limits: Limits,
        speed_of: SpeedOf,
        dynamics: Dynamics | None = None,
        min_intervals: int = DEFAULT_INTERVALS,
    ) -> None:
        self._spline = gauss_spline(_intervals(path, min_intervals))
        self._bounds = _Bounds.along(path, self._spline.x, limits, speed_of, dynamics)
        self._barriers: tuple[float, ...] = _BARRIERS
        self._coefficients = np.full(self._spline.size, self._bounds.even_rate())

    def fastest(self) -> PathVelocityProfile:
        """Return the fastest profile that the spline can represent."""
        spline, bounds = self._spline, self._bounds
        self._coefficients, is_optimal = _minimise(
            spline, bounds, self._coefficients, self._barriers
        )
        rate = BSpline(spline.knots, self._coefficients, 3)
        if rate(np.linspace(0.0, 1.0, 20 * spline.intervals)).min() <= 0.0:  # between two points
            rate = BSpline(spline.knots, np.full(spline.size, bounds.even_rate()), 3)
            is_optimal = False
        return PathVelocityProfile(rate, is_optimal)

    def slow_down(self, x: Array, factor: Array) -> None:
        """
        From now on, search for slower motions where the last one was too fast.

        `x` (n,): parameters from 0 to 1, ascending. `factor` (n - 1,): by which the motion has to
        be slower between two of them; below 1 counts as 1.
        """
        intervals = self._spline.intervals
        middle = 0.5 * (x[:-1] + x[1:])
        slower = np.ones(intervals)
        np.maximum.at(slower, (middle * intervals).astype(int), factor)
        self._bounds = self._bounds.slowed(slower.repeat(len(WEIGHTS)))
        self._coefficients /= (1.001 * slower.max()) ** 2  # within all bounds
        self._barriers = _LAST_BARRIERS


def _intervals(path: JointPath, least: int) -> int:
    """Return the number of intervals that resolves the sharpest bend, a multiple of 48."""
    _, slope, bend, _ = path.sample(np.linspace(0.0, 1.0, len(path.q)))
    slowness = np.linalg.norm(slope, axis=1)
    sharpest = (np.linalg.norm(bend, axis=1) / slowness.clip(1e-9 * slowness.max())).max()
    wanted = np.clip(_INTERVALS_PER_BEND * sharpest, least, _MAX_INTERVALS)
    return _STEP_INTERVALS * int(np.ceil(wanted / _STEP_INTERVALS))


def path_parameter(x: Array) -> Array:
    """Return the path parameter l(x), 0 to 1."""
    return x**3 * (10.0 - 15.0 * x + 6.0 * x**2)


def derivatives(path: JointPath, x: Array) -> tuple[Array, ...]:
    """Return the joints at l(x) and their first three derivatives by x, each (n, 6) [rad]."""
    x = x[:, None]
    l1 = 30.0 * (x * (1.0 - x)) ** 2
    l2 = 60.0 * x * (1.0 - x) * (1.0 - 2.0 * x)
    l3 = 60.0 * (1.0 - 6.0 * x * (1.0 - x))
    q, d1, d2, d3 = path.sample(path_parameter(x[:, 0]))
    return q, d1 * l1, d2 * l1**2 + d1 * l2, d3 * l1**3 + 3.0 * d2 * l1 * l2 + d1 * l3


_JERK, _OTHERS = slice(-6, None), slice(-6)  # rows of `_Bounds`: jerks are the last


@dataclass(frozen=True)
class _Bounds:
    """Fraction of each limit that is used at each point, as a function of b, b' and b''."""

    # (3, m, n) per b, b' and b'', of n points. Rows: the velocity and speed limits, squared, which
    # take b alone; joint accelerations, and joint torques if they are known, which take b and b';
    # joint jerks (6), which are to be multiplied by sqrt(b).
    slope: Array
    hold: Array  # (m, n) the same at rest: gravity for torques, else zero

    @classmethod
    def along(
        cls,
        path: JointPath,
        x: Array,
        limits: Limits,
        speed_of: SpeedOf,
        dynamics: Dynamics | None,
    ) -> '_Bounds':
        q, f1, f2, f3 = derivatives(path, x)
        joint = (np.abs(f1) / limits.qd).max(axis=1)
        speed_max = np.minimum(limits.speed, path.speed_at(path_parameter(x)))
        speed = np.maximum(joint, speed_of(q, f1).max(axis=1) / speed_max) ** 2
        none = np.zeros_like(q)
        square = np.zeros((3, len(x), 1))
        square[0, :, 0] = speed
        # Slope (3, n, k) and hold (n, k) of each bound.
        bounds = [(square, none[:, :1]), (np.stack([f2, 0.5 * f1, none]) / limits.qdd, none)]
        if dynamics is not None:
            gravity = dynamics.gravity(q)
            _check_hold(gravity, dynamics.torque_max)
            moving = [dynamics.inverse(q, f1, f2), dynamics.inverse(q, 0.0, 0.5 * f1), gravity]
            torque = (np.stack(moving) - gravity) / dynamics.torque_max
            bounds.append((torque, gravity / dynamics.torque_max))
        jerk = np.stack([f3, 1.5 * f2, 0.5 * f1]) / limits.qddd
        slopes, holds = zip(*bounds, (jerk, none), strict=True)
        slope = np.concatenate(slopes, axis=2).swapaxes(1, 2)
        return cls(np.ascontiguousarray(slope), np.hstack(holds).T.copy())

    def slowed(self, factor: Array) -> '_Bounds':
        """Return the bounds for a motion that is slower by `factor` (n,) at each point."""
        slope = self.slope * factor**2
        slope[:, _JERK] *= factor
        return _Bounds(slope, self.hold)

    def even_rate(self) -> float:
        """Return half of the largest constant b."""
        rest = (1.0 - np.abs(self.hold)) / np.abs(self.slope[0]).clip(1e-12)
        jerk = np.abs(self.slope[0, _JERK]).max()
        return 0.5 * min(float(rest[_OTHERS].min()), float((1.0 / jerk) ** (2.0 / 3.0)))


def _check_hold(gravity: Array, torque_max: Array) -> None:
    """Refuse a path where gravity exceeds a torque limit; torques (n, 6), limits (6,) [N m]."""
    i, joint = np.unravel_index((np.abs(gravity) / torque_max).argmax(), gravity.shape)
    if abs(gravity[i, joint]) >= torque_max[joint]:
        raise PlanningError(
            f'{JOINT_NAMES[joint]} would need {abs(gravity[i, joint]):.1f} N m only to hold the '
            f'arm, limit {torque_max[joint]:.0f} N m: carry less or keep it nearer to the base'
        )


class _Barrier:
    """Duration and barrier of a profile, with gradients with respect to b, b' and b''."""

    def __init__(self, values: Array, free: Array, weight: Array, bounds: _Bounds) -> None:
        self.values, self.free = values, free  # (3, n) and (m, n), linear in the coefficients
        self._weight, self._bounds = weight, bounds
        b = values[0]
        self.is_inside = bool(b.min() > 0.0)
        if not self.is_inside:
            return
        self._root, self._row = np.sqrt(b), free.copy()
        self._row[_JERK] *= self._root
        self._room = 1.0 - self._row**2
        self.is_inside = bool(self._room.min() > 0.0)
        if self.is_inside:
            self.duration = float((weight / self._root).sum())
            self._height = -float(weight @ np.log(self._room.prod(axis=0)))

    def moved(self, length: float, values: Array, free: Array) -> '_Barrier':
        """Return that of a profile a length of a step away; the step's values and rows."""
        return _Barrier(
            self.values + length * values, self.free + length * free, self._weight, self._bounds
        )

    def cost(self, mu: float) -> float:
        """Return the duration [s] plus `mu` times the barrier."""
        return self.duration + mu * self._height

    def expand(self, mu: float) -> tuple[Array, Array]:
        """Return gradient (3, n) and Gauss-Newton Hessian (6, n) of the cost, see `ENTRIES`."""
        b, root, row, room = self.values[0], self._root, self._row, self._room
        jerk = self._bounds.slope[:, _JERK] * root
        jerk[0] += self.free[_JERK] * (0.5 / root)
        scaled = (2.0 * mu) / room
        pull, bend = scaled * row, scaled * (2.0 / room - 1.0)
        gradient, hessian = np.zeros((3, len(b))), np.zeros((6, len(b)))
        # Only the jerk depends on b''.
        for slope, rows in ((self._bounds.slope[:2, _OTHERS], _OTHERS), (jerk, _JERK)):
            gradient[: len(slope)] += np.add.reduce(slope * pull[rows], axis=1)
            bent = slope * bend[rows]
            for entry, (i, j) in enumerate(ENTRIES):
                if j < len(slope):
                    hessian[entry] += np.add.reduce(bent[i] * slope[j], axis=0)
        gradient[0] -= 0.5 / (b * root)
        hessian[0] += 0.75 / (b**2 * root)
        return gradient * self._weight, hessian * self._weight


def _rows(bounds: _Bounds, values: Array) -> Array:
    """Return the linear rows (m, n) of bounds for values (3, n) of a spline, without `hold`."""
    free = bounds.slope[0] * values[0]
    free += bounds.slope[1] * values[1]
    free[_JERK] += bounds.slope[2, _JERK] * values[2]
    return np.asarray(free)


def _minimise(
    spline: GaussSpline, bounds: _Bounds, c: Array, barriers: Sequence[float]
) -> tuple[Array, bool]:
    """Return the coefficients of the fastest b, starting from `c`, and if the search converged."""
    values = spline.values(c)
    at = _Barrier(values, _rows(bounds, values) + bounds.hold, spline.weight, bounds)
    left, promise, mu = _MAX_STEPS, np.inf, 0.0
    for share in barriers:
        mu, promise = share * at.duration, np.inf
        while promise > mu and left:
            checkpoint()
            left -= 1
            try:
                step, promise = spline.newton_step(*at.expand(mu))
            except LinAlgError:
                return c, False
            length, at = _step_length(spline, bounds, at, step, mu)
            if length == 0.0:
                return c, promise < mu
            c = c + length * step
    return c, promise <= mu


def _step_length(
    spline: GaussSpline, bounds: _Bounds, at: _Barrier, step: Array, mu: float
) -> tuple[float, _Barrier]:
    """
    Return the step length, 0 = no step, and the profile there.

    It is halved until the profile is within the bounds and its cost has decreased.
    """
    length, cost, values = 1.0, at.cost(mu), spline.values(step)
    free = _rows(bounds, values)
    while length > _MIN_LENGTH:
        trial = at.moved(length, values, free)
        if trial.is_inside and trial.cost(mu) < cost:
            return length, trial
        length *= 0.5
    return 0.0, at
