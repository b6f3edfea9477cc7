# SPDX-License-Identifier: Apache-2.0
"""Paths around obstacles, free of collision and with rounded corners."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.collision import CollisionModel
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.follow import JointPath
from ur5_pick_place.planning.paths.rounding import RoundedPolyline
from ur5_pick_place.planning.ways_round import find_ways

_SAMPLE = 0.04  # [rad] between samples of a path; check_path also checks between them
_SEARCHES = 3  # at most
_LEAST_SEARCH = 0.2  # share of the allowed time that must be left for another search


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
        for way in find_ways(collision, limits, q_start, goals, shortest, share, refinement):
            rounded = RoundedPolyline(way, limits.qd)
            if rounded.fit(lambda q: _first_contact(collision, q)):
                yield rounded.paths()


def straight_samples(a: Array, b: Array) -> Array:
    """Return samples (n, 6) of the straight joint motion between joints (6,) [rad]."""
    steps = int(np.ceil(float(np.abs(b - a).max()) / _SAMPLE))
    return np.asarray(a + np.linspace(0.0, 1.0, max(2, steps + 1))[:, None] * (b - a))


def _first_contact(collision: CollisionModel, q: Array) -> float | None:
    travel = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(q, axis=0)).max(axis=1))])
    kept = np.searchsorted(travel, np.arange(0.0, travel[-1], _SAMPLE))
    kept = np.unique(np.append(kept, len(q) - 1))
    contact = collision.check_path(q[kept])
    if contact is None:
        return None
    return float(np.interp(contact.sample, np.arange(len(kept)), kept))
