# SPDX-License-Identifier: Apache-2.0
"""Goals with tolerances, by the planner's own callbacks: any pose or joints within are a goal."""

from collections.abc import Iterator

import numpy as np
import pytest
from callbacks import Services, check_refused, end_of, plan
from motion_planners import PICK, tool_down
from moveit_msgs.msg import CollisionObject
from moveit_msgs.srv import GetMotionPlan
from moveit_requests import UR5, Codes, box_message, joint_goal, motion_request
from scipy.spatial.transform import Rotation
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.kinematics import BRANCHES, classify, forward, inverse
from ur5_pick_place.planning.goal_region import PoseRegion

TCP = np.array([0.0, 0.0, 0.145, 1.0])
SPOT = (0.5, 0.1)  # [m] in base_link, between the walls
EVERY = ('AUTO', 'PTP', 'LIN', 'CIRC', 'RESOLVED_RATE')


@pytest.fixture
def walls(services: Services) -> Iterator[None]:
    """Two walls at the goal, between which the fingers fit in two directions only."""
    x, y = SPOT
    yield from _with(
        services,
        *(box_message(f'wall{s}', (x, y + 0.055 * s, 0.04), (0.3, 0.02, 0.08)) for s in (-1, 1)),
    )


@pytest.fixture
def post(services: Services) -> Iterator[None]:
    """A post that stands where the goal is."""
    yield from _with(services, box_message('post', (*SPOT, 0.03), (0.04, 0.04, 0.06)))


def _with(services: Services, *things: CollisionObject) -> Iterator[None]:
    for thing in things:
        services['collision_object'](thing)
    yield
    everything = CollisionObject(operation=CollisionObject.REMOVE)
    services['collision_object'](everything)


def goal_at(planner_id: str, height: float = 0.03) -> GetMotionPlan.Request:
    """A goal of the TCP, tool down, that has no tolerance yet."""
    T = tool_down(*SPOT, height, 0.0)
    request = motion_request(planner_id, T)
    request.motion_plan_request.start_state.joint_state.position = joints_above().tolist()
    goal = request.motion_plan_request.goal_constraints[0]
    position = goal.position_constraints[0]
    position.link_name = 'tcp'
    position.header.frame_id = 'base_link'
    at = position.constraint_region.primitive_poses[0].position
    at.x, at.y, at.z = *SPOT, height
    for arc in request.motion_plan_request.path_constraints.position_constraints:
        arc.header.frame_id, arc.link_name = 'base_link', 'tcp'
        via = arc.constraint_region.primitive_poses[0].position
        via.x, via.y, via.z = SPOT[0] + 0.01, SPOT[1], height + 0.12
    return request


def joints_above() -> np.ndarray:
    """Joints above the goal, a quarter of a turn away from its yaw."""
    above = tool_down(*SPOT, 0.25, np.pi / 2)
    return inverse(UR5, above, q6=0.0)[0][BRANCHES.index('left-up-up')]


def tcp_of(q: np.ndarray) -> np.ndarray:
    """T_base_link_tcp (4, 4)."""
    T = np.diag([-1.0, -1.0, 1.0, 1.0]) @ forward(UR5, q)
    T[:3, 3] = (T @ TCP)[:3]
    return T


@pytest.mark.parametrize('planner_id', EVERY)
def test_a_free_yaw_between_two_walls_is_turned_until_it_fits(services, walls, planner_id):
    request = goal_at(planner_id)
    orientation = request.motion_plan_request.goal_constraints[0].orientation_constraints[0]
    refused = plan(services, request)
    assert refused.error_code.val != Codes.SUCCESS
    assert 'wall' in refused.error_code.message
    orientation.absolute_z_axis_tolerance = 3.14
    reply = plan(services, request)
    q = end_of(reply)
    T = tcp_of(q)
    np.testing.assert_allclose(T[:3, 3], [*SPOT, 0.03], atol=2e-4)
    np.testing.assert_allclose(T[:3, 2], [0.0, 0.0, -1.0], atol=1e-3)
    assert abs(T[0, 1]) > 0.9, 'the fingers move along the walls'
    assert 'another goal within the tolerances' in reply.error_code.message
    np.testing.assert_array_equal(end_of(plan(services, request)), q)


