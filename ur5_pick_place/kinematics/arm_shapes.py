# SPDX-License-Identifier: Apache-2.0
"""
Collision bodies of the arm: cylinders around the housings and tubes of every UR type.

The dimensions enclose the manufacturer's collision meshes to within 1 mm (measured on 5 mm surface
samples of Universal_Robots_ROS2_Description 2.4.5, meshes/<type>/collision), rounded up to whole
millimetres. Only the cable socket behind the base of ur3 and ur5 (35 mm) protrudes; where
something can reach it, add a box to the scene.

Cylinders are wider than meshes. Of 700 random configurations they accepted none in which the
meshes touch, and refused 7 % (ur5), 11 % (ur3) and 22 % (ur5e) in which the meshes are 5 mm apart,
most of them with the wrist folded back onto the forearm.

"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import Array, make_transform

LINKS = ('base', 'shoulder', 'upper_arm', 'forearm', 'wrist_1', 'wrist_2', 'wrist_3')


@dataclass(frozen=True)
class Cylinder:
    """
    One cylinder of the arm, its axis along its own z.

    Attributes
    ----------
    link : int
        DH frame to which it is fixed, an index into `LINKS`.
    T_link_cylinder : ndarray, shape (4, 4)
        Pose of its centre in that frame.
    radius, length : float
        [m]

    """

    link: int
    T_link_cylinder: Array
    radius: float
    length: float


class _Dimensions(NamedTuple):
    """
    Measured dimensions of one type, all in millimetres; y and z are axes of the link's DH frame.

    base: radius, height. shoulder: radius, half length along y, end along z. upper_arm: radii of
    the housings at shoulder and elbow and of the tube, span along z (parallel to joints 2 and 3).
    forearm: the same at elbow and wrist. wrist_1, wrist_2: radius, half lengths along y and z.
    wrist_3: radius, depth behind the flange.

    """

    base: tuple[float, float]
    shoulder: tuple[float, float, float]
    upper_arm: tuple[float, float, float, float, float]
    forearm: tuple[float, float, float, float, float]
    wrist_1: tuple[float, float, float]
    wrist_2: tuple[float, float, float]
    wrist_3: tuple[float, float]


_UR3 = _Dimensions(
    (65, 86), (46, 66, 54), (46, 39, 49, 54, 177), (40, 32, 34, -19, 78),
    (34, 47, 47), (33, 47, 48), (36, 42),
)
_UR5 = _Dimensions(
    (74, 24), (60, 69, 71), (60, 60, 60, 70, 205), (62, 39, 42, -41, 71),
    (39, 46, 57), (39, 46, 57), (43, 35),
)
_UR10 = _Dimensions(
    (95, 38), (77, 89, 86), (77, 63, 77, 86, 263), (62, 47, 58, -20, 117),
    (46, 54, 62), (46, 54, 62), (46, 31),
)
_UR3E = _Dimensions(
    (64, 95), (56, 58, 63), (49, 39, 71, 63, 178), (38, 34, 56, -20, 78),
    (42, 54, 50), (39, 36, 51), (38, 42),
)
_UR5E = _Dimensions(
    (76, 99), (70, 72, 75), (61, 60, 93, 60, 210), (59, 39, 78, -50, 61),
    (51, 74, 57), (46, 46, 57), (44, 46),
)
_UR10E = _Dimensions(
    (95, 100), (90, 94, 95), (77, 60, 114, 94, 270), (59, 46, 79, -19, 107),
    (59, 69, 67), (56, 54, 68), (52, 49),
)
_BY_TYPE = {
    'ur3': _UR3, 'ur3_lab': _UR3, 'ur5': _UR5, 'ur10': _UR10,
    'ur3e': _UR3E, 'ur5e': _UR5E, 'ur10e': _UR10E, 'ur16e': _UR10E,
}
_UR5_REACH = 0.425 + 0.39225  # [m]


def arm_cylinders(model: Model) -> tuple[Cylinder, ...]:
    """
    Return the collision bodies of an arm.

    A model of no known type gets the UR5's dimensions, scaled by the length of upper arm and
    forearm.

    """
    upper, fore = -float(model.a[1]), -float(model.a[2])
    side = math.copysign(1.0, model.d[3])  # upper arm and forearm lie on joint 4's side
    size = _BY_TYPE.get(model.name, _UR5)
    known = model.name in _BY_TYPE
    scale = 1e-3 * (1.0 if known else (abs(upper) + abs(fore)) / _UR5_REACH)
    base, shoulder, upper_arm, forearm, wrist_1, wrist_2, wrist_3 = (
        tuple(scale * value for value in part) for part in size
    )
    return (
        _cylinder(0, 'z', base[0], 0.0, base[1]),
        _cylinder(1, 'y', shoulder[0], -shoulder[1], shoulder[1]),
        _cylinder(1, 'z', shoulder[0], 0.0, shoulder[2] * side),
        *_long_link(2, upper, side, *upper_arm),
        *_long_link(3, fore, side, *forearm),
        _cylinder(4, 'y', wrist_1[0], -wrist_1[1], wrist_1[1]),
        _cylinder(4, 'z', wrist_1[0], -wrist_1[2], wrist_1[2]),
        _cylinder(5, 'y', wrist_2[0], -wrist_2[1], wrist_2[1]),
        _cylinder(5, 'z', wrist_2[0], -wrist_2[2], wrist_2[2]),
        _cylinder(6, 'z', wrist_3[0], -wrist_3[1], 0.0),
    )


def _long_link(
    link: int, length: float, side: float, r_near: float, r_far: float, r_tube: float,
    low: float, high: float,
) -> tuple[Cylinder, ...]:
    """Return two housings along z, the near one at `length` on x, and the tube between them."""
    low, high = low * side, high * side
    return (
        _cylinder(link, 'z', r_near, low, high, (length, 0.0, 0.0)),
        _cylinder(link, 'z', r_far, low, high),
        _cylinder(link, 'x', r_tube, 0.0, length, (0.0, 0.0, (low + high) / 2)),
    )


_ALONG = {  # rotation that takes z to the axis
    'x': np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]),
    'y': np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
    'z': np.eye(3),
}


def _cylinder(
    link: int,
    axis: str,
    radius: float,
    low: float,
    high: float,
    through: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Cylinder:
    """Return a cylinder from `low` to `high` along an axis of the link, through a point."""
    rotation = _ALONG[axis]
    centre = np.array(through) + rotation[:, 2] * (low + high) / 2
    return Cylinder(link, make_transform(rotation, centre), radius, abs(high - low))
