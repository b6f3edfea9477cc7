# SPDX-License-Identifier: Apache-2.0
"""The IK node, in a process of its own, answers right requests and survives wrong ones."""

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')

from calibration_files import SHIPPED, write  # noqa: E402
from geometry_msgs.msg import PoseStamped, TransformStamped  # noqa: E402
from ik_garbage import GARBAGE  # noqa: E402
from moveit_msgs.msg import JointConstraint, MoveItErrorCodes, PositionConstraint  # noqa: E402
from moveit_msgs.srv import GetPositionFK, GetPositionIK  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.node import Node  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from tf2_ros import StaticTransformBroadcaster  # noqa: E402
from visualization_msgs.msg import Marker, MarkerArray  # noqa: E402

from ur5_pick_place.kinematics import (  # noqa: E402
    BRANCHES,
    HOME,
    JOINT_NAMES,
    forward,
    inverse,
    load_model,
)
from ur5_pick_place.kinematics.loading import LINKS  # noqa: E402
from ur5_pick_place.kinematics.transforms import exp_se3, quat_from_matrix  # noqa: E402
from ur5_pick_place.nodes.conversions import (  # noqa: E402
    matrix_to_pose,
    matrix_to_transform,
    pose_to_matrix,
)

CONFIG = Path(__file__).parents[1] / 'config'
UR5 = load_model('ur5')
HALF_TURN = np.diag([-1.0, -1.0, 1.0, 1.0])  # base_link seen from base, and the other way round
Codes = MoveItErrorCodes


class Client:
    """Calls the node's services and waits for the reply, ten seconds at most."""

    def __init__(self, namespace: str) -> None:
        self.node = Node('test_ik_service', namespace=namespace)
        self.markers: list[MarkerArray] = []
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._services = {
            'compute_ik': self.node.create_client(GetPositionIK, 'compute_ik'),
            'compute_ik_all': self.node.create_client(GetPositionIK, 'compute_ik_all'),
            'compute_fk': self.node.create_client(GetPositionFK, 'compute_fk'),
        }

    def wait_for_node(self) -> None:
        for name, client in self._services.items():
            assert client.wait_for_service(timeout_sec=20.0), f'{name} did not appear'

    def call_async(self, name: str, request: object):
        return self._services[name].call_async(request)

    def call(self, name: str, request: object):
        future = self.call_async(name, request)
        self._executor.spin_until_future_complete(future, timeout_sec=10.0)
        assert future.done(), f'{name} did not answer'
        return future.result()

    def spin_until(self, condition: Callable[[], bool], timeout: float = 10.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, 'waited too long'
            self._executor.spin_once(timeout_sec=0.05)


@pytest.fixture(scope='module')
def context(ros_domain: int) -> Iterator[None]:
    rclpy.init()
    yield
    rclpy.try_shutdown()


@contextmanager
def client_of_node(namespace: str, *arguments: str) -> Iterator[Client]:
    """Run the node beside a client, which is told of it, and expect it to end on SIGINT."""
    script = 'from ur5_pick_place.nodes.ik_service import main; main()'
    files = [CONFIG / 'ik_service.yaml', CONFIG / 'robot_sim.yaml']
    arguments += tuple(word for file in files for word in ('--params-file', str(file)))
    arguments += ('-r', f'__ns:={namespace}')
    process = subprocess.Popen([sys.executable, '-c', script, '--ros-args', *arguments])
    client = Client(namespace)
    try:
        client.wait_for_node()
        yield client
        assert process.poll() is None, 'the node lives to the end'
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=5.0) == 0
    finally:
        process.kill()
        client.node.destroy_node()


@pytest.fixture(scope='module')
def client(context: None) -> Iterator[Client]:
    with client_of_node('/') as client:
        yield client


def ik_request(
    T_base_tool: np.ndarray, seed: np.ndarray | None = HOME, frame: str = 'base'
) -> GetPositionIK.Request:
    request = GetPositionIK.Request()
    request.ik_request.pose_stamped.header.frame_id = frame
    request.ik_request.pose_stamped.pose = matrix_to_pose(T_base_tool)
    if seed is not None:
        state = request.ik_request.robot_state.joint_state
        state.name, state.position = list(JOINT_NAMES), [float(v) for v in seed]
    return request


