# SPDX-License-Identifier: Apache-2.0
"""
Thousands of wrong planning requests each get the right error, and what clients may wish is kept.

The node's own callbacks are called, as its executor calls them; `test_planner_node.py` sends some
of this garbage through DDS.

"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')

from conftest import assert_transforms_close  # noqa: E402
from ik_garbage import FOO, NUMBERS, WORDS  # noqa: E402
from motion_planners import PICK  # noqa: E402
from moveit_msgs.msg import CollisionObject  # noqa: E402
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan  # noqa: E402
from plan_garbage import (  # noqa: E402
    GOAL,
    UR5,
    Codes,
    Rng,
    any_of,
    box_message,
    joint_goal,
    line_request,
    motion_request,
    spoil_pose,
    spoilt,
)
from rclpy.serialization import serialize_message  # noqa: E402
from shape_msgs.msg import Mesh, SolidPrimitive  # noqa: E402
from trajectory_msgs.msg import MultiDOFJointTrajectoryPoint  # noqa: E402

from ur5_pick_place.errors import InvalidInput  # noqa: E402
from ur5_pick_place.kinematics import BRANCHES, JOINT_NAMES, classify, forward  # noqa: E402
from ur5_pick_place.nodes.conversions import matrix_to_pose, trajectory_from_msg  # noqa: E402

CONFIG = Path(__file__).parents[1] / 'config'
PARTS = ('-p', 'allow_partial_cartesian:=true', '-r', '__ns:=/parts')


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
        assert f'is on {own}, its name requires {goal.name}' in reply.error_code.message
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
