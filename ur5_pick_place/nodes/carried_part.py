# SPDX-License-Identifier: Apache-2.0
"""What is in the hand, told to the planner on MoveIt's `attached_collision_object`."""

import numpy as np
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.conversions import matrix_to_pose, pose_to_matrix
from ur5_pick_place.nodes.frames import Frames
from ur5_pick_place.planning.inertias import Load
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene import Part, Scene

_TOPIC = 'attached_collision_object'
_DEPTH = 10


class CarriedPart:
    """
    Tells it.

    Parameters
    ----------
    node : Node
    scene : Scene
        Knows the part's shape.
    tf_prefix : str

    """

    def __init__(self, node: Node, scene: Scene, tf_prefix: str) -> None:
        self._scene, self._link = scene, tf_prefix + 'tool0'
        self._told: AttachedCollisionObject | None = None
        self._publisher = node.create_publisher(AttachedCollisionObject, _TOPIC, _DEPTH)

    def tell(self, load: Load | None) -> None:
        """Say that the part is in the hand as `load`, or that nothing is."""
        message = AttachedCollisionObject(link_name=self._link)
        message.object.id = 'part'
        message.object.header.frame_id = self._link
        message.object.operation = CollisionObject.REMOVE
        if load is not None:
            message.weight = load.mass
            message.object.operation = CollisionObject.ADD
            message.object.pose = matrix_to_pose(self._scene.tool.T_tool_tcp)
            if part := self._scene.part:
                size = [float(edge) for edge in part.size]
                message.object.primitives = [
                    SolidPrimitive(type=SolidPrimitive.BOX, dimensions=size)
                ]
                message.object.primitive_poses = [matrix_to_pose(part.T_tcp_part)]
        self._told = message
        self.repeat()

    def repeat(self) -> None:
        """Say again what was said last."""
        if self._told is not None:
            self._publisher.publish(self._told)


def hear_carried_part(
    node: Node, frames: Frames, planner: MotionPlanner, group: CallbackGroup
) -> None:
    """Keep `planner` up to date on what is in the hand."""
    last: list[AttachedCollisionObject] = []

    def hear(message: AttachedCollisionObject) -> None:
        if last == [message]:
            return
        try:
            _carry(message, frames, planner)
        except InvalidInput as error:
            node.get_logger().error(f'{_TOPIC} refused: {error}')
            return
        last[:] = [message]

    node.create_subscription(AttachedCollisionObject, _TOPIC, hear, _DEPTH, callback_group=group)


def _carry(message: AttachedCollisionObject, frames: Frames, planner: MotionPlanner) -> None:
    """Take over what is attached: one box at most, its weight in its middle."""
    if message.object.operation == CollisionObject.REMOVE:
        planner.carry(None)
        return
    if message.object.operation != CollisionObject.ADD:
        raise InvalidInput(f'operation {message.object.operation!r}: only ADD and REMOVE')
    shapes, poses = message.object.primitives, message.object.primitive_poses
    if len(shapes) > 1 or len(poses) != len(shapes) or message.object.meshes:
        raise InvalidInput(f'{len(shapes)} primitives, {len(poses)} poses: must be one box')
    T_tool_object = frames.T_tool_link(message.link_name) @ pose_to_matrix(message.object.pose)
    part = planner.scene.part
    if shapes:
        if shapes[0].type != SolidPrimitive.BOX:
            raise InvalidInput(f'primitive of type {shapes[0].type}: must be a box')
        T_tool_object = T_tool_object @ pose_to_matrix(poses[0])
        T_tcp_part = np.linalg.inv(planner.scene.tool.T_tool_tcp) @ T_tool_object
        part = Part(T_tcp_part, list(shapes[0].dimensions))
    planner.carry(Load(message.weight, T_tool_object[:3, 3]), part)
