# SPDX-License-Identifier: Apache-2.0
"""The branch of joints: on which side of three singularities the arm is."""

from math import fabs, sqrt

from ur5_pick_place.kinematics.scalar.arm import Arm, fill_jacobian
from ur5_pick_place.kinematics.scalar.constants import DOUBLE_ROOT, WRIST_SINGULAR, Numbers
from ur5_pick_place.kinematics.scalar.equations import determinant
from ur5_pick_place.kinematics.scalar.joints import sines_of

# Joints of a calibrated arm may be on the other side of a singularity than the nominal arm's
# within this distance from it: of frame 5 by the arm's reach, or sine of theta_3 or theta_5.
_MAY_CROSS = 0.1


def classify(arm: Arm, q: Numbers, branch: Numbers) -> None:
    """Fill branch (n,) with the index into `BRANCHES` of each of joints q (n, 6) [rad]."""
    joints = [0.0] * 6
    for row in range(len(branch)):
        for i in range(6):
            joints[i] = float(q[row, i])
        branch[row] = branch_row(arm, joints)


def branch_row(arm: Arm, q: list[float]) -> int:
    """Return the branch of joints q (6,) [rad]; see `branches`."""
    distances, root, reach = [0.0] * 3, sqrt(DOUBLE_ROOT), fabs(arm.a2) + fabs(arm.a3)
    nearest = fill_distances(arm, q, distances)
    x1, s3, s5 = distances[0], distances[1], distances[2]
    if arm.is_calibrated:
        is_crossed = nearest < _MAY_CROSS and _has_crossed(arm, q, x1, s3, s5)
        x1 = _side(x1, is_crossed and fabs(x1) == nearest)
        s3 = _side(s3, is_crossed and fabs(s3) == nearest)
        s5 = _side(s5, is_crossed and fabs(s5) == nearest)
    left = x1 <= root * fabs(arm.d4) / reach
    up = (s3 if left else -s3) >= 0.0 or fabs(s3) <= root
    down = s5 >= -WRIST_SINGULAR
    return (0 if left else 4) + (0 if up else 2) + (0 if down else 1)


def fill_distances(arm: Arm, q: list[float], distances: list[float]) -> float:
    """
    Fill signed distances (3,) of joints q (6,) from the singularities of a nominal arm.

    Of frame 5 by the arm's reach, and sines of theta_3 and theta_5. Returns the smallest.

    """
    angles, s, c = [0.0] * 5, [0.0] * 5, [0.0] * 5
    angles[0], angles[3] = q[1] + arm.offsets[1], q[2] + arm.offsets[2]
    angles[1] = angles[0] + angles[3]
    angles[2], angles[4] = angles[1] + (q[3] + arm.offsets[3]), q[4] + arm.offsets[4]
    sines_of(angles, 5, s, c)
    x1 = arm.a2 * c[0] + arm.a3 * c[1] + arm.d5 * s[2]
    distances[0], distances[1], distances[2] = x1 / (fabs(arm.a2) + fabs(arm.a3)), s[3], s[4]
    return min(fabs(distances[0]), fabs(s[3]), fabs(s[4]))


def _has_crossed(arm: Arm, q: list[float], x1: float, s3: float, s5: float) -> bool:
    """
    Return whether a calibrated arm is on the other side of a singularity than a nominal one.

    For the nominal arm det J is a2 a3 x1 sin(theta_3) sin(theta_5).

    """
    axes, f, J = [0.0] * 39, [0.0] * 12, [0.0] * 36
    arm.chain(q, axes, f)
    fill_jacobian(axes, f, False, J)
    product = _side(x1, False) * _side(s3, False) * _side(s5, False)
    return arm.a2 * arm.a3 * product * determinant(J) < 0.0


def _side(distance: float, is_crossed: bool) -> float:
    """Return -1 for a negative distance to a singularity, else 1; the opposite if crossed."""
    return 1.0 if (distance < 0.0) == is_crossed else -1.0
