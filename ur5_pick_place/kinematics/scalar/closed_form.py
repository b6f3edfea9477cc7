# SPDX-License-Identifier: Apache-2.0
"""
The inverse of a nominal arm in closed form.

With n, o, a the axes of the tool and p its origin, all in `base`:

    theta_1    Frame 5, at p - d6 a, lies d4 beside the plane in which the arm bends. Where it is
               nearer to axis 1 than that there is no such plane: the unreachable cylinder.
    theta_5,   from axis 1 as the tool sees it, (s5 c6, -s5 s6, c5): sine and cosine both, so that
    theta_6    no digit is lost near 0 and pi. Where s5 = 0, theta_6 is free.
    theta_234  The sum of theta_2, theta_3 and theta_4: how z of frame 4 stands in the arm's plane.
    theta_3,   from the triangle of upper arm, forearm, and the vector from frame 1 to frame 3.
    theta_2    theta_4 is the rest of the sum.

No sine or cosine of a computed angle is taken: each step gives those of its angle, and those of
all solutions are taken from them at the end, in one loop that a compiler vectorises
(`joints.angles_of`).

References
----------
The UR5 IK note; its equations 5 (theta_1), 6 (theta_5) and 15 (theta_3) carry the three signs.

"""

from math import atan2, copysign, cos, fabs, sin, sqrt

from ur5_pick_place.kinematics.scalar.arm import Arm
from ur5_pick_place.kinematics.scalar.constants import (
    DOUBLE_ROOT,
    NAN,
    PI,
    WRIST_SINGULAR,
    Numbers,
)
from ur5_pick_place.kinematics.scalar.joints import angles_of, wrapped
from ur5_pick_place.kinematics.scalar.poses import read_pose

# Below this |sin(theta_5)|, theta_6 may be turned as long as that turns the tool by at most
# WRIST_SINGULAR: rounding of the pose, divided by sin(theta_5), may have put a stretched elbow
# just out of reach.
_NEARLY_SINGULAR = 0.05

# Where theta_6 is free and the elbow cannot reach with the desired one, theta_6 is turned until
# theta_3 is this far from 0 or pi [rad], or as far as it gets: both elbows then exist, and an arm
# that came to rest a little off is still on its branch. As theta_3 grows with the square root of
# the turn, that takes only 1e-4 rad more of theta_6 than a stretched elbow does (median; 99 % of
# poses less than 0.01 rad).
BENT = 0.01


def planes(arm: Arm, T: Numbers, q6: float, vectors: Numbers) -> int:
    """
    Fill `vectors` (4, 3) with the planes in which the elbow would have to reach T (4, 4).

    For each the row of its branch with elbow up, and the vector from frame 1 to frame 3 in
    that plane [m]. Returns their number.

    """
    t, sines, cosines, found = [0.0] * 16, [0.0] * 24, [0.0] * 24, [0] * 8
    read_pose(T, 4, t)
    _planes(arm, t, q6, sines, cosines, found)
    count = 0
    for k in range(8):
        if found[k]:
            at = _place(k)
            vectors[count, 0] = k
            vectors[count, 1], vectors[count, 2] = cosines[at + 2], sines[at + 2]
            count += 1
    return count


def solve(arm: Arm, t: list[float], q6: float, rows: list[float], found: list[int]) -> None:
    """Fill eight rows of joints, NaN where there is no solution, and which there are."""
    sines, cosines, angles = [0.0] * 24, [0.0] * 24, [0.0] * 24
    for k in range(8):
        found[k] = 0
    sides = _planes(arm, t, q6, sines, cosines, found)
    for k in range(8):
        if found[k] and not k & 2:
            at = _place(k)
            found[k] = _elbow(arm, -1.0 if k & 4 else 1.0, sines, cosines, at)
            found[k + 2] = found[k] and sines[at + 4] != 0.0
    angles_of(sines, cosines, 12 * sides, angles)
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
            rows[row + i] = wrapped(rows[row + i] - arm.offsets[i])