def joints_of(reply: GetPositionIK.Response) -> np.ndarray:
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    assert list(reply.solution.joint_state.name) == list(JOINT_NAMES)
    return np.array(reply.solution.joint_state.position)


def test_the_nearest_solution_to_the_seed_comes_back(
    client: Client, rng: np.random.Generator
) -> None:
    for _ in range(20):
        q = rng.uniform(-2, 2, 6)
        reply = client.call('compute_ik', ik_request(forward(UR5, q), seed=q + 0.01))
        assert np.abs(joints_of(reply) - q).max() < 1e-6


def test_a_seed_may_list_its_joints_in_any_order(client: Client) -> None:
    request = ik_request(forward(UR5, HOME))
    state = request.ik_request.robot_state.joint_state
    state.name, state.position = list(reversed(JOINT_NAMES)), [float(v) for v in HOME[::-1]]
    assert np.abs(joints_of(client.call('compute_ik', request)) - HOME).max() < 1e-9


def test_whole_turns_follow_the_seed(client: Client) -> None:
    seed = HOME + [0, 0, 0, 0, 0, 2 * np.pi - 0.3]
    reply = client.call('compute_ik', ik_request(forward(UR5, HOME), seed))
    assert np.abs(joints_of(reply) - HOME - [0, 0, 0, 0, 0, 2 * np.pi]).max() < 1e-9


def test_without_a_frame_the_pose_is_in_base_link(client: Client) -> None:
    for frame in ('', 'base_link', '/base_link'):
        request = ik_request(HALF_TURN @ forward(UR5, HOME), frame=frame)
        assert np.abs(joints_of(client.call('compute_ik', request)) - HOME).max() < 1e-9


def test_the_pose_may_be_in_any_frame_that_tf_knows(client: Client) -> None:
    """A camera beside the arm, turned, published after the node has started."""
    T_base_link_camera = exp_se3([0.4, -0.3, 0.9, 0.5, -2.0, 0.7])
    message = TransformStamped(child_frame_id='camera')
    message.header.frame_id = 'base_link'
    message.transform = matrix_to_transform(T_base_link_camera)
    broadcaster = StaticTransformBroadcaster(client.node)
    broadcaster.sendTransform(message)
    T_base_tool = forward(UR5, HOME)
    T_camera_tool = np.linalg.inv(T_base_link_camera) @ HALF_TURN @ T_base_tool
    request = ik_request(T_camera_tool, frame='camera')
    deadline = time.monotonic() + 10.0
    reply = client.call('compute_ik', request)
    while reply.error_code.val == Codes.FRAME_TRANSFORM_FAILURE and time.monotonic() < deadline:
        reply = client.call('compute_ik', request)
    assert np.abs(joints_of(reply) - HOME).max() < 1e-9
    wanted = GetPositionFK.Request(fk_link_names=['tool0'])
    wanted.header.frame_id = 'camera'
    wanted.robot_state = request.ik_request.robot_state
    seen = pose_to_matrix(client.call('compute_fk', wanted).pose_stamped[0].pose)
    assert np.abs(seen - T_camera_tool).max() < 1e-12


def test_a_request_waits_for_its_frame_as_long_as_its_timeout_says(client: Client) -> None:
    """Published while the request waits; in the meantime others are answered."""
    request = ik_request(HALF_TURN @ forward(UR5, HOME), frame='conveyor')
    request.ik_request.timeout.sec = 10
    waiting = client.call_async('compute_ik', request)
    for _ in range(3):
        joints_of(client.call('compute_ik', ik_request(forward(UR5, HOME))))
    assert not waiting.done()
    message = TransformStamped(child_frame_id='conveyor')
    message.header.frame_id = 'base_link'
    message.transform.rotation.w = 1.0
    broadcaster = StaticTransformBroadcaster(client.node)
    broadcaster.sendTransform(message)
    client.spin_until(waiting.done)
    assert np.abs(joints_of(waiting.result()) - HOME).max() < 1e-9


