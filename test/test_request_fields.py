# SPDX-License-Identifier: Apache-2.0
"""
Every field of a MoveIt request is honoured, or refused by its name; none is dropped.

The nodes' own callbacks are called, as their executor calls them. TF and joint_states show the arm
elsewhere all the while, so that whatever is looked up there instead of in the request comes out
wrong.

"""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')

from builtin_interfaces.msg import Time  # noqa: E402
from callbacks import at_once  # noqa: E402
from conftest import assert_transforms_close  # noqa: E402
from geometry_msgs.msg import TransformStamped  # noqa: E402
from motion_planners import PICK, tool_down  # noqa: E402
from moveit_msgs.msg import (  # noqa: E402
    AttachedCollisionObject,
    CollisionObject,
    Constraints,
    GenericTrajectory,
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
    VisibilityConstraint,
)
from moveit_msgs.srv import (  # noqa: E402
    GetCartesianPath,
    GetMotionPlan,
    GetPositionFK,
    GetPositionIK,
)
from plan_garbage import BEYOND, joint_goal, line_request, motion_request  # noqa: E402
from rclpy.serialization import serialize_message  # noqa: E402
from scipy.spatial.transform import Rotation  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from shape_msgs.msg import Mesh, SolidPrimitive  # noqa: E402
from tf2_msgs.msg import TFMessage  # noqa: E402

from ur5_pick_place.errors import InvalidInput  # noqa: E402
from ur5_pick_place.kinematics import (  # noqa: E402
    BRANCHES,
    JOINT_NAMES,
    LINK_NAMES,
    classify,
    forward,
    inverse,
    link_pose,
    load_model,
)
from ur5_pick_place.nodes.conversions import (  # noqa: E402
    joint_state_msg,
    matrix_to_pose,
    pose_to_matrix,
    trajectory_from_msg,
)
from ur5_pick_place.sim.arm_frames import Frame, fixed_frames, link_frames  # noqa: E402

CONFIG = Path(__file__).parents[1] / 'config'
UR5 = load_model('ur5')
Codes = MoveItErrorCodes
Services = dict[str, Callable[..., Any]]
PREFIX = ('-p', 'tf_prefix:=left_', '-r', '__ns:=/left')
TCP_AHEAD = 0.145  # [m] of tool0, in config/scene_sim.yaml
PRESENT = PICK + [0.8, 0.1, -0.2, 0.3, 0.2, -0.4]  # where TF and joint_states have the arm
CAMERA = Frame('flange', 'camera', (0.02, -0.03, 0.05), (0.0, 0.0, 0.6, 0.8))
BOARD = Frame('base_link', 'board', (0.4, 0.1, 0.3), (1.0, 0.0, 0.0, 0.0))
STEP = np.eye(4)
STEP[:3, 3] = [0.02, 0.03, -0.04]


@pytest.fixture(scope='module', params=[()])
def services(ros_domain: int, request: pytest.FixtureRequest) -> Iterator[Services]:
    """Give the callbacks of planner and IK service, which have the arm at PRESENT."""
    from ur5_pick_place.nodes.ik_service import IkService
    from ur5_pick_place.nodes.trajectory_planner import TrajectoryPlanner

    prefix = 'left_' if request.param else ''
    file = str(CONFIG / 'robot_sim.yaml')
    rclpy.init(args=['--ros-args', '--params-file', file, *request.param])
    nodes = [TrajectoryPlanner(), IkService()]
    try:
        offered = [service for node in nodes for service in node.services]
        found: Services = {os.path.basename(s.srv_name): at_once(s.callback) for s in offered}
        for node in nodes:
            topics = {os.path.basename(s.topic_name): taker(s) for s in node.subscriptions}
            for frame in arm_at(PRESENT, prefix):
                topics['tf'](TFMessage(transforms=[stamped(frame)]))
            topics['joint_states'](joints(PRESENT, prefix))
        yield found
    finally:
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()


