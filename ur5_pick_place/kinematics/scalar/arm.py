# SPDX-License-Identifier: Apache-2.0
"""The geometry of an arm, and what follows from its joints: frames, Jacobian, speeds."""

from collections.abc import Sequence

from ur5_pick_place.kinematics.scalar.constants import Numbers
from ur5_pick_place.kinematics.scalar.joints import sines_of
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
        self.nominal, self.steps = [0.0] * 72, [0.0] * 72
        for i in range(6):
            mount = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, rows[5 * i + 1]]
            self._fill_step(i, mount, self.nominal)
            if self.is_calibrated:
                mount = list(mounts[16 * i : 16 * i + 12])
            self._fill_step(i, mount, self.steps)

    def _fill_step(self, i: int, mount: Sequence[float], steps: list[float]) -> None:
        """
        Fill three rows of four entries: from the frame that the joint before turns to joint i.

        That is the rest of the link between them, of the DH table, and the mount of joint i on it
        (3, 4), row by row.

        """
        a, ca, sa = 0.0, 1.0, 0.0
        if i > 0:
            a, ca, sa = self.rows[5 * i - 5], self.rows[5 * i - 3], self.rows[5 * i - 2]
        for k in range(4):
            x, y, z = mount[k], mount[4 + k], mount[8 + k]
            steps[12 * i + k] = x + a if k == 3 else x
            steps[12 * i + 4 + k] = ca * y - sa * z
            steps[12 * i + 8 + k] = sa * y + ca * z

    def forward(self, q: Numbers, T: Numbers) -> None:
        """Fill T (4, 4) with T_base_tool [m] of joints q (6,) [rad]."""
        joints, axes, f = [0.0] * 6, [0.0] * 39, [0.0] * 12
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
        joints, sines, cosines = [0.0] * 6, [0.0] * 6, [0.0] * 6
        r, end = [0.0] * 4, [0.0] * 4
        for row in range(len(q)):
            for i in range(6):
                joints[i] = float(q[row, i])
            self._sines(joints, sines, cosines)
            for k in range(4):
                for i in range(4):
                    r[i] = T[row, 0, k, i] = 1.0 if i == k else 0.0
                for frame in range(6):
                    _to_axis(self.steps, frame, r)
                    _turn_row(sines[frame], cosines[frame], r)
                    self._end_link(frame, r, end)
                    for i in range(4):
                        T[row, frame + 1, k, i] = end[i]

    def jacobian(self, q: Numbers, in_tool: bool, J: Numbers) -> None:
        """Fill J (6, 6) [m, rad per rad] at joints q (6,) [rad], in axes of the tool or `base`."""
        joints, axes, f, columns = [0.0] * 6, [0.0] * 39, [0.0] * 12, [0.0] * 36
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
        axes, f, v_tcp, v_elbow = [0.0] * 39, [0.0] * 12, [0.0] * 3, [0.0] * 3
        tcp, elbow = [0.0] * 3, [0.0] * 3
        self.chain(q, axes, f)
        for k in range(3):
            tcp[k] = f[9 + k]
            for j in range(3):
                tcp[k] += f[3 * j + k] * p[j]
            elbow[k] = axes[36 + k]
        for i in range(6):
            _add_turn(axes, i, qd[i], tcp, v_tcp)
            if i < 2:
                _add_turn(axes, i, qd[i], elbow, v_elbow)
        speeds[0], speeds[1] = norm3(v_tcp, 0), norm3(v_elbow, 0)

    def chain(self, q: list[float], axes: list[float], f: list[float]) -> None:
        """
        Follow the chain of frames at joints q (6,).

        Fills `axes` with 6 numbers a joint, direction and a point of its axis, and the origin of
        frame 2, the elbow's centre; and `f` with the tool: x, y, z, and its origin.

        """
        self._follow(self.steps, q, axes, f)

    def nominal_pose(self, q: list[float], t: list[float]) -> None:
        """Fill t (16,), row by row, with the pose of the nominal arm's tool at joints q (6,)."""
        axes, f = [0.0] * 39, [0.0] * 12
        self._follow(self.nominal, q, axes, f)
        for i in range(3):
            for k in range(4):
                t[4 * i + k] = f[3 * k + i]

    def _follow(
        self, steps: list[float], q: list[float], axes: list[float], f: list[float]
    ) -> None:
        """Follow a chain of steps; see `chain`. Each row of a frame is multiplied on its own."""
        sines, cosines, r, end = [0.0] * 6, [0.0] * 6, [0.0] * 4, [0.0] * 4
        self._sines(q, sines, cosines)
        for k in range(3):
            for i in range(4):
                r[i] = steps[4 * k + i]
            for i in range(6):
                if i > 0:
                    _to_axis(steps, i, r)
                axes[6 * i + k], axes[6 * i + 3 + k] = r[2], r[3]
                _turn_row(sines[i], cosines[i], r)
                if i == 1:
                    axes[36 + k] = r[3] + self.rows[5] * r[0]
            self._end_link(5, r, end)
            for i in range(4):
                f[3 * i + k] = end[i]

    def _sines(self, q: list[float], sines: list[float], cosines: list[float]) -> None:
        """Fill sines and cosines (6,) of the angles of the DH table at joints q (6,)."""
        angles = [0.0] * 6
        for i in range(6):
            angles[i] = q[i] + self.offsets[i]
        sines_of(angles, 6, sines, cosines)

    def _end_link(self, i: int, r: list[float], end: list[float]) -> None:
        """Fill a row (4,) of the frame after joint i, from that of the frame that it turns."""
        a, ca, sa = self.rows[5 * i], self.rows[5 * i + 2], self.rows[5 * i + 3]
        end[0], end[1] = r[0], ca * r[1] + sa * r[2]
        end[2], end[3] = ca * r[2] - sa * r[1], r[3] + a * r[0]


