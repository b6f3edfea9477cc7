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

CHUNK = 1536

_SIGNS = np.array([[1.0], [-1.0]])  # of phi: left, right; of sin(theta_5): down, up


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
        theta, found = _solve(m, t, q6[rows] + m.offsets[5])
        if any(m.offsets):
            theta = wrap_to_pi(theta - m.offset[:, None, None, None, None])
        np.copyto(theta, pi, where=theta <= -pi)
        np.copyto(theta, nan, where=~found)
        for joint, branch in np.ndindex(6, 8):  # twice as fast as to transpose the whole
            q[rows, branch, joint] = theta.reshape(6, 8, -1)[joint, branch]
        ok[rows] = found.reshape(8, -1).T
    return q, ok


def wrap_to_pi(angle: Array) -> Array:
    """Bring angles [rad] into (-pi, pi]."""
    wrapped: Array = angle - 2.0 * pi * np.ceil((angle - pi) / (2.0 * pi))
    return np.minimum(wrapped, pi, out=wrapped)  # just above by rounding only


def _solve(m: Model, t: Array, wish: Array) -> tuple[Array, Mask]:
    """Give theta (6, 2, 2, 2, n) by joint, shoulder, elbow, wrist, pose; and which rows hold."""
    c1, s1, x1, z, has_shoulder = _shoulders(m, t)
    t5, t6, s234, c234, free = _wrists(m, t, (c1, s1, x1, z), wish)
    d5 = m.lengths[4]
    u, v = x1[:, None] - d5 * s234, z + d5 * c234
    theta = np.empty((6, 2, 2, 2, t.shape[1]))
    theta[0] = np.arctan2(s1, c1)[:, None, None]
    theta[1], theta[2], meets, double = _elbows(m, u, v)
    theta[3] = wrap_to_pi(np.arctan2(s234, c234)[:, None] - theta[1] - theta[2])
    theta[4, :, :, 0], theta[4, :, :, 1] = t5[:, None], -t5[:, None]
    theta[5] = t6[:, None]
    meets &= has_shoulder[:, None]
    meets[:, 1] &= ~free
    return theta, np.stack([meets, meets & ~double], axis=1)


def _shoulders(m: Model, t: Array) -> tuple[Array, Array, Array, Array, Mask]:
    """Give cos and sin of theta_1 (2, n), frame 5 in frame 1 (x1, z), and which exist."""
    _, _, d1, d4, _, d6 = m.lengths
    _, _, ax, px, _, _, ay, py, _, _, az, pz = t[:12]
    x, y, z = px - d6 * ax, py - d6 * ay, pz - d6 * az - d1
    ss = x * x + y * y - d4 * d4
    double = np.abs(ss) <= DOUBLE_ROOT * d4 * d4
    s = np.sqrt(np.where(double, 0.0, np.maximum(ss, 0.0)))
    rr, x1 = d4 * d4 + s * s, -_SIGNS * s
    c1, s1 = (x * x1 - y * d4) / rr, (x * d4 + y * x1) / rr
    exists = ss >= -DOUBLE_ROOT * d4 * d4
    return c1, s1, x1, z, np.stack([exists, exists & ~double])


