# SPDX-License-Identifier: Apache-2.0
"""
Thousands of wrong planning requests each get the right error, and what clients may wish is kept.

The node's own callbacks are called, as its executor calls them; `test_planner_node.py` sends some
of this garbage through DDS.

"""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')

from conftest import assert_transforms_close  # noqa: E402
from geometry_msgs.msg import Pose  # noqa: E402
from moveit_msgs.msg import (  # noqa: E402
    CollisionObject,
    Constraints,
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
)
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan  # noqa: E402
from rclpy.serialization import serialize_message  # noqa: E402
from shape_msgs.msg import Mesh, SolidPrimitive  # noqa: E402
from test_ik_requests import FOO, NUMBERS, WORDS, spoil_names  # noqa: E402
from test_planning import PICK, tool_down  # noqa: E402
from trajectory_msgs.msg import MultiDOFJointTrajectoryPoint  # noqa: E402

from ur5_pick_place.errors import InvalidInput  # noqa: E402
from ur5_pick_place.kinematics import (  # noqa: E402
    BRANCHES,
    JOINT_NAMES,
    classify,
    forward,
    load_model,
)
from ur5_pick_place.nodes.conversions import (  # noqa: E402
    joint_state_msg,
    matrix_to_pose,
    trajectory_from_msg,
)

CONFIG = Path(__file__).parents[1] / 'config'
UR5 = load_model('ur5')
Codes = MoveItErrorCodes
Rng = np.random.Generator
GOAL = tool_down(0.45, -0.1, 0.3, 0.5)
BEYOND = (-0.1, -1e300, 1.0001, 2.0, math.nan, math.inf, -math.inf)  # scalings that count as 1
PARTS = ('-p', 'allow_partial_cartesian:=true', '-r', '__ns:=/parts')
LENGTHS = (-1e-9, -1.0, math.nan, math.inf, -math.inf)


@pytest.fixture(scope='module', params=[()])
def services(ros_domain: int, request: pytest.FixtureRequest) -> Iterator[dict[str, Callable]]:
    """Give the callbacks of a planner without a robot by the names of services and topics."""
    from ur5_pick_place.nodes.trajectory_planner import TrajectoryPlanner

    file = str(CONFIG / 'robot_sim.yaml')
    rclpy.init(args=['--ros-args', '--params-file', file, *request.param])
    node = TrajectoryPlanner()
    try:
        topics = {os.path.basename(s.topic_name): s.callback for s in node.subscriptions}
        yield topics | {os.path.basename(s.srv_name): s.callback for s in node.services}
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def motion_request(planner_id: str = 'LIN', T: np.ndarray = GOAL) -> GetMotionPlan.Request:
    """A goal for the tool in base, from a known start."""
    request = GetMotionPlan.Request()
    wish = request.motion_plan_request
    wish.planner_id = planner_id
    wish.start_state.joint_state = joint_state_msg(PICK, JOINT_NAMES)
    pose = matrix_to_pose(T)
    position = PositionConstraint()
    position.constraint_region.primitive_poses = [Pose(position=pose.position)]
    orientation = OrientationConstraint(orientation=pose.orientation)
    position.header.frame_id = orientation.header.frame_id = 'base'
    wish.goal_constraints = [
        Constraints(position_constraints=[position], orientation_constraints=[orientation])
    ]
    if planner_id == 'CIRC':
        arc_point = PositionConstraint()
        arc_point.header.frame_id = 'base'
        p = 0.5 * (forward(UR5, PICK) + T)[:3, 3] + [0.0, 0.0, 0.05]
        x, y, z = (float(v) for v in p)
        arc_point.constraint_region.primitive_poses = [matrix_to_pose(np.eye(4))]
        at = arc_point.constraint_region.primitive_poses[0].position
        at.x, at.y, at.z = x, y, z
        wish.path_constraints = Constraints(name='interim', position_constraints=[arc_point])
    return request


