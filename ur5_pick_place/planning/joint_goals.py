# SPDX-License-Identifier: Apache-2.0
"""
Joint solutions at which a motion can end, which of them are free, and why there is none.

Why the arm cannot be at a pose is found without planning a motion, the cheapest checks first: the
TCP below the table; no inverse kinematics solution; a collision of the hand (last link, tool and
part), whose pose is the same on every branch; then joint limits and collisions of each branch.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import InvalidInput, JointLimitViolation, NoSolution, fixed
from ur5_pick_place.kinematics import (
    BRANCHES,
    JOINT_NAMES,
    Model,
    all_solutions,
    all_variants,
    classify,
    explain,
    inverse,
)
from ur5_pick_place.kinematics.inverse import nearest_turns
from ur5_pick_place.kinematics.model import LINKS
from ur5_pick_place.kinematics.reasons import MissingBranch
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array
from ur5_pick_place.planning.collision.collision import CollisionModel, Contact
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.follow import tool_text

_MARGIN = 0.01  # [rad]; goals nearer to an end of the range are used if there are no others
_TURN = 2.0 * np.pi
# Goals within tolerances: free ones that are kept, most that are checked, and at a time.
_KEPT, _CHECKED, _BATCH = 64, 256, 64


def joint_goals(
    collision: CollisionModel,
    limits: Limits,
    T_base_tool: Array,
    q_near: Array,
    branch: str = '',
    within: tuple[Array, Array] | None = None,
) -> list[Array]:
    """
    Return every joint goal (6,) [rad] of a pose within the joint limits, in any order.

    At least one, whole turns included; they may be in collision.

    `collision`: the arm in its scene, to say why there is no solution. `T_base_tool` (4, 4).
    `q_near` (6,): joints near which they are searched [rad]; the last one is kept at a wrist
    singularity. `branch`: the only one allowed; empty for all. `within`: bounds (6,) on the joints
    [rad].

    Raises `InvalidInput`: the branch is unknown; `NoSolution`: there is no joint solution (on that
    branch) within the joint limits; `JointLimitViolation`: there are solutions, but none `within`.
    """
    if branch and branch not in BRANCHES:
        raise InvalidInput(f'branch {branch!r} is unknown: must be one of {", ".join(BRANCHES)}')
    model = collision.model
    low, high = within or (np.full(6, -np.inf), np.full(6, np.inf))
    q6 = float(np.clip(q_near[5], low[5], high[5]))
    found, branches = all_solutions(model, T_base_tool, q6=q6, seed=q_near)
    if branch:
        found = found[branches == BRANCHES.index(branch)]
    goals = [variant for q in found for variant in all_variants(model, q)]
    if not goals:
        reason = check_pose(limits, collision, T_base_tool, float(q_near[5])).reason
        raise NoSolution(
            f'no joint solution{f" on branch {branch}" if branch else ""} for the '
            f'{tool_text(T_base_tool)} within the joint limits{f": {reason}" if reason else ""}'
        )
    kept = [q for q in goals if ((low <= q) & (q <= high)).all()]
    if not kept:
        raise JointLimitViolation(_outside(goals, low, high))
    # The arm does not leave its range as it comes to rest.
    low, high = model.q_min + _MARGIN, model.q_max - _MARGIN
    away = [q for q in kept if ((low <= q) & (q <= high)).all()]
    return away or kept


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
    `within` as for `joint_goals`; distance is the largest joint distance over its speed.
    """
    found, is_solved = inverse(model, T_base_tool, q6=float(q_near[5]))
    if branch:
        is_solved &= np.array(BRANCHES) == branch
    low, high = np.maximum(within[0], model.q_min), np.minimum(within[1], model.q_max)
    q, distance = nearest_turns(found, q_near, low, high)
    is_solved &= np.isfinite(distance)
    distance = np.where(is_solved, (np.abs(q - q_near) / qd).max(axis=-1), np.inf)
    by_rank = np.argsort(distance, axis=1)
    distance = np.take_along_axis(distance, by_rank, axis=1)
    goals = []
    for rank in range(by_rank.shape[1]):
        order = np.argsort(distance[:, rank], kind='stable')
        order = order[np.isfinite(distance[order, rank])]
        goals += list(q[order, by_rank[order, rank]])
    return goals


