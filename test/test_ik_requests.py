# SPDX-License-Identifier: Apache-2.0
"""
Ten thousand requests, right and wrong, each get the right answer or the right error.

The node's own callbacks are called, as its executor calls them; `test_ik_service.py` goes through
DDS.

"""

import inspect
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')

from geometry_msgs.msg import PoseStamped  # noqa: E402
from moveit_msgs.msg import (  # noqa: E402
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionIKRequest,
    RobotState,
)
from moveit_msgs.srv import GetPositionFK, GetPositionIK  # noqa: E402

from ur5_pick_place.kinematics import BRANCHES, HOME, JOINT_NAMES, forward, load_model  # noqa: E402
from ur5_pick_place.kinematics.transforms import exp_se3  # noqa: E402
from ur5_pick_place.nodes.conversions import (  # noqa: E402
    joint_state_msg,
    matrix_to_pose,
    pose_to_matrix,
)

CONFIG = Path(__file__).parents[1] / 'config'
UR5 = load_model('ur5')
Codes = MoveItErrorCodes
Rng = np.random.Generator
Spoil = Callable[[PositionIKRequest, Rng], None]
FOO, NONE = (('-p', f'groups:={groups}', '-r', '__ns:=/groups') for groups in ('[foo]', '[]'))
NUMBERS = (math.nan, math.inf, -math.inf)
WORDS = ('', 'moon', 'base link', 'tool0 ', 'TCP', 'böse', '0', 'a/b', '\t', 'x' * 5000)


@pytest.fixture(scope='module', params=[()])
def services(ros_domain: int, request: pytest.FixtureRequest) -> Iterator[dict[str, Callable]]:
    """Give the node's callbacks by the names of services and topics."""
    from ur5_pick_place.nodes.ik_service import IkService

    file = str(CONFIG / 'robot_sim.yaml')
    rclpy.init(args=['--ros-args', '--params-file', file, *request.param])
    node = IkService()
    try:
        topics = {os.path.basename(s.topic_name): s.callback for s in node.subscriptions}
        yield topics | {os.path.basename(s.srv_name): at_once(s.callback) for s in node.services}
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def at_once(callback: Callable) -> Callable:
    """Run a callback that may be a coroutine, which must not wait for anything here."""

    def run(request: object, response: object) -> object:
        if not inspect.iscoroutinefunction(callback):
            return callback(request, response)
        with pytest.raises(StopIteration) as end:
            callback(request, response).send(None)
        return end.value.value

    return run


def ik_request(T: np.ndarray, seed: np.ndarray = HOME) -> GetPositionIK.Request:
    request = GetPositionIK.Request()
    request.ik_request.pose_stamped.header.frame_id = 'base'
    request.ik_request.pose_stamped.pose = matrix_to_pose(T)
    request.ik_request.robot_state.joint_state = joint_state_msg(seed, JOINT_NAMES)
    return request


def check_solutions(reply: GetPositionIK.Response, T: np.ndarray) -> None:
    """Every joint vector of a reply reaches the pose and keeps the limits."""
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    q = np.array(reply.solution.joint_state.position).reshape(-1, 6)
    assert len(q) and np.abs(forward(UR5, q) - T).max() < 1e-9
    assert ((q >= UR5.q_min) & (q <= UR5.q_max)).all()


def check_refused(reply: GetPositionIK.Response, code: int) -> None:
    assert reply.error_code.val == code, (reply.error_code.val, reply.error_code.message)
    assert len(reply.error_code.message) > 20
    assert not reply.solution.joint_state.name and not reply.solution.joint_state.position


def test_every_random_pose_is_answered(services: dict[str, Callable], rng: Rng) -> None:
    joints = rng.uniform(-np.pi, np.pi, (2000, 6))
    for q, T in zip(joints, forward(UR5, joints), strict=True):
        name = rng.choice(['compute_ik', 'compute_ik_all'])
        check_solutions(services[name](ik_request(T, q), GetPositionIK.Response()), T)


def test_every_singular_and_round_pose_is_answered(
    services: dict[str, Callable], rng: Rng
) -> None:
    """Stretched elbow, aligned wrist, tool above the base, exactly or almost; round angles."""
    joints = rng.uniform(-np.pi, np.pi, (2000, 6))
    joints[:500, 4] = 0.0
    joints[500:800, 2] = 0.0
    joints[300:500] += 10.0 ** rng.uniform(-12, -3, (200, 6))
    joints[800:1400] = np.deg2rad(rng.integers(-3, 4, (600, 6)) * 45.0)
    joints[1400:] = np.deg2rad(rng.integers(-11, 13, (600, 6)) * 15.0)
    joints[-1] = np.deg2rad([0, -90, 0, -90, 0, 0])
    for q, T in zip(joints, forward(UR5, joints), strict=True):
        seed = q + rng.normal(0.0, 0.1, 6)
        check_solutions(services['compute_ik'](ik_request(T, seed), GetPositionIK.Response()), T)


