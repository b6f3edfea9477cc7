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
from ur5_pick_place.kinematics import _ik
from ur5_pick_place.kinematics.forward import check_joints
from ur5_pick_place.kinematics.model import Model

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
