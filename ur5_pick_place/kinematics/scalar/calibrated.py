# SPDX-License-Identifier: Apache-2.0
"""Every solution of a calibrated arm, by Newton's method; see `inverse_calibrated`."""

from math import cos, fabs, remainder, sin, sqrt

from ur5_pick_place.kinematics.scalar.arm import Arm, fill_jacobian
from ur5_pick_place.kinematics.scalar.branch import branch_row, fill_distances
from ur5_pick_place.kinematics.scalar.constants import NAN, PI, TAU, TINY, WRIST_SINGULAR, Numbers
from ur5_pick_place.kinematics.scalar.equations import eliminate, substitute
from ur5_pick_place.kinematics.scalar.joints import angles_of, wrapped
from ur5_pick_place.kinematics.scalar.poses import log_rotation, read_pose

# Newton's method
_CONVERGED = 1e-12  # m and rad; one more step then reaches rounding error
_ROUNDING = 1e-15  # m and rad; a step that leaves less is the last
_REACH = 1.5  # m; no derivative of the pose with respect to the joints, of any order, is larger
# A step is corrected to second order where its square by the smallest pivot of J J^T is less than
# this: nearer to singularities, corrected steps would reach other solutions from some seeds.
_REGULAR = 0.1
_STEADY = 1e-3  # a correction by a smaller share leaves J good enough for the next step too
_ITERATIONS = 20
_LONGEST_STEP = 0.5  # rad
_DAMPING = 0.01

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
# As far as this from every singularity (see `fill_distances`), solutions are several _NEW apart.
_ALONE = 0.2


def solutions(arm: Arm, T: Numbers, q6: float, seed: Numbers | None, q: Numbers) -> int:
    """Fill q (MOST, 6) with every solution found of T (4, 4), and return their number."""
    t, joints, every = [0.0] * 16, [0.0] * 6, [0.0] * 96
    read_pose(T, 4, t)
    if seed is not None:
        for i in range(6):
            joints[i] = float(seed[i])
    count = _search(arm, t, q6, seed is not None, joints, every)
    for k in range(count):
        for i in range(6):
            q[k, i] = every[6 * k + i]
    return count


def solve_calibrated(
    arm: Arm,
    t: list[float],
    q6: float,
    has_seed: bool,
    seed: list[float],
    rows: list[float],
    found: list[int],
) -> None:
    """Fill rows as `solve`; of solutions on one branch that with theta_6 nearest to q6."""
    every, joints, nearest = [0.0] * 96, [0.0] * 6, [0.0] * 8
    for k in range(48):
        rows[k] = NAN
    for k in range(8):
        found[k], nearest[k] = 0, TAU
    count, desired = _search(arm, t, q6, has_seed, seed, every), remainder(q6, TAU)
    for solution in range(count):
        for i in range(6):
            joints[i] = every[6 * solution + i]
        k, off = branch_row(arm, joints), fabs(wrapped(joints[5] - desired))
        if off < nearest[k]:
            found[k], nearest[k] = 1, off
            for i in range(6):
                rows[6 * k + i] = joints[i]


def _search(
    arm: Arm, t: list[float], q6: float, has_seed: bool, seed: list[float], q: list[float]
) -> int:
    """
    Fill q (MOST, 6), flat, with the solutions of a pose t, and return their number.

    First from the seed, so that its solution is kept whatever else is found; then from the
    closed form, near a wrist singularity around the circle. Where that has not found one for
    each branch, or more may be near, from the closed form of the nominal arm's pose at each
    solution, twice.

    """
    shoulder, nominal, joints, distances = [0.0] * 12, [0.0] * 16, [0.0] * 6, [0.0] * 3
    count = _add(arm, t, seed, 0, q, 0) if has_seed else 0
    alone = count if count > 0 and fill_distances(arm, q, distances) > _ALONE else 0
    nearest = _FAR
    for side in range(2):
        distance = _shoulder(arm, t, side, shoulder)
        nearest = min(nearest, distance)
        count = _search_side(arm, t, shoulder, q6, 1 if distance < 1.0 else 8, q, alone, count)
    searched = count if count >= 8 and nearest >= _FAR else 0
    for _ in range(2):
        known = count
        for solution in range(searched, known):
            for i in range(6):
                joints[i] = q[6 * solution + i]
            arm.nominal_pose(joints, nominal)
            for side in range(2):
                _shoulder(arm, nominal, side, shoulder)
                count = _search_side(arm, t, shoulder, joints[5], 8, q, known, count)
        searched = known
    return count


