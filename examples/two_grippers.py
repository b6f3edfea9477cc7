# SPDX-License-Identifier: Apache-2.0
"""
One job for two grippers: carry a part there and back with whichever one the cell has.

Run it beside `make cell`, then beside `make cell GRIPPER=vacuum`: the script stays, and what
differs is where each gripper's TCP meets the part. On a robot each gripper is a parameter file,
and the nodes start again with that of the other: docs/howto/gripper.md. Change the coordinates
first there: they are those of the simulated cell, and replace the places that you taught.
"""

import rclpy
from rcl_interfaces.srv import GetParameters

from ur5_pick_place.client import PickPlaceClient

GRIP_HEIGHT = {'digital': 0.02, 'action': 0.02, 'vacuum': 0.045}  # [m] in, or on top of, the cube


def gripper_of_cell() -> str:
    """Return the parameter `gripper` of the task node."""
    node = rclpy.create_node('which_gripper')
    service = node.create_client(GetParameters, 'pick_place/get_parameters')
    service.wait_for_service()
    reply = service.call_async(GetParameters.Request(names=['gripper']))
    rclpy.spin_until_future_complete(node, reply)
    return reply.result().values[0].string_value


rclpy.init()
with PickPlaceClient() as cell:
    gripper = gripper_of_cell()
    here = {'xyz': (0.45, -0.20, GRIP_HEIGHT[gripper]), 'yaw_deg': 0}
    there = {'xyz': (0.40, 0.25, GRIP_HEIGHT[gripper]), 'yaw_deg': 30}
    back = {**here, 'yaw_deg': 90}  # turned: fingers then centre the other two sides
    cell.init_gripper()
    cell.teach('home')
    for start, target in ((here, there), (there, back)):
        cell.teach('start', **start)
        cell.teach('target', **target)
        cell.plan()
        print(f'{gripper}: {cell.run()}')
    cell.teach('start', **here)  # as they were
    cell.teach('target', **there)
