# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, infer_types=True, boundscheck=False, wraparound=False
# cython: initializedcheck=False, cdivision=True
"""
The kinematics of single configurations and poses, number by number; the only compiled module.

With what a closed loop computes from them in each cycle, and the samples of a trajectory.

Callers pass contiguous float64 arrays of the stated shapes: sizes are not checked here. A pose is
passed on as its first number; the others follow row by row. Angles of several solutions are
computed in loops without calls or branches, which the compiler vectorises.

References
----------
The UR5 IK note, for the closed form. Lynch and Park, Modern Robotics (2017), sections 3.2 and 3.3,
for log; chapter 5 for the Jacobian.
"""

cimport cython
from libc.math cimport (
    INFINITY, atan2, ceil, copysign, cos, fabs, floor, isfinite, remainder, rint, sin, sqrt
)

RIGID_TOLERANCE = 1e-6  # how far R^T R may be from the identity, entry by entry
MOST = 16  # largest number of solutions kept for one pose; no more than twelve were ever found

cdef double PI = 3.141592653589793
cdef double TAU = 6.283185307179586
cdef double NAN = float('nan')
cdef double TINY = 1e-300  # divides in the place of zero
cdef double SMALL_ANGLE = 1e-4  # rad; below it series replace quotients of the form 0/0

# Two roots merge into one where tan^2(phi) or sin^2(theta_3) is below DOUBLE_ROOT: rounding of the
# pose by 1e-15 m moves either by about 1e-14, and merging moves the tool by less than 2e-14 m.
cdef double DOUBLE_ROOT = 1e-13

# Below this |sin(theta_5)| theta_6 is free: any choice turns the tool by less than this [rad].
cdef double WRIST_SINGULAR = 1e-12


# ---- rotations and their logarithms

cdef double _SERIES_BELOW = 1e-4  # square of the sine of an angle


cpdef log_se3(const double[:, :, ::1] T, double[:, ::1] twists):
    """Fill twists (n, 6) [m, rad] with the logarithms of T (n, 4, 4), linear part first."""
    cdef double[9] r = [0.0] * 9
    cdef double[3] p = [0.0] * 3
    cdef int i, k
    cdef Py_ssize_t pose
    for pose in range(len(T)):
        for i in range(3):
            p[i] = T[pose, i, 3]
            for k in range(3):
                r[3 * i + k] = T[pose, i, k]
        log_rotation(r, &twists[pose, 3])
        _linear_part_of_log(&twists[pose, 3], p, &twists[pose, 0])


cpdef log_so3(const double[:, :, ::1] R, double[:, ::1] rotvecs):
    """Fill rotation vectors (n, 3) [rad], of length up to pi, of rotations R (n, 3, 3)."""
    cdef Py_ssize_t rotation
    for rotation in range(len(R)):
        log_rotation(&R[rotation, 0, 0], &rotvecs[rotation, 0])


cpdef quaternions(const double[:, :, ::1] R, double[:, ::1] quats):
    """Fill unit quaternions (n, 4) x, y, z, w, with w >= 0, of rotations R (n, 3, 3)."""
    cdef double* quat
    cdef int k
    cdef Py_ssize_t rotation
    for rotation in range(len(R)):
        quat = &quats[rotation, 0]
        fill_quaternion(&R[rotation, 0, 0], quat)
        n = copysign(_norm4(quat), quat[3])
        for k in range(4):
            quat[k] /= n


cpdef bint rotations(const double[:, ::1] quats, double[:, :, ::1] R):
    """
    Fill rotations R (n, 3, 3) of quaternions (n, 4) x, y, z, w of any length.

    False if one is zero or not finite.
    """
    cdef Py_ssize_t row
    for row in range(len(quats)):
        if not _rotate(&quats[row, 0], &R[row, 0, 0], &R[row, 1, 0], &R[row, 2, 0]):
            return False
    return True


cpdef bint pose(
    double px, double py, double pz, double x, double y, double z, double w, double[:, ::1] T
):
    """Fill T (4, 4) with a position and the rotation of a quaternion; False as `rotations`."""
    cdef double[4] quat = [x, y, z, w]
    T[0, 3], T[1, 3], T[2, 3] = px, py, pz
    T[3, 0], T[3, 1], T[3, 2], T[3, 3] = 0.0, 0.0, 0.0, 1.0
    return _rotate(quat, &T[0, 0], &T[1, 0], &T[2, 0])


cdef bint _rotate(const double* quat, double* a, double* b, double* c) noexcept:
    """Fill the three rows of a quaternion's rotation; False if it is zero or not finite."""
    n = _norm4(quat)
    if not (n > 0.0 and isfinite(n)):
        return False
    x, y, z, w = quat[0] / n, quat[1] / n, quat[2] / n, quat[3] / n
    a[0], b[1] = 1.0 - 2.0 * (y * y + z * z), 1.0 - 2.0 * (x * x + z * z)
    c[2] = 1.0 - 2.0 * (x * x + y * y)
    a[1], b[0] = 2.0 * (x * y - w * z), 2.0 * (x * y + w * z)
    a[2], c[0] = 2.0 * (x * z + w * y), 2.0 * (x * z - w * y)
    b[2], c[1] = 2.0 * (y * z - w * x), 2.0 * (y * z + w * x)
    return True


cdef double _norm4(const double* quat) noexcept:
    """Return the length of four numbers."""
    return sqrt(quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3])


cpdef body_error(const double[:, ::1] T, const double[:, ::1] T_goal, double[::1] error):
    """Fill error (6,) with R^T (p - p_goal) [m] and log(R_goal^T R) [rad] of poses (4, 4)."""
    fill_body_error(&T[0, 0], &T_goal[0, 0], &error[0])


cdef void fill_error_twist(const double* t, const double* goal, double* twist) noexcept:
    """Fill the error of a pose in SE(3), log(T_goal^-1 T)."""
    cdef double[9] r = [0.0] * 9
    cdef double[3] p = [0.0] * 3
    cdef double g
    cdef int i, j, k
    for i in range(3):
        for j in range(3):
            g = goal[4 * j + i]
            p[i] += g * (t[4 * j + 3] - goal[4 * j + 3])
            for k in range(3):
                r[3 * i + k] += g * t[4 * j + k]
    log_rotation(r, &twist[3])
    _linear_part_of_log(&twist[3], p, twist)