def line_request(*waypoints: np.ndarray) -> GetCartesianPath.Request:
    request = GetCartesianPath.Request(max_step=0.005)
    request.header.frame_id = 'base'
    request.start_state.joint_state = joint_state_msg(PICK, JOINT_NAMES)
    request.waypoints = [matrix_to_pose(T) for T in waypoints or (GOAL,)]
    return request


def joint_goal(q: np.ndarray) -> Constraints:
    return Constraints(
        joint_constraints=[
            JointConstraint(joint_name=name, position=float(v))
            for name, v in zip(JOINT_NAMES, q, strict=True)
        ]
    )


def plan(services: dict[str, Callable], request: GetMotionPlan.Request):
    reply = services['plan_kinematic_path'](request, GetMotionPlan.Response())
    return reply.motion_plan_response


def line(services: dict[str, Callable], request: GetCartesianPath.Request):
    return services['compute_cartesian_path'](request, GetCartesianPath.Response())


def any_of(rng: Rng, choices):
    return choices[rng.integers(len(choices))]


def spoil_pose(pose: Pose, rng: Rng, turned: Pose | None = None) -> None:
    """Spoil a position, or the orientation of `turned`."""
    q = (turned or pose).orientation
    match rng.integers(3):
        case 0:
            setattr(pose.position, any_of(rng, 'xyz'), any_of(rng, NUMBERS))
        case 1:
            setattr(q, any_of(rng, 'xyzw'), any_of(rng, NUMBERS))
        case _:
            scale = any_of(rng, (0.0, 1e-320, 0.98, 1.02, -3.0, 1e200))
            q.x, q.y, q.z, q.w = (scale * v for v in (q.x, q.y, q.z, q.w))


def spoil_pace(wish, rng: Rng) -> None:
    """Spoil what both services have: scalings and the bound on speed."""
    if rng.random() < 0.5:
        wish.max_cartesian_speed = any_of(rng, LENGTHS)
    else:
        kind = any_of(rng, ('velocity', 'acceleration'))
        setattr(wish, f'max_{kind}_scaling_factor', any_of(rng, (1e-5, 1e-300)))


def spoil_start(wish, rng: Rng) -> None:
    if rng.random() < 0.5:
        spoil_names(_Renamed(wish.start_state), rng)
    else:
        wish.start_state.joint_state.position[rng.integers(6)] = any_of(rng, NUMBERS)


class _Renamed:
    """A start state by the name that it has in IK requests."""

    def __init__(self, state) -> None:
        self.robot_state = state


def spoil_group(wish, rng: Rng) -> None:
    wish.group_name = any_of(rng, WORDS[1:])


def spoil_limited_link(wish, rng: Rng) -> None:
    wish.cartesian_speed_limited_link = any_of(rng, WORDS[1:])


def spoil_goal_pose(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0]
    region = goal.position_constraints[0].constraint_region
    if rng.random() < 0.2:
        offset = goal.position_constraints[0].target_point_offset
        setattr(offset, any_of(rng, 'xyz'), any_of(rng, NUMBERS))
        return
    turned = Pose(orientation=goal.orientation_constraints[0].orientation)
    spoil_pose(region.primitive_poses[0], rng, turned)


def spoil_goal_joints(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0] = joint_goal(PICK)
    constraint = any_of(rng, goal.joint_constraints)
    match rng.integers(4):
        case 0:
            constraint.position = any_of(rng, NUMBERS)
        case 1:
            constraint.joint_name = any_of(rng, WORDS)
        case 2:
            goal.name = any_of(rng, WORDS[1:])
        case _:
            goal.joint_constraints *= int(rng.integers(2, 600))


def spoil_goal_shape(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0]
    match rng.integers(5):
        case 0:
            wish.goal_constraints = []
        case 1:
            goal.position_constraints = []
        case 2:
            goal.orientation_constraints = []
        case 3:
            goal.position_constraints[0].constraint_region.primitive_poses = []
        case _:
            goal.name = any_of(rng, WORDS[1:])


