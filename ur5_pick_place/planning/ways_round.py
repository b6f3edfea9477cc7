# SPDX-License-Identifier: Apache-2.0
"""
Search for paths around obstacles: polylines in joint space from a start to any of several goals.

Two trees grow towards each other, one from the start and one from all goals (RRT-Connect: Kuffner
and LaValle, ICRA 2000). Chords shorten the path found (a `way` below), and the search is repeated
for a shorter one. The search for the first path is limited by time, the improvement by a number of
collision tests, so that equal requests have equal results.

The length of a way is a time: the largest joint distance over its speed limit, plus a small share
of the Euclidean distance, which prevents needless motion of the other joints.
"""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.cancellation import checkpoint
from ur5_pick_place.planning.collision.collision import CollisionModel
from ur5_pick_place.planning.limits import Limits

# Clearance beyond the required one, except near the ends [m], for motion between two tests and for
# rounded corners.
_EXTRA = 0.004
_STEP = 0.05  # [m], largest motion of any point of the arm between two tests
_NEAR_END = 0.15  # [m] of motion from an end, within which the required clearance is enough
_STRIDE = 0.5  # [rad], largest edge of a tree
# The dynamic domain of a node (Yershova et al., ICRA 2005): once an edge from it is blocked, only
# samples within its domain extend it: _DOMAIN [s] at first. Each further blocked edge shrinks it
# by _RATE, down to _LEAST_DOMAIN; each free edge widens it by as much. So a search does not try
# again and again to grow through the obstacles around a goal.
_DOMAIN, _LEAST_DOMAIN, _RATE = 0.7, 0.3, 1e-4
_IMBALANCE = 2.0  # of the sizes of both trees, beyond which the smaller one grows
_TESTS = 6_000  # for improvement, per second of allowed time
_LATEST = 3.0  # times the allowed time, after which a search ends even on a busy machine
_TESTS_PER_TRY = 1_500
_DETOUR = 1.6  # largest length of a way before shortening, relative to the best one
_GOOD = 1.02  # times the lower bound; a way this short is not improved
_EUCLIDEAN = 0.1  # share of the Euclidean length
_CHORDS = 120  # tried per way
_IDLE = 40  # failed chords in a row that end the shortening
_BATCH = 256  # samples
_MAX_GOALS = 64
_KEPT = 4  # ways, shortest first

SEARCH_TIME = 1.0
"""Default time allowed for a search [s]."""


def time_distance(dq: Array, qd: Array) -> Array:
    """Return the times [s] that joint distances dq (..., 6) [rad] take at speeds qd (6,)."""
    return np.asarray(np.abs(dq / qd).max(axis=-1))


class _Tree:
    """Configurations with parents, from one or more roots."""

    def __init__(self, roots: Array, qd: Array) -> None:
        self._qd, self.size = qd, len(roots)
        self._scaled = np.empty((max(256, 2 * len(roots)), 6))
        self._scaled[: self.size] = roots / qd
        self.q = list(roots)
        self.parent, self.cost = [-1] * self.size, [0.0] * self.size
        self._domain = [np.inf] * self.size

    def nearest(self, q: Array) -> tuple[int, bool]:
        """Return the node nearest to `q` (6,) [rad], and whether that is in the node's domain."""
        away = np.abs(self._scaled[: self.size] - q / self._qd).max(axis=1)
        i = int(away.argmin())
        return i, bool(away[i] <= self._domain[i])

    def adapt_domain(self, i: int, is_extended: bool) -> None:
        """Shrink the domain of node `i` if an edge from it is blocked, else let it grow."""
        if is_extended:
            self._domain[i] *= 1.0 + _RATE
        else:
            smaller = max(_LEAST_DOMAIN, self._domain[i] * (1.0 - _RATE))
            self._domain[i] = min(_DOMAIN, smaller)

    def add(self, q: Array, parent: int, cost: float) -> int:
        if self.size == len(self._scaled):
            self._scaled = np.concatenate([self._scaled, np.empty_like(self._scaled)])
        self._scaled[self.size] = q / self._qd
        self.q.append(q)
        self.parent.append(parent)
        self.cost.append(cost)
        self._domain.append(np.inf)
        self.size += 1
        return self.size - 1

    def branch(self, i: int) -> list[Array]:
        """Return the configurations from node `i` to its root."""
        found = []
        while i >= 0:
            found.append(self.q[i])
            i = self.parent[i]
        return found