cdef void fill_body_error(const double* t, const double* goal, double* error) noexcept:
    """Fill the body error of a pose."""
    cdef double[9] r = [0.0] * 9
    cdef double g
    cdef int i, j, k
    for i in range(3):
        error[i] = 0.0
        for j in range(3):
            error[i] += t[4 * j + i] * (t[4 * j + 3] - goal[4 * j + 3])
            g = goal[4 * j + i]
            for k in range(3):
                r[3 * i + k] += g * t[4 * j + k]
    log_rotation(r, &error[3])


cdef void log_rotation(const double* r, double* w) noexcept:
    """
    Fill the rotation vector w [rad], of length up to pi, of a rotation r (9,).

    Near 0 by the series of the arcsine, to its last digit. Elsewhere by the unit quaternion, so
    that it is exact near pi; at pi either axis is correct.
    """
    cdef double[4] quat = [0.0] * 4
    cdef int k
    w[0], w[1], w[2] = 0.5 * (r[7] - r[5]), 0.5 * (r[2] - r[6]), 0.5 * (r[3] - r[1])
    square = w[0] * w[0] + w[1] * w[1] + w[2] * w[2]
    if square < _SERIES_BELOW and r[0] + r[4] + r[8] > 0.0:
        stretch = 1.0 + square * (1.0 / 6.0 + square * (3.0 / 40.0 + square * (15.0 / 336.0)))
        for k in range(3):
            w[k] *= stretch
        return
    fill_quaternion(r, quat)
    n = norm3(quat)
    sign = -1.0 if quat[3] < 0.0 else 1.0
    w4 = fabs(quat[3])
    stretch = 2.0 * atan2(n, w4) / n
    for k in range(3):
        w[k] = sign * stretch * quat[k]


cdef void fill_quaternion(const double* r, double* quat) noexcept:
    """
    Fill a quaternion x, y, z, w (4,), of any length and sign, of a rotation r (9,).

    Row k is 4 q_k q; that of the largest |q_k| loses no digits.
    """
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


cdef void _linear_part_of_log(double* w, double* p, double* v) noexcept:
    """Fill v with the linear part of log(T), from its rotation vector w and displacement p."""
    t = norm3(w)
    if t < SMALL_ANGLE:
        D = 1.0 / 12.0 + t * t / 720.0
    else:
        h = 0.5 * t
        D = (1.0 - h * cos(h) / sin(h)) / (t * t)
    x, y, z = w[1] * p[2] - w[2] * p[1], w[2] * p[0] - w[0] * p[2], w[0] * p[1] - w[1] * p[0]
    v[0] = p[0] - 0.5 * x + D * (w[1] * z - w[2] * y)
    v[1] = p[1] - 0.5 * y + D * (w[2] * x - w[0] * z)
    v[2] = p[2] - 0.5 * z + D * (w[0] * y - w[1] * x)


cdef bint is_rigid(const double* t) noexcept:
    """Return whether 16 entries, row by row, are a rigid motion; see `transforms.check_rigid`."""
    e = 1e-6  # RIGID_TOLERANCE
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


cpdef Py_ssize_t first_not_rigid(const double[:, :, ::1] T):
    """Return the first row of poses T (n, 4, 4) that is no rigid motion; -1 if all are."""
    cdef Py_ssize_t row
    for row in range(len(T)):
        if not is_rigid(&T[row, 0, 0]):
            return row
    return -1


cdef double norm3(const double* v) noexcept:
    """Return the length of three numbers."""
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


# ---- angles

cdef double _TAN_22_5_DEG = 0.41421356237309503
cdef double _BELOW_PI = 3.9e-17  # by this share PI is less than pi


cdef void angles_of(double* sines, double* cosines, int count, double* angles) noexcept:
    """
    Fill angles (count,) [rad] with atan2 of sines and cosines, which may have any common factor.

    Without calls and branches, so that the compiler vectorises it. The quotient t is
    the tangent of the angle to the nearest multiple of 45 degrees; the polynomial in t^2 is that
    of (arctan(t) / t - 1) / t^2 at Chebyshev's points, within 1.5e-17.
    """
    cdef int k
    cdef bint is_middle, is_behind
    for k in range(count):
        y, x = fabs(sines[k]), fabs(cosines[k])
        low, high = y if y < x else x, x if y < x else y
        is_middle = low > _TAN_22_5_DEG * high
        over, under = low - high if is_middle else low, low + high if is_middle else high
        t = over / (under if under > TINY else TINY)
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


cdef double wrapped(double angle) noexcept:
    """Return an angle within ±5 pi [rad] wrapped to (-pi, pi]."""
    angle -= TAU if angle > PI else 0.0
    angle -= TAU if angle > PI else 0.0
    angle += TAU if angle <= -PI else 0.0
    angle += TAU if angle <= -PI else 0.0
    return angle


cpdef turn(
    double[:, ::1] q, const double[::1] near, const double[::1] low, const double[::1] high,
    double[::1] distances
):
    """
    Turn joints q (n, 6) by whole turns to be nearest to joints near (6,) within bounds [rad].

    Fills distances (n,) with their largest joint differences; infinite if one has no such turn.
    """
    cdef Py_ssize_t row
    for row in range(len(q)):
        distances[row] = _turn_near(&q[row, 0], &near[0], &low[0], &high[0])


cdef double _turn_near(
    double* q, const double* near, const double* low, const double* high
) noexcept:
    """Turn joints q (6,) as `turn`, and return their distance."""
    cdef double largest = 0.0
    cdef int i
    for i in range(6):
        turns = max(rint((near[i] - q[i]) / TAU), ceil((low[i] - q[i]) / TAU))
        q[i] += TAU * min(turns, floor((high[i] - q[i]) / TAU))
        distance = fabs(q[i] - near[i]) if low[i] <= q[i] <= high[i] else INFINITY
        largest = max(largest, distance)
    return largest


# ---- equations

cdef int _SWEEPS = 30  # of Jacobi's method; it takes 4 to 7
cdef double _ORTHOGONAL = 1e-15  # cosine of the angle of two columns


cdef double determinant(double* A) noexcept:
    """Return the determinant of A (6, 6), and overwrite A; by Gauss with pivots."""
    cdef double det, share
    cdef int pivot, i, k, row
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


cdef bint eliminate(double* A) noexcept:
    """
    Solve six equations, A (6, 7) by rows; column 6 becomes the solution.

    The matrix is symmetric and positive definite: entries below its diagonal are not read, and no
    pivoting is needed. False if it is singular.
    """
    cdef double entry
    cdef int i, j, k
    for i in range(6):
        for k in range(i, 7):
            entry = A[7 * i + k]
            for j in range(i):
                entry -= A[7 * i + j] * A[7 * j + k]
            A[7 * i + k] = entry
        if not A[8 * i] > 0.0:
            return False
        A[8 * i] = 1.0 / A[8 * i]
        for k in range(i + 1, 6):
            A[7 * k + i] = A[7 * i + k] * A[8 * i]
    for i in range(5, -1, -1):
        entry = A[7 * i + 6] * A[8 * i]
        for k in range(5, i, -1):
            entry -= A[7 * k + i] * A[7 * k + 6]
        A[7 * i + 6] = entry
    return True


