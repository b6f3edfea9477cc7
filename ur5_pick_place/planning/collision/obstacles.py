# SPDX-License-Identifier: Apache-2.0
"""Static obstacles, shape by shape: the boxes of the scene file and clients' objects."""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.shapes import Cuboid, Plane, Shape
from ur5_pick_place.planning.scene.world import shown


@dataclass(frozen=True)
class Obstacle:
    """
    A static shape.

    Attributes
    ----------
    name : str
        Its name in contacts.
    T_base_link : ndarray, shape (4, 4)
    shape : Shape

    """

    name: str
    T_base_link: Array
    shape: Shape


@dataclass(frozen=True)
class Face:
    """
    A plane with a solid half space behind it.

    Attributes
    ----------
    name : str
        Its name in contacts.
    normal : ndarray, shape (3,)
        Unit vector towards the arm.
    offset : float
        `normal @ x` of its points x [m].

    """

    name: str
    normal: Array
    offset: float


def object_name(id: str) -> str:
    """Return the name of a client's object in contacts."""
    return f'object {shown(id)}'


def find_obstacles(scene: Scene) -> list[Obstacle]:
    """Return all obstacles of finite size, that is without planes and the table."""
    return [
        *(Obstacle(box.name, box.T_base_link_box, Cuboid(box.size)) for box in scene.boxes),
        *(found for found in _clients(scene) if not isinstance(found.shape, Plane)),
    ]


def find_faces(model: Model, scene: Scene) -> list[Face]:
    """
    Return the planes of clients' objects, each with its normal towards the arm's shoulder.

    The base is fixed, so a part of the arm on the other side has passed through the plane.

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
