# SPDX-License-Identifier: Apache-2.0
"""
Conversion of objects to ROS messages, and from messages that `cdr.read_message` has decoded.

A `PlanningScene` that the planner publishes holds, beside the clients' objects, what was refused
and the task's part; `type.db` marks these two, as their ids cannot. The id of what was refused is
its key in `World.refused`.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from geometry_msgs.msg import Point
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject, PlanningScene
from shape_msgs.msg import Mesh as MeshMessage
from shape_msgs.msg import MeshTriangle, SolidPrimitive
from shape_msgs.msg import Plane as PlaneMessage

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.model import LINKS
from ur5_pick_place.kinematics.transforms import Array, inverse_transform, pose_distance
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose, numbers_to_matrix
from ur5_pick_place.planning.scene.shapes import (
    Cone,
    Cuboid,
    Cylinder,
    Mesh,
    Plane,
    Shape,
    Sphere,
)
from ur5_pick_place.planning.scene.world import (
    MAX_SHAPES,
    AttachedObject,
    PlacedShape,
    SceneObject,
    World,
    shown,
)

_SAME_POSE = 1e-4  # [m], [rad] by which a transform may differ from what is known
OWN, REFUSED = 'ur5_pick_place/own', 'ur5_pick_place/refused'
# By primitive type: how many dimensions, and the shape made from them, in MoveIt's order.
_PRIMITIVES = {
    SolidPrimitive.BOX: (3, Cuboid),
    SolidPrimitive.SPHERE: (1, lambda d: Sphere(float(d[0]))),
    SolidPrimitive.CYLINDER: (2, lambda d: Cylinder(float(d[1]), float(d[0]))),
    SolidPrimitive.CONE: (2, lambda d: Cone(float(d[1]), float(d[0]))),
}
# The names of the arm's links in its URDF, where they differ from ours.
_URDF = {'base_link': 'base', 'base_link_inertia': 'base'}


class KnownScene(NamedTuple):
    """A scene as the planner publishes it."""

    name: str  # different for each start of the planner
    world: World
    part: AttachedObject | None  # the task's part, while the gripper holds it


def read_shapes(message: SimpleNamespace) -> tuple[PlacedShape, ...]:
    """
    Return the shapes of a CollisionObject.

    Raises `InvalidInput`: a shape or a pose is malformed or there are too many.
    """
    kinds = (
        ('primitives', message.primitives, message.primitive_poses, _primitive),
        ('meshes', message.meshes, message.mesh_poses, lambda m: Mesh(m.vertices, m.triangles)),
        ('planes', message.planes, message.plane_poses, _plane),
    )
    count = sum(len(shapes) for _, shapes, _, _ in kinds)
    if count > MAX_SHAPES:
        raise InvalidInput(f'it has {count} shapes: at most {MAX_SHAPES}')
    placed = []
    for name, shapes, poses, make in kinds:
        if len(poses) > len(shapes):
            raise InvalidInput(f'it has {len(shapes)} {name} and {len(poses)} poses of them')
        for i, shape in enumerate(shapes):
            # MoveIt's convention: a shape without a pose of its own is where the object is.
            T = numbers_to_matrix(poses[i]) if i < len(poses) else np.eye(4)
            placed.append(PlacedShape(make(shape), T))
    return tuple(placed)


def move_shapes(
    shapes: Sequence[PlacedShape], message: SimpleNamespace
) -> tuple[PlacedShape, ...]:
    """
    Return shapes at the poses that a CollisionObject gives for them, or as they are without any.

    Raises `InvalidInput`: a kind of shape has more or fewer poses than shapes, or a pose is
    malformed.
    """
    kinds = ('primitive_poses', 'mesh_poses', 'plane_poses')
    given = {name: list(getattr(message, name)) for name in kinds}
    if not any(given.values()):
        return tuple(shapes)
    own = [kinds[1 if isinstance(p.shape, Mesh) else 2 if isinstance(p.shape, Plane) else 0]
           for p in shapes]  # fmt: skip
    for name, poses in given.items():
        if len(poses) != own.count(name):
            raise InvalidInput(
                f'MOVE with {len(poses)} {name}, the object has {own.count(name)}: give one for '
                'each of its shapes, or none at all'
            )
    rest = {name: iter(poses) for name, poses in given.items()}
    return tuple(
        PlacedShape(placed.shape, numbers_to_matrix(next(rest[name])))
        for name, placed in zip(own, shapes, strict=True)
    )


def read_links(names: Sequence[str], tf_prefix: str = '') -> frozenset[str]:
    """Return the arm's links that `touch_links` names, without prefix, as the model names them."""
    own = (name.removeprefix(tf_prefix) for name in names)
    return frozenset(_URDF.get(name, name.removesuffix('_link')) for name in own)