def _search_side(
    arm: Arm,
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
        if _seeds(arm, shoulder, q6, turn, seeds):
            for at in range(0, 12, 6):
                if not _is_among(seeds, at, q, known, _NEW):
                    count = _add(arm, t, seeds, at, q, count)
    return count


def _shoulder(arm: Arm, t: list[float], side: int, shoulder: list[float]) -> float:
    """
    Fill for one shoulder at a pose `t`, or as near to it as theta_1 can get (12 numbers).

    sigma, cos and sin of theta_1, x1, z; axis 1 as the tool sees it, s5c6, s5s6, c5; n and o
    along the arm, and up. Returns sin(theta_5), divided by that below which the wrist of a
    calibrated arm may be singular.

    """
    d4, sigma = arm.d4, -1.0 if side else 1.0
    x, y, z = t[3] - arm.d6 * t[2], t[7] - arm.d6 * t[6], t[11] - arm.d6 * t[10] - arm.d1
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


def _seeds(arm: Arm, shoulder: list[float], q6: float, turn: int, seeds: list[float]) -> bool:
    """
    Fill joints (2, 6), flat, with which a nominal arm is at or near a pose, elbow up and down.

    theta_6 is its closed-form value plus a number of sixteenths of a turn; theta_5 is the
    value that fits it best. False where the elbow is far from reaching.

    """
    a2, a3, x1, z = arm.a2, arm.a3, shoulder[3], shoulder[4]
    sines, cosines, angles = [0.0] * 8, [0.0] * 8, [0.0] * 8
    s5c6, s5s6 = shoulder[5], shoulder[6]
    s5, desired = sqrt(s5c6 * s5c6 + s5s6 * s5s6), q6 + arm.offsets[5]
    if s5 <= WRIST_SINGULAR:
        c6, s6 = cos(desired), sin(desired)
    else:
        c6, s6 = s5c6 / s5, s5s6 / s5
    by = 0.125 * PI * turn
    c, s = cos(by), sin(by)
    c6, s6 = c6 * c - s6 * s, s6 * c + c6 * s
    s234 = -(s6 * shoulder[8] + c6 * shoulder[9])
    c234 = s6 * shoulder[10] + c6 * shoulder[11]
    unit = max(sqrt(s234 * s234 + c234 * c234), TINY)
    s234, c234 = s234 / unit, c234 / unit
    u, v = x1 - arm.d5 * s234, z + arm.d5 * c234
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
    angles_of(sines, cosines, 8, angles)
    for elbow in range(2):
        at, sign = 6 * elbow, 1.0 - 2.0 * elbow
        t2, t3 = angles[4] - sign * angles[5], sign * angles[6]
        seeds[at], seeds[at + 1], seeds[at + 2] = angles[0], t2, t3
        seeds[at + 3], seeds[at + 4] = angles[3] - t2 - t3, angles[1]
        seeds[at + 5] = angles[2]
        for i in range(6):
            seeds[at + i] = wrapped(seeds[at + i] - arm.offsets[i])
    return True


def _add(
    arm: Arm, t: list[float], seeds: list[float], at: int, q: list[float], count: int
) -> int:
    """Add to q (count, 6) what is reached from the seed at `at`, if new; return the count."""
    joints = [0.0] * 6
    for i in range(6):
        joints[i] = seeds[at + i]
    if _approach(arm, t, joints) < _RESIDUAL and count < MOST:
        for i in range(6):
            if fabs(joints[i]) > TAU:  # a caller's seed may be anywhere
                joints[i] = remainder(joints[i], TAU)
            joints[i] = wrapped(joints[i])
        if not _is_among(joints, 0, q, count, _SAME):
            for i in range(6):
                q[6 * count + i] = joints[i]
            count += 1
    return count


def _approach(arm: Arm, t: list[float], q: list[float]) -> float:
    """Move joints q (6,) to a pose t by Newton's method; return what they miss it by."""
    axes, f, J, A = [0.0] * 39, [0.0] * 12, [0.0] * 36, [0.0] * 42
    miss, dq = [0.0] * 6, [0.0] * 6
    off = before = left = 1.0
    for step in range(_ITERATIONS):
        arm.chain(q, axes, f)
        _miss(t, f, miss)
        before = off
        off = 0.0
        for i in range(6):
            off = max(off, fabs(miss[i]))
        if left <= _CONVERGED:
            _step_again(J, A, miss, dq)
            left = _ROUNDING
        elif step > 0 and before <= _CONVERGED:
            break
        else:
            fill_jacobian(axes, f, False, J)
            left = _damped_step(J, miss, A, dq)
            if left < 0.0:
                break
        for i in range(6):
            q[i] += dq[i]
        if left <= _ROUNDING:
            return _ROUNDING
    return off


def _is_among(joints: list[float], at: int, q: list[float], count: int, within: float) -> bool:
    """Return whether joints are within an angle [rad] of any of q (count, 6), modulo turns."""
    for k in range(count):
        same = True
        for i in range(6):
            if same:
                same = fabs(wrapped(joints[at + i] - q[6 * k + i])) < within
        if same:
            return True
    return False


def _miss(t: list[float], f: list[float], miss: list[float]) -> None:
    """Fill displacement and rotation vector (6,), in `base`, from the tool f to the pose t."""
    r, w = [0.0] * 9, [0.0] * 3
    for i in range(3):
        miss[i] = t[4 * i + 3] - f[9 + i]
        for k in range(3):
            r[3 * i + k] = t[4 * i] * f[k] + t[4 * i + 1] * f[3 + k] + t[4 * i + 2] * f[6 + k]
    log_rotation(r, w)
    for i in range(3):
        miss[3 + i] = w[i]


def _damped_step(J: list[float], miss: list[float], A: list[float], dq: list[float]) -> float:
    """
    Fill dq (6,) of J dq = miss, J by columns, damped so that it converges like Newton.

    Solves (J J^T + damping) y = miss, dq = J^T y, with A (6, 7) as `eliminate` leaves it. Returns
    a bound of what is left of `miss`, 1 where that is not known; -1 if J is singular.

    """
    damping = left = steepest = 0.0
    for i in range(6):
        damping += _DAMPING * miss[i] * miss[i]
    for i in range(6):
        for k in range(i, 6):
            entry = 0.0
            for j in range(6):
                entry += J[6 * j + i] * J[6 * j + k]
            A[7 * i + k] = entry
        A[8 * i] += damping
        A[7 * i + 6] = miss[i]
    if not eliminate(A):
        return -1.0
    length = _joint_step(J, A, dq)
    for i in range(6):
        left = max(left, damping * fabs(A[7 * i + 6]))
        steepest = max(steepest, A[8 * i])
    bent = 0.5 * _REACH * length * length
    if length > _LONGEST_STEP:
        largest = _LONGEST_STEP
        for j in range(6):
            largest = max(largest, fabs(dq[j]))
        for j in range(6):
            dq[j] *= _LONGEST_STEP / largest
    elif bent > _ROUNDING and length * length * steepest < _REGULAR:
        return _correct(J, A, damping, length, dq)
    return _ROUNDING if max(bent, left) <= _ROUNDING else 1.0


def _correct(
    J: list[float], A: list[float], damping: float, length: float, dq: list[float]
) -> float:
    """
    Correct dq (6,) of this length [rad] to second order, and for its damping: Chebyshev's method.

    Returns a bound of what is left, 1 where the correction is too large for one.

    """
    bend, correction, left = [0.0] * 6, [0.0] * 6, 0.0
    fill_bend(J, dq, bend)
    for i in range(6):
        bend[i] -= damping * A[7 * i + 6]
    further = _step_again(J, A, bend, correction)
    for i in range(6):
        dq[i] -= correction[i]
        left = max(left, damping * fabs(A[7 * i + 6]))
    if further > _STEADY * length:
        return 1.0
    return left + _REACH * length * (length * length / 6.0 + further)


def _step_again(J: list[float], A: list[float], miss: list[float], dq: list[float]) -> float:
    """Fill dq (6,) for another `miss`, from J and A of `_damped_step`; return its length [rad]."""
    for i in range(6):
        A[7 * i + 6] = miss[i]
    substitute(A)
    return _joint_step(J, A, dq)


def _joint_step(J: list[float], A: list[float], dq: list[float]) -> float:
    """Fill dq (6,) with J^T times column 6 of A (6, 7); return the sum of its angles [rad]."""
    length = 0.0
    for j in range(6):
        dq[j] = 0.0
        for i in range(6):
            dq[j] += J[6 * j + i] * A[7 * i + 6]
        length += fabs(dq[j])
    return length


def fill_bend(J: list[float], dq: list[float], bend: list[float]) -> None:
    """
    Fill by how much joint steps dq (6,) move and turn the tool beyond J dq, to second order (6,).

    J (6,) by columns in `base`. A joint turns those after it: the derivative of column j is
    z_i x J_j for i <= j, with respect to joint i. Turns z_i dq_i one after the other add up as by
    Baker, Campbell and Hausdorff, to half the sum of z_i x z_j dq_i dq_j, i < j.

    """
    turned = [0.0] * 3
    for k in range(6):
        bend[k] = 0.0
    for j in range(6):
        for k in range(3):
            turned[k] += 0.5 * dq[j] * J[6 * j + 3 + k]
        for at in range(0, 6, 3):
            x, y, z = J[6 * j + at], J[6 * j + at + 1], J[6 * j + at + 2]
            share = dq[j] if at == 0 else 0.5 * dq[j]
            bend[at] += share * (turned[1] * z - turned[2] * y)
            bend[at + 1] += share * (turned[2] * x - turned[0] * z)
            bend[at + 2] += share * (turned[0] * y - turned[1] * x)
        for k in range(3):
            turned[k] += 0.5 * dq[j] * J[6 * j + 3 + k]
