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
from functools import lru_cache

import numpy as np
from scipy.interpolate import BSpline, CubicHermiteSpline
from scipy.linalg import LinAlgError, solveh_banded

from ur5_pick_place.errors import PlanningError
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.cancellation import checkpoint
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths import JointPath

# Four points in each interval, on [0, 1].
_POINTS, _SHARES = np.polynomial.legendre.leggauss(4)
ABSCISSAE, WEIGHTS = 0.5 * (_POINTS + 1.0), 0.5 * _SHARES


class GaussSpline:
    """
    Cubic splines over [0, 1] with their values, first and second derivatives at Gauss points.

    Parameters
    ----------
    intervals : int
        Number of equal intervals.

    Attributes
    ----------
    knots : ndarray, shape (intervals + 7,)
    x, weight : ndarray, shape (n,)
        Gauss points, four in each interval, and their quadrature weights.
    size : int
        Number of coefficients.

    """

    def __init__(self, intervals: int) -> None:
        grid = np.linspace(0.0, 1.0, intervals + 1)
        self.knots = np.concatenate([np.zeros(3), grid, np.ones(3)])
        self.x = (grid[:-1, None] + grid[1] * ABSCISSAE).ravel()
        self.weight = np.tile(grid[1] * WEIGHTS, intervals)
        self.intervals, self.size = intervals, intervals + 3
        # The four coefficients that act on each point, (points, 4), and the basis, (points, 3, 4).
        self._active = np.arange(intervals).repeat(len(WEIGHTS))[:, None] + np.arange(4)
        bases = BSpline(self.knots, np.eye(self.size), 3)
        points = np.arange(self.x.size)[:, None]
        self._basis = np.stack([bases(self.x, nu=k)[points, self._active] for k in range(3)], 1)

    def values(self, coefficients: Array) -> Array:
        """Return (points, 3): the spline and its first two derivatives."""
        return np.asarray((self._basis @ coefficients[self._active][:, :, None])[:, :, 0])

    def newton_step(self, gradient: Array, hessian: Array) -> tuple[Array, float]:
        """
        Return the Newton step and the predicted decrease.

        Parameters
        ----------
        gradient, hessian : ndarray, shapes (points, 3) and (points, 3, 3)
            Of a sum over the points, with respect to the values there.

        """
        per_interval = (self.intervals, len(WEIGHTS), 4)
        local = (gradient[:, None, :] @ self._basis)[:, 0]
        local = local.reshape(per_interval).sum(axis=1)
        block = self._basis.transpose(0, 2, 1) @ hessian @ self._basis
        block = block.reshape(*per_interval, 4).sum(axis=1)
        total, band = np.zeros(self.size), np.zeros((4, self.size))
        for i in range(4):
            total[i : i + self.intervals] += local[:, i]
            for j in range(i + 1):
                band[i - j, j : j + self.intervals] += block[:, i, j]
        step = -solveh_banded(band, total, lower=True)
        return step, -float(total @ step)


@lru_cache(maxsize=4)
def gauss_spline(intervals: int) -> GaussSpline:
    """Return the spline with that many equal intervals; the last four are cached."""
    return GaussSpline(intervals)



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
    """
    The rate at which a motion passes its path, over a parameter x in [0, 1].

    Attributes
    ----------
    rate : BSpline
        b = (dx/dt)^2 over x [1/s^2]: the square of the rate at which x grows.
    is_optimal : bool
        Whether the search converged; the motion is within the limits in any case.

    """

    rate: BSpline
    is_optimal: bool

    def clock(self) -> CubicHermiteSpline:
        """Return the time [s] as a function of x, exact to about 1e-9 s."""
        x = np.linspace(0.0, 1.0, 10 * (len(np.unique(self.rate.t)) - 1) + 1)
        h = x[1]
        slowness = 1.0 / np.sqrt(self.rate(x[:-1, None] + h * ABSCISSAE))
        t = np.concatenate([[0.0], np.cumsum(h * (slowness @ WEIGHTS))])
        return CubicHermiteSpline(x, t, 1.0 / np.sqrt(self.rate(x)))


