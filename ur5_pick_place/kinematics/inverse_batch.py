# SPDX-License-Identifier: Apache-2.0
"""
The closed form of `inverse` on many poses at once: the same equations, on rows of numbers.

Every quantity is an array whose last axis runs over the poses of a chunk; before it come an axis of
2 for the shoulder and, from theta_5 on, one of 2 for the wrist and, from theta_3 on, one of 2 for
the elbow. Chunks keep the intermediate values in the processor's cache and the memory small.

"""

import math

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics.branches import DOUBLE_ROOT, WRIST_SINGULAR
from ur5_pick_place.kinematics.model import Model

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CHUNK = 2048
NEAR_WRIST = 1e-5  # below this |sin(theta_5)|, theta_6 can move noticeably within WRIST_SINGULAR

_LEFT_RIGHT = np.array([[1.0], [-1.0]])  # sign of phi
_DOWN_UP = np.array([[1.0], [-1.0]])  # sign of sin(theta_5)
_UP_DOWN = np.array([1.0, -1.0])[:, None, None]  # sign of theta_3 sign(phi)


def inverse_batch(m: Model, T: Array, q6: Array) -> tuple[Array, Mask]:
    """
    Solve n checked poses.

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
    n = len(T)
    q = np.empty((n, 8, 6))
    ok = np.empty((n, 8), dtype=bool)
    for start in range(0, n, CHUNK):
        rows = slice(start, min(start + CHUNK, n))
        entries = np.ascontiguousarray(T[rows].reshape(-1, 16).T)
        theta, found = _solve(m, entries, q6[rows] + m.offset[5])
        if m.offset.any():
            theta = wrap(theta - m.offset[:, None, None, None, None])
        theta[theta <= -math.pi] = math.pi
        theta[:, ~found] = math.nan
        width = theta.shape[-1]
        q[rows] = theta.reshape(6, 8, width).transpose(2, 1, 0)
        ok[rows] = found.reshape(8, width).T
    return q, ok


def wrap(angle: Array) -> Array:
    """Bring angles [rad] into (-pi, pi]."""
    return np.asarray(angle - 2.0 * math.pi * np.ceil((angle - math.pi) / (2.0 * math.pi)))


def _solve(m: Model, t: Array, wish: Array) -> tuple[Array, Mask]:
    """Give theta (6, 2, 2, 2, n) by joint, shoulder, elbow, wrist, pose, and which rows hold."""
    _, a2, a3, *_ = m.a
    d1, _, _, d4, d5, d6 = m.d
    nx, ox, ax, px, ny, oy, ay, py, nz, oz, az, pz = t[:12]
    theta = np.empty((6, 2, 2, 2, t.shape[1]))

    # Shoulder: frame 5 lies d4 beside the arm's plane, r cos(phi) = d4, r sin(phi) = ±s.
    x, y, z = px - d6 * ax, py - d6 * ay, pz - d6 * az - d1
    ss = x * x + y * y - d4 * d4
    tangent = np.abs(ss) <= DOUBLE_ROOT * d4 * d4
    s = np.sqrt(np.where(tangent, 0.0, np.maximum(ss, 0.0)))
    rr = d4 * d4 + s * s
    s_phi = _LEFT_RIGHT * s  # r sin(phi), (2, n)
    c1, s1 = -(y * d4 + x * s_phi) / rr, (x * d4 - y * s_phi) / rr
    has_shoulder = np.stack([ss >= -DOUBLE_ROOT * d4 * d4, (ss > 0.0) & ~tangent])

    # Wrist: axis 1 seen from the tool is (s5 c6, -s5 s6, c5).
    s5c6, s5s6, c5 = s1 * nx - c1 * ny, c1 * oy - s1 * ox, s1 * ax - c1 * ay
    s5 = np.sqrt(s5c6 * s5c6 + s5s6 * s5s6)
    free = s5 <= WRIST_SINGULAR
    safe = np.where(free, 1.0, s5)
    c6, s6 = np.where(free, np.cos(wish), s5c6 / safe), np.where(free, np.sin(wish), s5s6 / safe)
    s5 = np.where(free, 0.0, s5)
    t5, t6 = np.arctan2(s5, c5), np.where(free, wrap(wish), np.arctan2(s6, c6))

    # The direction of the forearm's end, theta_2 + theta_3 + theta_4; the wrist turned over adds pi
    # to it and to theta_6.
    s234 = -(s6 * (nx * c1 + ny * s1) + c6 * (ox * c1 + oy * s1))
    c234 = s6 * nz + c6 * oz
    s234, c234 = _DOWN_UP * s234[:, None], _DOWN_UP * c234[:, None]  # (2, 2, n)
    t6 = np.stack([t6, np.where(t6 > 0.0, t6 - math.pi, t6 + math.pi)], axis=1)
    x1 = -s_phi[:, None]  # frame 5 seen from frame 1 is (x1, z)
    if (s5 < NEAR_WRIST).any():
        _reach_for(m, (x1, z, s5[:, None], c5[:, None], free[:, None]), (t6, s234, c234))

    # Elbow: a triangle with sides a2, a3 and the way (u, v) to the wrist.
    u, v = x1 - d5 * s234, z + d5 * c234
    dd = u * u + v * v
    area = ((abs(a2) + abs(a3)) ** 2 - dd) * (dd - (abs(a2) - abs(a3)) ** 2)  # (2 a2 a3 s3)^2
    straight = np.abs(area) <= DOUBLE_ROOT * (2.0 * a2 * a3) ** 2
    k3 = np.sqrt(np.where(straight, 0.0, np.maximum(area, 0.0)))
    c3 = (dd - a2 * a2 - a3 * a3) / (2.0 * a2 * a3)
    s3 = k3 / abs(2.0 * a2 * a3)
    bend = _LEFT_RIGHT[:, :, None, None] * _UP_DOWN  # sign of theta_3, (2, 2, 1, 1)
    along, across = a2 + a3 * c3, bend * (a3 * s3)[:, None]
    t3 = np.arctan2(s3, c3)

    theta[0] = np.arctan2(s1, c1)[:, None, None]
    np.arctan2(
        along[:, None] * v[:, None] - across * u[:, None],
        along[:, None] * u[:, None] + across * v[:, None],
        out=theta[1],
    )
    theta[2] = bend * t3[:, None]
    theta[3] = wrap(np.arctan2(s234, c234)[:, None] - theta[1] - theta[2])
    theta[4] = (_DOWN_UP * t5[:, None])[:, None]
    theta[5] = t6[:, None]

    has_wrist = np.stack([np.ones_like(free), ~free], axis=1)
    reach = has_shoulder[:, None] & has_wrist & (area >= -DOUBLE_ROOT * (2.0 * a2 * a3) ** 2)
    return theta, np.stack([reach, reach & ~straight], axis=1)


def _reach_for(
    m: Model, given: tuple[Array, Array, Array, Array, Mask], chosen: tuple[Array, Array, Array]
) -> None:
    """
    Near a wrist singularity, turn theta_6 no farther than needed for the elbow to reach.

    Turning theta_6 and theta_2 + theta_3 + theta_4 against each other swings the wrist on a circle
    of radius d5 about frame 5, at distance rho from the shoulder. With tau the angle of the swing,
    the elbow reaches where sin(tau) lies between two bounds; the nearest such tau is `sin` clipped,
    on the same side. `chosen` (theta_6, sin and cos of the sum) is corrected in place wherever the
    tool turns by less than `WRIST_SINGULAR` through it.

    """
    shape = chosen[0].shape
    near = np.broadcast_to(given[2] < NEAR_WRIST, shape)
    x1, z, s5, c5, free = (np.broadcast_to(g, shape)[near] for g in given)
    t6, s234, c234 = (c[near] for c in chosen)
    _, a2, a3, *_ = m.a
    d5 = m.d[4]
    rho = np.maximum(np.hypot(x1, z), 1e-12)  # at rho = 0 every swing is the same
    sin_0, cos_0 = (x1 * s234 - z * c234) / rho, (x1 * c234 + z * s234) / rho
    base, scale = rho * rho + d5 * d5, 2.0 * d5 * rho
    low = (base - (abs(a2) + abs(a3)) ** 2) / scale
    high = (base - (abs(a2) - abs(a3)) ** 2) / scale
    sin = np.clip(np.clip(sin_0, low, high), -1.0, 1.0)
    cos = np.copysign(np.sqrt(1.0 - sin * sin), cos_0)
    turn = np.arctan2(sin * cos_0 - cos * sin_0, cos * cos_0 + sin * sin_0)
    use = (turn != 0.0) & (free | (np.abs(turn) * s5 <= WRIST_SINGULAR))
    t6 = np.where(use, wrap(t6 - turn * np.sign(c5)), t6)
    s234 = np.where(use, (sin * x1 + cos * z) / rho, s234)
    c234 = np.where(use, (cos * x1 - sin * z) / rho, c234)
    for target, value in zip(chosen, (t6, s234, c234), strict=True):
        target[near] = value
