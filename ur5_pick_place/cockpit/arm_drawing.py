# SPDX-License-Identifier: Apache-2.0
"""Meshes of the arm, link by link, from its collision bodies; needs no ROS."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import trimesh
from numpy.typing import NDArray

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.arm_shapes import LINKS, Cylinder, arm_cylinders
from ur5_pick_place.kinematics.transforms import Array

Colour = tuple[int, int, int]

METAL: Colour = (198, 202, 206)
BLUE: Colour = (88, 142, 196)
_SIDES = 40
_CHAMFER = 0.12  # of the radius
_LID = 0.35  # of the radius: height of the blue lid of a joint's housing
_TUBE = 1.9  # length over diameter above which a cylinder is a tube, which has no lids


@dataclass(frozen=True)
class LinkMesh:
    """
    One mesh, fixed to a link.

    Attributes
    ----------
    link : int
        Index into `LINKS`; the DH frame to which it is fixed.
    vertices : ndarray, shape (n, 3)
        [m] in that frame.
    faces : ndarray of int, shape (m, 3)
    colour : tuple of int

    """

    link: int
    vertices: Array
    faces: NDArray[np.int64]
    colour: Colour


def arm_meshes(model: Model) -> list[LinkMesh]:
    """Return the meshes of an arm: its housings and tubes, and blue lids on the joints."""
    parts: dict[tuple[int, Colour], list[trimesh.Trimesh]] = {}
    for cylinder in arm_cylinders(model):
        for colour, mesh in _drawn(cylinder):
            mesh.apply_transform(cylinder.T_link_cylinder)
            parts.setdefault((cylinder.link, colour), []).append(mesh)
    meshes = []
    for (link, colour), pieces in parts.items():
        whole: Any = trimesh.util.concatenate(pieces)
        meshes.append(LinkMesh(link, np.array(whole.vertices), np.array(whole.faces), colour))
    return meshes


def _drawn(cylinder: Cylinder) -> list[tuple[Colour, trimesh.Trimesh]]:
    """Return a cylinder about its own axis, with lids where it is a joint's housing."""
    r, half = cylinder.radius, cylinder.length / 2
    is_tube = cylinder.length > _TUBE * 2 * r or LINKS[cylinder.link] == 'base'
    if is_tube:
        return [(METAL, _turned(0.92 * r, -half, half))]
    lid = min(_LID * r, 0.4 * half)
    return [
        (METAL, _turned(0.97 * r, -half + lid, half - lid)),
        (BLUE, _turned(r, half - lid, half)),
        (BLUE, _turned(r, -half, -half + lid)),
    ]


def _turned(r: float, low: float, high: float) -> trimesh.Trimesh:
    """Return a solid of revolution about z from `low` to `high`, with chamfered edges."""
    c = min(_CHAMFER * r, 0.4 * (high - low))
    outline = [(0.0, low), (r - c, low), (r, low + c), (r, high - c), (r - c, high), (0.0, high)]
    return trimesh.creation.revolve(np.array(outline), sections=_SIDES)