def taker(subscription: Any) -> Callable[[Any], None]:
    """Return what hands a message to a subscription, as bytes if it takes those."""
    hear = subscription.callback
    return lambda message: hear(serialize_message(message) if subscription.raw else message)


def arm_at(q: np.ndarray, prefix: str = '') -> list[Frame]:
    """Give the robot description's frames, a camera on the flange and a board beside the arm."""
    camera, board = (
        Frame(prefix + f.parent, f.child, f.position, f.quat_xyzw) for f in (CAMERA, BOARD)
    )
    return [*fixed_frames(prefix), *link_frames(UR5, q, prefix), camera, board]


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


def plan(services: Services, request: GetMotionPlan.Request) -> Any:
    reply = services['plan_kinematic_path'](request, GetMotionPlan.Response())
    return reply.motion_plan_response


def line(services: Services, request: GetCartesianPath.Request) -> Any:
    return services['compute_cartesian_path'](request, GetCartesianPath.Response())


def end_of(reply: Any) -> np.ndarray:
    """Joints at the end of what was planned, (6,) [rad]."""
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    solution = reply.solution if hasattr(reply, 'solution') else reply.trajectory
    return np.array(solution.joint_trajectory.points[-1].positions)


def duration(reply: Any) -> float:
    last = reply.trajectory.joint_trajectory.points[-1].time_from_start
    return last.sec + 1e-9 * last.nanosec


def check_refused(reply: Any, code: int, words: str) -> None:
    assert (reply.error_code.val, words in reply.error_code.message) == (code, True), (
        reply.error_code
    )


# ---- frames of the arm


