# SPDX-License-Identifier: Apache-2.0
"""
Masses of the UR5's links, as published twice, and what its flange carries.

Centre and inertia of link i are in DH frame i, which turns with joint i. Both sources agree on the
centres and on all masses but the wrist's; neither knows the motors' rotors.

References
----------
'sheet': the parameter sheet of the UR5 (kinematics and dynamics), after Universal Robots, article
"DH Parameters for calculations of kinematics and dynamics".
'description': Universal_Robots_ROS2_Description, config/ur5/physical_parameters.yaml, which has
each link as a cylinder; turned here from the links' frames to DH frames.

"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import InvalidInput

Array = NDArray[np.float64]


class LinkInertia(NamedTuple):
    """
    One link.

    Attributes
    ----------
    mass : float
        [kg]
    centre : tuple of float
        Centre of gravity x, y, z in the link's DH frame [m].
    moments : tuple of float
        Ixx, Iyy, Izz about the centre, along the axes of the DH frame [kg m2].
    product_xz : float
        The one product of inertia that is not zero [kg m2].

    """

    mass: float
    centre: tuple[float, float, float]
    moments: tuple[float, float, float]
    product_xz: float = 0.0

    @property
    def inertia(self) -> Array:
        """Inertia about the centre, shape (3, 3) [kg m2]."""
        matrix = np.diag(self.moments)
        matrix[0, 2] = matrix[2, 0] = self.product_xz
        return matrix


UR5_LINKS: Mapping[str, tuple[LinkInertia, ...]] = {
    'sheet': (
        LinkInertia(3.7, (0.0, -0.02561, 0.00193), (0.0067, 0.0064, 0.0067)),
        LinkInertia(8.393, (0.2125, 0.0, 0.11336), (0.0149, 0.3564, 0.3553)),
        LinkInertia(2.33, (0.15, 0.0, 0.0265), (0.0025, 0.0551, 0.0546), product_xz=0.0034),
        LinkInertia(1.1219, (0.0, -0.0018, 0.01634), (0.0012, 0.0012, 0.0009)),
        LinkInertia(1.1219, (0.0, 0.0018, 0.01634), (0.0012, 0.0012, 0.0009)),
        LinkInertia(0.1879, (0.0, 0.0, -0.001159), (0.0001, 0.0001, 0.0001)),
    ),
    'description': (
        LinkInertia(3.7, (0.0, -0.02561, 0.00193), (0.014972358, 0.01040625, 0.014972358)),
        LinkInertia(8.393, (0.2125, 0.0, 0.11336), (0.0151074, 0.133885835, 0.133885835)),
        LinkInertia(2.33, (0.15, 0.0, 0.0265), (0.004095, 0.031216804, 0.031216804)),
        LinkInertia(1.219, (0.0, -0.0018, 0.01634), (0.00201389, 0.0021942, 0.00201389)),
        LinkInertia(1.219, (0.0, 0.0018, 0.01634), (0.00183104, 0.0021942, 0.00183104)),
        LinkInertia(0.1879, (0.0, 0.0, -0.001159), (0.0000806248, 0.0000806248, 0.0001321172)),
    ),
}


@dataclass(frozen=True, eq=False)
class Load:
    """
    What the flange carries: a tool, a part, or both as one.

    Attributes
    ----------
    mass : float
        [kg]
    centre : array_like, shape (3,)
        Centre of gravity in tool0 [m].
    inertia : array_like, shape (3, 3)
        About the centre, along the axes of tool0 [kg m2]; zero = all mass in the centre, which is
        what the robot itself assumes.

    Raises
    ------
    InvalidInput
        A negative mass, a number that is not finite, or a matrix that is no inertia.

    """

    mass: float
    centre: Array
    inertia: Array = field(default_factory=lambda: np.zeros((3, 3)))

    def __post_init__(self) -> None:
        if not 0.0 <= self.mass < np.inf:
            raise InvalidInput(f'load of {self.mass} kg: must be a finite mass, 0 or more')
        for name, shape in (('centre', (3,)), ('inertia', (3, 3))):
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.shape != shape or not np.isfinite(array).all():
                raise InvalidInput(f'load: {name} = {array.tolist()}: must be finite, {shape}')
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if (self.inertia != self.inertia.T).any() or np.linalg.eigvalsh(self.inertia)[0] < -1e-12:
            raise InvalidInput(
                f'load: inertia = {self.inertia.tolist()}: must be symmetric with no negative '
                'principal moment'
            )
