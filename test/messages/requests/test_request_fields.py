# SPDX-License-Identifier: Apache-2.0
"""
Every field of a MoveIt request is honoured, or refused by its name; none is dropped.

The nodes' own callbacks are called, as their executor calls them.
"""

from typing import Any

import numpy as np
import pytest
from callbacks import PRESENT, check_refused, end_of, joints, line, plan, pose_in_base
from closeness import assert_transforms_close
from motion_planners import PICK, tool_down
from moveit_msgs.msg import Constraints
from moveit_msgs.srv import GetPositionFK, GetPositionIK
from moveit_requests import (
    BEYOND,
    UR5,
    Codes,
    fk_request,
    ik_request,
    joint_goal,
    line_request,
    motion_request,
)
from sensor_msgs.msg import JointState

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES, LINK_NAMES, classify, forward, inverse
from ur5_pick_place.nodes.messages.conversions import pose_to_matrix, trajectory_from_msg

PREFIX = ('-p', 'tf_prefix:=left_', '-r', '__ns:=/left')
STEP = np.eye(4)
STEP[:3, 3] = [0.02, 0.03, -0.04]


def duration(reply: Any) -> float:
    last = reply.trajectory.joint_trajectory.points[-1].time_from_start
    return last.sec + 1e-9 * last.nanosec


# ---- frames of the arm


FRAMES = ('tool0', 'tcp', 'flange', 'wrist_3_link', 'wrist_1_link', 'forearm_link', 'camera')


@pytest.mark.parametrize('frame', FRAMES)
@pytest.mark.parametrize('planner_id', ['PTP', 'LIN', 'line'])
def test_a_pose_in_a_frame_of_the_arm_is_meant_where_the_motion_starts(
    services, frame, planner_id
):
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


def test_the_help_point_of_an_arc_may_be_in_a_frame_of_the_arm(services):
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
def test_with_a_prefix_the_frames_of_the_arm_carry_it(services, frame):
    expected = forward(UR5, PICK) @ STEP
    request = line_request(np.linalg.inv(pose_in_base(frame, PICK, 'left_')) @ expected)
    request.header.frame_id = frame
    request.start_state.joint_state = joints(PICK, 'left_')
    end = forward(UR5, end_of(line(services, request)))
    assert_transforms_close(end, expected, 1e-6, 1e-6)


@pytest.mark.parametrize('frame', FRAMES)
def test_an_ik_pose_in_a_frame_of_the_arm_is_meant_at_the_robot_state(services, frame):
    expected = forward(UR5, PICK) @ STEP
    request = ik_request(np.linalg.inv(pose_in_base(frame, PICK)) @ expected, PICK, frame)
    for name in ('compute_ik', 'compute_ik_all'):
        reply = services[name](request, GetPositionIK.Response())
        assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
        q = np.array(reply.solution.joint_state.position).reshape(-1, 6)
        assert np.abs(forward(UR5, q) - expected).max() < 1e-6


FIXED = ('base', 'base_link', 'base_link_inertia', 'flange', 'ft_frame')


@pytest.mark.parametrize('frame', ['base', *FRAMES])
def test_fk_gives_any_link_of_the_arm_in_any_frame_of_it(services, frame):
    links = ['tool0', 'tcp', *LINK_NAMES, *FIXED]
    request = fk_request(*links, q=PICK, frame=frame)
    reply = services['compute_fk'](request, GetPositionFK.Response())
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    T_frame_base = np.eye(4) if frame == 'base' else np.linalg.inv(pose_in_base(frame, PICK))
    for link, pose in zip(links, reply.pose_stamped, strict=True):
        expected = T_frame_base @ pose_in_base(link, PICK)
        assert_transforms_close(pose_to_matrix(pose.pose), expected, 1e-9, 1e-7)


@pytest.mark.parametrize('services', [PREFIX], indirect=True)
@pytest.mark.parametrize('prefix', ['', 'left_'])
def test_fk_takes_a_link_with_the_prefix_and_without(services, prefix):
    request = GetPositionFK.Request(fk_link_names=[prefix + link for link in FIXED])
    request.robot_state.joint_state = joints(PICK, 'left_')
    reply = services['compute_fk'](request, GetPositionFK.Response())
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    T_frame_base = np.linalg.inv(pose_in_base('left_base_link', PICK, 'left_'))
    for link, pose in zip(FIXED, reply.pose_stamped, strict=True):
        expected = T_frame_base @ pose_in_base(f'left_{link}', PICK, 'left_')
        assert_transforms_close(pose_to_matrix(pose.pose), expected, 1e-9, 1e-7)


