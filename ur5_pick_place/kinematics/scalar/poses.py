# SPDX-License-Identifier: Apache-2.0
"""Poses and rotations: logarithms, errors, points of a line."""

from math import atan2, cos, fabs, isfinite, sin, sqrt

from ur5_pick_place.kinematics.scalar.constants import SMALL_ANGLE, Numbers

RIGID_TOLERANCE = 1e-6  # how far R^T R may be from the identity, entry by entry
_SERIES_BELOW = 1e-4  # square of the sine of an angle


def log_se3(T: Numbers, twists: Numbers) -> None:
    """Fill twists (n, 6) [m, rad] with the logarithms of T (n, 4, 4), linear part first."""
    r, w, p, v = [0.0] * 9, [0.0] * 3, [0.0] * 3, [0.0] * 3
    for pose in range(len(T)):
        for i in range(3):
            p[i] = float(T[pose, i, 3])
            for k in range(3):
                r[3 * i + k] = float(T[pose, i, k])
        log_rotation(r, w)
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
        log_rotation(r, w)
        for i in range(3):
            rotvecs[rotation, i] = w[i]


def error_twist(T: Numbers, T_goal: Numbers, twist: Numbers) -> None:
    """Fill twist (6,) [m, rad] with log(T_goal^-1 T) of poses (4, 4): the error in SE(3)."""
    t, goal, xi = [0.0] * 12, [0.0] * 12, [0.0] * 6
    read_pose(T, 3, t)
    read_pose(T_goal, 3, goal)
    fill_error_twist(t, goal, xi)
    for i in range(6):
        twist[i] = xi[i]


def body_error(T: Numbers, T_goal: Numbers, error: Numbers) -> None:
    """Fill error (6,) with R^T (p - p_goal) [m] and log(R_goal^T R) [rad] of poses (4, 4)."""
    t, goal, e = [0.0] * 12, [0.0] * 12, [0.0] * 6
    read_pose(T, 3, t)
    read_pose(T_goal, 3, goal)
    fill_body_error(t, goal, e)
    for i in range(6):
        error[i] = e[i]


def fill_pose(
    px: float, py: float, pz: float, x: float, y: float, z: float, w: float, T: Numbers
) -> None:
    """Fill T (4, 4) with a position [m] and a unit quaternion x, y, z, w."""
    T[0, 0], T[1, 1] = 1.0 - 2.0 * (y * y + z * z), 1.0 - 2.0 * (x * x + z * z)
    T[2, 2] = 1.0 - 2.0 * (x * x + y * y)
    T[0, 1], T[1, 0] = 2.0 * (x * y - w * z), 2.0 * (x * y + w * z)
    T[0, 2], T[2, 0] = 2.0 * (x * z + w * y), 2.0 * (x * z - w * y)
    T[1, 2], T[2, 1] = 2.0 * (y * z - w * x), 2.0 * (y * z + w * x)
    T[0, 3], T[1, 3], T[2, 3] = px, py, pz
    T[3, 0], T[3, 1], T[3, 2], T[3, 3] = 0.0, 0.0, 0.0, 1.0


def compose(T_a_b: Numbers, T_b_c: Numbers, T_a_c: Numbers) -> None:
    """Fill T_a_c (4, 4) with T_a_b T_b_c, poses (4, 4); the last rows count as 0 0 0 1."""
    for i in range(3):
        for k in range(4):
            entry = float(T_a_b[i, 3]) if k == 3 else 0.0
            for j in range(3):
                entry += float(T_a_b[i, j]) * float(T_b_c[j, k])
            T_a_c[i, k] = entry
        T_a_c[3, i] = 0.0
    T_a_c[3, 3] = 1.0


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
    t = norm3(w, 0)
    half = 0.5 * t
    # sin t / t and (1 - cos t) / t^2
    A = 1.0 - t * t / 6.0 if t < SMALL_ANGLE else sin(t) / t
    B = 0.5 if t < SMALL_ANGLE else 0.5 * (sin(half) / half) * (sin(half) / half)
    for i in range(3):
        x, y, z = float(T_start[i, 0]), float(T_start[i, 1]), float(T_start[i, 2])
        cx, cy, cz = y * w[2] - z * w[1], z * w[0] - x * w[2], x * w[1] - y * w[0]
        T[i, 0] = x + A * cx + B * (cy * w[2] - cz * w[1])
        T[i, 1] = y + A * cy + B * (cz * w[0] - cx * w[2])
        T[i, 2] = z + A * cz + B * (cx * w[1] - cy * w[0])
        T[i, 3] = float(T_start[i, 3]) + share * float(displacement[i])
        T[3, i] = 0.0
    T[3, 3] = 1.0