def goals_among(model: Model, qd: Array, q: Array, q_near: Array, branch: str) -> list[Array]:
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


@dataclass(frozen=True)
class PlaceReport:
    """
    The branches on which the arm can be at a pose, within its limits and free of collision.

    `reason` says in one sentence why there is none; empty if there is one.
    """

    branches: tuple[str, ...]
    reason: str = ''


@dataclass(frozen=True)
class _Obstacle:
    """Why a branch is missing, and about how far it is from being possible [m]."""

    text: str
    brief: str
    amount: float


def check_pose(
    limits: Limits, collision: CollisionModel, T_base_tool: Array, q6: float = 0.0
) -> PlaceReport:
    """
    Return on which branches the arm can be at a pose (4, 4) of tool0, or why it can on none.

    `q6` [rad] is the desired last joint at a wrist singularity.
    """
    model = collision.model
    T_base_link_tcp = T_BASE_LINK_BASE @ T_base_tool @ collision.scene.tool.T_tool_tcp
    scene = collision.scene
    below = scene.table_height - float(scene.mounting.up @ T_base_link_tcp[:3, 3])
    if below > 0.0:
        return PlaceReport((), f'the TCP is {_mm(below)} below the table')
    q, rows = all_solutions(model, T_base_tool, q6)
    missing = [m for m in explain(model, T_base_tool, q6) if m.cause != 'double']
    if not len(q):
        return PlaceReport((), _out_of_reach(missing, T_base_link_tcp[:3, 3]))
    excess = np.array([_excess(joints, limits) for joints in q])
    possible = ~collision.collides(q) & (excess <= 0.0).all(axis=1)
    if possible.any():
        return PlaceReport(tuple(BRANCHES[k] for k in np.unique(rows[possible])))
    if in_hand := _contact_of_hand(collision.contacts(q[0])):
        return PlaceReport((), str(in_hand))
    return PlaceReport((), _no_branch(_by_branch(q, rows, excess, collision, missing)))


def check_joints_at_rest(limits: Limits, collision: CollisionModel, q: Array) -> str:
    """Return why the arm cannot be at joints (6,) [rad]; empty if it can."""
    over = np.maximum(limits.q_min - q, q - limits.q_max)
    if over.max() > 0.0:
        return _beyond(int(over.argmax()), float(over.max()), limits)
    return str(collision.check(q) or '')


def _excess(q: Array, limits: Limits) -> Array:
    """Return how far each joint (6,) [rad] is outside its limits, at the best whole turn."""
    turns = q + _TURN * np.arange(-2.0, 3.0)[:, None]
    over = np.maximum(limits.q_min - turns, turns - limits.q_max)
    return np.asarray(over.min(axis=0).clip(0.0))


def _contact_of_hand(contacts: Iterable[Contact]) -> Contact | None:
    """
    Return the first contact of the hand with the scene, if there is one.

    The last link and what is fixed to it are at the same place on every branch.
    """
    arm = set(LINKS[:-1])
    return next((c for c in contacts if c.body_a not in arm and c.body_b not in LINKS), None)


