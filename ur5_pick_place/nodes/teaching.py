# SPDX-License-Identifier: Apache-2.0
"""Taught poses in the node: from the arm, from a topic, from the file, and out to TF."""

from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import tf2_ros
from geometry_msgs.msg import PoseStamped, TransformStamped
from numpy.typing import NDArray
from rclpy.node import Node

from ur5_pick_place.kinematics import BRANCHES, classify, forward
from ur5_pick_place.kinematics.transforms import inverse_transform
from ur5_pick_place.nodes.conversions import matrix_to_transform, pose_to_matrix
from ur5_pick_place.nodes.frames import T_BASE_BASE_LINK, Frames
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.task.poses import (
    Provenance,
    TaughtPose,
    load_poses,
    numbers_from_matrix,
    save_poses,
)


class Teaching:
    """
    Keeps the taught poses in memory, file and TF alike.

    Parameters
    ----------
    node : Node
    path : Path
        The file of poses; read now, written at every change.
    planner : MotionPlanner
        Knows arm and tool.
    provenance : Provenance
        What poses are taught with from now on.
    frames : Frames
    tf_prefix : str

    Raises
    ------
    InvalidInput
        The file is malformed.

    """

    def __init__(
        self,
        node: Node,
        path: Path,
        planner: MotionPlanner,
        provenance: Provenance,
        frames: Frames,
        tf_prefix: str,
    ) -> None:
        self.poses = load_poses(path)
        self._node, self._path, self._planner = node, path, planner
        self._provenance, self._frames, self._prefix = provenance, frames, tf_prefix
        self._tf = tf2_ros.StaticTransformBroadcaster(node)
        self.show()

    def teach_joints(self, name: str, q: NDArray[np.float64]) -> TaughtPose:
        """Take the arm's present joints (6,) [rad] for the place `name`."""
        T = forward(self._planner.model, q) @ self._planner.scene.tool.T_tool_tcp
        branch = BRANCHES[int(classify(self._planner.model, q))]
        return self._keep(name, T, tuple(float(v) for v in q), branch)

    def teach_pose(self, name: str, message: PoseStamped) -> TaughtPose:
        """
        Take a pose of the TCP for the place `name`.

        Raises
        ------
        InvalidInput
            An unknown frame or numbers that are no pose.

        """
        T = self._frames.T_base_frame(message.header.frame_id) @ pose_to_matrix(message.pose)
        return self._keep(name, T)

    def _keep(
        self, name: str, T: NDArray[np.float64], joints: tuple[float, ...] = (), branch: str = ''
    ) -> TaughtPose:
        taught = TaughtPose(
            pose=numbers_from_matrix(T),
            provenance=self._provenance,
            time=datetime.now(timezone.utc).isoformat(timespec='seconds'),
            joints=joints,
            branch=branch,
        )
        poses = {**self.poses, name: taught}
        save_poses(self._path, poses)
        self.poses = poses
        self.show()
        return taught

    def show(self) -> None:
        """Publish `tcp`, `start` and `target` as static transforms."""
        T_base_link_base = inverse_transform(T_BASE_BASE_LINK)
        transforms = [self._transform('tool0', 'tcp', self._planner.scene.tool.T_tool_tcp)]
        for name in ('start', 'target'):
            if name in self.poses:
                T = T_base_link_base @ self.poses[name].T_base_tcp
                transforms.append(self._transform('base_link', name, T))
        self._tf.sendTransform(transforms)

    def _transform(self, parent: str, child: str, T: NDArray[np.float64]) -> TransformStamped:
        message = TransformStamped(child_frame_id=self._prefix + child)
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.header.frame_id = self._prefix + parent
        message.transform = matrix_to_transform(T)
        return message
