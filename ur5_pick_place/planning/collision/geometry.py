# SPDX-License-Identifier: Apache-2.0
"""
The bodies of one arm in one scene for pinocchio and coal, and tests of their clearance.

Bodies are those of arm, tool, load and scene; pairs of them that can meet have lever arms.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import coal
import numpy as np
import pinocchio as pin

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.arm_shapes import LinkBody, arm_bodies, bodies_apart
from ur5_pick_place.kinematics.model import LINKS
from ur5_pick_place.kinematics.transforms import Array, make_transform
from ur5_pick_place.planning.collision.solids import (
    Cavity,
    ball_in,
    hull_around,
    hull_of,
    solid_of,
)
from ur5_pick_place.planning.dynamics import chain
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
    yield Body('table', WORLD, np.eye(4), Plane(scene.mounting.up, scene.table_height))


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


_POINT = 1e-9  # [m], radius of a sphere that stands for a point
_HALF_TURN = pin.SE3(np.diag([-1.0, -1.0, 1.0]), np.zeros(3))  # of `base` in base_link


class Geometry:
    """
    Bodies, the pairs of them that may meet, and how fast these can approach each other.

    - `pairs`: names of the two bodies of each pair; a link's several bodies share its name
    - `is_own` (P,): pairs of the arm's own bodies, tool and part included
    - `levers` (6,), `pair_levers` (P, 6): bounds on the motion of any point of the arm, and on the
      change of each pair's distance, per turn of each joint [m/rad]
    """

    def __init__(self, model: Model, scene: Scene) -> None:
        arm = find_bodies(model, scene)
        bodies = [*arm, *find_obstacles(model, scene)]
        moving = [i for i, body in enumerate(arm) if body.link > 0]
        own = find_own_pairs(model, arm)
        # The shoulder only turns about the vertical axis: its height above the table is constant.
        other = [(i, k) for i in moving for k in range(len(arm), len(bodies) - 1)]
        table = [(i, len(bodies) - 1) for i in moving if arm[i].link > 1]
        self.bodies, self.ends = bodies, [*own, *other, *table]
        self.pairs = tuple((bodies[a].name, bodies[b].name) for a, b in self.ends)
        self.is_own = np.arange(len(self.ends)) < len(own)
        distances = [axis_distances(model, body) for body in arm]
        self.levers = np.max(distances, axis=0)
        tilt = 0.0 if model.mounts is None else float(np.hypot(*model.mounts[0, :2, 2]))
        self.pair_levers = np.array(
            [distances[b] * (np.arange(6) >= arm[a].link) for a, b in own]
            + [distances[i] for i, _ in other]
            + [distances[i] * [tilt, 1, 1, 1, 1, 1] for i, _ in table]
        )
        self.arm, self.model = pin.Model(), pin.GeometryModel()
        self._joints = chain(self.arm, model, _HALF_TURN)
        self._solids = [solid_of(body.shape) for body in bodies]
        for k, body in enumerate(bodies):
            add_object(self.model, str(k), *self.placed(body), self._solids[k].geometry)
        for a, b in self.ends:
            self.model.addCollisionPair(pin.CollisionPair(a, b))

    def placed(self, body: Body) -> tuple[int, pin.SE3]:
        """Return the joint that moves a body, 0 = none, and its pose in that joint."""
        T = pin.SE3(body.T_link_body)
        if body.link == WORLD:
            return 0, T
        joint, after = self._joints[body.link]
        return joint, after * T

    def cavities(self, body: int) -> tuple[Cavity, ...]:
        """Return the insides of a body that is a surface."""
        return self._solids[body].cavities


class ClearanceTests:
    """
    Tests joints against the required clearance of each pair; not to be shared between threads.

    By pinocchio's kinematics and coal's tests for overlap: of bounding boxes first.

    `margins` (P,): see `require`. `count`: configurations tested so far.
    """

    def __init__(self, geometry: Geometry, margins: Array) -> None:
        self._arm, self._model = geometry.arm, geometry.model
        self._data, self._found = self._arm.createData(), self._model.createData()
        self._manager = _manager(self._arm, self._data, self._model, self._found)
        for request in self._found.distanceRequests:
            request.enable_signed_distance = True
        self._ends = tuple(np.transpose(geometry.ends))
        self._margins = np.zeros((len(geometry.bodies),) * 2, order='F')
        self._insides = _Insides(geometry)
        self.count = 0
        self.require(margins)

    def require(self, margins: Array) -> None:
        """Test for these clearances (P,) [m] from now on; negative = depth of an overlap."""
        self._margins[self._ends] = margins
        self._found.setSecurityMargins(self._model, self._margins, True, False)

    def is_free(self, q: Array) -> bool:
        """Return whether joints (6,) [rad] keep every required clearance."""
        self.count += 1
        return not (
            pin.computeCollisions(self._arm, self._data, self._manager, q, True)
            or self._insides.pairs_at(q)
        )

    def touching(self, q: Array) -> list[int]:
        """Return the pairs that do not keep their clearance at joints (6,) [rad]."""
        pin.computeCollisions(self._arm, self._data, self._model, self._found, q, False)
        inside = self._insides.pairs_at(q)
        found = self._found.collisionResults
        return [k for k in range(len(found)) if found[k].isCollision() or k in inside]

    def distance(self, q: Array, pair: int) -> tuple[float, Array]:
        """
        Return the distance of a pair at joints (6,) [rad], and the point midway.

        The distance is negative in an overlap [m]; the point (3,), in base_link [m], is that
        between the nearest points.
        """
        pin.updateGeometryPlacements(self._arm, self._data, self._model, self._found, q)
        found = pin.computeDistance(self._model, self._found, pair)
        middle = (found.getNearestPoint1() + found.getNearestPoint2()) / 2
        distance = float(found.min_distance)
        is_inside = distance > 0.0 and pair in self._insides.pairs_at(q)
        return -distance if is_inside else distance, np.asarray(middle)


class _Insides:
    """
    Tests whether a body that touches no triangle of a closed surface lies inside it.

    Only a body that is small enough can, and only while its origin is in the bounding box of the
    cavity, which coal tests for all of them at once.
    """

    def __init__(self, geometry: Geometry) -> None:
        self._arm, self._data = geometry.arm, geometry.arm.createData()
        self._model = pin.GeometryModel()
        self._tests: list[tuple[int, int, Cavity, pin.SE3]] = []
        bodies, points, boxes = geometry.bodies, dict[int, int](), dict[tuple[int, int], int]()
        for pair, (a, b) in enumerate(geometry.ends):
            for i, cavity in enumerate(geometry.cavities(b)):
                size, T = cavity.high - cavity.low, pin.SE3(bodies[b].T_link_body)
                if size.min() < ball_in(bodies[a].shape):
                    continue
                if a not in points:
                    place = geometry.placed(bodies[a])
                    points[a] = add_object(self._model, f'{a}', *place, coal.Sphere(_POINT))
                if (b, i) not in boxes:
                    middle = pin.SE3(np.eye(3), (cavity.low + cavity.high) / 2)
                    box = coal.Box(*size)
                    boxes[b, i] = add_object(self._model, f'{b} {i}', 0, T * middle, box)
                self._model.addCollisionPair(pin.CollisionPair(points[a], boxes[b, i]))
                self._tests.append((pair, points[a], cavity, T))
        if self._tests:
            self._found = self._model.createData()
            self._manager = _manager(self._arm, self._data, self._model, self._found)

    def pairs_at(self, q: Array) -> set[int]:
        """Return the pairs of which the one body's origin is inside the other at joints (6,)."""
        if not self._tests or not pin.computeCollisions(
            self._arm, self._data, self._manager, q, False
        ):
            return set()
        found = self._found.collisionResults
        return {
            pair
            for k, (pair, point, cavity, T) in enumerate(self._tests)
            if found[k].isCollision()
            and cavity.contains(T.actInv(self._found.oMg[point].translation))
        }


def add_object(
    model: pin.GeometryModel, name: str, joint: int, T: pin.SE3, shape: coal.CollisionGeometry
) -> int:
    """Add a shape at a pose in a joint; return its index."""
    return int(model.addGeometryObject(pin.GeometryObject(name, joint, T, shape)))


def _manager(
    arm: pin.Model, data: pin.Data, geometry: pin.GeometryModel, found: pin.GeometryData
) -> pin.BroadPhaseManager_NaiveCollisionManager:
    """
    Return coal's manager that is the fastest for so few bodies.

    It tests the overlap of bounding boxes, then of bodies. "SaP" misses contacts.
    """
    manager = pin.BroadPhaseManager_NaiveCollisionManager(arm, geometry, found)
    pin.updateGeometryPlacements(arm, data, geometry, found, np.zeros(6))
    manager.update(True)  # computes the bounding boxes
    return manager
