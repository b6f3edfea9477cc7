# SPDX-License-Identifier: Apache-2.0
"""Boxes that come and go on `collision_object`, as MoveIt clients publish them."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from geometry_msgs.msg import Pose
from moveit_msgs.msg import CollisionObject
from numpy.typing import NDArray
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import inverse_transform
from ur5_pick_place.nodes.conversions import pose_to_matrix
from ur5_pick_place.nodes.frames import T_BASE_BASE_LINK, Frames
from ur5_pick_place.planning.scene import Box, Scene

_QUEUE = QoSProfile(depth=100)  # a client adds its whole scene at once
_ADD, _REMOVE, _APPEND, _MOVE = (
    CollisionObject.ADD,
    CollisionObject.REMOVE,
    CollisionObject.APPEND,
    CollisionObject.MOVE,
)


class _Object(NamedTuple):
    """What came under one id: where it is, and the boxes that it consists of."""

    T_base_link_object: NDArray[np.float64]
    boxes: tuple[Box, ...]


class SceneLink:
    """
    Keeps a scene up to date.

    Parameters
    ----------
    node : Node
    scene : Scene
        To begin with; its own boxes stay.
    frames : Frames
    on_change : callable
        Takes the new scene.
    group : CallbackGroup

    """

    def __init__(
        self,
        node: Node,
        scene: Scene,
        frames: Frames,
        on_change: Callable[[Scene], None],
        group: CallbackGroup,
    ) -> None:
        self._node, self._scene, self._frames = node, scene, frames
        self._on_change = on_change
        self._objects: dict[str, _Object] = {}  # by id
        node.create_subscription(
            CollisionObject, 'collision_object', self._hear, _QUEUE, callback_group=group
        )

    def _hear(self, message: CollisionObject) -> None:
        try:
            objects = self._changed(message)
            boxes = [box for thing in objects.values() for box in thing.boxes]
            scene = replace(self._scene, boxes=(*self._scene.boxes, *boxes))
        except InvalidInput as error:
            self._node.get_logger().error(f'collision_object refused: {error}')
            return
        self._objects = objects
        self._on_change(scene)

    def _changed(self, message: CollisionObject) -> dict[str, _Object]:
        name, operation, known = message.id, message.operation, self._objects
        if operation not in (_ADD, _REMOVE, _APPEND, _MOVE):
            raise InvalidInput(
                f'operation {operation!r} of {name!r}: only ADD, APPEND, MOVE and REMOVE'
            )
        if operation == _REMOVE and not name:  # MoveIt's convention: all
            return {}
        if any(box.name == name for box in self._scene.boxes):
            raise InvalidInput(f'{name!r} is a box of the scene file: change it there')
        if operation in (_REMOVE, _MOVE) and name not in known:
            there = ', '.join(map(repr, known)) or 'none'
            raise InvalidInput(f'no object {name!r} to move or remove; there are: {there}')
        if operation == _REMOVE:
            return {other: thing for other, thing in known.items() if other != name}
        T = self._pose(message)
        if operation == _MOVE:
            return known | {name: _moved(known[name], T)}
        thing = (known.get(name) if operation == _APPEND else None) or _Object(T, ())
        boxes = self._boxes(message, T, first=len(thing.boxes))
        return known | {name: thing._replace(boxes=thing.boxes + boxes)}

    def _pose(self, message: CollisionObject) -> NDArray[np.float64]:
        """Return T_base_link_object (4, 4)."""
        T_base_frame = self._frames.T_base_frame(message.header.frame_id)
        return inverse_transform(T_BASE_BASE_LINK) @ T_base_frame @ pose_to_matrix(message.pose)

    def _boxes(
        self, message: CollisionObject, T_base_link_object: NDArray[np.float64], first: int
    ) -> tuple[Box, ...]:
        others = len(message.meshes) + len(message.planes)
        if others or not message.primitives:
            raise InvalidInput(
                f'{message.id!r} has {len(message.primitives)} primitives and {others} meshes or '
                'planes: must be boxes'
            )
        missing = len(message.primitives) - len(message.primitive_poses)
        if missing < 0:
            raise InvalidInput(
                f'{message.id!r} has {len(message.primitives)} primitives and '
                f'{len(message.primitive_poses)} poses: there must not be more poses'
            )
        # MoveIt's convention: a primitive without a pose of its own is where the object is.
        poses = [*message.primitive_poses, *(Pose() for _ in range(missing))]
        boxes = []
        for i, (shape, pose) in enumerate(
            zip(message.primitives, poses, strict=True), first
        ):
            if shape.type != SolidPrimitive.BOX:
                raise InvalidInput(
                    f'{message.id!r} has a primitive of type {shape.type}: only BOX'
                )
            name = f'{message.id}/{i}' if i else message.id
            T = T_base_link_object @ pose_to_matrix(pose)
            boxes.append(Box(name, T, list(shape.dimensions)))
        return tuple(boxes)


def _moved(thing: _Object, T_base_link_object: NDArray[np.float64]) -> _Object:
    """Return the object with all its boxes at another pose."""
    T = T_base_link_object @ inverse_transform(thing.T_base_link_object)
    moved = (replace(box, T_base_link_box=T @ box.T_base_link_box) for box in thing.boxes)
    return _Object(T_base_link_object, tuple(moved))
