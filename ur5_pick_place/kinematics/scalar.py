# SPDX-License-Identifier: Apache-2.0
"""
The kinematics of one configuration or pose, number by number: what runs per tick and per sample.

`make setup` compiles this file, with the C types of `scalar.pxd`; `core` chooses between the
compiled and this form. Both do the same arithmetic in the same order. Callers pass contiguous
float64 arrays of the stated shapes: sizes are not checked here.

The inverse in closed form
--------------------------
With n, o, a the axes of the tool and p its origin, all in `base`:

    theta_1    Frame 5, at p - d6 a, lies d4 beside the plane in which the arm bends. Where it is
               nearer to axis 1 than that there is no such plane: the unreachable cylinder.
    theta_5,   from axis 1 as the tool sees it, (s5 c6, -s5 s6, c5): sine and cosine both, so that
    theta_6    no digit is lost near 0 and pi. Where s5 = 0, theta_6 is free.
    theta_234  The sum of theta_2, theta_3 and theta_4: how z of frame 4 stands in the arm's plane.
    theta_3,   from the triangle of upper arm, forearm, and the vector from frame 1 to frame 3.
    theta_2    theta_4 is the rest of the sum.

No sine or cosine of a computed angle is taken: each step gives those of its angle, and those of
all solutions are taken from them at the end, in one loop that a compiler vectorises (`_angles`).

References
----------
The UR5 IK note; its equations 5 (theta_1), 6 (theta_5) and 15 (theta_3) carry the three signs.
Lynch and Park, Modern Robotics (2017), sections 3.2 and 3.3, for exp and log; chapter 5 for the
Jacobian.

"""

from collections.abc import Sequence
from typing import Any

# For the compiled form setup.py replaces this import by C's math.h.
from math import atan2, ceil, copysign, cos, fabs, floor, isfinite, remainder, sin, sqrt  # isort: skip

Numbers = Any
"""A float64 array, read or written entry by entry."""

PI = 3.141592653589793
TAU = 6.283185307179586

# Two roots merge into one where tan^2(phi) or sin^2(theta_3) is below DOUBLE_ROOT: rounding of the
# pose by 1e-15 m moves either by about 1e-14, and merging moves the tool by less than 2e-14 m.
DOUBLE_ROOT = 1e-13

# Below this |sin(theta_5)| theta_6 is free: any choice turns the tool by less than this [rad].
# Below NEAR_WRIST, theta_6 may be turned as long as that turns the tool by at most WRIST_SINGULAR:
# rounding of the pose, divided by sin(theta_5), may have put a stretched elbow just out of reach.
WRIST_SINGULAR = 1e-12
NEAR_WRIST = 0.05

# Where theta_6 is free and the elbow cannot reach with the desired one, theta_6 is turned until
# theta_3 is this far from 0 or pi [rad], or as far as it gets: both elbows then exist, and an arm
# that came to rest a little off is still on its branch. As theta_3 grows with the square root of
# the turn, that takes only 1e-4 rad more of theta_6 than a stretched elbow does (median; 99 % of
# poses less than 0.01 rad).
BENT = 0.01

RIGID_TOLERANCE = 1e-6  # how far R^T R may be from the identity, entry by entry

NAN, INFINITY = float('nan'), float('inf')

# Newton's method
CONVERGED = 1e-12  # m and rad; one more step then reaches rounding error
# A step this small [rad] leaves less than _ROUNDING [m, rad] beside its damping: its square times
# half the second derivatives of the pose, of which there are 36 of at most 1.5 m.
_LAST_STEP = 5e-9
_ROUNDING = 1e-15
ITERATIONS = 20
_LONGEST_STEP = 0.5  # rad
_DAMPING = 0.01

# Joints of a calibrated arm may be on the other side of a singularity than the nominal arm's
# within this distance from it: of frame 5 by the arm's reach, or sine of theta_3 or theta_5.
_MAY_CROSS = 0.1

# The search for the solutions of a calibrated arm
MOST = 16  # largest number kept for one pose; no more than twelve were ever found
_RESIDUAL = 1e-11  # m and rad, of a solution
_SAME = 1e-6  # rad; closer solutions count as one
_NEW = 0.1  # rad; a later seed must be this far from every known solution
# rad; least |phi|, and least distance of theta_3 from 0 and pi, of a seed: of the values from 0.01
# to 0.2 the one that misses the fewest solutions near singularities, for arms off by up to 2 mm
# and 4 mrad
_APART = 0.04
_COS_APART = 0.9992001066609779
_CLOSED = 1.1  # largest computed |cos(theta_3)| that is clipped, to a stretched or folded elbow
_NEAR_WRIST = 0.1  # rad of theta_5; a few times what calibrations tilt the tool by
# Near the shoulder singularity, where tan(phi) is less than the first, calibrations turn theta_1
# and so tilt the wrist by much more: the second counts [rad of theta_5].
_NEAR_SHOULDER = 0.4
_NEAR_WRIST_THERE = 0.4
_FAR = 2.0  # times as far as that from it, eight solutions are all

_SMALL_ANGLE = 1e-4  # rad; below it series replace quotients of the form 0/0

