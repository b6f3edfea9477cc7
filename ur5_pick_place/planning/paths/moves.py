# SPDX-License-Identifier: Apache-2.0
"""Segments of a motion (lines, arcs, joint motions), and how far a polyline can be followed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ur5_pick_place.errors import BlockedPath, IncompletePath, InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES, Model, forward
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.cancellation import checkpoint
from ur5_pick_place.planning.collision.collision import CollisionModel
from ur5_pick_place.planning.paths.curves import (
    BlendedCurve,
    Curve,
    JointLine,
    Line,
    OffsetCurve,
    arc_about,
    arc_through,
)
from ur5_pick_place.planning.paths.follow import JointPath, count_steps, follow, refine, tool_text

ARC_KINDS = {'interim': arc_through, 'center': arc_about}
_ROUNDING = 1e-9  # [rad] between the end of a path and the goal of its last joint motion


@dataclass(frozen=True)
class PathSegment:
    """One segment of a motion: a line, a circular arc, or a joint motion."""

    T_goal: Array  # (4, 4) T_base_tool at its end
    # distance from the goal where the next segment may begin [m], up to twice that on the longer
    # of the two; 0 = stop there
    blend: float = 0.0
    arc_point: Array | None = None  # (3,) via point or centre of an arc, in base [m]
    # whether the arc passes through `arc_point`, or is the shorter arc about it
    kind: str = 'interim'
    # bound on the speed of TCP and elbow [m/s]; 0 = only the bound of the whole motion
    speed: float = 0.0
    # lengths at the segment's beginning and end in which `speed` applies [m]; it applies
    # everywhere if both are 0
    slow_first: float = 0.0
    slow_last: float = 0.0
    # (6,) joint motion only: the joints at its end [rad], on the branch of its start
    q_goal: Array | None = None

    @property
    def is_slow_in_part(self) -> bool:
        """Whether `speed` applies at its beginning or end alone."""
        return self.speed > 0.0 and max(self.slow_first, self.slow_last) > 0.0

    def curve(self, T_start: Array, T_goal: Array) -> Curve:
        """Return the line or arc between two poses of the frame that follows it."""
        if self.arc_point is None:
            return Line(T_start, T_goal)
        return ARC_KINDS[self.kind](T_start, T_goal, self.arc_point)


def between_stops(segments: Sequence[PathSegment]) -> list[list[PathSegment]]:
    """Return the segments in groups that can be run without a stop."""
    groups: list[list[PathSegment]] = [[]]
    for segment in segments:
        groups[-1].append(segment)
        if segment.blend == 0.0:
            groups.append([])
    return [group for group in groups if group]


def path_of(
    model: Model,
    segments: Sequence[PathSegment],
    q_start: Array,
    T_tool_link: Array,
    position_step: float,
) -> JointPath:
    """
    Return the joint path of segments that are run without a stop.

    `q_start` (6,) [rad]. `T_tool_link` (4, 4): the frame that follows lines and arcs, in the tool.
    `position_step`: largest distance between two samples of the path [m].

    Raises `InvalidInput`: a segment is shorter than the blends at its ends, or the points define
    no circle; `IncompletePath`: as `follow`.
    """
    legs = _legs(model, segments, q_start, T_tool_link)
    radii = [segment.blend for segment in segments[:-1]]
    curve = BlendedCurve(legs, radii) if radii else legs[0]
    path = follow(model, OffsetCurve(curve, T_tool_link), q_start, position_step)
    q_goal = segments[-1].q_goal
    if q_goal is not None and np.abs(path.q[-1] - q_goal).max() < _ROUNDING:
        # The next cycle, and its motions, then begin at the very same joints.
        path = replace(path, q=np.vstack([path.q[:-1], q_goal]))
    if not any(segment.speed for segment in segments):
        return path
    lengths = [leg.length for leg in legs]
    return JointPath(path.q, path.share, _speeds(segments, lengths, np.asarray(path.share)))


def _speeds(segments: Sequence[PathSegment], lengths: Sequence[float], share: Array) -> Array:
    """Return the bound on the speed (n,) [m/s] at shares (n,) of segments of these lengths [m]."""
    ends = np.cumsum(lengths)
    distance = share * ends[-1]
    which = np.searchsorted(ends[:-1], distance)
    gone = distance - (ends - lengths)[which]
    first, last, speed = np.array(
        [(s.slow_first, s.slow_last, s.speed or np.inf) for s in segments]
    ).T
    near_start = gone <= first[which]
    near_end = np.asarray(lengths)[which] - gone <= last[which]
    everywhere = (first == 0.0) & (last == 0.0)
    return np.where(near_start | near_end | everywhere[which], speed[which], np.inf)


def _legs(
    model: Model, segments: Sequence[PathSegment], q: Array, T_tool_link: Array
) -> list[Curve]:
    """Return the curve of the link frame for each segment."""
    legs: list[Curve] = []
    T = forward(model, q) @ T_tool_link
    for i, segment in enumerate(segments):
        T_goal = segment.T_goal @ T_tool_link
        if segment.q_goal is not None:
            legs.append(JointLine(model, q, segment.q_goal, T_tool_link))
            q = segment.q_goal
        else:
            legs.append(segment.curve(T, T_goal))
            if any(later.q_goal is not None for later in segments[i + 1 :]):
                q = follow(model, OffsetCurve(legs[-1], T_tool_link), q).q[-1]
        T = T_goal
    return legs



@dataclass(frozen=True)
class JumpThresholds:
    """Bounds on the joint step between two samples of a path, as in MoveIt; 0 = no bound."""

    # largest step, summed over the joints, as a multiple of the path's mean step
    relative: float = 0.0
    revolute: float = 0.0  # largest step of one joint [rad]
    prismatic: float = 0.0  # largest step of a prismatic joint [m]; this arm has none

    def __post_init__(self) -> None:
        for name in ('relative', 'revolute', 'prismatic'):
            value = getattr(self, name)
            if not 0.0 <= value < np.inf:
                raise InvalidInput(
                    f'{name} jump threshold = {value}: must be 0 (none) or positive'
                )

    def first_jump(self, q: Array) -> tuple[int, str] | None:
        """Return the first step of `q` (n, 6) [rad] over a threshold, and a text, or None."""
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
            f'{JOINT_NAMES[joint]} jumps by {steps[i, joint]:.4f} rad in one step; the sum over '
            f'all joints is {shares[i]:.1f} times the mean; thresholds (0 = none) are '
            f'{self.revolute:g} rad and {self.relative:g} times'
        )


@dataclass(frozen=True)
class FollowablePath:
    """The part of a polyline that can be followed."""

    # (4, 4) T_base_tool of that part; the last one may lie between two of the given waypoints
    T_waypoints: list[Array]
    # where and why the part ends, with the fraction of the whole, in which every line has the same
    # weight; None if the whole polyline can be followed
    end: IncompletePath | None = None


def find_followable_path(
    model: Model,
    collision: CollisionModel,
    q_start: Array,
    T_waypoints: Sequence[Array],
    position_step: float,
    T_tool_link: Array,
    jumps: JumpThresholds,
) -> FollowablePath:
    """
    Return how far the lines through waypoints can be followed on one branch without contact.

    `q_start` (6,) [rad]. `T_waypoints`: poses T_base_tool (4, 4). `position_step`: largest
    distance between two samples [m]. `T_tool_link` (4, 4): the frame that follows the lines, in
    the tool.
    """
    corners = [T @ T_tool_link for T in (forward(model, q_start), *T_waypoints)]
    lines = [Line(a, b) for a, b in pairwise(corners)]
    position, q, end = _follow(model, lines, q_start, position_step, T_tool_link)
    steps = _steps_along(lines, position_step)
    steps = steps[steps <= position[-1]]
    at_steps = np.column_stack([np.interp(steps, position, joint) for joint in q.T])
    if jump := jumps.first_jump(at_steps):
        kept = position <= steps[jump[0]]
        position, q, end = position[kept], q[kept], IncompletePath(jump[1], 0.0)
    if contact := collision.check_path(q):
        # One sample fewer than possible, so that the end passes the gate despite rounding.
        position = position[: max(1, int(contact.sample))]
        where = tool_text(forward(model, q[round(contact.sample)]))
        end = BlockedPath(f'with the {where}, {contact}', 0.0)
    if end is None:
        return FollowablePath(list(T_waypoints))
    done, n = float(position[-1]), len(lines)
    i = min(int(done), n - 1)
    T_end = OffsetCurve(lines[i], T_tool_link)(np.array([done - i]))[0]
    message = f'{100 * done / n:.0f} % can be followed; then, on line {i + 1} of {n}, {end}'
    return FollowablePath([*T_waypoints[:i], T_end], type(end)(message, done / n))


def _steps_along(lines: Sequence[Curve], position_step: float) -> Array:
    """Return positions along the lines, in lines, with as few steps as allowed, as in MoveIt."""
    counts = [count_steps(line, position_step) for line in lines]
    steps = [i + np.arange(1, n + 1) / n for i, n in enumerate(counts) if n]
    return np.concatenate([[0.0], *steps])


def _follow(
    model: Model,
    lines: Sequence[Curve],
    q_start: Array,
    position_step: float,
    T_tool_link: Array,
) -> tuple[Array, Array, IncompletePath | None]:
    """
    Return positions along the lines, the joints there, and why following ended.

    A position counts lines: 2.5 is the middle of the third one.
    """
    positions, joints = [np.zeros(1)], [q_start[None]]
    for i, line in enumerate(lines):
        checkpoint()
        curve, q_from, share, end = OffsetCurve(line, T_tool_link), joints[-1][-1], 1.0, None
        try:
            s, q = refine(model, curve, q_from, position_step)
        except IncompletePath as error:
            share, end = error.fraction, error
            part = OffsetCurve(Line(line(np.zeros(1))[0], line(np.array([share]))[0]), T_tool_link)
            s, q = refine(model, part, q_from, position_step)
        positions.append(i + share * s)
        joints.append(q)
        if end is not None:
            break
    return np.concatenate(positions), np.concatenate(joints), end
