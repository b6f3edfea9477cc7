# SPDX-License-Identifier: Apache-2.0
"""What the arm may run into: the scene file's boxes and clients' objects, shape by shape."""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.scene import Scene
from ur5_pick_place.planning.shapes import Cuboid, Plane, Shape
from ur5_pick_place.planning.world import shown


@dataclass(frozen=True)
class Obstacle:
    """
    A shape that stands still.

    Attributes
    ----------
    name : str
        In contacts.
    T_base_link : ndarray, shape (4, 4)
    shape : Shape

    """

    name: str
    T_base_link: Array
    shape: Shape


@dataclass(frozen=True)
class Face:
    """
    A plane beyond which all is solid.

    Attributes
    ----------
    name : str
        In contacts.
    normal : ndarray, shape (3,)
        Of length 1, to the arm's side.
    offset : float
        `normal @ x` of its points x [m].

    """

    name: str
    normal: Array
    offset: float


def object_name(id: str) -> str:
    """Return what a client's object is called in contacts."""
    return f'object {shown(id)}'


def find_obstacles(scene: Scene) -> list[Obstacle]:
    """Return all that have an end, planes and the table apart."""
    return [
        *(Obstacle(box.name, box.T_base_link_box, Cuboid(box.size)) for box in scene.boxes),
        *(found for found in _clients(scene) if not isinstance(found.shape, Plane)),
    ]


def find_faces(model: Model, scene: Scene) -> list[Face]:
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
        offset = float(normal @ placed.T_base_link[:3, 3] + placed.shape.offset)
        side = 1.0 if normal @ shoulder >= offset else -1.0
        found.append(Face(placed.name, side * normal, side * offset))
    return found


def _clients(scene: Scene) -> list[Obstacle]:
    return [
        Obstacle(object_name(thing.id), T, placed.shape)
        for thing in scene.world.objects.values()
        for placed, T in zip(thing.shapes, thing.poses(), strict=True)
    ]
