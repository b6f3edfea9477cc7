# SPDX-License-Identifier: Apache-2.0
"""Poses of twists."""

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.kinematics.transforms import exp_so3, make_transform, skew


def exp_se3(twist: ArrayLike) -> np.ndarray:
    """Return the poses (..., 4, 4) of twists (..., 6), linear part first [m, rad]."""
    xi = np.asarray(twist, dtype=float)
    v, w = xi[..., :3], xi[..., 3:]
    W, t = skew(w), np.linalg.norm(w, axis=-1)[..., None, None]
    s = np.where(t < 1e-4, 1.0, t)
    C = np.where(t < 1e-4, 1.0 / 6.0 - t * t / 120.0, (s - np.sin(s)) / s**3)
    V = np.eye(3) + 0.5 * np.sinc(t / (2.0 * np.pi)) ** 2 * W + C * (W @ W)
    return make_transform(exp_so3(w), (V @ v[..., None])[..., 0])
