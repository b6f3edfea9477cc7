# SPDX-License-Identifier: Apache-2.0
"""The solutions of a pose by branch, of a nominal or calibrated arm."""

from ur5_pick_place.kinematics.scalar.arm import Arm
from ur5_pick_place.kinematics.scalar.calibrated import solve_calibrated
from ur5_pick_place.kinematics.scalar.closed_form import solve
from ur5_pick_place.kinematics.scalar.constants import Numbers
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