def test_a_frame_that_does_not_come_in_time_is_told(client: Client) -> None:
    request = ik_request(forward(UR5, HOME), frame='moon')
    request.ik_request.timeout.nanosec = 200_000_000
    for service in ('compute_ik', 'compute_ik_all'):
        reply = client.call(service, request)
        assert reply.error_code.val == Codes.TIMED_OUT
        assert "waited 0.2 s for TF: frame 'moon' is not known" in reply.error_code.message
        assert 'use base_link or base, or publish it' in reply.error_code.message
    request.ik_request.timeout.sec = -1
    reply = client.call('compute_ik', request)
    assert reply.error_code.val == Codes.INVALID_GOAL_CONSTRAINTS
    assert 'timeout = -0.8 s: must be 0' in reply.error_code.message


def test_the_pose_may_be_of_the_tcp(client: Client) -> None:
    T_base_tcp = forward(UR5, HOME)
    T_base_tcp[:3, 3] += 0.145 * T_base_tcp[:3, 2]
    request = ik_request(T_base_tcp)
    request.ik_request.ik_link_name = 'tcp'
    assert np.abs(joints_of(client.call('compute_ik', request)) - HOME).max() < 1e-9


def test_at_a_wrist_singularity_the_seed_keeps_its_last_joint(client: Client) -> None:
    q = np.array([0.3, -1.2, 1.4, -1.0, 0.0, 0.7])
    reply = client.call('compute_ik', ik_request(forward(UR5, q), seed=q))
    assert np.abs(joints_of(reply) - q).max() < 1e-9


def test_a_branch_can_be_asked_for_by_name(client: Client) -> None:
    q, ok = inverse(UR5, forward(UR5, HOME))
    for k in np.flatnonzero(ok):
        request = ik_request(forward(UR5, HOME))
        request.ik_request.constraints.name = BRANCHES[k]
        reply = client.call('compute_ik', request)
        assert np.abs(np.sin((joints_of(reply) - q[k]) / 2)).max() < 1e-9
        assert reply.error_code.message == BRANCHES[k]


def test_joint_constraints_narrow_the_limits(client: Client) -> None:
    request = ik_request(forward(UR5, HOME))
    request.ik_request.constraints.joint_constraints = [
        JointConstraint(
            joint_name='elbow_joint', position=-1.5, tolerance_above=0.5, tolerance_below=0.5
        )
    ]
    assert -2.0 <= joints_of(client.call('compute_ik', request))[2] <= -1.0
    request.ik_request.constraints.joint_constraints[0].position = 0.1
    request.ik_request.constraints.joint_constraints[0].tolerance_above = 0.01
    request.ik_request.constraints.joint_constraints[0].tolerance_below = 0.01
    reply = client.call('compute_ik', request)
    assert reply.error_code.val == Codes.GOAL_CONSTRAINTS_VIOLATED
    assert 'left-up-up: outside the joint limits or constraints' in reply.error_code.message


def test_collisions_are_avoided_when_asked(client: Client) -> None:
    T = forward(UR5, HOME)
    T[2, 3] = 0.14  # the fingers are in the table
    request = ik_request(T)
    joints_of(client.call('compute_ik', request))
    request.ik_request.avoid_collisions = True
    reply = client.call('compute_ik', request)
    assert reply.error_code.val == Codes.GOAL_IN_COLLISION
    assert 'left-up-up: in collision: ' in reply.error_code.message
    assert 'table' in reply.error_code.message


