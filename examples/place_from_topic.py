# SPDX-License-Identifier: Apache-2.0
"""
Pick a part where a camera sees it: publish the stamped pose at which the TCP grips it.

Here the simulated cell is the camera. On a robot publish the pose that yours finds, with the time
of the image and in the camera's own frame if TF knows that.
"""

import json
import sys
import time

import rclpy
from geometry_msgs.msg import PoseStamped, Quaternion
from rclpy.wait_for_message import wait_for_message
from std_msgs.msg import String

from ur5_pick_place.client import PickPlaceClient

HERE = {'xyz': (0.45, -0.20, 0.023), 'yaw_deg': 0}  # the part's centre, as the camera sees it
THERE = {'xyz': (0.40, 0.25, 0.023), 'yaw_deg': 30}


def teach_where_seen() -> None:
    """Teach `start` as the pose of the part now, and wait for the answer to this pose."""
    _, seen = wait_for_message(PoseStamped, camera, 'sim_driver/part_pose', time_to_wait=10.0)
    q = seen.pose.orientation  # of the part; tool down is half a turn about its x axis
    seen.pose.orientation = Quaternion(x=q.w, y=q.z, z=-q.y, w=-q.x)
    stamp = f'{seen.header.stamp.sec}.{seen.header.stamp.nanosec:09d}'
    begin, sent = time.monotonic(), 0
    while not (answer := [event for event in events if event.get('stamp') == stamp]):
        waited = time.monotonic() - begin
        if waited > 10.0:
            sys.exit('no answer to the pose within 10 s')
        if waited >= sent:  # each second, in case discovery has lost it
            publisher.publish(seen)
            sent += 1
        rclpy.spin_once(camera, timeout_sec=0.1)  # handles one event, of the last run too
    print(answer[0])  # `taught` may have a warning
    if answer[0]['event'] == 'refused':
        sys.exit(answer[0]['reason'])


rclpy.init()
camera = rclpy.create_node('camera')
publisher = camera.create_publisher(PoseStamped, 'pick_place/start_pose', 10)
events: list[dict[str, object]] = []
camera.create_subscription(
    String, 'pick_place/event', lambda message: events.append(json.loads(message.data)), 100
)
with PickPlaceClient() as cell:  # beside the camera's node: it has a thread of its own
    cell.init_gripper()
    cell.teach('home')
    cell.teach('start', **HERE)  # refused if the cycle has no such place
    for target in (THERE, HERE):
        teach_where_seen()
        cell.teach('target', **target)
        cell.plan()
        print(cell.run())
    cell.teach('start', **HERE)  # as they were
    cell.teach('target', **THERE)
