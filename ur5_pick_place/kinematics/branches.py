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
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import _ik
from ur5_pick_place.kinematics.forward import check_joints, jacobian
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import Array

BRANCHES = tuple(
    '-'.join(names)
    for names in itertools.product(('left', 'right'), ('up', 'down'), ('down', 'up'))
)


def classify(m: Model, q: ArrayLike) -> NDArray[np.intp]:
    """
    Return the branch of joints as index into `BRANCHES`, shape (...).

    Where two branches meet (a double root), it is the `left`, `up` or `down` one, as in `inverse`.
    A calibrated arm is classified by its nominal geometry, corrected near its own singularities:
    where det J has another sign than the nominal arm's, the joints are on the other side of one
    of them, and it is the nearest.

    `q` (..., 6): joint angles [rad].
    """
    joints = check_joints(q)
    branch = np.empty(joints.shape[:-1], dtype=np.intp)
    _ik.classify(m.arm, np.ascontiguousarray(joints).reshape(-1, 6), branch.reshape(-1))
    return branch


def branch_index(name: str) -> int:
    """Return the row of a branch by name, or raise `InvalidInput` naming the eight branches."""
    if name not in BRANCHES:
        raise InvalidInput(f'branch {name!r}: must be one of {", ".join(BRANCHES)}')
    return BRANCHES.index(name)


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


# Near each singularity: from these distances on, in the unit of the field.
_NEAR = {'shoulder': (0.02, 'm'), 'elbow': (0.3, 'rad'), 'wrist': (0.15, 'rad')}


class NearestSingularity(NamedTuple):
    """The singularity that is nearest at some joints."""

    name: str  # 'shoulder', 'elbow' or 'wrist'
    text: str  # such as '0.012 m from its shoulder singularity'
    is_near: bool


def nearest_singularity(m: Model, q: ArrayLike) -> NearestSingularity:
    """Return the singularity that is nearest at joints (6,) [rad], in shares of what is near."""
    found = singularity(m, q)._asdict()
    name = min(_NEAR, key=lambda name: float(found[name]) / _NEAR[name][0])
    distance, (near, unit) = float(found[name]), _NEAR[name]
    text = f'{distance:.3f} {unit} from its {name} singularity'
    return NearestSingularity(name, text, distance < near)


def _shoulder_offset(m: Model, theta: Array) -> Array:
    """Return x of frame 5's origin in frame 1, -r sin(phi) [m], from DH angles (..., 6)."""
    t2 = theta[..., 1]
    t23 = t2 + theta[..., 2]
    t234 = t23 + theta[..., 3]
    offset: Array = m.a[1] * np.cos(t2) + m.a[2] * np.cos(t23) + m.d[4] * np.sin(t234)
    return offset


def _to_multiple_of_pi(angle: Array) -> Array:
    return np.abs(angle - np.pi * np.round(angle / np.pi))