cdef void orthogonalise(double* J, double* V) noexcept:
    """
    Turn the six columns of J (36,), one after the other, until they are orthogonal.

    Fills V (36,), by columns, with the rotation that does it. The lengths of the columns are then
    the singular values: one-sided Jacobi's method, which keeps small ones exact.
    """
    cdef double aa, ab, bb, z, t, c, s
    cdef int a, b, k, _
    cdef bint is_done
    for k in range(36):
        V[k] = 1.0 if k % 7 == 0 else 0.0
    for _ in range(_SWEEPS):
        is_done = True
        for a in range(0, 30, 6):
            for b in range(a + 6, 36, 6):
                aa = ab = bb = 0.0
                for k in range(6):
                    aa += J[a + k] * J[a + k]
                    ab += J[a + k] * J[b + k]
                    bb += J[b + k] * J[b + k]
                if fabs(ab) <= _ORTHOGONAL * sqrt(aa * bb):
                    continue
                is_done = False
                z = 0.5 * (bb - aa) / ab
                t = copysign(1.0 / (fabs(z) + sqrt(1.0 + z * z)), z)
                c = 1.0 / sqrt(1.0 + t * t)
                s = c * t
                for k in range(6):
                    J[a + k], J[b + k] = c * J[a + k] - s * J[b + k], s * J[a + k] + c * J[b + k]
                    V[a + k], V[b + k] = c * V[a + k] - s * V[b + k], s * V[a + k] + c * V[b + k]
        if is_done:
            return


# ---- changes of velocity

cpdef int fewest_cycles(
    const double[:, ::1] start, const double[::1] velocity, const double[::1] qdd,
    const double[::1] qddd, double cycle, int most
):
    """
    Return in how many cycles [s] joints change their velocity by a cubic; `most` at most.

    From q, qd and qdd, start (3, 6), to a velocity (6,) and no acceleration, within the limits of
    acceleration qdd and jerk qddd (6,). The jerk is linear in time, so that it is largest at an
    end. The tolerances let a change found before be found again from rounded states.
    """
    cdef double least = 0.0
    cdef int cycles, j
    for j in range(6):  # the mean acceleration alone takes so long
        least = max(least, fabs(velocity[j] - start[1, j]) / (1.001 * qdd[j]))
    for cycles in range(min(max(int(least / cycle), 1), most), most):
        for j in range(6):
            if not _fits(
                start[2, j], velocity[j] - start[1, j], cycle * cycles, 1.001 * qdd[j],
                1.001 * qddd[j] + 1e-9
            ):
                break
        else:
            return cycles
    return most


cdef bint _fits(double a0, double dv, double duration, double qdd, double qddd) noexcept:
    """Return whether a change by dv from acceleration a0 keeps the limits of one joint."""
    cdef double mean = 6.0 * dv / duration, first, last
    first, last = mean - 4.0 * a0, 2.0 * a0 - mean  # jerk at both ends, times the duration
    if max(fabs(first), fabs(last)) > duration * qddd:
        return False
    # Else the acceleration has its peak between them.
    return first * last >= 0.0 or fabs(a0 - first * first / (2.0 * (last - first))) <= qdd


cpdef fill_change(
    const double[:, ::1] start, const double[::1] velocity, double cycle, double[:, :, ::1] states
):
    """Fill the states (n + 1, 3, 6) after each cycle [s] of such a change in n cycles."""
    cdef Py_ssize_t last = len(states) - 1, k
    cdef double T = cycle * last, u, faster, ahead, pull
    cdef int j
    for k in range(last + 1):
        u = (<double>k) / last
        faster = u * u * (3.0 - 2.0 * u)  # fraction of the change of velocity
        ahead = T * u * u * u * (1.0 - u / 2.0)  # its integral
        pull = 6.0 * u * (1.0 - u) / T  # its derivative
        for j in range(6):
            q, qd, qdd = start[0, j], start[1, j], start[2, j]
            states[k, 0, j] = q + (T * u - ahead) * qd + ahead * velocity[j] + (
                T * T * u * u * (0.5 + u * (u / 4.0 - 2.0 / 3.0)) * qdd
            )
            states[k, 1, j] = qd + faster * (velocity[j] - qd) + T * u * (1.0 - u) * (1.0 - u) * qdd
            states[k, 2, j] = pull * (velocity[j] - qd) + (1.0 - u) * (1.0 - 3.0 * u) * qdd


cdef double _SHORTEST = 1e-9  # rad^2, of a chord squared; a shorter one counts as that long
cdef double _BEYOND = 1e-9  # share of a chord by which rounding may pass its ends


cpdef bint keeps_chord(const double[:, :, ::1] states, double within):
    """Return whether states (n, 3, 6) go from first to last within a distance [rad] of a line."""
    cdef double[6] way = [0.0] * 6
    cdef double square = 0.0, along
    cdef Py_ssize_t last = len(states) - 1, k
    cdef int j
    for j in range(6):
        way[j] = states[last, 0, j] - states[0, 0, j]
        square += way[j] * way[j]
    square = max(square, _SHORTEST)
    for k in range(last + 1):
        along = 0.0
        for j in range(6):
            along += (states[k, 0, j] - states[0, 0, j]) * way[j] / square
        if fabs(along - 0.5) > 0.5 + _BEYOND:
            return False
        for j in range(6):
            if fabs(states[k, 0, j] - states[0, 0, j] - along * way[j]) > within:
                return False
    return True


cpdef sample_quintics(
    const double[::1] knots, const double[:, :, ::1] c, const double[::1] times,
    double[:, :, ::1] motion
):
    """
    Fill motion (4, m, 6) with q, qd, qdd and jerk at times (m,) [s], clipped to the knots (n,).

    Of each segment and joint c (6, n - 1, 6) holds the quintic, lowest power first.
    """
    cdef Py_ssize_t last = len(knots) - 2, i = 0, low, high, row
    cdef double t, u
    cdef int j
    for row in range(len(times)):
        t = min(max(times[row], 0.0), knots[last + 1])
        if not (knots[i] <= t and (i == last or t < knots[i + 1])):  # as it nearly always is
            low, high = 0, last
            while low < high:
                i = (low + high + 1) // 2
                if knots[i] <= t:
                    low = i
                else:
                    high = i - 1
            i = low
        u = t - knots[i]
        for j in range(6):
            c1, c2, c3, c4, c5 = c[1, i, j], c[2, i, j], c[3, i, j], c[4, i, j], c[5, i, j]
            motion[0, row, j] = c[0, i, j] + u * (c1 + u * (c2 + u * (c3 + u * (c4 + u * c5))))
            motion[1, row, j] = c1 + u * (2 * c2 + u * (3 * c3 + u * (4 * c4 + u * 5 * c5)))
            motion[2, row, j] = 2 * c2 + u * (6 * c3 + u * (12 * c4 + u * 20 * c5))
            motion[3, row, j] = 6 * c3 + u * (24 * c4 + u * 60 * c5)


