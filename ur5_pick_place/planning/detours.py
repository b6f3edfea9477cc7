# SPDX-License-Identifier: Apache-2.0
"""Joint motions: straight if that is free of collision, else along a path around obstacles."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from ur5_pick_place.errors import GateRefusal, PlanningError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.collision import CollisionModel, Contact
from ur5_pick_place.planning.goals import free_at_rest
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.follow import JointPath
from ur5_pick_place.planning.paths.rounding import RoundedPolyline
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.ways_round import find_ways, time_distance

_SAMPLE = 0.04  # [rad] between samples of a path; check_path also checks between them
_STRAIGHT_TRIES = 16  # goals, nearest first, to which a straight motion is tried
_SEARCHES = 3  # at most
_LEAST_SEARCH = 0.2  # share of the allowed time that must be left for another search
_NO_SEARCH = 1.25  # no search if a straight motion is at most this multiple of the shortest


class HasTrajectory(Protocol):
    """Whatever carries a planned trajectory."""

    @property
    def trajectory(self) -> Trajectory:
        """Its trajectory."""


M = TypeVar('M', bound=HasTrajectory)


@dataclass(frozen=True)
class Detour:
    """
    How a motion differs from the straight one.

    Attributes
    ----------
    obstacle : str
        The body that is in the way of the straight motion.
    ratio : float
        Duration relative to the straight motion, which is blocked.

    """

    obstacle: str
    ratio: float

    def __str__(self) -> str:
        percent = round(100.0 * (self.ratio - 1.0))
        longer = f'{percent} % longer than' if percent > 0 else 'no longer than'
        return f'way round {self.obstacle}, {longer} straight'


@dataclass(frozen=True)
class JointMotions(Generic[M]):
    """
    The functions of a planner for joint motions from one start.

    Attributes
    ----------
    collision : CollisionModel
    limits : Limits
    q_start : ndarray, shape (6,)
        [rad]
    straight : callable
        Returns the straight motion to joints (6,) [rad], passed by the gate.
    straight_time : callable
        Returns the duration [s] of the straight motion to joints (6,) [rad], blocked or not.
    along : callable
        Returns the motion along paths, with a stop between them, passed by the gate.

    """

    collision: CollisionModel
    limits: Limits
    q_start: Array
    straight: Callable[[Array], M]
    straight_time: Callable[[Array], float]
    along: Callable[[Sequence[JointPath]], M]


def motion_to_any(
    motions: JointMotions[M], goals: Sequence[Array], allowed: float
) -> tuple[M, Detour | None]:
    """
    Return a motion to one of the goals, and its detour; None for a straight motion.

    The straight motion to the first goal is preferred, then one to another goal that is at most a
    quarter longer than the shortest; otherwise the shortest path around the obstacle that a search
    finds, or a longer straight motion. There is no search if no straight motion collides.

    Parameters
    ----------
    goals : sequence of ndarray, shape (6,)
        [rad], the preferred one first.
    allowed : float
        Time in which a search must find its first path [s].

    Raises
    ------
    GateRefusal
        Start or all goals are in collision, or the gate refuses the motion for another reason.
    PlanningError
        No path was found; names the obstacle.

    """
    begin = time.monotonic()
    free = _free(motions, goals)
    lengths = [float(time_distance(q - motions.q_start, motions.limits.qd)) for q in free]
    motion, k, contact = _straight(motions, free, lengths)
    is_short = k == 0 or lengths[k] <= _NO_SEARCH * min(lengths)
    if motion is not None and (is_short or contact is None):  # nothing to go round
        return motion, None
    assert contact is not None  # else `_straight` has raised
    shortest = np.inf if motion is None else lengths[k]
    refusal: PlanningError | None = None
    for refinement in range(_SEARCHES):  # again, if the paths collide between their samples
        left = allowed - (time.monotonic() - begin)
        if refinement and left < _LEAST_SEARCH * allowed:
            break
        # A fixed share of `allowed`, not the time left: equal requests must have equal results.
        share = 0.5 * allowed if refinement else allowed
        ways = find_ways(
            motions.collision, motions.limits, motions.q_start, free, shortest, share, refinement
        )
        found, error = _along_first(motions, ways)
        if found is not None:
            ratio = found.trajectory.duration / motions.straight_time(free[0])
            return found, Detour(contact.body_b, ratio)
        refusal = refusal or error
    if motion is not None:
        return motion, None
    if refusal is not None:
        raise refusal
    raise PlanningError(
        f'the straight motion is blocked: {contact}; no way round {contact.body_b} was found in '
        f'{time.monotonic() - begin:.1f} s: allow more time (allowed_planning_time), move the '
        'obstacle, or choose another goal'
    )


def _free(motions: JointMotions[M], goals: Sequence[Array]) -> list[Array]:
    """Return the goals without contact, the preferred one first; refuse if there is none."""
    collision = motions.collision
    if contact := collision.check(motions.q_start):
        raise GateRefusal(
            f'at the start of the motion {contact}: guide the arm away in freedrive, or remove '
            'the body',
            'collision',
        )
    free = free_at_rest(collision, goals)
    if not free:
        also = ' (all joint solutions are in collision)' if len(goals) > 1 else ''
        raise GateRefusal(f'at the goal{also} {collision.check(goals[0])}', 'collision')
    if free[0] is goals[0]:
        return free
    return sorted(free, key=lambda q: float(time_distance(q - motions.q_start, motions.limits.qd)))


def _straight(
    motions: JointMotions[M], goals: Sequence[Array], lengths: Sequence[float]
) -> tuple[M | None, int, Contact | None]:
    """
    Return the first straight motion that is free, the index of its goal, and the first contact.

    Raises the first refusal if none of them collides, yet all are refused.

    """
    first: Contact | None = None
    refusal: PlanningError | None = None
    for k in sorted(range(len(goals)), key=lambda i: (i > 0, lengths[i]))[:_STRAIGHT_TRIES]:
        line = _samples(motions.q_start, goals[k])
        if contact := motions.collision.check_path(line):
            first = first or contact.contact
            continue
        try:
            return motions.straight(goals[k]), k, first
        except PlanningError as error:
            refusal = refusal or error
    if first is None:
        assert refusal is not None
        raise refusal
    return None, -1, first


def _samples(a: Array, b: Array) -> Array:
    steps = int(np.ceil(float(np.abs(b - a).max()) / _SAMPLE))
    return np.asarray(a + np.linspace(0.0, 1.0, max(2, steps + 1))[:, None] * (b - a))


def _along_first(
    motions: JointMotions[M], ways: Sequence[Array]
) -> tuple[M | None, PlanningError | None]:
    """Return the motion along the first path that is free, and the first other refusal."""
    refusal: PlanningError | None = None
    for way in ways:
        try:
            found = _along(motions, way)
        except PlanningError as error:
            refusal = refusal or error
            continue
        if found is not None:
            return found, refusal
    return None, refusal


def _along(motions: JointMotions[M], way: Array) -> M | None:
    """
    Return the motion along a polyline, its corners rounded, or None where it collides.

    Raises `PlanningError` for any other reason.

    """

    def first_contact(q: Array) -> float | None:
        travel = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(q, axis=0)).max(axis=1))])
        kept = np.searchsorted(travel, np.arange(0.0, travel[-1], _SAMPLE))
        kept = np.unique(np.append(kept, len(q) - 1))
        contact = motions.collision.check_path(q[kept])
        if contact is None:
            return None
        return float(np.interp(contact.sample, np.arange(len(kept)), kept))

    rounded = RoundedPolyline(way, motions.limits.qd)
    if not rounded.fit(first_contact):
        return None
    try:
        return motions.along(rounded.paths())
    except GateRefusal as refusal:
        if refusal.check != 'collision':
            raise
        return None
