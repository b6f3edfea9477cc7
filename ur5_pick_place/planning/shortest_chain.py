# SPDX-License-Identifier: Apache-2.0
"""Choose the joint solution at each stop for the shortest chain of moves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ur5_pick_place.kinematics import Model, classify
from ur5_pick_place.kinematics.transforms import Array


class Stop(NamedTuple):
    """
    One stop of a chain of moves.

    Attributes
    ----------
    goals : ndarray, shape (k, 6)
        All allowed joint solutions, whole turns included [rad].
    is_line : bool
        Whether a straight line leads to it, which keeps the branch and makes no whole turn.

    """

    goals: Array
    is_line: bool


def shortest_chain(
    model: Model, q_start: Array, stops: Sequence[Stop], qd_max: Array
) -> list[Array]:
    """
    Return the joints (6,) at each stop that minimise the total time of the moves.

    By dynamic programming over all solutions of all stops; a move takes as long as its slowest
    joint at full velocity.

    Parameters
    ----------
    q_start : ndarray, shape (6,)
        [rad]
    qd_max : ndarray, shape (6,)
        Joint velocity limits [rad/s].

    Returns
    -------
    list of ndarray
        Empty if no chain of solutions keeps the branch on every line.

    """
    here, cost, came_from = np.atleast_2d(q_start), np.zeros(1), []
    for stop in stops:
        turn = np.abs(stop.goals[:, None] - here)  # (k, previous k, 6)
        through = cost + (turn / qd_max).max(axis=2)
        if stop.is_line:
            same = classify(model, stop.goals)[:, None] == classify(model, here)
            through[~same | (turn > np.pi).any(axis=2)] = np.inf
        came_from.append(through.argmin(axis=1))
        here, cost = stop.goals, through.min(axis=1)
    if not np.isfinite(cost.min()):
        return []
    chain, k = [], int(cost.argmin())
    for stop, previous in zip(reversed(stops), reversed(came_from), strict=True):
        chain.append(stop.goals[k])
        k = int(previous[k])
    return chain[::-1]
