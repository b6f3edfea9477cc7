# SPDX-License-Identifier: Apache-2.0
"""What the README tells people to type is what works, letter by letter."""

import re
from pathlib import Path

import numpy as np
import rclpy
import yaml
from moveit_msgs.srv import GetPositionIK
from rclpy.executors import SingleThreadedExecutor

from ur5_pick_place.kinematics import JOINT_NAMES, forward, load_model
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK
from ur5_pick_place.nodes.messages.conversions import pose_to_matrix

README = (Path(__file__).parents[2] / 'README.md').read_text(encoding='utf-8')
CALL = re.compile(r'^ros2 service call (/\S+) (moveit_msgs/srv/\S+) "(\{.*\})"$', re.MULTILINE)


def fill(message: object, values: dict) -> None:
    """Set fields from YAML as `ros2 service call` does: those not named keep their defaults."""
    for name, value in values.items():
        if isinstance(value, dict):
            fill(getattr(message, name), value)
        else:
            setattr(message, name, value)


def call(name: str, request: GetPositionIK.Request) -> GetPositionIK.Response:
    """Run the node and ask it, both in this process, through DDS."""
    from ur5_pick_place.nodes.ik_service.node import IkService

    rclpy.init()
    nodes = [IkService(), rclpy.create_node('reader')]
    executor = SingleThreadedExecutor()
    try:
        for node in nodes:
            executor.add_node(node)
        client = nodes[1].create_client(GetPositionIK, name)
        assert client.wait_for_service(timeout_sec=20.0)
        future = client.call_async(request)
        executor.spin_until_future_complete(future, timeout_sec=10.0)
        return future.result()
    finally:
        executor.shutdown()
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()


def test_the_ik_call_needs_only_a_pose_and_is_answered_as_it_stands(ros_domain: int) -> None:
    ((name, kind, text),) = CALL.findall(README)
    assert (name, kind) == ('/compute_ik', 'moveit_msgs/srv/GetPositionIK')
    values = yaml.safe_load(text)
    assert list(values['ik_request']) == ['pose_stamped']
    assert list(values['ik_request']['pose_stamped']) == ['pose']
    request = GetPositionIK.Request()
    fill(request, values)
    reply = call(name, request)
    assert reply.error_code.val == reply.error_code.SUCCESS, reply.error_code.message
    assert tuple(reply.solution.joint_state.name) == JOINT_NAMES
    T_base_tool = forward(load_model('ur5'), np.array(reply.solution.joint_state.position))
    asked = pose_to_matrix(request.ik_request.pose_stamped.pose)
    assert np.abs(T_BASE_BASE_LINK @ asked - T_base_tool).max() < 1e-9
