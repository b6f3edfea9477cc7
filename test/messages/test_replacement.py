# SPDX-License-Identifier: Apache-2.0
"""The planner asks the controller whether it splices trajectories."""

import time

import pytest

rclpy = pytest.importorskip('rclpy')

from rclpy.callback_groups import ReentrantCallbackGroup  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402

from ur5_pick_place.nodes.driver.replacement import SPLICES, Replacement  # noqa: E402


@pytest.mark.parametrize(('value', 'splices'), [(True, True), (False, False), (None, False)])
def test_a_controller_without_the_parameter_restarts(ros_domain, value, splices):
    context = rclpy.Context()
    rclpy.init(context=context)
    executor = SingleThreadedExecutor(context=context)
    client = rclpy.create_node('client', context=context)
    controller = rclpy.create_node('some_controller', context=context)
    if value is not None:
        controller.declare_parameter(SPLICES, value)
    replies = []
    replacement = Replacement(client, 'some_controller', ReentrantCallbackGroup())
    on_reply = replacement._on_reply
    replacement._on_reply = lambda reply: (on_reply(reply), replies.append(reply))
    executor.add_node(client)
    executor.add_node(controller)
    try:
        end = time.monotonic() + 20.0
        while not replies and time.monotonic() < end:
            replacement.request_if_new()
            executor.spin_once(timeout_sec=0.05)
        assert replies and replacement.splices is splices
        assert len(replies) == 1, 'asked once'
    finally:
        executor.shutdown()
        client.destroy_node()
        controller.destroy_node()
        rclpy.try_shutdown(context=context)