_TAN_22_5_DEG = 0.41421356237309503
_TINY = 1e-300  # divides in the place of zero
_BELOW_PI = 3.9e-17  # by this share PI is less than pi


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

    # ---- forward

    def forward(self, q: Numbers, T: Numbers) -> None:
        """Fill T (4, 4) with T_base_tool [m] of joints q (6,) [rad]."""
        joints, axes, f = [0.0] * 6, [0.0] * 54, [0.0] * 12
        for i in range(6):
            joints[i] = float(q[i])
        self._chain(joints, axes, f)
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
        self._chain(joints, axes, f)
        _jacobian(axes, f, in_tool, columns)
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
        self._chain(q, axes, f)
        for k in range(3):
            tcp[k] = f[9 + k]
            for j in range(3):
                tcp[k] += f[3 * j + k] * p[j]
            elbow[k] = axes[15 + k]
        for i in range(6):
            _add_turn(axes, i, qd[i], tcp, v_tcp)
            if i < 2:
                _add_turn(axes, i, qd[i], elbow, v_elbow)
        speeds[0], speeds[1] = _length(v_tcp, 0), _length(v_elbow, 0)

    # ---- control laws

    def resolved_rate(
        self,
        q: Numbers,
        T_goal: Numbers,
        gain: float,
        length: float,
        damped_below: float,
        qd: Numbers,
    ) -> bool:
        """
        Fill qd (6,) [rad/s] with -gain J_b^-1 log(T_goal^-1 T), at joints q (6,) [rad].

        False, and nothing filled, where a singular value of the body Jacobian may be smaller than
        `damped_below` [m], a radian of the tool counting `length` metres.

        """
        joints, axes, f, J = [0.0] * 6, [0.0] * 54, [0.0] * 12, [0.0] * 36
        t, goal, xi, A = [0.0] * 12, [0.0] * 12, [0.0] * 6, [0.0] * 72
        for i in range(6):
            joints[i] = float(q[i])
        self._chain(joints, axes, f)
        _jacobian(axes, f, True, J)
        for i in range(3):
            for k in range(4):
                t[4 * i + k] = f[3 * k + i]
        _read_pose(T_goal, 3, goal)
        _error_twist(t, goal, xi)
        for i in range(6):
            weight = 1.0 if i < 3 else length
            for k in range(6):
                A[12 * i + k] = weight * J[6 * k + i]
            A[12 * i + 6 + i] = 1.0
        if not _invert(A):
            return False
        # No singular value is below 1 / |A^-1|.
        square = 0.0
        for i in range(6):
            for k in range(6, 12):
                square += A[12 * i + k] * A[12 * i + k]
        if not damped_below * damped_below * square <= 1.0:
            return False
        for i in range(6):
            rate = 0.0
            for k in range(6):
                rate += A[12 * i + 6 + k] * (xi[k] if k < 3 else length * xi[k])
            qd[i] = -gain * rate
        return True

    def descent(
        self,
        q: Numbers,
        T_goal: Numbers,
        root: Numbers,
        longest: float,
        halvings: int,
        dq: Numbers,
    ) -> float:
        """
        Fill dq (6,) [rad] with a step down the gradient of |root e|^2 / 2, at joints q (6,) [rad].

        e is the `body_error` of the tool from T_goal (4, 4), root (6, 6). The step is -a d as
        `laws` explains, with a at most `longest`, halved at most so often. Returns the a that it
        starts from, times the squares of all entries of root J_b, for the caller to choose
        `longest`.

        """
        joints, trial, axes, f = [0.0] * 6, [0.0] * 6, [0.0] * 54, [0.0] * 12
        goal, e, w, J, d = [0.0] * 12, [0.0] * 6, [0.0] * 36, [0.0] * 36, [0.0] * 8
        for i in range(6):
            joints[i] = float(q[i])
            dq[i] = 0.0
            for k in range(6):
                w[6 * i + k] = float(root[i, k])
        _read_pose(T_goal, 3, goal)
        self._chain(joints, axes, f)
        _jacobian(axes, f, True, J)
        value = _weighted_error(w, f, goal, e)
        squares = _gradient(w, J, e, d)
        slope, bend = d[6], d[7]
        if slope == 0.0 or bend == 0.0:
            return 0.0
        a = min(slope / bend, longest)
        for _ in range(halvings):
            for i in range(6):
                trial[i] = joints[i] - a * d[i]
            self._chain(trial, axes, f)
            if _weighted_error(w, f, goal, e) <= value - 0.25 * a * slope:
                for i in range(6):
                    dq[i] = -a * d[i]
                break
            a /= 2.0
        return slope / bend * squares

    def limit_rate(
        self, q: Numbers, qd: Numbers, qd_max: Numbers, speed: float, p_tool_tcp: Numbers
    ) -> None:
        """
        Scale qd (6,) [rad/s] as a whole to the limits, if it exceeds one of them.

        The limits are qd_max (6,) [rad/s] and the speed of TCP and elbow [m/s]; see
        `tcp_and_elbow_speed`.

        """
        used = max(1.0, self.tcp_and_elbow_speed(q, qd, p_tool_tcp) / speed)
        for i in range(6):
            used = max(used, fabs(float(qd[i])) / float(qd_max[i]))
        for i in range(6):
            qd[i] = float(qd[i]) / used

    # ---- within

    def _chain(self, q: list[float], axes: list[float], f: list[float]) -> None:
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

    def _nominal_pose(self, q: list[float], t: list[float]) -> None:
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

    # ---- inverse

    def inverse(
        self, T: Numbers, q6: float, seed: Numbers | None, q: Numbers, ok: Numbers
    ) -> bool:
        """
        Fill q (8, 6) [rad] and ok (8,) with the solutions of T (4, 4), rows as `BRANCHES`.

        A calibrated arm searches from joints `seed` (6,) too, if there are any. False, and nothing
        filled, if T is not rigid.

        """
        t, rows, found, joints = [0.0] * 16, [0.0] * 48, [0] * 8, [0.0] * 6
        _read_pose(T, 4, t)
        if not _is_rigid(t):
            return False
        if self.is_calibrated:
            if seed is not None:
                for i in range(6):
                    joints[i] = float(seed[i])
            self._solve_calibrated(t, q6, seed is not None, joints, rows, found)
        else:
            self._solve(t, q6, rows, found)
        for k in range(8):
            ok[k] = found[k]
            for i in range(6):
                q[k, i] = rows[6 * k + i]
        return True

    def inverse_all(
        self, T: Numbers, q6: Numbers, seed: Numbers | None, q: Numbers, ok: Numbers
    ) -> bool:
        """Fill q (n, 8, 6), ok (n, 8) for T (n, 4, 4), q6 (n,), seed (n, 6); see `inverse`."""
        t, rows, found, joints = [0.0] * 16, [0.0] * 48, [0] * 8, [0.0] * 6
        for pose in range(len(q6)):
            for i in range(4):
                for k in range(4):
                    t[4 * i + k] = float(T[pose, i, k])
            if not _is_rigid(t):
                return False
            if self.is_calibrated:
                if seed is not None:
                    for i in range(6):
                        joints[i] = float(seed[pose, i])
                self._solve_calibrated(t, q6[pose], seed is not None, joints, rows, found)
            else:
                self._solve(t, q6[pose], rows, found)
            for k in range(8):
                ok[pose, k] = found[k]
                for i in range(6):
                    q[pose, k, i] = rows[6 * k + i]
        return True

    def planes(self, T: Numbers, q6: float, planes: Numbers) -> int:
        """
        Fill `planes` (4, 3) with the planes in which the elbow would have to reach T (4, 4).

        For each the row of its branch with elbow up, and the vector from frame 1 to frame 3 in
        that plane [m]. Returns their number.

        """
        t, sines, cosines, found = [0.0] * 16, [0.0] * 24, [0.0] * 24, [0] * 8
        _read_pose(T, 4, t)
        self._planes(t, q6, sines, cosines, found)
        count = 0
        for k in range(8):
            if found[k]:
                at = _place(k)
                planes[count, 0] = k
                planes[count, 1], planes[count, 2] = cosines[at + 2], sines[at + 2]
                count += 1
        return count

    def _solve(self, t: list[float], q6: float, rows: list[float], found: list[int]) -> None:
        """Fill eight rows of joints, NaN where there is no solution, and which there are."""
        sines, cosines, angles = [0.0] * 24, [0.0] * 24, [0.0] * 24
        for k in range(8):
            found[k] = 0
        sides = self._planes(t, q6, sines, cosines, found)
        for k in range(8):
            if found[k] and not k & 2:
                at = _place(k)
                found[k] = self._elbow(-1.0 if k & 4 else 1.0, sines, cosines, at)
                found[k + 2] = found[k] and sines[at + 4] != 0.0
        _angles(sines, cosines, 12 * sides, angles)
        for k in range(8):
            row, side, at = 6 * k, 12 * (k >> 2), _place(k)
            if not found[k]:
                for i in range(6):
                    rows[row + i] = NAN
                continue
            elbow, wrist = -1.0 if k & 2 else 1.0, -1.0 if k & 1 else 1.0
            t2, t3 = angles[at + 2] - elbow * angles[at + 3], elbow * angles[at + 4]
            rows[row] = angles[side]
            rows[row + 1] = t2
            rows[row + 2] = t3
            rows[row + 3] = angles[at + 1] - t2 - t3
            rows[row + 4] = wrist * angles[side + 1]
            rows[row + 5] = angles[at]
            for i in range(6):
                rows[row + i] = _wrapped(rows[row + i] - self.offsets[i])

    def _elbow(self, sigma: float, sines: list[float], cosines: list[float], at: int) -> bool:
        """
        Fill in the triangle of a plane, with elbow up; False if there is none.

        Up, theta_3 has the sign of phi, `sigma`; its sine is 0 where both elbows are one.

        """
        u, v, a2, a3 = cosines[at + 2], sines[at + 2], self.a2, self.a3
        c3 = (u * u + v * v - (a2 * a2 + a3 * a3)) / (2.0 * a2 * a3)
        ss3 = (1.0 - c3) * (1.0 + c3)
        if not ss3 >= -DOUBLE_ROOT:  # NaN where squares overflow
            return False
        s3 = sigma * sqrt(ss3) if ss3 > DOUBLE_ROOT else 0.0
        sines[at + 3], cosines[at + 3] = a3 * s3, a2 + a3 * c3
        sines[at + 4], cosines[at + 4] = s3, c3
        return True

    def _planes(
        self, t: list[float], q6: float, sines: list[float], cosines: list[float], found: list[int]
    ) -> int:
        """
        Fill what remains for the elbow, a planar triangle for each shoulder and wrist.

        For the pose `t` (16,), sines and cosines (24,) hold 12 angles of each shoulder: theta_1,
        theta_5 of its first wrist; then five of each wrist's plane (see `_place`): theta_6,
        theta_234, the direction from frame 1 to frame 3 (times their distance [m]), and two that
        `_elbow` fills in, the angle at frame 1 between it and the upper arm, and theta_3. Sets
        those rows of `found` that have a plane and the elbow up. Returns the number of shoulders.

        """
        d4 = self.d4
        x, y, z = t[3] - self.d6 * t[2], t[7] - self.d6 * t[6], t[11] - self.d6 * t[10] - self.d1
        ss = x * x + y * y - d4 * d4
        if ss < -DOUBLE_ROOT * d4 * d4:
            return 0
        is_double = ss <= DOUBLE_ROOT * d4 * d4
        s = 0.0 if is_double else sqrt(ss)  # r sin(phi), with r cos(phi) = d4
        rr = d4 * d4 + s * s
        sides = 1 if is_double else 2
        for side in range(sides):
            x1, at = s if side else -s, 12 * side  # frame 5 seen from frame 1 is (x1, z)
            cosines[at], sines[at] = (x * x1 - y * d4) / rr, (x * d4 + y * x1) / rr
            found[4 * side] = 1
            found[4 * side + 1] = not self._wrists(t, x1, z, q6, sines, cosines, at)
            for plane in range(at + 2, at + 12, 5):
                cosines[plane + 2] = x1 - self.d5 * sines[plane + 1]
                sines[plane + 2] = z + self.d5 * cosines[plane + 1]
        return sides

    def _wrists(
        self,
        t: list[float],
        x1: float,
        z: float,
        q6: float,
        sines: list[float],
        cosines: list[float],
        at: int,
    ) -> bool:
        """
        Fill theta_5, and theta_6 and theta_234 of both wrists, down before up, from theta_1.

        Returns whether theta_6 is free, so that both wrists are one.

        """
        c1, s1 = cosines[at], sines[at]
        s5c6, s5s6 = s1 * t[0] - c1 * t[4], c1 * t[5] - s1 * t[1]
        c5 = s1 * t[2] - c1 * t[6]
        nx, ox = t[0] * c1 + t[4] * s1, t[1] * c1 + t[5] * s1
        s5 = sqrt(s5c6 * s5c6 + s5s6 * s5s6)
        free = s5 <= WRIST_SINGULAR
        if free:
            desired_theta6 = q6 + self.offsets[5]
            s5, c6, s6 = 0.0, cos(desired_theta6), sin(desired_theta6)
        else:
            c6, s6 = s5c6 / s5, s5s6 / s5
        s234, c234 = -(s6 * nx + c6 * ox), s6 * t[8] + c6 * t[9]
        sines[at + 1], cosines[at + 1] = s5, c5
        sines[at + 2], cosines[at + 2], sines[at + 3], cosines[at + 3] = s6, c6, s234, c234
        sines[at + 7], cosines[at + 7], sines[at + 8], cosines[at + 8] = -s6, -c6, -s234, -c234
        if s5 < NEAR_WRIST:
            allowed = PI if free else WRIST_SINGULAR / s5
            bend = BENT if free else 0.0
            self._turn(sines, cosines, at + 2, c5 > 0.0, x1, z, allowed, bend)
            self._turn(sines, cosines, at + 7, c5 > 0.0, x1, z, allowed, bend)
        return free


    def _turn(
        self,
        sines: list[float],
        cosines: list[float],
        at: int,
        is_opposed: bool,
        x1: float,
        z: float,
        allowed: float,
        bend: float,
    ) -> None:
        """
        Turn theta_6 of a wrist near its singularity just enough for the elbow to reach.

        Turning theta_6 and theta_234 together, in opposite senses near theta_5 = 0 and in the same
        sense near pi, leaves the tool where it is. It swings frame 3 on a circle of radius d5
        about frame 5, which is `rho` from the shoulder. By the law of cosines the sine of the
        swing is `middle` plus or minus `half` cos(theta_3): the elbow reaches where it is within
        `half` of `middle`. The nearest swing with which theta_3 is `bend` from 0 and pi, or as far
        as it gets, is that sine clipped, on the same side. Near the singularity a turn tilts the
        tool a little, so that it is at most `allowed`.

        """
        s234, c234, d5 = sines[at + 1], cosines[at + 1], self.d5
        rho = max(sqrt(x1 * x1 + z * z), 1e-12)  # at zero every swing is the same to the elbow
        sine, cosine = (x1 * s234 - z * c234) / rho, (x1 * c234 + z * s234) / rho
        sides = self.a2 * self.a2 + self.a3 * self.a3
        middle = (rho * rho + d5 * d5 - sides) / (2.0 * d5 * rho)
        half = fabs(self.a2 * self.a3 / (d5 * rho))
        excess = fabs(sine - middle) - half
        if excess <= 0.0:
            return
        if excess > DOUBLE_ROOT * half:  # beyond rounding of a stretched elbow
            half *= cos(bend)
        low, high = middle - half, middle + half
        clipped = max(-1.0, min(1.0, max(low, min(high, sine))))
        level = copysign(sqrt(1.0 - clipped * clipped), cosine)
        s, c = clipped * cosine - level * sine, level * cosine + clipped * sine
        if fabs(atan2(s, c)) > allowed:
            return
        sines[at + 1] = s234 * c + c234 * s
        cosines[at + 1] = c234 * c - s234 * s
        s = -s if is_opposed else s
        s6, c6 = sines[at], cosines[at]
        sines[at] = s6 * c + c6 * s
        cosines[at] = c6 * c - s6 * s

    # ---- branch

    def classify(self, q: Numbers, branch: Numbers) -> None:
        """Fill branch (n,) with the index into `BRANCHES` of each of joints q (n, 6) [rad]."""
        joints = [0.0] * 6
        for row in range(len(branch)):
            for i in range(6):
                joints[i] = float(q[row, i])
            branch[row] = self._branch(joints)

    def _branch(self, q: list[float]) -> int:
        """Return the branch of joints q (6,) [rad]; see `branches`."""
        t2, t3, t4 = q[1] + self.offsets[1], q[2] + self.offsets[2], q[3] + self.offsets[3]
        x1 = self.a2 * cos(t2) + self.a3 * cos(t2 + t3) + self.d5 * sin(t2 + t3 + t4)
        s3, s5, root = sin(t3), sin(q[4] + self.offsets[4]), sqrt(DOUBLE_ROOT)
        if self.is_calibrated:
            x1 /= fabs(self.a2) + fabs(self.a3)
            nearest = min(fabs(x1), fabs(s3), fabs(s5))
            is_crossed = nearest < _MAY_CROSS and self._has_crossed(q, x1, s3, s5)
            x1 = _side(x1, is_crossed and fabs(x1) == nearest)
            s3 = _side(s3, is_crossed and fabs(s3) == nearest)
            s5 = _side(s5, is_crossed and fabs(s5) == nearest)
        left = x1 <= root * fabs(self.d4)
        up = (s3 if left else -s3) >= 0.0 or fabs(s3) <= root
        down = s5 >= -WRIST_SINGULAR
        return (0 if left else 4) + (0 if up else 2) + (0 if down else 1)

    def _has_crossed(self, q: list[float], x1: float, s3: float, s5: float) -> bool:
        """
        Return whether a calibrated arm is on the other side of a singularity than a nominal one.

        For the nominal arm det J is a2 a3 x1 sin(theta_3) sin(theta_5).

        """
        axes, f, J = [0.0] * 54, [0.0] * 12, [0.0] * 36
        self._chain(q, axes, f)
        _jacobian(axes, f, False, J)
        product = _side(x1, False) * _side(s3, False) * _side(s5, False)
        return self.a2 * self.a3 * product * _determinant(J) < 0.0

    # ---- inverse of a calibrated arm; see `inverse_calibrated`

    def solutions(self, T: Numbers, q6: float, seed: Numbers | None, q: Numbers) -> int:
        """Fill q (MOST, 6) with every solution found of T (4, 4), and return their number."""
        t, joints, every = [0.0] * 16, [0.0] * 6, [0.0] * 96
        _read_pose(T, 4, t)
        if seed is not None:
            for i in range(6):
                joints[i] = float(seed[i])
        count = self._search(t, q6, seed is not None, joints, every)
        for k in range(count):
            for i in range(6):
                q[k, i] = every[6 * k + i]
        return count

    def _solve_calibrated(
        self,
        t: list[float],
        q6: float,
        has_seed: bool,
        seed: list[float],
        rows: list[float],
        found: list[int],
    ) -> None:
        """Fill rows as `_solve`; of solutions on one branch that with theta_6 nearest to q6."""
        every, joints, nearest = [0.0] * 96, [0.0] * 6, [0.0] * 8
        for k in range(48):
            rows[k] = NAN
        for k in range(8):
            found[k], nearest[k] = 0, TAU
        count = self._search(t, q6, has_seed, seed, every)
        for solution in range(count):
            for i in range(6):
                joints[i] = every[6 * solution + i]
            k, off = self._branch(joints), fabs(remainder(joints[5] - q6, TAU))
            if off < nearest[k]:
                found[k], nearest[k] = 1, off
                for i in range(6):
                    rows[6 * k + i] = joints[i]

    def _search(
        self, t: list[float], q6: float, has_seed: bool, seed: list[float], q: list[float]
    ) -> int:
        """
        Fill q (MOST, 6), flat, with the solutions of a pose t, and return their number.

        First from the seed, so that its solution is kept whatever else is found; then from the
        closed form, near a wrist singularity around the circle. Where that has not found one for
        each branch, or more may be near, from the closed form of the nominal arm's pose at each
        solution, twice.

        """
        shoulder, nominal, joints = [0.0] * 12, [0.0] * 16, [0.0] * 6
        count = self._add(t, seed, 0, q, 0) if has_seed else 0
        nearest = _FAR
        for side in range(2):
            distance = self._shoulder(t, side, shoulder)
            nearest = min(nearest, distance)
            count = self._search_side(t, shoulder, q6, 1 if distance < 1.0 else 8, q, 0, count)
        searched = count if count >= 8 and nearest >= _FAR else 0
        for _ in range(2):
            known = count
            for solution in range(searched, known):
                for i in range(6):
                    joints[i] = q[6 * solution + i]
                self._nominal_pose(joints, nominal)
                for side in range(2):
                    self._shoulder(nominal, side, shoulder)
                    count = self._search_side(t, shoulder, joints[5], 8, q, known, count)
            searched = known
        return count

    def _search_side(
        self,
        t: list[float],
        shoulder: list[float],
        q6: float,
        step: int,
        q: list[float],
        known: int,
        count: int,
    ) -> int:
        """
        Add to q the solutions of a pose t that are found from one shoulder, with both elbows.

        theta_6 is its closed-form value plus every `step`th of the 16 sixteenths of a turn (0:
        first wrist, 8: second). Seeds near the first `known` solutions are skipped. Returns the
        new count.

        """
        seeds = [0.0] * 12
        for turn in range(0, 16, step):
            if self._seeds(shoulder, q6, turn, seeds):
                for at in range(0, 12, 6):
                    if not _is_among(seeds, at, q, known, _NEW):
                        count = self._add(t, seeds, at, q, count)
        return count

    def _shoulder(self, t: list[float], side: int, shoulder: list[float]) -> float:
        """
        Fill for one shoulder at a pose `t`, or as near to it as theta_1 can get (12 numbers).

        sigma, cos and sin of theta_1, x1, z; axis 1 as the tool sees it, s5c6, s5s6, c5; n and o
        along the arm, and up. Returns sin(theta_5), divided by that below which the wrist of a
        calibrated arm may be singular.

        """
        d4, sigma = self.d4, -1.0 if side else 1.0
        x, y, z = t[3] - self.d6 * t[2], t[7] - self.d6 * t[6], t[11] - self.d6 * t[10] - self.d1
        s = sqrt(max(x * x + y * y - d4 * d4, _APART * d4 * _APART * d4))
        x1 = -sigma * s
        x = 1.0 if x == 0.0 and y == 0.0 else x  # any theta_1 will do
        c1, s1 = x * x1 - y * d4, x * d4 + y * x1
        r = sqrt(c1 * c1 + s1 * s1)
        c1, s1 = c1 / r, s1 / r
        s5c6, s5s6 = s1 * t[0] - c1 * t[4], c1 * t[5] - s1 * t[1]
        shoulder[0], shoulder[1], shoulder[2], shoulder[3] = sigma, c1, s1, x1
        shoulder[4], shoulder[5], shoulder[6], shoulder[7] = z, s5c6, s5s6, s1 * t[2] - c1 * t[6]
        shoulder[8], shoulder[9] = t[0] * c1 + t[4] * s1, t[1] * c1 + t[5] * s1
        shoulder[10], shoulder[11] = t[8], t[9]
        near = _NEAR_WRIST_THERE if s < _NEAR_SHOULDER * fabs(d4) else _NEAR_WRIST
        return sqrt(s5c6 * s5c6 + s5s6 * s5s6) / near

    def _seeds(self, shoulder: list[float], q6: float, turn: int, seeds: list[float]) -> bool:
        """
        Fill joints (2, 6), flat, with which a nominal arm is at or near a pose, elbow up and down.

        theta_6 is its closed-form value plus a number of sixteenths of a turn; theta_5 is the
        value that fits it best. False where the elbow is far from reaching.

        """
        a2, a3, x1, z = self.a2, self.a3, shoulder[3], shoulder[4]
        sines, cosines, angles = [0.0] * 8, [0.0] * 8, [0.0] * 8
        s5c6, s5s6 = shoulder[5], shoulder[6]
        s5, desired = sqrt(s5c6 * s5c6 + s5s6 * s5s6), q6 + self.offsets[5]
        if s5 <= WRIST_SINGULAR:
            c6, s6 = cos(desired), sin(desired)
        else:
            c6, s6 = s5c6 / s5, s5s6 / s5
        by = 0.125 * PI * turn
        c, s = cos(by), sin(by)
        c6, s6 = c6 * c - s6 * s, s6 * c + c6 * s
        s234 = -(s6 * shoulder[8] + c6 * shoulder[9])
        c234 = s6 * shoulder[10] + c6 * shoulder[11]
        unit = max(sqrt(s234 * s234 + c234 * c234), _TINY)
        s234, c234 = s234 / unit, c234 / unit
        u, v = x1 - self.d5 * s234, z + self.d5 * c234
        c3 = (u * u + v * v - (a2 * a2 + a3 * a3)) / (2.0 * a2 * a3)
        if not fabs(c3) <= _CLOSED:
            return False
        c3 = max(-_COS_APART, min(_COS_APART, c3))
        s3 = shoulder[0] * sqrt(1.0 - c3 * c3)
        sines[0], cosines[0] = shoulder[2], shoulder[1]
        sines[1], cosines[1] = c6 * s5c6 + s6 * s5s6, shoulder[7]
        sines[2], cosines[2], sines[3], cosines[3] = s6, c6, s234, c234
        sines[4], cosines[4], sines[5], cosines[5] = v, u, a3 * s3, a2 + a3 * c3
        sines[6], cosines[6] = s3, c3
        _angles(sines, cosines, 8, angles)
        for elbow in range(2):
            at, sign = 6 * elbow, 1.0 - 2.0 * elbow
            t2, t3 = angles[4] - sign * angles[5], sign * angles[6]
            seeds[at], seeds[at + 1], seeds[at + 2] = angles[0], t2, t3
            seeds[at + 3], seeds[at + 4] = angles[3] - t2 - t3, angles[1]
            seeds[at + 5] = angles[2]
            for i in range(6):
                seeds[at + i] = _wrapped(seeds[at + i] - self.offsets[i])
        return True

    def _add(
        self, t: list[float], seeds: list[float], at: int, q: list[float], count: int
    ) -> int:
        """Add to q (count, 6) what is reached from the seed at `at`, if new; return the count."""
        joints = [0.0] * 6
        for i in range(6):
            joints[i] = seeds[at + i]
        if self._approach(t, joints) < _RESIDUAL and count < MOST:
            for i in range(6):  # first by any turns: a caller's seed may be anywhere
                joints[i] = _wrapped(remainder(joints[i], TAU))
            if not _is_among(joints, 0, q, count, _SAME):
                for i in range(6):
                    q[6 * count + i] = joints[i]
                count += 1
        return count

    def _approach(self, t: list[float], q: list[float]) -> float:
        """Move joints q (6,) to a pose t by Newton's method; return what they miss it by."""
        axes, f, J, miss, dq = [0.0] * 54, [0.0] * 12, [0.0] * 36, [0.0] * 6, [0.0] * 6
        off = before = 1.0
        for step in range(ITERATIONS):
            self._chain(q, axes, f)
            _miss(t, f, miss)
            before = off
            off = 0.0
            for i in range(6):
                off = max(off, fabs(miss[i]))
            if step > 0 and before <= CONVERGED:
                break
            _jacobian(axes, f, False, J)
            left = _damped_step(J, miss, dq)
            if left < 0.0:
                break
            largest = 0.0
            for i in range(6):
                q[i] += dq[i]
                largest = max(largest, fabs(dq[i]))
            if largest <= _LAST_STEP and left <= _ROUNDING:
                return _ROUNDING
        return off