def fill_error_twist(t: list[float], goal: list[float], twist: list[float]) -> None:
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
    log_rotation(r, w)
    _linear_part_of_log(w, p, v)
    for i in range(3):
        twist[i] = v[i]
        twist[3 + i] = w[i]


def fill_body_error(t: list[float], goal: list[float], error: list[float]) -> None:
    """Fill the body error of two poses, row by row."""
    r, w = [0.0] * 9, [0.0] * 3
    for i in range(3):
        error[i] = 0.0
        for j in range(3):
            error[i] += t[4 * j + i] * (t[4 * j + 3] - goal[4 * j + 3])
            g = goal[4 * j + i]
            for k in range(3):
                r[3 * i + k] += g * t[4 * j + k]
    log_rotation(r, w)
    for i in range(3):
        error[3 + i] = w[i]


def log_rotation(r: list[float], w: list[float]) -> None:
    """
    Fill the rotation vector w [rad], of length up to pi, of a rotation r (9,).

    Near 0 by the series of the arcsine, to its last digit. Elsewhere by the unit quaternion, so
    that it is exact near pi; at pi either axis is correct. Row k below is 4 q_k q; the row of the
    largest |q_k| loses no digits.

    """
    quat = [0.0] * 4
    w[0], w[1], w[2] = 0.5 * (r[7] - r[5]), 0.5 * (r[2] - r[6]), 0.5 * (r[3] - r[1])
    square = w[0] * w[0] + w[1] * w[1] + w[2] * w[2]
    if square < _SERIES_BELOW and r[0] + r[4] + r[8] > 0.0:
        stretch = 1.0 + square * (1.0 / 6.0 + square * (3.0 / 40.0 + square * (15.0 / 336.0)))
        for k in range(3):
            w[k] *= stretch
        return
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
    n = norm3(quat, 0)
    sign = -1.0 if quat[3] < 0.0 else 1.0
    w4 = fabs(quat[3])
    stretch = 2.0 * atan2(n, w4) / n
    for k in range(3):
        w[k] = sign * stretch * quat[k]


def _linear_part_of_log(w: list[float], p: list[float], v: list[float]) -> None:
    """Fill v with the linear part of log(T), from its rotation vector w and displacement p."""
    t = norm3(w, 0)
    if t < SMALL_ANGLE:
        D = 1.0 / 12.0 + t * t / 720.0
    else:
        h = 0.5 * t
        D = (1.0 - h * cos(h) / sin(h)) / (t * t)
    x, y, z = w[1] * p[2] - w[2] * p[1], w[2] * p[0] - w[0] * p[2], w[0] * p[1] - w[1] * p[0]
    v[0] = p[0] - 0.5 * x + D * (w[1] * z - w[2] * y)
    v[1] = p[1] - 0.5 * y + D * (w[2] * x - w[0] * z)
    v[2] = p[2] - 0.5 * z + D * (w[0] * y - w[1] * x)


def read_pose(T: Numbers, rows: int, t: list[float]) -> None:
    """Fill t (4 * rows,) with the first rows of a pose (4, 4), row by row."""
    for i in range(rows):
        for k in range(4):
            t[4 * i + k] = float(T[i, k])


def is_rigid(t: list[float]) -> bool:
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


def norm3(v: list[float], at: int) -> float:
    """Return the length of the three numbers from `at` on."""
    return sqrt(v[at] * v[at] + v[at + 1] * v[at + 1] + v[at + 2] * v[at + 2])
