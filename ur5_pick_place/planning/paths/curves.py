# SPDX-License-Identifier: Apache-2.0
"""Curves of the tool in space: straight lines, circular arcs, joint motions and blends."""

from collections.abc import Sequence
from math import cos, sin
from typing import Protocol

import numpy as np
from scipy.interpolate import BPoly, make_interp_spline
from scipy.spatial.transform import Rotation

from ur5_pick_place.errors import InvalidInput, fixed
from ur5_pick_place.kinematics import Model, forward
from ur5_pick_place.kinematics.transforms import (
    Array,
    inverse_transform,
    log_so3,
    skew,
)

_SAME_POINT = 1e-6  # [m]
_STILL = 1e-12  # [rad]
_COLLINEAR = 1e-3  # [rad]; the points of a flatter arc count as collinear: it is refused
_JOINT_SAMPLES = 200  # of a joint motion, for the arc length of its curve
_RADIUS_TOLERANCE = 1e-3  # [m] by which start and goal may differ in distance from the centre
_LONGER = 2.0  # times the radius: how far a blend may reach along the longer of its two legs


class UndefinedArc(InvalidInput):
    """Three points define no circle: the tolerances of a goal must not choose one."""


class Curve(Protocol):
    """A curve of poses."""

    # path length [m]: of the tool's origin, or of the frame that the curve was made for
    # (`JointLine`, `OffsetCurve`)
    length: float
    turn: float  # total rotation [rad]

    def __call__(self, s: Array) -> Array:
        """Return T_base_tool (n, 4, 4) at fractions `s` (n,) of the curve, 0 to 1."""


class Line:
    """
    The straight line between two poses with rotation about one constant axis.

    `T_start` and `T_goal` (4, 4).
    """

    def __init__(self, T_start: Array, T_goal: Array) -> None:
        self._T_start, self._T_goal = T_start, T_goal
        self._displacement = T_goal[:3, 3] - T_start[:3, 3]
        self._rotation = _rotation_between(T_start, T_goal)
        self.length = float(np.linalg.norm(self._displacement))
        self.turn = float(np.linalg.norm(self._rotation))
        # By Rodrigues' formula a rotation adds sin and 1 - cos of its angle times these.
        about = skew(self._rotation / max(self.turn, _STILL))
        self._across = T_start[:3, :3] @ about
        self._inwards = self._across @ about

    def __call__(self, s: Array) -> Array:
        """Return T_base_tool (n, 4, 4) at fractions `s` (n,) of the line, 0 to 1."""
        positions = self._T_start[:3, 3] + s[:, None] * self._displacement
        return _poses(self._T_start, self._T_goal, s, self._rotation, positions)

    def at(self, s: float) -> Array:
        """Return T_base_tool (4, 4) at one fraction of the line."""
        if s == 1.0:
            return self._T_goal
        T, angle = self._T_start.copy(), s * self.turn
        T[:3, :3] += sin(angle) * self._across + (1.0 - cos(angle)) * self._inwards
        T[:3, 3] += s * self._displacement
        return T


class Arc:
    """
    A circular arc between two poses with rotation about one constant axis.

    `T_start` and `T_goal` (4, 4). `centre` (3,) [m]. `normal` (3,): unit vector of the axis; the
    arc is counter-clockwise about it. `angle`: of the arc [rad], positive.
    """

    def __init__(
        self, T_start: Array, T_goal: Array, centre: Array, normal: Array, angle: float
    ) -> None:
        self._T_start, self._T_goal = T_start, T_goal
        self._centre, self._normal, self.angle = centre, normal, angle
        self._radius = T_start[:3, 3] - centre
        self._rotation = _rotation_between(T_start, T_goal)
        self.length = float(np.linalg.norm(self._radius) * angle)
        self.turn = float(np.linalg.norm(self._rotation))

    def __call__(self, s: Array) -> Array:
        """Return T_base_tool (n, 4, 4) at fractions `s` (n,) of the arc, 0 to 1."""
        about = Rotation.from_rotvec(s[:, None] * self.angle * self._normal)
        positions = self._centre + about.apply(self._radius)
        return _poses(self._T_start, self._T_goal, s, self._rotation, positions)


