# SPDX-License-Identifier: Apache-2.0
"""
The round trip of `compute_ik` beside those of empty services, in another process.

An empty GetPositionIK shows how long its large messages alone take in Python.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import rclpy
from measure import Row, compare
from moveit_msgs.srv import GetPositionIK
from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from std_srvs.srv import Trigger

from ur5_pick_place.demo.processes import own_domain
from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward, load_model
from ur5_pick_place.nodes.messages.conversions import joint_state_msg, matrix_to_pose
from ur5_pick_place.nodes.ros.environment import stay_on_loopback

CALLS = 50
_WAIT = 20.0  # [s]
_IK_SERVICE = 'from ur5_pick_place.nodes.ik_service.node import main; main()'
_BARE = """
import rclpy
from moveit_msgs.srv import GetPositionIK
from std_srvs.srv import Trigger
rclpy.init()
node = rclpy.create_node('bare')
node.create_service(Trigger, 'trigger', lambda request, response: response)
node.create_service(GetPositionIK, 'empty_ik', lambda request, response: response)
try:
    rclpy.spin(node)
except rclpy.executors.ExternalShutdownException:
    pass
"""


def measure() -> list[Row]:
    """Call `compute_ik` and the empty services in turns; nothing subscribes to `ik_markers`."""
    with own_domain() as domain:
        os.environ.update(ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST')
        stay_on_loopback()  # as our node does: shared memory takes 20 us less
        with _process(_IK_SERVICE), _process(_BARE):
            rclpy.init()
            try:
                return _round_trips()
            finally:
                rclpy.try_shutdown()


def _round_trips() -> list[Row]:
    node = rclpy.create_node('bench')
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    model = load_model('ur5')
    joints = HOME + np.random.default_rng(6).uniform(-0.8, 0.8, (CALLS, 6))
    poses = [_request(forward(model, q)) for q in joints]

    def calls(kind: type, name: str, requests: list) -> Callable[[], None]:
        client: Client = node.create_client(kind, name)
        if not client.wait_for_service(timeout_sec=_WAIT):
            raise TimeoutError(f'{name} did not appear within {_WAIT} s')

        def run() -> None:
            for request in requests:
                future = client.call_async(request)
                executor.spin_until_future_complete(future, timeout_sec=_WAIT)
                if future.result() is None:
                    raise TimeoutError(f'{name} did not answer within {_WAIT} s')

        return run

    return compare(
        'compute_ik, round trip',
        calls(GetPositionIK, 'compute_ik', poses),
        {
            'empty Trigger': calls(Trigger, 'trigger', [Trigger.Request()] * CALLS),
            'empty GetPositionIK': calls(GetPositionIK, 'empty_ik', poses),
        },
        CALLS,
        {'empty Trigger': 2.0, 'empty GetPositionIK': 1.2},
    )


def _request(T_base_tool: np.ndarray) -> GetPositionIK.Request:
    request = GetPositionIK.Request()
    request.ik_request.pose_stamped.header.frame_id = 'base'
    request.ik_request.pose_stamped.pose = matrix_to_pose(T_base_tool)
    request.ik_request.robot_state.joint_state = joint_state_msg(HOME, JOINT_NAMES)
    return request


@contextmanager
def _process(script: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, '-c', script], cwd=Path(__file__).parents[1])
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            process.kill()
