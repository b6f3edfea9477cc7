# SPDX-License-Identifier: Apache-2.0
"""
The closed form of `inverse` for many poses at once: the same equations on arrays.

The last axis of every array runs over the poses of a chunk; before it come one of 2 for the
shoulder, from theta_6 on one of 2 for the wrist, and for the elbow's two angles one of 2 between
them. Chunks keep intermediate results in the processor's cache, and the memory small.

"""

from math import nan, pi

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics.branches import DOUBLE_ROOT, NEAR_WRIST, WRIST_SINGULAR
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import Array

Mask = NDArray[np.bool_]

CHUNK = 2900  # not a multiple of 512: rows of whole pages would map to the same cache lines

_SIGMA = np.array([[1.0], [-1.0]])  # sign of phi: left, right


def inverse_batch(m: Model, T: Array, q6: Array) -> tuple[Array, Mask]:
    """
    Return the solutions of n rigid poses.

    Parameters
    ----------
    m : Model
    T : ndarray, shape (n, 4, 4)
        T_base_tool [m].
    q6 : ndarray, shape (n,)
        Desired last joint at a wrist singularity [rad].

    Returns
    -------
    q : ndarray, shape (n, 8, 6)
        In (-pi, pi]; NaN where there is no solution.
    ok : ndarray of bool, shape (n, 8)

    """
    q = np.empty((len(T), 8, 6))
    ok = np.empty((len(T), 8), dtype=np.bool_)
    room = np.empty((2, 2, 2, 6, min(CHUNK, len(T))))
    for start in range(0, len(T), CHUNK):
        rows = slice(start, start + CHUNK)
        t = np.ascontiguousarray(T[rows].reshape(-1, 16).T)
        theta = room[..., : t.shape[1]]
        with np.errstate(over='ignore', invalid='ignore'):  # far beyond reach squares overflow
            found = _solve(m, t, q6[rows] + m.offsets[5], theta)
        if any(m.offsets):
            theta[:] = wrap_to_pi(theta - m.offset[:, None])
        if not theta.min() > -pi:  # arctan2 and rint give -pi too
            np.copyto(theta, pi, where=theta <= -pi)
        q[rows] = theta.reshape(48, -1).T.reshape(-1, 8, 6)
        ok[rows] = found.reshape(8, -1).T
        q[rows].reshape(-1, 6)[np.flatnonzero(~ok[rows])] = nan
    return q, ok


def wrap_to_pi(angle: Array) -> Array:
    """Return angles [rad] wrapped to (-pi, pi]."""
    wrapped: Array = angle - 2.0 * pi * np.ceil(angle / (2.0 * pi) - 0.5)
    return np.minimum(wrapped, pi, out=wrapped)  # just above by rounding only


def _solve(m: Model, t: Array, desired_theta6: Array, theta: Array) -> Mask:
    """Fill theta (2, 2, 2, 6, n), by shoulder, elbow, wrist, joint, pose; return which exist."""
    t1, t2, t3, t4, t5, t6 = np.moveaxis(theta, 3, 0)
    c1, s1, x1, z, has_shoulder = _shoulders(m, t)
    t1[:] = np.arctan2(s1, c1)[:, None, None]
    wrists, free = _wrists(m, t, (c1, s1, x1, z), desired_theta6)
    t5[:], t6[:] = wrists[:2, :, None]
    s234, c234 = wrists[2:]
    d5 = m.lengths[4]
    found = _elbows(m, x1[:, None] - d5 * s234, z + d5 * c234, (t2, t3))
    np.subtract(np.arctan2(s234, c234)[:, None], t2, out=t4)
    t4 -= t3
    t4 *= 0.5 / pi  # in turns
    t4 -= np.rint(t4)
    t4 *= 2.0 * pi
    found &= has_shoulder[:, None, None]
    found[:, :, 1] &= ~free[:, None]
    return found


def _shoulders(m: Model, t: Array) -> tuple[Array, Array, Array, Array, Mask]:
    """Return cos and sin of theta_1 (2, n), frame 5 in frame 1 (x1, z), and which exist."""
    _, _, d1, d4, _, d6 = m.lengths
    x, y, z = t[3:12:4] - d6 * t[2:12:4]
    z -= d1
    ss = x * x + y * y - d4 * d4
    reached, apart = ss >= -DOUBLE_ROOT * d4 * d4, ss > DOUBLE_ROOT * d4 * d4
    np.copyto(ss, 0.0, where=~apart)  # left and right are one
    x1, rr = -_SIGMA * np.sqrt(ss), ss + d4 * d4
    c1, s1 = (x * x1 - y * d4) / rr, (x * d4 + y * x1) / rr
    return c1, s1, x1, z, np.stack([reached, apart])