def spoil_goal_frame(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0]
    kind = any_of(rng, (goal.position_constraints, goal.orientation_constraints))
    kind[0].header.frame_id = any_of(rng, WORDS[1:])


def spoil_goal_link(wish, rng: Rng) -> None:
    goal = wish.goal_constraints[0]
    kind = any_of(rng, (goal.position_constraints, goal.orientation_constraints))
    kind[0].link_name = any_of(rng, WORDS[1:])


def spoil_path_constraints(wish, rng: Rng) -> None:
    path = wish.path_constraints
    match rng.integers(4):
        case 0:
            path.joint_constraints = joint_goal(PICK).joint_constraints
            wish.path_constraints.name = 'about'
        case 1:
            path.position_constraints = [PositionConstraint()] * int(rng.integers(2, 3000))
        case 2:
            path.orientation_constraints = [OrientationConstraint()]
            path.name = any_of(rng, WORDS)
        case _:
            path.position_constraints = [PositionConstraint()]


def spoil_waypoint(request: GetCartesianPath.Request, rng: Rng) -> None:
    request.waypoints = [matrix_to_pose(GOAL) for _ in range(int(rng.integers(1, 40)))]
    spoil_pose(any_of(rng, request.waypoints), rng)


def spoil_waypoints(request: GetCartesianPath.Request, rng: Rng) -> None:
    request.waypoints *= any_of(rng, (0, 1001, 5000))


def spoil_steps(request: GetCartesianPath.Request, rng: Rng) -> None:
    names = ('max_step', *(f'{kind}jump_threshold' for kind in ('', 'revolute_', 'prismatic_')))
    setattr(request, any_of(rng, names), any_of(rng, LENGTHS))


def spoil_frame(request: GetCartesianPath.Request, rng: Rng) -> None:
    request.header.frame_id = any_of(rng, WORDS[1:])


def spoil_link(request: GetCartesianPath.Request, rng: Rng) -> None:
    request.link_name = any_of(rng, WORDS[1:])


COMMON = (
    (spoil_pace, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_start, Codes.INVALID_ROBOT_STATE),
    (spoil_group, Codes.INVALID_GROUP_NAME),
    (spoil_limited_link, Codes.INVALID_LINK_NAME),
    (spoil_path_constraints, Codes.INVALID_GOAL_CONSTRAINTS),
)
MOTION_GARBAGE = (
    *COMMON,
    (spoil_goal_pose, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_goal_joints, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_goal_shape, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_goal_frame, Codes.FRAME_TRANSFORM_FAILURE),
    (spoil_goal_link, Codes.INVALID_LINK_NAME),
)
LINE_GARBAGE = (
    *COMMON,
    (spoil_waypoint, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_waypoints, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_steps, Codes.INVALID_GOAL_CONSTRAINTS),
    (spoil_frame, Codes.FRAME_TRANSFORM_FAILURE),
    (spoil_link, Codes.INVALID_LINK_NAME),
)


