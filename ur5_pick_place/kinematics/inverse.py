# SPDX-License-Identifier: Apache-2.0
"""
Inverse kinematics in closed form: every joint solution of a pose, in the row of its branch.

One pose at a time, in the order of the derivation; `inverse_batch` solves many at once.
With n, o, a the axes of the tool and p its origin, all in `base`:

    theta_1    Frame 5, at p - d6 a, lies d4 beside the plane in which the arm bends. Where it is
               nearer to axis 1 than that there is no such plane: the unreachable cylinder.
    theta_5,   from axis 1 as the tool sees it, (s5 c6, -s5 s6, c5): sine and cosine both, so that
    theta_6    no digit is lost near 0 and pi. Where s5 = 0, theta_6 is free.
    theta_234  The sum of theta_2, theta_3 and theta_4: how z of frame 4 stands in the arm's plane.
    theta_3,   from the triangle of upper arm, forearm, and the vector from frame 1 to frame 3.
    theta_2    theta_4 is the rest of the sum.

No sine or cosine of a computed angle is taken; angles come from atan2 at the very end.

References
----------
The UR5 IK note; its equations 5 (theta_1), 6 (theta_5) and 15 (theta_3) carry the three signs.

"""

from math import atan2, copysign, cos, hypot, isfinite, nan, pi, remainder, sin, sqrt
from struct import Struct

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.branches import DOUBLE_ROOT, NEAR_WRIST, WRIST_SINGULAR
from ur5_pick_place.kinematics.inverse_batch import inverse_batch, wrap_to_pi
from ur5_pick_place.kinematics.inverse_calibrated import inverse_calibrated
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import RIGID_TOLERANCE, Array, as_poses, check_rigid

Plane = tuple[int, float, float, float, float, float, float, float]
Wrist = tuple[int, float, float, float, float]

_TAU = 2.0 * pi
_NO_ROWS = Struct('48d').pack(*48 * [nan])
_MINUS_PI = Struct('d').pack(-pi)
_put_row = Struct('6d').pack_into  # writes to an array's bytes, three times faster than indexing


def inverse(m: Model, T: ArrayLike, q6: ArrayLike = 0.0) -> tuple[Array, NDArray[np.bool_]]:
    """
    Return all joint solutions of poses of the tool.

    Parameters
    ----------
    m : Model
    T : array_like, shape (..., 4, 4)
        T_base_tool [m].
    q6 : array_like, shape () or (...)
        Desired last joint where a wrist singularity leaves it free [rad]. It is used if the elbow
        can reach with it, otherwise the nearest value with which it can.

    Returns
    -------
    q : ndarray, shape (..., 8, 6)
        Row k is the solution on `BRANCHES[k]`, in (-pi, pi]; NaN where there is none. At a double
        root the `left`, `up` or `down` row holds it and its twin is NaN.
    ok : ndarray of bool, shape (..., 8)
        Which rows hold a solution.

    Raises
    ------
    InvalidInput
        A pose has a wrong shape, is not finite or not rigid, or `q6` is not finite.

    """
    poses = as_poses(T, 'T')
    if poses.ndim == 2 and isinstance(q6, (float, int)) and m.mounts is None:
        return _inverse_one(m, poses, q6)
    check_rigid(poses, 'T')
    stack = poses.shape[:-2]
    desired_theta6 = np.asarray(q6, dtype=np.float64)
    if not np.isfinite(desired_theta6).all():
        raise InvalidInput(f'q6 = {q6!r}: must be finite')
    try:
        desired = np.broadcast_to(desired_theta6, stack).reshape(-1)
    except ValueError as error:
        raise InvalidInput(
            f'q6 has shape {desired_theta6.shape}: must fit the poses, {stack}'
        ) from error
    solve = inverse_batch if m.mounts is None else inverse_calibrated
    q, ok = solve(m, poses.reshape(-1, 4, 4), desired)
    return q.reshape(*stack, 8, 6), ok.reshape(*stack, 8)