cpdef bint are_within(const double[:, :] q, const double[::1] low, const double[::1] high):
    """Return whether joints q (n, 6) lie within bounds (6,) [rad]."""
    cdef Py_ssize_t row
    cdef int j
    for row in range(len(q)):
        for j in range(6):
            if not low[j] <= q[row, j] <= high[j]:
                return False
    return True


cpdef int nearest_row(const double[:, ::1] q, const double[::1] at, double equally_near):
    """
    Return the first row of joints q (n, 6) that is about as near to others (6,) as the nearest.

    The distance is that of the farthest joint [rad]; it may be larger by `equally_near`.
    """
    cdef double nearest = INFINITY
    cdef Py_ssize_t row
    for row in range(len(q)):
        nearest = min(nearest, _farthest(&q[row, 0], &at[0]))
    for row in range(len(q)):
        if _farthest(&q[row, 0], &at[0]) <= nearest + equally_near:
            return row
    return 0


cdef double _farthest(const double* a, const double* b) noexcept:
    cdef double away = 0.0
    cdef int j
    for j in range(6):
        away = max(away, fabs(a[j] - b[j]))
    return away


# ---- arm

@cython.final
cdef class Arm:
    """
    The geometry of one arm as plain numbers.

    `lengths`: a2, a3, d1, d4, d5, d6 [m]. `rows`: for each joint a, d [m], cos(alpha), sin(alpha),
    offset [rad]. `mounts`: for each joint the 16 entries of its mount, row by row; empty for a
    nominal arm.
    """

    cdef double a2, a3, d1, d4, d5, d6
    cdef double[30] rows
    cdef double[6] offsets
    cdef double[72] nominal, steps
    cdef bint is_calibrated

    def __init__(self, lengths, rows, mounts):
        self.a2, self.a3, self.d1, self.d4, self.d5, self.d6 = lengths
        self.rows, self.offsets = list(rows), list(rows[4::5])
        self.is_calibrated = len(mounts) > 0
        self.nominal, self.steps = [0.0] * 72, [0.0] * 72
        for i in range(6):
            mount = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, rows[5 * i + 1]]
            self._fill_step(i, mount, self.nominal)
            if self.is_calibrated:
                mount = list(mounts[16 * i : 16 * i + 12])
            self._fill_step(i, mount, self.steps)

    cdef _fill_step(self, int i, mount, double* steps):
        """
        Fill three rows of four entries: from the frame that the joint before turns to joint i.

        That is the rest of the link between them, of the DH table, and the mount of joint i on it
        (3, 4), row by row.
        """
        cdef double a, ca, sa, x, y, z
        cdef int k
        a, ca, sa = 0.0, 1.0, 0.0
        if i > 0:
            a, ca, sa = self.rows[5 * i - 5], self.rows[5 * i - 3], self.rows[5 * i - 2]
        for k in range(4):
            x, y, z = mount[k], mount[4 + k], mount[8 + k]
            steps[12 * i + k] = x + a if k == 3 else x
            steps[12 * i + 4 + k] = ca * y - sa * z
            steps[12 * i + 8 + k] = sa * y + ca * z

    cpdef forward(self, const double[:, ::1] q, double[:, :, ::1] T):
        """Fill T (n, 4, 4) with T_base_tool [m] of joints q (n, 6) [rad]."""
        cdef Py_ssize_t row
        for row in range(len(q)):
            self.pose(self.steps, &q[row, 0], &T[row, 0, 0])
            T[row, 3, 0] = T[row, 3, 1] = T[row, 3, 2] = 0.0
            T[row, 3, 3] = 1.0

    cpdef link_frames(self, const double[:, ::1] q, double[:, :, :, ::1] T):
        """Fill T (n, 7, 4, 4) with every frame [m] at joints q (n, 6) [rad], `base` first."""
        cdef double[6] sines = [0.0] * 6, cosines = [0.0] * 6
        cdef double[4] r = [0.0] * 4
        cdef Py_ssize_t row
        cdef int frame, i, k
        for row in range(len(q)):
            self._sines(&q[row, 0], sines, cosines)
            for k in range(4):
                for i in range(4):
                    r[i] = T[row, 0, k, i] = 1.0 if i == k else 0.0
                for frame in range(6):
                    _to_axis(self.steps, frame, r)
                    _turn_row(sines[frame], cosines[frame], r)
                    self._end_link(frame, r, &T[row, frame + 1, k, 0])

    cpdef jacobian(self, const double[:, ::1] q, bint in_tool, double[:, :, ::1] J):
        """Fill J (n, 6, 6) [m, rad per rad] at joints q (n, 6), in axes of the tool or `base`."""
        cdef double[39] axes = [0.0] * 39
        cdef double[12] f = [0.0] * 12
        cdef double[36] columns = [0.0] * 36
        cdef Py_ssize_t row
        cdef int i, k
        for row in range(len(q)):
            self.chain(self.steps, &q[row, 0], axes, f)
            fill_jacobian(axes, f, in_tool, columns)
            for i in range(6):
                for k in range(6):
                    J[row, k, i] = columns[6 * i + k]

    cpdef speeds(
        self, const double[:, ::1] q, const double[:, ::1] qd, const double[::1] p_tool_tcp,
        double[:, ::1] speed
    ):
        """
        Fill speed (n, 2) [m/s] with those of the TCP and of the elbow, the origin of frame 2.

        Joints q (n, 6) [rad], their velocities qd (n, 6) [rad/s], the TCP in the tool (3,) [m].
        """
        cdef double[39] axes = [0.0] * 39
        cdef double[12] f = [0.0] * 12
        cdef double[3] v_tcp, v_elbow, tcp
        cdef Py_ssize_t row
        cdef int i, j, k
        for row in range(len(q)):
            self.chain(self.steps, &q[row, 0], axes, f)
            tcp, v_tcp, v_elbow = [f[9], f[10], f[11]], [0.0] * 3, [0.0] * 3
            for k in range(3):
                for j in range(3):
                    tcp[k] += f[3 * j + k] * p_tool_tcp[j]
            for i in range(6):
                _add_turn(axes, i, qd[row, i], tcp, v_tcp)
                if i < 2:
                    _add_turn(axes, i, qd[row, i], &axes[36], v_elbow)
            speed[row, 0], speed[row, 1] = norm3(v_tcp), norm3(v_elbow)

    cpdef resolve(
        self, const double[::1] q, const double[:, ::1] T_goal, double length,
        double damped_below, double damping, double[::1] step
    ):
        """
        Fill step (6,) [rad] with which the twist of the tool's error becomes 0, if it were linear.

        From joints q (6,) [rad] to T_goal (4, 4), a radian of the twist counting `length` metres.
        Directions with a singular value below `damped_below` [m] are damped, by up to `damping` [m].
        """
        cdef double[12] t = [0.0] * 12
        cdef double[36] J = [0.0] * 36, V = [0.0] * 36
        cdef double[6] xi = [0.0] * 6
        cdef double along, square, weight
        cdef int i, k
        self._tool_and_jacobian(&q[0], t, J)
        fill_error_twist(t, &T_goal[0, 0], xi)
        for i in range(6):
            step[i] = 0.0
            for k in range(3, 6):
                J[6 * i + k] *= length
        for k in range(3, 6):
            xi[k] *= length
        orthogonalise(J, V)
        for i in range(6):
            square, along = 0.0, 0.0
            for k in range(6):
                square += J[6 * i + k] * J[6 * i + k]
                along += J[6 * i + k] * xi[k]
            weight = square + damping * damping * max(
                1.0 - square / (damped_below * damped_below), 0.0
            )
            for k in range(6):
                step[k] -= V[6 * i + k] * along / weight

    cpdef descend(
        self, const double[::1] q, const double[:, ::1] T_goal, const double[:, ::1] root,
        double largest, int halvings, double[::1] step
    ):
        """
        Fill step (6,) [rad] down the gradient of the tool's error; see `control.loops.laws`.

        From joints q (6,) [rad] to T_goal (4, 4), weighted by the root (6, 6). It is bounded to
        `largest` / sigma_max^2, and halved until it falls enough; 0 at a stationary point, or
        after so many halvings.
        """
        cdef double[12] t = [0.0] * 12
        cdef double[36] J = [0.0] * 36, V = [0.0] * 36
        cdef double[6] e = [0.0] * 6, d = [0.0] * 6, bent = [0.0] * 6, joints = [0.0] * 6
        cdef double value, slope = 0.0, bend = 0.0, strongest = 0.0, square, a
        cdef int i, k, _
        self._tool_and_jacobian(&q[0], t, J)
        fill_body_error(t, &T_goal[0, 0], e)
        value = _weigh(root, e)
        for i in range(6):
            step[i] = 0.0
            _weigh(root, J + 6 * i)
            for k in range(6):
                d[i] += J[6 * i + k] * e[k]
            slope += d[i] * d[i]
            for k in range(6):
                bent[k] += J[6 * i + k] * d[i]
        for k in range(6):
            bend += bent[k] * bent[k]
        if slope == 0.0 or bend == 0.0:
            return
        orthogonalise(J, V)
        for i in range(6):
            square = 0.0
            for k in range(6):
                square += J[6 * i + k] * J[6 * i + k]
            strongest = max(strongest, square)
        a = min(slope / bend, largest / strongest)
        for _ in range(halvings):
            for i in range(6):
                joints[i] = q[i] - a * d[i]
            self.pose(self.steps, joints, t)
            fill_body_error(t, &T_goal[0, 0], e)
            if _weigh(root, e) <= value - a * slope / 2.0:
                for i in range(6):
                    step[i] = -a * d[i]
                return
            a /= 2.0

    cdef void _tool_and_jacobian(self, const double* q, double* t, double* J) noexcept:
        """Fill the tool's pose, three rows, and its body Jacobian, by columns, at joints (6,)."""
        cdef double[39] axes = [0.0] * 39
        cdef double[12] f = [0.0] * 12
        self.chain(self.steps, q, axes, f)
        fill_jacobian(axes, f, True, J)
        _rows_of(f, t)

    cdef void pose(self, const double* steps, const double* q, double* t) noexcept:
        """Fill t (12,), row by row, with the tool's pose at joints q (6,), by steps as `chain`."""
        cdef double[39] axes = [0.0] * 39
        cdef double[12] f = [0.0] * 12
        self.chain(steps, q, axes, f)
        _rows_of(f, t)

    cdef void chain(
        self, const double* steps, const double* q, double* axes, double* f
    ) noexcept:
        """
        Follow the chain of frames at joints q (6,), by `steps` of this arm or of the nominal one.

        Fills `axes` with 6 numbers a joint, direction and a point of its axis, and the origin of
        frame 2, the elbow's centre; and `f` with the tool: x, y, z, and its origin. Each row of a
        frame is multiplied on its own.
        """
        cdef double[6] sines = [0.0] * 6, cosines = [0.0] * 6
        cdef double[4] r = [0.0] * 4, end = [0.0] * 4
        cdef int i, k
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

    cdef void _sines(self, const double* q, double* sines, double* cosines) noexcept:
        """Fill sines and cosines (6,) of the angles of the DH table at joints q (6,)."""
        cdef int i
        for i in range(6):
            sines[i], cosines[i] = sin(q[i] + self.offsets[i]), cos(q[i] + self.offsets[i])

    cdef void _end_link(self, int i, const double* r, double* end) noexcept:
        """Fill a row (4,) of the frame after joint i, from that of the frame that it turns."""
        a, ca, sa = self.rows[5 * i], self.rows[5 * i + 2], self.rows[5 * i + 3]
        end[0], end[1] = r[0], ca * r[1] + sa * r[2]
        end[2], end[3] = ca * r[2] - sa * r[1], r[3] + a * r[0]