def spoilt(i: int, rng: Rng) -> tuple[GetMotionPlan.Request | GetCartesianPath.Request, int]:
    """Give the i-th wrong request, and the code that it deserves."""
    garbage = (MOTION_GARBAGE, LINE_GARBAGE)[i % 2]
    spoil, code = garbage[i // 2 % len(garbage)]
    if i % 2:
        request = line_request()
        spoil(request, rng)
    else:
        request = motion_request(('PTP', 'LIN', 'CIRC')[rng.integers(3)])
        spoil(request.motion_plan_request, rng)
    return request, code


def check_refused(reply, code: int) -> None:
    assert reply.error_code.val == code, (reply.error_code.val, reply.error_code.message)
    assert len(reply.error_code.message) > 20
    solution = reply.solution if hasattr(reply, 'solution') else reply.trajectory
    assert not solution.joint_trajectory.points


def test_every_kind_of_garbage_gets_its_own_error(services: dict[str, Callable], rng: Rng) -> None:
    for i in range(4000):
        request, code = spoilt(i, rng)
        check_refused((plan, line)[i % 2](services, request), code)
    for planner_id in ('PTP', 'LIN', 'CIRC'):
        reply = plan(services, motion_request(planner_id))
        assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    assert line(services, line_request()).fraction == 1.0


def test_numbers_beyond_all_measure_are_out_of_reach(services: dict[str, Callable]) -> None:
    for far in (1e6, -1e17, 1e160, 1e308):
        T = GOAL.copy()
        T[0, 3] = far
        reply = line(services, line_request(T))
        assert reply.error_code.val == Codes.PLANNING_FAILED, reply.error_code.message
        for planner_id in ('PTP', 'LIN'):
            aside = motion_request(planner_id)
            goal = aside.motion_plan_request.goal_constraints[0]
            goal.position_constraints[0].target_point_offset.x = far
            for request in (motion_request(planner_id, T), aside):
                code = plan(services, request).error_code
                assert code.val in (Codes.NO_IK_SOLUTION, Codes.PLANNING_FAILED), code.message
        request = motion_request('PTP')
        request.motion_plan_request.goal_constraints = [joint_goal(np.full(6, far))]
        assert plan(services, request).error_code.val == Codes.INVALID_MOTION_PLAN


def box_message(name: str, n: int = 1) -> CollisionObject:
    message = CollisionObject(id=name, operation=CollisionObject.ADD)
    message.header.frame_id = 'base'
    message.pose = matrix_to_pose(np.eye(4))
    primitive = SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1, 0.1, 0.1])
    message.primitives = [primitive] * n
    far = np.eye(4)
    far[:3, 3] = [3.0, 3.0, 3.0]
    message.primitive_poses = [matrix_to_pose(far) for _ in range(n)]
    return message


def test_spoilt_obstacles_bar_every_way_until_they_are_removed(
    services: dict[str, Callable], rng: Rng
) -> None:
    """Each of them: nobody knows where they are."""

    def hear(message: CollisionObject) -> None:
        services['collision_object'](serialize_message(message))

    for i in range(300):
        message = box_message('wrong', 2)
        message.primitive_poses = [matrix_to_pose(forward(UR5, PICK)) for _ in range(2)]
        match i % 8:
            case 0:
                spoil_pose(any_of(rng, message.primitive_poses), rng)
            case 1:
                spoil_pose(message.pose, rng)
            case 2:
                bad = (0.0, -0.1, *NUMBERS)
                message.primitives = [
                    SolidPrimitive(type=1, dimensions=[0.1, any_of(rng, bad), 0.1])
                ] * 2
            case 3:
                size = [0.1] * int(any_of(rng, (0, 1, 2, 3)))
                kind = int(any_of(rng, (0, 2, 3, 4, 5, 255))) if len(size) == 3 else 1
                message.primitives = [SolidPrimitive(type=kind, dimensions=size)] * 2
            case 4:
                message.primitives = message.primitives[:1]
            case 5:
                message.header.frame_id = any_of(rng, WORDS[1:])
            case 6:
                message.operation = any_of(rng, (b'\x03', b'\x07', b'\xff'))
            case _:
                message.meshes = [Mesh()]
        hear(message)
        if i < 16:
            barred = line(services, line_request())
            check_refused(barred, Codes.INVALID_MOTION_PLAN)
            assert "object 'wrong' of collision_object was refused" in barred.error_code.message
            hear(CollisionObject(id='wrong', operation=CollisionObject.REMOVE))
    hear(box_message('crowd', 5000))
    barred = line(services, line_request())
    check_refused(barred, Codes.INVALID_MOTION_PLAN)
    assert "object 'wrong'" in barred.error_code.message and '1 more' in barred.error_code.message
    hear(CollisionObject(operation=CollisionObject.REMOVE))
    reply = line(services, line_request())
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message


