# SPDX-License-Identifier: Apache-2.0
"""The solutions of a pose by branch, of a nominal or calibrated arm."""

from math import isfinite

from ur5_pick_place.kinematics.scalar.arm import Arm
from ur5_pick_place.kinematics.scalar.branch import classify
from ur5_pick_place.kinematics.scalar.calibrated import solutions, solve_calibrated
from ur5_pick_place.kinematics.scalar.closed_form import solve
from ur5_pick_place.kinematics.scalar.constants import INFINITY, Numbers
from ur5_pick_place.kinematics.scalar.joints import turn_near
from ur5_pick_place.kinematics.scalar.poses import is_rigid, read_pose


def inverse(
    arm: Arm, T: Numbers, q6: float, seed: Numbers | None, q: Numbers, ok: Numbers
) -> bool:
    """
    Fill q (8, 6) [rad] and ok (8,) with the solutions of T (4, 4), rows as `BRANCHES`.

    A calibrated arm searches from joints `seed` (6,) too, if there are any. False, and nothing
    filled, if T is not rigid.

    """
    t, rows, found, joints = [0.0] * 16, [0.0] * 48, [0] * 8, [0.0] * 6
    read_pose(T, 4, t)
    if not is_rigid(t):
        return False
    if arm.is_calibrated:
        if seed is not None:
            for i in range(6):
                joints[i] = float(seed[i])
        solve_calibrated(arm, t, q6, seed is not None, joints, rows, found)
    else:
        solve(arm, t, q6, rows, found)
    for k in range(8):
        ok[k] = found[k]
        for i in range(6):
            q[k, i] = rows[6 * k + i]
    return True


def inverse_all(
    arm: Arm, T: Numbers, q6: Numbers, seed: Numbers | None, q: Numbers, ok: Numbers
) -> bool:
    """Fill q (n, 8, 6), ok (n, 8) for T (n, 4, 4), q6 (n,), seed (n, 6); see `inverse`."""
    t, rows, found, joints = [0.0] * 16, [0.0] * 48, [0] * 8, [0.0] * 6
    for pose in range(len(q6)):
        for i in range(4):
            for k in range(4):
                t[4 * i + k] = float(T[pose, i, k])
        if not is_rigid(t):
            return False
        if arm.is_calibrated:
            if seed is not None:
                for i in range(6):
                    joints[i] = float(seed[pose, i])
            solve_calibrated(arm, t, q6[pose], seed is not None, joints, rows, found)
        else:
            solve(arm, t, q6[pose], rows, found)
        for k in range(8):
            ok[pose, k] = found[k]
            for i in range(6):
                q[pose, k, i] = rows[6 * k + i]
    return True


def solutions_near(
    arm: Arm,
    T: Numbers,
    seed: Numbers,
    low: Numbers,
    high: Numbers,
    q: Numbers,
    branch: Numbers,
    distances: Numbers,
) -> int:
    """
    Fill q (MOST, 6) [rad] with the solutions of T (4, 4) between low and high, nearest first.

    branch (MOST,) gets their rows in `BRANCHES`, distances (MOST,) their largest joint difference
    to seed (6,) [rad]; of equal distances the first branch is first. Returns their number; -1 if T
    is not rigid or the seed not finite.

    """
    t, rows, found = [0.0] * 16, [0.0] * 48, [0] * 8
    read_pose(T, 4, t)
    if not is_rigid(t):
        return -1
    for i in range(6):
        if not isfinite(float(seed[i])):
            return -1
    q6 = min(max(float(seed[5]), float(low[5])), float(high[5]))
    count = 0
    if arm.is_calibrated:
        count = solutions(arm, T, q6, seed, q)
        classify(arm, q, branch[:count])
    else:
        solve(arm, t, q6, rows, found)
        for k in range(8):
            if found[k]:
                branch[count] = k
                for i in range(6):
                    q[count, i] = rows[6 * k + i]
                count += 1
    turn_near(q[:count], seed, low, high, distances)
    return _nearest_first(q, branch, distances, count)


def _nearest_first(q: Numbers, branch: Numbers, distances: Numbers, count: int) -> int:
    """Sort count solutions; drop those at an infinite distance, and return how many are left."""
    joints, left = [0.0] * 6, 0
    for k in range(count):
        away, row, at = float(distances[k]), int(branch[k]), left
        if away == INFINITY:
            continue
        for i in range(6):
            joints[i] = float(q[k, i])
        while at > 0 and (
            distances[at - 1] > away or (distances[at - 1] == away and branch[at - 1] > row)
        ):
            distances[at], branch[at] = distances[at - 1], branch[at - 1]
            for i in range(6):
                q[at, i] = q[at - 1, i]
            at -= 1
        distances[at], branch[at] = away, row
        for i in range(6):
            q[at, i] = joints[i]
        left += 1
    return left