def _is_among(joints: list[float], at: int, q: list[float], count: int, within: float) -> bool:
    """Return whether joints are within an angle [rad] of any of q (count, 6), modulo turns."""
    for k in range(count):
        same = True
        for i in range(6):
            if same:
                same = fabs(_wrapped(joints[at + i] - q[6 * k + i])) < within
        if same:
            return True
    return False


def _side(distance: float, is_crossed: bool) -> float:
    """Return -1 for a negative distance to a singularity, else 1; the opposite if crossed."""
    return 1.0 if (distance < 0.0) == is_crossed else -1.0


def _determinant(A: list[float]) -> float:
    """Return the determinant of A (6, 6), and overwrite A; by Gauss with pivots."""
    det = 1.0
    for i in range(6):
        pivot = i
        for row in range(i + 1, 6):
            if fabs(A[6 * row + i]) > fabs(A[6 * pivot + i]):
                pivot = row
        if A[6 * pivot + i] == 0.0:
            return 0.0
        if pivot != i:
            det = -det
            for k in range(6):
                A[6 * i + k], A[6 * pivot + k] = A[6 * pivot + k], A[6 * i + k]
        det *= A[6 * i + i]
        for row in range(i + 1, 6):
            share = A[6 * row + i] / A[6 * i + i]
            for k in range(i, 6):
                A[6 * row + k] -= share * A[6 * i + k]
    return det


