# SPDX-License-Identifier: Apache-2.0
"""Moves from rest to rest: the trapezoid of the speed, and the paths that it is run through."""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from ur5_pick_place.kinematics.transforms import (
    Array,
    exp_so3,
    inverse_transform,
    log_so3,
    make_transform,
)
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.values import ScriptFault

_MAX_ACCELERATION = 20.0  # [rad/s2, m/s2] that a given time may ask for
_EQUIVALENT_RADIUS = 0.25  # [m] by which a turn of the tool counts as a length
_SURVEY = 8  # parts of a tool path, of which each gives a speed of the joints
_SPEED_MARGIN = 0.9  # of that speed within a part to the joints' limits
_STRAIGHT = 1e-9  # [m2]: three points on a line


class OutOfReach(ScriptFault):
    """The path leaves the workspace, or asks for more speed than a joint has."""


class Profile:
    """
    The trapezoid of a length: accelerate with `a`, go at `v`, brake with `a`.

    A duration `t` > 0 [s] replaces `v`, and `a` if it must be larger; `v_max`, and a bound on
    the acceleration, are kept in any case, if need be by taking longer.
    """

    def __init__(self, length: float, a: float, v: float, t: float, v_max: float) -> None:
        if t > 0.0:
            a = min(max(a, 4.0 * length / t**2), _MAX_ACCELERATION)
            root = (a * t) ** 2 - 4.0 * a * length
            v = 0.5 * (a * t - math.sqrt(root)) if root > 0.0 else math.sqrt(a * length)
        v = min(v, v_max, math.sqrt(a * length)) if length > 0.0 else 0.0
        self._length, self._a, self._v = length, a, v
        self._ramp = v / a
        self.duration = length / v + self._ramp if length > 0.0 else max(t, 0.0)

    def at(self, t: float) -> tuple[float, float]:
        """Return length and speed at a time [s] since the start and before the end."""
        a, rest = self._a, self.duration - t
        if t < self._ramp:
            return 0.5 * a * t * t, a * t
        if rest < self._ramp:
            return self._length - 0.5 * a * rest * rest, a * rest
        return self._v * (t - 0.5 * self._ramp), self._v

    def time_before_end(self, rest: float) -> float:
        """Return when so much length is left, at the earliest half-way."""
        if rest <= 0.5 * self._v * self._ramp:
            before = math.sqrt(2.0 * rest / self._a)
        else:
            before = rest / self._v + 0.5 * self._ramp
        return self.duration - min(before, 0.5 * self.duration)


class Move(Protocol):
    """A move: `end` (6,) [rad], `duration` [s]."""

    end: Array
    duration: float

    def at(self, t: float) -> tuple[Array, Array]:
        """Return joints (6,) [rad] and speeds (6,) [rad/s] at a time that does not decrease."""


class JointMove:
    """A move straight in joint space; the joint that needs longest sets the time."""

    def __init__(
        self, robot: Robot, start: Array, end: Array, a: float, v: float, t: float
    ) -> None:
        change = end - start
        length = float(np.abs(change).max())
        self._start, self.end = start, end
        self._direction = change / length if length > 0.0 else change
        moves = np.abs(self._direction) > 0.0
        v_max = np.min(robot.qd_max[moves] / np.abs(self._direction[moves]), initial=math.inf)
        self._profile = Profile(length, a, v, t, float(v_max))
        self.duration = self._profile.duration

    def at(self, t: float) -> tuple[Array, Array]:
        if t >= self.duration:
            return self.end, np.zeros(6)
        s, v = self._profile.at(t)
        return self._start + self._direction * s, self._direction * v