def _to_axis(steps: list[float], i: int, r: list[float]) -> None:
    """Move a frame by step i; one of its rows, r (4,)."""
    x, y, z = r[0], r[1], r[2]
    for j in range(4):
        at = 12 * i + j
        moved = x * steps[at] + y * steps[at + 4] + z * steps[at + 8]
        r[j] = moved + r[3] if j == 3 else moved


def _turn_row(s: float, c: float, r: list[float]) -> None:
    """Turn a frame about its z by an angle of sine s and cosine c; one of its rows, r (4,)."""
    x, y = r[0], r[1]
    r[0], r[1] = c * x + s * y, c * y - s * x


def fill_jacobian(axes: list[float], f: list[float], in_tool: bool, columns: list[float]) -> None:
    """Fill six columns (z x (p_tool - p_axis), z), in the axes of the tool `f` or of `base`."""
    v = [0.0] * 3
    for i in range(6):
        zx, zy, zz = axes[6 * i], axes[6 * i + 1], axes[6 * i + 2]
        x, y, z = f[9] - axes[6 * i + 3], f[10] - axes[6 * i + 4], f[11] - axes[6 * i + 5]
        v[0] = zy * z - zz * y
        v[1] = zz * x - zx * z
        v[2] = zx * y - zy * x
        for k in range(3):
            if in_tool:
                columns[6 * i + k] = f[3 * k] * v[0] + f[3 * k + 1] * v[1] + f[3 * k + 2] * v[2]
                columns[6 * i + 3 + k] = f[3 * k] * zx + f[3 * k + 1] * zy + f[3 * k + 2] * zz
            else:
                columns[6 * i + k] = v[k]
                columns[6 * i + 3 + k] = axes[6 * i + k]


def _add_turn(axes: list[float], i: int, rate: float, p: list[float], v: list[float]) -> None:
    """Add to v the velocity of point p while joint i turns at a rate [rad/s]."""
    zx, zy, zz = axes[6 * i], axes[6 * i + 1], axes[6 * i + 2]
    x, y, z = p[0] - axes[6 * i + 3], p[1] - axes[6 * i + 4], p[2] - axes[6 * i + 5]
    v[0] += rate * (zy * z - zz * y)
    v[1] += rate * (zz * x - zx * z)
    v[2] += rate * (zx * y - zy * x)