@pytest.mark.parametrize('link', LINK_NAMES)
@pytest.mark.parametrize('arm', ['ideal', 'calibrated'])
def test_each_link_is_where_the_robot_description_has_it(
    link: str, arm: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """A calibrated arm's by the description's own chain: the file's poses, each turned about z."""
    joints = rng.uniform(-np.pi, np.pi, (20, 6))
    if arm == 'ideal':
        for q in joints:
            assert_transforms_close(link_pose(UR5, q, link), pose_in_base(link, q))
        return
    lines, poses = ['kinematics:'], []
    for name, frame in zip(LINK_NAMES, link_frames(UR5, np.zeros(6)), strict=True):
        rpy = Rotation.from_quat(frame.quat_xyzw).as_euler('xyz') + rng.normal(0.0, 1e-3, 3)
        xyz = np.array(frame.position) + rng.normal(0.0, 1e-3, 3)
        numbers = zip(('x', 'y', 'z', 'roll', 'pitch', 'yaw'), [*xyz, *rpy], strict=True)
        entries = ', '.join(f'{key}: {value:.15f}' for key, value in numbers)
        lines.append(f'  {name.removesuffix("_link")}: {{{entries}}}')
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = Rotation.from_euler('xyz', rpy).as_matrix(), xyz
        poses.append(T)
    file = tmp_path / 'calibration.yaml'
    file.write_text('\n'.join(lines))
    model = load_model(file)
    for q in joints:
        T = np.eye(4)
        for pose, angle in zip(poses[: LINK_NAMES.index(link) + 1], q, strict=False):
            turn = np.eye(4)
            turn[:3, :3] = Rotation.from_euler('z', angle).as_matrix()
            T = T @ pose @ turn
        assert_transforms_close(link_pose(model, q, link), T, 1e-9, 1e-9)


FRAMES = ('tool0', 'tcp', 'flange', 'wrist_3_link', 'wrist_1_link', 'forearm_link', 'camera')


@pytest.mark.parametrize('frame', FRAMES)
@pytest.mark.parametrize('planner_id', ['PTP', 'LIN', 'line'])
def test_a_pose_in_a_frame_of_the_arm_is_meant_where_the_motion_starts(
    services: Services, frame: str, planner_id: str
) -> None:
    """TF and joint_states have the arm a quarter of a metre and more away."""
    expected = forward(UR5, PICK) @ STEP
    T = np.linalg.inv(pose_in_base(frame, PICK)) @ expected
    assert np.linalg.norm((pose_in_base(frame, PRESENT) @ T - expected)[:3, 3]) > 0.2
    if planner_id == 'line':
        request = line_request(T)
        request.header.frame_id = frame
        reply = line(services, request)
    else:
        motion = motion_request(planner_id, T)
        goal = motion.motion_plan_request.goal_constraints[0]
        for part in (goal.position_constraints[0], goal.orientation_constraints[0]):
            part.header.frame_id = frame
        reply = plan(services, motion)
    assert_transforms_close(forward(UR5, end_of(reply)), expected, 1e-6, 1e-6)


def test_a_frame_beside_the_arm_is_where_tf_has_it(services: Services) -> None:
    beside = tool_down(0.4, -0.1, 0.3, 0.2)
    request = line_request(np.linalg.inv(pose_in_base('board', PICK)) @ beside)
    request.header.frame_id = 'board'
    end = forward(UR5, end_of(line(services, request)))
    assert_transforms_close(end, beside, 1e-6, 1e-6)


def test_the_help_point_of_an_arc_may_be_in_a_frame_of_the_arm(services: Services) -> None:
    """A quarter circle of 5 cm about a point that lies 5 cm beside the tool."""
    T = forward(UR5, PICK)
    goal = T @ STEP
    goal[:3, 3] = (T @ [0.05, 0.05, 0.0, 1.0])[:3]
    request = motion_request('CIRC', goal)
    arc = request.motion_plan_request.path_constraints
    arc.name, point = 'center', arc.position_constraints[0]
    at = point.constraint_region.primitive_poses[0].position
    point.header.frame_id, at.x, at.y, at.z = 'tool0', 0.05, 0.0, 0.0
    reply = plan(services, request)
    assert_transforms_close(forward(UR5, end_of(reply)), goal, 1e-6, 1e-6)
    q = np.array([p.positions for p in reply.trajectory.joint_trajectory.points])
    away = np.linalg.norm(forward(UR5, q)[:, :3, 3] - (T @ [0.05, 0.0, 0.0, 1.0])[:3], axis=1)
    np.testing.assert_allclose(away, 0.05, atol=1e-4)


@pytest.mark.parametrize('services', [PREFIX], indirect=True)
@pytest.mark.parametrize('frame', ['left_tool0', 'left_tcp', 'left_wrist_2_link', 'camera'])
def test_with_a_prefix_the_frames_of_the_arm_carry_it(services: Services, frame: str) -> None:
    expected = forward(UR5, PICK) @ STEP
    request = line_request(np.linalg.inv(pose_in_base(frame, PICK, 'left_')) @ expected)
    request.header.frame_id = frame
    request.start_state.joint_state = joints(PICK, 'left_')
    end = forward(UR5, end_of(line(services, request)))
    assert_transforms_close(end, expected, 1e-6, 1e-6)


@pytest.mark.parametrize('frame', FRAMES)
def test_an_ik_pose_in_a_frame_of_the_arm_is_meant_at_the_robot_state(
    services: Services, frame: str
) -> None:
    expected = forward(UR5, PICK) @ STEP
    request = GetPositionIK.Request()
    wish = request.ik_request
    wish.robot_state.joint_state = joint_state_msg(PICK, JOINT_NAMES)
    wish.pose_stamped.header.frame_id = frame
    wish.pose_stamped.pose = matrix_to_pose(np.linalg.inv(pose_in_base(frame, PICK)) @ expected)
    for name in ('compute_ik', 'compute_ik_all'):
        reply = services[name](request, GetPositionIK.Response())
        assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
        q = np.array(reply.solution.joint_state.position).reshape(-1, 6)
        assert np.abs(forward(UR5, q) - expected).max() < 1e-6


@pytest.mark.parametrize('frame', ['base', *FRAMES])
def test_fk_gives_any_link_of_the_arm_in_any_frame_of_it(services: Services, frame: str) -> None:
    links = ['tool0', 'tcp', *LINK_NAMES]
    request = GetPositionFK.Request(fk_link_names=links)
    request.header.frame_id = frame
    request.robot_state.joint_state = joint_state_msg(PICK, JOINT_NAMES)
    reply = services['compute_fk'](request, GetPositionFK.Response())
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    T_frame_base = np.eye(4) if frame == 'base' else np.linalg.inv(pose_in_base(frame, PICK))
    for link, pose in zip(links, reply.pose_stamped, strict=True):
        expected = T_frame_base @ pose_in_base(link, PICK)
        assert_transforms_close(pose_to_matrix(pose.pose), expected, 1e-9, 1e-7)


# ---- the start state


def test_a_difference_to_the_present_state_may_name_some_joints_only(services: Services) -> None:
    request = motion_request('PTP')
    wish = request.motion_plan_request
    wish.goal_constraints = [joint_goal(PICK)]
    wish.start_state.is_diff = True
    wish.start_state.joint_state = JointState(name=['elbow_joint', 'finger'], position=[1.4, 0.1])
    expected = PRESENT.copy()
    expected[2] = 1.4
    start = plan(services, request).trajectory_start.joint_state.position
    np.testing.assert_allclose(start, expected, atol=1e-12)
    wish.start_state.is_diff = False
    words = 'no position of shoulder_pan'
    check_refused(plan(services, request), Codes.INVALID_ROBOT_STATE, words)
    wish.start_state.is_diff = True
    wish.start_state.joint_state.name[0] = 'elbow'
    words = 'names none of the joints'
    check_refused(plan(services, request), Codes.INVALID_ROBOT_STATE, words)


def attach(state: Any) -> None:
    thing = AttachedCollisionObject(link_name='tool0', object=CollisionObject(id='cup'))
    state.attached_collision_objects = [thing]


def float_about(state: Any) -> None:
    state.multi_dof_joint_state.joint_names = ['virtual_joint']


@pytest.mark.parametrize(
    ('spoil', 'words'), [(attach, "attaches 'cup'"), (float_about, '1 multi-DOF joints')]
)
def test_a_state_that_a_request_cannot_make_is_refused_by_each_service(
    services: Services, spoil: Callable[[Any], None], words: str
) -> None:
    motion, path, fk, ik = (
        motion_request('PTP'),
        line_request(),
        GetPositionFK.Request(),
        GetPositionIK.Request(),
    )
    for state in (
        motion.motion_plan_request.start_state,
        path.start_state,
        fk.robot_state,
        ik.ik_request.robot_state,
    ):
        spoil(state)
    for reply in (
        plan(services, motion),
        line(services, path),
        services['compute_fk'](fk, GetPositionFK.Response()),
        services['compute_ik'](ik, GetPositionIK.Response()),
    ):
        check_refused(reply, Codes.INVALID_ROBOT_STATE, words)


# ---- goals


def both(q: np.ndarray, T: np.ndarray, tolerance: float = 1e-3) -> Constraints:
    """One goal of joints and a pose, as a client that sets both sends it."""
    goal = motion_request('PTP', T).motion_plan_request.goal_constraints[0]
    goal.joint_constraints = joint_goal(q).joint_constraints
    for constraint in goal.joint_constraints:
        constraint.tolerance_above = constraint.tolerance_below = tolerance
    return goal


def test_joints_and_a_pose_in_one_goal_must_both_be_met(
    services: Services, rng: np.random.Generator
) -> None:
    """Each branch of a pose in turn is asked for by its joints; and one that is none of them."""
    T = tool_down(0.45, -0.1, 0.45, 0.3)
    rows, reached = inverse(UR5, T)
    request = motion_request('PTP')
    wish = request.motion_plan_request
    met = 0
    for q in rows[reached]:
        wish.goal_constraints = [both(q, T)]
        reply = plan(services, request)
        if reply.error_code.val == Codes.SUCCESS:
            np.testing.assert_allclose(end_of(reply), q, atol=1e-6)
            met += 1
        else:  # that branch is behind the table, say; another one is no answer
            assert reply.error_code.val == Codes.INVALID_MOTION_PLAN, reply.error_code.message
        wish.goal_constraints = [both(q + 0.01, T)]
        words = 'none of the 256 joint solutions of the pose keeps the joint constraints'
        check_refused(plan(services, request), Codes.GOAL_CONSTRAINTS_VIOLATED, words)
    assert met >= 2


def test_a_pose_with_one_joint_of_it_takes_the_branch_of_that_joint(services: Services) -> None:
    T = tool_down(0.45, -0.1, 0.45, 0.3)
    request = motion_request('PTP')
    wish = request.motion_plan_request
    for wrist in (0.8, -0.8):
        goal = both(PICK, T)
        constraint = JointConstraint(joint_name='wrist_2_joint', position=2 * wrist)
        constraint.tolerance_above = constraint.tolerance_below = 1.0
        goal.joint_constraints = [constraint]
        wish.goal_constraints = [goal]
        q = end_of(plan(services, request))
        assert np.sign(q[4]) == np.sign(wrist)
        assert_transforms_close(forward(UR5, q), T, 1e-6, 1e-6)


def test_a_line_to_joints_ends_at_them_or_is_refused(services: Services) -> None:
    """The same pose on another branch, or a turn away, is another place for the joints."""
    T = forward(UR5, PICK) @ STEP
    rows, reached = inverse(UR5, T, q6=PICK[5])
    own = int(classify(UR5, PICK))
    request = motion_request('LIN')
    wish = request.motion_plan_request
    wish.goal_constraints = [joint_goal(rows[own])]
    np.testing.assert_allclose(end_of(plan(services, request)), rows[own], atol=1e-6)
    turned = rows[own] + [0, 0, 0, 0, 0, -2 * np.pi * np.sign(rows[own][5])]
    others = [rows[k] for k in range(8) if reached[k] and k != own]
    for q in (turned, *others):
        wish.goal_constraints = [joint_goal(q)]
        words = 'keeps its branch and turn; change these with PTP first'
        check_refused(plan(services, request), Codes.GOAL_CONSTRAINTS_VIOLATED, words)


def test_of_several_goals_the_fastest_is_taken(services: Services) -> None:
    request = motion_request('PTP')
    wish = request.motion_plan_request
    goals = [joint_goal(PICK + [d, 0, 0, 0, 0, 0]) for d in (0.9, 0.2, 0.5)]
    for order in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        wish.goal_constraints = [goals[i] for i in order]
        reply = plan(services, request)
        np.testing.assert_allclose(end_of(reply), PICK + [0.2, 0, 0, 0, 0, 0], atol=1e-9)
        assert f'goal {order.index(1) + 1} of 3 is the fastest' in reply.error_code.message


def test_a_goal_that_cannot_be_leaves_the_others_and_is_named(services: Services) -> None:
    request = motion_request('PTP', tool_down(2.0, 0.0, 0.3, 0.0))
    wish = request.motion_plan_request
    beyond = wish.goal_constraints[0]
    reachable = joint_goal(PICK + [0.2, 0, 0, 0, 0, 0])
    wish.goal_constraints = [beyond, reachable, Constraints()]
    reply = plan(services, request)
    np.testing.assert_allclose(end_of(reply), PICK + [0.2, 0, 0, 0, 0, 0], atol=1e-9)
    message = reply.error_code.message
    assert 'goal 1 of 3: no joint solution' in message and 'goal 3 of 3: goal with 0' in message
    wish.goal_constraints = [beyond, Constraints()]
    reply = plan(services, request)
    check_refused(reply, Codes.NO_IK_SOLUTION, 'goal 1 of 2: no joint solution')
    check_refused(reply, Codes.NO_IK_SOLUTION, 'goal 2 of 2: goal with 0 position')
    wish.goal_constraints = [reachable] * 17
    check_refused(plan(services, request), Codes.INVALID_GOAL_CONSTRAINTS, 'too long, with 17')


def two_positions(wish: Any) -> None:
    wish.goal_constraints[0].position_constraints *= 2


def two_orientations(wish: Any) -> None:
    wish.goal_constraints[0].orientation_constraints *= 2


def position_only(wish: Any) -> None:
    wish.goal_constraints[0].orientation_constraints = []


def orientation_only(wish: Any) -> None:
    wish.goal_constraints[0].position_constraints = []


def position_beside_joints(wish: Any) -> None:
    wish.goal_constraints[0].joint_constraints = joint_goal(PICK).joint_constraints
    position_only(wish)


def seen(wish: Any) -> None:
    wish.goal_constraints[0].visibility_constraints = [VisibilityConstraint()]


def in_a_mesh(wish: Any) -> None:
    wish.goal_constraints[0].position_constraints[0].constraint_region.meshes = [Mesh()]


def in_two_spheres(wish: Any) -> None:
    region = wish.goal_constraints[0].position_constraints[0].constraint_region
    region.primitives = [SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[1e-3])] * 2
    region.primitive_poses *= 2