class JointLine:
    """
    The curve of a frame fixed to the tool in a straight joint motion, by arc length.

    `q_start` and `q_goal` (6,) [rad]. `T_tool_link` (4, 4): the frame in the tool.
    """

    def __init__(self, model: Model, q_start: Array, q_goal: Array, T_tool_link: Array) -> None:
        self._model, self._T_tool_link = model, T_tool_link
        self._q_start, self._dq = q_start, q_goal - q_start
        share = np.linspace(0.0, 1.0, _JOINT_SAMPLES)
        poses = self._at(share)
        steps = np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1)
        self.length = float(steps.sum())
        turns = Rotation.from_matrix(poses[:, :3, :3])
        self.turn = float((turns[:-1].inv() * turns[1:]).magnitude().sum())
        if steps.min() > 0.0:
            travelled = np.concatenate([[0.0], np.cumsum(steps)]) / self.length
            self._joint_share = make_interp_spline(travelled, share, k=5)
        else:  # the frame only rotates
            self._joint_share = make_interp_spline(share, share, k=1)

    def __call__(self, s: Array) -> Array:
        """Return the poses (n, 4, 4) in base at fractions `s` (n,) of the length, 0 to 1."""
        share = np.where((s == 0.0) | (s == 1.0), s, self._joint_share(s))
        return self._at(share)

    def _at(self, share: Array) -> Array:
        return forward(self._model, self._q_start + share[:, None] * self._dq) @ self._T_tool_link


class OffsetCurve:
    """
    The curve of the tool while another frame fixed to it follows a given curve.

    `curve`: of the other frame. `T_tool_link` (4, 4): the other frame in the tool.
    """

    def __init__(self, curve: Curve, T_tool_link: Array) -> None:
        self._curve, self._T_link_tool = curve, inverse_transform(T_tool_link)
        self.length, self.turn = curve.length, curve.turn

    def __call__(self, s: Array) -> Array:
        """Return T_base_tool (n, 4, 4) at fractions `s` (n,) of the curve, 0 to 1."""
        return self._curve(s) @ self._T_link_tool


def arc_through(T_start: Array, T_goal: Array, p_interim: Array) -> Arc:
    """
    Return the arc from start to goal pose through a point (3,) [m].

    Raises `UndefinedArc`: two of the three points coincide, or they lie on one line.
    """
    p, q = T_start[:3, 3], T_goal[:3, 3]
    to_interim, to_goal = p_interim - p, q - p
    for name, chord, point in (
        ('start and interim point', to_interim, p),
        ('start and goal', to_goal, p),
        ('interim point and goal', to_goal - to_interim, q),
    ):
        if np.linalg.norm(chord) < _SAME_POINT:
            raise UndefinedArc(f'{name} of the arc coincide at {_text(point)} m')
    normal = np.cross(to_interim, to_goal)
    bend = np.linalg.norm(normal) / (np.linalg.norm(to_interim) * np.linalg.norm(to_goal))
    if bend < _COLLINEAR:
        raise UndefinedArc(
            f'start {_text(p)}, interim point {_text(p_interim)} and goal {_text(q)} m are '
            f'collinear within {bend:.1e} rad and define no circle; use LIN, or move the interim '
            'point aside'
        )
    return _arc(T_start, T_goal, p + _circumcentre(to_interim, to_goal), normal)


def arc_about(T_start: Array, T_goal: Array, centre: Array) -> Arc:
    """
    Return the shorter arc from start to goal pose about a centre (3,) [m].

    A centre within the tolerance of the plane midway between start and goal is moved onto it, so
    that the arc ends at the goal.

    Raises `InvalidInput`: the distances of start and goal from the centre differ; `UndefinedArc`:
    start and goal coincide, or the three are on one line.
    """
    p, q = T_start[:3, 3], T_goal[:3, 3]
    near, far = np.linalg.norm(p - centre), np.linalg.norm(q - centre)
    if abs(near - far) > _RADIUS_TOLERANCE:
        raise InvalidInput(
            f'start is {near:.4f} m and goal {far:.4f} m from the centre {_text(centre)}: these '
            f'distances must agree within {_RADIUS_TOLERANCE} m; move the centre'
        )
    chord = q - p
    if np.linalg.norm(chord) < _SAME_POINT:
        raise UndefinedArc(f'start and goal of the arc coincide at {_text(p)} m')
    direction = chord / np.linalg.norm(chord)
    centre = centre + direction * (direction @ (0.5 * (p + q) - centre))
    normal = np.cross(p - centre, q - centre)
    if np.linalg.norm(normal) < _COLLINEAR * near * far:
        raise UndefinedArc(
            f'start {_text(p)}, centre {_text(centre)} and goal {_text(q)} m lie on one line: the '
            'plane of the arc is unknown; give an interim point instead'
        )
    return _arc(T_start, T_goal, centre, normal)


def _circumcentre(a: Array, b: Array) -> Array:
    """Return the centre of the circle through the origin, `a` and `b`."""
    n = np.cross(a, b)
    return np.cross((a @ a) * b - (b @ b) * a, n) / (2.0 * (n @ n))


