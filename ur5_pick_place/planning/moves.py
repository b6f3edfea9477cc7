# SPDX-License-Identifier: Apache-2.0
"""The moves that a Cartesian motion is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.planning.curves import Curve, Line, arc_about, arc_through

ARC_KINDS = {'interim': arc_through, 'center': arc_about}


@dataclass(frozen=True)
class Move:
    """
    One move of a chain: a line, or an arc by a help point.

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

    """

    T_goal: NDArray[np.float64]
    blend: float = 0.0
    help_point: NDArray[np.float64] | None = None
    kind: str = 'interim'

    def __post_init__(self) -> None:
        if not 0.0 <= self.blend < np.inf:
            raise InvalidInput(f'blend radius = {self.blend} m: must be 0 (stop) or positive')
        if self.kind not in ARC_KINDS:
            raise InvalidInput(f'arc by {self.kind!r}: must be one of {", ".join(ARC_KINDS)}')

    def curve(self, T_start: NDArray[np.float64], T_goal: NDArray[np.float64]) -> Curve:
        """Return the curve between two poses of the frame that the move is about."""
        if self.help_point is None:
            return Line(T_start, T_goal)
        return ARC_KINDS[self.kind](T_start, T_goal, self.help_point)


def curves_of(
    moves: Sequence[Move], T_base_tool: NDArray[np.float64], T_tool_link: NDArray[np.float64]
) -> list[Curve]:
    """
    Return the curve of a link for each move, from where the tool is.

    Parameters
    ----------
    moves : sequence of Move
    T_base_tool : ndarray, shape (4, 4)
        At the start.
    T_tool_link : ndarray, shape (4, 4)
        The link in the tool.

    Raises
    ------
    InvalidInput
        There are no moves, or an arc has no circle.

    """
    if not moves:
        raise InvalidInput('no moves: give at least one')
    poses = [T @ T_tool_link for T in (T_base_tool, *(move.T_goal for move in moves))]
    return [
        move.curve(T, T_next) for move, T, T_next in zip(moves, poses[:-1], poses[1:], strict=True)
    ]
