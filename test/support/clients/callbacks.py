# SPDX-License-Identifier: Apache-2.0
"""
Nodes of ours without an executor: their own callbacks, called as an executor calls them.

TF and joint_states show those of `services` the arm elsewhere all the while, so that whatever is
looked up there instead of in the request comes out wrong; the robot description's own frames judge
them.
"""

import inspect
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import rclpy
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from motion_planners import PICK
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan
from moveit_requests import CONFIG, Codes
from rclpy.serialization import serialize_message
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.nodes.messages.conversions import joint_state_msg
from ur5_pick_place.sim.physics.arm import Frame, fixed_frames, link_frames, load_arm

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
    held = getattr(solution, 'joint_trajectory', None) or getattr(solution, 'joint_state', None)
    assert not held or not getattr(held, 'points', getattr(held, 'position', None))


Services = dict[str, Callable[..., Any]]
TCP_AHEAD = 0.145  # [m] of tool0, in config/scene_sim.yaml
PRESENT = PICK + [0.8, 0.1, -0.2, 0.3, 0.2, -0.4]  # where TF and joint_states have the arm
CAMERA = Frame('flange', 'camera', (0.02, -0.03, 0.05), (0.0, 0.0, 0.6, 0.8))
BOARD = Frame('base_link', 'board', (0.4, 0.1, 0.3), (1.0, 0.0, 0.0, 0.0))


@pytest.fixture(scope='module', params=[()])
def services(ros_domain: int, request: pytest.FixtureRequest) -> Iterator[Services]:
    """Give the callbacks of planner and IK service, which have the arm at PRESENT."""
    from ur5_pick_place.nodes.ik_service.node import IkService
    from ur5_pick_place.nodes.trajectory_planner.node import TrajectoryPlanner

    prefix = 'left_' if request.param else ''
    with nodes_alone(TrajectoryPlanner, IkService, words=request.param) as nodes:
        found: Services = callbacks_of(*nodes)
        for node in reversed(nodes):
            topics = {os.path.basename(s.topic_name): taker(s) for s in node.subscriptions}
            for frame in arm_at(PRESENT, prefix):
                topics['tf'](TFMessage(transforms=[stamped(frame)]))
            topics['joint_states'](joints(PRESENT, prefix))
            found |= topics  # the planner's, and those of the IK service alone
        yield found


def taker(subscription: Any) -> Callable[[Any], None]:
    """Return what hands a message to a subscription, as bytes if it takes those."""
    hear = subscription.callback
    info = [{}] * (len(inspect.signature(hear).parameters) - 1)  # of no publisher
    return lambda message: hear(
        serialize_message(message) if subscription.raw else message, *info
    )


def arm_at(q: np.ndarray, prefix: str = '') -> list[Frame]:
    """Give the robot description's frames, a camera on the flange and a board beside the arm."""
    camera, board = (
        Frame(prefix + f.parent, f.child, f.position, f.quat_xyzw) for f in (CAMERA, BOARD)
    )
    return [*fixed_frames(prefix), *link_frames(load_arm('ur5'), q, prefix), camera, board]


def stamped(frame: Frame) -> TransformStamped:
    message = TransformStamped(child_frame_id=frame.child)
    message.header.frame_id, message.header.stamp = frame.parent, Time(sec=1)
    p, r = message.transform.translation, message.transform.rotation
    p.x, p.y, p.z = frame.position
    r.x, r.y, r.z, r.w = frame.quat_xyzw
    return message


def pose_in_base(child: str, q: np.ndarray, prefix: str = '') -> np.ndarray:
    """Walk the robot description's tree, which knows nothing of our own links' poses."""
    tree = {f.child: f for f in arm_at(q, prefix)}
    tree[f'{prefix}tcp'] = Frame(f'{prefix}tool0', '', (0.0, 0.0, TCP_AHEAD), (0.0, 0.0, 0.0, 1.0))
    T = np.eye(4)
    while child != f'{prefix}base_link':
        step = np.eye(4)
        step[:3, :3] = Rotation.from_quat(tree[child].quat_xyzw).as_matrix()
        step[:3, 3] = tree[child].position
        T, child = step @ T, tree[child].parent
    return np.diag([-1.0, -1.0, 1.0, 1.0]) @ T


def joints(q: np.ndarray, prefix: str = '') -> JointState:
    message = joint_state_msg(q, [prefix + name for name in JOINT_NAMES])
    message.velocity = [0.0] * 6
    return message


def end_of(reply: Any) -> np.ndarray:
    """Joints at the end of what was planned, (6,) [rad]."""
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    solution = reply.solution if hasattr(reply, 'solution') else reply.trajectory
    return np.array(solution.joint_trajectory.points[-1].positions)
