# SPDX-License-Identifier: Apache-2.0
"""Figures of a motion, computed from measured joints alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics import Model, forward
from ur5_pick_place.kinematics.transforms import Array, inverse_transform, log_so3


@dataclass(frozen=True)
class Trace:
    """
    Measured joints and TCP poses, one row per driver cycle.

    Attributes
    ----------
    t : ndarray, shape (n,)
        Time by the robot's clock [s], increasing, n >= 3; evenly spaced if `jerk` is used.
    q, qd : ndarray, shape (n, 6)
        Joints [rad, rad/s].
    T_base_tcp : ndarray, shape (n, 4, 4)

    """

    t: Array
    q: Array
    qd: Array
    T_base_tcp: Array

    @property
    def duration(self) -> float:
        """Time from the first row to the last [s]."""
        return float(self.t[-1] - self.t[0])

    @property
    def travel(self) -> float:
        """Sum of the absolute joint motion of all six joints [rad]."""
        return float(np.abs(np.diff(self.q, axis=0)).sum())

    @property
    def joint_speed(self) -> Array:
        """Speed of the fastest joint, shape (n,) [rad/s]."""
        return np.asarray(np.abs(self.qd).max(axis=1))

    @property
    def tcp_speed(self) -> Array:
        """Speed of the TCP, shape (n,) [m/s]."""
        velocity = np.gradient(self.T_base_tcp[:, :3, 3], self.t, axis=0)
        return np.asarray(np.linalg.norm(velocity, axis=1))

    @property
    def jerk(self) -> Array:
        """Second difference of the joint velocities, shape (n - 2, 6) [rad/s^3]."""
        jerk: Array = np.diff(self.qd, 2, axis=0) / (self.t[1] - self.t[0]) ** 2
        return jerk

    def part(self, rows: slice) -> 'Trace':
        """Return the trace of a slice of rows."""
        return Trace(self.t[rows], self.q[rows], self.qd[rows], self.T_base_tcp[rows])

    def error(self, T_goal: Array) -> tuple[float, float]:
        """Return the final error of the TCP from a goal pose T_base_tcp (4, 4), [m] and [rad]."""
        delta = inverse_transform(T_goal) @ self.T_base_tcp[-1]
        return float(np.linalg.norm(delta[:3, 3])), float(np.linalg.norm(log_so3(delta[:3, :3])))

    def away_from_line(self, p_goal: Array) -> Array:
        """Return the distance of the TCP from the line to a goal (3,) [m], (n,) [m]."""
        p = self.T_base_tcp[:, :3, 3] - self.T_base_tcp[0, :3, 3]
        line = p_goal - self.T_base_tcp[0, :3, 3]
        share = np.clip(p @ line / max(float(line @ line), 1e-12), 0.0, 1.0)
        return np.asarray(np.linalg.norm(p - share[:, None] * line, axis=1))


def trace_of(
    samples: Sequence[tuple[float, Array, Array]], model: Model, T_tool_tcp: Array
) -> Trace:
    """Return the trace of rows of time [s], joints [rad] and joint velocities [rad/s]."""
    t, q, qd = (np.array(column) for column in zip(*samples, strict=True))
    return Trace(t, q, qd, forward(model, q) @ T_tool_tcp)


@dataclass(frozen=True)
class MeasuredMove:
    """
    The measured trace of one straight move.

    Attributes
    ----------
    name : str
        Name of its stage.
    trace : Trace
    T_goal : ndarray, shape (4, 4)
        Commanded T_base_tcp at its end.
    iterations : int
        Iterations of the control law, or points of the trajectory that was sent.

    """

    name: str
    trace: Trace
    T_goal: Array
    iterations: int

    @property
    def length(self) -> float:
        """Length of the straight line [m]."""
        return float(np.linalg.norm(self.T_goal[:3, 3] - self.trace.T_base_tcp[0, :3, 3]))

    @property
    def deviation(self) -> Array:
        """Distance of the TCP from the straight line, shape (n,) [m]."""
        return self.trace.away_from_line(self.T_goal[:3, 3])


@dataclass(frozen=True)
class MoveFigures:
    """
    Figures of several moves.

    Duration, iterations and travel are sums, the jerk is the RMS of all moves, and the rest are
    the largest values.

    Attributes
    ----------
    deviation : float
        Largest distance from the straight line [m].
    duration : float
        Sum over the moves, each until its end is confirmed [s].
    iterations : int
    travel : float
        Sum of the absolute motion of all joints [rad].
    joint_speed, tcp_speed : float
        Peak speeds [rad/s], [m/s].
    jerk : float
        Root mean square of the joint jerk [rad/s^3].

    """

    deviation: float
    duration: float
    iterations: int
    travel: float
    joint_speed: float
    tcp_speed: float
    jerk: float


def measure(moves: Sequence[MeasuredMove]) -> MoveFigures:
    """Return the figures of one or more moves."""
    traces = [move.trace for move in moves]
    jerk = np.concatenate([trace.jerk for trace in traces])
    return MoveFigures(
        deviation=max(float(move.deviation.max()) for move in moves),
        duration=sum(trace.duration for trace in traces),
        iterations=sum(move.iterations for move in moves),
        travel=sum(trace.travel for trace in traces),
        joint_speed=max(float(trace.joint_speed.max()) for trace in traces),
        tcp_speed=max(float(trace.tcp_speed.max()) for trace in traces),
        jerk=float(np.sqrt(np.mean(jerk**2))),
    )