def _miss(t: list[float], f: list[float], miss: list[float]) -> None:
    """Fill displacement and rotation vector (6,), in `base`, from the tool f to the pose t."""
    r, w = [0.0] * 9, [0.0] * 3
    for i in range(3):
        miss[i] = t[4 * i + 3] - f[9 + i]
        for k in range(3):
            r[3 * i + k] = t[4 * i] * f[k] + t[4 * i + 1] * f[3 + k] + t[4 * i + 2] * f[6 + k]
    _log_so3(r, w)
    for i in range(3):
        miss[3 + i] = w[i]


def _damped_step(J: list[float], miss: list[float], dq: list[float]) -> float:
    """
    Fill dq (6,) of J dq = miss, J by columns, damped so that it converges like Newton.

    Solves (J J^T + damping) y = miss, dq = J^T y. Returns damping times the largest of y, by which
    J dq differs from `miss`; -1 if J is singular.

    """
    A = [0.0] * 42
    square = 0.0
    for i in range(6):
        square += miss[i] * miss[i]
    for i in range(6):
        for k in range(i, 6):
            for j in range(6):
                A[7 * i + k] += J[6 * j + i] * J[6 * j + k]
        A[7 * i + i] += _DAMPING * square
        A[7 * i + 6] = miss[i]
    if not _eliminate(A):
        return -1.0
    largest = _LONGEST_STEP
    for j in range(6):
        dq[j] = 0.0
        for i in range(6):
            dq[j] += J[6 * j + i] * A[7 * i + 6]
        largest = max(largest, fabs(dq[j]))
    left = 0.0
    for j in range(6):
        dq[j] *= _LONGEST_STEP / largest
        left = max(left, _DAMPING * square * fabs(A[7 * j + 6]))
    return left


