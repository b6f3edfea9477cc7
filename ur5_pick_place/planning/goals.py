# SPDX-License-Identifier: Apache-2.0
"""The joint goals of a pose."""

from collections.abc import Callable, Sequence

import numpy as np

from ur5_pick_place.errors import InvalidInput, JointLimitViolation, NoSolution
from ur5_pick_place.kinematics import (
    BRANCHES,
    JOINT_NAMES,
    Model,
    all_solutions,
    all_variants,
    classify,
    inverse,
)
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.collision import CollisionModel
from ur5_pick_place.planning.paths.follow import tool_text

_MARGIN = 0.01  # [rad]; goals nearer to an end of the range are used if there are no others
_TURN = 2.0 * np.pi
# Goals within tolerances: free ones that are kept, most that are checked, and at a time.
_KEPT, _CHECKED, _BATCH = 64, 256, 64


def joint_goals(
    model: Model,
    qd: Array,
    T_base_tool: Array,
    q_near: Array,
    branch: str = '',
    within: tuple[Array, Array] | None = None,
    why: Callable[[], str] = lambda: '',
) -> list[Array]:
    """
    Return every joint goal (6,) of a pose within the joint limits, the nearest first.

    Distance is the point-to-point time: the largest joint distance over its speed.

    Parameters
    ----------
    qd : ndarray, shape (6,)
        Joint speeds [rad/s].
    T_base_tool : ndarray, shape (4, 4)
    q_near : ndarray, shape (6,)
        Joints from which distance is measured [rad]; the last one is kept at a wrist singularity.
    branch : str
        The only one allowed; empty for all.
    within : tuple of ndarray, shape (6,), optional
        Bounds on the joints [rad].
    why : callable
        Returns why there is no solution; empty if unknown.

    Returns
    -------
    list of ndarray
        At least one [rad], whole turns included; they may be in collision.

    Raises
    ------
    InvalidInput
        The branch is unknown.
    NoSolution
        There is no joint solution (on that branch) within the joint limits.
    JointLimitViolation
        There are solutions, but none `within`.

    """
    if branch and branch not in BRANCHES:
        raise InvalidInput(f'branch {branch!r} is unknown: must be one of {", ".join(BRANCHES)}')
    low, high = within or (np.full(6, -np.inf), np.full(6, np.inf))
    q6 = float(np.clip(q_near[5], low[5], high[5]))
    found, branches = all_solutions(model, T_base_tool, q6=q6, seed=q_near)
    if branch:
        found = found[branches == BRANCHES.index(branch)]
    goals = [variant for q in found for variant in all_variants(model, q)]
    if not goals:
        raise NoSolution(_unsolvable(T_base_tool, branch, why()))
    kept = [q for q in goals if ((low <= q) & (q <= high)).all()]
    if not kept:
        raise JointLimitViolation(_outside(goals, low, high))
    away = _away_from_ends(model, kept)
    return sorted(away or kept, key=lambda q: float((np.abs(q - q_near) / qd).max()))


def _away_from_ends(model: Model, goals: list[Array]) -> list[Array]:
    """Return the goals within a range that the arm does not leave as it comes to rest."""
    low, high = model.q_min + _MARGIN, model.q_max - _MARGIN
    return [q for q in goals if ((low <= q) & (q <= high)).all()]


def _unsolvable(T_base_tool: Array, branch: str, reason: str) -> str:
    return (
        f'no joint solution{f" on branch {branch}" if branch else ""} for the '
        f'{tool_text(T_base_tool)} within the joint limits'
        f'{f": {reason}" if reason else ""}'
    )


def free_at_rest(collision: CollisionModel, goals: Sequence[Array]) -> list[Array]:
    """
    Return the joint goals (6,) [rad] that are free of collision, in their order.

    Goals that differ by whole turns are checked once.

    """
    q = np.array(goals)
    _, first, same = np.unique(
        np.hstack([np.cos(q), np.sin(q)]).round(9),
        axis=0,
        return_index=True,
        return_inverse=True,
    )
    hit = collision.collides(q[first])[same.reshape(-1)]
    return [goal for goal, is_hit in zip(goals, hit, strict=True) if not is_hit]


def goals_at(
    model: Model,
    qd: Array,
    T_base_tool: Array,
    q_near: Array,
    branch: str,
    within: tuple[Array, Array],
) -> list[Array]:
    """
    Return joint goals (6,) [rad] of many poses (n, 4, 4), at most one for each branch.

    The nearest goal of each pose comes first, then the second one of each, and so on; `branch` and
    `within` as for `joint_goals`, distance too.

    """
    found, is_solved = inverse(model, T_base_tool, q6=float(q_near[5]))
    if branch:
        is_solved &= np.array(BRANCHES) == branch
    low, high = np.maximum(within[0], model.q_min), np.minimum(within[1], model.q_max)
    q = found + _TURN * np.round((q_near - found) / _TURN)
    q += _TURN * (np.ceil((low - q) / _TURN).clip(0.0) - np.ceil((q - high) / _TURN).clip(0.0))
    is_solved &= ((low <= q) & (q <= high)).all(axis=-1)
    distance = np.where(is_solved, (np.abs(q - q_near) / qd).max(axis=-1), np.inf)
    by_rank = np.argsort(distance, axis=1)
    distance = np.take_along_axis(distance, by_rank, axis=1)
    goals = []
    for rank in range(by_rank.shape[1]):
        order = np.argsort(distance[:, rank], kind='stable')
        order = order[np.isfinite(distance[order, rank])]
        goals += list(q[order, by_rank[order, rank]])
    return goals


def goals_among(
    model: Model, qd: Array, q: Array, q_near: Array, branch: str
) -> list[Array]:
    """Return those of joints (n, 6) [rad] that are on a branch, if one is given, nearest first."""
    if branch and len(q):
        q = q[np.atleast_1d(classify(model, q)) == BRANCHES.index(branch)]
    return list(q[np.argsort((np.abs(q - q_near) / qd).max(axis=1), kind='stable')])


def first_free(collision: CollisionModel, goals: Sequence[Array]) -> list[Array]:
    """Return the first joint goals (6,) [rad] that are free of collision, 64 of the first 256."""
    free: list[Array] = []
    for begin in range(0, min(len(goals), _CHECKED), _BATCH):
        free += free_at_rest(collision, goals[begin : begin + _BATCH])
        if len(free) >= _KEPT:
            break
    return free


def _outside(goals: Sequence[Array], low: Array, high: Array) -> str:
    """Return how far the nearest of joint goals (6,) is outside its bounds, as a message."""
    excess = [np.maximum(low - q, q - high) for q in goals]
    nearest = min(range(len(goals)), key=lambda i: float(excess[i].max()))
    joint = int(excess[nearest].argmax())
    return (
        f'none of the {len(goals)} joint solutions of the pose keeps the joint constraints; the '
        f'nearest has {JOINT_NAMES[joint]} at {goals[nearest][joint]:.4f} rad, allowed are '
        f'{low[joint]:.4f} to {high[joint]:.4f} rad'
    )
