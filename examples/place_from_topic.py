# SPDX-License-Identifier: Apache-2.0
"""Teach a place as a camera would: publish the pose at which the TCP grips the part."""

import json
import math
import sys
import time
from collections.abc import Callable

import rclpy
from geometry_msgs.msg import PoseStamped
from std_msgs.msg import String

from ur5_pick_place.client import PickPlaceClient

rclpy.init()
camera = rclpy.create_node('camera')
publisher = camera.create_publisher(PoseStamped, 'pick_place/start_pose', 10)
answers = {}


def keep_answer(message: String) -> None:
    """Keep the answer to a pose, by the stamp of that pose."""
    event = json.loads(message.data)
    if event['event'] in ('taught', 'refused'):
        answers[event.get('stamp')] = event


def wait(condition: Callable[[], object], what: str) -> None:
    """Receive until `condition` holds; end after 10 s."""
    deadline = time.monotonic() + 10.0
    while not condition():
        rclpy.spin_once(camera, timeout_sec=0.1)
        if time.monotonic() > deadline:
            sys.exit(f'{what} did not come within 10 s')


camera.create_subscription(String, 'pick_place/event', keep_answer, 100)

with PickPlaceClient() as cell:  # beside the camera's node: it has a thread of its own
    cell.teach('home')
    wait(publisher.get_subscription_count, 'the task node')

    seen = PoseStamped()
    seen.header.frame_id = 'base_link'  # or the camera's own frame, if TF knows it
    stamp = seen.header.stamp = camera.get_clock().now().to_msg()
    seen.pose.position.x, seen.pose.position.y, seen.pose.position.z = 0.45, -0.20, 0.02
    yaw = math.radians(0.0)  # of the part; tool down is half a turn about this axis:
    seen.pose.orientation.x, seen.pose.orientation.y = math.cos(yaw / 2), math.sin(yaw / 2)
    seen.pose.orientation.w = 0.0
    publisher.publish(seen)
    key = f'{stamp.sec}.{stamp.nanosec:09d}'  # the answer repeats the stamp
    wait(lambda: key in answers, 'the answer to the pose')
    print(answers[key])  # `refused` has a reason, `taught` may have a warning

    cell.teach('target', xyz=(0.40, 0.25, 0.02), yaw_deg=30)
    print(cell.plan())

camera.destroy_node()
rclpy.shutdown()