cdef void _to_axis(const double* steps, int i, double* r) noexcept:
    """Move a frame by step i; one of its rows, r (4,)."""
    cdef int at, j
    x, y, z = r[0], r[1], r[2]
    for j in range(4):
        at = 12 * i + j
        moved = x * steps[at] + y * steps[at + 4] + z * steps[at + 8]
        r[j] = moved + r[3] if j == 3 else moved


cdef void _rows_of(const double* f, double* t) noexcept:
    """Fill three rows of a pose, t (12,), from its columns, f (12,)."""
    cdef int i, k
    for i in range(3):
        for k in range(4):
            t[4 * i + k] = f[3 * k + i]


cdef void _turn_row(double s, double c, double* r) noexcept:
    """Turn a frame about its z by an angle of sine s and cosine c; one of its rows, r (4,)."""
    x, y = r[0], r[1]
    r[0], r[1] = c * x + s * y, c * y - s * x


cdef void fill_jacobian(double* axes, double* f, bint in_tool, double* columns) noexcept:
    """Fill six columns (z x (p_tool - p_axis), z), in the axes of the tool `f` or of `base`."""
    cdef double[3] v = [0.0] * 3
    cdef int i, k
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


cdef void _add_turn(double* axes, int i, double rate, double* p, double* v) noexcept:
    """Add to v the velocity of point p while joint i turns at a rate [rad/s]."""
    zx, zy, zz = axes[6 * i], axes[6 * i + 1], axes[6 * i + 2]
    x, y, z = p[0] - axes[6 * i + 3], p[1] - axes[6 * i + 4], p[2] - axes[6 * i + 5]
    v[0] += rate * (zy * z - zz * y)
    v[1] += rate * (zz * x - zx * z)
    v[2] += rate * (zx * y - zy * x)