def in_a_prism(wish: Any) -> None:
    region = wish.goal_constraints[0].position_constraints[0].constraint_region
    region.primitives = [SolidPrimitive(type=SolidPrimitive.PRISM, dimensions=[0.1])]


def turned_by_nan(wish: Any) -> None:
    wish.goal_constraints[0].orientation_constraints[0].absolute_z_axis_tolerance = math.nan


def joints_within_less_than_nothing(wish: Any) -> None:
    wish.goal_constraints = [joint_goal(PICK)]
    wish.goal_constraints[0].joint_constraints[1].tolerance_below = -0.1


def trajectory_constraints(wish: Any) -> None:
    wish.trajectory_constraints.constraints = [joint_goal(PICK)]


def reference_trajectories(wish: Any) -> None:
    wish.reference_trajectories = [GenericTrajectory()]


def kept_upright(wish: Any) -> None:
    wish.path_constraints.orientation_constraints = [OrientationConstraint()]


def kept_in_view(wish: Any) -> None:
    wish.path_constraints.visibility_constraints = [VisibilityConstraint()]


def kept_in_a_box(wish: Any) -> None:
    wish.path_constraints.position_constraints = [PositionConstraint()]


REFUSED = (
    (two_positions, 'goal with 2 position and 1 orientation constraints'),
    (two_orientations, 'goal with 1 position and 2 orientation constraints'),
    (position_only, 'goal with 1 position and 0 orientation constraints'),
    (orientation_only, 'goal with 0 position and 1 orientation constraints'),
    (position_beside_joints, 'goal with 1 position and 0 orientation constraints'),
    (seen, 'goal holds 1 visibility constraints'),
    (in_a_mesh, '1 primitive_poses and 1 meshes: give one region'),
    (in_two_spheres, '2 primitives, 2 primitive_poses'),
    (in_a_prism, 'a region of type 5'),
    (turned_by_nan, 'absolute_z_axis_tolerance is nan'),
    (joints_within_less_than_nothing, 'tolerance of shoulder_lift_joint is -0.1'),
    (trajectory_constraints, 'trajectory_constraints holds 1'),
    (reference_trajectories, 'reference_trajectories holds 1'),
    (kept_upright, 'path_constraints holds 1 orientation constraints'),
    (kept_in_view, 'path_constraints holds 1 visibility constraints'),
    (kept_in_a_box, 'path_constraints holds 1 position constraints'),
)


