# SPDX-License-Identifier: Apache-2.0
"""
Every joint solution of poses, in the row of its branch.

A calibrated arm is solved by Newton's method from the solutions of the nominal arm. Real joints
are slightly displaced and tilted against the DH table, so that the closed form only gives seeds.
Near a singularity this has two effects. Solutions exist where the nominal arm has none: the
arguments of its square root and arccosine are clipped, which gives seeds there too. And theta_6,
free at the nominal arm's wrist singularity, has several isolated values: there the seeds cover the
circle. Finally the nominal arm's pose at each solution differs from the given pose by the effect
of the calibration: the closed-form solutions of that pose are better seeds. They are used unless
eight solutions are known and no wrist singularity is near.

Where two singularities are near, a solution may yet be missed. Joints at which the arm is, or is
to be near, are a seed too, so that an arm always finds the joints at which it stands.
"""

import itertools
from math import isfinite, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput, quoted
from ur5_pick_place.kinematics import _ik
from ur5_pick_place.kinematics._ik import MOST
from ur5_pick_place.kinematics.branches import BRANCHES
from ur5_pick_place.kinematics.forward import check_joints
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import (
    Array,
    as_floats,
    as_poses,
    check_rigid,
)


def inverse(
    m: Model, T: ArrayLike, q6: ArrayLike = 0.0, seed: ArrayLike | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """
    Return all joint solutions of poses of the tool.

    `T` (..., 4, 4): T_base_tool [m]. `q6` () or (...): desired last joint where a wrist
    singularity leaves it free [rad]. It is used where the elbow can reach the pose with it.
    Elsewhere the nearest value is used with which theta_3 is 0.01 rad away from 0 and pi, or as
    far away as the pose allows, so that either elbow has a solution. `seed` (6,) or (..., 6):
    joints from which the solutions of a calibrated arm are searched too [rad]; not looked at for
    an ideal arm, which has them all in closed form.

    Returns joints (..., 8, 6), row k the solution on `BRANCHES[k]` in (-pi, pi], NaN where there
    is none; and which rows (..., 8) hold a solution. A double root is in the row with shoulder
    `left`, elbow `up` or wrist `down`; its twin is NaN.

    Raises `InvalidInput`: a pose has a wrong shape, is not finite or not rigid; or `q6`, or the
    `seed` of a calibrated arm, is not finite or of a wrong shape.
    """
    poses = as_poses(T, 'T')
    stack = poses.shape[:-2]
    stacked = np.ascontiguousarray(poses).reshape(-1, 4, 4)
    q, ok = np.empty((len(stacked), 8, 6)), np.empty((len(stacked), 8), dtype=np.bool_)
    near = None if m.mounts is None else seed
    seeds = None if near is None else _seeds(near, stack).reshape(-1, 6)
    if not _ik.inverse(m.arm, stacked, _wishes(q6, stack), seeds, q, ok):
        check_rigid(poses, 'T')
    return (q.reshape(*stack, 8, 6), ok.reshape(*stack, 8)) if stack else (q[0], ok[0])


def _wishes(q6: ArrayLike, stack: tuple[int, ...]) -> float | Array:
    """Return the desired last joint [rad] of a stack of poses, one for all or (n,)."""
    if isinstance(q6, float) and isfinite(q6):
        return q6
    wishes = as_floats(q6, 'q6')
    if not np.isfinite(wishes).all():
        raise InvalidInput(f'q6 = {quoted(q6)}: must be finite')
    try:
        return np.ascontiguousarray(np.broadcast_to(wishes, stack)).reshape(-1)
    except ValueError as error:
        raise InvalidInput(f'q6 has shape {wishes.shape}: must fit the poses, {stack}') from error


def _seeds(seed: ArrayLike, stack: tuple[int, ...]) -> Array:
    """Return joints (..., 6) [rad] for each of a stack of poses."""
    joints = check_joints(seed, 'seed')
    try:
        if joints.shape != (*stack, 6):
            joints = np.broadcast_to(joints, (*stack, 6))
        return np.ascontiguousarray(joints)
    except ValueError as error:
        raise InvalidInput(
            f'seed has shape {joints.shape}: must fit the poses, {stack}'
        ) from error


Limits = tuple[ArrayLike, ArrayLike]

_TURN = 2.0 * pi


class Solution(NamedTuple):
    """A joint solution with the name of its branch and its largest joint difference to a seed."""

    branch: str
    q: Array
    distance: float


def _bounds(m: Model, limits: Limits | None) -> tuple[Array, Array]:
    """Return the lowest and highest joint angles, (6,) each [rad]."""
    if limits is None:
        return m.q_min, m.q_max
    low, high = (np.ascontiguousarray(limit, np.float64) for limit in limits)
    if not low.shape == high.shape == (6,):
        raise InvalidInput(f'limits have shapes {low.shape}, {high.shape}: must be (6,) each')
    return low, high


def all_variants(m: Model, q: ArrayLike) -> Array:
    """Return every combination of whole turns of one solution (6,) [rad] within limits, (n, 6)."""
    joints = check_joints(q)
    if joints.ndim != 1:
        raise InvalidInput(f'q has shape {joints.shape}: must be (6,), one solution at a time')
    fewest, most = np.ceil((m.q_min - joints) / _TURN), np.floor((m.q_max - joints) / _TURN)
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

    `T` (4, 4): T_base_tool [m]. `q6`: desired last joint at a wrist singularity [rad]. `seed`
    (6,): joints from which the solutions of a calibrated arm are searched too [rad].

    Returns (n, 6) in (-pi, pi], sorted by branch, and the branches (n,), indices into `BRANCHES`.
    """
    pose = as_floats(T, 'T')
    if pose.shape != (4, 4):
        raise InvalidInput(f'T has shape {pose.shape}: must be (4, 4), one pose at a time')
    if not isfinite(q6):
        raise InvalidInput(f'q6 = {quoted(q6)}: must be finite')
    near = None if seed is None else np.ascontiguousarray(check_joints(seed, 'seed'))
    q, branch = np.empty((MOST, 6)), np.empty(MOST, dtype=np.intp)
    count = _ik.solutions(m.arm, np.ascontiguousarray(pose), q6, near, q, branch)
    if not count:
        check_rigid(pose, 'T')
    return q[:count], branch[:count]


def solutions_near(
    m: Model, T: ArrayLike, seed: ArrayLike, limits: Limits | None = None
) -> list[Solution]:
    """
    Return the solutions of one pose within the limits, nearest to a seed first.

    The distance is the largest joint difference; at a wrist singularity the seed's last joint is
    the desired one, or the nearest within the limits. Near a singularity of a calibrated arm a
    branch may occur twice; if the seed is at the pose it is always among the solutions.

    `T` (4, 4): T_base_tool [m]. `seed` (6,): joints that the solutions are to be close to [rad].
    `limits` (6,): lowest and highest joint angles instead of the model's [rad].
    """
    pose, near = as_floats(T, 'T'), check_joints(seed, 'seed')
    if pose.shape != (4, 4) or near.shape != (6,):
        raise InvalidInput(
            f'T has shape {pose.shape}, seed {near.shape}: must be (4, 4) and (6,), one at a time'
        )
    low, high = _bounds(m, limits)
    pose, near = np.ascontiguousarray(pose), np.ascontiguousarray(near)
    q, branch = np.empty((MOST, 6)), np.empty(MOST, dtype=np.intp)
    found = _ik.nearest(m.arm, pose, near, low, high, q, branch)
    if not found:
        check_rigid(pose, 'T')
    return [Solution(BRANCHES[branch[row]], q[row], distance) for distance, row in found]


def nearest_turns(q: Array, q_near: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """
    Return joints (..., 6) [rad], turned by whole turns to be nearest to `q_near` within bounds.

    Also returns their largest joint differences (...) [rad] to `q_near` (6,): infinite where a
    joint has no turn between `low` and `high` (6,).
    """
    turned, distances = np.array(q, order='C'), np.empty(q.shape[:-1])
    near = np.ascontiguousarray(q_near)
    _ik.turn(turned.reshape(-1, 6), near, low, high, distances.reshape(-1))
    return turned, distances