def test_a_path_is_all_or_nothing_unless_parts_are_allowed(
    services: dict[str, Callable],
) -> None:
    beyond = GOAL.copy()
    beyond[0, 3] -= 1.0
    whole = line(services, line_request(GOAL, beyond))
    check_refused(whole, Codes.PLANNING_FAILED)
    assert 0.5 < whole.fraction < 1.0 and 'on line 2 of 2' in whole.error_code.message
    table = GOAL.copy()
    table[2, 3] = 0.0
    blocked = line(services, line_request(table))
    check_refused(blocked, Codes.INVALID_MOTION_PLAN)
    assert 0.0 < blocked.fraction < 1.0 and 'table' in blocked.error_code.message


@pytest.mark.parametrize('name', ['jump_threshold', 'revolute_jump_threshold'])
def test_jump_thresholds_end_a_path(services: dict[str, Callable], name: str) -> None:
    request = line_request()
    setattr(request, name, 1e-3)
    reply = line(services, request)
    check_refused(reply, Codes.PLANNING_FAILED)
    assert 'jumps by' in reply.error_code.message and reply.fraction < 0.1


def test_scalings_and_speed_slow_both_services_down(services: dict[str, Callable]) -> None:
    def duration(request) -> float:
        if isinstance(request, GetCartesianPath.Request):
            trajectory = line(services, request).solution
        else:
            trajectory = plan(services, request).trajectory
        last = trajectory.joint_trajectory.points[-1].time_from_start
        return last.sec + 1e-9 * last.nanosec

    for make in (motion_request, line_request):
        full = duration(make())
        for field, value, factor in (
            ('max_velocity_scaling_factor', 0.1, 3.0),
            ('max_acceleration_scaling_factor', 0.1, 1.5),
            ('max_cartesian_speed', 0.05, 3.0),
        ):
            request = make()
            setattr(getattr(request, 'motion_plan_request', request), field, value)
            assert duration(request) > factor * full, (make, field)


def test_a_joint_goal_is_on_the_branch_that_it_names(services: dict[str, Callable]) -> None:
    request = motion_request('PTP')
    wish = request.motion_plan_request
    goal = joint_goal(PICK + 0.1)
    own = BRANCHES[int(classify(UR5, PICK + 0.1))]
    wish.goal_constraints = [goal]
    for goal.name in ('', own):
        assert plan(services, request).error_code.val == Codes.SUCCESS
    for goal.name in (name for name in BRANCHES if name != own):
        reply = plan(services, request)
        check_refused(reply, Codes.INVALID_GOAL_CONSTRAINTS)
        assert f'is on {own}, its name asks for {goal.name}' in reply.error_code.message
    goal.name = 'garbage'
    reply = plan(services, request)
    check_refused(reply, Codes.INVALID_GOAL_CONSTRAINTS)
    assert "branch 'garbage': must be one of left-up-down" in reply.error_code.message


@pytest.mark.parametrize('planner_id', ['PTP', 'LIN', 'CIRC'])
@pytest.mark.parametrize('link', ['tool0', 'tcp'])
def test_a_pose_goal_is_for_the_point_at_its_offset_in_the_link(
    services: dict[str, Callable], planner_id: str, link: str
) -> None:
    """A camera's eye, say, beside the tool: it comes to the goal, and the link beside it."""
    request = motion_request(planner_id)
    goal = request.motion_plan_request.goal_constraints[0]
    position = goal.position_constraints[0]
    position.link_name, offset = link, position.target_point_offset
    offset.x, offset.y, offset.z = 0.03, -0.02, 0.01
    reply = plan(services, request)
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    T = forward(UR5, np.array(reply.trajectory.joint_trajectory.points[-1].positions))
    ahead = 0.145 if link == 'tcp' else 0.0
    expected = GOAL.copy()
    expected[:3, 3] = (GOAL @ [-0.03, 0.02, -0.01 - ahead, 1.0])[:3]
    assert_transforms_close(T, expected, 1e-6, 1e-6)


