# SPDX-License-Identifier: Apache-2.0
"""Figures of how an arm moved, from its measured joints alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics import Model, forward
from ur5_pick_place.kinematics.transforms import Array, inverse_transform, log_so3


@dataclass(frozen=True)
class Trace:
    """
    What was measured, one row a cycle of the driver.

    Attributes
    ----------
    t : ndarray, shape (n,)
        Simulated time [s], evenly spaced, n >= 3.
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
        """From the first row to the last [s]."""
        return float(self.t[-1] - self.t[0])

    @property
    def travel(self) -> float:
        """Way of all six joints together [rad]."""
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
        return np.diff(self.qd, 2, axis=0) / (self.t[1] - self.t[0]) ** 2

    def part(self, rows: slice) -> 'Trace':
        """Return some of the rows."""
        return Trace(self.t[rows], self.q[rows], self.qd[rows], self.T_base_tcp[rows])

    def error(self, T_goal: Array) -> tuple[float, float]:
        """Return how far the TCP is from T_base_tcp (4, 4) in the end, [m] and [rad]."""
        delta = inverse_transform(T_goal) @ self.T_base_tcp[-1]
        return float(np.linalg.norm(delta[:3, 3])), float(np.linalg.norm(log_so3(delta[:3, :3])))

    def away_from_line(self, p_goal: Array) -> Array:
        """Return how far the TCP is from the line between its first place and a goal, (n,) [m]."""
        p = self.T_base_tcp[:, :3, 3] - self.T_base_tcp[0, :3, 3]
        way = p_goal - self.T_base_tcp[0, :3, 3]
        share = np.clip(p @ way / max(float(way @ way), 1e-12), 0.0, 1.0)
        return np.asarray(np.linalg.norm(p - share[:, None] * way, axis=1))


def trace_of(
    samples: Sequence[tuple[float, Array, Array]], model: Model, T_tool_tcp: Array
) -> Trace:
    """Return the trace of rows of time [s], joints [rad] and joint velocities [rad/s]."""
    t, q, qd = (np.array(column) for column in zip(*samples, strict=True))
    return Trace(t, q, qd, forward(model, q) @ T_tool_tcp)


@dataclass(frozen=True)
class MeasuredMove:
    """
    A straight move as it went.

    Attributes
    ----------
    name : str
        Of its stage.
    trace : Trace
    T_goal : ndarray, shape (4, 4)
        T_base_tcp at its end.
    iterations : int
        Of the closed loop's law, or points of the trajectory that was sent.

    """

    name: str
    trace: Trace
    T_goal: Array
    iterations: int

    @property
    def length(self) -> float:
        """Of the straight line [m]."""
        return float(np.linalg.norm(self.T_goal[:3, 3] - self.trace.T_base_tcp[0, :3, 3]))

    @property
    def deviation(self) -> Array:
        """How far the TCP is from the straight line, shape (n,) [m]."""
        return self.trace.away_from_line(self.T_goal[:3, 3])


@dataclass(frozen=True)
class MoveFigures:
    """
    Of several moves together: sums of what adds up, of the rest the largest.

    Attributes
    ----------
    deviation : float
        From the straight line [m].
    duration : float
        Until the end was proved [s].
    iterations : int
    travel : float
        Of all joints [rad].
    joint_speed, tcp_speed : float
        Peaks [rad/s], [m/s].
    jerk : float
        Root of the mean square of the joints' jerk [rad/s^3].

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