@pytest.mark.parametrize(
    ('kind', 'height', 'words'),
    [
        ('interim', 0.03, 'define no circle'),
        ('center', 0.03, 'the plane of the arc is unknown'),
        ('interim', 0.25, 'start and goal of the arc coincide'),
    ],
)
def test_a_tolerance_does_not_choose_the_circle(services, kind, height, words):
    """Points on a line: another goal, a little aside, would be reached in an arbitrary plane."""
    request = goal_at('CIRC', height)
    wish = request.motion_plan_request
    wish.path_constraints.name = kind
    arc = wish.path_constraints.position_constraints[0].constraint_region.primitive_poses[0]
    arc.position.x, arc.position.z = SPOT[0], 0.14
    goal = wish.goal_constraints[0]
    region = goal.position_constraints[0].constraint_region
    region.primitives = [SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[5e-3])]
    goal.orientation_constraints[0].absolute_z_axis_tolerance = 3.14
    check_refused(plan(services, request), Codes.INVALID_GOAL_CONSTRAINTS, words)


@pytest.mark.parametrize('planner_id', EVERY)
def test_the_nominal_goal_is_taken_where_it_is_free(services, planner_id):
    request = goal_at(planner_id)
    goal = request.motion_plan_request.goal_constraints[0]
    exact = end_of(plan(services, request))
    region = goal.position_constraints[0].constraint_region
    region.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.2, 0.2, 0.2])]
    goal.orientation_constraints[0].absolute_z_axis_tolerance = 3.14
    np.testing.assert_array_equal(end_of(plan(services, request)), exact)


SHAPES = {
    'box': (SolidPrimitive.BOX, [0.3, 0.1, 0.05]),
    'sphere': (SolidPrimitive.SPHERE, [0.15]),
    'cylinder': (SolidPrimitive.CYLINDER, [0.1, 0.15]),
    'cone': (SolidPrimitive.CONE, [0.2, 0.2]),
}


def is_inside(kind: str, size: list[float], p: np.ndarray) -> bool:
    """Whether a point in the region's own axes is in it, by the definition of the shape."""
    x, y, z = p
    across = np.hypot(x, y)
    match kind:
        case 'box':
            return bool((np.abs(p) <= np.array(size) / 2 + 1e-6).all())
        case 'sphere':
            return bool(np.linalg.norm(p) <= size[0] + 1e-6)
        case 'cylinder':
            return abs(z) <= size[0] / 2 + 1e-6 and across <= size[1] + 1e-6
    half = size[0] / 2
    return abs(z) <= half + 1e-6 and across <= size[1] * (half - z) / size[0] + 1e-6


@pytest.mark.parametrize('kind', SHAPES)
@pytest.mark.parametrize('planner_id', ['AUTO', 'LIN'])
def test_a_region_with_a_blocked_centre_is_reached_beside_it(services, post, planner_id, kind):
    """The region is turned in its frame, as its pose says."""
    request = goal_at(planner_id)
    region = request.motion_plan_request.goal_constraints[0].position_constraints[0]
    region = region.constraint_region
    number, size = SHAPES[kind]
    turned = Rotation.from_euler('z', 60.0, degrees=True)
    x, y, z, w = turned.as_quat()
    orientation = region.primitive_poses[0].orientation
    orientation.x, orientation.y, orientation.z, orientation.w = x, y, z, w
    refused = plan(services, request)
    assert "object 'post'" in refused.error_code.message
    region.primitives = [SolidPrimitive(type=number, dimensions=size)]
    T = tcp_of(end_of(plan(services, request)))
    p = turned.inv().apply(T[:3, 3] - [*SPOT, 0.03])
    assert is_inside(kind, size, p), p
    np.testing.assert_allclose(T[:3, :3], np.diag([1.0, -1.0, -1.0]), atol=1e-6)