def test_a_help_point_has_no_offset(services: dict[str, Callable]) -> None:
    request = motion_request('CIRC')
    arc = request.motion_plan_request.path_constraints
    arc.position_constraints[0].target_point_offset.z = 0.1
    reply = plan(services, request)
    check_refused(reply, Codes.INVALID_GOAL_CONSTRAINTS)
    assert 'target_point_offset (0.0, 0.0, 0.1) m: must be 0' in reply.error_code.message


def test_a_pose_goal_is_for_one_link(services: dict[str, Callable]) -> None:
    request = motion_request()
    goal = request.motion_plan_request.goal_constraints[0]
    position, orientation = goal.position_constraints[0], goal.orientation_constraints[0]
    for names in (('tcp', ''), ('tcp', 'tcp'), ('', 'tool0'), ('tool0', 'wrist_3_link')):
        position.link_name, orientation.link_name = names
        assert plan(services, request).error_code.val == Codes.SUCCESS, names
    for names, message in (
        (('tcp', 'tool0'), "is of 'tool0', the position constraint of 'tcp': name one link"),
        (('', 'tcp'), "is of 'tcp', the position constraint of ''"),
        (('', 'moon'), "tip link 'moon' is not known"),
    ):
        position.link_name, orientation.link_name = names
        reply = plan(services, request)
        check_refused(reply, Codes.INVALID_LINK_NAME)
        assert message in reply.error_code.message


def test_what_a_trajectory_cannot_make_the_arm_do_is_refused(
    services: dict[str, Callable],
) -> None:
    trajectory = plan(services, motion_request()).trajectory
    trajectory_from_msg(trajectory, JOINT_NAMES)
    trajectory.joint_trajectory.points[1].effort = [0.0] * 6
    with pytest.raises(InvalidInput, match='point 1 has 6 efforts: must be 0'):
        trajectory_from_msg(trajectory, JOINT_NAMES)
    trajectory.joint_trajectory.points[1].effort = []
    trajectory.multi_dof_joint_trajectory.points = [MultiDOFJointTrajectoryPoint()]
    with pytest.raises(InvalidInput, match='trajectory has 1 multi-DOF points: must be 0'):
        trajectory_from_msg(trajectory, JOINT_NAMES)


@pytest.mark.parametrize('services', [PARTS], indirect=True)
def test_with_parts_allowed_the_part_comes_with_its_fraction_and_the_reason(
    services: dict[str, Callable],
) -> None:
    beyond = GOAL.copy()
    beyond[0, 3] -= 1.0
    reply = line(services, line_request(GOAL, beyond))
    assert reply.error_code.val == Codes.SUCCESS
    assert 0.5 < reply.fraction < 1.0 and 'too far' in reply.error_code.message
    end = forward(UR5, np.array(reply.solution.joint_trajectory.points[-1].positions))
    way = (end - GOAL)[:3, 3]
    assert np.abs(way[1:]).max() < 1e-6
    assert -way[0] == pytest.approx(2.0 * (reply.fraction - 0.5), abs=1e-6)
    whole = line(services, line_request())
    assert (whole.fraction, whole.error_code.message) == (1.0, '')


@pytest.mark.parametrize('services', [PARTS], indirect=True)
def test_with_parts_allowed_nothing_at_all_is_still_no_success(
    services: dict[str, Callable],
) -> None:
    request = line_request()
    request.revolute_jump_threshold = 1e-9
    check_refused(line(services, request), Codes.PLANNING_FAILED)


@pytest.mark.parametrize('services', [FOO], indirect=True)
def test_the_arms_own_group_needs_no_place_in_the_list(services: dict[str, Callable]) -> None:
    for group in ('', 'ur_manipulator', 'foo'):
        request = motion_request()
        request.motion_plan_request.group_name = group
        assert plan(services, request).error_code.val == Codes.SUCCESS
        request = line_request()
        request.group_name = group
        assert line(services, request).error_code.val == Codes.SUCCESS
    request.group_name = 'arm'
    check_refused(line(services, request), Codes.INVALID_GROUP_NAME)
