# SPDX-License-Identifier: Apache-2.0
"""What the arm may run into: the scene file's boxes and clients' objects, shape by shape."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics import Model
from ur5_pick_place.planning.scene import Scene
from ur5_pick_place.planning.shapes import Cuboid, Plane, Shape
from ur5_pick_place.planning.world import shown

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Obstacle:
    """
    A shape that stands still.

    Attributes
    ----------
    name : str
        In contacts.
    T_base_link : ndarray, shape (4, 4)
        Pose of the shape; of a plane: its z is the normal on the arm's side.
    shape : Shape or None
        None for a plane.

    """

    name: str
    T_base_link: Array
    shape: Shape | None = None


def object_name(id: str) -> str:
    """Return what a client's object is called in contacts."""
    return f'object {shown(id)}'


def find_obstacles(scene: Scene) -> list[Obstacle]:
    """Return all that have an end, planes and the table apart."""
    return [
        *(Obstacle(box.name, box.T_base_link_box, Cuboid(box.size)) for box in scene.boxes),
        *(found for found in _clients(scene) if not isinstance(found.shape, Plane)),
    ]


def find_planes(model: Model, scene: Scene) -> list[Obstacle]:
    """
    Return the planes of clients' objects, each with its normal to the side of the arm's shoulder.

    The arm is one piece and its base stays: what reaches to the other side has gone through.

    """
    shoulder = np.array([0.0, 0.0, model.d[0]])
    found = []
    for placed in _clients(scene):
        if not isinstance(placed.shape, Plane):
            continue
        normal = placed.T_base_link[:3, :3] @ placed.shape.normal
        p = placed.T_base_link[:3, 3] + normal * placed.shape.offset
        if normal @ (shoulder - p) < 0.0:
            normal = -normal
        T = np.eye(4)
        T[:3, 2], T[:3, 3] = normal, p
        found.append(Obstacle(placed.name, T))
    return found


def _clients(scene: Scene) -> list[Obstacle]:
    return [
        Obstacle(object_name(thing.id), T, placed.shape)
        for thing in scene.world.objects.values()
        for placed, T in zip(thing.shapes, thing.poses(), strict=True)
    ]
