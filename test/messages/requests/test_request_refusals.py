# SPDX-License-Identifier: Apache-2.0
"""What the nodes cannot honour in a MoveIt request is refused by its name."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from callbacks import PRESENT, Services, check_refused, joints, line, plan
from geometry_msgs.msg import Point, Pose, Quaternion
from motion_planners import PICK
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    Constraints,
    GenericTrajectory,
    OrientationConstraint,
    PlanningScene,
    PositionConstraint,
    RobotState,
    VisibilityConstraint,
)
from moveit_msgs.srv import GetPlanningScene, GetPositionFK, GetPositionIK
from moveit_requests import (
    GOAL,
    Codes,
    box_message,
    ik_request,
    joint_goal,
    line_request,
    motion_request,
    put,
)
from shape_msgs.msg import Mesh, SolidPrimitive

from ur5_pick_place.kinematics import BRANCHES


def attach(state: Any) -> None:
    thing = AttachedCollisionObject(link_name='tool0', object=CollisionObject(id='cup'))
    state.attached_collision_objects = [thing]


def detach(state: Any) -> None:
    attach(state)
    state.attached_collision_objects[0].object.operation = CollisionObject.REMOVE


def float_about(state: Any) -> None:
    state.multi_dof_joint_state.joint_names = ['virtual_joint']


@pytest.mark.parametrize(
    ('spoil', 'words'),
    [
        (attach, "attaches 'cup', which the scene has not attached; attached now: nothing"),
        (detach, "operation 1 of the attached object 'cup': must be ADD"),
        (float_about, '1 multi-DOF joints'),
    ],
)
def test_a_state_that_a_request_cannot_make_is_refused_by_each_service(services, spoil, words):
    for state, answer in requests_with_a_state(services):
        spoil(state)
        check_refused(answer(), Codes.INVALID_ROBOT_STATE, words)


def requests_with_a_state(services: Services) -> Iterator[tuple[RobotState, Callable[[], Any]]]:
    """Give the robot state of a request to each service, and what sends the request."""
    motion, path = motion_request('PTP'), line_request()
    fk, ik = GetPositionFK.Request(), ik_request(GOAL, None)
    yield motion.motion_plan_request.start_state, lambda: plan(services, motion)
    yield path.start_state, lambda: line(services, path)
    yield fk.robot_state, lambda: services['compute_fk'](fk, GetPositionFK.Response())
    yield ik.ik_request.robot_state, lambda: services['compute_ik'](ik, GetPositionIK.Response())


def in_hand(name: str) -> AttachedCollisionObject:
    held = AttachedCollisionObject(link_name='tool0', object=box_message(name), weight=0.1)
    held.object.header.frame_id = 'tool0'
    held.object.primitive_poses = [Pose(position=Point(z=0.2))]
    return held


def scene_of(services: Services) -> PlanningScene:
    """Return the planner's scene, and hand it to the IK service, as DDS does."""
    get = services['get_planning_scene']
    scene = get(GetPlanningScene.Request(), GetPlanningScene.Response()).scene
    services['monitored_planning_scene'](scene)
    return scene


def wait_for_success(answer: Callable[[], Any]) -> None:
    """Ask until the IK service's thread has read the scene."""
    deadline = time.monotonic() + 10.0
    while (code := answer().error_code).val != Codes.SUCCESS:
        assert time.monotonic() < deadline, code.message
        time.sleep(0.02)


def test_a_state_may_attach_what_is_attached_now_and_nothing_else(services):
    """RViz and MoveGroupInterface copy it from the scene, also the task's part."""
    cup, part = in_hand('cup'), in_hand('ur5_pick_place/part')
    services['carried_part'](part)
    services['attached_collision_object'](cup)
    try:
        held = list(scene_of(services).robot_state.attached_collision_objects)
        assert [thing.object.id for thing in held] == ['cup', 'ur5_pick_place/part']
        for state, answer in requests_with_a_state(services):
            state.attached_collision_objects = held
            wait_for_success(answer)
            state.attached_collision_objects = [*held, in_hand('jug')]
            words = "'jug', which the scene has not attached; attached now: 'cup', 'ur5_pick"
            check_refused(answer(), Codes.INVALID_ROBOT_STATE, words)
            more = in_hand('cup')
            more.object.operation = CollisionObject.APPEND
            state.attached_collision_objects = [more]
            words = "operation 2 of the attached object 'cup': must be ADD"
            check_refused(answer(), Codes.INVALID_ROBOT_STATE, words)
    finally:
        part.object.operation = cup.object.operation = CollisionObject.REMOVE
        recent = joints(PRESENT)  # what is laid down needs them
        recent.header.stamp.sec += 1
        services['joint_states'](recent)
        services['carried_part'](part)
        services['attached_collision_object'](cup)
        services['collision_object'](CollisionObject(id='cup', operation=CollisionObject.REMOVE))
        assert not scene_of(services).robot_state.attached_collision_objects


