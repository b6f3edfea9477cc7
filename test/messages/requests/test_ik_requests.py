# SPDX-License-Identifier: Apache-2.0
"""
Ten thousand requests, right and wrong, each get the right answer or the right error.

The node's own callbacks are called, as its executor calls them; `test_ik_service.py` goes through
DDS.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from callbacks import callbacks_of, check_refused, nodes_alone
from geometry_msgs.msg import PoseStamped, Quaternion
from moveit_msgs.msg import JointConstraint, MoveItErrorCodes, OrientationConstraint, RobotState
from moveit_msgs.srv import GetPositionFK, GetPositionIK
from moveit_requests import FOO, NONE, UR5, WORDS, Codes, fk_request, ik_request, put
from rclpy.serialization import serialize_message
from twists import exp_se3

from ur5_pick_place.errors import CollisionCheckUnavailable, InCollision
from ur5_pick_place.kinematics import BRANCHES, HOME, JOINT_NAMES, Solution, forward, inverse
from ur5_pick_place.nodes.cell.robot_settings import GroupSettings
from ur5_pick_place.nodes.ik_service.requests import IkRequests
from ur5_pick_place.nodes.messages.conversions import joint_state_msg, pose_to_matrix

FRAMES = SimpleNamespace(
    T_base_frame=lambda *_, **__: np.eye(4), T_link_tool=lambda _: np.eye(4), prefix=''
)
ARM = SimpleNamespace(model=UR5, frames=FRAMES, joint_names=JOINT_NAMES)


@pytest.fixture(scope='module', params=[()])
def services(ros_domain: int, request: pytest.FixtureRequest) -> Iterator[dict[str, Callable]]:
    """Give the node's callbacks by the names of services and topics."""
    from ur5_pick_place.nodes.ik_service.node import IkService

    with nodes_alone(IkService, words=request.param) as nodes:
        yield callbacks_of(*nodes)


def check_solutions(reply: GetPositionIK.Response, T: np.ndarray) -> None:
    """Every joint vector of a reply reaches the pose and keeps the limits."""
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    q = np.array(reply.solution.joint_state.position).reshape(-1, 6)
    assert len(q) and np.abs(forward(UR5, q) - T).max() < 1e-9
    assert ((q >= UR5.q_min) & (q <= UR5.q_max)).all()


def test_every_random_pose_is_answered(services, rng):
    joints = rng.uniform(-np.pi, np.pi, (2000, 6))
    for q, T in zip(joints, forward(UR5, joints), strict=True):
        name = rng.choice(['compute_ik', 'compute_ik_all'])
        check_solutions(services[name](ik_request(T, q), GetPositionIK.Response()), T)


def test_every_unreachable_pose_says_why_on_all_branches(services, rng):
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


def constraint(name: str = 'elbow_joint', **fields: float) -> list[JointConstraint]:
    return [JointConstraint(joint_name=name, **fields)]


SEED, POSE = 'robot_state.joint_state', 'pose_stamped.pose'
WISHES = 'constraints.joint_constraints'
REFUSED = [
    (f'{POSE}.position.x', np.nan, 'INVALID_GOAL_CONSTRAINTS', 'not finite'),
    (f'{POSE}.orientation.w', np.inf, 'INVALID_GOAL_CONSTRAINTS', 'norm inf'),
    (f'{POSE}.orientation', Quaternion(w=0.0), 'INVALID_GOAL_CONSTRAINTS', 'has norm 0'),
    (f'{POSE}.orientation', Quaternion(w=1.02), 'INVALID_GOAL_CONSTRAINTS', 'norm 1.02'),
    ('ik_link_name', 'elbow', 'INVALID_LINK_NAME', "'elbow' is not known: use one of tool0"),
    ('ik_link_names', ['tool0'], 'INVALID_LINK_NAME', 'this arm has one tip'),
    ('pose_stamped_vector', [PoseStamped()] * 3000, 'INVALID_LINK_NAME', 'has one tip'),
    (f'{SEED}.name.0', 'a', 'INVALID_ROBOT_STATE', 'no position of shoulder_pan_joint'),
    (f'{SEED}.name.0', 'elbow_joint', 'INVALID_ROBOT_STATE', 'names a joint twice'),
    (f'{SEED}.position', [0.0], 'INVALID_ROBOT_STATE', 'a position array of length 1'),
    (f'{SEED}.name', ['j'] * 9999, 'INVALID_ROBOT_STATE', 'at most 256'),
    (f'{SEED}.position.2', np.nan, 'INVALID_ROBOT_STATE', 'elbow_joint is nan'),
    (f'{SEED}.position.2', 90.0, 'INVALID_ROBOT_STATE', 'elbow_joint is 90 rad: must be at most'),
    (WISHES, constraint('knee'), 'INVALID_GOAL_CONSTRAINTS', "joint 'knee' is unknown"),
    (WISHES, constraint(position=np.nan), 'INVALID_GOAL_CONSTRAINTS', 'position nan'),
    (WISHES, constraint(position=90.0), 'INVALID_GOAL_CONSTRAINTS', 'radians, not degrees?'),
    (WISHES, constraint(tolerance_below=-1e-3), 'INVALID_GOAL_CONSTRAINTS', 'not negative'),
    (WISHES, constraint() * 3000, 'INVALID_GOAL_CONSTRAINTS', '3000 joint constraints'),
    ('constraints.name', 'up', 'INVALID_GOAL_CONSTRAINTS', "branch 'up': must be one of left-"),
    (
        'constraints.orientation_constraints',
        [OrientationConstraint()],
        'INVALID_GOAL_CONSTRAINTS',
        'orientation constraints are not supported',
    ),
    *(('pose_stamped.header.frame_id', w, 'FRAME_TRANSFORM_FAILURE', 'frame ') for w in WORDS),
    *(('group_name', word, 'INVALID_GROUP_NAME', 'use ur_manipulator') for word in WORDS),
]