@pytest.mark.parametrize(('spoil', 'words'), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(
    services: Services, spoil: Callable[[Any], None], words: str
) -> None:
    for planner_id in ('AUTO', 'PTP', 'LIN', 'RESOLVED_RATE'):
        request = motion_request(planner_id)
        spoil(request.motion_plan_request)
        check_refused(plan(services, request), Codes.INVALID_GOAL_CONSTRAINTS, words)


@pytest.mark.parametrize('kind', ['joint', 'orientation', 'visibility'])
def test_an_arc_has_a_help_point_and_nothing_else_on_its_way(
    services: Services, kind: str
) -> None:
    request = motion_request('CIRC')
    arc = request.motion_plan_request.path_constraints
    more = {
        'joint': joint_goal(PICK).joint_constraints[:1],
        'orientation': [OrientationConstraint()],
        'visibility': [VisibilityConstraint()],
    }
    setattr(arc, f'{kind}_constraints', more[kind])
    words = f'CIRC with 1 position and 1 {kind} path constraints'
    check_refused(plan(services, request), Codes.INVALID_GOAL_CONSTRAINTS, words)


# ---- how


@pytest.mark.parametrize('value', BEYOND)
@pytest.mark.parametrize('kind', ['velocity', 'acceleration'])
def test_a_scaling_beyond_its_range_counts_as_1_with_a_warning(
    services: Services, kind: str, value: float, capfd: pytest.CaptureFixture[str]
) -> None:
    name = f'max_{kind}_scaling_factor'
    lasts = []
    for scaling in (1.0, value):
        request = motion_request('PTP')
        setattr(request.motion_plan_request, name, scaling)
        reply = plan(services, request)
        end_of(reply)
        lasts.append(duration(reply))
    assert lasts[0] == lasts[1]
    assert f'{name} = {value}: using 1' in capfd.readouterr().err
    path = line_request()
    setattr(path, name, value)
    end_of(line(services, path))


@pytest.mark.parametrize(
    'planner_id', ['', 'AUTO', 'auto', 'PTP', 'ompl', 'RRTConnectkConfigDefault', 'BKPIECE']
)
def test_these_planners_go_straight_in_joint_space(services: Services, planner_id: str) -> None:
    request = motion_request('PTP')
    wish = request.motion_plan_request
    wish.planner_id, wish.goal_constraints = planner_id, [joint_goal(PICK + 0.1)]
    reply = plan(services, request)
    np.testing.assert_allclose(end_of(reply), PICK + 0.1, atol=1e-9)
    q = np.array([p.positions for p in reply.trajectory.joint_trajectory.points])
    away = q - PICK - (q - PICK).mean(axis=1, keepdims=True)
    assert np.abs(away).max() < 1e-9


def test_a_trajectory_is_read_as_its_points_stand(services: Services) -> None:
    """In the message's own order of joints, point by point."""
    trajectory = plan(services, motion_request()).trajectory
    motion = trajectory.joint_trajectory
    order = [3, 0, 5, 1, 4, 2]
    motion.joint_names = [motion.joint_names[i] for i in order]
    read = trajectory_from_msg(trajectory, JOINT_NAMES)
    names = ('positions', 'velocities', 'accelerations')
    for field, rows in zip(names, (read.q, read.qd, read.qdd), strict=True):
        for point, row in zip(motion.points, rows, strict=True):
            assert [row[i] for i in order] == list(getattr(point, field))
    motion.points = [motion.points[0]] * 20001
    with pytest.raises(InvalidInput, match='trajectory has 20001 points: must be 1 to 20000'):
        trajectory_from_msg(trajectory, JOINT_NAMES)


def test_a_branch_that_does_not_exist_is_refused_for_a_pose_with_joints_too(
    services: Services,
) -> None:
    request = motion_request('PTP')
    goal = both(PICK, forward(UR5, PICK))
    goal.name = 'sideways'
    request.motion_plan_request.goal_constraints = [goal]
    words = f"branch 'sideways': must be one of {BRANCHES[0]}"
    check_refused(plan(services, request), Codes.INVALID_GOAL_CONSTRAINTS, words)