def _wrists(
    m: Model, t: Array, shoulder: tuple[Array, Array, Array, Array], wish: Array
) -> tuple[Array, Array, Array, Array, Mask]:
    """Give theta_5 (2, n) with wrist down, theta_6, sin and cos of theta_234 (2, 2, n), `free`."""
    nx, ox, ax, _, ny, oy, ay, _, nz, oz = t[:10]
    c1, s1, x1, z = shoulder
    s5c6, s5s6, c5 = s1 * nx - c1 * ny, c1 * oy - s1 * ox, s1 * ax - c1 * ay
    s5 = np.sqrt(s5c6 * s5c6 + s5s6 * s5s6)
    near = s5 < NEAR_WRIST
    free = s5 <= WRIST_SINGULAR
    scale = np.where(free, 1.0, s5)
    c6, s6, t6 = s5c6 / scale, s5s6 / scale, np.arctan2(s5s6, s5c6)
    if free.any():
        s5 = np.where(free, 0.0, s5)
        c6, s6 = np.where(free, np.cos(wish), c6), np.where(free, np.sin(wish), s6)
        t6 = np.where(free, wrap_to_pi(wish), t6)
    s234 = -(s6 * (nx * c1 + ny * s1) + c6 * (ox * c1 + oy * s1))
    c234 = s6 * nz + c6 * oz
    t6 = np.stack([t6, np.where(t6 > 0.0, t6 - pi, t6 + pi)], axis=1)
    s234, c234 = np.stack([s234, -s234], axis=1), np.stack([c234, -c234], axis=1)
    if near.any():
        for wrist in (0, 1):
            wrists = t6[:, wrist], s234[:, wrist], c234[:, wrist]
            _turn(m, near, wrists, (x1, np.broadcast_to(z, near.shape), s5, c5))
    return np.arctan2(s5, c5), t6, s234, c234, free


def _turn(
    m: Model,
    near: Mask,
    wrists: tuple[Array, Array, Array],
    given: tuple[Array, Array, Array, Array],
) -> None:
    """Turn theta_6 and theta_234 in place as far as the elbow needs; see `inverse._turned`."""
    t6, s234, c234 = (w[near] for w in wrists)
    x1, z, s5, c5 = (g[near] for g in given)
    d5 = m.lengths[4]
    rho = np.maximum(np.hypot(x1, z), 1e-12)
    sine, cosine = (x1 * s234 - z * c234) / rho, (x1 * c234 + z * s234) / rho
    low, high = np.sort(
        [(rho * rho + d5 * d5 - reach * reach) / (2.0 * d5 * rho) for reach in m.reach], axis=0
    )
    clipped = np.clip(np.clip(sine, low, high), -1.0, 1.0)
    level = np.copysign(np.sqrt(1.0 - clipped * clipped), cosine)
    turn = np.arctan2(clipped * cosine - level * sine, level * cosine + clipped * sine)
    out_of_reach = (sine < low) | (sine > high)
    paid = (s5 <= WRIST_SINGULAR) | (np.abs(turn) * s5 <= WRIST_SINGULAR)
    turn = np.where(out_of_reach & paid, turn, 0.0)
    s, c = np.sin(turn), np.cos(turn)
    wrists[0][near] = wrap_to_pi(t6 - np.sign(c5) * turn)
    wrists[1][near] = s234 * c + c234 * s
    wrists[2][near] = c234 * c - s234 * s


def _elbows(m: Model, u: Array, v: Array) -> tuple[Array, Array, Mask, Mask]:
    """
    Solve the triangles to frame 3 at (u, v), by shoulder, wrist and pose, (2, 2, n).

    Gives theta_2 and theta_3 by shoulder, elbow, wrist, pose (2, 2, 2, n), and of the triangles
    which close and which are flat: a double root.

    """
    a2, a3, *_ = m.lengths
    c3 = (u * u + v * v - a2 * a2 - a3 * a3) / (2.0 * a2 * a3)
    ss3 = (1.0 - c3) * (1.0 + c3)
    double = np.abs(ss3) <= DOUBLE_ROOT
    s3 = np.sqrt(np.where(double, 0.0, np.maximum(ss3, 0.0)))
    bend = _SIGNS[:, :, None, None] * _SIGNS[:, None]  # of theta_3: up bends as phi does
    along, across = (a2 + a3 * c3)[:, None], bend * (a3 * s3)[:, None]
    u, v = u[:, None], v[:, None]
    t2 = np.arctan2(along * v - across * u, along * u + across * v)
    return t2, bend * np.arctan2(s3, c3)[:, None], ss3 >= -DOUBLE_ROOT, double
