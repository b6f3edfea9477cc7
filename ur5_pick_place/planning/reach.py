# SPDX-License-Identifier: Apache-2.0
"""How far straight lines can be followed, looked at before anything is planned along them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import BlockedPath, IncompletePath, InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES, Model, forward
from ur5_pick_place.planning.collision import CollisionModel
from ur5_pick_place.planning.curves import Carried, Curve, Line
from ur5_pick_place.planning.paths import even_steps, refine

Array = NDArray[np.float64]


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
    T_end = Carried(lines[i], T_tool_link)(np.array([done - i]))[0]
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
        curve, q_from, share, end = Carried(line, T_tool_link), joints[-1][-1], 1.0, None
        try:
            s, q = refine(model, curve, q_from, position_step)
        except IncompletePath as error:
            share, end = error.fraction, error
            part = Carried(Line(line(np.zeros(1))[0], line(np.array([share]))[0]), T_tool_link)
            s, q = refine(model, part, q_from, position_step)
        places.append(i + share * s)
        joints.append(q)
        if end is not None:
            break
    return np.concatenate(places), np.concatenate(joints), end