def test_compute_ik_all_gives_every_branch_best_first_and_the_reasons(client: Client) -> None:
    T = forward(UR5, np.deg2rad([10, -45, 0, 20, 30, 40]))
    q, ok = inverse(UR5, T, HOME[5])
    reply = client.call('compute_ik_all', ik_request(T))
    assert reply.error_code.val == Codes.SUCCESS
    names = [name.split('/') for name in reply.solution.joint_state.name]
    branches = [branch for branch, _ in names[::6]]
    assert sorted(branches) == sorted(BRANCHES[k] for k in np.flatnonzero(ok))
    assert [joint for _, joint in names] == list(JOINT_NAMES) * len(branches)
    joints = np.array(reply.solution.joint_state.position).reshape(-1, 6)
    for branch, row in zip(branches, joints, strict=True):
        assert np.abs(np.sin((row - q[BRANCHES.index(branch)]) / 2)).max() < 1e-9
    distances = np.abs(joints - HOME).max(axis=1)
    assert (np.diff(distances) >= 0).all()
    for k in np.flatnonzero(~ok):
        assert f'{BRANCHES[k]}: ' in reply.error_code.message


def test_out_of_reach_names_the_reason_on_every_branch(client: Client) -> None:
    T = forward(UR5, HOME)
    T[0, 3] -= 2.0
    for service in ('compute_ik', 'compute_ik_all'):
        reply = client.call(service, ik_request(T))
        assert reply.error_code.val == Codes.NO_IK_SOLUTION
        assert reply.error_code.message.count('too far: the stretched elbow misses by ') == 8
        assert not reply.solution.joint_state.name


def test_fk_gives_the_tool_and_the_tcp_in_the_frame_asked_for(client: Client) -> None:
    request = GetPositionFK.Request(fk_link_names=['tool0', 'tcp'])
    state = request.robot_state.joint_state
    state.name, state.position = list(JOINT_NAMES), [float(v) for v in HOME]
    for frame, T_frame_base in (('', HALF_TURN), ('base', np.eye(4))):
        request.header.frame_id = frame
        reply = client.call('compute_fk', request)
        assert reply.error_code.val == Codes.SUCCESS
        assert list(reply.fk_link_names) == ['tool0', 'tcp']
        tool, tcp = (pose_to_matrix(p.pose) for p in reply.pose_stamped)
        assert np.abs(tool - T_frame_base @ forward(UR5, HOME)).max() < 1e-12
        assert np.abs(tcp[:3, 3] - tool[:3, 3] - 0.145 * tool[:3, 2]).max() < 1e-12
        assert reply.pose_stamped[0].header.frame_id == (frame or 'base_link')


def test_ghosts_are_drawn_for_whoever_listens(client: Client) -> None:
    heard: list[MarkerArray] = []
    listener = client.node.create_subscription(MarkerArray, 'ik_markers', heard.append, 1)
    client.spin_until(lambda: client.node.count_publishers('ik_markers') > 0)
    deadline = time.monotonic() + 10.0
    while not heard and time.monotonic() < deadline:  # until discovery is through both ways
        client.call('compute_ik_all', ik_request(forward(UR5, HOME)))
        client.spin_until(lambda: True)
    ghosts = [m for m in heard[0].markers if m.action == Marker.ADD]
    assert len(ghosts) == 8
    tip = ghosts[0].points[-1]
    expected = HALF_TURN @ forward(UR5, HOME)
    assert np.allclose([tip.x, tip.y, tip.z], expected[:3, 3], atol=1e-9)
    client.node.destroy_subscription(listener)


def test_joint_states_are_the_seed_and_the_state_where_none_is_given(client: Client) -> None:
    """Until joints are heard FK says so; afterwards they are what it takes."""
    reply = client.call('compute_fk', GetPositionFK.Request())
    assert reply.error_code.val == Codes.INVALID_ROBOT_STATE
    assert 'no recent joint_states' in reply.error_code.message
    q = HOME + 0.2
    publisher = client.node.create_publisher(JointState, 'joint_states', 10)
    state = JointState(name=sorted(JOINT_NAMES))
    state.position = [float(q[JOINT_NAMES.index(name)]) for name in state.name]
    deadline = time.monotonic() + 10.0
    while reply.error_code.val != Codes.SUCCESS and time.monotonic() < deadline:
        publisher.publish(state)
        reply = client.call('compute_fk', GetPositionFK.Request())
    assert list(reply.fk_link_names) == ['tool0']
    gripper = JointState(name=['finger_joint'], position=[0.4])
    for _ in range(5):  # on the same topic, and says nothing of the arm
        publisher.publish(gripper)
        reply = client.call('compute_fk', GetPositionFK.Request())
        assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    T = HALF_TURN @ forward(UR5, q)
    assert np.abs(pose_to_matrix(reply.pose_stamped[0].pose) - T).max() < 1e-12
    found = joints_of(client.call('compute_ik', ik_request(forward(UR5, q), seed=None)))
    assert np.abs(found - q).max() < 1e-9