cdef double _weigh(const double[:, ::1] root, double* e) noexcept:
    """Multiply e (6,) by a matrix (6, 6), and return the square of its length."""
    cdef double[6] given = [0.0] * 6
    cdef double square = 0.0
    cdef int i, k
    for i in range(6):
        given[i], e[i] = e[i], 0.0
    for i in range(6):
        for k in range(6):
            e[i] += root[i, k] * given[k]
        square += e[i] * e[i]
    return square


# ---- the inverse of a nominal arm in closed form
#
# With n, o, a the axes of the tool and p its origin, all in `base`:
#
# theta_1    Frame 5, at p - d6 a, lies d4 beside the plane in which the arm bends. Where it is
#            nearer to axis 1 than that there is no such plane: the unreachable cylinder.
# theta_5,   from axis 1 as the tool sees it, (s5 c6, -s5 s6, c5): sine and cosine both, so that
# theta_6    no digit is lost near 0 and pi. Where s5 = 0, theta_6 is free.
# theta_234  The sum of theta_2, theta_3 and theta_4: how z of frame 4 stands in the arm's plane.
# theta_3,   from the triangle of upper arm, forearm, and the vector from frame 1 to frame 3.
# theta_2    theta_4 is the rest of the sum.
#
# No sine or cosine of a computed angle is taken: each step gives those of its angle, and
# `angles_of` takes the angles of all solutions from them at the end. Equations 5 (theta_1), 6
# (theta_5) and 15 (theta_3) of the note carry the three signs.

# Below this |sin(theta_5)|, theta_6 may be turned as long as that turns the tool by at most
# WRIST_SINGULAR: rounding of the pose, divided by sin(theta_5), may have put a stretched elbow
# just out of reach.
cdef double _NEARLY_SINGULAR = 0.05
# Where theta_6 is free and the elbow cannot reach with the desired one, theta_6 is turned until
# theta_3 is this far from 0 or pi [rad], or as far as it gets: both elbows then exist, and an arm
# that came to rest a little off is still on its branch. As theta_3 grows with the square root of
# the turn, that takes only 1e-4 rad more of theta_6 than a stretched elbow does (median; 99 % of
# poses less than 0.01 rad).
cdef double BENT = 0.01


cpdef int planes(Arm arm, const double[:, ::1] T, double q6, double[:, ::1] vectors):
    """
    Fill `vectors` (4, 3) with the planes in which the elbow would have to reach T (4, 4).

    For each the row of its branch with elbow up, and the vector from frame 1 to frame 3 in
    that plane [m]. Returns their number.
    """
    cdef double[24] sines = [0.0] * 24, cosines = [0.0] * 24
    cdef int[8] found = [0] * 8
    cdef int k, at, count
    _planes(arm, &T[0, 0], q6, sines, cosines, found)
    count = 0
    for k in range(8):
        if found[k]:
            at = _place(k)
            vectors[count, 0] = k
            vectors[count, 1], vectors[count, 2] = cosines[at + 2], sines[at + 2]
            count += 1
    return count


cdef void solve(Arm arm, const double* t, double q6, double* rows, int* found) noexcept:
    """Fill eight rows of joints, NaN where there is no solution, and which there are."""
    cdef double[24] sines = [0.0] * 24, cosines = [0.0] * 24, angles = [0.0] * 24
    cdef int sides, k, i, at, row, side
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


cdef bint _elbow(Arm arm, double sigma, double* sines, double* cosines, int at) noexcept:
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


cdef int _planes(
    Arm arm, const double* t, double q6, double* sines, double* cosines, int* found
) noexcept:
    """
    Fill what remains for the elbow, a planar triangle for each shoulder and wrist.

    For the pose `t` (16,), sines and cosines (24,) hold 12 angles of each shoulder: theta_1,
    theta_5 of its first wrist; then five of each wrist's plane (see `_place`): theta_6,
    theta_234, the direction from frame 1 to frame 3 (times their distance [m]), and two that
    `_elbow` fills in, the angle at frame 1 between it and the upper arm, and theta_3. Sets
    those rows of `found` that have a plane and the elbow up. Returns the number of shoulders.
    """
    cdef int sides, side, at, plane
    cdef bint is_double
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


cdef bint _wrists(
    Arm arm, const double* t, double x1, double z, double q6, double* sines, double* cosines,
    int at
) noexcept:
    """
    Fill theta_5, and theta_6 and theta_234 of both wrists, down before up, from theta_1.

    Returns whether theta_6 is free, so that both wrists are one.
    """
    cdef bint free
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


cdef void _turn(
    Arm arm, double* sines, double* cosines, int at, bint is_opposed, double x1, double z,
    double allowed, double bend
) noexcept:
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


cdef int _place(int k) noexcept:
    """Return where the five angles of the plane of row k are; see `_planes`."""
    return 12 * (k >> 2) + 2 + 5 * (k & 1)


# ---- branch

# Joints of a calibrated arm may be on the other side of a singularity than the nominal arm's
# within this distance from it: of frame 5 by the arm's reach, or sine of theta_3 or theta_5.
cdef double _MAY_CROSS = 0.1


cpdef classify(Arm arm, const double[:, ::1] q, Py_ssize_t[::1] branch):
    """Fill branch (n,) with the index into `BRANCHES` of each of joints q (n, 6) [rad]."""
    cdef Py_ssize_t row
    for row in range(len(branch)):
        branch[row] = branch_row(arm, &q[row, 0])