def test_joints_within_their_tolerances_are_a_goal(services, post):
    nominal = goal_at('AUTO')
    T = tool_down(*SPOT, 0.03, np.pi / 2)
    q = inverse(UR5, T, q6=0.0)[0][BRANCHES.index('left-up-up')]
    wish = nominal.motion_plan_request
    wish.goal_constraints = [joint_goal(q)]
    assert "object 'post'" in plan(services, nominal).error_code.message
    constraint = wish.goal_constraints[0].joint_constraints[0]
    constraint.tolerance_above, constraint.tolerance_below = 0.1, 0.6
    end = end_of(plan(services, nominal))
    np.testing.assert_allclose(end[1:], q[1:], atol=2e-6)
    assert q[0] - 0.6 <= end[0] <= q[0] + 0.1
    np.testing.assert_array_equal(end_of(plan(services, nominal)), end)


@pytest.mark.parametrize('planner_id', ['AUTO', 'PTP', 'LIN'])
def test_joints_on_a_named_branch_are_found_within_tolerances(services, planner_id):
    """Where the nominal ones are just beyond the singularity."""
    q = PICK.copy()
    q[4] = -0.2 * np.sign(PICK[4])
    goal = joint_goal(q)
    goal.name = BRANCHES[int(classify(UR5, PICK))]
    request = motion_request(planner_id, goals=[goal])
    refused = plan(services, request)
    assert f'its name requires {goal.name}' in refused.error_code.message
    goal.joint_constraints[4].tolerance_above = goal.joint_constraints[4].tolerance_below = 1.0
    end = end_of(plan(services, request))
    assert BRANCHES[int(classify(UR5, end))] == goal.name and abs(end[4] - q[4]) <= 1.0 + 1e-6


@pytest.mark.parametrize('planner_id', ['AUTO', 'PTP'])
def test_a_goal_in_degrees_is_refused_with_that_question(services, planner_id):
    """Also where the first joint that is out of range could be meant in radians."""
    goal = joint_goal(np.array([9, -90, 90, -90, 0, 0]))
    refused = plan(services, motion_request(planner_id, goals=[goal]))
    said = 'must lie in -360 to 360 deg; radians, not degrees?'
    check_refused(refused, Codes.INVALID_MOTION_PLAN, said)


@pytest.mark.parametrize('planner_id', ['AUTO', 'PTP'])
@pytest.mark.parametrize('sign', [-1.0, 1.0])
def test_a_joint_tolerance_beyond_a_limit_is_clipped(services, planner_id, sign):
    q = PICK.copy()
    q[5] = sign * 6.2832  # a limit of 2 pi as text, say
    goal = joint_goal(q)
    request = motion_request(planner_id, goals=[goal])
    refused = plan(services, request)
    check_refused(refused, Codes.INVALID_MOTION_PLAN, 'must lie in -360 to 360 deg')
    for constraint in goal.joint_constraints:
        constraint.tolerance_above = constraint.tolerance_below = 1e-3
    end = end_of(plan(services, request))
    assert abs(end[5]) <= 2.0 * np.pi and abs(end[5] - q[5]) < 1e-3


@pytest.mark.parametrize('is_vector', [False, True])
def test_every_sample_is_within_as_moveit_judges_it(is_vector, rng):
    """MoveIt's definition: the difference in the goal's own axes, as angles or as a vector."""
    turns = np.array([0.2, 0.5, 2.0])
    R = Rotation.from_rotvec(rng.normal(size=3)).as_matrix()
    T_base_region = np.eye(4)
    T_base_region[:3, 3] = 0.3, -0.2, 0.4
    region = PoseRegion(T_base_region, 'sphere', (0.1,), R, turns, is_vector, np.eye(4))
    found = region.samples()
    own = Rotation.from_matrix(R.T @ found[:, :3, :3])
    angles = own.as_rotvec() if is_vector else own.as_euler('XYZ')
    assert (np.abs(angles) <= turns + 1e-9).all()
    assert (np.abs(angles).max(axis=0) > 0.95 * turns).all(), 'as far as it may'
    away = np.linalg.norm(found[:, :3, 3] - T_base_region[:3, 3], axis=1)
    assert away.max() <= 0.1 + 1e-9 and away.max() > 0.09
    np.testing.assert_array_equal(region.samples(), found)