def _primitive(message: SimpleNamespace) -> Shape:
    if message.type not in _PRIMITIVES:
        raise InvalidInput(
            f'it has a primitive of type {message.type}: must be box 1, sphere 2, cylinder 3 or '
            'cone 4; give others as a mesh'
        )
    count, make = _PRIMITIVES[message.type]
    if len(message.dimensions) != count:
        raise InvalidInput(
            f'it has a primitive of type {message.type} with {len(message.dimensions)} '
            f'dimensions: must be {count}'
        )
    return make(message.dimensions)


def _plane(coefficients: Array) -> Shape:
    a, b, c, d = (float(number) for number in coefficients)
    return Plane(np.array([a, b, c]), -d)


def object_message(thing: SceneObject | AttachedObject, frame_id: str) -> CollisionObject:
    """Return an object with its shapes in `frame_id`."""
    T = thing.T_base_link_object if isinstance(thing, SceneObject) else thing.T_tool_object
    message = CollisionObject(id=thing.id, pose=matrix_to_pose(T), operation=CollisionObject.ADD)
    message.header.frame_id = frame_id
    for placed in thing.shapes:
        pose = matrix_to_pose(placed.T_object_shape)
        shape = placed.shape
        if isinstance(shape, Mesh):
            message.meshes.append(_mesh_message(shape))
            message.mesh_poses.append(pose)
        elif isinstance(shape, Plane):
            coefficients = [*map(float, shape.normal), -shape.offset]
            message.planes.append(PlaneMessage(coef=coefficients))
            message.plane_poses.append(pose)
        else:
            message.primitives.append(_primitive_message(shape))
            message.primitive_poses.append(pose)
    return message


def attached_message(thing: AttachedObject, link: str, db: str = '') -> AttachedCollisionObject:
    """Return an attached object, fixed to `link` = tool0; `db` marks the task's part."""
    message = AttachedCollisionObject(link_name=link, weight=thing.mass)
    message.object = object_message(thing, link)
    message.object.type.db = db
    may_touch = thing.may_touch
    message.touch_links = sorted(f'{n}_link' if n in LINKS else n for n in may_touch)
    return message


def scene_message(known: KnownScene, base_link: str, tool0: str) -> PlanningScene:
    """Return the whole scene as a message."""
    message = PlanningScene(name=known.name, is_diff=False)
    world, robot_state = message.world, message.robot_state
    world.collision_objects = [
        object_message(thing, base_link) for thing in known.world.objects.values()
    ]
    for key, why in known.world.refused.items():
        refused = CollisionObject(id=key)
        refused.type.db, refused.type.key = REFUSED, why
        world.collision_objects.append(refused)
    robot_state.attached_collision_objects = [
        attached_message(thing, tool0) for thing in known.world.attached.values()
    ]
    if known.part:
        robot_state.attached_collision_objects.append(attached_message(known.part, tool0, OWN))
    return message


def read_scene(message: SimpleNamespace) -> KnownScene:
    """Return the scene of a message made by `scene_message`; errors as `read_shapes`."""
    objects: dict[str, SceneObject] = {}
    refused: dict[str, str] = {}
    attached: dict[str, AttachedObject] = {}
    part = None
    for thing in message.world.collision_objects:
        if thing.type.db == REFUSED:
            refused[thing.id] = thing.type.key
        else:
            T = numbers_to_matrix(thing.pose)
            objects[thing.id] = SceneObject(thing.id, T, read_shapes(thing))
    for attached_object in message.robot_state.attached_collision_objects:
        thing = attached_object.object
        found = AttachedObject(
            thing.id,
            numbers_to_matrix(thing.pose),
            read_shapes(thing),
            attached_object.weight,
            read_links(attached_object.touch_links),
        )
        if thing.type.db == OWN:
            part = found
        else:
            attached[thing.id] = found
    return KnownScene(message.name, World(objects, attached, refused), part)


