# SPDX-License-Identifier: Apache-2.0
"""
Why the arm cannot be at a pose, found without planning a motion.

The cheapest checks come first: the TCP below the table; no inverse kinematics solution; a
collision of the hand (last link, tool and part), whose pose is the same on every branch; then
joint limits and collisions of each branch.

"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import fixed
from ur5_pick_place.kinematics import BRANCHES, JOINT_NAMES, Model, all_solutions, explain
from ur5_pick_place.kinematics.arm_shapes import LINKS
from ur5_pick_place.kinematics.reasons import MissingBranch
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array
from ur5_pick_place.planning.collision.collision import CollisionModel, Contact
from ur5_pick_place.planning.limits import Limits

_TURN = 2.0 * np.pi


@dataclass(frozen=True)
class PlaceReport:
    """
    Whether the arm can be at a pose.

    Attributes
    ----------
    branches : tuple of str
        Those on which it can, within the joint limits and free of collision.
    reason : str
        Why it can on no branch, in one sentence; empty if it can on at least one.

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
    model: Model, limits: Limits, collision: CollisionModel, T_base_tool: Array, q6: float = 0.0
) -> PlaceReport:
    """
    Return on which branches the arm can be at a pose, or why it can on none.

    Parameters
    ----------
    limits : Limits
        Their joint limits count.
    collision : CollisionModel
        The arm in its scene, with what it carries.
    T_base_tool : ndarray, shape (4, 4)
        Pose of tool0 [m].
    q6 : float
        Desired last joint at a wrist singularity [rad].

    """
    T_base_link_tcp = T_BASE_LINK_BASE @ T_base_tool @ collision.scene.tool.T_tool_tcp
    below = collision.scene.table_height - float(T_base_link_tcp[2, 3])
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
