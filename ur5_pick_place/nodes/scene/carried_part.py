# SPDX-License-Identifier: Apache-2.0
"""The part that the task's gripper holds, published to the planner on a separate topic."""

import numpy as np
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject
from rclpy.node import Node
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.messages.cdr import read_message
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose, numbers_to_matrix
from ur5_pick_place.nodes.messages.scene_messages import read_shapes
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Part, Scene, Tool
from ur5_pick_place.planning.scene.shapes import Cuboid
from ur5_pick_place.planning.scene.world import OWN_PART, AttachedObject, PlacedShape

# Not `attached_collision_object`, which belongs to the clients: none of their ids is this part.
TASK = 'pick_place'
PART_TOPIC = f'{TASK}/carried_part'


class CarriedPart:
    """
    Publishes the carried part, latched, so that a planner that starts later receives it too.

    `scene`: source of the part's shape.
    """

    def __init__(self, node: Node, scene: Scene, tf_prefix: str) -> None:
        self._scene, self._link = scene, tf_prefix + 'tool0'
        self._publisher = node.create_publisher(AttachedCollisionObject, PART_TOPIC, LATCHED)

    def publish(self, load: Load | None) -> None:
        """Publish the part that the gripper holds, `load` in tool0; None if it holds none."""
        message = AttachedCollisionObject(link_name=self._link)
        message.object.id = OWN_PART
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
                T = part.T_tcp_part if load.T_tcp_part is None else load.T_tcp_part
                message.object.primitive_poses = [matrix_to_pose(T)]
        self._publisher.publish(message)


def read_carried(
    data: bytes, tool: Tool
) -> tuple[Load | None, Part | None, AttachedObject | None]:
    """
    Return what `CarriedPart` published: the load, the part, and that part as an attached object.

    Raises `InvalidInput`: the message is malformed.
    """
    message = read_message(data, AttachedCollisionObject)
    if message.object.operation == CollisionObject.REMOVE[0]:
        return None, None, None
    T_tool_object = numbers_to_matrix(message.object.pose)
    shapes = read_shapes(message.object)
    if not shapes:
        return Load(message.weight, T_tool_object[:3, 3]), None, None
    shape, T = shapes[0].shape, T_tool_object @ shapes[0].T_object_shape
    if len(shapes) != 1 or not isinstance(shape, Cuboid):
        raise InvalidInput(f'the part has {len(shapes)} shapes: must be one box')
    held = AttachedObject(OWN_PART, T, (PlacedShape(shape, np.eye(4)),), message.weight)
    return held.load, Part(np.linalg.inv(tool.T_tool_tcp) @ T, shape.size), held
