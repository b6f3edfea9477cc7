# SPDX-License-Identifier: Apache-2.0
"""
A scene book as its clients see it: messages of objects, and what became of them.

Its arm has a forward kinematics of its own, by which poses are judged.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Point, Pose
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject, PlanningScene
from rclpy.serialization import serialize_message
from scenes import crate, scene, with_boxes
from shape_msgs.msg import Mesh, MeshTriangle, Plane, SolidPrimitive

from ur5_pick_place.errors import UnknownFrame, UnknownLink
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK
from ur5_pick_place.nodes.messages.cdr import read_message
from ur5_pick_place.nodes.scene.scene_book import ATTACHED, OBJECT, SCENE, SceneBook
from ur5_pick_place.nodes.tf.frames import ArmPose

ADD, REMOVE, APPEND, MOVE = (
    CollisionObject.ADD,
    CollisionObject.REMOVE,
    CollisionObject.APPEND,
    CollisionObject.MOVE,
)


class Arm:
    """Frames of an arm whose hand is 0.5 m above its base, turned by a quarter about z."""

    prefix = ''
    T_base_link_tool = np.array(
        [[0.0, -1.0, 0.0, 0.1], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 1.0]]
    )

    def T_base_frame(
        self, frame_id: str, arm: ArmPose, stamp: float = 0.0
    ) -> np.ndarray:
        if frame_id == 'camera':  # which the tool carries
            return arm('tool0')
        if frame_id not in ('', 'base_link'):
            raise UnknownFrame(f'frame {frame_id!r} is not known')
        return T_BASE_BASE_LINK

    def is_link(self, name: str) -> bool:
        return name == 'tool0'

    def T_tool_link(self, name: str) -> np.ndarray:
        if name not in ('', 'tool0'):
            raise UnknownLink(f'tip link {name!r} is not known')
        return np.eye(4)

    def T_base_tool(self, _link: str) -> np.ndarray:
        return T_BASE_BASE_LINK @ self.T_base_link_tool


class Book:
    """A book to which messages are told; the scene file has the box `post`."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        arm = Arm()
        self.book = SceneBook(
            with_boxes(scene(), crate('post')), arm, arm.T_base_tool, self.warnings.append
        )

    @property
    def world(self) -> Any:
        return self.book.world

    def object(self, operation: bytes, name: str, *xs: float, at: float = 0.0, **fields: Any):
        """Tell of an object at x = `at`, with a box at each of `xs` from there [m]."""
        message = thing(operation, name, *xs, at=at, **fields)
        return self.book.take(OBJECT, serialize_message(message))

    def attach(self, name: str, *xs: float, operation: bytes = ADD, **fields: Any) -> str:
        """Tell of an object in the hand, with a box at each of `xs` from tool0 [m]."""
        held = AttachedCollisionObject(link_name='tool0', object=thing(operation, name, *xs))
        held.object.header.frame_id = 'tool0'
        for field, value in fields.items():
            setattr(held, field, value)
        return self.book.take(ATTACHED, serialize_message(held))

    def scene(self, message: PlanningScene) -> str:
        return self.book.take(SCENE, serialize_message(message))

    def apply(self, message: PlanningScene) -> None:
        self.book.apply(read_message(serialize_message(message), PlanningScene))

    def at(self) -> dict[str, list[float]]:
        """Give x [m] of each shape of each object."""
        return {
            name: [round(float(T[0, 3]), 9) for T in found.poses()]
            for name, found in self.world.objects.items()
        }


def thing(
    operation: bytes,
    name: str,
    *xs: float,
    at: float = 0.0,
    size: float = 0.1,
    frame: str = '',
    **fields: Any,
) -> CollisionObject:
    message = CollisionObject(id=name, operation=operation, **fields)
    message.header.frame_id = frame
    message.pose.position.x = at
    message.primitives = [SolidPrimitive(type=1, dimensions=[size] * 3) for _ in xs]
    message.primitive_poses = [Pose() for _ in xs]
    for pose, x in zip(message.primitive_poses, xs, strict=True):
        pose.position.x = x
    return message


def _one_corner(message: CollisionObject) -> None:
    triangle = MeshTriangle(vertex_indices=np.array([0, 1, 2], np.uint32))
    message.meshes = [Mesh(vertices=[Point(), Point(x=1.0)], triangles=[triangle])]


SPOILT: dict[str, Callable[[CollisionObject], object]] = {
    'nan': lambda m: setattr(m.pose.position, 'x', np.nan),
    'quaternion': lambda m: setattr(m.pose.orientation, 'w', 3.0),
    'zero': lambda m: setattr(m.primitives[0], 'dimensions', [0.1, 0.0, 0.1]),
    'dimensions': lambda m: setattr(m.primitives[0], 'dimensions', [0.1, 0.1]),
    'prism': lambda m: setattr(m.primitives[0], 'type', 5),
    'poses': lambda m: m.primitive_poses.append(Pose()),
    'frame': lambda m: setattr(m.header, 'frame_id', 'moon'),
    'operation': lambda m: setattr(m, 'operation', b'\x07'),
    'nothing': lambda m: (m.primitives.clear(), m.primitive_poses.clear()),
    'far': lambda m: setattr(m.pose.position, 'y', 1e6),
    'crowd': lambda m: setattr(m, 'primitives', m.primitives * 10_000),
    'many': lambda m: setattr(m, 'primitives', m.primitives * 257),
    'mesh': lambda m: setattr(m, 'meshes', [Mesh()]),
    'index': _one_corner,
    'plane': lambda m: setattr(m, 'planes', [Plane()]),
}


def spoilt(what: str) -> CollisionObject:
    """Give the object `crate` with one thing about it that cannot be taken."""
    message = thing(ADD, 'crate', 1.0)
    SPOILT[what](message)
    return message


def whole(**fields: Any) -> PlanningScene:
    """Give a scene, a diff unless said otherwise, of the object `crate` alone."""
    message = PlanningScene(is_diff=True)
    message.world.collision_objects = [thing(ADD, 'crate', 1.0)]
    for name, value in fields.items():
        setattr(message, name, value)
    return message


@pytest.fixture
def book() -> Book:
    return Book()
