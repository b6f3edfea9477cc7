# SPDX-License-Identifier: Apache-2.0
"""Boxes that come and go on `collision_object`, as MoveIt clients publish them."""

import copy
from collections.abc import Callable

from geometry_msgs.msg import Pose
from moveit_msgs.msg import CollisionObject
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


class SceneLink:
    """
    Keeps a scene up to date.

    Parameters
    ----------
    node : Node
    scene : Scene
        To begin with.
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
        self._added: dict[str, CollisionObject] = {}  # by id, to be moved
        node.create_subscription(
            CollisionObject, 'collision_object', self._hear, _QUEUE, callback_group=group
        )

    def _hear(self, message: CollisionObject) -> None:
        try:
            self._scene = self._changed(message)
        except InvalidInput as error:
            self._node.get_logger().error(f'collision_object refused: {error}')
            return
        self._added = {k: m for k, m in self._added.items() if _names(self._scene, k)}
        self._on_change(self._scene)

    def _changed(self, message: CollisionObject) -> Scene:
        scene = self._scene
        if message.operation == _REMOVE:
            return _without(scene, message.id)
        if message.operation == _MOVE:
            message = self._moved(message)
        if message.operation not in (_ADD, _APPEND):
            raise InvalidInput(
                f'operation {message.operation!r} of {message.id!r}: only ADD, APPEND, MOVE and '
                'REMOVE'
            )
        if message.operation == _ADD and _names(scene, message.id):
            scene = _without(scene, message.id)
        for box in self._boxes(message, first=len(_names(scene, message.id))):
            scene = scene.with_box(box)
        if message.operation == _ADD:
            self._added[message.id] = message
        return scene

    def _moved(self, message: CollisionObject) -> CollisionObject:
        """Return the object as it was added, at its new pose."""
        if message.id not in self._added or not _names(self._scene, message.id):
            raise InvalidInput(f'{message.id!r} is not there to be moved: ADD it first')
        added = copy.copy(self._added[message.id])
        added.header, added.pose = message.header, message.pose
        return added

    def _boxes(self, message: CollisionObject, first: int) -> list[Box]:
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
        T_base_object = self._frames.T_base_frame(message.header.frame_id) @ pose_to_matrix(
            message.pose
        )
        T = inverse_transform(T_BASE_BASE_LINK) @ T_base_object
        boxes = []
        for i, (shape, pose) in enumerate(
            zip(message.primitives, poses, strict=True), first
        ):
            if shape.type != SolidPrimitive.BOX:
                raise InvalidInput(
                    f'{message.id!r} has a primitive of type {shape.type}: only BOX'
                )
            name = f'{message.id}/{i}' if i else message.id
            boxes.append(Box(name, T @ pose_to_matrix(pose), list(shape.dimensions)))
        return boxes


def _names(scene: Scene, name: str) -> list[str]:
    """Names of the boxes that an object of this id consists of."""
    return [b.name for b in scene.boxes if b.name == name or b.name.startswith(f'{name}/')]


def _without(scene: Scene, name: str) -> Scene:
    """MoveIt's convention: removing the empty id removes all."""
    wanted = [b.name for b in scene.boxes] if not name else _names(scene, name) or [name]
    for box in wanted:
        scene = scene.without_box(box)
    return scene