def set_quaternion(request: GetPositionIK.Request, *xyzw: float) -> None:
    q = request.ik_request.pose_stamped.pose.orientation
    q.x, q.y, q.z, q.w = xyzw


WRONG: dict[str, tuple[Callable, int, str]] = {
    'position is NaN': (
        lambda r: setattr(r.ik_request.pose_stamped.pose.position, 'x', math.nan),
        Codes.INVALID_GOAL_CONSTRAINTS,
        'not finite',
    ),
    'zero quaternion': (
        lambda r: set_quaternion(r, 0.0, 0.0, 0.0, 0.0),
        Codes.INVALID_GOAL_CONSTRAINTS,
        'has norm 0: must be a unit quaternion',
    ),
    'unknown frame': (
        lambda r: setattr(r.ik_request.pose_stamped.header, 'frame_id', 'moon'),
        Codes.FRAME_TRANSFORM_FAILURE,
        "frame 'moon' is not known",
    ),
    'unknown link': (
        lambda r: setattr(r.ik_request, 'ik_link_name', 'elbow'),
        Codes.INVALID_LINK_NAME,
        "tip link 'elbow' is not known: use tool0 or tcp",
    ),
    'unknown group': (
        lambda r: setattr(r.ik_request, 'group_name', 'left_leg'),
        Codes.INVALID_GROUP_NAME,
        "group 'left_leg' is unknown: use ur_manipulator, arm or none",
    ),
    'unknown branch': (
        lambda r: setattr(r.ik_request.constraints, 'name', 'elbow_up'),
        Codes.INVALID_GOAL_CONSTRAINTS,
        "branch 'elbow_up': must be one of left-up-down",
    ),
    'wrong joint names': (
        lambda r: setattr(r.ik_request.robot_state.joint_state, 'name', list('abcdef')),
        Codes.INVALID_ROBOT_STATE,
        'has no position of shoulder_pan_joint',
    ),
    'a joint twice': (
        lambda r: setattr(
            r.ik_request.robot_state.joint_state, 'name', ['elbow_joint', *JOINT_NAMES[1:]]
        ),
        Codes.INVALID_ROBOT_STATE,
        'names a joint twice',
    ),
    'too few positions': (
        lambda r: setattr(r.ik_request.robot_state.joint_state, 'position', [0.0]),
        Codes.INVALID_ROBOT_STATE,
        '6 joint names and 1 of position',
    ),
    'seed is NaN': (
        lambda r: setattr(r.ik_request.robot_state.joint_state, 'position', [math.nan] * 6),
        Codes.INVALID_ROBOT_STATE,
        'position of shoulder_pan_joint is nan',
    ),
    'huge lists': (
        lambda r: (
            setattr(r.ik_request.robot_state.joint_state, 'name', [f'j{i}' for i in range(9999)]),
            setattr(r.ik_request.robot_state.joint_state, 'position', [0.0] * 9999),
        ),
        Codes.INVALID_ROBOT_STATE,
        'at most 256',
    ),
    'constraint on an unknown joint': (
        lambda r: r.ik_request.constraints.joint_constraints.append(
            JointConstraint(joint_name='knee')
        ),
        Codes.INVALID_GOAL_CONSTRAINTS,
        "joint 'knee' is unknown: shoulder_pan_joint",
    ),
    'constraint that is NaN': (
        lambda r: r.ik_request.constraints.joint_constraints.append(
            JointConstraint(joint_name='elbow_joint', position=math.nan)
        ),
        Codes.INVALID_GOAL_CONSTRAINTS,
        'constraint on elbow_joint: position nan',
    ),
    'a kind of constraint we do not know': (
        lambda r: r.ik_request.constraints.position_constraints.append(PositionConstraint()),
        Codes.INVALID_GOAL_CONSTRAINTS,
        'position constraints are not supported',
    ),
    'several tips': (
        lambda r: r.ik_request.pose_stamped_vector.append(PoseStamped()),
        Codes.INVALID_LINK_NAME,
        'this arm has one tip',
    ),
}


