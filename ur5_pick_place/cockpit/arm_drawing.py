# SPDX-License-Identifier: Apache-2.0
"""Meshes of the arm, link by link, from its collision bodies; needs no ROS."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import trimesh
from numpy.typing import NDArray

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.arm_shapes import arm_bodies
from ur5_pick_place.kinematics.transforms import Array

Colour = tuple[int, int, int]

METAL: Colour = (198, 202, 206)


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
    """Return the meshes of an arm, one for each of its collision bodies."""
    meshes = []
    for body in arm_bodies(model):
        hull: Any = trimesh.convex.convex_hull(body.vertices)
        meshes.append(LinkMesh(body.link, np.array(hull.vertices), np.array(hull.faces), METAL))
    return meshes
