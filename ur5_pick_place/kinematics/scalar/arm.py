# SPDX-License-Identifier: Apache-2.0
"""The geometry of an arm, and what follows from its joints: frames, Jacobian, speeds."""

from collections.abc import Sequence
from math import cos, sin

from ur5_pick_place.kinematics.scalar.constants import Numbers
from ur5_pick_place.kinematics.scalar.poses import norm3


class Arm:
    """
    The geometry of one arm as plain numbers.

    Parameters
    ----------
    lengths : sequence of float
        a2, a3, d1, d4, d5, d6 [m].
    rows : sequence of float
        For each joint a, d [m], cos(alpha), sin(alpha), offset [rad].
    mounts : sequence of float
        For each joint the 16 entries of its mount, row by row; empty for a nominal arm.

    """

    def __init__(
        self, lengths: Sequence[float], rows: Sequence[float], mounts: Sequence[float]
    ) -> None:
        self.a2, self.a3, self.d1, self.d4, self.d5, self.d6 = lengths
        self.rows, self.offsets = list(rows), [0.0] * 6
        for i in range(6):
            self.offsets[i] = rows[5 * i + 4]
        self.is_calibrated = len(mounts) > 0
        self.mounts = [0.0] * 96
        for i in range(len(mounts)):
            self.mounts[i] = mounts[i]

    def forward(self, q: Numbers, T: Numbers) -> None:
        """Fill T (4, 4) with T_base_tool [m] of joints q (6,) [rad]."""
        joints, axes, f = [0.0] * 6, [0.0] * 54, [0.0] * 12
        for i in range(6):
            joints[i] = float(q[i])
        self.chain(joints, axes, f)
        for i in range(3):
            for k in range(4):
                T[i, k] = f[3 * k + i]
            T[3, i] = 0.0
        T[3, 3] = 1.0

    def link_frames(self, q: Numbers, T: Numbers) -> None:
        """Fill T (n, 7, 4, 4) with every frame [m] at joints q (n, 6) [rad], `base` first."""
        f = [0.0] * 12
        for row in range(len(q)):
            for k in range(12):
                f[k] = 0.0
            f[0] = f[4] = f[8] = 1.0
            for frame in range(7):
                if frame > 0:
                    if self.is_calibrated:
                        self._mount(frame - 1, f)
                    self._turn_joint(frame - 1, float(q[row, frame - 1]), self.is_calibrated, f)
                for i in range(3):
                    for k in range(4):
                        T[row, frame, i, k] = f[3 * k + i]
                    T[row, frame, 3, i] = 0.0
                T[row, frame, 3, 3] = 1.0

    def jacobian(self, q: Numbers, in_tool: bool, J: Numbers) -> None:
        """Fill J (6, 6) [m, rad per rad] at joints q (6,) [rad], in axes of the tool or `base`."""
        joints, axes, f, columns = [0.0] * 6, [0.0] * 54, [0.0] * 12, [0.0] * 36
        for i in range(6):
            joints[i] = float(q[i])
        self.chain(joints, axes, f)
        fill_jacobian(axes, f, in_tool, columns)
        for i in range(6):
            for k in range(6):
                J[k, i] = columns[6 * i + k]

    def tcp_and_elbow_speed(self, q: Numbers, qd: Numbers, p_tool_tcp: Numbers) -> float:
        """
        Return the larger speed of TCP and elbow's centre, the origin of frame 2 [m/s].

        Joints q (6,) [rad], their velocities qd (6,) [rad/s], the TCP in the tool (3,) [m].

        """
        joints, rates, p, speeds = [0.0] * 6, [0.0] * 6, [0.0] * 3, [0.0] * 2
        for i in range(6):
            joints[i], rates[i] = float(q[i]), float(qd[i])
        for k in range(3):
            p[k] = float(p_tool_tcp[k])
        self._speeds(joints, rates, p, speeds)
        return max(speeds[0], speeds[1])

    def all_speeds(self, q: Numbers, qd: Numbers, p_tool_tcp: Numbers, speed: Numbers) -> None:
        """Fill speed (n, 2) [m/s] with those of TCP and elbow at q, qd (n, 6); see above."""
        joints, rates, p, speeds = [0.0] * 6, [0.0] * 6, [0.0] * 3, [0.0] * 2
        for k in range(3):
            p[k] = float(p_tool_tcp[k])
        for row in range(len(q)):
            for i in range(6):
                joints[i], rates[i] = float(q[row, i]), float(qd[row, i])
            self._speeds(joints, rates, p, speeds)
            speed[row, 0], speed[row, 1] = speeds[0], speeds[1]

    def _speeds(
        self, q: list[float], qd: list[float], p: list[float], speeds: list[float]
    ) -> None:
        """Fill the speeds (2,) of a point p of the tool and of the elbow's centre."""
        axes, f, v_tcp, v_elbow = [0.0] * 54, [0.0] * 12, [0.0] * 3, [0.0] * 3
        tcp, elbow = [0.0] * 3, [0.0] * 3
        self.chain(q, axes, f)
        for k in range(3):
            tcp[k] = f[9 + k]
            for j in range(3):
                tcp[k] += f[3 * j + k] * p[j]
            elbow[k] = axes[15 + k]
        for i in range(6):
            _add_turn(axes, i, qd[i], tcp, v_tcp)
            if i < 2:
                _add_turn(axes, i, qd[i], elbow, v_elbow)
        speeds[0], speeds[1] = norm3(v_tcp, 0), norm3(v_elbow, 0)

    def chain(self, q: list[float], axes: list[float], f: list[float]) -> None:
        """
        Follow the chain of frames at joints q (6,).

        Fills `axes` with 9 numbers a joint: direction and a point of its axis, and the origin of
        the frame after it; and `f` with the tool: x, y, z, and its origin.

        """
        for k in range(12):
            f[k] = 0.0
        f[0] = f[4] = f[8] = 1.0
        for i in range(6):
            if self.is_calibrated:
                self._mount(i, f)
            for k in range(6):
                axes[9 * i + k] = f[6 + k]
            self._turn_joint(i, q[i], self.is_calibrated, f)
            for k in range(3):
                axes[9 * i + 6 + k] = f[9 + k]

    def nominal_pose(self, q: list[float], t: list[float]) -> None:
        """Fill t (16,), row by row, with the pose of the nominal arm's tool at joints q (6,)."""
        f = [0.0] * 12
        f[0] = f[4] = f[8] = 1.0
        for i in range(6):
            self._turn_joint(i, q[i], False, f)
        for i in range(3):
            for k in range(4):
                t[4 * i + k] = f[3 * k + i]

    def _turn_joint(self, i: int, q: float, is_mounted: bool, f: list[float]) -> None:
        """
        Move a frame on which joint i sits to the frame after the joint, at q [rad].

        Where the joint was mounted by `_mount`, it is already d along its axis.

        """
        a, d, ca = self.rows[5 * i], self.rows[5 * i + 1], self.rows[5 * i + 2]
        sa, theta = self.rows[5 * i + 3], q + self.offsets[i]
        c, s = cos(theta), sin(theta)
        if is_mounted:
            d = 0.0
        for k in range(3):
            x, y, z = c * f[k] + s * f[3 + k], c * f[3 + k] - s * f[k], f[6 + k]
            f[k] = x
            f[3 + k] = ca * y + sa * z
            f[6 + k] = ca * z - sa * y
            f[9 + k] += d * z + a * x

    def _mount(self, i: int, f: list[float]) -> None:
        """Move a frame to where joint i is mounted on it."""
        for k in range(3):
            x, y, z = f[k], f[3 + k], f[6 + k]
            for j in range(4):
                at = 16 * i + j
                moved = x * self.mounts[at] + y * self.mounts[at + 4] + z * self.mounts[at + 8]
                f[3 * j + k] = moved + f[9 + k] if j == 3 else moved


