# SPDX-License-Identifier: Apache-2.0
"""
Thousands of wrong planning requests each get the right error, and what clients may wish is kept.

The node's own callbacks are called, as its executor calls them.
"""

import re
import time

import numpy as np
import pytest
from callbacks import check_refused, joints, line, plan
from closeness import assert_transforms_close
from motion_planners import PICK, tool_down
from moveit_msgs.msg import PlanningScene, RobotState, RobotTrajectory
from moveit_msgs.srv import ApplyPlanningScene, GetCartesianPath, GetPlanningScene
from moveit_requests import GOAL, UR5, Codes, joint_goal, line_request, motion_request
from trajectory_msgs.msg import JointTrajectoryPoint, MultiDOFJointTrajectoryPoint

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import BRANCHES, HOME, JOINT_NAMES, classify, forward
from ur5_pick_place.nodes.messages.conversions import trajectory_from_msg


def test_numbers_beyond_all_measure_are_out_of_reach(services):
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
        request = motion_request('PTP', goals=[joint_goal(np.full(6, far))])
        assert plan(services, request).error_code.val == Codes.INVALID_MOTION_PLAN


def test_scalings_and_speed_slow_both_services_down(services):
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


@pytest.mark.parametrize('planner_id', ['LIN', 'CIRC', 'RESOLVED_RATE'])
def test_a_path_that_collides_is_refused_with_the_first_bad_pose(services, planner_id):
    table = forward(UR5, PICK)
    table[2, 3] = 0.0
    request = motion_request(planner_id, table)
    for arc in request.motion_plan_request.path_constraints.position_constraints:
        arc.constraint_region.primitive_poses[0].position.y += 0.05
    reply = plan(services, request)
    check_refused(reply, Codes.INVALID_MOTION_PLAN)
    where = r'with the tool at \((.*)\) m in base_link, .* from table'
    found = re.match(rf'path can be followed to (\d+) %: {where}', reply.error_code.message)
    assert found and 10 < int(found[1]) < 90, reply.error_code.message
    assert 0.1 < float(found[2].split(', ')[2]) < 0.25, 'the fingers are above the table'


@pytest.mark.parametrize('planner_id', ['LIN', 'RESOLVED_RATE', 'cartesian'])
def test_path_constraints_may_name_the_branch_that_a_line_keeps_and_no_other(services, planner_id):
    own = BRANCHES[int(classify(UR5, PICK))]
    is_service = planner_id == 'cartesian'
    request = line_request() if is_service else motion_request(planner_id)
    path = (request if is_service else request.motion_plan_request).path_constraints
    for path.name in (own, 'right-down-up', 'interim', 'garbage'):
        reply = (line if is_service else plan)(services, request)
        if path.name == own:
            assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
        else:
            check_refused(reply, Codes.INVALID_GOAL_CONSTRAINTS)
            said = f'path_constraints is named {path.name!r}: the path stays on {own}'
            assert said in reply.error_code.message


def test_an_error_of_ours_is_a_failure_with_a_traceback_and_no_end_of_the_node(
    services, monkeypatch, capfd
):
    from ur5_pick_place.nodes.trajectory_planner import node as trajectory_planner

    def break_down(*_args, **_kwargs):
        raise AssertionError('unforeseen\n[ERROR] forged')

    monkeypatch.setattr(trajectory_planner.PlanRequests, 'motion_plan', break_down)
    monkeypatch.setattr(trajectory_planner.PlanRequests, 'cartesian_path', break_down)
    for reply in (plan(services, motion_request()), line(services, line_request())):
        check_refused(reply, Codes.FAILURE, 'error of this package, AssertionError: unforeseen')
    logged = capfd.readouterr().err
    assert logged.count('in break_down') == 2 and '\n[ERROR] forged' not in logged


def test_an_error_of_ours_in_the_scene_ends_no_service(services, monkeypatch):
    from ur5_pick_place.nodes.scene import planning_scene

    def break_down(*_args, **_kwargs):
        raise ZeroDivisionError('unforeseen')

    apply, get = services['apply_planning_scene'], services['get_planning_scene']
    for name, broken in (('apply', break_down), ('world', property(break_down))):
        with monkeypatch.context() as patch:
            patch.setattr(planning_scene.SceneBook, name, broken)
            services['planning_scene'](PlanningScene(is_diff=True))
            reply = apply(ApplyPlanningScene.Request(), ApplyPlanningScene.Response())
            assert not reply.success
            get(GetPlanningScene.Request(), GetPlanningScene.Response())
    reply = apply(ApplyPlanningScene.Request(), ApplyPlanningScene.Response())
    assert reply.success, 'the next one is taken'


def test_old_joints_are_no_start(services):
    """The arm may have been moved since."""
    wish, path = motion_request('PTP'), line_request()
    wish.motion_plan_request.start_state = path.start_state = RobotState()
    for stamp, ask in ((1, lambda: plan(services, wish)), (2, lambda: line(services, path))):
        present = joints(PICK)
        present.header.stamp.sec = stamp
        services['joint_states'](present)
        code = ask().error_code
        assert code.val == Codes.SUCCESS, code.message
        time.sleep(1.0)
        reply = ask()
        check_refused(reply, Codes.INVALID_ROBOT_STATE, 'joint_states are silent: check that')


