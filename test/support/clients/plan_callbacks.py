# SPDX-License-Identifier: Apache-2.0
"""The planner's own callbacks without a robot, called as its executor calls them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import rclpy
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan

CONFIG = Path(__file__).parents[3] / 'config'


@pytest.fixture(scope='module', params=[()])
def services(ros_domain: int, request: pytest.FixtureRequest) -> Iterator[dict[str, Callable]]:
    """Give the callbacks of a planner without a robot by the names of services and topics."""
    from ur5_pick_place.nodes.trajectory_planner.node import TrajectoryPlanner

    file = str(CONFIG / 'robot_sim.yaml')
    rclpy.init(args=['--ros-args', '--params-file', file, *request.param])
    node = TrajectoryPlanner()
    try:
        topics = {os.path.basename(s.topic_name): s.callback for s in node.subscriptions}
        yield topics | {os.path.basename(s.srv_name): s.callback for s in node.services}
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def plan(services: dict[str, Callable], request: GetMotionPlan.Request):
    reply = services['plan_kinematic_path'](request, GetMotionPlan.Response())
    return reply.motion_plan_response


def line(services: dict[str, Callable], request: GetCartesianPath.Request):
    return services['compute_cartesian_path'](request, GetCartesianPath.Response())


def check_refused(reply, code: int) -> None:
    assert reply.error_code.val == code, (reply.error_code.val, reply.error_code.message)
    assert len(reply.error_code.message) > 20
    solution = reply.solution if hasattr(reply, 'solution') else reply.trajectory
    assert not solution.joint_trajectory.points