cdef int branch_row(Arm arm, const double* q) noexcept:
    """Return the branch of joints q (6,) [rad]; see `branches`."""
    cdef double[3] distances
    cdef bint is_crossed, left, up, down
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


cdef double fill_distances(Arm arm, const double* q, double* distances) noexcept:
    """
    Fill signed distances (3,) of joints q (6,) from the singularities of a nominal arm.

    Of frame 5 by the arm's reach, and sines of theta_3 and theta_5. Returns the smallest.
    """
    t2, t3 = q[1] + arm.offsets[1], q[2] + arm.offsets[2]
    t234, s3, s5 = t2 + t3 + q[3] + arm.offsets[3], sin(t3), sin(q[4] + arm.offsets[4])
    x1 = arm.a2 * cos(t2) + arm.a3 * cos(t2 + t3) + arm.d5 * sin(t234)
    distances[0], distances[1], distances[2] = x1 / (fabs(arm.a2) + fabs(arm.a3)), s3, s5
    return min(fabs(distances[0]), fabs(s3), fabs(s5))


cdef bint _has_crossed(Arm arm, const double* q, double x1, double s3, double s5) noexcept:
    """
    Return whether a calibrated arm is on the other side of a singularity than a nominal one.

    For the nominal arm det J is a2 a3 x1 sin(theta_3) sin(theta_5).
    """
    cdef double[39] axes = [0.0] * 39
    cdef double[12] f = [0.0] * 12
    cdef double[36] J = [0.0] * 36
    arm.chain(arm.steps, q, axes, f)
    fill_jacobian(axes, f, False, J)
    product = _side(x1, False) * _side(s3, False) * _side(s5, False)
    return arm.a2 * arm.a3 * product * determinant(J) < 0.0


cdef double _side(double distance, bint is_crossed) noexcept:
    """Return -1 for a negative distance to a singularity, else 1; the opposite if crossed."""
    return 1.0 if (distance < 0.0) == is_crossed else -1.0


# ---- every solution of a calibrated arm, by Newton's method; see `inverse`

# Newton's method
cdef double _CONVERGED = 1e-12  # m and rad; the step from there reaches rounding error
cdef int _ITERATIONS = 20
cdef double _LONGEST_STEP = 0.5  # rad
cdef double _DAMPING = 0.01
# The search for the solutions of a calibrated arm
cdef double _RESIDUAL = 1e-11  # m and rad, of a solution
cdef double _SAME = 1e-6  # rad; closer solutions count as one
cdef double _NEW = 0.1  # rad; a later seed must be this far from every known solution
# rad; least |phi|, and least distance of theta_3 from 0 and pi, of a seed: of the values from 0.01
# to 0.2 the one that misses the fewest solutions near singularities, for arms off by up to 2 mm
# and 4 mrad
cdef double _APART = 0.04
cdef double _COS_APART = 0.9992001066609779
# largest computed |cos(theta_3)| that is clipped, to a stretched or folded elbow
cdef double _CLOSED = 1.1
cdef double _NEAR_WRIST = 0.1  # rad of theta_5; a few times what calibrations tilt the tool by
# Near the shoulder singularity, where tan(phi) is less than the first, calibrations turn theta_1
# and so tilt the wrist by much more: the second counts [rad of theta_5].
cdef double _NEAR_SHOULDER = 0.4
cdef double _NEAR_WRIST_THERE = 0.4
cdef double _FAR = 2.0  # times as far as that from it, eight solutions are all
# As far as this from every singularity (see `fill_distances`), solutions are several _NEW apart.
cdef double _ALONE = 0.2


cdef void solve_calibrated(
    Arm arm, const double* t, double q6, const double* seed, double* rows, int* found
) noexcept:
    """Fill rows as `solve`; of solutions on one branch that with theta_6 nearest to q6."""
    cdef double[96] every = [0.0] * 96
    cdef double[8] nearest = [0.0] * 8
    cdef int count, solution, i, k
    for k in range(48):
        rows[k] = NAN
    for k in range(8):
        found[k], nearest[k] = 0, TAU
    count, desired = _search(arm, t, q6, seed, every), remainder(q6, TAU)
    for solution in range(count):
        joints = &every[6 * solution]
        k, off = branch_row(arm, joints), fabs(wrapped(joints[5] - desired))
        if off < nearest[k]:
            found[k], nearest[k] = 1, off
            for i in range(6):
                rows[6 * k + i] = joints[i]


cdef int _search(
    Arm arm, const double* t, double q6, const double* seed, double* q
) noexcept:
    """
    Fill q (MOST, 6), flat, with the solutions of a pose t, and return their number.

    First from the seed, unless it is NULL, so that its solution is kept whatever else is found; then from the
    closed form, near a wrist singularity around the circle. Where that has not found one for
    each branch, or more may be near, from the closed form of the nominal arm's pose at each
    solution, twice.
    """
    cdef double[12] shoulder = [0.0] * 12
    cdef double[16] nominal = [0.0] * 16
    cdef double[3] distances = [0.0] * 3
    cdef int count, alone, side, searched, known, solution, _
    count = 0 if seed is NULL else _add(arm, t, seed, q, 0)
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
            arm.pose(arm.nominal, &q[6 * solution], nominal)
            for side in range(2):
                _shoulder(arm, nominal, side, shoulder)
                count = _search_side(
                    arm, t, shoulder, q[6 * solution + 5], 8, q, known, count
                )
        searched = known
    return count


cdef int _search_side(
    Arm arm, const double* t, const double* shoulder, double q6, int step, double* q, int known,
    int count
) noexcept:
    """
    Add to q the solutions of a pose t that are found from one shoulder, with both elbows.

    theta_6 is its closed-form value plus every `step`th of the 16 sixteenths of a turn (0:
    first wrist, 8: second). Seeds near the first `known` solutions are skipped. Returns the
    new count.
    """
    cdef double[12] seeds = [0.0] * 12
    cdef int turn, at
    for turn in range(0, 16, step):
        if _seeds(arm, shoulder, q6, turn, seeds):
            for at in range(0, 12, 6):
                if not _is_among(&seeds[at], q, known, _NEW):
                    count = _add(arm, t, &seeds[at], q, count)
    return count


cdef double _shoulder(Arm arm, const double* t, int side, double* shoulder) noexcept:
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