@pytest.mark.parametrize('what', WRONG)
def test_a_wrong_request_gets_its_code_and_a_reason(client: Client, what: str) -> None:
    spoil, code, message = WRONG[what]
    request = ik_request(forward(UR5, HOME))
    spoil(request)
    for service in ('compute_ik', 'compute_ik_all'):
        reply = client.call(service, request)
        assert reply.error_code.val == code
        assert message in reply.error_code.message
        assert not reply.solution.joint_state.name


def test_hundreds_of_wrong_requests_on_the_wire_leave_the_node_alive(
    client: Client, rng: np.random.Generator
) -> None:
    for i in range(320):
        spoil, code = GARBAGE[i % len(GARBAGE)]
        request = ik_request(forward(UR5, HOME))
        spoil(request.ik_request, rng)
        reply = client.call(('compute_ik', 'compute_ik_all')[i // 8 % 2], request)
        assert reply.error_code.val == code, reply.error_code.message
    assert len(joints_of(client.call('compute_ik', ik_request(forward(UR5, HOME))))) == 6


def test_a_rounded_quaternion_is_normalised(client: Client) -> None:
    T = forward(UR5, HOME)
    request = ik_request(T)
    set_quaternion(request, *(1.005 * quat_from_matrix(T[:3, :3])))
    assert np.abs(joints_of(client.call('compute_ik', request)) - HOME).max() < 1e-9


def test_fk_of_an_unknown_link_is_refused(client: Client) -> None:
    request = GetPositionFK.Request(fk_link_names=['tool0', 'nose'])
    request.robot_state.joint_state.name = list(JOINT_NAMES)
    request.robot_state.joint_state.position = [0.0] * 6
    reply = client.call('compute_fk', request)
    assert reply.error_code.val == Codes.INVALID_LINK_NAME
    assert "'nose' is not known" in reply.error_code.message and not reply.pose_stamped
    request.fk_link_names = ['tool0'] * 65
    assert 'must be at most 64' in client.call('compute_fk', request).error_code.message


def test_a_calibrated_arm_is_answered_by_its_own_kinematics(
    context: None, tmp_path: Path, rng: np.random.Generator
) -> None:
    off = rng.normal(0.0, [5e-4] * 3 + [1e-3] * 3, (6, 6))
    links = {link: np.add(SHIPPED[link], off[i]) for i, link in enumerate(LINKS)}
    path = write(tmp_path / 'calibration.yaml', links)
    calibrated = load_model(path)
    T = forward(calibrated, HOME)
    assert np.abs(T - forward(UR5, HOME)).max() > 1e-4, 'the file matters'
    with client_of_node('/calibrated', '-p', f'kinematics_params_file:={path}') as client:
        best = joints_of(client.call('compute_ik', ik_request(T)))
        reply = client.call('compute_ik_all', ik_request(T))
        request = GetPositionFK.Request()
        request.header.frame_id = 'base'
        request.robot_state = ik_request(T, best).ik_request.robot_state
        seen = pose_to_matrix(client.call('compute_fk', request).pose_stamped[0].pose)
    assert np.abs(best - HOME).max() < 1e-9
    joints = np.array(reply.solution.joint_state.position).reshape(-1, 6)
    assert len(joints) == 8
    assert np.abs(forward(calibrated, joints) - T).max() < 1e-10
    assert np.abs(seen - T).max() < 1e-10
