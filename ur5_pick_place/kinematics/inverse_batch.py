# SPDX-License-Identifier: Apache-2.0
"""
The closed form of `inverse` on many poses at once: the same equations, on rows of numbers.

The last axis of every array runs over the poses of a chunk; before it come one of 2 for the
shoulder, from theta_6 on one of 2 for the wrist, and for the elbow's two angles one of 2 between
them. Chunks keep what is computed on the way in the processor's cache, and the memory small.

"""

from math import nan, pi

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics.branches import DOUBLE_ROOT, NEAR_WRIST, WRIST_SINGULAR
from ur5_pick_place.kinematics.model import Model

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CHUNK = 1800  # no multiple of 512: rows of whole pages would share their places in the cache

_SIGMA = np.array([[1.0], [-1.0]])  # sign of phi: left, right


def inverse_batch(m: Model, T: Array, q6: Array) -> tuple[Array, Mask]:
    """
    Solve n rigid poses.

    Parameters
    ----------
    m : Model
    T : ndarray, shape (n, 4, 4)
        T_base_tool [m].
    q6 : ndarray, shape (n,)
        Wish for the last joint at a wrist singularity [rad].

    Returns
    -------
    q : ndarray, shape (n, 8, 6)
        In (-pi, pi]; NaN where there is no solution.
    ok : ndarray of bool, shape (n, 8)

    """
    q = np.empty((len(T), 8, 6))
    ok = np.empty((len(T), 8), dtype=np.bool_)
    for start in range(0, len(T), CHUNK):
        rows = slice(start, start + CHUNK)
        t = np.ascontiguousarray(T[rows].reshape(-1, 16).T)
        with np.errstate(over='ignore', invalid='ignore'):  # far beyond reach squares overflow
            theta, found = _solve(m, t, q6[rows] + m.offsets[5])
        if any(m.offsets):
            theta = wrap_to_pi(theta - m.offset[:, None])
        np.copyto(theta, pi, where=theta <= -pi)  # arctan2 and rint give -pi too
        q[rows] = theta.reshape(48, -1).T.reshape(-1, 8, 6)
        ok[rows] = found.reshape(8, -1).T
        q[rows].reshape(-1, 6)[np.flatnonzero(~ok[rows])] = nan
    return q, ok


def wrap_to_pi(angle: Array) -> Array:
    """Bring angles [rad] into (-pi, pi]."""
    wrapped: Array = angle - 2.0 * pi * np.ceil(angle / (2.0 * pi) - 0.5)
    return np.minimum(wrapped, pi, out=wrapped)  # just above by rounding only


def _solve(m: Model, t: Array, wish: Array) -> tuple[Array, Mask]:
    """Give theta (2, 2, 2, 6, n) by shoulder, elbow, wrist, joint, pose; and which rows hold."""
    c1, s1, x1, z, has_shoulder = _shoulders(m, t)
    t5, t6, s234, c234, free = _wrists(m, t, (c1, s1, x1, z), wish)
    d5 = m.lengths[4]
    t2, t3, found = _elbows(m, x1[:, None] - d5 * s234, z + d5 * c234)
    theta = np.empty((2, 2, 2, 6, t.shape[1]))
    theta[..., 0, :] = np.arctan2(s1, c1)[:, None, None]
    theta[..., 1, :], theta[..., 2, :] = t2, t3
    t4 = np.arctan2(s234, c234)[:, None] - t2 - t3
    t4 -= 2.0 * pi * np.rint(t4 / (2.0 * pi))
    np.minimum(t4, pi, out=theta[..., 3, :])  # just above by rounding only
    theta[..., 4, :], theta[..., 5, :] = t5[:, None], t6[:, None]
    found &= has_shoulder[:, None, None]
    found[:, :, 1] &= ~free[:, None]
    return theta, found


