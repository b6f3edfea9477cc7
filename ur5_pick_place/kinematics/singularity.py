# SPDX-License-Identifier: Apache-2.0
"""Distances of joints to the three singularities, and manipulability."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.kinematics.forward import check_joints, jacobian
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import Array


class Singularity(NamedTuple):
    """
    Distances to the singularities; each field is shaped like the stack of joints.

    The first three vanish linearly, one at each singularity, and the determinant of a nominal
    arm's Jacobian is a2 a3 sin(theta_3) sin(theta_5) times the first, up to sign.

    """

    # from axis 1 to frame 5, along the arm's plane [m]; zero on the cylinder of radius d4
    shoulder: Array
    elbow: Array  # from theta_3 to the nearest of 0 (stretched) and pi (folded) [rad]
    wrist: Array  # from theta_5 to the nearest of 0 and pi [rad]
    manipulability: Array  # |det J|, Yoshikawa's measure [m^3]
    # largest over smallest singular value of the body Jacobian, metres against radians
    condition: Array


def singularity(m: Model, q: ArrayLike) -> Singularity:
    """
    Return the distances of joints to each singularity; a calibrated arm is treated as nominal.

    `q` (..., 6): joint angles [rad].

    """
    joints = check_joints(q)
    theta = joints + m.offset
    values = np.linalg.svd(jacobian(m, joints), compute_uv=False)
    with np.errstate(divide='ignore'):
        condition = values[..., 0] / values[..., -1]
    return Singularity(
        shoulder=np.abs(_shoulder_offset(m, theta)),
        elbow=_to_multiple_of_pi(theta[..., 2]),
        wrist=_to_multiple_of_pi(theta[..., 4]),
        manipulability=np.prod(values, axis=-1),
        condition=condition,
    )


def _shoulder_offset(m: Model, theta: Array) -> Array:
    """Return x of frame 5's origin in frame 1, -r sin(phi) [m], from DH angles (..., 6)."""
    t2 = theta[..., 1]
    t23 = t2 + theta[..., 2]
    t234 = t23 + theta[..., 3]
    offset: Array = m.a[1] * np.cos(t2) + m.a[2] * np.cos(t23) + m.d[4] * np.sin(t234)
    return offset


def _to_multiple_of_pi(angle: Array) -> Array:
    return np.abs(angle - np.pi * np.round(angle / np.pi))
