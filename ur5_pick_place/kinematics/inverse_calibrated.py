# SPDX-License-Identifier: Apache-2.0
"""
The inverse of a calibrated arm: Newton's method from the solutions of the nominal arm.

Real joints are slightly displaced and tilted against the DH table, so that the closed form only
gives seeds. Near a singularity this has two effects. Solutions exist where the nominal arm has
none: the arguments of its square root and arccosine are clipped (`_APART`, `_CLOSED`), which gives
seeds there too. And theta_6, free at the nominal arm's wrist singularity, has several isolated
values: there the seeds cover the circle (`_CIRCLE`). Finally the nominal arm's pose at each
solution differs from the given pose by the effect of the calibration: the closed-form solutions of
that pose are better seeds.

Where two singularities are near, a solution may yet be missed. Joints at which the arm is, or is
to be near, are a seed too, so that an arm always finds the joints at which it stands.

"""

from dataclasses import replace
from math import pi

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics.branches import classify
from ur5_pick_place.kinematics.forward import forward
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.scalar import WRIST_SINGULAR
from ur5_pick_place.kinematics.transforms import Array

Indices = NDArray[np.intp]

MOST = 16
"""Largest number of solutions kept for one pose; no more than twelve were ever found."""

_RESIDUAL = 1e-11  # m and rad, of a solution
_SAME = 1e-6  # rad; closer solutions count as one
_NEW = 0.1  # rad; a seed must be this far from every known solution
# rad; least |phi|, and least distance of theta_3 from 0 and pi, of a seed: of the values from 0.01
# to 0.2 the one that misses the fewest solutions near singularities, for arms off by up to 2 mm
# and 4 mrad
_APART = 0.04
_CLOSED = 1.1  # largest computed |cos(theta_3)| that is clipped, to a stretched or folded elbow
_NEAR_WRIST = 0.1  # rad of theta_5; a few times what calibrations tilt the tool by
# Near the shoulder singularity, where tan(phi) is less than the first, calibrations turn theta_1
# and so tilt the wrist by much more: the second counts [rad of theta_5].
_NEAR_SHOULDER, _NEAR_WRIST_THERE = 0.4, 0.4
_WRISTS = np.array([0.0, pi])  # offsets of theta_6 from its closed-form value
_CIRCLE = pi / 8.0 * np.delete(np.arange(16.0), [0, 8])  # the same, around the circle
_CHUNK = 256  # poses at a time, which bounds the memory
_SIGMA = np.array([1.0, -1.0])  # sign of phi: left, right; of theta_3 sign(phi): up, down