def test_each_wrong_field_gets_its_code_and_is_named(services):
    for path, value, code, words in REFUSED:
        request = ik_request(forward(UR5, HOME))
        put(request.ik_request, path, value)
        for name in ('compute_ik', 'compute_ik_all'):
            reply = services[name](request, GetPositionIK.Response())
            check_refused(reply, getattr(Codes, code), words)


def test_a_branch_can_be_asked_for_by_name(services):
    q, ok = inverse(UR5, forward(UR5, HOME))
    for k in np.flatnonzero(ok):
        request = ik_request(forward(UR5, HOME))
        request.ik_request.constraints.name = BRANCHES[k]
        reply = services['compute_ik'](request, GetPositionIK.Response())
        found = np.array(reply.solution.joint_state.position)
        assert np.abs(np.sin((found - q[k]) / 2)).max() < 1e-9
        assert reply.error_code.message == BRANCHES[k]


def test_every_branch_comes_best_first_with_the_reasons_of_the_others(services):
    T = forward(UR5, np.deg2rad([10, -45, 0, 20, 30, 40]))
    q, ok = inverse(UR5, T, HOME[5])
    reply = services['compute_ik_all'](ik_request(T), GetPositionIK.Response())
    check_solutions(reply, T)
    names = [name.split('/') for name in reply.solution.joint_state.name]
    branches = [branch for branch, _ in names[::6]]
    assert sorted(branches) == sorted(BRANCHES[k] for k in np.flatnonzero(ok))
    assert [joint for _, joint in names] == list(JOINT_NAMES) * len(branches)
    joints = np.array(reply.solution.joint_state.position).reshape(-1, 6)
    for branch, row in zip(branches, joints, strict=True):
        assert np.abs(np.sin((row - q[BRANCHES.index(branch)]) / 2)).max() < 1e-9
    assert (np.diff(np.abs(joints - HOME).max(axis=1)) >= 0).all()
    assert all(f'{BRANCHES[k]}: ' in reply.error_code.message for k in np.flatnonzero(~ok))


def test_joint_constraints_narrow_the_limits(services):
    request = ik_request(forward(UR5, HOME))
    wish = {'tolerance_above': 0.5, 'tolerance_below': 0.5}
    put(request.ik_request, WISHES, constraint(position=-1.5, **wish))
    reply = services['compute_ik'](request, GetPositionIK.Response())
    assert -2.0 <= reply.solution.joint_state.position[2] <= -1.0
    put(request.ik_request, WISHES, constraint(position=0.1))
    reply = services['compute_ik'](request, GetPositionIK.Response())
    check_refused(reply, Codes.GOAL_CONSTRAINTS_VIOLATED)


def test_collisions_are_avoided_when_asked(services):
    T = forward(UR5, HOME)
    T[2, 3] = 0.14  # the fingers are in the table
    request = ik_request(T)
    check_solutions(services['compute_ik'](request, GetPositionIK.Response()), T)
    request.ik_request.avoid_collisions = True
    reply = services['compute_ik'](request, GetPositionIK.Response())
    check_refused(reply, Codes.GOAL_IN_COLLISION, 'left-up-up: in collision: ')
    assert 'table' in reply.error_code.message


def test_numbers_beyond_all_measure_are_finite_numbers(services):
    """A seed far away is in degrees, or nonsense; a pose far away is too far."""
    T = forward(UR5, HOME)
    for far in (1e6, -1e17, 1e308):
        reply = services['compute_ik'](ik_request(T, np.full(6, far)), GetPositionIK.Response())
        check_refused(reply, Codes.INVALID_ROBOT_STATE, 'two turns; radians, not degrees?')
    for far in (1e20, -1e160, 1e308):
        T[0, 3] = far
        reply = services['compute_ik'](ik_request(T), GetPositionIK.Response())
        check_refused(reply, Codes.NO_IK_SOLUTION)
        assert reply.error_code.message.count('too far: ') == 8


