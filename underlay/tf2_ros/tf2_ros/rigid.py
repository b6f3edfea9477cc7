# SPDX-License-Identifier: Apache-2.0
"""Rigid transforms as plain floats: translation (x, y, z) [m], unit quaternion (x, y, z, w)."""

import math
from typing import NamedTuple

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


class Rigid(NamedTuple):
    """`Rigid` T_a_b maps coordinates in b to coordinates in a."""

    translation: Vector
    rotation: Quaternion


IDENTITY = Rigid((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


def compose(T_a_b: Rigid, T_b_c: Rigid) -> Rigid:
    p, q = T_a_b
    x, y, z = rotate(q, T_b_c.translation)
    return Rigid((p[0] + x, p[1] + y, p[2] + z), multiply(q, T_b_c.rotation))


def invert(T_a_b: Rigid) -> Rigid:
    x, y, z, w = T_a_b.rotation
    back = (-x, -y, -z, w)
    px, py, pz = rotate(back, T_a_b.translation)
    return Rigid((-px, -py, -pz), back)


def interpolate(first: Rigid, second: Rigid, ratio: float) -> Rigid:
    """Go the share `ratio` from first to second: straight in translation, slerp in rotation."""
    p, q = first.translation, second.translation
    x, y, z = (a + ratio * (b - a) for a, b in zip(p, q, strict=True))
    return Rigid((x, y, z), slerp(first.rotation, second.rotation, ratio))


def multiply(p: Quaternion, q: Quaternion) -> Quaternion:
    px, py, pz, pw = p
    qx, qy, qz, qw = q
    return (
        pw * qx + px * qw + py * qz - pz * qy,
        pw * qy - px * qz + py * qw + pz * qx,
        pw * qz + px * qy - py * qx + pz * qw,
        pw * qw - px * qx - py * qy - pz * qz,
    )


def rotate(q: Quaternion, v: Vector) -> Vector:
    """Return q v q*, as v + 2 w (u x v) + 2 u x (u x v) with q = (u, w)."""
    x, y, z, w = q
    tx = 2.0 * (y * v[2] - z * v[1])
    ty = 2.0 * (z * v[0] - x * v[2])
    tz = 2.0 * (x * v[1] - y * v[0])
    return (
        v[0] + w * tx + y * tz - z * ty,
        v[1] + w * ty + z * tx - x * tz,
        v[2] + w * tz + x * ty - y * tx,
    )


def slerp(p: Quaternion, q: Quaternion, ratio: float) -> Quaternion:
    """Turn evenly along the shorter arc; p and q of unit length."""
    dot = sum(a * b for a, b in zip(p, q, strict=True))
    sign = -1.0 if dot < 0.0 else 1.0
    angle = math.acos(min(1.0, abs(dot)))
    if angle < 1e-6:
        weight_p, weight_q = 1.0 - ratio, sign * ratio
    else:
        weight_p = math.sin((1.0 - ratio) * angle) / math.sin(angle)
        weight_q = sign * math.sin(ratio * angle) / math.sin(angle)
    x, y, z, w = (weight_p * a + weight_q * b for a, b in zip(p, q, strict=True))
    return normalised((x, y, z, w))


def normalised(q: Quaternion) -> Quaternion:
    length = math.sqrt(sum(a * a for a in q))
    return (q[0] / length, q[1] / length, q[2] / length, q[3] / length)
