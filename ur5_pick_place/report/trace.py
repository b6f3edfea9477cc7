# SPDX-License-Identifier: Apache-2.0
"""The trace of a motion, and what is computed from its measured joints."""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics.transforms import Array, inverse_transform, log_so3


@dataclass(frozen=True)
class Trace:
    """Measured joints and TCP poses, one row per driver cycle."""

    # (n,) time by the robot's clock [s], increasing, n >= 3; evenly spaced if `jerk` is used
    t: Array
    # (n, 6) joints [rad, rad/s]
    q: Array
    qd: Array
    T_base_tcp: Array  # (n, 4, 4)

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
