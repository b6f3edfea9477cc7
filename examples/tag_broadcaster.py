# SPDX-License-Identifier: Apache-2.0
"""
Publish the TF frame part_0 at the cube of the simulated cell, as a camera with a tag would.

Needs the simulated cell with the cycle config/cycle_tag.yaml: `make cell CYCLE=cycle_tag.yaml`, or
the launch file with robot:=sim and cycle_file: cycle_tag.yaml in the params_file. For a robot,
publish the frame of your camera instead: child frame part_0, on /tf, stamped with the time of the
image.
"""

import contextlib

import rclpy
from geometry_msgs.msg import PoseStamped, TransformStamped
from rclpy.executors import ExternalShutdownException
from tf2_ros import TransformBroadcaster

FRAME = 'part_0'


def main() -> None:
    """Publish until Ctrl-C."""
    rclpy.init()
    node = rclpy.create_node('tag_broadcaster')
    broadcaster = TransformBroadcaster(node)

    def publish(seen: PoseStamped) -> None:
        found = TransformStamped(header=seen.header, child_frame_id=FRAME)
        p = seen.pose.position
        found.transform.translation.x, found.transform.translation.y = p.x, p.y
        found.transform.translation.z = p.z
        found.transform.rotation = seen.pose.orientation
        broadcaster.sendTransform(found)

    node.create_subscription(PoseStamped, 'sim_driver/part_pose', publish, 10)
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)


if __name__ == '__main__':
    main()