def goal_with(**fields: float) -> list[Constraints]:
    """Return a joint goal of which one constraint holds something else."""
    goal = joint_goal(PICK)
    for name, value in fields.items():
        setattr(goal.joint_constraints[1], name, value)
    return [goal]


GOAL_POSE = 'goal_constraints.0'
POSITION, ORIENTATION = (f'{GOAL_POSE}.{kind}_constraints' for kind in ('position', 'orientation'))
REGION = f'{POSITION}.0.constraint_region'
PATH = 'path_constraints'
SPHERE, PRISM = (
    SolidPrimitive(type=kind, dimensions=[1e-3]) for kind in (SolidPrimitive.SPHERE, 5)
)
BAD, STATE, LINK = 'INVALID_GOAL_CONSTRAINTS', 'INVALID_ROBOT_STATE', 'INVALID_LINK_NAME'

# Of each request: what is put where, the code, and what is named.
COMMON = [
    ('max_cartesian_speed', -1.0, BAD, 'speed limit'),
    ('max_cartesian_speed', math.nan, BAD, 'speed limit'),
    ('max_velocity_scaling_factor', 1e-5, BAD, 'velocity'),
    ('max_acceleration_scaling_factor', 1e-300, BAD, 'acceleration'),
    ('cartesian_speed_limited_link', 'nose', LINK, "'nose'"),
    ('group_name', 'leg', 'INVALID_GROUP_NAME', "'leg'"),
    ('start_state.joint_state.name.0', 'a', STATE, 'shoulder_pan_joint'),
    ('start_state.joint_state.name.0', 'elbow_joint', STATE, 'twice'),
    ('start_state.joint_state.position', [0.0], STATE, 'length 1'),
    ('start_state.joint_state.name', ['j'] * 9999, STATE, 'at most 256'),
    ('start_state.joint_state.position.2', math.nan, STATE, 'elbow_joint is nan'),
    ('start_state.joint_state.position.5', 6.9, STATE, 'guide it back in freedrive'),
    ('start_state.joint_state.position.5', -90.0, STATE, 'radians, not degrees?'),
    (f'{PATH}.joint_constraints', joint_goal(PICK).joint_constraints, BAD, '6 joint'),
    (f'{PATH}.orientation_constraints', [OrientationConstraint()], BAD, '1 orientation'),
    (f'{PATH}.visibility_constraints', [VisibilityConstraint()], BAD, '1 visibility'),
    (f'{PATH}.position_constraints', [PositionConstraint()], BAD, '1 position constraints'),
]
MOTION = [
    (f'{REGION}.primitive_poses.0.position.y', math.inf, BAD, 'not finite'),
    (f'{POSITION}.0.target_point_offset.x', math.nan, BAD, 'not finite'),
    (f'{ORIENTATION}.0.orientation', Quaternion(w=0.0), BAD, 'norm 0'),
    (f'{ORIENTATION}.0.orientation', Quaternion(w=0.98), BAD, 'norm 0.98'),
    (f'{ORIENTATION}.0.absolute_z_axis_tolerance', math.nan, BAD, 'z_axis_tolerance is nan'),
    ('goal_constraints', [], BAD, 'is empty'),
    (f'{POSITION}', [PositionConstraint()] * 2, BAD, '2 position and 1 orientation'),
    (f'{ORIENTATION}', [OrientationConstraint()] * 2, BAD, '1 position and 2 orientation'),
    (f'{ORIENTATION}', [], BAD, '1 position and 0 orientation constraints'),
    (f'{POSITION}', [], BAD, '0 position and 1 orientation constraints'),
    (f'{GOAL_POSE}.visibility_constraints', [VisibilityConstraint()], BAD, '1 visibility'),
    (f'{GOAL_POSE}.name', 'up', BAD, "'up'"),
    (f'{REGION}.meshes', [Mesh()], BAD, '1 meshes: give one region'),
    (f'{REGION}.primitives', [SPHERE] * 2, BAD, '2 primitives'),
    (f'{REGION}.primitives', [PRISM], BAD, 'a region of type 5'),
    (f'{REGION}.primitive_poses', [], BAD, '0 primitive_poses'),
    (f'{POSITION}.0.header.frame_id', 'moon', 'FRAME_TRANSFORM_FAILURE', "'moon'"),
    (f'{ORIENTATION}.0.header.frame_id', 'moon', 'FRAME_TRANSFORM_FAILURE', "'moon'"),
    (f'{POSITION}.0.link_name', 'nose', LINK, "'nose'"),
    (f'{ORIENTATION}.0.link_name', 'nose', LINK, "'nose'"),
    ('goal_constraints', goal_with(tolerance_below=-0.1), BAD, 'tolerance_below -0.1'),
    ('goal_constraints', goal_with(position=math.nan), BAD, 'position nan'),
    ('goal_constraints', goal_with(joint_name='knee'), BAD, "'knee'"),
    ('goal_constraints', goal_with(joint_name='elbow_joint'), BAD, 'joint twice'),
    ('trajectory_constraints.constraints', [joint_goal(PICK)], BAD, 'holds 1'),
    ('reference_trajectories', [GenericTrajectory()], BAD, 'reference_trajectories holds 1'),
]
LINE = [
    ('waypoints', [], BAD, '0 waypoints'),
    ('waypoints', [Pose()] * 1001, BAD, '1001 waypoints'),
    ('waypoints.0.position.z', math.nan, BAD, 'not finite'),
    ('waypoints.0.orientation', Quaternion(w=0.0), BAD, 'norm 0'),
    ('max_step', -1e-9, BAD, 'max_step'),
    ('max_step', math.inf, BAD, 'max_step'),
    ('jump_threshold', -1.0, BAD, 'jump threshold'),
    ('revolute_jump_threshold', math.nan, BAD, 'revolute jump threshold'),
    ('prismatic_jump_threshold', -1.0, BAD, 'prismatic jump threshold'),
    ('header.frame_id', 'moon', 'FRAME_TRANSFORM_FAILURE', "'moon'"),
    ('link_name', 'nose', LINK, "'nose'"),
]


