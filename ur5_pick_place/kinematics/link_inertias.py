# SPDX-License-Identifier: Apache-2.0
"""
Published masses and inertias of the links of every UR type, and the payloads they are rated for.

Centre and inertia of link i are in DH frame i, which turns with joint i. No source has the rotors.

References
----------
ur5: its parameter sheet (kinematics and dynamics), after Universal Robots, article "DH Parameters
for calculations of kinematics and dynamics".
All others: Universal_Robots_ROS2_Description, config/<type>/physical_parameters.yaml at 2221ec0,
rotated here from link frames to DH frames. It models the links of ur3, ur3e and ur5e as cylinders.
Payloads: Universal Robots, technical details of each type.

"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array


class LinkInertia(NamedTuple):
    """Mass, centre and inertia of one link."""

    mass: float  # [kg]
    centre: tuple[float, float, float]  # centre of gravity x, y, z in the link's DH frame [m]
    # ixx, Iyy, Izz and Ixy, Ixz, Iyz about the centre, along the axes of the DH frame [kg m2]
    moments: tuple[float, float, float]
    products: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def inertia(self) -> Array:
        """Inertia about the centre, shape (3, 3) [kg m2]."""
        (xx, yy, zz), (xy, xz, yz) = self.moments, self.products
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


LINKS: Mapping[str, tuple[LinkInertia, ...]] = {
    'ur3': (
        LinkInertia(2.0, (0.0, -0.02, 0.0), (0.0080931667, 0.005625, 0.0080931667)),
        LinkInertia(3.42, (0.13, 0.0, 0.1157), (0.00961875, 0.0217284919, 0.0217284919)),
        LinkInertia(1.26, (0.05, 0.0, 0.0238), (0.00354375, 0.0065468091, 0.0065468091)),
        LinkInertia(0.8, (0.0, 0.0, 0.01), (0.0016106415, 0.00225, 0.0016106415)),
        LinkInertia(0.8, (0.0, 0.0, 0.01), (0.001572174, 0.00225, 0.001572174)),
        LinkInertia(0.35, (0.0, 0.0, -0.02), (0.0001362667, 0.0001362667, 0.0001792)),
    ),
    'ur5': (
        LinkInertia(3.7, (0.0, -0.02561, 0.00193), (0.0067, 0.0064, 0.0067)),
        LinkInertia(8.393, (0.2125, 0.0, 0.11336), (0.0149, 0.3564, 0.3553)),
        LinkInertia(2.33, (0.15, 0.0, 0.0265), (0.0025, 0.0551, 0.0546), (0.0, 0.0034, 0.0)),
        LinkInertia(1.1219, (0.0, -0.0018, 0.01634), (0.0012, 0.0012, 0.0009)),
        LinkInertia(1.1219, (0.0, 0.0018, 0.01634), (0.0012, 0.0012, 0.0009)),
        LinkInertia(0.1879, (0.0, 0.0, -0.001159), (0.0001, 0.0001, 0.0001)),
    ),
    'ur10': (
        LinkInertia(
            7.1, (0.021, 0.0, 0.027), (0.03408, 0.03529, 0.02156), (2e-05, -0.00425, 8e-05)
        ),
        LinkInertia(
            12.7, (0.38, 0.0, 0.158), (0.02814, 0.77068, 0.76943), (5e-05, -0.01561, 2e-05)
        ),
        LinkInertia(
            4.27, (0.24, 0.0, 0.068), (0.01014, 0.30928, 0.30646), (8e-05, 0.00916, 0.0)
        ),
        LinkInertia(
            2.0, (0.0, 0.007, 0.018), (0.00296, 0.00222, 0.00258), (-1e-05, 0.0, -0.00024)
        ),
        LinkInertia(
            2.0, (0.0, 0.007, 0.018), (0.00296, 0.00222, 0.00258), (-1e-05, 0.0, -0.00024)
        ),
        LinkInertia(0.365, (0.0, 0.0, -0.026), (0.0004, 0.00041, 0.00034)),
    ),
    'ur3e': (
        LinkInertia(1.98, (0.0, -0.02, 0.0), (0.0080931667, 0.005625, 0.0080931667)),
        LinkInertia(3.4445, (0.13, 0.0, 0.1157), (0.00961875, 0.0217284919, 0.0217284919)),
        LinkInertia(1.437, (0.05, 0.0, 0.0238), (0.00354375, 0.0065445702, 0.0065445702)),
        LinkInertia(0.871, (0.0, 0.0, 0.01), (0.002085, 0.00225, 0.002085)),
        LinkInertia(0.805, (0.0, 0.0, 0.01), (0.002085, 0.00225, 0.002085)),
        LinkInertia(0.261, (0.0, 0.0, -0.02), (0.0001362667, 0.0001362667, 0.0001792)),
    ),
    'ur5e': (
        LinkInertia(3.761, (0.0, -0.02561, 0.00193), (0.0102675, 0.00666, 0.0102675)),
        LinkInertia(8.058, (0.2125, 0.0, 0.11336), (0.0151074, 0.1338858354, 0.1338858354)),
        LinkInertia(2.846, (0.15, 0.0, 0.0265), (0.004095, 0.0312093676, 0.0312093676)),
        LinkInertia(1.37, (0.0, -0.0018, 0.01634), (0.0025599, 0.0021942, 0.0025599)),
        LinkInertia(1.3, (0.0, 0.0018, 0.01634), (0.0025599, 0.0021942, 0.0025599)),
        LinkInertia(0.365, (0.0, 0.0, -0.001159), (9.89041e-05, 9.89041e-05, 0.0001321172)),
    ),
    'ur10e': (
        LinkInertia(
            7.369, (0.021, 0.0, 0.027), (0.03408, 0.03529, 0.02156), (2e-05, -0.00425, 8e-05)
        ),
        LinkInertia(
            13.051, (0.38, 0.0, 0.158), (0.02814, 0.77068, 0.76943), (5e-05, -0.01561, 2e-05)
        ),
        LinkInertia(
            3.989, (0.24, 0.0, 0.068), (0.01014, 0.30928, 0.30646), (8e-05, 0.00916, 0.0)
        ),
        LinkInertia(
            2.1, (0.0, 0.007, 0.018), (0.00296, 0.00222, 0.00258), (-1e-05, 0.0, -0.00024)
        ),
        LinkInertia(
            1.98, (0.0, 0.007, 0.018), (0.00296, 0.00222, 0.00258), (-1e-05, 0.0, -0.00024)
        ),
        LinkInertia(0.615, (0.0, 0.0, -0.026), (0.0004, 0.00041, 0.00034)),
    ),
    'ur16e': (
        LinkInertia(
            7.369, (0.0, -0.016, 0.03), (0.03351, 0.03374, 0.021), (2e-05, -1e-05, 0.00374)
        ),
        LinkInertia(
            10.45, (0.302, 0.0, 0.16), (0.02796, 0.47558, 0.47635), (-0.0001, -0.0072, 3e-05)
        ),
        LinkInertia(
            4.321, (0.194, 0.0, 0.065), (0.01091, 0.1206, 0.11714), (6e-05, 0.01012, 1e-05)
        ),
        LinkInertia(
            2.18, (0.0, -0.009, 0.011), (0.00609, 0.00245, 0.00579), (-1e-05, 0.0, 0.00083)
        ),
        LinkInertia(
            2.033, (0.0, 0.018, 0.012), (0.00389, 0.00219, 0.00363), (-1e-05, 0.0, -0.00045)
        ),
        LinkInertia(0.907, (0.0, 0.0, -0.044), (0.00117, 0.00118, 0.00084)),
    ),
}
"""By robot type, links 1 to 6."""

PAYLOADS: Mapping[str, float] = {
    'ur3': 3.0, 'ur5': 5.0, 'ur10': 10.0, 'ur3e': 3.0, 'ur5e': 5.0, 'ur10e': 12.5, 'ur16e': 16.0,
}
"""By robot type, the largest mass at the flange [kg]: tool and part together."""

# A caller's own DH table gets the UR5's inertias, as it gets its limits.
_SAME_AS = {'dh': 'ur5', 'ur3_lab': 'ur3'}


def link_inertias(arm: str) -> tuple[LinkInertia, ...]:
    """
    Return the six link inertias of an arm.

    `arm`: `Model.name`.

    Raises `InvalidInput`: they are unknown; names the arms whose inertias are known.

    """
    kind = _SAME_AS.get(arm, arm)
    if kind not in LINKS:
        raise InvalidInput(f'inertias of {arm!r}: must be those of one of {", ".join(LINKS)}')
    return LINKS[kind]


def rated_payload(arm: str) -> float:
    """Return the payload of an arm by its `Model.name` [kg]."""
    return PAYLOADS[_SAME_AS.get(arm, arm)]
