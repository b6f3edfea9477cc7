# SPDX-License-Identifier: Apache-2.0
"""Collision bodies of arm, tool and load, the pairs that can meet, and their lever arms."""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.arm_shapes import LINKS, arm_cylinders
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.solids import hull_of
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.shapes import Cuboid, Cylinder, Mesh, Shape
from ur5_pick_place.planning.scene.world import AttachedObject, shown

_HAND = 6  # frame of wrist_3, the tool and the part
_WRIST_2 = 5
# Neighbours meet at their joint by design. The upper arm swings beside the base and stays at least
# the base's radius from its axis. wrist_2 keeps wrist_1 and wrist_3 sqrt(d5^2 + d6^2) apart at any
# joints.
_NEVER = {(0, 2), (4, 6)}


@dataclass(frozen=True)
class Body:
    """A convex body fixed to a link; links in `may_touch` are not checked against it."""

    name: str
    link: int
    T_link_body: Array
    shape: Shape
    may_touch: frozenset[str] = frozenset()

    @property
    def half(self) -> Array:
        """Half of its extents (3,) [m]."""
        return self.shape.half

    @property
    def radius(self) -> float:
        """Radius of the bounding sphere about its origin [m]."""
        return self.shape.radius


def find_bodies(model: Model, scene: Scene) -> list[Body]:
    """Return the bodies of the arm, its base included, and of what it carries."""
    bodies = [
        Body(
            LINKS[c.link], c.link, c.T_link_cylinder, Cylinder(c.radius, c.length)
        )
        for c in arm_cylinders(model)
    ]
    for shape in scene.tool.shapes:
        bodies.append(Body(shape.name, _HAND, shape.T_tool_box, Cuboid(shape.size)))
    if scene.part is not None and scene.carried:
        T_tool_part = scene.tool.T_tool_tcp @ scene.part.T_tcp_part
        bodies.append(Body('part', _HAND, T_tool_part, Cuboid(scene.part.size)))
    for thing in scene.world.attached.values():
        bodies += _attached(thing)
    return bodies


def attached_name(id: str) -> str:
    """Return the name of a client's attached object in contacts."""
    return f'attached object {shown(id)}'


def _attached(thing: AttachedObject) -> list[Body]:
    return [
        Body(
            attached_name(thing.id),
            _HAND,
            thing.T_tool_object @ placed.T_object_shape,
            hull_of(placed.shape) if isinstance(placed.shape, Mesh) else placed.shape,
            thing.may_touch,
        )
        for placed in thing.shapes
    ]


def find_own_pairs(bodies: list[Body]) -> list[tuple[int, int]]:
    """Return the pairs of the arm's own bodies that can meet, the one nearer to the base first."""
    return [
        (a, b)
        for a, first in enumerate(bodies)
        for b, second in enumerate(bodies)
        if second.link > first.link
        and first.name not in second.may_touch
        and _can_meet(first, second)
    ]


def _can_meet(first: Body, second: Body) -> bool:
    if second.name not in LINKS:  # tool and part are fixed to the flange and may have any shape
        return first.link <= _WRIST_2
    return second.link - first.link > 1 and (first.link, second.link) not in _NEVER


def axis_distances(model: Model, body: Body) -> Array:
    """
    Return a bound on the distance of a body's points from each joint's axis, at any joints.

    It is the length of the chain from the axis to the body's frame, link by link, plus the
    distance of the body's farthest point. The first link counts without its offset along the axis.

    Returns
    -------
    ndarray, shape (6,)
        [m]; zero for joints that do not move the body.

    """
    to_axis = np.abs(model.a)
    along = model.d if model.mounts is None else np.linalg.norm(model.mounts[:, :3, 3], axis=1)
    steps = to_axis + np.abs(along)
    own = float(np.linalg.norm(body.T_link_body[:3, 3])) + body.radius
    found = np.zeros(6)
    for joint in range(body.link):
        found[joint] = to_axis[joint] + steps[joint + 1 : body.link].sum() + own
    return found