def _inverse_one(m: Model, T: Array, q6: float) -> tuple[Array, NDArray[np.bool_]]:
    """Return the solutions of one pose, (4, 4), checked; ten times faster than a batch of one."""
    t = T.ravel().tolist()
    if not _is_rigid(t):
        check_rigid(T, 'T')
    if not isfinite(q6):
        raise InvalidInput(f'q6 = {q6!r}: must be finite')
    a2, a3, _, _, _, _ = m.lengths
    sides, twice = a2 * a2 + a3 * a3, 2.0 * a2 * a3
    rows, found = bytearray(_NO_ROWS), bytearray(8)
    for k, sigma, t1, t5, t6, t234, u, v in arm_planes(m, t, q6):
        c3 = (u * u + v * v - sides) / twice
        ss3 = (1.0 - c3) * (1.0 + c3)
        if not ss3 >= -DOUBLE_ROOT:  # no triangle; NaN where squares overflow
            continue
        s3 = sqrt(ss3) if ss3 > DOUBLE_ROOT else 0.0
        direction, lean = atan2(v, u), sigma * atan2(a3 * s3, a2 + a3 * c3)
        t2, t3 = remainder(direction - lean, _TAU), sigma * atan2(s3, c3)  # up bends as phi does
        _put_row(rows, 48 * k, t1, t2, t3, remainder(t234 - t2 - t3, _TAU), t5, t6)
        found[k] = True
        if s3:
            t2, t3 = remainder(direction + lean, _TAU), -t3
            _put_row(rows, 48 * (k + 2), t1, t2, t3, remainder(t234 - t2 - t3, _TAU), t5, t6)
            found[k + 2] = True
    q: Array = np.ndarray((8, 6), np.float64, rows)
    if _MINUS_PI in rows:
        q[q == -pi] = pi
    if any(m.offsets):
        q = wrap_to_pi(q - m.offset)
    return q, np.ndarray(8, np.bool_, found)


def arm_planes(m: Model, t: list[float], q6: float) -> list[Plane]:
    """
    Return the planar triangles that remain for the elbow, by shoulder and wrist.

    Parameters
    ----------
    m : Model
    t : list of float
        The 16 entries of a rigid T_base_tool, row by row [m].
    q6 : float
        Desired last joint at a wrist singularity [rad].

    Returns
    -------
    list of tuple
        Up to four of: row of the branch with elbow up, sign of phi, theta_1, theta_5, theta_6,
        theta_234, and u, v, the vector from frame 1 to frame 3 in the plane [m].

    """
    _, _, d1, d4, d5, d6 = m.lengths
    nx, ox, ax, px, ny, oy, ay, py, nz, oz, az, pz, _, _, _, _ = t
    x, y, z = px - d6 * ax, py - d6 * ay, pz - d6 * az - d1
    ss = x * x + y * y - d4 * d4
    if ss < -DOUBLE_ROOT * d4 * d4:
        return []
    double = ss <= DOUBLE_ROOT * d4 * d4
    s = 0.0 if double else sqrt(ss)  # r sin(phi), with r cos(phi) = d4
    rr = d4 * d4 + s * s
    planes: list[Plane] = []
    for k, sigma in ((0, 1.0), (4, -1.0)):
        x1 = -sigma * s  # frame 5 seen from frame 1 is (x1, z)
        c1, s1 = (x * x1 - y * d4) / rr, (x * d4 + y * x1) / rr
        s5c6, s5s6, c5 = s1 * nx - c1 * ny, c1 * oy - s1 * ox, s1 * ax - c1 * ay
        along = nx * c1 + ny * s1, ox * c1 + oy * s1, nz, oz
        t1 = atan2(s1, c1)
        for flip, t5, t6, s234, c234 in _wrists(m, (s5c6, s5s6, c5), along, (x1, z), q6):
            u, v = x1 - d5 * s234, z + d5 * c234
            planes.append((k + flip, sigma, t1, t5, t6, atan2(s234, c234), u, v))
        if double:
            break
    return planes