def _elbow(arm: Arm, sigma: float, sines: list[float], cosines: list[float], at: int) -> bool:
    """
    Fill in the triangle of a plane, with elbow up; False if there is none.

    Up, theta_3 has the sign of phi, `sigma`; its sine is 0 where both elbows are one.

    """
    u, v, a2, a3 = cosines[at + 2], sines[at + 2], arm.a2, arm.a3
    c3 = (u * u + v * v - (a2 * a2 + a3 * a3)) / (2.0 * a2 * a3)
    ss3 = (1.0 - c3) * (1.0 + c3)
    if not ss3 >= -DOUBLE_ROOT:  # NaN where squares overflow
        return False
    s3 = sigma * sqrt(ss3) if ss3 > DOUBLE_ROOT else 0.0
    sines[at + 3], cosines[at + 3] = a3 * s3, a2 + a3 * c3
    sines[at + 4], cosines[at + 4] = s3, c3
    return True


def _planes(
    arm: Arm, t: list[float], q6: float, sines: list[float], cosines: list[float], found: list[int]
) -> int:
    """
    Fill what remains for the elbow, a planar triangle for each shoulder and wrist.

    For the pose `t` (16,), sines and cosines (24,) hold 12 angles of each shoulder: theta_1,
    theta_5 of its first wrist; then five of each wrist's plane (see `_place`): theta_6,
    theta_234, the direction from frame 1 to frame 3 (times their distance [m]), and two that
    `_elbow` fills in, the angle at frame 1 between it and the upper arm, and theta_3. Sets
    those rows of `found` that have a plane and the elbow up. Returns the number of shoulders.

    """
    d4 = arm.d4
    x, y, z = t[3] - arm.d6 * t[2], t[7] - arm.d6 * t[6], t[11] - arm.d6 * t[10] - arm.d1
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
        found[4 * side + 1] = not _wrists(arm, t, x1, z, q6, sines, cosines, at)
        for plane in range(at + 2, at + 12, 5):
            cosines[plane + 2] = x1 - arm.d5 * sines[plane + 1]
            sines[plane + 2] = z + arm.d5 * cosines[plane + 1]
    return sides


def _wrists(
    arm: Arm,
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
        desired_theta6 = q6 + arm.offsets[5]
        s5, c6, s6 = 0.0, cos(desired_theta6), sin(desired_theta6)
    else:
        c6, s6 = s5c6 / s5, s5s6 / s5
    s234, c234 = -(s6 * nx + c6 * ox), s6 * t[8] + c6 * t[9]
    sines[at + 1], cosines[at + 1] = s5, c5
    sines[at + 2], cosines[at + 2], sines[at + 3], cosines[at + 3] = s6, c6, s234, c234
    sines[at + 7], cosines[at + 7], sines[at + 8], cosines[at + 8] = -s6, -c6, -s234, -c234
    if s5 < _NEARLY_SINGULAR:
        allowed = PI if free else WRIST_SINGULAR / s5
        bend = BENT if free else 0.0
        _turn(arm, sines, cosines, at + 2, c5 > 0.0, x1, z, allowed, bend)
        _turn(arm, sines, cosines, at + 7, c5 > 0.0, x1, z, allowed, bend)
    return free


def _turn(
    arm: Arm,
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
    s234, c234, d5 = sines[at + 1], cosines[at + 1], arm.d5
    rho = max(sqrt(x1 * x1 + z * z), 1e-12)  # at zero every swing is the same to the elbow
    sine, cosine = (x1 * s234 - z * c234) / rho, (x1 * c234 + z * s234) / rho
    sides = arm.a2 * arm.a2 + arm.a3 * arm.a3
    middle = (rho * rho + d5 * d5 - sides) / (2.0 * d5 * rho)
    half = fabs(arm.a2 * arm.a3 / (d5 * rho))
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


def _place(k: int) -> int:
    """Return where the five angles of the plane of row k are; see `_planes`."""
    return 12 * (k >> 2) + 2 + 5 * (k & 1)
