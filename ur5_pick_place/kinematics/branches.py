# SPDX-License-Identifier: Apache-2.0
"""
The eight branches on which a UR reaches a pose, and the branch of given joints.

With p the origin of frame 5 in `base`, psi = atan2(p_y, p_x) and phi = wrap(theta_1 - psi - pi/2):

    shoulder  left  where phi >= 0                       else right
    elbow     up    where theta_3 sign(phi) >= 0         else down
    wrist     down  where sin(theta_5) >= 0              else up

Why a branch can only change across a singularity. The shoulder plane z1 . p = d4 reads
r cos(phi) = d4 with r = |(p_x, p_y)|, so |phi| < pi/2 and phi changes sign through 0 only, where
r = d4: frame 5 on the cylinder, the shoulder singularity. In frame 1, p has x1 = -r sin(phi)
= a2 c2 + a3 c23 + d5 s234: a smooth function of the joints whose sign is that of -phi, which is
how it is computed here. theta_3 changes sign through 0 (arm stretched) or pi (arm folded), the
two elbow singularities; sin(theta_5) changes sign at the wrist singularity. Each label is thus
constant on any joint path that does not cross one of the three, however close it passes.

"""

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.forward import check_joints, jacobian
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.scalar import DOUBLE_ROOT, WRIST_SINGULAR
from ur5_pick_place.kinematics.transforms import Array

BRANCHES = tuple(
    '-'.join(names)
    for names in itertools.product(('left', 'right'), ('up', 'down'), ('down', 'up'))
)


def classify(m: Model, q: ArrayLike) -> NDArray[np.intp]:
    """
    Return the branch of joints as index into `BRANCHES`.

    Where two branches meet (a double root), it is the `left`, `up` or `down` one, as in `inverse`.
    A calibrated arm is classified by its nominal geometry, corrected near its own singularities.

    Parameters
    ----------
    m : Model
    q : array_like, shape (..., 6)
        Joint angles [rad].

    Returns
    -------
    ndarray of int, shape (...,)

    """
    joints = check_joints(q)
    theta = joints + m.offset
    x1, s3, s5 = shoulder_offset(m, theta), np.sin(theta[..., 2]), np.sin(theta[..., 4])
    if m.mounts is not None:
        x1, s3, s5 = _calibrated_signs(m, joints, np.stack([x1 / m.reach[1], s3, s5]))
    root = np.sqrt(DOUBLE_ROOT)
    left = x1 <= root * abs(m.d[3])
    up = (np.where(left, s3, -s3) >= 0.0) | (np.abs(s3) <= root)
    down = s5 >= -WRIST_SINGULAR
    return np.asarray(4 * ~left + 2 * ~up + ~down, dtype=np.intp)


def _calibrated_signs(
    m: Model, q: Array, nominal: Array
) -> Array:
    """
    Return the signs of the three distances to a singularity, (3, ...), for a calibrated arm.

    For the nominal arm det J is a2 a3 x1 sin(theta_3) sin(theta_5). Where det J of the calibrated
    arm has the other sign, the joints are on the other side of one of its own singularities: of
    the one that is nearest.

    """
    signs = np.where(nominal < 0.0, -1.0, 1.0)
    crossed = np.linalg.det(jacobian(m, q)) * m.a[1] * m.a[2] * signs.prod(axis=0) < 0.0
    nearest = np.abs(nominal) == np.abs(nominal).min(axis=0)
    return np.where(crossed & nearest, -signs, signs)


def shoulder_offset(m: Model, theta: Array) -> Array:
    """Return x of frame 5's origin in frame 1, -r sin(phi) [m], from DH angles (..., 6)."""
    t2 = theta[..., 1]
    t23 = t2 + theta[..., 2]
    t234 = t23 + theta[..., 3]
    offset: Array = (
        m.a[1] * np.cos(t2) + m.a[2] * np.cos(t23) + m.d[4] * np.sin(t234)
    )
    return offset


def branch_index(name: str) -> int:
    """Return the row of a branch by name, or raise `InvalidInput` naming the eight branches."""
    if name not in BRANCHES:
        raise InvalidInput(f'branch {name!r}: must be one of {", ".join(BRANCHES)}')
    return BRANCHES.index(name)
