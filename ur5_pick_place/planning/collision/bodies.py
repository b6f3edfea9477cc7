# SPDX-License-Identifier: Apache-2.0
"""Collision bodies of arm, tool, load and scene, the pairs that can meet, and their lever arms."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.arm_shapes import LinkBody, arm_bodies, bodies_apart
from ur5_pick_place.kinematics.model import LINKS
from ur5_pick_place.kinematics.transforms import Array, make_transform
from ur5_pick_place.planning.collision.solids import hull_around, hull_of
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.shapes import Cuboid, Mesh, Plane, Shape
from ur5_pick_place.planning.scene.world import AttachedObject, shown

WORLD = -1  # the frame of bodies that do not move: base_link
_HAND = 6  # frame of wrist_3, the tool and the part
_WRIST_2 = 5


@dataclass(frozen=True)
class Body:
    """
    A body fixed to a link, which is convex, or to `WORLD`.

    Links in `may_touch` are not checked against it.

    """

    name: str
    link: int
    T_link_body: Array
    shape: Shape
    may_touch: frozenset[str] = frozenset()


def find_bodies(model: Model, scene: Scene) -> list[Body]:
    """Return the bodies of the arm, its base included, and of what it carries."""
    bodies = [_of_link(body) for body in arm_bodies(model)]
    for shape in scene.tool.shapes:
        bodies.append(Body(shape.name, _HAND, shape.T_tool_box, Cuboid(shape.size)))
    if scene.part is not None and scene.carried:
        T_tool_part = scene.tool.T_tool_tcp @ scene.part.T_tcp_part
        bodies.append(Body('part', _HAND, T_tool_part, Cuboid(scene.part.size)))
    for thing in scene.world.attached.values():
        bodies += _attached(thing)
    return bodies


@lru_cache(maxsize=256)
def _of_link(body: LinkBody) -> Body:
    """Return a body of the arm about the middle of its extents."""
    middle = (body.vertices.min(axis=0) + body.vertices.max(axis=0)) / 2
    T_link_body = make_transform(np.eye(3), middle)
    return Body(LINKS[body.link], body.link, T_link_body, hull_around(body.vertices - middle))


def attached_name(id: str) -> str:
    """Return the name of a client's attached object in contacts."""
    return f'attached object {shown(id)}'


def find_obstacles(model: Model, scene: Scene) -> Iterator[Body]:
    """
    Yield the static bodies, shape by shape, the table last.

    The normal of a plane is towards the arm's shoulder. The base is fixed, so a part of the arm on
    the other side has passed through the plane.

    """
    for box in scene.boxes:
        yield Body(box.name, WORLD, box.T_base_link_box, Cuboid(box.size))
    for thing in scene.world.objects.values():
        for placed, T in zip(thing.shapes, thing.poses(), strict=True):
            shape = placed.shape
            if isinstance(shape, Plane):
                shoulder = T[:3, :3].T @ ([0.0, 0.0, model.d[0]] - T[:3, 3])
                if shape.normal @ shoulder < shape.offset:
                    shape = Plane(-shape.normal, -shape.offset)
            yield Body(f'object {shown(thing.id)}', WORLD, T, shape)
    yield Body('table', WORLD, np.eye(4), Plane(np.array([0.0, 0.0, 1.0]), scene.table_height))


def _attached(thing: AttachedObject) -> list[Body]:
    bodies = []
    for placed in thing.shapes:
        shape, T = placed.shape, thing.T_tool_object @ placed.T_object_shape
        if isinstance(shape, Mesh):
            T = T @ make_transform(np.eye(3), shape.middle)
            shape = hull_of(shape)
        bodies.append(Body(attached_name(thing.id), _HAND, T, shape, thing.may_touch))
    return bodies


def find_own_pairs(model: Model, bodies: list[Body]) -> list[tuple[int, int]]:
    """Return the pairs of the arm's own bodies that can meet, the one nearer to the base first."""
    apart = bodies_apart(model)
    return [
        (a, b)
        for a, first in enumerate(bodies)
        for b, second in enumerate(bodies)
        if second.link > first.link
        and (a, b) not in apart
        and first.name not in second.may_touch
        and _can_meet(first, second)
    ]


def _can_meet(first: Body, second: Body) -> bool:
    if second.name not in LINKS:  # tool and part are fixed to the flange and may have any shape
        return first.link <= _WRIST_2
    return second.link - first.link > 1  # neighbours meet at their joint by design


def axis_distances(model: Model, body: Body) -> Array:
    """
    Return a bound on the distance of a body's points from each joint's axis, at any joints.

    It is the length of the chain from the axis to the body's frame, link by link, plus the
    distance of the body's farthest point. The first link counts without its offset along the axis.

    Returns (6,) [m], zero for joints that do not move the body.

    """
    to_axis = np.abs(model.a)
    along = model.d if model.mounts is None else np.linalg.norm(model.mounts[:, :3, 3], axis=1)
    steps = to_axis + np.abs(along)
    own = float(np.linalg.norm(body.T_link_body[:3, 3])) + body.shape.radius
    found = np.zeros(6)
    for joint in range(body.link):
        found[joint] = to_axis[joint] + steps[joint + 1 : body.link].sum() + own
    return found