def _wrists(
    m: Model, t: Array, shoulder: tuple[Array, Array, Array, Array], desired_theta6: Array
) -> tuple[Array, Mask]:
    """Return theta_5, theta_6, sin, cos of theta_234 (4, 2, 2, n), and where theta_6 is free."""
    c1, s1, x1, z = shoulder
    c, s, x, y = c1[:, None], s1[:, None], t[:3], t[4:7]  # of n, o, a
    axis_1, along = s * x, c * x[:2]
    axis_1 -= c * y
    along += s * y[:2]
    s5c6, s5s6, c5 = axis_1[:, 0], -axis_1[:, 1], axis_1[:, 2]
    s5 = np.sqrt(s5c6 * s5c6 + s5s6 * s5s6)
    free = s5 <= WRIST_SINGULAR
    c6, s6 = s5c6 / s5, s5s6 / s5
    if free.any():
        s5 = np.where(free, 0.0, s5)
        c6 = np.where(free, np.cos(desired_theta6), c6)
        s6 = np.where(free, np.sin(desired_theta6), s6)
    wrists = np.empty((4, 2, 2, t.shape[1]))
    down, up = wrists[:, :, 0], wrists[:, :, 1]
    np.arctan2(s5, c5, out=down[0])
    np.arctan2(s6, c6, out=down[1])
    np.add(s6 * along[:, 0], c6 * along[:, 1], out=up[2])
    np.add(s6 * t[8], c6 * t[9], out=down[3])
    np.negative(down[0], out=up[0])
    np.subtract(down[1], np.copysign(pi, down[1]), out=up[1])
    np.negative(up[2], out=down[2])
    np.negative(down[3], out=up[3])
    if s5.min() < NEAR_WRIST:
        _turn(m, wrists[1:].swapaxes(1, 2), (x1, z), (s5, c5))
    return wrists, free


def _turn(m: Model, wrists: Array, x1_z: tuple[Array, Array], s5_c5: tuple[Array, Array]) -> None:
    """Turn theta_6 and theta_234 in place as far as the elbow needs; see `inverse._turned`."""
    (x1, z), (s5, c5) = x1_z, s5_c5
    shoulder, pose = np.nonzero(s5 < NEAR_WRIST)
    x1, z, s5 = x1[shoulder, pose], z[pose], s5[shoulder, pose]
    t6, s234, c234 = wrists[:, :, shoulder, pose]
    d5 = m.lengths[4]
    rho = np.maximum(np.hypot(x1, z), 1e-12)
    sine = (x1 * s234 - z * c234) / rho
    folded, stretched = (
        (rho * rho + d5 * d5 - reach * reach) / (2.0 * d5 * rho) for reach in m.reach
    )
    low, high = np.minimum(folded, stretched), np.maximum(folded, stretched)
    within = np.maximum(low, np.minimum(high, sine))
    least = np.abs(sine - within)  # of the turn
    if not ((least > 0.0) & (least * s5 <= WRIST_SINGULAR)).any():
        return
    cosine, clipped = (x1 * c234 + z * s234) / rho, np.clip(within, -1.0, 1.0)
    level = np.copysign(np.sqrt(1.0 - clipped * clipped), cosine)
    turn = np.arctan2(clipped * cosine - level * sine, level * cosine + clipped * sine)
    paid = (s5 <= WRIST_SINGULAR) | (np.abs(turn) * s5 <= WRIST_SINGULAR)
    turn = np.where((least > 0.0) & paid, turn, 0.0)
    s, c = np.sin(turn), np.cos(turn)
    t6 = wrap_to_pi(t6 - np.sign(c5[shoulder, pose]) * turn)
    wrists[:, :, shoulder, pose] = t6, s234 * c + c234 * s, c234 * c - s234 * s


def _elbows(m: Model, u: Array, v: Array, theta_2_3: tuple[Array, Array]) -> Mask:
    """
    Solve the triangles to frame 3 at (u, v), by shoulder, wrist and pose, (2, 2, n).

    Fills theta_2 and theta_3; returns which exist, by shoulder, elbow, wrist, pose (2, 2, 2, n).

    """
    a2, a3, *_ = m.lengths
    t2, t3 = theta_2_3
    c3 = u * u  # in place from here on, for the cache
    c3 += v * v
    c3 -= a2 * a2 + a3 * a3
    c3 *= 0.5 / (a2 * a3)
    s3 = 1.0 - c3  # squared
    s3 *= 1.0 + c3
    reached, apart = s3 >= -DOUBLE_ROOT, s3 > DOUBLE_ROOT
    np.copyto(s3, 0.0, where=~apart)  # up and down are one
    np.sqrt(s3, out=s3)
    s3 *= _SIGMA[:, None]  # up bends as phi does
    np.arctan2(s3, c3, out=t3[:, 0])
    np.negative(t3[:, 0], out=t3[:, 1])
    across, along = np.multiply(s3, a3, out=s3), np.multiply(c3, a3, out=c3)
    along += a2
    along_u, along_v = along * u, along * v
    u *= across
    v *= across
    np.arctan2(along_v - u, along_u + v, out=t2[:, 0])
    np.arctan2(along_v + u, along_u - v, out=t2[:, 1])
    return np.stack([reached, apart], axis=1)
