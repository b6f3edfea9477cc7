# SPDX-License-Identifier: Apache-2.0
"""
Bodies of the arm: convex polytopes that follow the links of every UR type.

`arm_shapes.json` has their vertices. They were fitted to the collision meshes of
Universal_Robots_ROS2_Description 2.4.5 (meshes/<type>/collision), which for ur3e, ur5e, ur10e,
ur16e, ur20 and ur30 are the convex hulls of the links or of their parts; those of the ur15 to its
visual meshes. ur18 and ur8long have the ur15's base, shoulder and wrists, and its upper arm and
forearm with longer or shorter tubes. Meshes were cut first: of ur3, ur5 and ur10 a link with two
axes into the points within its radius about either axis, an upper arm or forearm into its two
housings, its tube and their collars, the cable socket off the base; of the others the housing at
the shoulder off the upper arm. The body of each part is a polytope around its convex hull. Planes
that touch the hull were added where a corner was farthest from it, until no corner was more than
2.4 mm (ur3, ur5, ur10) or 3.3 mm away; planes that this does not need were left out again, and
vertices rounded outwards to 0.1 mm. Where a body was still more than 5 mm from its mesh, planes
cut that off (cable sockets, collars of the upper arms of ur5 and ur10, housings of the forearms
of ur3 and ur10).

No point of a mesh is outside the bodies. No point of their surface is more than 5 mm from the
mesh, but for hollows in a link's end that no other link enters (8 mm deep; 22 mm below the base
of the ur3). On ur15, ur18, ur8long, ur20 and ur30 upper arm and forearm are in five pieces each,
and hollows between them and in open ends are filled: up to 20 mm deep.
"""

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ur5_pick_place.kinematics.model import ARMS, LINKS, Model
from ur5_pick_place.kinematics.transforms import Array

_UPPER_ARM, _FOREARM = 2, 3
_LONG = {_UPPER_ARM: 0.425, _FOREARM: 0.39225}  # lengths on the ur5 [m]


@dataclass(frozen=True, eq=False)
class LinkBody:
    """One convex body of the arm."""

    link: int  # DH frame to which it is fixed, an index into `LINKS`
    vertices: Array  # (n, 3) [m] in that frame


def arm_bodies(model: Model) -> tuple[LinkBody, ...]:
    """
    Return the bodies of an arm; the same ones for equal arms.

    A model of no known type gets the ur5's, scaled by the length of upper arm and forearm.
    """
    if model.name in _fitted() or model.name in ARMS:
        return _bodies(model.name)
    return _scaled(-float(model.a[1]), -float(model.a[2]), math.copysign(1.0, model.d[3]))


def bodies_apart(model: Model) -> frozenset[tuple[int, int]]:
    """
    Return pairs of `arm_bodies`, by index, that are 5 mm apart at any joints.

    None of an arm of no known type.
    """
    pairs = _fitted().get(_same(model.name), {}).get('apart', ())
    return frozenset((int(a), int(b)) for a, b in pairs)


@lru_cache
def _fitted() -> dict[str, dict[str, list[list[float]]]]:
    """
    Return for each type and link the coordinates of each body, x y z x y z ... [0.1 mm].

    A type has the links of the one that it is `like`, but for those of its own. The entry `apart`
    has pairs of bodies instead.
    """
    found = json.loads(Path(__file__).with_suffix('.json').read_text())
    return {
        name: {**found.get(own.pop('like', ''), {}), 'apart': [], **own}
        for name, own in found.items()
    }


def _same(name: str) -> str:
    """Return the type whose bodies an arm has: its own, or those of the one that it is `like`."""
    return name if name in _fitted() else str(ARMS.get(name, {}).get('like', name))


@lru_cache
def _bodies(name: str) -> tuple[LinkBody, ...]:
    return tuple(
        LinkBody(LINKS.index(link), 1e-4 * np.array(body, dtype=float).reshape(-1, 3))
        for link, bodies in _fitted().get(_same(name), {}).items()
        if link != 'apart'
        for body in bodies
    )


@lru_cache(maxsize=8)
def _scaled(upper: float, fore: float, side: float) -> tuple[LinkBody, ...]:
    """Return the ur5's bodies for other lengths [m], mirrored where joint 4 is on `side` -1."""
    scale = (abs(upper) + abs(fore)) / sum(_LONG.values())
    lengths = {_UPPER_ARM: upper, _FOREARM: fore}
    found = []
    for body in _bodies('ur5'):
        vertices = scale * body.vertices
        if body.link in _LONG:
            far = body.vertices[:, 0] > _LONG[body.link] / 2
            vertices[far, 0] += lengths[body.link] - scale * _LONG[body.link]
        if body.link > _FOREARM:  # to whichever side the wrist is mounted
            vertices = np.vstack([vertices, vertices * [1, -1, 1], vertices * [1, 1, -1]])
        else:
            vertices = vertices * [1, 1, side]
        found.append(LinkBody(body.link, vertices))
    return tuple(found)