def test_a_joint_goal_is_on_the_branch_that_it_names(services):
    goal = joint_goal(PICK + 0.1)
    request = motion_request('PTP', goals=[goal])
    own = BRANCHES[int(classify(UR5, PICK + 0.1))]
    for goal.name in ('', own):
        assert plan(services, request).error_code.val == Codes.SUCCESS
    for goal.name in (name for name in BRANCHES if name != own):
        reply = plan(services, request)
        words = f'is on {own}, its name requires {goal.name}'
        check_refused(reply, Codes.INVALID_GOAL_CONSTRAINTS, words)
    goal.name = 'garbage'
    reply = plan(services, request)
    words = "branch 'garbage': must be one of left-up-down"
    check_refused(reply, Codes.INVALID_GOAL_CONSTRAINTS, words)


@pytest.mark.parametrize('planner_id', ['PTP', 'LIN', 'CIRC'])
@pytest.mark.parametrize('link', ['tool0', 'tcp'])
def test_a_pose_goal_is_for_the_point_at_its_offset_in_the_link(services, planner_id, link):
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


def tools_on_the_way(reply) -> np.ndarray:
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    return forward(UR5, np.array([p.positions for p in reply.trajectory.joint_trajectory.points]))


@pytest.mark.parametrize(
    ('link', 'arc_link', 'offset'),
    [
        ('tcp', '', (0.0, 0.0, 0.0)),
        ('tcp', 'tcp', (0.0, 0.0, 0.0)),
        ('tcp', '', (0.03, -0.02, 0.01)),
        ('', 'wrist_3_link', (0.0, 0.0, 0.0)),
        ('', '', (0.05, 0.0, 0.02)),
    ],
)
def test_an_arc_guides_the_point_that_its_goal_is_for(services, link, arc_link, offset):
    p_tool_point = np.array([*offset, 1.0]) + [0.0, 0.0, 0.145 if link == 'tcp' else 0.0, 0.0]
    start = (forward(UR5, PICK) @ p_tool_point)[:3]
    goal = tool_down(*start, 0.5)
    goal[:3, 3] = start + [0.08, 0.04, 0.0]
    via = start + [0.02, 0.05, 0.03]
    request = motion_request('CIRC', goal)
    wish = request.motion_plan_request
    target, arc = wish.goal_constraints[0], wish.path_constraints.position_constraints[0]
    at, aside = target.position_constraints[0], arc.constraint_region.primitive_poses[0].position
    at.link_name, arc.link_name = link, arc_link
    at.target_point_offset.x, at.target_point_offset.y, at.target_point_offset.z = offset
    aside.x, aside.y, aside.z = (float(v) for v in via)
    points = (tools_on_the_way(plan(services, request)) @ p_tool_point)[:, :3]
    normal = np.cross(via - start, goal[:3, 3] - start)
    normal /= np.linalg.norm(normal)
    np.testing.assert_allclose((points - start) @ normal, 0.0, atol=1e-5)
    assert np.linalg.norm(points - via, axis=1).min() < 5e-3
    np.testing.assert_allclose(points[-1], goal[:3, 3], atol=1e-6)


def test_an_arc_to_joints_is_of_the_link_that_its_point_names(services):
    tcp = np.array([0.0, 0.0, 0.145, 1.0])
    q_goal = PICK + [0.1, 0.0, 0.0, 0.1, 0.1, 0.2]
    request = motion_request('CIRC', goals=[joint_goal(q_goal)])
    arc = request.motion_plan_request.path_constraints.position_constraints[0]
    via = ((forward(UR5, PICK) + forward(UR5, q_goal)) @ tcp)[:3] / 2 + [0.0, 0.0, 0.03]
    at, arc.link_name = arc.constraint_region.primitive_poses[0].position, 'tcp'
    at.x, at.y, at.z = (float(v) for v in via)
    points = (tools_on_the_way(plan(services, request)) @ tcp)[:, :3]
    assert np.linalg.norm(points - via, axis=1).min() < 5e-3


def test_a_pose_goal_is_for_one_link(services):
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


def test_what_a_trajectory_cannot_make_the_arm_do_is_refused(services):
    trajectory = plan(services, motion_request()).trajectory
    trajectory_from_msg(trajectory, JOINT_NAMES)
    trajectory.joint_trajectory.points[1].effort = [0.0] * 6  # as pymoveit2 fills them
    trajectory_from_msg(trajectory, JOINT_NAMES)
    trajectory.joint_trajectory.points[1].effort[2] = 1.5
    with pytest.raises(InvalidInput, match=r'point 1 has efforts \[0.0, 0.0, 1.5, .*: must be 0'):
        trajectory_from_msg(trajectory, JOINT_NAMES)
    trajectory.joint_trajectory.points[1].effort = []
    trajectory.multi_dof_joint_trajectory.points = [MultiDOFJointTrajectoryPoint()]
    with pytest.raises(InvalidInput, match='trajectory has 1 multi-DOF points: must be 0'):
        trajectory_from_msg(trajectory, JOINT_NAMES)


def test_a_reset_of_the_controller_may_carry_the_measured_efforts():
    """pymoveit2's `reset_controller` sends the present joint state as the only point."""
    point = JointTrajectoryPoint(positions=HOME, velocities=[0.0] * 6, accelerations=[0.0] * 6)
    point.effort = [0.1, -2.3, 1.2, 0.3, 0.0, 0.1]
    message = RobotTrajectory()
    message.joint_trajectory.joint_names = list(JOINT_NAMES)
    message.joint_trajectory.points = [point]
    read = trajectory_from_msg(message, JOINT_NAMES)
    assert read.duration == 0.0 and read.q.tolist() == [list(HOME)]