class ProfileSearch:
    """
    The search for the fastest profile along a path within limits.

    Parameters
    ----------
    path : JointPath
    limits : Limits
    speed_of : callable
        (q (n, 6), qd (n, 6)) -> speeds (n, k) [m/s] to keep under `limits.speed`.
    dynamics : Dynamics, optional
        The arm with its load, whose torque limits are then kept too.
    min_intervals : int
        Smallest number of spline intervals; more are used where the path bends.

    Raises
    ------
    PlanningError
        The joint torques cannot hold the arm at rest somewhere on the path.

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

        Parameters
        ----------
        x : ndarray, shape (n,)
            Parameters from 0 to 1, ascending.
        factor : ndarray, shape (n - 1,)
            By which the motion has to be slower between two of them; below 1 counts as 1.

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


@dataclass(frozen=True)
class _Bounds:
    """
    Fraction of each limit that is used at each point, as a function of b, b' and b''.

    Attributes
    ----------
    speed : ndarray, shape (n,)
        Fraction of the velocity and speed limits, squared, per b.
    effort : ndarray, shape (n, 2, m)
        Of joint accelerations, and of joint torques if they are known, per b and b'.
    hold : ndarray, shape (n, m)
        The same at rest: zero for accelerations, gravity for torques.
    jerk : ndarray, shape (n, 3, 6)
        Per b, b' and b'', to be multiplied by sqrt(b).

    """

    speed: Array
    effort: Array
    hold: Array
    jerk: Array

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
        effort, hold = np.stack([f2, 0.5 * f1], axis=1) / limits.qdd, np.zeros_like(q)
        if dynamics is not None:
            gravity = dynamics.gravity(q)
            _check_hold(gravity, dynamics.torque_max)
            moving = [dynamics.inverse(q, f1, f2), dynamics.inverse(q, 0.0, 0.5 * f1)]
            torque = np.stack(moving, axis=1) - gravity[:, None]
            effort = np.concatenate([effort, torque / dynamics.torque_max], axis=2)
            hold = np.concatenate([hold, gravity / dynamics.torque_max], axis=1)
        speed_max = np.minimum(limits.speed, path.speed_at(path_parameter(x)))
        return cls(
            np.maximum(joint, speed_of(q, f1).max(axis=1) / speed_max) ** 2,
            effort,
            hold,
            np.stack([f3, 1.5 * f2, 0.5 * f1], axis=1) / limits.qddd,
        )

    def slowed(self, factor: Array) -> '_Bounds':
        """Return the bounds for a motion that is slower by `factor` (n,) at each point."""
        return _Bounds(
            self.speed * factor**2,
            self.effort * (factor**2)[:, None, None],
            self.hold,
            self.jerk * (factor**3)[:, None, None],
        )

    def even_rate(self) -> float:
        """Return half of the largest constant b."""
        return 0.5 * min(
            float(1.0 / self.speed.max()),
            float(((1.0 - np.abs(self.hold)) / np.abs(self.effort[:, 0]).clip(1e-12)).min()),
            float((1.0 / np.abs(self.jerk[:, 0]).max()) ** (2.0 / 3.0)),
        )


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

    def __init__(self, values: Array, weight: Array, bounds: _Bounds) -> None:
        self._weight, self._bounds = weight, bounds
        self._b = b = values[:, 0]
        self.is_inside = bool(b.min() > 0.0)
        if not self.is_inside:
            return
        self._root = np.sqrt(b)
        self._speed = b * bounds.speed
        self._effort = (values[:, None, :2] @ bounds.effort)[:, 0] + bounds.hold
        self._free_jerk = (values[:, None, :] @ bounds.jerk)[:, 0]
        self._jerk = self._free_jerk * self._root[:, None]
        rows = (self._speed, self._effort, self._jerk)
        self.is_inside = all(np.abs(row).max() < 1.0 for row in rows)
        if self.is_inside:
            self.duration = float((weight / self._root).sum())
            self._height = -float(
                weight @ sum(np.log1p(-(row**2)).reshape(len(b), -1).sum(axis=1) for row in rows)
            )

    def cost(self, mu: float) -> float:
        """Return the duration [s] plus `mu` times the barrier."""
        return self.duration + mu * self._height

    def expand(self, mu: float) -> tuple[Array, Array]:
        """Return gradient (n, 3) and Gauss-Newton Hessian (n, 3, 3) of the cost at each point."""
        n, bounds = len(self._b), self._bounds
        gradient, hessian = np.zeros((n, 3)), np.zeros((n, 3, 3))
        jerk_slope = bounds.jerk * self._root[:, None, None]
        jerk_slope[:, 0] += self._free_jerk * (0.5 / self._root)[:, None]
        for row, slope in (
            (self._speed[:, None], bounds.speed[:, None, None]),
            (self._effort, bounds.effort),
            (self._jerk, jerk_slope),
        ):
            k, room = slope.shape[1], 1.0 - row**2
            gradient[:, :k] += (slope @ (2.0 * mu * row / room)[:, :, None])[:, :, 0]
            curvature = 2.0 * mu * (1.0 + row**2) / room**2
            hessian[:, :k, :k] += (slope * curvature[:, None]) @ slope.transpose(0, 2, 1)
        gradient[:, 0] -= 0.5 / (self._b * self._root)
        hessian[:, 0, 0] += 0.75 / (self._b**2 * self._root)
        return gradient * self._weight[:, None], hessian * self._weight[:, None, None]


def _minimise(
    spline: GaussSpline, bounds: _Bounds, c: Array, barriers: Sequence[float]
) -> tuple[Array, bool]:
    """Return the coefficients of the fastest b, starting from `c`, and if the search converged."""
    at = _Barrier(spline.values(c), spline.weight, bounds)
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
            length = _step_length(spline, bounds, at, c, step, mu)
            if length == 0.0:
                return c, promise < mu
            c = c + length * step
            at = _Barrier(spline.values(c), spline.weight, bounds)
    return c, promise <= mu


def _step_length(
    spline: GaussSpline, bounds: _Bounds, at: _Barrier, c: Array, step: Array, mu: float
) -> float:
    """
    Return the step length; 0 = no step.

    It is halved until the profile is within the bounds and its cost has decreased.

    """
    length = 1.0
    while length > _MIN_LENGTH:
        trial = _Barrier(spline.values(c + length * step), spline.weight, bounds)
        if trial.is_inside and trial.cost(mu) < at.cost(mu):
            return length
        length *= 0.5
    return 0.0