def _by_branch(
    q: Array,
    rows: NDArray[np.intp],
    excess: Array,
    collision: CollisionModel,
    missing: Sequence[MissingBranch],
) -> dict[str, _Obstacle]:
    """Return the obstacle of each branch, by name; that of the better one of two solutions."""
    found = {m.branch: _Obstacle(m.text, m.text, m.amount) for m in missing}
    for joints, row, over in zip(q, rows, excess, strict=True):
        if over.max() > 0.0:
            joint = int(over.argmax())
            text = f'{JOINT_NAMES[joint]} is {np.degrees(over[joint]):.1f} deg outside limits'
            obstacle = _Obstacle(text, text, float(over[joint]))  # 1 rad counts as 1 m
        else:
            worst = collision.contacts(joints)[0]
            obstacle = _Obstacle(str(worst), _brief(worst), worst.margin - worst.distance)
        name = BRANCHES[row]
        if name not in found or obstacle.amount < found[name].amount:
            found[name] = obstacle
    return {name: found[name] for name in BRANCHES if name in found}


def _no_branch(found: dict[str, _Obstacle]) -> str:
    nearest = min(found, key=lambda name: found[name].amount)
    others = '; '.join(f'{name}: {o.brief}' for name, o in found.items() if name != nearest)
    more = f' (the others: {others})' if others else ''
    return f'possible on no branch; the nearest is {nearest}: {found[nearest].text}{more}'


def _out_of_reach(missing: Sequence[MissingBranch], p_base_link_tcp: Array) -> str:
    nearest = min(missing, key=lambda m: m.amount)
    x, y, z = (fixed(v, 3) for v in p_base_link_tcp)
    advice = 'closer to' if nearest.cause == 'far' else 'farther from'
    return (
        f'out of reach by {_mm(nearest.amount)} on {nearest.branch}, the nearest branch: '
        f'{nearest.text}; the TCP is at ({x}, {y}, {z}) m in base_link, '
        f'choose a place {advice} the arm'
    )


def _beyond(joint: int, over: float, limits: Limits) -> str:
    low, high = np.degrees([limits.q_min[joint], limits.q_max[joint]])
    return (
        f'{JOINT_NAMES[joint]} is {np.degrees(over):.1f} deg outside limits: '
        f'must lie in {low:.0f} to {high:.0f} deg'
    )


def _brief(contact: Contact) -> str:
    where = 'inside' if contact.distance < 0.0 else 'from'
    return f'{contact.body_a} {_mm(abs(contact.distance))} {where} {contact.body_b}'


def _mm(length: float) -> str:
    return f'{1e3 * length:.0f} mm' if length >= 0.01 else f'{1e3 * length:.1f} mm'


class Stop(NamedTuple):
    """One stop of a chain of moves."""

    goals: Array  # (k, 6) all allowed joint solutions, whole turns included [rad]
    # whether a straight line leads to it, which keeps the branch and makes no whole turn
    is_line: bool


def shortest_chain(
    model: Model, q_start: Array, stops: Sequence[Stop], times: Callable[[Array, Array], Array]
) -> list[Array]:
    """
    Return the joints (6,) at each stop that minimise the total time of the moves.

    By dynamic programming over all solutions of all stops. `q_start` (6,) [rad]. `times`: joints
    (n, 6) at the starts and ends of moves [rad] -> how long they take (n,) [s].

    The list is empty if no chain of solutions keeps the branch on every line.
    """
    here, cost, came_from = np.atleast_2d(q_start), np.zeros(1), []
    for stop in stops:
        is_allowed = np.ones((len(stop.goals), len(here)), bool)
        if stop.is_line:
            is_allowed &= classify(model, stop.goals)[:, None] == classify(model, here)
            is_allowed &= (np.abs(stop.goals[:, None] - here) <= np.pi).all(axis=2)
        to, since = np.nonzero(is_allowed)
        through = np.full(is_allowed.shape, np.inf)
        through[to, since] = cost[since] + times(here[since], stop.goals[to])
        came_from.append(through.argmin(axis=1))
        here, cost = stop.goals, through.min(axis=1)
    if not np.isfinite(cost.min()):
        return []
    chain, k = [], int(cost.argmin())
    for stop, previous in zip(reversed(stops), reversed(came_from), strict=True):
        chain.append(stop.goals[k])
        k = int(previous[k])
    return chain[::-1]