def _eliminate(A: list[float]) -> bool:
    """
    Solve six equations, A (6, 7) by rows, by Gauss; column 6 becomes the solution.

    The matrix is symmetric and positive definite: what is below its diagonal is not looked at, and
    no row need be exchanged.

    """
    for i in range(6):
        if not A[7 * i + i] > 0.0:
            return False
        inverse = 1.0 / A[7 * i + i]
        for row in range(i + 1, 6):
            share = A[7 * i + row] * inverse
            for k in range(row, 7):
                A[7 * row + k] -= share * A[7 * i + k]
        A[7 * i + i] = inverse
    for i in range(5, -1, -1):
        for k in range(i + 1, 6):
            A[7 * i + 6] -= A[7 * i + k] * A[7 * k + 6]
        A[7 * i + 6] *= A[7 * i + i]
    return True


def log_se3(T: Numbers, twists: Numbers) -> None:
    """Fill twists (n, 6) [m, rad] with the logarithms of T (n, 4, 4), linear part first."""
    r, w, p, v = [0.0] * 9, [0.0] * 3, [0.0] * 3, [0.0] * 3
    for pose in range(len(T)):
        for i in range(3):
            p[i] = float(T[pose, i, 3])
            for k in range(3):
                r[3 * i + k] = float(T[pose, i, k])
        _log_so3(r, w)
        _linear_part_of_log(w, p, v)
        for i in range(3):
            twists[pose, i] = v[i]
            twists[pose, 3 + i] = w[i]


