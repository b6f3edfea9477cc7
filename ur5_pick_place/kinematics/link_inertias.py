# SPDX-License-Identifier: Apache-2.0
"""
Published masses and inertias of the links of every UR type.

They are in `arms.json`. Centre and inertia of link i are in DH frame i, which turns with joint i.
No source has the rotors.

References
----------
All from Universal_Robots_ROS2_Description, config/<type>/physical_parameters.yaml, rotated here
from link frames to DH frames, but for what follows. At 2221ec0: ur3 (its links as cylinders),
ur10, ur10e, ur12e, ur16e, ur20, masses of ur5 and ur30. At 3426d67: tensors of ur3e and ur5e; the
ur7e has the ur5e's. At 2cb0bf1: ur15. At 6ffee81: ur18, no second source. From its ROS 1 port at
31e2294: ur8long, no second source.
Centres and tensors of ur5: its parameter sheet (kinematics and dynamics), which has 1.1219 kg for
links 4 and 5. Tensors of ur30, and mass and centre of link 6 of ur20: Universal Robots, article
"DH Parameters for calculations of kinematics and dynamics" (the description repeats others').
"""

from typing import Any, NamedTuple

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.model import ARMS
from ur5_pick_place.kinematics.transforms import Array

# A caller's own DH table gets the UR5's inertias, as it gets its limits.
_SAME_AS = {'dh': 'ur5', 'ur3_lab': 'ur3'}


class LinkInertia(NamedTuple):
    """Mass, centre and inertia of one link."""

    mass: float  # [kg]
    centre: Array  # (3,) centre of gravity in the link's DH frame [m]
    inertia: Array  # (3, 3) about the centre, along the axes of the DH frame [kg m2]


def link_inertias(arm: str) -> tuple[LinkInertia, ...]:
    """
    Return the six link inertias of an arm by its `Model.name`.

    Raises `InvalidInput`: they are unknown; names the arms whose inertias are known.
    """
    return tuple(
        LinkInertia(link['mass'], np.array(link['centre']), _matrix(*link['inertia']))
        for link in _figures(arm)['links']
    )


def _figures(arm: str) -> dict[str, Any]:
    kind = _SAME_AS.get(arm, arm)
    if kind not in ARMS:
        raise InvalidInput(f'inertias of {arm!r}: must be those of one of {", ".join(ARMS)}')
    return ARMS[kind]


def _matrix(xx: float, yy: float, zz: float, xy: float, xz: float, yz: float) -> Array:
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
