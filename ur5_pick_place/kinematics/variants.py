# SPDX-License-Identifier: Apache-2.0
"""Variants of a solution by whole turns of joints, within limits and near a seed."""

import itertools
from collections.abc import Sequence
from math import ceil, floor, pi
from operator import itemgetter, sub
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.branches import BRANCHES, classify
from ur5_pick_place.kinematics.forward import check_joints
from ur5_pick_place.kinematics.inverse import inverse
from ur5_pick_place.kinematics.inverse_calibrated import calibrated_solutions
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import Array, check_transform

Limits = tuple[ArrayLike, ArrayLike]

_TURN = 2.0 * pi


class Solution(NamedTuple):
    """A joint solution with the name of its branch and its largest joint difference to a seed."""

    branch: str
    q: Array
    distance: float


def nearest_variant(
    m: Model, q: ArrayLike, seed: ArrayLike, limits: Limits | None = None
) -> Array:
    """
    Return solutions with each joint turned by whole turns to be nearest a seed within limits.

    Parameters
    ----------
    m : Model
    q : array_like, shape (..., 6)
        Solutions [rad]; rows of NaN stay.
    seed : array_like, shape (6,) or (..., 6)
        Joints that the solutions are to be close to [rad].
    limits : pair of array_like, shape (6,), optional
        Lowest and highest joint angles instead of the model's [rad].

    Returns
    -------
    ndarray, shape (..., 6)
        Rows for which no whole turn is within the limits are NaN.

    """
    joints = np.asarray(q, dtype=np.float64)
    near = np.broadcast_to(check_joints(seed, 'seed'), joints.shape)
    low, high = (np.asarray(limit).tolist() for limit in limits or (m.q_min, m.q_max))
    variants = np.full(joints.shape, np.nan)
    for at in np.argwhere(np.isfinite(joints).all(axis=-1)):
        row = tuple(at)
        variants[row] = _turned(joints[row].tolist(), near[row].tolist(), low, high) or np.nan
    return variants


def _turned(
    q: Sequence[float], seed: Sequence[float], low: Sequence[float], high: Sequence[float]
) -> list[float]:
    """Return one solution turned as `nearest_variant`, in plain numbers; empty if none fits."""
    variant = []
    for angle, desired, least, most in zip(q, seed, low, high, strict=True):
        turned = angle
        if not -pi <= desired - angle <= pi:
            turned += _TURN * round((desired - angle) / _TURN)
        if not least <= turned <= most:
            turns = ceil((least - angle) / _TURN), floor((most - angle) / _TURN)
            turned = angle + _TURN * turns[turned > most]
            if not least <= turned <= most:
                return []
        variant.append(turned)
    return variant


def all_variants(m: Model, q: ArrayLike, limits: Limits | None = None) -> Array:
    """
    Return every combination of whole turns of one solution that is within limits.

    Parameters
    ----------
    m : Model
    q : array_like, shape (6,)
        One solution [rad].
    limits : pair of array_like, shape (6,), optional
        Lowest and highest joint angles instead of the model's [rad].

    Returns
    -------
    ndarray, shape (n, 6)

    """
    joints = check_joints(q)
    if joints.ndim != 1:
        raise InvalidInput(f'q has shape {joints.shape}: must be (6,), one solution at a time')
    fewest, most = _turns_within(m, joints, limits)
    turns = [np.arange(low, high + 1.0) for low, high in zip(fewest, most, strict=True)]
    combinations = np.array(list(itertools.product(*turns))).reshape(-1, 6)
    return joints + _TURN * combinations


def all_solutions(
    m: Model, T: ArrayLike, q6: float = 0.0, seed: ArrayLike | None = None
) -> tuple[Array, NDArray[np.intp]]:
    """
    Return every joint solution of one pose with its branch.

    These are the rows of `inverse`; on a calibrated arm also further solutions that share a branch
    near a singularity.

    Parameters
    ----------
    m : Model
    T : array_like, shape (4, 4)
        T_base_tool [m].
    q6 : float
        Desired last joint at a wrist singularity [rad].
    seed : array_like, shape (6,), optional
        Joints from which the solutions of a calibrated arm are searched too [rad].

    Returns
    -------
    q : ndarray, shape (n, 6)
        In (-pi, pi], sorted by branch.
    branch : ndarray of int, shape (n,)
        Indices into `BRANCHES`.

    """
    labelled = _labelled(m, T, q6, seed)
    q = np.array([row for _, row in labelled]).reshape(-1, 6)
    return q, np.array([branch for branch, _ in labelled], dtype=np.intp)


def _labelled(
    m: Model, T: ArrayLike, q6: float, seed: ArrayLike | None
) -> list[tuple[int, list[float]]]:
    """Return the branch and joints of every solution, in plain numbers; see `all_solutions`."""
    if m.mounts is None:
        q, ok = inverse(m, T, q6)
        rows = enumerate(q.tolist())
        return [row for row, holds in zip(rows, ok.tolist(), strict=True) if holds]
    pose = check_transform(T, 'T')
    seeds = None if seed is None else check_joints(seed, 'seed')[None]
    found, count = calibrated_solutions(m, pose[None], np.array([q6]), seeds)
    joints = found[0, : count[0]]
    labelled = zip(classify(m, joints).tolist(), joints.tolist(), strict=True)
    return sorted(labelled, key=itemgetter(0))


def solutions_near(
    m: Model, T: ArrayLike, seed: ArrayLike, limits: Limits | None = None
) -> list[Solution]:
    """
    Return the solutions of one pose within the limits, nearest to a seed first.

    The distance is the largest joint difference; at a wrist singularity the seed's last joint is
    the desired one, or the nearest within the limits. Near a singularity of a calibrated arm a
    branch may occur twice; if the seed is at the pose it is always among the solutions.

    Parameters
    ----------
    m : Model
    T : array_like, shape (4, 4)
        T_base_tool [m].
    seed : array_like, shape (6,)
        Joints that the solutions are to be close to [rad].
    limits : pair of array_like, shape (6,), optional
        Lowest and highest joint angles instead of the model's [rad].

    """
    near = check_joints(seed, 'seed').tolist()
    low, high = (np.asarray(limit).tolist() for limit in limits or (m.q_min, m.q_max))
    found = []
    q6 = min(max(near[5], low[5]), high[5])
    for branch, row in _labelled(m, T, q6, near):
        if variant := _turned(row, near, low, high):
            found.append((max(map(abs, map(sub, variant, near))), BRANCHES[branch], variant))
    found.sort(key=itemgetter(0))
    variants = np.array([variant for _, _, variant in found])
    return [Solution(f[1], v, f[0]) for f, v in zip(found, variants, strict=True)]


def _turns_within(m: Model, q: Array, limits: Limits | None) -> tuple[Array, Array]:
    """Return the fewest and most whole turns that keep each joint within limits."""
    low, high = (m.q_min, m.q_max) if limits is None else limits
    fewest = np.ceil((np.asarray(low) - q) / _TURN)
    most = np.floor((np.asarray(high) - q) / _TURN)
    return fewest, most
