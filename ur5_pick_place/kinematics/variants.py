# SPDX-License-Identifier: Apache-2.0
"""Whole turns: the same solution ±360° in some joints, within limits and near to a seed."""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.branches import BRANCHES
from ur5_pick_place.kinematics.forward import check_joints
from ur5_pick_place.kinematics.inverse import inverse
from ur5_pick_place.kinematics.model import Model

Array = NDArray[np.float64]
Limits = tuple[ArrayLike, ArrayLike]

_TURN = 2.0 * np.pi


class Solution(NamedTuple):
    """A joint solution with the name of its branch and its largest joint difference to a seed."""

    branch: str
    q: Array
    distance: float


def nearest_variant(
    m: Model, q: ArrayLike, seed: ArrayLike, limits: Limits | None = None
) -> Array:
    """
    Turn each joint by whole turns to where it is nearest to a seed and within limits.

    Parameters
    ----------
    m : Model
    q : array_like, shape (..., 6)
        Solutions [rad]; rows of NaN stay.
    seed : array_like, shape (6,) or (..., 6)
        Where to be near to [rad].
    limits : pair of array_like, shape (6,), optional
        Lowest and highest joint angles instead of the model's [rad].

    Returns
    -------
    ndarray, shape (..., 6)
        Rows for which no whole turn is within the limits are NaN.

    """
    joints = np.asarray(q, dtype=np.float64)
    fewest, most = _turns_within(m, joints, limits)
    wanted = np.round((check_joints(seed, 'seed') - joints) / _TURN)
    variant = joints + _TURN * np.clip(wanted, fewest, most)
    fits = (fewest <= most).all(axis=-1, keepdims=True)
    return np.where(fits, variant, np.nan)


def all_variants(m: Model, q: ArrayLike, limits: Limits | None = None) -> Array:
    """
    Give every combination of whole turns of one solution that is within limits.

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


def solutions_near(
    m: Model, T: ArrayLike, seed: ArrayLike, limits: Limits | None = None
) -> list[Solution]:
    """
    Give the solutions of one pose that keep the limits, nearest to a seed first.

    Nearest is what needs the smallest largest joint difference; at a wrist singularity the seed's
    last joint is the wish.

    Parameters
    ----------
    m : Model
    T : array_like, shape (4, 4)
        T_base_tool [m].
    seed : array_like, shape (6,)
        Where to be near to [rad].
    limits : pair of array_like, shape (6,), optional
        Lowest and highest joint angles instead of the model's [rad].

    """
    near = check_joints(seed, 'seed')
    q, ok = inverse(m, T, float(near[5]))
    branches = [BRANCHES[k] for k in np.flatnonzero(ok)]
    variants = nearest_variant(m, q[ok], near, limits)
    distances = np.abs(variants - near).max(axis=-1).tolist()  # NaN where no variant fits
    found = zip(branches, variants, distances, strict=True)
    return sorted((Solution(*one) for one in found if one[2] >= 0.0), key=lambda s: s.distance)


def _turns_within(m: Model, q: Array, limits: Limits | None) -> tuple[Array, Array]:
    """Give the fewest and most whole turns that keep each joint within limits."""
    low, high = (m.q_min, m.q_max) if limits is None else limits
    fewest = np.ceil((np.asarray(low) - q) / _TURN)
    most = np.floor((np.asarray(high) - q) / _TURN)
    return fewest, most