def _wrists(
    m: Model,
    axis_1: tuple[float, float, float],
    plane: tuple[float, float, float, float],
    x1_z: tuple[float, float],
    q6: float,
) -> tuple[Wrist, ...]:
    """
    Return (0 for down or 1 for up, theta_5, theta_6, sin and cos of theta_234).

    Inputs are axis 1 in the tool's frame, and the tool's n and o along x and y of frame 1.

    """
    s5c6, s5s6, c5 = axis_1
    nx, ox, ny, oy = plane
    s5 = sqrt(s5c6 * s5c6 + s5s6 * s5s6)
    free = s5 <= WRIST_SINGULAR
    if free:
        desired_theta6 = q6 + m.offsets[5]
        s5, t6 = 0.0, remainder(desired_theta6, _TAU)
        c6, s6 = cos(desired_theta6), sin(desired_theta6)
    else:
        c6, s6 = s5c6 / s5, s5s6 / s5
        t6 = atan2(s6, c6)
    s234, c234 = -(s6 * nx + c6 * ox), s6 * ny + c6 * oy
    t5 = atan2(s5, c5)
    down: Wrist = (0, t5, t6, s234, c234)
    up: Wrist = (1, -t5, remainder(t6 + pi, _TAU), -s234, -c234)
    if s5 >= NEAR_WRIST:
        return down, up
    allowed = pi if free else WRIST_SINGULAR / s5
    return tuple(_turned(m, w, x1_z, allowed) for w in ((down,) if free else (down, up)))


def _turned(m: Model, wrist: Wrist, x1_z: tuple[float, float], allowed: float) -> Wrist:
    """
    Return a wrist near its singularity with theta_6 turned just enough for the elbow to reach.

    Turning theta_6 and theta_234 against each other leaves the tool where it is and swings frame 3
    on a circle of radius d5 about frame 5, which is `rho` from the shoulder. By the law of cosines
    the elbow reaches where the sine of the swing lies between two bounds; the nearest swing that
    does is that sine clipped, on the same side. Near the singularity a turn tilts the tool a
    little, so that it is at most `allowed`.

    """
    flip, t5, t6, s234, c234 = wrist
    x1, z = x1_z
    d5 = m.lengths[4]
    rho = max(hypot(x1, z), 1e-12)  # at zero every swing is the same to the elbow
    sine, cosine = (x1 * s234 - z * c234) / rho, (x1 * c234 + z * s234) / rho
    low, high = sorted(
        (rho * rho + d5 * d5 - reach * reach) / (2.0 * d5 * rho) for reach in m.reach
    )
    if low <= sine <= high:
        return wrist
    clipped = max(-1.0, min(1.0, max(low, min(high, sine))))
    level = copysign(sqrt(1.0 - clipped * clipped), cosine)
    turn = atan2(clipped * cosine - level * sine, level * cosine + clipped * sine)
    if abs(turn) > allowed:
        return wrist
    s, c = sin(turn), cos(turn)
    t6 = remainder(t6 - turn if abs(t5) < 1.0 else t6 + turn, _TAU)
    return flip, t5, t6, s234 * c + c234 * s, c234 * c - s234 * s


def _is_rigid(t: list[float]) -> bool:
    """Return whether 16 entries, row by row, are a rigid motion; `check_rigid` without NumPy."""
    nx, ox, ax, px, ny, oy, ay, py, nz, oz, az, pz, h0, h1, h2, h3 = t
    e = RIGID_TOLERANCE
    return (
        -e < nx * nx + ny * ny + nz * nz - 1.0 < e
        and -e < ox * ox + oy * oy + oz * oz - 1.0 < e
        and -e < nx * ox + ny * oy + nz * oz < e
        and -e < ny * oz - nz * oy - ax < e
        and -e < nz * ox - nx * oz - ay < e
        and -e < nx * oy - ny * ox - az < e
        and -e < h0 < e
        and -e < h1 < e
        and -e < h2 < e
        and -e < h3 - 1.0 < e
        and isfinite(px + py + pz)
    )
