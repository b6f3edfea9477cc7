# SPDX-License-Identifier: Apache-2.0
"""One step of each control law, and the limits of a step; see `control.laws`."""

from math import fabs

from ur5_pick_place.kinematics.scalar.arm import Arm, fill_jacobian
from ur5_pick_place.kinematics.scalar.constants import Numbers
from ur5_pick_place.kinematics.scalar.equations import invert
from ur5_pick_place.kinematics.scalar.poses import fill_body_error, fill_error_twist, read_pose


def resolved_rate(
    arm: Arm,
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
    joints, axes, f, J = [0.0] * 6, [0.0] * 39, [0.0] * 12, [0.0] * 36
    t, goal, xi, A = [0.0] * 12, [0.0] * 12, [0.0] * 6, [0.0] * 72
    for i in range(6):
        joints[i] = float(q[i])
    arm.chain(joints, axes, f)
    fill_jacobian(axes, f, True, J)
    for i in range(3):
        for k in range(4):
            t[4 * i + k] = f[3 * k + i]
    read_pose(T_goal, 3, goal)
    fill_error_twist(t, goal, xi)
    for i in range(6):
        weight = 1.0 if i < 3 else length
        for k in range(6):
            A[12 * i + k] = weight * J[6 * k + i]
        A[12 * i + 6 + i] = 1.0
    if not invert(A):
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
    arm: Arm,
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
    joints, trial, axes, f = [0.0] * 6, [0.0] * 6, [0.0] * 39, [0.0] * 12
    goal, e, w, J, d = [0.0] * 12, [0.0] * 6, [0.0] * 36, [0.0] * 36, [0.0] * 8
    for i in range(6):
        joints[i] = float(q[i])
        dq[i] = 0.0
        for k in range(6):
            w[6 * i + k] = float(root[i, k])
    read_pose(T_goal, 3, goal)
    arm.chain(joints, axes, f)
    fill_jacobian(axes, f, True, J)
    value = _weighted_error(w, f, goal, e)
    squares = _gradient(w, J, e, d)
    slope, bend = d[6], d[7]
    if slope == 0.0 or bend == 0.0:
        return 0.0
    a = min(slope / bend, longest)
    for _ in range(halvings):
        for i in range(6):
            trial[i] = joints[i] - a * d[i]
        arm.chain(trial, axes, f)
        if _weighted_error(w, f, goal, e) <= value - 0.25 * a * slope:
            for i in range(6):
                dq[i] = -a * d[i]
            break
        a /= 2.0
    return slope / bend * squares


def limit_rate(
    arm: Arm, q: Numbers, qd: Numbers, qd_max: Numbers, speed: float, p_tool_tcp: Numbers
) -> None:
    """
    Scale qd (6,) [rad/s] as a whole to the limits, if it exceeds one of them.

    The limits are qd_max (6,) [rad/s] and the speed of TCP and elbow [m/s]; see
    `tcp_and_elbow_speed`.

    """
    used = max(1.0, arm.tcp_and_elbow_speed(q, qd, p_tool_tcp) / speed)
    for i in range(6):
        used = max(used, fabs(float(qd[i])) / float(qd_max[i]))
    for i in range(6):
        qd[i] = float(qd[i]) / used


def _weighted_error(
    root: list[float], f: list[float], goal: list[float], weighted: list[float]
) -> float:
    """Fill root e of the tool f from a goal, row by row; return half the square of its length."""
    t, e = [0.0] * 12, [0.0] * 6
    for i in range(3):
        for k in range(4):
            t[4 * i + k] = f[3 * k + i]
    fill_body_error(t, goal, e)
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