def fill_jacobian(axes: list[float], f: list[float], in_tool: bool, columns: list[float]) -> None:
    """Fill six columns (z x (p_tool - p_axis), z), in the axes of the tool `f` or of `base`."""
    v = [0.0] * 3
    for i in range(6):
        zx, zy, zz = axes[9 * i], axes[9 * i + 1], axes[9 * i + 2]
        x, y, z = f[9] - axes[9 * i + 3], f[10] - axes[9 * i + 4], f[11] - axes[9 * i + 5]
        v[0] = zy * z - zz * y
        v[1] = zz * x - zx * z
        v[2] = zx * y - zy * x
        for k in range(3):
            if in_tool:
                columns[6 * i + k] = f[3 * k] * v[0] + f[3 * k + 1] * v[1] + f[3 * k + 2] * v[2]
                columns[6 * i + 3 + k] = f[3 * k] * zx + f[3 * k + 1] * zy + f[3 * k + 2] * zz
            else:
                columns[6 * i + k] = v[k]
                columns[6 * i + 3 + k] = axes[9 * i + k]


def _add_turn(axes: list[float], i: int, rate: float, p: list[float], v: list[float]) -> None:
    """Add to v the velocity of point p while joint i turns at a rate [rad/s]."""
    zx, zy, zz = axes[9 * i], axes[9 * i + 1], axes[9 * i + 2]
    x, y, z = p[0] - axes[9 * i + 3], p[1] - axes[9 * i + 4], p[2] - axes[9 * i + 5]
    v[0] += rate * (zy * z - zz * y)
    v[1] += rate * (zz * x - zx * z)
    v[2] += rate * (zx * y - zy * x)
