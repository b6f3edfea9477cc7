# SPDX-License-Identifier: Apache-2.0
"""A timed joint trajectory, interpolated exactly as the robot's controller does."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import GateRefusal, InvalidInput
from ur5_pick_place.kinematics._ik import sample_quintics
from ur5_pick_place.kinematics.transforms import Array, is_finite

MAX_DURATION = 400.0  # [s]; bounds the memory of checks that sample every 2 ms
PATH_STEP = 0.02  # [s] between two joints of a path
_ROUNDED = 1e-6  # [s]; messages carry whole nanoseconds
_ROUNDS, _SAMPLES = 3, 33  # of a search within a segment: to 0.01 % of it
_MAX_NAMES = 256  # joints in a message; a cell has a few dozen at most


@dataclass(frozen=True)
class Trajectory:
    """
    Joint positions, velocities and accelerations at increasing times.

    Between two points the joint trajectory controller interpolates with the quintic that meets
    both ends' position, velocity and acceleration; so does `sample`.

    Raises `InvalidInput`: there is no point, a shape is wrong, a value is not finite, or times do
    not increase from 0 to at most `MAX_DURATION`.
    """

    t: Array  # (n,) time from start [s], strictly increasing, first 0
    # (n, 6) position [rad], velocity [rad/s] and acceleration [rad/s^2] in controller joint order
    q: Array
    qd: Array
    qdd: Array

    def __post_init__(self) -> None:
        # Copies, in two blocks: a closed loop makes a trajectory in every cycle.
        t = np.array(self.t, dtype=float)
        motion = [np.asarray(of, dtype=float) for of in (self.q, self.qd, self.qdd)]
        n = t.size
        if n < 1 or t.shape != (n,):
            raise InvalidInput(f'trajectory times have shape {t.shape}: must be (n,), n >= 1')
        for name, of in zip(('q', 'qd', 'qdd'), motion, strict=True):
            if of.shape != (n, 6):
                raise InvalidInput(f'trajectory {name} has shape {of.shape}: must be ({n}, 6)')
        block = np.array(motion)
        t.setflags(write=False)
        block.setflags(write=False)
        for name, of in zip(('t', 'q', 'qd', 'qdd'), (t, *block), strict=True):
            object.__setattr__(self, name, of)
        if not (is_finite(t) and is_finite(block)):
            self._refuse_not_finite()
        self._check_times()

    def _refuse_not_finite(self) -> None:
        for name in ('t', 'q', 'qd', 'qdd'):
            of = getattr(self, name)
            for where in np.argwhere(~np.isfinite(of)).tolist():
                raise InvalidInput(f'trajectory {name}{where} = {of[tuple(where)]}: not finite')

    def _check_times(self) -> None:
        if self.t[0] != 0.0:
            raise InvalidInput(f'trajectory starts at time {self.t[0]} s: must start at 0')
        check_duration(self.duration)
        late = self.t[1:] <= self.t[:-1]
        if np.count_nonzero(late):
            i = int(late.argmax())
            raise InvalidInput(
                f'trajectory times must increase: point {i} at {self.t[i]} s, '
                f'point {i + 1} at {self.t[i + 1]} s'
            )

    @property
    def duration(self) -> float:
        """Time of the last point [s]."""
        return float(self.t[-1])

    def sample(
        self, t: ArrayLike
    ) -> tuple[Array, Array, Array, Array]:
        """
        Return position, velocity, acceleration and jerk at times `t`, shape (...,) [s].

        Times outside the trajectory are clipped to its ends. Each result has shape (..., 6), in
        rad, rad/s, rad/s^2 and rad/s^3.
        """
        times = np.asarray(t, dtype=float)
        shape = (*times.shape, 6)
        if self.t.size == 1:
            still = np.zeros(shape)
            return still + self.q[0], still, still.copy(), still.copy()
        motion = np.empty((4, times.size, 6))
        sample_quintics(self.t, self._coefficients(), np.ascontiguousarray(times).ravel(), motion)
        q, qd, qdd, qddd = motion
        return q.reshape(shape), qd.reshape(shape), qdd.reshape(shape), qddd.reshape(shape)

    def jerk_peaks(self) -> tuple[Array, Array]:
        """
        Return the time [s] and the size [rad/s^3] of each segment's peak jerk, shapes (n - 1, 6).

        The jerk of a quintic is a parabola, which peaks at an end or at its vertex; from one
        segment to the next it jumps. A single point has one row of zeros.
        """
        if self.t.size == 1:
            return np.zeros((1, 6)), np.zeros((1, 6))
        _, _, _, c3, c4, c5 = self._coefficients()
        h = np.broadcast_to(np.diff(self.t)[:, None], c3.shape)
        with np.errstate(divide='ignore', invalid='ignore'):
            vertex = np.nan_to_num(np.clip(-0.2 * c4 / c5, 0.0, h))
        u = np.stack([np.zeros_like(h), vertex, h])
        jerk = np.abs(6 * c3 + u * (24 * c4 + u * 60 * c5))
        peak = jerk.argmax(axis=0)[None]
        u, jerk = (np.take_along_axis(of, peak, axis=0)[0] for of in (u, jerk))
        return self.t[:-1, None] + u, jerk

    def time_near(self, t: float, q: Array) -> float:
        """
        Return the time [s] at which the motion is nearest to joints `q` (6,) [rad].

        The search is from the trajectory's last point before `t` [s] to `t`; of equally near times
        the last one counts.
        """
        if t <= 0.0:
            return t
        low, high = self.t[max(int(np.searchsorted(self.t, t - _ROUNDED)) - 1, 0)], t
        for _ in range(_ROUNDS):
            times = np.linspace(high, low, _SAMPLES)
            nearest = int(np.abs(self.sample(times)[0] - q).max(axis=1).argmin())
            high, low = times[max(nearest - 1, 0)], times[min(nearest + 1, _SAMPLES - 1)]
        return float(times[nearest])

    def _coefficients(self) -> Array:
        """Return the quintic per segment and joint, lowest power first: shape (6, n - 1, 6)."""
        cached: Array | None = self.__dict__.get('_quintic')
        if cached is not None:
            return cached
        h = np.diff(self.t)[:, None]
        p0, v0, a0 = self.q[:-1], self.qd[:-1], self.qdd[:-1]
        v1, a1 = self.qd[1:], self.qdd[1:]
        # What remains at the segment's end after the motion that the first point implies.
        dp = self.q[1:] - p0 - h * (v0 + 0.5 * h * a0)
        dv = v1 - v0 - h * a0
        da = a1 - a0
        c3 = (10 * dp - 4 * h * dv + 0.5 * h**2 * da) / h**3
        c4 = (-15 * dp + 7 * h * dv - h**2 * da) / h**4
        c5 = (6 * dp - 3 * h * dv + 0.5 * h**2 * da) / h**5
        quintic = np.stack([p0, v0, 0.5 * a0, c3, c4, c5])
        object.__setattr__(self, '_quintic', quintic)
        return quintic

    @property
    def path(self) -> Array:
        """Joints (n, 6) [rad] along it; a collision check sweeps between them."""
        return self.sample(self.dense_times(PATH_STEP))[0]

    def dense_times(self, step: float) -> Array:
        """
        Return times [s] with every point and each segment split into parts of at most `step`.

        A segment has at least eight parts, so that peaks of a quintic between two close points
        are sampled too.
        """
        if self.t.size == 1:
            return self.t
        h = np.diff(self.t)
        parts = np.maximum(8, np.ceil(h / step)).astype(int)
        first = np.repeat(np.concatenate([[0], np.cumsum(parts)[:-1]]), parts)
        k = np.arange(parts.sum()) - first
        inner = np.repeat(self.t[:-1], parts) + k * np.repeat(h / parts, parts)
        return np.append(inner, self.duration)


def check_duration(duration: float) -> None:
    """Refuse a motion that takes longer than `MAX_DURATION` [s]."""
    if not duration <= MAX_DURATION:
        raise InvalidInput(
            f'motion takes {duration:.4g} s: must be at most {MAX_DURATION:.0f} s; raise the '
            'speed or split the motion'
        )


def hold_trajectory(q: ArrayLike) -> Trajectory:
    """Return the one-point trajectory that stays at `q`, shape (6,) [rad]."""
    zero = np.zeros((1, 6))
    return Trajectory(np.zeros(1), np.reshape(np.asarray(q, dtype=float), (1, 6)), zero, zero)


def joint_order(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """
    Return the index in `names` of each wanted joint.

    Raises `GateRefusal`: a joint is missing, named twice or unknown.
    """
    names = list(names)
    if len(names) > _MAX_NAMES:
        raise GateRefusal(f'{len(names)} joints: must be {len(wanted)}', 'names')
    twice = sorted({n for n in names if names.count(n) > 1})
    unknown = [n for n in names if n not in wanted]
    missing = [n for n in wanted if n not in names]
    for what, which in (('named twice', twice), ('unknown', unknown), ('missing', missing)):
        if which:
            raise GateRefusal(
                f'joints {what}: {", ".join(which)}; a motion names each of '
                f'{", ".join(wanted)} once, in any order',
                'names',
            )
    return [names.index(n) for n in wanted]
