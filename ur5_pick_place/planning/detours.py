# SPDX-License-Identifier: Apache-2.0
"""
Paths around obstacles: polylines of a search, with corners rounded as far as collisions allow.

Lengths are times at full joint speed, see `ways_round`. A corner V between legs of directions u
and w is replaced, from the distance d before it to d after it, by the Bezier curve of degree 6
with the control points V - d u, V - 2/3 d u, V - 1/3 d u, V, V + 1/3 d w, V + 2/3 d w, V + d w.
It meets both legs with equal speed, and its second and third derivatives are zero there, so that
the whole path is three times continuously differentiable.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.collision import CollisionModel
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.follow import JointPath
from ur5_pick_place.planning.ways_round import Search

_SAMPLE = 0.04  # [rad] between samples of a path; check_path also checks between them
_SEARCHES = 3  # at most
_LEAST_SEARCH = 0.2  # share of the allowed time that must be left for another search
_PER_CORNER = 24  # samples
_SAMPLES = (64, 800)  # fewest and most of a path
_LEAST = 0.03  # [s]; with a smaller radius the arm stops at the corner
_SHRINK = 0.6  # factor on the radius of a corner that collides
_BEZIER = np.array([1.0, 6.0, 15.0, 20.0, 15.0, 6.0, 1.0])


@dataclass(frozen=True)
class Detour:
    """How a motion differs from the straight one."""

    obstacle: str  # the body that is in the way of the straight motion
    ratio: float  # duration relative to the straight motion, which is blocked

    def __str__(self) -> str:
        percent = round(100.0 * (self.ratio - 1.0))
        longer = f'{percent} % longer than' if percent > 0 else 'no longer than'
        return f'way round {self.obstacle}, {longer} straight'


def paths_round(
    collision: CollisionModel,
    limits: Limits,
    q_start: Array,
    goals: Sequence[Array],
    shortest: float,
    allowed: float,
) -> Iterator[list[JointPath]]:
    """
    Yield free motions from the start to any of the goals, by paths with a stop between them.

    The shortest comes first. Once all of one search are used, another one is begun.

    Joints `q_start` and each of `goals` (6,) [rad] are free of contact. `shortest`: upper bound on
    the length of a path, see `ways_round` [s]. `allowed`: time in which a search must find its
    first path [s].
    """
    begin = time.monotonic()
    for refinement in range(_SEARCHES):  # again, if the paths collide between their samples
        left = allowed - (time.monotonic() - begin)
        if refinement and left < _LEAST_SEARCH * allowed:
            break
        # A fixed share of `allowed`, not the time left: equal requests must have equal results.
        share = 0.5 * allowed if refinement else allowed
        search = Search(collision, limits, q_start, goals, share, refinement)
        for way in search.run(shortest):
            rounded = RoundedPolyline(way, limits.qd)
            if rounded.fit(collision):
                yield rounded.paths()


def straight_samples(a: Array, b: Array) -> Array:
    """Return samples (n, 6) of the straight joint motion between joints (6,) [rad]."""
    steps = int(np.ceil(float(np.abs(b - a).max()) / _SAMPLE))
    return np.asarray(a + np.linspace(0.0, 1.0, max(2, steps + 1))[:, None] * (b - a))


class RoundedPolyline:
    """
    A polyline with rounded corners.

    `points` (n, 6) [rad]. `qd` (6,): joint speeds that convert distances to times [rad/s].

    `radii` (n - 2,): time from the beginning of each corner to its middle [s]; 0 = the arm stops
    there.
    """

    def __init__(self, points: Array, qd: Array) -> None:
        self._points = points
        self._legs = (np.abs(np.diff(points, axis=0)) / qd).max(axis=1)
        self._corners = np.cumsum(self._legs)[:-1]
        room = np.minimum(self._legs[:-1], self._legs[1:])
        # A corner may use a whole first or last leg, but only half of a leg between two corners.
        whole = np.minimum(
            np.append(self._legs[0], self._legs[1:-1] / 2),
            np.append(self._legs[1:-1] / 2, self._legs[-1]),
        )
        self.radii = np.minimum(room, whole) if len(room) else room

    def fit(self, collision: CollisionModel) -> bool:
        """Reduce the radii of corners until the path is free; return whether it is."""
        while True:
            s = self._samples(0, len(self._points) - 1)
            q = self._at(s)
            travel = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(q, axis=0)).max(axis=1))])
            kept = np.searchsorted(travel, np.arange(0.0, travel[-1], _SAMPLE))
            kept = np.unique(np.append(kept, len(q) - 1))
            contact = collision.check_path(q[kept])
            if contact is None:
                return True
            where = float(np.interp(contact.sample, np.arange(len(kept)), s[kept]))
            corner = np.flatnonzero(np.abs(self._corners - where) < self.radii)
            if not corner.size:
                return False
            shrunk = self.radii[corner[0]] * _SHRINK
            self.radii[corner[0]] = shrunk if shrunk >= _LEAST else 0.0

    def paths(self) -> list[JointPath]:
        """Return the paths between stops: one, unless a corner has no radius."""
        stops = [0, *(np.flatnonzero(self.radii == 0.0) + 1), len(self._points) - 1]
        return [JointPath(self._at(self._samples(a, b))) for a, b in pairwise(stops)]

    def _samples(self, first: int, last: int) -> Array:
        """Return equally spaced positions [s] from one point to another, several per corner."""
        at = np.concatenate([[0.0], np.cumsum(self._legs)])
        radii = self.radii[first : last - 1]
        smallest = 2.0 * float(radii[radii > 0.0].min(initial=np.inf))
        wanted = _PER_CORNER * (at[last] - at[first]) / smallest
        return np.linspace(at[first], at[last], int(np.clip(wanted, *_SAMPLES)))

    def _at(self, s: Array) -> Array:
        """Return the joints (n, 6) [rad] at positions `s` (n,) [s]."""
        at = np.concatenate([[0.0], np.cumsum(self._legs)])
        q = np.column_stack([np.interp(s, at, column) for column in self._points.T])
        for i, (corner, radius) in enumerate(zip(self._corners, self.radii, strict=True)):
            inside = np.abs(s - corner) < radius
            if inside.any():
                q[inside] = self._rounded(i, radius, (s[inside] - corner) / radius)
        return q

    def _rounded(self, i: int, radius: float, path_parameter: Array) -> Array:
        """Return the joints (n, 6) [rad] at path parameters -1 to 1 (n,) of corner `i`."""
        before, corner, after = self._points[i : i + 3]
        legs = self._legs[i : i + 2]
        share = np.linspace(1.0, 0.0, 4)[:, None]
        into = corner + share * (before - corner) * (radius / legs[0])
        out_of = corner + share * (after - corner) * (radius / legs[1])
        controls = np.vstack([into, out_of[::-1][1:]])
        u, k = ((path_parameter + 1.0) / 2.0)[:, None], np.arange(7)
        return np.asarray((_BEZIER * u**k * (1.0 - u) ** (6 - k)) @ controls)