def log_so3(R: Numbers, rotvecs: Numbers) -> None:
    """Fill rotation vectors (n, 3) [rad], of length up to pi, of rotations R (n, 3, 3)."""
    r, w = [0.0] * 9, [0.0] * 3
    for rotation in range(len(R)):
        for i in range(3):
            for k in range(3):
                r[3 * i + k] = float(R[rotation, i, k])
        _log_so3(r, w)
        for i in range(3):
            rotvecs[rotation, i] = w[i]


def error_twist(T: Numbers, T_goal: Numbers, twist: Numbers) -> None:
    """Fill twist (6,) [m, rad] with log(T_goal^-1 T) of poses (4, 4): the error in SE(3)."""
    t, goal, xi = [0.0] * 12, [0.0] * 12, [0.0] * 6
    _read_pose(T, 3, t)
    _read_pose(T_goal, 3, goal)
    _error_twist(t, goal, xi)
    for i in range(6):
        twist[i] = xi[i]


def body_error(T: Numbers, T_goal: Numbers, error: Numbers) -> None:
    """Fill error (6,) with R^T (p - p_goal) [m] and log(R_goal^T R) [rad] of poses (4, 4)."""
    t, goal, e = [0.0] * 12, [0.0] * 12, [0.0] * 6
    _read_pose(T, 3, t)
    _read_pose(T_goal, 3, goal)
    _body_error(t, goal, e)
    for i in range(6):
        error[i] = e[i]