def test_every_unreachable_pose_says_why_on_all_branches(
    services: dict[str, Callable], rng: Rng
) -> None:
    for i in range(2000):
        T = exp_se3(rng.uniform(-np.pi, np.pi, 6))
        if i % 2:
            direction = rng.normal(size=3)
            T[:3, 3] = direction / np.linalg.norm(direction) * 10.0 ** rng.uniform(0.2, 12)
        else:  # frame 5 inside the cylinder about axis 1
            T[:3, 3] = [*rng.uniform(-0.07, 0.07, 2), rng.uniform(-0.5, 0.5)]
            T[:3, 3] += UR5.d[5] * T[:3, 2]
        name = ('compute_ik', 'compute_ik_all')[i % 2]
        reply = services[name](ik_request(T), GetPositionIK.Response())
        check_refused(reply, Codes.NO_IK_SOLUTION)
        assert all(f'{branch}: ' in reply.error_code.message for branch in BRANCHES)


def spoil_number(request: PositionIKRequest, rng: Rng) -> None:
    pose = request.pose_stamped.pose
    part, field = [(pose.position, a) for a in 'xyz'][rng.integers(3)]
    if rng.random() < 0.5:
        part, field = pose.orientation, 'xyzw'[rng.integers(4)]
    setattr(part, field, NUMBERS[rng.integers(3)])


def spoil_quaternion(request: PositionIKRequest, rng: Rng) -> None:
    q = request.pose_stamped.pose.orientation
    scale = (0.0, 1e-320, 0.98, 1.02, -3.0, 1e200)[rng.integers(6)]
    q.x, q.y, q.z, q.w = (scale * v for v in (q.x, q.y, q.z, q.w))


def spoil_frame(request: PositionIKRequest, rng: Rng) -> None:
    request.pose_stamped.header.frame_id = WORDS[rng.integers(1, len(WORDS))]


def spoil_link(request: PositionIKRequest, rng: Rng) -> None:
    if rng.random() < 0.3:
        request.ik_link_names = ['tool0'] * int(rng.integers(1, 3000))
    elif rng.random() < 0.3:
        request.pose_stamped_vector = [PoseStamped()] * int(rng.integers(1, 3000))
    else:
        request.ik_link_name = WORDS[rng.integers(1, len(WORDS))]


def spoil_group(request: PositionIKRequest, rng: Rng) -> None:
    request.group_name = WORDS[rng.integers(1, len(WORDS))]


def spoil_names(request: PositionIKRequest, rng: Rng) -> None:
    state = request.robot_state.joint_state
    one, other = rng.permutation(6)[:2]
    match rng.integers(5):
        case 0:  # unknown
            state.name[one] = WORDS[rng.integers(len(WORDS))]
        case 1:  # twice
            state.name[one] = JOINT_NAMES[other]
        case 2:  # one missing
            del state.name[one], state.position[one]
        case 3:  # lists of different length
            state.position = state.position[: int(rng.integers(6))]
        case _:  # a crowd
            n = int(rng.integers(300, 5000))
            state.name += [f'joint_{i}' for i in range(n)]
            state.position = [0.0] * (n + 6)


def spoil_seed(request: PositionIKRequest, rng: Rng) -> None:
    request.robot_state.joint_state.position[rng.integers(6)] = NUMBERS[rng.integers(3)]


def spoil_constraints(request: PositionIKRequest, rng: Rng) -> None:
    constraint = JointConstraint(
        joint_name='elbow_joint', position=1.5, tolerance_above=9.0, tolerance_below=9.0
    )
    match rng.integers(5):
        case 0:
            constraint.joint_name = WORDS[rng.integers(len(WORDS))]
        case 1:
            field = ('position', 'tolerance_above', 'tolerance_below')[rng.integers(3)]
            setattr(constraint, field, NUMBERS[rng.integers(3)])
        case 2:
            constraint.tolerance_below = -1e-3
        case 3:
            request.constraints.orientation_constraints = [OrientationConstraint()]
        case _:
            request.constraints.name = WORDS[rng.integers(1, len(WORDS))]
    request.constraints.joint_constraints = [constraint] * int(10.0 ** rng.uniform(0.0, 3.5))


GARBAGE: tuple[tuple[Spoil, int], ...] = (
    (spoil_number, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_quaternion, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_frame, Codes.FRAME_TRANSFORM_FAILURE),
    (spoil_link, Codes.INVALID_LINK_NAME),
    (spoil_group, Codes.INVALID_GROUP_NAME),
    (spoil_names, Codes.INVALID_ROBOT_STATE),
    (spoil_seed, Codes.INVALID_ROBOT_STATE),
    (spoil_constraints, Codes.INVALID_GOAL_CONSTRAINTS),
)


