# SPDX-License-Identifier: Apache-2.0
"""
Interpolation of joint waypoints as in the driver's trajectory controller.

The degree of a segment follows from what *both* its ends carry: positions give a straight line,
velocities a cubic, velocities and accelerations a quintic. For accelerations without velocities
the controller commands joint positions of zero; so does this spline.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ur5_pick_place.kinematics.transforms import Array

_POWERS = np.arange(6)


@dataclass(frozen=True)
class Waypoint:
    """One point of a commanded trajectory; empty fields are not given."""

    time: float  # [s] from the trajectory's start
    positions: Sequence[float]  # [rad]
    velocities: Sequence[float] = ()  # [rad/s]
    accelerations: Sequence[float] = ()  # [rad/s2]
    effort: Sequence[float] = ()


@dataclass(frozen=True)
class TrajectoryCommand:
    """A trajectory commanded by a client; `stamp` [s] of zero means now."""

    joint_names: Sequence[str]
    points: Sequence[Waypoint]
    stamp: float = 0.0


@dataclass(frozen=True)
class Knot:
    """Joint state at a waypoint, (6,) each; None where not given."""

    q: Array
    qd: Array | None = None
    qdd: Array | None = None


@dataclass(frozen=True)
class Sample:
    """Interpolated joint state, (6,) each; `index` is the waypoint being approached."""

    q: Array
    qd: Array
    qdd: Array
    index: int


class Spline:
    """
    A spline through waypoints over trajectory time, starting at a measured state.

    `times`: time of every waypoint from the trajectory's start [s]. After a splice they need not
    increase: the first segment that holds a time counts. `knots`: joint state at every waypoint.
    `entry_time`: trajectory time at which the measured state was taken [s]; negative when the
    trajectory starts in the future, positive when it started in the past. `entry`: the measured
    state.
    """

    def __init__(
        self, times: Sequence[float], knots: Sequence[Knot], entry_time: float, entry: Knot
    ) -> None:
        if entry.qdd is None and knots[0].qdd is not None:
            entry = Knot(entry.q, entry.qd, np.zeros_like(entry.q))
        self.entry_time = entry_time
        self.times = list(times)
        self._increases = all(a < b for a, b in pairwise(self.times))
        self._knots = list(knots)
        self._entry = entry
        self._segments: dict[int, Array] = {}

    @property
    def waypoints(self) -> list[tuple[float, Knot]]:
        """The waypoints and their times [s]."""
        return list(zip(self.times, self._knots, strict=True))

    @property
    def end_time(self) -> float:
        """Trajectory time of the last waypoint [s]."""
        return self.times[-1]

    def sample(self, time: float) -> Sample:
        """Return the joint state at a trajectory time [s]; later ones give the last waypoint."""
        index = self._index(time)
        if index == len(self.times):
            last = self._knots[-1]
            rest = np.zeros_like(last.q)
            return Sample(
                last.q,
                rest if last.qd is None else last.qd,
                rest if last.qdd is None else last.qdd,
                index,
            )
        start = self.entry_time if index == 0 else self.times[index - 1]
        c = self._segment(index)
        powers = (time - start) ** _POWERS
        first = _POWERS[1:] * powers[:-1]  # derivatives of the powers
        second = _POWERS[2:] * first[:-1]
        with np.errstate(invalid='ignore'):  # a client may command NaN or infinity
            return Sample(powers @ c, first @ c[1:], second @ c[2:], index)

    def _index(self, time: float) -> int:
        """Return the waypoint that is approached at a time [s]; their number after the end."""
        times = self.times
        if self._increases:
            return bisect_right(times, time)
        if time < times[0]:
            return 0
        held = (i for i in range(1, len(times)) if times[i - 1] <= time < times[i])
        return next(held, len(times))

    def _segment(self, index: int) -> Array:
        """Return the coefficients (6 powers, 6 joints) of the segment that ends at a waypoint."""
        if index not in self._segments:
            a = self._entry if index == 0 else self._knots[index - 1]
            start = self.entry_time if index == 0 else self.times[index - 1]
            with np.errstate(invalid='ignore'):
                segment = join(a, self._knots[index], self.times[index] - start)
            self._segments[index] = segment
        return self._segments[index]


def join(a: Knot, b: Knot, duration: float) -> Array:
    """
    Return the polynomial coefficients between two joint states.

    Returns (6, 6): row k multiplies the k-th power of the time since `a` [s]; columns are joints.
    """
    c = np.zeros((6, a.q.size))
    step = b.q - a.q
    if a.qd is None or b.qd is None:
        if a.qdd is None or b.qdd is None:
            c[0], c[1] = a.q, step / duration
        return c
    c[0], c[1] = a.q, a.qd
    if a.qdd is None or b.qdd is None:
        c[2] = (3 * step / duration - 2 * a.qd - b.qd) / duration
        c[3] = (-2 * step / duration + a.qd + b.qd) / duration**2
        return c
    c[2] = a.qdd / 2
    rest = step - (a.qd + c[2] * duration) * duration  # contribution of the upper three powers
    speed = (b.qd - a.qd - a.qdd * duration) * duration
    bend = (b.qdd - a.qdd) * duration**2
    c[3] = (10 * rest - 4 * speed + bend / 2) / duration**3
    c[4] = (-15 * rest + 7 * speed - bend) / duration**4
    c[5] = (6 * rest - 3 * speed + bend / 2) / duration**5
    return c