@pytest.mark.parametrize('planner_id', ['AUTO', 'PTP', 'LIN', 'RESOLVED_RATE'])
def test_each_wrong_field_of_a_motion_gets_its_code_and_is_named(services, planner_id):
    for path, value, code, words in COMMON + MOTION:
        request = motion_request(planner_id)
        put(request.motion_plan_request, path, value)
        check_refused(plan(services, request), getattr(Codes, code), words)
    assert plan(services, motion_request(planner_id)).error_code.val == Codes.SUCCESS


def test_each_wrong_field_of_a_line_gets_its_code_and_is_named(services):
    for path, value, code, words in COMMON + LINE:
        request = line_request()
        put(request, path, value)
        check_refused(line(services, request), getattr(Codes, code), words)
    assert line(services, line_request()).fraction == 1.0


ARC = f'{PATH}.position_constraints.0'
WAY = [
    ('CIRC', f'{PATH}.joint_constraints', joint_goal(PICK).joint_constraints[:1], BAD, '1 joint'),
    ('CIRC', f'{PATH}.orientation_constraints', [OrientationConstraint()], BAD, '1 orient'),
    ('CIRC', f'{PATH}.visibility_constraints', [VisibilityConstraint()], BAD, '1 visibility'),
    ('CIRC', f'{ARC}.target_point_offset.z', 0.1, BAD, 'target_point_offset (0.0, 0.0, 0.1)'),
    ('CIRC', f'{ARC}.link_name', 'tcp', LINK, "arc point is of 'tcp', the goal of 'tool0'"),
    ('PTP', f'{PATH}.name', BRANCHES[0], BAD, 'name the branch of the end in goal_const'),
    ('AUTO', f'{PATH}.name', BRANCHES[0], BAD, 'name the branch of the end in goal_const'),
]


@pytest.mark.parametrize(('planner_id', 'path', 'value', 'code', 'words'), WAY)
def test_what_a_path_cannot_keep_is_refused(services, planner_id, path, value, code, words):
    request = motion_request(planner_id)
    put(request.motion_plan_request, path, value)
    check_refused(plan(services, request), getattr(Codes, code), words)
