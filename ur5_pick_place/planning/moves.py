# SPDX-License-Identifier: Apache-2.0
"""The moves that a motion is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ur5_pick_place.errors import BlockedPath, IncompletePath, InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES, Model, forward
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision import CollisionModel
from ur5_pick_place.planning.curves import (
    BlendedCurve,
    Curve,
    JointLine,
    Line,
    OffsetCurve,
    arc_about,
    arc_through,
)
from ur5_pick_place.planning.paths import JointPath, even_steps, follow, refine

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
    curve = legs[0] if len(legs) == 1 else BlendedCurve(legs, [move.blend for move in moves[:-1]])
    path = follow(model, OffsetCurve(curve, T_tool_link), q_start, position_step)
    if not any(move.speed for move in moves):
        return path
    corners: Array = np.cumsum([leg.length for leg in legs])[:-1] / curve.length
    speeds = np.array([move.speed or np.inf for move in moves])
    return JointPath(
        path.q, path.share, speeds[np.searchsorted(corners, np.asarray(path.share))]
    )


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
                q = follow(model, OffsetCurve(legs[-1], T_tool_link), q).q[-1]
        T = T_goal
    return legs



@dataclass(frozen=True)
class JumpThresholds:
    """
    What counts as a jump of the joints between two steps of a path, as MoveIt has it; 0 = nothing.

    Attributes
    ----------
    relative : float
        Largest step, summed over the joints, in units of the path's mean step.
    revolute : float
        Largest step of one joint [rad].
    prismatic : float
        Likewise of a sliding joint [m], of which this arm has none.

    """

    relative: float = 0.0
    revolute: float = 0.0
    prismatic: float = 0.0

    def __post_init__(self) -> None:
        for name in ('relative', 'revolute', 'prismatic'):
            value = getattr(self, name)
            if not 0.0 <= value < np.inf:
                raise InvalidInput(
                    f'{name} jump threshold = {value}: must be 0 (none) or positive'
                )

    def first_jump(self, q: Array) -> tuple[int, str] | None:
        """Return the first step of `q` (n, 6) [rad] that is a jump, and what jumps, or None."""
        steps = np.abs(np.diff(q, axis=0))
        if not steps.any():
            return None
        shares = steps.sum(axis=1) / steps.sum(axis=1).mean()
        jumps = np.zeros(len(steps), dtype=bool)
        if self.relative:
            jumps |= shares > self.relative
        if self.revolute:
            jumps |= steps.max(axis=1) > self.revolute
        if not jumps.any():
            return None
        i = int(jumps.argmax())
        joint = int(steps[i].argmax())
        return i, (
            f'{JOINT_NAMES[joint]} jumps by {steps[i, joint]:.4f} rad in one step and all joints '
            f'together by {shares[i]:.1f} times the mean; thresholds (0 = none) are '
            f'{self.revolute:g} rad and {self.relative:g} times'
        )


@dataclass(frozen=True)
class Reach:
    """
    How far a polyline can be followed.

    Attributes
    ----------
    T_waypoints : list of ndarray, shape (4, 4)
        T_base_tool up to there; the last one may lie between two that were given.
    end : IncompletePath or None
        Where and why it ends, with the share of the whole, in which every line counts alike;
        None if it can be followed to its end.

    """

    T_waypoints: list[Array]
    end: IncompletePath | None = None


def look_along(
    model: Model,
    collision: CollisionModel,
    q_start: Array,
    T_waypoints: Sequence[Array],
    position_step: float,
    T_tool_link: Array,
    jumps: JumpThresholds,
) -> Reach:
    """
    Return how far the lines through waypoints can be followed, on one branch and touching nothing.

    Parameters
    ----------
    model : Model
    collision : CollisionModel
    q_start : ndarray, shape (6,)
        [rad]
    T_waypoints : sequence of ndarray, shape (4, 4)
        T_base_tool.
    position_step : float
        Largest distance between two samples [m].
    T_tool_link : ndarray, shape (4, 4)
        The frame that goes straight, in the tool.
    jumps : JumpThresholds

    """
    corners = [T @ T_tool_link for T in (forward(model, q_start), *T_waypoints)]
    lines = [Line(a, b) for a, b in pairwise(corners)]
    place, q, end = _follow(model, lines, q_start, position_step, T_tool_link)
    steps = np.concatenate([i + even_steps(c, position_step) for i, c in enumerate(lines)])
    steps = steps[steps <= place[-1]]
    at_steps = np.column_stack([np.interp(steps, place, joint) for joint in q.T])
    if jump := jumps.first_jump(at_steps):
        kept = place <= steps[jump[0]]
        place, q, end = place[kept], q[kept], IncompletePath(jump[1], 0.0)
    if contact := collision.check_path(q):
        # One sample more than needed, lest rounding lets the end touch when the gate looks again.
        place, end = place[: max(1, int(contact.sample))], BlockedPath(str(contact), 0.0)
    if end is None:
        return Reach(list(T_waypoints))
    done, n = float(place[-1]), len(lines)
    i = min(int(done), n - 1)
    T_end = OffsetCurve(lines[i], T_tool_link)(np.array([done - i]))[0]
    message = f'{100 * done / n:.0f} % can be followed; then, on line {i + 1} of {n}, {end}'
    return Reach([*T_waypoints[:i], T_end], type(end)(message, done / n))


def _follow(
    model: Model,
    lines: Sequence[Curve],
    q_start: Array,
    position_step: float,
    T_tool_link: Array,
) -> tuple[Array, Array, IncompletePath | None]:
    """Return places along the lines (2.5 = amid the third), joints there, and what ends them."""
    places, joints = [np.zeros(1)], [q_start[None]]
    for i, line in enumerate(lines):
        curve, q_from, share, end = OffsetCurve(line, T_tool_link), joints[-1][-1], 1.0, None
        try:
            s, q = refine(model, curve, q_from, position_step)
        except IncompletePath as error:
            share, end = error.fraction, error
            part = OffsetCurve(Line(line(np.zeros(1))[0], line(np.array([share]))[0]), T_tool_link)
            s, q = refine(model, part, q_from, position_step)
        places.append(i + share * s)
        joints.append(q)
        if end is not None:
            break
    return np.concatenate(places), np.concatenate(joints), end
