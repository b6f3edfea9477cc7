# SPDX-License-Identifier: Apache-2.0
"""What the nodes cannot honour in a MoveIt request is refused by its name."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')

from geometry_msgs.msg import Point, Pose
from motion_planners import PICK
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    GenericTrajectory,
    OrientationConstraint,
    PlanningScene,
    PositionConstraint,
    RobotState,
    VisibilityConstraint,
)
from moveit_msgs.srv import GetPlanningScene, GetPositionFK, GetPositionIK
from plan_callbacks import line, plan
from plan_garbage import GOAL, box_message, joint_goal, line_request, motion_request
from request_callbacks import Codes, Services, check_refused
from request_callbacks import services as services
from shape_msgs.msg import Mesh, SolidPrimitive

from ur5_pick_place.nodes.messages.conversions import matrix_to_pose


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
def test_a_state_that_a_request_cannot_make_is_refused_by_each_service(
    services: Services, spoil: Callable[[Any], None], words: str
) -> None:
    for state, answer in requests_with_a_state(services):
        spoil(state)
        check_refused(answer(), Codes.INVALID_ROBOT_STATE, words)


def requests_with_a_state(services: Services) -> Iterator[tuple[RobotState, Callable[[], Any]]]:
    """Give the robot state of a request to each service, and what sends the request."""
    motion, path = motion_request('PTP'), line_request()
    fk, ik = GetPositionFK.Request(), GetPositionIK.Request()
    ik.ik_request.pose_stamped.header.frame_id = 'base'
    ik.ik_request.pose_stamped.pose = matrix_to_pose(GOAL)
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


def test_a_state_may_attach_what_is_attached_now_and_nothing_else(services: Services) -> None:
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
        services['carried_part'](part)
        services['attached_collision_object'](cup)
        services['collision_object'](CollisionObject(id='cup', operation=CollisionObject.REMOVE))
        assert not scene_of(services).robot_state.attached_collision_objects


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