def _shoulders(m: Model, t: Array) -> tuple[Array, Array, Array, Array, Mask]:
    """Give cos and sin of theta_1 (2, n), frame 5 in frame 1 (x1, z), and which exist."""
    _, _, d1, d4, _, d6 = m.lengths
    _, _, ax, px, _, _, ay, py, _, _, az, pz = t[:12]
    x, y, z = px - d6 * ax, py - d6 * ay, pz - d6 * az - d1
    ss = x * x + y * y - d4 * d4
    apart = ss > DOUBLE_ROOT * d4 * d4  # else left and right are one
    s = apart * np.sqrt(np.maximum(ss, 0.0))
    rr, x1 = d4 * d4 + s * s, -_SIGMA * s
    c1, s1 = (x * x1 - y * d4) / rr, (x * d4 + y * x1) / rr
    return c1, s1, x1, z, np.stack([ss >= -DOUBLE_ROOT * d4 * d4, apart])


def _wrists(
    m: Model, t: Array, shoulder: tuple[Array, Array, Array, Array], wish: Array
) -> tuple[Array, Array, Array, Array, Mask]:
    """Give theta_5, theta_6, sin and cos of theta_234 (2, 2, n); and where theta_6 is free."""
    nx, ox, ax, _, ny, oy, ay, _, nz, oz = t[:10]
    c1, s1, x1, z = shoulder
    s5c6, s5s6, c5 = s1 * nx - c1 * ny, c1 * oy - s1 * ox, s1 * ax - c1 * ay
    s5 = np.sqrt(s5c6 * s5c6 + s5s6 * s5s6)
    free = s5 <= WRIST_SINGULAR
    scale = np.maximum(s5, WRIST_SINGULAR)
    c6, s6, t6 = s5c6 / scale, s5s6 / scale, np.arctan2(s5s6, s5c6)
    if free.any():
        s5 = np.where(free, 0.0, s5)
        c6, s6 = np.where(free, np.cos(wish), c6), np.where(free, np.sin(wish), s6)
        t6 = np.where(free, wrap_to_pi(wish), t6)
    s234 = -(s6 * (nx * c1 + ny * s1) + c6 * (ox * c1 + oy * s1))
    c234 = s6 * nz + c6 * oz
    t5 = np.arctan2(s5, c5)
    wrists = np.empty((4, 2, 2, t.shape[1]))
    wrists[:, :, 0] = t5, t6, s234, c234
    wrists[:, :, 1] = -t5, t6 - np.copysign(pi, t6), -s234, -c234
    if (s5 < NEAR_WRIST).any():
        _turn(m, wrists[1:].swapaxes(1, 2), (x1, z), (s5, c5))
    return (*wrists, free)


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


def _elbows(m: Model, u: Array, v: Array) -> tuple[Array, Array, Mask]:
    """
    Solve the triangles to frame 3 at (u, v), by shoulder, wrist and pose, (2, 2, n).

    Gives theta_2, theta_3 and which of them exist, by shoulder, elbow, wrist, pose (2, 2, 2, n).

    """
    a2, a3, *_ = m.lengths
    c3 = (u * u + v * v - a2 * a2 - a3 * a3) / (2.0 * a2 * a3)
    ss3 = (1.0 - c3) * (1.0 + c3)
    apart = ss3 > DOUBLE_ROOT  # else up and down are one
    s3 = apart * np.sqrt(np.maximum(ss3, 0.0))
    along, across = a2 + a3 * c3, _SIGMA[:, None] * a3 * s3  # up bends as phi does
    t2, t3 = np.empty((2, *c3.shape)), np.empty((2, *c3.shape))
    t2[:, 0] = np.arctan2(along * v - across * u, along * u + across * v)
    t2[:, 1] = np.arctan2(along * v + across * u, along * u - across * v)
    t3[:, 0] = np.arctan2(_SIGMA[:, None] * s3, c3)
    t3[:, 1] = -t3[:, 0]
    return t2, t3, np.stack([ss3 >= -DOUBLE_ROOT, apart], axis=1)