def inverse_calibrated(
    m: Model, T: Array, q6: Array, seed: Array | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """
    Return the solutions of n rigid poses (n, 4, 4) of a calibrated arm; see `inverse`.

    A solution is in the row that `classify` names. Near a singularity two may share a label: the
    row then holds the one whose theta_6 is nearer to the desired one; `calibrated_solutions`
    returns both.

    """
    q, count = calibrated_solutions(m, T, q6, seed)
    rows, nearest = np.full((len(T), 8, 6), np.nan), np.full((len(T), 8), np.inf)
    labels = classify(m, np.nan_to_num(q))
    off = np.abs(wrap_to_pi(q[..., 5] - q6[:, None]))
    for k in range(int(count.max(initial=0))):
        pose = np.flatnonzero(count > k)
        pose = pose[off[pose, k] < nearest[pose, labels[pose, k]]]
        row = labels[pose, k]
        rows[pose, row], nearest[pose, row] = q[pose, k], off[pose, k]
    return rows, np.isfinite(nearest)


def calibrated_solutions(
    m: Model, T: Array, q6: Array, seed: Array | None = None
) -> tuple[Array, Indices]:
    """
    Return every solution found for n rigid poses.

    Parameters
    ----------
    m : Model
    T : ndarray, shape (n, 4, 4)
        T_base_tool [m].
    q6 : ndarray, shape (n,)
        First theta_6 to try at a wrist singularity of the nominal arm [rad].
    seed : ndarray, shape (n, 6), optional
        Joints from which to search too [rad].

    Returns
    -------
    q : ndarray, shape (n, MOST, 6)
        In (-pi, pi]; NaN after the last solution.
    count : ndarray of int, shape (n,)

    """
    q, count = np.full((len(T), MOST, 6), np.nan), np.zeros(len(T), dtype=np.intp)
    for start in range(0, len(T), _CHUNK):
        rows = slice(start, start + _CHUNK)
        search = _Search(m, T[rows])
        search.begin(q6[rows], None if seed is None else seed[rows])
        search.search_from_found()
        search.search_from_found()
        q[rows], count[rows] = search.q, search.count
    return q, count


class _Search:
    """Collects solutions `q` of poses (n, 4, 4) and their `count`; see `calibrated_solutions`."""

    def __init__(self, m: Model, T: Array) -> None:
        self._m, self._nominal, self._T = m, replace(m, mounts=None), T
        self.q, self.count = np.full((len(T), MOST, 6), np.nan), np.zeros(len(T), dtype=np.intp)
        self._searched = np.zeros(len(T), dtype=np.intp)  # how many solutions were searched from

    def begin(self, q6: Array, seed: Array | None) -> None:
        """
        Search from the nominal solutions, near a wrist singularity around the circle.

        First from the seed, so that its solution is kept, whatever else is found.

        """
        seeds, is_near = _seeds(self._nominal, self._T, q6, _WRISTS)
        near = np.flatnonzero(is_near.any(axis=1))
        circle, _ = _seeds(self._nominal, self._T[near], q6[near], _CIRCLE)
        circle[~np.repeat(is_near[near], 2 * len(_CIRCLE), axis=1)] = np.nan
        every = np.arange(len(seeds))
        poses = [every.repeat(8), near.repeat(circle.shape[1])]
        all_seeds = [seeds.reshape(-1, 6), circle.reshape(-1, 6)]
        if seed is not None:
            poses.insert(0, every)
            all_seeds.insert(0, seed)
        self._add(np.concatenate(poses), np.concatenate(all_seeds))

    def search_from_found(self) -> None:
        """Seed with the closed form of the nominal arm's pose at each new solution."""
        index = np.arange(MOST)
        pose, k = np.nonzero((index >= self._searched[:, None]) & (index < self.count[:, None]))
        if not len(pose):
            return
        self._searched = self.count.copy()
        found = self.q[pose, k]
        seeds, _ = _seeds(self._nominal, forward(self._nominal, found), found[:, 5], _WRISTS)
        known = self.q[pose, : self.count.max()]
        apart = _apart(seeds[:, :, None], known[:, None])
        seeds[np.nanmin(apart, axis=2, initial=np.inf) < _NEW] = np.nan
        self._add(pose.repeat(8), seeds.reshape(-1, 6))

    def _add(self, pose: Indices, seeds: Array) -> None:
        """Keep the new solutions reached from seeds (k, 6) for poses (k,); skip rows of NaN."""
        is_seed = np.isfinite(seeds[:, 0])
        pose = pose[is_seed]
        q, residual = _newton(self._m, self._T[pose], seeds[is_seed])
        is_solution = residual < _RESIDUAL
        pose, q = pose[is_solution], wrap_to_pi(q[is_solution])
        while len(pose):  # one of each pose at a time
            _, first = np.unique(pose, return_index=True)
            one, p = q[first], pose[first]
            known = np.nanmin(_apart(one[:, None], self.q[p]), axis=1, initial=np.inf) < _SAME
            new = ~known & (self.count[p] < MOST)
            self.q[p[new], self.count[p[new]]] = one[new]
            self.count[p[new]] += 1
            pose, q = np.delete(pose, first), np.delete(q, first, axis=0)


def _seeds(
    nominal: Model, T: Array, q6: Array, turns: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """
    Return joints (n, 4 k, 6) [rad] with which a nominal arm is at or near poses (n, 4, 4).

    Also returns by shoulder, (n, 2), whether the wrist of a calibrated one may be singular there.

    Rows are ordered by shoulder, elbow and turn. theta_6 is its closed-form value plus each of
    `turns` (k,) [rad] (0: first wrist branch, pi: second); theta_5 is the value that fits this
    theta_6 best. Rows are NaN where the elbow is far from reaching.

    """
    a2, a3, d1, d4, d5, d6 = nominal.lengths
    n, o, a = (T[:, :3, i, None, None] for i in range(3))  # each (n, 3, 1, 1)
    x, y, z = (T[:, :3, 3] - d6 * T[:, :3, 2] - [0.0, 0.0, d1]).T[:, :, None]
    s = np.sqrt(np.maximum(x * x + y * y - d4 * d4, (_APART * d4) ** 2))
    x1 = -_SIGMA * s  # frame 5 in frame 1, (n, 2); t1 turns it to (x, y) as far as it can
    t1 = (np.arctan2(y, x) - np.arctan2(-d4, x1))[:, :, None]
    c1, s1 = np.cos(t1), np.sin(t1)
    s5c6, s5s6 = s1 * n[:, 0] - c1 * n[:, 1], c1 * o[:, 1] - s1 * o[:, 0]
    c5 = s1 * a[:, 0] - c1 * a[:, 1]
    s5 = np.hypot(s5c6, s5s6)
    desired = q6[:, None, None] + nominal.offset[5]
    own = np.where(s5 <= WRIST_SINGULAR, desired, np.arctan2(s5s6, s5c6))
    t6 = own + turns  # (n, 2, k)
    c6, s6 = np.cos(t6), np.sin(t6)
    t5 = np.arctan2(c6 * s5c6 + s6 * s5s6, c5)
    nx, ox = n[:, 0] * c1 + n[:, 1] * s1, o[:, 0] * c1 + o[:, 1] * s1
    t234 = np.arctan2(-(s6 * nx + c6 * ox), s6 * n[:, 2] + c6 * o[:, 2])
    u, v = x1[:, :, None] - d5 * np.sin(t234), z[:, :, None] + d5 * np.cos(t234)
    c3 = (u * u + v * v - a2 * a2 - a3 * a3) / (2.0 * a2 * a3)
    is_far = np.abs(c3) > _CLOSED
    bend = np.arccos(np.clip(c3, -np.cos(_APART), np.cos(_APART)))
    t3 = (_SIGMA[:, None] * _SIGMA)[:, :, None] * bend[:, :, None]  # (n, 2, 2, k)
    t2 = np.arctan2(v, u)[:, :, None] - np.arctan2(a3 * np.sin(t3), a2 + a3 * np.cos(t3))
    t4 = t234[:, :, None] - t2 - t3
    t1, t5, t6 = (np.broadcast_to(t[:, :, None], t2.shape) for t in (t1, t5, t6))
    seeds = np.stack([t1, t2, t3, t4, t5, t6], axis=-1) - nominal.offset
    seeds[np.broadcast_to(is_far[:, :, None], t2.shape)] = np.nan
    nearest = np.where(s < _NEAR_SHOULDER * abs(d4), _NEAR_WRIST_THERE, _NEAR_WRIST)
    return seeds.reshape(len(T), 4 * len(turns), 6), s5[:, :, 0] < nearest


def _newton(m: Model, T: Array, seeds: Array) -> tuple[Array, Array]:
    """Return joints (n, 6) that reach poses (n, 4, 4) from seeds, and the residuals (n,)."""
    q, residual = seeds.copy(), np.empty(len(seeds))
    m.arm.newton(np.ascontiguousarray(T), q, residual)
    return q, residual


def wrap_to_pi(angle: Array) -> Array:
    """Return angles [rad] wrapped to (-pi, pi]."""
    wrapped: Array = angle - 2.0 * pi * np.ceil(angle / (2.0 * pi) - 0.5)
    return np.minimum(wrapped, pi, out=wrapped)  # just above by rounding only


def _apart(a: Array, b: Array) -> Array:
    """Return the largest joint difference (...) of joints (..., 6), whole turns aside [rad]."""
    off = (a - b + pi) % (2.0 * pi) - pi
    largest: Array = np.abs(off, out=off).max(axis=-1)
    return largest