class Search:
    """
    A search for ways from the start to any of the goals.

    `limits`: joint ranges and speeds. `q_start` (6,) [rad]: free of contact. `goals`: joints (6,)
    [rad], free of contact, the nearest first. `allowed`: time in which the first way must be found
    [s]; three times as long if the search got less than half of this time as processor time. The
    improvement then takes a fixed number of collision tests, and ends at the latest after three
    times this time. `refinement`: 0 for the first search; each increment divides the distance
    between tests by three.
    """

    def __init__(
        self,
        collision: CollisionModel,
        limits: Limits,
        q_start: Array,
        goals: Sequence[Array],
        allowed: float,
        refinement: int,
    ) -> None:
        self._exact, self._wide = collision.tests(), collision.tests(_EXTRA)
        self._lever, self._qd = collision.levers(), limits.qd
        self._start, self._goals = q_start, np.array(goals[:_MAX_GOALS])
        self._ends = np.vstack([q_start, self._goals])
        self._low = np.maximum(limits.q_min, self._ends.min(axis=0) - np.pi)
        self._high = np.minimum(limits.q_max, self._ends.max(axis=0) + np.pi)
        self._allowed, self._begin = allowed, time.monotonic()
        self._begin_cpu = time.thread_time()
        self._has_way, self._rounds = False, 0
        self._step = _STEP / 3**refinement
        # No seed from the joints: with encoder noise, equal requests would get different ways.
        self._rng = np.random.default_rng(refinement)

    def run(self, shortest: float) -> list[Array]:
        """
        Return polylines (n, 6) [rad], shorter than `shortest` [s], the shortest first.

        They are tested at samples only: check them in between before use. Empty if none was found
        in time. Raises `PlanningCanceled`: the search was canceled.
        """
        first = self._connect(shortest, np.inf)
        if first is None:
            return []
        self._has_way = True
        ways = [self._shortened(first)]
        end = self._tests() + self._allowed * _TESTS
        least = float(time_distance(self._goals - self._start, self._qd).min())
        while self._tests() < end and self._is_in_time():
            best = self._length(ways[0])
            if best <= _GOOD * (1.0 + _EUCLIDEAN) * least:
                break
            goals = time_distance(self._goals - self._start, self._qd) < best
            self._goals = self._goals[goals] if goals.any() else self._goals
            bound = min(_DETOUR * best, shortest)
            way = self._connect(bound, min(end, self._tests() + _TESTS_PER_TRY))
            if way is not None:
                ways.append(self._shortened(way))
                ways.sort(key=self._length)
                del ways[_KEPT:]
        return ways

    def _tests(self) -> int:
        """Return the work done: collision tests, plus rounds, as a round may need no test."""
        return self._exact.count + self._wide.count + self._rounds

    def _is_in_time(self) -> bool:
        checkpoint()
        elapsed, latest = time.monotonic() - self._begin, _LATEST * self._allowed
        if self._has_way:
            return elapsed < latest
        is_starved = time.thread_time() - self._begin_cpu < 0.5 * self._allowed
        return elapsed < (latest if is_starved else self._allowed)

    # -- trees -----------------------------------------------------------------------------------

    def _connect(self, bound: float, last_test: float) -> list[Array] | None:
        """Return a way shorter than `bound` [s]; None if none is found by the `last_test`."""
        one, other = _Tree(self._start[None], self._qd), _Tree(self._goals, self._qd)
        from_start, samples = True, self._samples(bound)
        while self._tests() < last_test and self._is_in_time():
            self._rounds += 1
            if one.size > _IMBALANCE * other.size:
                one, other, from_start = other, one, not from_start
            sample = next(samples)
            nearest, is_within = one.nearest(sample)
            if not is_within:
                continue
            i = self._extend(one, nearest, sample, from_start, bound)
            if i is not None:
                k = self._reach(other, one.q[i], bound - one.cost[i])
                if k is not None:
                    way = one.branch(i)[::-1] + other.branch(k)[1:]
                    return way if from_start else way[::-1]
            one, other, from_start = other, one, not from_start
        return None

    def _samples(self, bound: float) -> Iterator[Array]:
        """Yield random joints (6,) [rad] through which a way shorter than `bound` [s] can lead."""
        reach = min(bound, 1e3) * self._qd
        low = np.maximum(self._low, self._start - reach)
        high = np.minimum(self._high, self._start + reach)
        while True:
            q = self._rng.uniform(low, high, (_BATCH, 6))
            to_goals = np.min([time_distance(goal - q, self._qd) for goal in self._goals], axis=0)
            least = time_distance(q - self._start, self._qd) + to_goals
            kept = q[least < bound]
            yield from kept if len(kept) else q[np.argsort(least)[:8]]

    def _least(self, q: Array, from_start: bool) -> float:
        """Return the shortest possible time [s] between `q` and the start, or a goal."""
        ends = self._start[None] if from_start else self._goals
        return float(time_distance(ends - q, self._qd).min())

    def _extend(
        self, tree: _Tree, i: int, target: Array, from_start: bool, bound: float
    ) -> int | None:
        """Return a new node one stride from node `i` towards `target`, or None."""
        q, cost = self._stride(tree, i, target)
        if cost + self._least(q, not from_start) >= bound:
            return None
        is_free = self._is_free_edge(tree.q[i], q)
        tree.adapt_domain(i, is_free)
        return tree.add(q, i, cost) if is_free else None

    def _reach(self, tree: _Tree, target: Array, bound: float) -> int | None:
        """Return a node at `target`, reached by any number of strides; None if blocked."""
        i = tree.nearest(target)[0]
        while not np.array_equal(tree.q[i], target):
            q, cost = self._stride(tree, i, target)
            if not self._is_free_edge(tree.q[i], q):
                return None
            i = tree.add(q, i, cost)
        return i if tree.cost[i] < bound else None

    def _stride(self, tree: _Tree, i: int, target: Array) -> tuple[Array, float]:
        """Return the joints (6,) [rad] one stride from node `i` towards `target`, and its cost."""
        dq = target - tree.q[i]
        share = min(1.0, _STRIDE / max(1e-9, float(np.abs(dq).max())))
        q = target if share == 1.0 else tree.q[i] + share * dq
        return q, tree.cost[i] + float(time_distance(q - tree.q[i], self._qd))

    # -- shortening ------------------------------------------------------------------------------

    def _length(self, way: Array) -> float:
        dq = np.diff(way, axis=0)
        return float(self._lengths(dq).sum())

    def _lengths(self, dq: Array) -> Array:
        euclidean = np.linalg.norm(dq / self._qd, axis=-1)
        return np.asarray(time_distance(dq, self._qd) + _EUCLIDEAN * euclidean)

    def _shortened(self, way: list[Array]) -> Array:
        """Return a way, shortened by chords between random points, in all joints or in one."""
        points, idle = np.array(way), 0
        for k in range(_CHORDS):
            if idle > _IDLE or len(points) < 3 or not self._is_in_time():
                break
            shorter = self._with_chord(points, joint=None if k % 3 else int(self._rng.integers(6)))
            idle = idle + 1 if shorter is None else 0
            points = points if shorter is None else shorter
        return self._without_needless_corners(points)

    def _with_chord(self, points: Array, joint: int | None) -> Array | None:
        """Return the way with a chord that makes it shorter, or None."""
        at = np.concatenate([[0.0], np.cumsum(self._lengths(np.diff(points, axis=0)))])
        low, high = np.sort(self._rng.uniform(0.0, at[-1], 2))
        if high - low < 0.02 * at[-1]:
            return None
        ends = np.column_stack([np.interp([low, high], at, column) for column in points.T])
        inside = (at > low) & (at < high)
        if not inside.any():
            return None
        part = np.vstack([ends[0], points[inside], ends[1]])
        if joint is None:
            chord = ends
        else:
            chord = part.copy()
            share = (np.concatenate([[low], at[inside], [high]]) - low) / (high - low)
            chord[:, joint] = ends[0, joint] + share * (ends[1, joint] - ends[0, joint])
        if self._length(chord) > self._length(part) - 1e-4 * at[-1]:
            return None
        if not all(self._is_free_edge(a, b) for a, b in pairwise(chord)):
            return None
        way = np.vstack([points[at <= low], chord, points[at >= high]])
        kept = np.append(True, np.abs(np.diff(way, axis=0)).max(axis=1) > 1e-6)
        kept[-1] = True
        return np.asarray(way[kept])

    def _without_needless_corners(self, points: Array) -> Array:
        """Return the way without corners that a free edge can skip at no cost."""
        i = 1
        while i < len(points) - 1:
            before, here, after = points[i - 1 : i + 2]
            by_corner = self._length(np.array([before, here, after]))
            saves = by_corner >= self._length(np.array([before, after])) - 1e-9
            if saves and self._is_free_edge(before, after):
                points = np.delete(points, i, axis=0)
            else:
                i += 1
        return points

    # -- tests -----------------------------------------------------------------------------------

    def _is_free_edge(self, a: Array, b: Array) -> bool:
        """Return whether the samples after `a` up to `b` are free."""
        dq = b - a
        n = max(1, int(np.ceil(self._lever @ np.abs(dq) / self._step)))
        return all(self._is_free(a + share * dq) for share in _bisecting(n))

    def _is_free(self, q: Array) -> bool:
        if self._wide.is_free(q):
            return True
        motion = np.abs(self._ends - q) @ self._lever
        return bool(motion.min() < _NEAR_END) and self._exact.is_free(q)


@lru_cache(maxsize=512)
def _bisecting(n: int) -> tuple[float, ...]:
    """Return 1/n, 2/n ... 1: the end first, then the middle, then the quarters, and so on."""
    order, seen, gap = [n], {0, n}, 1 << max(0, (n - 1).bit_length())
    while gap > 1:
        gap //= 2
        for k in range(gap, n, gap):
            if k not in seen:
                seen.add(k)
                order.append(k)
    return tuple(k / n for k in order)