cdef bint _seeds(Arm arm, const double* shoulder, double q6, int turn, double* seeds) noexcept:
    """
    Fill joints (2, 6), flat, with which a nominal arm is at or near a pose, elbow up and down.

    theta_6 is its closed-form value plus a number of sixteenths of a turn; theta_5 is the
    value that fits it best. False where the elbow is far from reaching.
    """
    cdef double[8] sines = [0.0] * 8, cosines = [0.0] * 8, angles = [0.0] * 8
    cdef int elbow, at, i
    a2, a3, x1, z = arm.a2, arm.a3, shoulder[3], shoulder[4]
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


cdef int _add(Arm arm, const double* t, const double* seed, double* q, int count) noexcept:
    """Add to q (count, 6) what is reached from a seed (6,), if new; return the count."""
    cdef double[6] joints = [0.0] * 6
    cdef int i
    for i in range(6):
        joints[i] = seed[i]
    if _approach(arm, t, joints) < _RESIDUAL and count < MOST:
        for i in range(6):
            if fabs(joints[i]) > TAU:  # a caller's seed may be anywhere
                joints[i] = remainder(joints[i], TAU)
            joints[i] = wrapped(joints[i])
        if not _is_among(joints, q, count, _SAME):
            for i in range(6):
                q[6 * count + i] = joints[i]
            count += 1
    return count


cdef double _approach(Arm arm, const double* t, double* q) noexcept:
    """Move joints q (6,) to a pose t by Newton's method; return by what the last step began."""
    cdef double[39] axes = [0.0] * 39
    cdef double[12] f = [0.0] * 12
    cdef double[36] J = [0.0] * 36
    cdef double[6] miss = [0.0] * 6, dq = [0.0] * 6
    cdef double off = 1.0
    cdef int step, i
    for step in range(_ITERATIONS):
        arm.chain(arm.steps, q, axes, f)
        _miss(t, f, miss)
        off = 0.0
        for i in range(6):
            off = max(off, fabs(miss[i]))
        fill_jacobian(axes, f, False, J)
        if not _damped_step(J, miss, dq):
            break
        for i in range(6):
            q[i] += dq[i]
        if off <= _CONVERGED:
            break
    return off


cdef bint _is_among(const double* joints, const double* q, int count, double within) noexcept:
    """Return whether joints (6,) are within an angle [rad] of any of q (count, 6), modulo turns."""
    cdef int i, k
    for k in range(count):
        for i in range(6):
            if not fabs(wrapped(joints[i] - q[6 * k + i])) < within:
                break
        else:
            return True
    return False


cdef void _miss(const double* t, const double* f, double* miss) noexcept:
    """Fill displacement and rotation vector (6,), in `base`, from the tool f to the pose t."""
    cdef double[9] r = [0.0] * 9
    cdef int i, k
    for i in range(3):
        miss[i] = t[4 * i + 3] - f[9 + i]
        for k in range(3):
            r[3 * i + k] = t[4 * i] * f[k] + t[4 * i + 1] * f[3 + k] + t[4 * i + 2] * f[6 + k]
    log_rotation(r, &miss[3])


cdef bint _damped_step(double* J, double* miss, double* dq) noexcept:
    """
    Fill dq (6,) of J dq = miss, J by columns, damped so that it converges like Newton.

    Solves (J J^T + damping) y = miss, dq = J^T y. False if J is singular.
    """
    cdef double[42] A = [0.0] * 42
    cdef double damping = 0.0, largest = _LONGEST_STEP, entry
    cdef int i, j, k
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
        return False
    for j in range(6):
        dq[j] = 0.0
        for i in range(6):
            dq[j] += J[6 * j + i] * A[7 * i + 6]
        largest = max(largest, fabs(dq[j]))
    for j in range(6):
        dq[j] *= _LONGEST_STEP / largest
    return True


# ---- inverse

cpdef bint inverse(
    Arm arm, const double[:, :, ::1] T, q6, const double[:, ::1] seed,
    double[:, :, ::1] q, unsigned char[:, ::1] ok
):
    """
    Fill q (n, 8, 6) [rad] and ok (n, 8) with the solutions of T (n, 4, 4), rows as `BRANCHES`.

    With q6, one for all or (n,), the wish at a wrist singularity. A calibrated arm searches from
    joints `seed` (n, 6) too, if there are any. False if a pose is not rigid.
    """
    cdef const double[::1] wishes = None if isinstance(q6, float) else q6
    cdef double wish = q6 if wishes is None else 0.0
    cdef int[8] found = [0] * 8
    cdef int k
    cdef Py_ssize_t pose
    for pose in range(len(T)):
        t, rows = &T[pose, 0, 0], &q[pose, 0, 0]
        if not is_rigid(t):
            return False
        if wishes is not None:
            wish = wishes[pose]
        if arm.is_calibrated:
            near = NULL if seed is None else &seed[pose, 0]
            solve_calibrated(arm, t, wish, near, rows, found)
        else:
            solve(arm, t, wish, rows, found)
        for k in range(8):
            ok[pose, k] = found[k]
    return True


cpdef int solutions(
    Arm arm, const double[:, ::1] T, double q6, const double[::1] seed, double[:, ::1] q,
    Py_ssize_t[::1] branch
):
    """
    Fill q (MOST, 6) and branch (MOST,) with every solution found of T (4, 4), sorted by branch.

    Returns their number; 0 if the pose is not rigid. A nominal arm needs no seed.
    """
    cdef double[96] every = [0.0] * 96
    cdef int[16] rows = [0] * 16
    cdef int found = 8, count = 0, k, row, i
    t = &T[0, 0]
    if not is_rigid(t):
        return 0
    if arm.is_calibrated:
        found = _search(arm, t, q6, NULL if seed is None else &seed[0], every)
        for k in range(found):
            rows[k] = branch_row(arm, &every[6 * k])
    else:
        solve(arm, t, q6, every, rows)
        for k in range(8):
            rows[k] = k if rows[k] else -1
    for row in range(8):
        for k in range(found):
            if rows[k] == row:
                branch[count] = row
                for i in range(6):
                    q[count, i] = every[6 * k + i]
                count += 1
    return count


cpdef list nearest(
    Arm arm, const double[:, ::1] T, const double[::1] near, const double[::1] low,
    const double[::1] high, double[:, ::1] q, Py_ssize_t[::1] branch
):
    """
    Fill q and branch as `solutions`, and turn the joints as `turn`.

    Returns distance and row of each that is within the bounds, nearest first.
    """
    cdef list found = []
    cdef int count, k
    count = solutions(arm, T, min(max(near[5], low[5]), high[5]), near, q, branch)
    for k in range(count):
        distance = _turn_near(&q[k, 0], &near[0], &low[0], &high[0])
        if distance < INFINITY:
            found.append((distance, k))
    found.sort()
    return found
