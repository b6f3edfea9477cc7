# SPDX-License-Identifier: Apache-2.0
"""Nodes of ours without an executor: their own callbacks, called as an executor calls them."""

import inspect
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rclpy
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan

CONFIG = Path(__file__).parents[3] / 'config'
_TIMEOUT = 60.0  # [s]


def at_once(callback: Callable) -> Callable:
    """Return a callback; of a coroutine, which must wait for no timer here, what runs it."""
    if not inspect.iscoroutinefunction(callback):
        return callback

    def run(request: object, response: object) -> object:
        running, deadline = callback(request, response), time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            try:
                running.send(None)
            except StopIteration as end:
                return end.value
            time.sleep(1e-4)
        raise AssertionError('it does not end')

    return run


@contextmanager
def nodes_alone(*kinds: Callable, words: tuple[str, ...] = ()) -> Iterator[list[Any]]:
    """Give nodes for the simulated robot, of which nobody is there."""
    rclpy.init(args=['--ros-args', '--params-file', str(CONFIG / 'robot_sim.yaml'), *words])
    nodes = [kind() for kind in kinds]
    try:
        yield nodes
    finally:
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()


def callbacks_of(*nodes: Any) -> dict[str, Callable]:
    """Return the callbacks of nodes by the names of their topics and services."""
    found = {}
    for node in nodes:
        found |= {os.path.basename(s.topic_name): s.callback for s in node.subscriptions}
        found |= {os.path.basename(s.srv_name): at_once(s.callback) for s in node.services}
    return found


def plan(services: dict[str, Callable], request: GetMotionPlan.Request):
    reply = services['plan_kinematic_path'](request, GetMotionPlan.Response())
    return reply.motion_plan_response


def line(services: dict[str, Callable], request: GetCartesianPath.Request):
    return services['compute_cartesian_path'](request, GetCartesianPath.Response())


def check_refused(reply: Any, code: int, words: str = '') -> None:
    """A refusal has its code, says why, and holds no motion."""
    assert reply.error_code.val == code, (reply.error_code.val, reply.error_code.message)
    assert words in reply.error_code.message and len(reply.error_code.message) > 20
    solution = getattr(reply, 'solution', None) or getattr(reply, 'trajectory', None)
    assert not hasattr(solution, 'joint_trajectory') or not solution.joint_trajectory.points