def test_fk_is_right_or_refused(services, rng):
    state = 'robot_state.joint_state'
    for path, value, code in (
        ('fk_link_names', ['tool0'], 'SUCCESS'),
        ('header.frame_id', 'moon', 'FRAME_TRANSFORM_FAILURE'),
        ('fk_link_names', ['tool0', 'nose'], 'INVALID_LINK_NAME'),
        ('fk_link_names', ['tool0'] * 65, 'INVALID_LINK_NAME'),
        (f'{state}.position.3', np.inf, 'INVALID_ROBOT_STATE'),
        (f'{state}.position.3', -90.0, 'INVALID_ROBOT_STATE'),
    ):
        q = rng.uniform(-7, 7, 6)
        request = fk_request('tool0', q=q)
        put(request, path, value)
        reply = services['compute_fk'](request, GetPositionFK.Response())
        assert reply.error_code.val == getattr(Codes, code), reply.error_code.message
        poses = [pose_to_matrix(p.pose) for p in reply.pose_stamped]
        assert len(poses) == (code == 'SUCCESS')
        assert all(np.abs(T - forward(UR5, q)).max() < 1e-9 for T in poses)


def test_joints_that_are_no_numbers_or_fell_silent_are_neither_seed_nor_state(
    services, monkeypatch
):
    """The driver has died, and the arm may be moved by hand."""
    q = HOME + [0.0, 0.0, 0.0, 0.0, 0.0, 2 * np.pi]
    services['joint_states'](serialize_message(joint_state_msg(q, JOINT_NAMES)))
    request = ik_request(forward(UR5, HOME))
    request.ik_request.robot_state = RobotState()

    def ask() -> tuple[np.ndarray, MoveItErrorCodes]:
        found = services['compute_ik'](request, GetPositionIK.Response()).solution.joint_state
        state = services['compute_fk'](GetPositionFK.Request(), GetPositionFK.Response())
        return np.array(found.position), state.error_code

    found, code = ask()
    assert np.abs(found - q).max() < 1e-9 and code.val == Codes.SUCCESS
    services['joint_states'](serialize_message(joint_state_msg(q * np.nan, JOINT_NAMES)))
    found, code = ask()
    assert not len(found) and code.val == Codes.INVALID_ROBOT_STATE
    monkeypatch.setattr('ur5_pick_place.nodes.ik_service.node._PRESENT', 0.0)
    found, code = ask()
    assert np.abs(found - HOME).max() < 1e-9 and code.val == Codes.INVALID_ROBOT_STATE
    assert 'no recent joint_states' in code.message


def test_a_scene_that_changes_during_a_request_counts_for_the_next_one():
    """Its collision model, and why it may not be relied on, come from one scene."""
    found: list[str] = []

    def scene(name: str, contact: str | None) -> SimpleNamespace:
        def check(_q: np.ndarray) -> str | None:
            found.append(name)
            requests.set_scene((), scene('new', None), 'an object was refused')
            return contact

        return SimpleNamespace(check=check)

    old = scene('old', 'elbow is inside box')
    requests = IkRequests(ARM, GroupSettings(), lambda: HOME, old)
    request = ik_request(forward(UR5, HOME)).ik_request
    request.avoid_collisions = True
    with pytest.raises(InCollision):
        requests.solve(request)
    assert len(found) > 1 and set(found) == {'old'}
    with pytest.raises(CollisionCheckUnavailable, match='an object was refused'):
        requests.solve(request)


@pytest.mark.parametrize('hit_first', [True, False])
def test_of_two_solutions_on_a_branch_the_one_in_collision_is_left_out(monkeypatch, hit_first):
    """As a calibrated arm may have near a singularity."""
    hit, free = (Solution('left-up-up', HOME + turn, 0.1) for turn in (0.1, -0.1))
    found = [hit, free] if hit_first else [free, hit]
    near = 'ur5_pick_place.nodes.ik_service.requests.solutions_near'
    monkeypatch.setattr(near, lambda *_: found)
    scene = SimpleNamespace(check=lambda q: 'elbow is inside box' if q[0] > 0.0 else None)
    requests = IkRequests(ARM, GroupSettings(), lambda: HOME, scene)
    request = ik_request(forward(UR5, HOME)).ik_request
    request.avoid_collisions = True
    (kept,) = requests.solve(request).solutions
    assert kept is free
    found[:] = [hit]
    with pytest.raises(InCollision, match='left-up-up: in collision: elbow is inside box'):
        requests.solve(request)


@pytest.mark.parametrize(
    ('services', 'others'), [(FOO, ['foo']), (NONE, [])], indirect=['services']
)
def test_the_arms_own_group_needs_no_place_in_the_list(services, others):
    T = forward(UR5, HOME)
    request = ik_request(T)
    for request.ik_request.group_name in ('', 'ur_manipulator', *others):
        check_solutions(services['compute_ik'](request, GetPositionIK.Response()), T)
    request.ik_request.group_name = 'arm'
    reply = services['compute_ik'](request, GetPositionIK.Response())
    words = f'use {", ".join(["ur_manipulator", *others])} or none'
    check_refused(reply, Codes.INVALID_GROUP_NAME, words)
