# SPDX-License-Identifier: Apache-2.0
"""The part that the task's gripper holds, published to the planner on a separate topic."""

from dataclasses import replace

import numpy as np
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject
from rclpy.node import Node

from ur5_pick_place.kinematics.transforms import inverse_transform
from ur5_pick_place.nodes.messages.cdr import read_message
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose, numbers_to_matrix
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.shapes import Cuboid
from ur5_pick_place.planning.scene.world import OWN_PART, AttachedObject, PlacedShape

# Not `attached_collision_object`, which belongs to the clients: none of their ids is this part.
TASK = 'pick_place'
PART_TOPIC = f'{TASK}/carried_part'


class CarriedPart:
    """
    Publishes the carried part, latched, so that a planner that starts later receives it too.

    It has a mass and a pose; its shape is that of the scene file, which both nodes have.
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
            T = self._scene.tool.T_tool_tcp
            if part := self._scene.part:
                T = T @ (part.T_tcp_part if load.T_tcp_part is None else load.T_tcp_part)
            message.object.pose = matrix_to_pose(T)
        self._publisher.publish(message)


def read_carried(data: bytes, scene: Scene) -> tuple[Load | None, AttachedObject | None]:
    """
    Return what `CarriedPart` published: the load, and the part as an attached object.

    Raises `InvalidInput`: the message is malformed.
    """
    message = read_message(data, AttachedCollisionObject)
    if message.object.operation == CollisionObject.REMOVE[0]:
        return None, None
    T = numbers_to_matrix(message.object.pose)
    if scene.part is None:
        return Load(message.weight, T[:3, 3]), None
    shape = PlacedShape(Cuboid(scene.part.size), np.eye(4))
    held = AttachedObject(OWN_PART, T, (shape,), message.weight)
    return replace(held.load, T_tcp_part=inverse_transform(scene.tool.T_tool_tcp) @ T), held