class ToolMove:
    """
    A move of the TCP along `path`: the pose (4, 4) at a fraction of its length.

    `length`: [m]. `start`: joints (6,) [rad].
    """

    def __init__(
        self, robot: Robot, start: Array, path: Callable[[float], Array], length: float,
        a: float, v: float, t: float,
    ) -> None:  # fmt: skip
        self._robot, self._path, self._length = robot, path, length
        self._T_tcp_flange = inverse_transform(robot.tcp)
        self._t, self._q = 0.0, start
        fastest, self.end = self._survey(start)
        self.profile = Profile(length, a, v, t, _SPEED_MARGIN * fastest)
        self.duration = self.profile.duration

    def _survey(self, start: Array) -> tuple[float, Array]:
        """Return the speed [m/s] that the joints can give on the whole path, and its end."""
        most, q = 0.0, start
        for k in range(1, _SURVEY + 1):
            before, q = q, self._solve(k / _SURVEY, q)
            most = max(most, float(np.max(np.abs(q - before) / self._robot.qd_max)))
        return self._length / (_SURVEY * most) if most > 0.0 else math.inf, q

    def _solve(self, fraction: float, near: Array) -> Array:
        q = self._robot.inverse(self._path(fraction) @ self._T_tcp_flange, near)
        if q is None:
            raise OutOfReach('the path of the tool leaves the reach of the arm')
        return q

    def at(self, t: float) -> tuple[Array, Array]:
        """Return joints and speeds; see `Move`. Raises `OutOfReach`."""
        dt, self._t = t - self._t, t
        is_over = t >= self.duration or self._length <= 0.0
        fraction = 1.0 if is_over else self.profile.at(t)[0] / self._length
        before, self._q = self._q, self._solve(fraction, self._q)
        step = self._q - before
        if np.any(np.abs(step) > self._robot.qd_max * dt + 1e-3):
            raise OutOfReach('the path of the tool is too close to a singularity')
        if is_over:
            self.end = self._q
            return self._q, np.zeros(6)
        return self._q, step / dt if dt > 0.0 else np.zeros(6)


def line(a: Array, b: Array) -> tuple[Callable[[float], Array], float]:
    """Return the straight path between poses (4, 4), and its length."""
    turn = log_so3(a[:3, :3].T @ b[:3, :3])
    way = b[:3, 3] - a[:3, 3]

    def path(s: float) -> Array:
        return make_transform(a[:3, :3] @ exp_so3(s * turn), a[:3, 3] + s * way)

    return path, _length(float(np.linalg.norm(way)), turn)


def arc(a: Array, via: Array, b: Array, fixed: bool) -> tuple[Callable[[float], Array], float]:
    """
    Return the arc from pose `a` through the position of `via` to `b`, and its length.

    `fixed`: the tool keeps its orientation to the arc, and that of `b` is ignored; otherwise it
    turns evenly to that of `b`. Through three points on a line the path is that line.
    """
    p, u, w = a[:3, 3], via[:3, 3] - a[:3, 3], b[:3, 3] - a[:3, 3]
    normal = np.cross(u, w)
    area = float(normal @ normal)
    if area < _STRAIGHT**2:
        return line(a, b)
    centre = p + (np.cross(normal, u) * (w @ w) + np.cross(w, normal) * (u @ u)) / (2.0 * area)
    axis = normal / math.sqrt(area)
    x = p - centre
    y = np.cross(axis, x)
    end = b[:3, 3] - centre
    angle = math.atan2(float(end @ y), float(end @ x)) % (2.0 * math.pi)
    turn = log_so3(a[:3, :3].T @ b[:3, :3])

    def path(s: float) -> Array:
        R = exp_so3(axis * (angle * s)) @ a[:3, :3] if fixed else a[:3, :3] @ exp_so3(s * turn)
        c, d = math.cos(angle * s), math.sin(angle * s)
        return make_transform(R, centre + c * x + d * y)

    return path, _length(angle * float(np.linalg.norm(x)), np.zeros(3) if fixed else turn)


def _length(distance: float, turn: Array) -> float:
    return max(distance, _EQUIVALENT_RADIUS * float(np.linalg.norm(turn)))