def test_fk_gives_the_world_where_tf_has_it_and_lists_what_it_knows(services):
    request = fk_request('world', q=PICK, frame='')
    reply = services['compute_fk'](request, GetPositionFK.Response())
    assert_transforms_close(pose_to_matrix(reply.pose_stamped[0].pose), np.eye(4), 1e-9, 1e-7)
    request.fk_link_names = ['moon']
    reply = services['compute_fk'](request, GetPositionFK.Response())
    assert reply.error_code.val == Codes.INVALID_LINK_NAME
    known = reply.error_code.message.partition('use one of ')[2]
    assert set(known.replace(' or', '').split(', ')) == {
        'tool0', 'tcp', 'world where TF has it', *LINK_NAMES, *FIXED
    }  # fmt: skip


@pytest.mark.parametrize('link', ['flange', 'ft_frame', 'wrist_3_link'])
def test_any_link_that_is_fixed_to_the_tool_may_be_the_tip(services, link):
    expected = forward(UR5, PICK)
    request = ik_request(pose_in_base(link, PICK), PICK)
    request.ik_request.ik_link_name = link
    reply = services['compute_ik'](request, GetPositionIK.Response())
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    assert np.abs(forward(UR5, reply.solution.joint_state.position) - expected).max() < 1e-6


# ---- the start state


def test_a_difference_to_the_present_state_may_name_some_joints_only(services):
    message = joints(PRESENT)  # those of the beginning are old by now
    message.header.stamp.sec = 1
    services['joint_states'](message)
    request = motion_request('PTP', goals=[joint_goal(PICK)])
    wish = request.motion_plan_request
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


# ---- goals


def both(q: np.ndarray, T: np.ndarray, tolerance: float = 1e-3) -> Constraints:
    """One goal of joints and a pose, as a client that sets both sends it."""
    goal = motion_request('PTP', T).motion_plan_request.goal_constraints[0]
    goal.joint_constraints = joint_goal(q).joint_constraints
    for constraint in goal.joint_constraints:
        constraint.tolerance_above = constraint.tolerance_below = tolerance
    return goal


def test_joints_and_a_pose_in_one_goal_must_both_be_met(services, rng):
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


def test_a_line_to_joints_ends_at_them_or_is_refused(services):
    """The same pose on another branch, or a turn away, is another place for the joints."""
    T = forward(UR5, PICK) @ STEP
    rows, reached = inverse(UR5, T, q6=PICK[5])
    own = int(classify(UR5, PICK))
    request = motion_request('LIN', goals=[joint_goal(rows[own])])
    np.testing.assert_allclose(end_of(plan(services, request)), rows[own], atol=1e-6)
    turned = rows[own] + [0, 0, 0, 0, 0, -2 * np.pi * np.sign(rows[own][5])]
    others = [rows[k] for k in range(8) if reached[k] and k != own]
    for q in (turned, *others):
        reply = plan(services, motion_request('LIN', goals=[joint_goal(q)]))
        words = 'keeps its branch and turn; change these with PTP first'
        check_refused(reply, Codes.GOAL_CONSTRAINTS_VIOLATED, words)


def test_a_goal_that_cannot_be_leaves_the_others_and_is_named(services):
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


# ---- how


@pytest.mark.parametrize('value', BEYOND)
@pytest.mark.parametrize('kind', ['velocity', 'acceleration'])
def test_a_scaling_beyond_its_range_counts_as_1_with_a_warning(services, kind, value, capfd):
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
def test_these_planners_go_straight_in_joint_space(services, planner_id):
    reply = plan(services, motion_request(planner_id, goals=[joint_goal(PICK + 0.1)]))
    np.testing.assert_allclose(end_of(reply), PICK + 0.1, atol=1e-9)
    q = np.array([p.positions for p in reply.trajectory.joint_trajectory.points])
    away = q - PICK - (q - PICK).mean(axis=1, keepdims=True)
    assert np.abs(away).max() < 1e-9


def test_a_trajectory_is_read_as_its_points_stand(services):
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