def _primitive_message(shape: Shape) -> SolidPrimitive:
    if isinstance(shape, Cuboid):
        size = [float(edge) for edge in shape.size]
        return SolidPrimitive(type=SolidPrimitive.BOX, dimensions=size)
    if isinstance(shape, Sphere):
        return SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[shape.radius])
    assert isinstance(shape, Cylinder | Cone)
    kind = SolidPrimitive.CYLINDER if isinstance(shape, Cylinder) else SolidPrimitive.CONE
    return SolidPrimitive(type=kind, dimensions=[shape.height, shape.r])


def _mesh_message(mesh: Mesh) -> MeshMessage:
    message = MeshMessage()
    vertices = mesh.vertices.tolist()
    message.vertices = [Point(x=x, y=y, z=z) for x, y, z in vertices]
    message.triangles = [
        MeshTriangle(vertex_indices=corners) for corners in mesh.triangles.astype(np.uint32)
    ]
    return message


def unsupported(
    message: SimpleNamespace,
    T_base_frame: Callable[[str], Array],
    is_link: Callable[[str], bool],
) -> list[str]:
    """
    Return why parts of a PlanningScene, other than its obstacles, are not supported.

    `T_base_frame` returns the known pose (4, 4) of a frame in `base`, or raises `UnknownFrame`.
    `is_link` returns whether a name is a link of the robot's, and no object's: MoveIt adds the
    pairs of links that the robot's SRDF allows to each scene, and those are checked all the same.
    """
    found = []
    named = [name for name in _allowed(message.allowed_collision_matrix) if not is_link(name)]
    if named:
        names = ', '.join(map(shown, named[:8]))
        found.append(
            f'allowed_collision_matrix of {names}: no collision is allowed here; use touch_links '
            'of an attached object, or remove the object'
        )
    if any(entry.padding != 0.0 for entry in message.link_padding):
        found.append('link_padding: not supported, set the margin in the scene file')
    if any(entry.scale != 1.0 for entry in message.link_scale):
        found.append('link_scale: not supported, leave it out')
    for given in message.fixed_frame_transforms:
        if why := _unknown_transform(given, T_base_frame):
            parent, child = shown(given.header.frame_id), shown(given.child_frame_id)
            found.append(
                f'fixed_frame_transforms, {parent} to {child}: {why}; leave it out, or publish it '
                'on tf_static'
            )
            break  # the others are likely to be refused for the same reason
    return found


def _allowed(matrix: SimpleNamespace) -> list[str]:
    """Return the names between which an AllowedCollisionMatrix allows any collision."""
    names, defaults = matrix.entry_names, matrix.default_entry_names
    found: dict[str, None] = {}
    for i, entry in enumerate(matrix.entry_values):
        if entry.enabled.any():
            found |= dict.fromkeys([*(names[i : i + 1] or '?'), *compress(names, entry.enabled)])
    if matrix.default_entry_values.any():
        found |= dict.fromkeys(defaults or '?')
    return list(found)


def _unknown_transform(
    given: SimpleNamespace, T_base_frame: Callable[[str], Array]
) -> str:
    """Return in which respect a transform differs from what is known, or ''."""
    parent, child = given.header.frame_id, given.child_frame_id
    if not (parent and child):
        return 'a frame has no name'
    T_known = np.eye(4)  # as MoveIt adds it for its planning frame, whatever that is called
    try:
        T = numbers_to_matrix(given.transform)
        if parent != child:
            T_known = inverse_transform(T_base_frame(parent)) @ T_base_frame(child)
    except InvalidInput as error:
        return str(error)
    if np.abs(T - T_known).max() <= _SAME_POSE:
        return ''
    here, there = ([round(float(x), 4) for x in pose[:3, 3]] for pose in (T, T_known))
    angle = np.degrees(pose_distance(T_known, T)[1])
    return f'at {here} m, known at {there} m and turned by {angle:.3g} deg to it'
