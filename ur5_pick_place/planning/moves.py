# SPDX-License-Identifier: Apache-2.0
"""The moves that a motion is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import Model, forward
from ur5_pick_place.planning.blends import Rounded
from ur5_pick_place.planning.curves import Carried, Curve, JointLine, Line, arc_about, arc_through
from ur5_pick_place.planning.paths import JointPath, follow

Array = NDArray[np.float64]

ARC_KINDS = {'interim': arc_through, 'center': arc_about}


@dataclass(frozen=True)
class Move:
    """
    One move of a chain: a line, an arc by a help point, or a joint motion.

    Attributes
    ----------
    T_goal : ndarray, shape (4, 4)
        T_base_tool at its end.
    blend : float
        Radius about the goal within which the next move may begin [m]; 0 = rest there.
    help_point : ndarray, shape (3,), optional
        Of an arc, in base [m].
    kind : {'interim', 'center'}
        Whether the arc goes through the help point, or the shorter way about it.
    speed : float
        Bound on the speed of TCP and elbow [m/s]; 0 = none but the motion's.
    q_goal : ndarray, shape (6,), optional
        Of a joint motion: the joints at its end [rad], on the branch of its start.

    """

    T_goal: Array
    blend: float = 0.0
    help_point: Array | None = None
    kind: str = 'interim'
    speed: float = 0.0
    q_goal: Array | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.blend < np.inf:
            raise InvalidInput(f'blend radius = {self.blend} m: must be 0 (stop) or positive')
        if not 0.0 <= self.speed < np.inf:
            raise InvalidInput(f'speed of a move = {self.speed} m/s: must be 0 (none) or positive')
        if self.kind not in ARC_KINDS:
            raise InvalidInput(f'arc by {self.kind!r}: must be one of {", ".join(ARC_KINDS)}')

    def curve(self, T_start: Array, T_goal: Array) -> Curve:
        """Return the line or arc between two poses of the frame that the move is about."""
        if self.help_point is None:
            return Line(T_start, T_goal)
        return ARC_KINDS[self.kind](T_start, T_goal, self.help_point)


def between_stops(moves: Sequence[Move]) -> list[list[Move]]:
    """
    Return what can be run without a stop, one after another.

    Raises
    ------
    InvalidInput
        There are no moves.

    """
    if not moves:
        raise InvalidInput('no moves: give at least one')
    groups: list[list[Move]] = [[]]
    for move in moves:
        groups[-1].append(move)
        if move.blend == 0.0:
            groups.append([])
    return [group for group in groups if group]


def path_of(
    model: Model, moves: Sequence[Move], q_start: Array, T_tool_link: Array, position_step: float
) -> JointPath:
    """
    Return the joint path of moves that are run without a stop.

    Parameters
    ----------
    model : Model
    moves : sequence of Move
    q_start : ndarray, shape (6,)
        [rad]
    T_tool_link : ndarray, shape (4, 4)
        The frame that goes straight or round, in the tool.
    position_step : float
        Largest distance between two samples of the path [m].

    Raises
    ------
    InvalidInput
        A move is shorter than the blends at its ends, or an arc has no circle.
    IncompletePath
        As `follow`.

    """
    legs = _legs(model, moves, q_start, T_tool_link)
    curve = legs[0] if len(legs) == 1 else Rounded(legs, [move.blend for move in moves[:-1]])
    path = follow(model, Carried(curve, T_tool_link), q_start, position_step)
    if not any(move.speed for move in moves):
        return path
    corners = np.cumsum([leg.length for leg in legs])[:-1] / curve.length if legs[1:] else []
    speeds = np.array([move.speed or np.inf for move in moves])
    return JointPath(path.q, path.share, speeds[np.searchsorted(corners, path.share)])


def _legs(model: Model, moves: Sequence[Move], q: Array, T_tool_link: Array) -> list[Curve]:
    """Return the curve of the link for each move."""
    legs: list[Curve] = []
    T = forward(model, q) @ T_tool_link
    for i, move in enumerate(moves):
        T_goal = move.T_goal @ T_tool_link
        if move.q_goal is not None:
            legs.append(JointLine(model, q, move.q_goal, T_tool_link))
            q = move.q_goal
        else:
            legs.append(move.curve(T, T_goal))
            if any(later.q_goal is not None for later in moves[i + 1 :]):
                q = follow(model, Carried(legs[-1], T_tool_link), q).q[-1]
        T = T_goal
    return legs