def test_every_kind_of_garbage_gets_its_own_error(services: dict[str, Callable], rng: Rng) -> None:
    for i in range(3600):
        spoil, code = GARBAGE[i % len(GARBAGE)]
        request = ik_request(forward(UR5, HOME))
        spoil(request.ik_request, rng)
        name = ('compute_ik', 'compute_ik_all')[i // 8 % 2]
        check_refused(services[name](request, GetPositionIK.Response()), code)
    T = forward(UR5, HOME)
    check_solutions(services['compute_ik'](ik_request(T), GetPositionIK.Response()), T)


def test_numbers_beyond_all_measure_are_finite_numbers(services: dict[str, Callable]) -> None:
    """A seed far away is answered near to it, a pose far away is too far."""
    T = forward(UR5, HOME)
    for far in (1e6, -1e17, 1e308):
        reply = services['compute_ik'](ik_request(T, np.full(6, far)), GetPositionIK.Response())
        check_solutions(reply, T)
    for far in (1e20, -1e160, 1e308):
        T[0, 3] = far
        reply = services['compute_ik'](ik_request(T), GetPositionIK.Response())
        check_refused(reply, Codes.NO_IK_SOLUTION)
        assert reply.error_code.message.count('too far: ') == 8


def test_fk_is_right_or_refused(services: dict[str, Callable], rng: Rng) -> None:
    for i in range(400):
        q = rng.uniform(-7, 7, 6)
        request = GetPositionFK.Request(fk_link_names=['tool0'])
        request.header.frame_id = 'base'
        request.robot_state.joint_state = joint_state_msg(q, JOINT_NAMES)
        code, state = Codes.SUCCESS, request.robot_state.joint_state
        match i % 5:
            case 1:
                request.header.frame_id = WORDS[rng.integers(1, len(WORDS))]
                code = Codes.FRAME_TRANSFORM_FAILURE
            case 2:
                request.fk_link_names = ['tool0', WORDS[rng.integers(1, len(WORDS))]]
                code = Codes.INVALID_LINK_NAME
            case 3:
                state.position[rng.integers(6)] = NUMBERS[rng.integers(3)]
                code = Codes.INVALID_ROBOT_STATE
            case 4:
                request.fk_link_names = ['tool0'] * 5000
                code = Codes.INVALID_LINK_NAME
        reply = services['compute_fk'](request, GetPositionFK.Response())
        assert reply.error_code.val == code, reply.error_code.message
        poses = [pose_to_matrix(p.pose) for p in reply.pose_stamped]
        assert len(poses) == (code == Codes.SUCCESS)
        assert all(np.abs(T - forward(UR5, q)).max() < 1e-9 for T in poses)


def test_joints_that_fell_silent_are_neither_seed_nor_state(
    services: dict[str, Callable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has died, and the arm may be moved by hand."""
    q = HOME + [0.0, 0.0, 0.0, 0.0, 0.0, 2 * np.pi]
    services['joint_states'](joint_state_msg(q, JOINT_NAMES))
    request = ik_request(forward(UR5, HOME))
    request.ik_request.robot_state = RobotState()

    def ask() -> tuple[np.ndarray, MoveItErrorCodes]:
        found = services['compute_ik'](request, GetPositionIK.Response()).solution.joint_state
        state = services['compute_fk'](GetPositionFK.Request(), GetPositionFK.Response())
        return np.array(found.position), state.error_code

    found, code = ask()
    assert np.abs(found - q).max() < 1e-9 and code.val == Codes.SUCCESS
    monkeypatch.setattr('ur5_pick_place.nodes.ik_service._PRESENT', 0.0)
    found, code = ask()
    assert np.abs(found - HOME).max() < 1e-9 and code.val == Codes.INVALID_ROBOT_STATE
    assert 'no recent joint_states' in code.message


@pytest.mark.parametrize(
    ('services', 'others'), [(FOO, ['foo']), (NONE, [])], indirect=['services']
)
def test_the_arms_own_group_needs_no_place_in_the_list(
    services: dict[str, Callable], others: list[str]
) -> None:
    T = forward(UR5, HOME)
    request = ik_request(T)
    for request.ik_request.group_name in ('', 'ur_manipulator', *others):
        check_solutions(services['compute_ik'](request, GetPositionIK.Response()), T)
    request.ik_request.group_name = 'arm'
    reply = services['compute_ik'](request, GetPositionIK.Response())
    check_refused(reply, Codes.INVALID_GROUP_NAME)
    assert f'use {", ".join(["ur_manipulator", *others])} or none' in reply.error_code.message
