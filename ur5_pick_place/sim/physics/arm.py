# SPDX-License-Identifier: Apache-2.0
"""
The arms of the cell, from figures that UR publishes, and their TF tree.

`arms/<type>.yaml` has the figures of one type, in the link frames of UR's robot description: the
frame of a link follows that of the link before by `xyz` and `roll`, and turns about its own z.
They are no copy of the tables in `kinematics`, so that a wrong number there shows in the cell.

References
----------
Universal_Robots_ROS2_Description, urdf/ur_macro.xacro, for the fixed frames.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from ur5_pick_place.kinematics.transforms import Array, quat_from_matrix

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

JOINT_NAMES = (
    'shoulder_pan_joint',
    'shoulder_lift_joint',
    'elbow_joint',
    'wrist_1_joint',
    'wrist_2_joint',
    'wrist_3_joint',
)

CYCLE = 0.008
"""Control period of a CB3 robot and its driver [s]."""

_ARMS = Path(__file__).parents[1] / 'arms'
ARM_TYPES = tuple(sorted((file.stem for file in _ARMS.glob('*.yaml')), key=lambda s: (len(s), s)))


class Housing(NamedTuple):
    """A cylinder from `start` to `end` in its link [m], and the depth of a dome at its end."""

    start: Vector
    end: Vector
    radius: float
    dome: float


class Link(NamedTuple):
    """One link; `inertia` is xx, yy, zz, xy, xz, yz about the centre. The base has no joint."""

    name: str
    housings: tuple[Housing, ...]
    xyz: Vector = (0.0, 0.0, 0.0)
    roll: float = 0.0  # [rad]
    torque: float = 0.0  # largest [N m]
    mass: float = 0.0
    centre: Vector = (0.0, 0.0, 0.0)
    inertia: tuple[float, ...] = ()


@dataclass(frozen=True)
class Arm:
    """One type."""

    cycle: float  # control period of the robot and its driver [s]
    polyscope: str  # the software that it is sold with: '3' of a CB3 robot, or '5'
    payload: float  # rated [kg]
    code: int  # its robot type on the primary interface
    base: Link
    links: tuple[Link, ...]  # those that turn with joints 1 to 6

    @property
    def height(self) -> float:
        """Height of the elbow above the base with an upright upper arm [m]."""
        return self.links[0].xyz[2] + self._upper_arm

    @property
    def reach(self) -> float:
        """Distance from the shoulder to the end of the stretched forearm [m]."""
        return self._upper_arm + abs(self.links[3].xyz[0])

    @property
    def _upper_arm(self) -> float:
        return abs(self.links[2].xyz[0])


@cache
def load_arm(ur_type: str) -> Arm:
    """Return the arm of one of `ARM_TYPES`."""
    figures = yaml.safe_load((_ARMS / f'{ur_type}.yaml').read_text())
    if 'like' in figures:
        return replace(load_arm(figures.pop('like')), **figures)
    base, *links = (_link(name, entry) for name, entry in figures.pop('links').items())
    return Arm(base=base, links=tuple(links), **figures)


def _link(name: str, entry: Mapping[str, Any]) -> Link:
    rest: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
    }
    rest['roll'] = math.radians(rest.get('roll', 0.0))
    rest['housings'] = tuple(
        Housing(_metres(start), _metres(end), radius / 1e3, dome / 1e3)
        for start, end, radius, dome in entry['housings']
    )
    return Link(name, **rest)


def _metres(millimetres: Sequence[float]) -> Vector:
    x, y, z = (value / 1e3 for value in millimetres)
    return x, y, z


@dataclass(frozen=True)
class Frame:
    """Pose of `child` in `parent`: position [m] and quaternion x, y, z, w."""

    parent: str
    child: str
    position: Vector
    quat_xyzw: Quaternion


def fixed_frames(prefix: str = '', T_world_base_link: Array = np.eye(4)) -> list[Frame]:
    """
    Return the fixed frames; all names but `world` have the prefix.

    `T_world_base_link` (4, 4): where the arm is mounted.
    """
    here = (0.0, 0.0, 0.0)
    x, y, z = T_world_base_link[:3, 3].tolist()
    qx, qy, qz, qw = quat_from_matrix(T_world_base_link[:3, :3]).tolist()
    turned = (0.0, 0.0, 1.0, 0.0)  # pi about z: base_link is REP-103, base the controller's
    return [
        Frame('world', f'{prefix}base_link', (x, y, z), (qx, qy, qz, qw)),
        Frame(f'{prefix}base_link', f'{prefix}base_link_inertia', here, turned),
        Frame(f'{prefix}base_link', f'{prefix}base', here, turned),
        Frame(f'{prefix}wrist_3_link', f'{prefix}ft_frame', here, (1.0, 0.0, 0.0, 0.0)),
        Frame(f'{prefix}wrist_3_link', f'{prefix}flange', here, (-0.5, -0.5, -0.5, 0.5)),
        Frame(f'{prefix}flange', f'{prefix}tool0', here, (0.5, 0.5, 0.5, 0.5)),
    ]


def link_frames(arm: Arm, q: Sequence[float], prefix: str = '') -> list[Frame]:
    """Return the frames that move with the joints `q`, in controller order [rad]."""
    frames = []
    parent = f'{prefix}base_link_inertia'
    for link, angle in zip(arm.links, q, strict=True):
        child = f'{prefix}{link.name}_link'
        sa, ca = math.sin(link.roll / 2), math.cos(link.roll / 2)
        sq, cq = math.sin(angle / 2), math.cos(angle / 2)
        frames.append(Frame(parent, child, link.xyz, (sa * cq, -sa * sq, ca * sq, ca * cq)))
        parent = child
    return frames