def _arc(T_start: Array, T_goal: Array, centre: Array, normal: Array) -> Arc:
    """Return the arc, counter-clockwise about an axis of any length, by an angle below 2 pi."""
    normal = normal / np.linalg.norm(normal)
    a, b = T_start[:3, 3] - centre, T_goal[:3, 3] - centre
    angle = float(np.arctan2(normal @ np.cross(a, b), a @ b) % (2.0 * np.pi))
    return Arc(T_start, T_goal, centre, normal, angle)


def _rotation_between(T_start: Array, T_goal: Array) -> Array:
    return log_so3(T_start[:3, :3].T @ T_goal[:3, :3])


def _poses(T_start: Array, T_goal: Array, s: Array, rotation: Array, positions: Array) -> Array:
    """Return poses from positions (n, 3) and the rotation from start; the goal where `s` is 1."""
    poses = np.tile(np.eye(4), (len(s), 1, 1))
    poses[:, :3, :3] = T_start[:3, :3] @ Rotation.from_rotvec(s[:, None] * rotation).as_matrix()
    poses[:, :3, 3] = positions
    poses[s == 1.0] = T_goal
    return poses


def _text(point: Array) -> str:
    return '(' + ', '.join(fixed(x, 4) for x in point) + ')'


class BlendedCurve:
    """
    Curves one after another, with blended corners.

    A blend begins and ends at its radius from the corner, measured along the curves; on the longer
    of the two at up to twice that, which keeps more of the speed. Within it, the speed along the
    first curve fades out while the speed along the second fades in: their displacements from the
    corner are added. The fade is twice continuously differentiable, so the blend is three times,
    which keeps the jerk of a motion finite.

    `legs`: each starts where the previous one ends. `radii`: blend radius at each inner corner
    [m], positive.

    Raises `InvalidInput`: a leg is shorter than the blends at its ends.
    """

    def __init__(self, legs: Sequence[Curve], radii: Sequence[float]) -> None:
        ends = [0.0, *radii, 0.0]
        for i, leg in enumerate(legs):
            if leg.length < (ends[i] + ends[i + 1]) * (1.0 - 1e-9):
                raise InvalidInput(
                    f'move {i + 1} is {leg.length:.4f} m long, the blends at its ends take '
                    f'{ends[i]:.4f} and {ends[i + 1]:.4f} m of it: use smaller blend radii'
                )
        self._legs, self._ends = list(legs), ends
        self._corners = np.cumsum([leg.length for leg in legs])[:-1]  # [m] from the start
        self._reaches = [
            (self._reach(i, i, i + 1), self._reach(i, i + 1, i)) for i in range(len(radii))
        ]
        self.length = sum(leg.length for leg in legs)
        self.turn = sum(leg.turn for leg in legs)

    def __call__(self, s: Array) -> Array:
        """Return T_base_tool (n, 4, 4) at fractions `s` (n,) of the length, 0 to 1."""
        distance = np.asarray(s) * self.length
        poses = np.empty((distance.size, 4, 4))
        which = np.searchsorted(self._corners, distance)
        starts = np.concatenate([[0.0], self._corners])
        for i, leg in enumerate(self._legs):
            on = which == i
            share = (distance[on] - starts[i]) / leg.length
            poses[on] = leg(np.where(distance[on] == self.length, 1.0, share))
        for i, (corner, (before, after)) in enumerate(
            zip(self._corners, self._reaches, strict=True)
        ):
            on = (distance > corner - before) & (distance < corner + after)
            poses[on] = self._corner(i, distance[on] - corner)
        return poses

    def _reach(self, corner: int, leg: int, other: int) -> float:
        """Return how far [m] the blend of a corner reaches along one of its two legs."""
        radius, length = self._ends[corner + 1], self._legs[leg].length
        if length <= self._legs[other].length:
            return radius
        return radius * min(_LONGER, length / (self._ends[leg] + self._ends[leg + 1]))

    def _corner(self, i: int, distance: Array) -> Array:
        """Return poses at distances (n,) [m] from corner `i`, negative before it."""
        before, after, (first_reach, second_reach) = *self._legs[i : i + 2], self._reaches[i]
        ends = [[0.0, 0.5 / first_reach, 0.0, 0.0], [1.0, 0.5 / second_reach, 0.0, 0.0]]
        sigma = BPoly.from_derivatives([-first_reach, second_reach], ends)(distance)
        # Fractions of the second reach that is travelled, and of the first that remains.
        travelled = 2.0 * sigma**4 * (2.5 - 3.0 * sigma + sigma**2)
        remaining = 1.0 - 2.0 * sigma + travelled
        first = before(1.0 - remaining * first_reach / before.length)
        second = after(travelled * second_reach / after.length)
        corner = after(np.zeros(1))[0]
        poses = first.copy()
        poses[:, :3, 3] += second[:, :3, 3] - corner[:3, 3]
        poses[:, :3, :3] = first[:, :3, :3] @ corner[:3, :3].T @ second[:, :3, :3]
        return poses