def _error_twist(t: list[float], goal: list[float], twist: list[float]) -> None:
    """Fill the error in SE(3) of two poses, row by row."""
    r, w, p, v, away = [0.0] * 9, [0.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3
    for i in range(3):
        away[i] = t[4 * i + 3] - goal[4 * i + 3]
    for i in range(3):
        for j in range(3):
            g = goal[4 * j + i]
            p[i] += g * away[j]
            for k in range(3):
                r[3 * i + k] += g * t[4 * j + k]
    _log_so3(r, w)
    _linear_part_of_log(w, p, v)
    for i in range(3):
        twist[i] = v[i]
        twist[3 + i] = w[i]


def _body_error(t: list[float], goal: list[float], error: list[float]) -> None:
    """Fill the body error of two poses, row by row."""
    r, w = [0.0] * 9, [0.0] * 3
    for i in range(3):
        error[i] = 0.0
        for j in range(3):
            error[i] += t[4 * j + i] * (t[4 * j + 3] - goal[4 * j + 3])
            g = goal[4 * j + i]
            for k in range(3):
                r[3 * i + k] += g * t[4 * j + k]
    _log_so3(r, w)
    for i in range(3):
        error[3 + i] = w[i]


def _weighted_error(
    root: list[float], f: list[float], goal: list[float], weighted: list[float]
) -> float:
    """Fill root e of the tool f from a goal, row by row; return half the square of its length."""
    t, e = [0.0] * 12, [0.0] * 6
    for i in range(3):
        for k in range(4):
            t[4 * i + k] = f[3 * k + i]
    _body_error(t, goal, e)
    square = 0.0
    for i in range(6):
        weighted[i] = 0.0
        for k in range(6):
            weighted[i] += root[6 * i + k] * e[k]
        square += weighted[i] * weighted[i]
    return square / 2.0


def _gradient(root: list[float], columns: list[float], e: list[float], d: list[float]) -> float:
    """
    Fill d (8,) with J^T e, for J = root times the columns of a Jacobian, |d|^2 and |J d|^2.

    Returns the sum of the squares of all entries of J.

    """
    J, squares, along = [0.0] * 36, 0.0, 0.0
    for i in range(6):
        for k in range(6):
            for j in range(6):
                J[6 * i + k] += root[6 * i + j] * columns[6 * k + j]
            squares += J[6 * i + k] * J[6 * i + k]
    d[6] = d[7] = 0.0
    for k in range(6):
        d[k] = 0.0
        for i in range(6):
            d[k] += J[6 * i + k] * e[i]
        d[6] += d[k] * d[k]
    for i in range(6):
        along = 0.0
        for k in range(6):
            along += J[6 * i + k] * d[k]
        d[7] += along * along
    return squares


def _invert(A: list[float]) -> bool:
    """Replace A (6, 12), [M, 1] by rows, by [1, M^-1], by Gauss and Jordan; False if singular."""
    for i in range(6):
        best = i
        for row in range(i + 1, 6):
            if fabs(A[12 * row + i]) > fabs(A[12 * best + i]):
                best = row
        pivot = A[12 * best + i]
        if not fabs(pivot) > 0.0:
            return False
        for k in range(12):
            entry = A[12 * best + k]
            A[12 * best + k] = A[12 * i + k]
            A[12 * i + k] = entry / pivot
        for row in range(6):
            share = A[12 * row + i]
            if row != i and share != 0.0:
                for k in range(12):
                    A[12 * row + k] -= share * A[12 * i + k]
    return True


def moved(T: Numbers, p: Numbers, share: float, T_moved: Numbers) -> None:
    """Fill T_moved (4, 4) with T (4, 4), its origin moved by share p, p (3,) [m] in its axes."""
    for i in range(4):
        for k in range(4):
            T_moved[i, k] = float(T[i, k])
    for i in range(3):
        away = 0.0
        for k in range(3):
            away += float(T[i, k]) * float(p[k])
        T_moved[i, 3] = float(T[i, 3]) + share * away


def nearest(path: Numbers, begin: int, end: int, q: Numbers, away: Numbers) -> int:
    """
    Return the row of path (n, 6) [rad], from begin to before end, that is nearest to q (6,).

    Its largest joint difference is the smallest. Fills away (6,) with its differences [rad].

    """
    best, smallest = begin, -1.0
    for row in range(begin, end):
        largest = 0.0
        for i in range(6):
            largest = max(largest, fabs(float(path[row, i]) - float(q[i])))
            if largest >= smallest >= 0.0:
                break
        if smallest < 0.0 or largest < smallest:
            best, smallest = row, largest
    for i in range(6):
        away[i] = fabs(float(path[best, i]) - float(q[i]))
    return best


def largest_gap(q_a: Numbers, q_b: Numbers) -> float:
    """Return the largest difference of joints q_a and q_b (6,) [rad]."""
    gap = 0.0
    for i in range(6):
        gap = max(gap, fabs(float(q_a[i]) - float(q_b[i])))
    return gap


def between(q_a: Numbers, q_b: Numbers, share: float, q: Numbers) -> None:
    """Fill q (6,) with joints at a share of the way from q_a to q_b (6,) [rad]."""
    for i in range(6):
        q[i] = float(q_a[i]) + share * (float(q_b[i]) - float(q_a[i]))


def changed(
    q: Numbers,
    qd: Numbers,
    qdd: Numbers,
    velocity: Numbers,
    cycles: int,
    at: int,
    cycle: float,
    state: Numbers,
) -> None:
    """
    Fill state (3, 6), positions, velocities and accelerations, `at` cycles after a start.

    The velocities are those of `fewest_cycles`, from the start q, qd, qdd (6,) [rad, s] to
    `velocity` in `cycles`, and constant from then on. Velocity and acceleration are combinations
    of v0, a0 T and v - v0; the positions their integrals.

    """
    T = cycles * cycle
    u = min(float(at) / cycles, 1.0)
    after = max(at - cycles, 0) * cycle
    uu, uuu = u * u, u * u * u
    uuuu = uu * uu
    bent, risen = T * (uu / 2.0 - 2.0 * uuu / 3.0 + uuuu / 4.0), T * (uuu - uuuu / 2.0) + after
    steady = T * u + after
    kept, gained = u - 2.0 * uu + uuu, 3.0 * uu - 2.0 * uuu
    bends, grows = (1.0 - 4.0 * u + 3.0 * uu) / T, 6.0 * (u - uu) / T
    for i in range(6):
        v0, a0T = float(qd[i]), float(qdd[i]) * T
        dv = float(velocity[i]) - v0
        state[0, i] = float(q[i]) + (steady * v0 + bent * a0T + risen * dv)
        state[1, i] = v0 + kept * a0T + gained * dv
        state[2, i] = bends * a0T + grows * dv


def on_line(
    T_start: Numbers, displacement: Numbers, rotvec: Numbers, share: float, T: Numbers
) -> None:
    """
    Fill T (4, 4) with the pose at a share of the line from T_start (4, 4).

    The whole line moves the origin by displacement (3,) [m], and turns the axes to R exp(rotvec),
    rotvec (3,) [rad].

    """
    w = [0.0] * 3
    for i in range(3):
        w[i] = share * float(rotvec[i])
    t = _length(w, 0)
    half = 0.5 * t
    # sin t / t and (1 - cos t) / t^2
    A = 1.0 - t * t / 6.0 if t < _SMALL_ANGLE else sin(t) / t
    B = 0.5 if t < _SMALL_ANGLE else 0.5 * (sin(half) / half) * (sin(half) / half)
    for i in range(3):
        x, y, z = float(T_start[i, 0]), float(T_start[i, 1]), float(T_start[i, 2])
        cx, cy, cz = y * w[2] - z * w[1], z * w[0] - x * w[2], x * w[1] - y * w[0]
        T[i, 0] = x + A * cx + B * (cy * w[2] - cz * w[1])
        T[i, 1] = y + A * cy + B * (cz * w[0] - cx * w[2])
        T[i, 2] = z + A * cz + B * (cx * w[1] - cy * w[0])
        T[i, 3] = float(T_start[i, 3]) + share * float(displacement[i])
        T[3, i] = 0.0
    T[3, 3] = 1.0


def unproved(
    levers: Numbers, q: Numbers, spare: Numbers, q_a: Numbers, q_b: Numbers, pairs: Numbers
) -> int:
    """
    Fill `pairs` with the pairs of bodies that may come too near, and return their number.

    Pair p, of n, may come nearer by spare (n,) [m] from its joints q (n, 6). It does so by at most
    levers (n, 6) [m] times the turns of the joints, which lie between q_a and q_b (6,) [rad].

    """
    count = 0
    for pair in range(len(spare)):
        change = 0.0
        for j in range(6):
            at = float(q[pair, j])
            turn = max(fabs(float(q_a[j]) - at), fabs(float(q_b[j]) - at))
            change += float(levers[pair, j]) * turn
        if not change <= float(spare[pair]):
            pairs[count] = pair
            count += 1
    return count


def turn_near(
    q: Numbers, seed: Numbers, low: Numbers, high: Numbers, distances: Numbers
) -> None:
    """
    Turn joints q (n, 6) [rad] by whole turns to be nearest a seed (6,) between low and high (6,).

    Fills distances (n,) with the largest joint difference to the seed [rad]; infinity where no
    whole turn of a joint lies within, whose row is then of no use.

    """
    for row in range(len(q)):
        largest = 0.0
        for j in range(6):
            angle, desired = float(q[row, j]), float(seed[j])
            least, most, turned = float(low[j]), float(high[j]), float(q[row, j])
            if not -PI <= desired - angle <= PI:
                turned += TAU * floor((desired - angle) / TAU + 0.5)
            if not least <= turned <= most:
                turns = ceil((least - angle) / TAU)
                if turned > most:
                    turns = floor((most - angle) / TAU)
                turned = angle + TAU * turns
                if not least <= turned <= most:
                    largest = INFINITY
                    break
            q[row, j] = turned
            largest = max(largest, fabs(turned - desired))
        distances[row] = largest


def is_within(q: Numbers, low: Numbers, high: Numbers) -> bool:
    """Return whether all joints q (n, 6) lie between low and high (6,) [rad]."""
    for row in range(len(q)):
        for j in range(6):
            if not float(low[j]) <= float(q[row, j]) <= float(high[j]):
                return False
    return True


def fewest_cycles(
    qd: Numbers, qdd: Numbers, velocity: Numbers, limits: Numbers, cycle: float, most: int
) -> int:
    """
    Return the fewest cycles in which all joints reach `velocity`, with no acceleration at the end.

    The velocities are cubic in time, from qd (6,) [rad/s] and qdd (6,) [rad/s^2] to `velocity`
    (6,), within the acceleration and jerk of `limits` (2, 6); the jerk is linear in time, so that
    it is largest at an end. Returns `most` if no smaller number is enough; `cycle` is the
    duration of one cycle [s].

    """
    for cycles in range(1, most + 1):
        duration, fits = cycle * cycles, True
        for i in range(6):
            a0 = float(qdd[i])
            dv = (float(velocity[i]) - float(qd[i])) / duration  # [rad/s^2]
            # The tolerance lets a change found before be found again from rounded states.
            jerk = max(fabs(6.0 * dv - 4.0 * a0), fabs(2.0 * a0 - 6.0 * dv)) / duration
            bend = 6.0 * a0 - 12.0 * dv
            u = (4.0 * a0 - 6.0 * dv) / bend if bend != 0.0 else 0.0  # of the peak
            u = min(1.0, max(0.0, u))
            peak = fabs(a0 * (1.0 - 4.0 * u + 3.0 * u * u) + 6.0 * dv * (u - u * u))
            largest, steepest = float(limits[0, i]), float(limits[1, i])
            fits = jerk <= 1.001 * steepest + 1e-9 and peak <= 1.001 * largest
            if not fits:
                break
        if fits:
            return cycles
    return most


def _jacobian(axes: list[float], f: list[float], in_tool: bool, columns: list[float]) -> None:
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


def _log_so3(r: list[float], w: list[float]) -> None:
    """
    Fill the rotation vector w [rad], of length up to pi, of a rotation r (9,).

    By the unit quaternion, so that it is exact near 0 and near pi; at pi either axis is correct.
    Row k below is 4 q_k q; the row of the largest |q_k| loses no digits.

    """
    quat = [0.0] * 4
    xx, yy, zz = 1.0 + r[0] - r[4] - r[8], 1.0 - r[0] + r[4] - r[8], 1.0 - r[0] - r[4] + r[8]
    ww = 1.0 + r[0] + r[4] + r[8]
    if xx >= yy and xx >= zz and xx >= ww:
        quat[0], quat[1], quat[2], quat[3] = xx, r[1] + r[3], r[2] + r[6], r[7] - r[5]
    elif yy >= zz and yy >= ww:
        quat[0], quat[1], quat[2], quat[3] = r[1] + r[3], yy, r[5] + r[7], r[2] - r[6]
    elif zz >= ww:
        quat[0], quat[1], quat[2], quat[3] = r[2] + r[6], r[5] + r[7], zz, r[3] - r[1]
    else:
        quat[0], quat[1], quat[2], quat[3] = r[7] - r[5], r[2] - r[6], r[3] - r[1], ww
    n = _length(quat, 0)
    sign = -1.0 if quat[3] < 0.0 else 1.0
    w4 = fabs(quat[3])
    is_small = n < _SMALL_ANGLE * w4
    tan = n / w4 if is_small else 1.0
    stretch = (2.0 - 2.0 / 3.0 * tan * tan) / w4 if is_small else 2.0 * atan2(n, w4) / n
    for k in range(3):
        w[k] = sign * stretch * quat[k]


def _linear_part_of_log(w: list[float], p: list[float], v: list[float]) -> None:
    """Fill v with the linear part of log(T), from its rotation vector w and displacement p."""
    t = _length(w, 0)
    if t < _SMALL_ANGLE:
        D = 1.0 / 12.0 + t * t / 720.0
    else:
        h = 0.5 * t
        D = (1.0 - h * cos(h) / sin(h)) / (t * t)
    x, y, z = w[1] * p[2] - w[2] * p[1], w[2] * p[0] - w[0] * p[2], w[0] * p[1] - w[1] * p[0]
    v[0] = p[0] - 0.5 * x + D * (w[1] * z - w[2] * y)
    v[1] = p[1] - 0.5 * y + D * (w[2] * x - w[0] * z)
    v[2] = p[2] - 0.5 * z + D * (w[0] * y - w[1] * x)


def _read_pose(T: Numbers, rows: int, t: list[float]) -> None:
    """Fill t (4 * rows,) with the first rows of a pose (4, 4), row by row."""
    for i in range(rows):
        for k in range(4):
            t[4 * i + k] = float(T[i, k])


def _length(v: list[float], at: int) -> float:
    """Return the length of the three numbers from `at` on."""
    return sqrt(v[at] * v[at] + v[at + 1] * v[at + 1] + v[at + 2] * v[at + 2])


def _place(k: int) -> int:
    """Return where the five angles of the plane of row k are; see `Arm._planes`."""
    return 12 * (k >> 2) + 2 + 5 * (k & 1)


def _angles(sines: list[float], cosines: list[float], count: int, angles: list[float]) -> None:
    """
    Fill angles (count,) [rad] with atan2 of sines and cosines, which may have any common factor.

    Without calls and branches, so that the compiled form takes several at once. The quotient t is
    the tangent of the angle to the nearest multiple of 45 degrees; the polynomial in t^2 is that
    of (arctan(t) / t - 1) / t^2 at Chebyshev's points, within 1.5e-17.

    """
    for k in range(count):
        y, x = fabs(sines[k]), fabs(cosines[k])
        low, high = y if y < x else x, x if y < x else y
        is_middle = low > _TAN_22_5_DEG * high
        over, under = low - high if is_middle else low, low + high if is_middle else high
        t = over / (under if under > _TINY else _TINY)
        z = t * t
        series = 0.022750525406052224
        series = series * z - 0.044833345062807464
        series = series * z + 0.05736332130703195
        series = series * z - 0.06649613689550408
        series = series * z + 0.07691055157849669
        series = series * z - 0.09090852557145968
        series = series * z + 0.11111109636533431
        series = series * z - 0.14285714266096602
        series = series * z + 0.19999999999898407
        series = series * z - 0.3333333333333325
        angle = t + t * z * series
        multiple = 0.25 * PI if is_middle else 0.0
        multiple, angle = 0.5 * PI - multiple if x < y else multiple, -angle if x < y else angle
        is_behind = cosines[k] < 0.0
        multiple, angle = PI - multiple if is_behind else multiple, -angle if is_behind else angle
        angle = multiple + (angle + _BELOW_PI * multiple)
        angles[k] = copysign(angle, sines[k])


def _wrapped(angle: float) -> float:
    """Return an angle within ±5 pi [rad] wrapped to (-pi, pi]."""
    angle -= TAU if angle > PI else 0.0
    angle -= TAU if angle > PI else 0.0
    angle += TAU if angle <= -PI else 0.0
    angle += TAU if angle <= -PI else 0.0
    return angle


def _is_rigid(t: list[float]) -> bool:
    """Return whether 16 entries, row by row, are a rigid motion; see `transforms.check_rigid`."""
    e = RIGID_TOLERANCE
    return (
        -e <= t[0] * t[0] + t[4] * t[4] + t[8] * t[8] - 1.0 <= e
        and -e <= t[1] * t[1] + t[5] * t[5] + t[9] * t[9] - 1.0 <= e
        and -e <= t[0] * t[1] + t[4] * t[5] + t[8] * t[9] <= e
        and -e <= t[4] * t[9] - t[8] * t[5] - t[2] <= e
        and -e <= t[8] * t[1] - t[0] * t[9] - t[6] <= e
        and -e <= t[0] * t[5] - t[4] * t[1] - t[10] <= e
        and -e <= t[12] <= e
        and -e <= t[13] <= e
        and -e <= t[14] <= e
        and -e <= t[15] - 1.0 <= e
        and bool(isfinite(t[3] + t[7] + t[11]))
    )
