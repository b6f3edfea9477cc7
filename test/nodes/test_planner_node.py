# SPDX-License-Identifier: Apache-2.0
"""
The planner node beside the simulated driver, through real rclpy clients.

Every request gets the code that it deserves, and nothing moves that was not checked.

"""

import copy
import math
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip('rclpy')

from action_msgs.msg import GoalStatus
from cells import CONFIG
from geometry_msgs.msg import Pose
from ik_garbage import NUMBERS, WORDS
from moveit_client import wanted_joints
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    Constraints,
    PositionConstraint,
    RobotState,
)
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan
from plan_garbage import spoilt
from planner_client import (
    CODE,
    MODEL,
    T_BASE_LINK_BASE,
    box,
    joints,
    moved_by,
    pose_goal,
    tool_down,
)
from rclpy.action import ActionServer
from std_msgs.msg import String

from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward
from ur5_pick_place.nodes.messages.conversions import joint_state_msg, matrix_to_pose

pytestmark = [pytest.mark.nodes, pytest.mark.usefixtures('at_home')]


def arc_point(name, point, link='tool0', frame='base_link'):
    """The help point of an arc, as Pilz wants it."""
    position = PositionConstraint(link_name=link)
    position.header.frame_id = frame
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = point
    position.constraint_region.primitive_poses = [pose]
    return Constraints(name=name, position_constraints=[position])


def test_a_joint_goal_is_planned_executed_and_reached(client):
    goal = HOME + [0.4, -0.2, 0.2, 0.1, 0.1, -0.5]
    client.go(goal)
    assert np.abs(client.look() - goal).max() <= 0.002
    assert {'moving', 'ready'} <= set(client.states)


@pytest.mark.parametrize('frame', ['base_link', 'base', ''])
def test_a_pose_goal_is_reached_in_any_known_frame(client, frame):
    T = tool_down(0.5, 0.15, 0.35)
    given = T_BASE_LINK_BASE @ T if frame == 'base' else T
    planned = client.plan(pose_goal(given, frame=frame))
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    end = planned.trajectory.joint_trajectory.points[-1].positions
    np.testing.assert_allclose(T_BASE_LINK_BASE @ forward(MODEL, end), T, atol=1e-9)


def test_a_goal_for_the_tcp_accounts_for_the_tool(client):
    planned = client.plan(pose_goal(tool_down(0.5, 0.15, 0.2), link='tcp'))
    end = planned.trajectory.joint_trajectory.points[-1].positions
    expected = tool_down(0.5, 0.15, 0.345)
    np.testing.assert_allclose(T_BASE_LINK_BASE @ forward(MODEL, end), expected, atol=1e-9)


def test_lin_and_the_cartesian_service_go_along_the_line(client):
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    T[:3, 3] += [0.05, 0.2, -0.05]
    lin = client.plan(pose_goal(T), planner_id='LIN').trajectory
    path = client.line([matrix_to_pose(T)])
    assert (path.error_code.val, path.fraction) == (CODE.SUCCESS, 1.0)
    for trajectory in (lin, path.solution):
        q = np.array([p.positions for p in trajectory.joint_trajectory.points])
        p = (T_BASE_LINK_BASE @ forward(MODEL, q))[:, :3, 3]
        way = p[-1] - p[0]
        away = np.cross(p - p[0], way / np.linalg.norm(way))
        assert np.linalg.norm(away, axis=1).max() < 5e-5
        np.testing.assert_allclose(p[-1], T[:3, 3], atol=1e-9)
    assert client.end(client.start(path.solution))[1].val == CODE.SUCCESS


@pytest.mark.parametrize('name', ['interim', 'center'])
def test_an_arc_goes_round_its_help_point(client, name):
    """A quarter of a level circle of 0.1 m; the arm itself stands some 0.1 mm beside its start."""
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    centre = T[:3, 3] - [0.1, 0, 0]
    goal = T.copy()
    goal[:3, 3] = centre + [0, 0.1, 0]
    point = centre if name == 'center' else centre + [0.06, 0.08, 0]
    constraints = arc_point(name, point)
    planned = client.plan(pose_goal(goal), 'CIRC', path_constraints=constraints)
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    q = [point.positions for point in planned.trajectory.joint_trajectory.points]
    p = (T_BASE_LINK_BASE @ forward(MODEL, q))[:, :3, 3]
    np.testing.assert_allclose(np.linalg.norm(p - centre, axis=1), 0.1, atol=3e-4)
    np.testing.assert_allclose(p[-1], goal[:3, 3], atol=1e-9)
    assert p[:, 1].min() > T[1, 3] - 3e-4


def test_a_branch_by_name_is_kept(client):
    goal = pose_goal(tool_down(0.45, 0.1, 0.55))
    goal.name = 'left-up-down'
    planned = client.plan(goal)
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    assert np.sin(planned.trajectory.joint_trajectory.points[-1].positions[4]) > 0


def test_a_path_that_cannot_be_followed_is_refused_whole(client):
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    T[0, 3] += 1.0
    path = client.line([matrix_to_pose(T)])
    assert path.error_code.val == CODE.PLANNING_FAILED
    assert 0.1 < path.fraction < 0.7
    assert not path.solution.joint_trajectory.points
    assert re.search(r'at pose \d+ of \d+.*too far.*short', path.error_code.message)


def with_nan(constraints):
    constraints.joint_constraints[2].position = math.nan
    return constraints


def misnamed(constraints):
    constraints.joint_constraints[2].joint_name = 'knee_joint'
    return constraints


def zero_quaternion():
    goal = pose_goal(tool_down(0.5, 0.1, 0.4))
    goal.orientation_constraints[0].orientation.x = 0.0
    return goal


@pytest.mark.parametrize(
    ('goal', 'fields', 'code', 'message'),
    [
        (with_nan(joints(HOME)), {}, 'INVALID_GOAL_CONSTRAINTS', 'elbow_joint is nan'),
        (misnamed(joints(HOME)), {}, 'INVALID_GOAL_CONSTRAINTS', 'knee_joint'),
        (joints(HOME + [0, 0, 3, 0, 0, 0]), {}, 'INVALID_MOTION_PLAN', '-180 to 180 deg'),
        (zero_quaternion(), {}, 'INVALID_GOAL_CONSTRAINTS', 'norm 0'),
        (pose_goal(tool_down(1.5, 0, 0.3)), {}, 'NO_IK_SOLUTION', 'no joint solution'),
        (pose_goal(tool_down(0.5, 0, 0.1)), {}, 'INVALID_MOTION_PLAN', 'table'),
        (pose_goal(np.eye(4), frame='moon'), {}, 'FRAME_TRANSFORM_FAILURE', "'moon'"),
        (pose_goal(np.eye(4), link='nose'), {}, 'INVALID_LINK_NAME', "'nose'"),
        (Constraints(), {}, 'INVALID_GOAL_CONSTRAINTS', 'position constraint'),
        (joints(HOME), {'group_name': 'leg'}, 'INVALID_GROUP_NAME', "'leg'"),
        (joints(HOME), {'scaling': 1e-5}, 'INVALID_GOAL_CONSTRAINTS', '1e-05: must be 0'),
        (
            joints(HOME + [0, 0, 0, 0, 0, 3.14]),
            {'planner_id': 'JACOBIAN_TRANSPOSE'},
            'PLANNING_FAILED',
            'the 180-degree saddle',
        ),
        (
            pose_goal(tool_down(0.5, 0.1, 0.4)),
            {'planner_id': 'CIRC'},
            'INVALID_GOAL_CONSTRAINTS',
            'the name interim or center',
        ),
        (
            pose_goal(tool_down(0.5, 0.1, 0.4)),
            {'planner_id': 'CIRC', 'path_constraints': arc_point('center', [0.0, 0.0, 0.0])},
            'INVALID_GOAL_CONSTRAINTS',
            'from the centre (0.0000, 0.0000, 0.0000)',
        ),
        (joints(HOME), {'goal_constraints': []}, 'INVALID_GOAL_CONSTRAINTS', 'is empty'),
    ],
)
def test_a_bad_request_gets_its_code_and_a_reason_and_nothing_moves(
    client, goal, fields, code, message
):
    def ask():
        reply = client.plan(goal, **fields)
        assert reply.error_code.val == getattr(CODE, code), reply.error_code.message
        assert message in reply.error_code.message
        assert not reply.trajectory.joint_trajectory.points

    assert moved_by(client, ask, 0.1) < 1e-4


def test_a_box_bars_the_way_until_it_is_taken_away(client):
    goal = joints(HOME + [1.0, 0, 0, 0, 0, 0])
    boxes = client.boxes

    def code():
        return client.plan(goal).error_code

    boxes.publish(box('post', 0.35, 0.36, 0.3))
    client.until(lambda: code().val == CODE.INVALID_MOTION_PLAN, 'the box to bar the way')
    assert 'post' in code().message
    boxes.publish(box('post', 0, 0, 0, operation=CollisionObject.REMOVE))
    client.until(lambda: code().val == CODE.SUCCESS, 'the way to be free')
    message = box('post', 0, 0, 0)  # as pymoveit2 has it: the object has a pose, its box none
    message.pose, message.primitive_poses = box('post', 0.35, 0.36, 0.3).primitive_poses[0], []
    boxes.publish(message)
    client.until(lambda: code().val == CODE.INVALID_MOTION_PLAN, 'the box to bar the way again')
    message = CollisionObject(id='post', operation=CollisionObject.MOVE)
    message.header.frame_id, message.pose.position.z = 'base_link', 2.0
    boxes.publish(message)
    client.until(lambda: code().val == CODE.SUCCESS, 'the box to be moved away')
    message.pose = box('post', 0.35, 0.36, 0.3).primitive_poses[0]
    boxes.publish(message)
    client.until(lambda: code().val == CODE.INVALID_MOTION_PLAN, 'the box to be moved back')
    boxes.publish(box('post', 0, 0, 0, operation=CollisionObject.REMOVE))
    client.until(lambda: code().val == CODE.SUCCESS, 'the way to be free')


def test_what_is_attached_is_kept_off_the_table_until_it_is_taken_off(client):
    """
    A rod that reaches 0.55 m below the flange, for a goal 0.35 m above the table.

    To refuse a pose takes seconds, as all joints for it are tried. So that is done once; where the
    reason does not depend on the joints, those are asked for that the pose was given first.

    """
    goal = pose_goal(np.array([[1, 0, 0, 0.45], [0, -1, 0, 0], [0, 0, -1, 0.35], [0, 0, 0, 1.0]]))
    hand = client.hand

    def told(goal, is_awaited, what):
        """Ask until the answer is the one that is waited for; returns it."""
        codes = []
        client.until(
            lambda: codes.append(client.plan(goal).error_code) or is_awaited(codes[-1]), what
        )
        return codes[-1]

    rod = AttachedCollisionObject(link_name='tool0', object=box('rod', 0, 0, 0.3), weight=0.2)
    rod.object.header.frame_id = 'tool0'
    rod.object.primitives[0].dimensions = [0.02, 0.02, 0.5]
    planned = client.plan(goal)
    assert planned.error_code.val == CODE.SUCCESS
    same = joints(planned.trajectory.joint_trajectory.points[-1].positions)
    hand.publish(rod)
    refused = told(goal, lambda c: c.val == CODE.INVALID_MOTION_PLAN, 'the rod to be in the way')
    assert "attached object 'rod' is" in refused.message and 'table' in refused.message
    rod.object.primitives[0].dimensions = [0.02, 0.02, -0.5]  # malformed: nothing may move
    hand.publish(rod)
    told(same, lambda c: 'attached_collision_object was refused' in c.message, 'the refusal')
    rod.object.operation = CollisionObject.REMOVE
    hand.publish(rod)
    laid_down = "from object 'rod'", "inside object 'rod'"
    told(same, lambda c: any(w in c.message for w in laid_down), 'the rod to be let go')
    client.boxes.publish(CollisionObject(id='rod', operation=CollisionObject.REMOVE))
    told(same, lambda c: c.val == CODE.SUCCESS, 'the hand to be empty')
    assert client.plan(goal).error_code.val == CODE.SUCCESS


def test_an_unknown_planner_means_ptp(client):
    planned = client.plan(joints(HOME + 0.1), planner_id='RRTConnectkConfigDefault')
    assert planned.error_code.val == CODE.SUCCESS


def spoil_at_random(trajectory, rng):
    """Put garbage into one place of a trajectory; returns its new controller names."""
    motion = trajectory.joint_trajectory
    point = motion.points[rng.integers(len(motion.points))]
    values = getattr(point, ('positions', 'velocities', 'accelerations')[rng.integers(3)])
    match rng.integers(7):
        case 0:
            values[rng.integers(6)] = NUMBERS[rng.integers(3)]
        case 1:
            values[rng.integers(6)] += (-1e3, 1e3, 1e308)[rng.integers(3)]
        case 2:
            point.positions = point.positions[: int(rng.integers(6))]
        case 3:
            motion.joint_names[rng.integers(6)] = WORDS[rng.integers(len(WORDS))]
        case 4:
            motion.points = motion.points[::-1]
        case 5:
            motion.points = motion.points * 2
        case _:
            return [WORDS[rng.integers(1, len(WORDS))]]
    return []


def test_garbage_on_the_wire_gets_its_error_and_moves_nothing(client, rng):
    """Requests, trajectories, obstacles and events, some hundreds of them."""
    boxes = client.node.create_publisher(CollisionObject, 'collision_object', 10)
    events = client.node.create_publisher(String, 'trajectory_execution_event', 10)
    good = client.plan(joints(HOME + [0.5, 0, 0, 0, 0, 0])).trajectory

    def send():
        for i in range(240):
            request, code = spoilt(i, rng)
            if isinstance(request, GetMotionPlan.Request):
                reply = client.call(GetMotionPlan, 'plan_kinematic_path', request)
                reply = reply.motion_plan_response
            else:
                reply = client.call(GetCartesianPath, 'compute_cartesian_path', request)
            assert reply.error_code.val == code, reply.error_code.message
            boxes.publish(box('wall', *HOME[:3], size=NUMBERS[i % 3]))
            events.publish(String(data=WORDS[i % len(WORDS)]))
        for _ in range(60):
            trajectory = copy.deepcopy(good)
            names = spoil_at_random(trajectory, rng)
            status, code = client.end(client.start(trajectory, names))
            assert status == GoalStatus.STATUS_ABORTED
            assert code.val != CODE.SUCCESS and len(code.message) > 20

    assert moved_by(client, send) < 1e-4
    assert client.states[-1] == 'ready'
    assert "object 'wall' of collision_object was refused" in client.plan(
        joints(HOME + 0.1)
    ).error_code.message
    boxes.publish(CollisionObject(id='wall', operation=CollisionObject.REMOVE))
    client.until(
        lambda: client.plan(joints(HOME + 0.1)).error_code.val == CODE.SUCCESS, 'the wall to go'
    )
    client.go(HOME + 0.1)


def run_planner(*ros_args):
    main = 'from ur5_pick_place.nodes.trajectory_planner.node import main; main()'
    words = [sys.executable, '-c', main, '--ros-args', *ros_args]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ('override', 'message'),
    [
        ('max_sped:=0.2', "unknown parameter 'max_sped'; did you mean max_speed?"),
        pytest.param('max_speed:=250.0', 'max_speed', marks=pytest.mark.drill),
        pytest.param(
            'ur_type:=ur6', "ur_type = 'ur6': must be one of ur3, ur5", marks=pytest.mark.drill
        ),
        ('scene_file:=/nowhere.yaml', '/nowhere.yaml'),
    ],
)
def test_a_wrong_parameter_is_refused_at_the_start(ros_domain, override, message):
    node = run_planner('-r', '__ns:=/lonely', '-p', override)
    assert node.returncode == 2
    assert message in node.stderr


def test_a_line_in_the_tools_frame_begins_at_the_requests_start_state(client):
    """Not at the arm, which stands 1.3 rad beside; judged by the joints that would be sent."""
    start = HOME + [1.3, 0.1, -0.1, 0.0, 0.0, 0.5]
    step = np.eye(4)
    step[:3, 3] = [0.01, 0.02, 0.05]
    path = client.line(
        [matrix_to_pose(step)],
        frame='tool0',
        link_name='tool0',
        start_state=RobotState(joint_state=joint_state_msg(start, JOINT_NAMES)),
    )
    assert path.error_code.val == CODE.SUCCESS, path.error_code.message
    end = path.solution.joint_trajectory.points[-1].positions
    np.testing.assert_allclose(forward(MODEL, end), forward(MODEL, start) @ step, atol=1e-6)


@pytest.mark.parametrize('scaling', [2.0, math.nan, -1.0])
def test_a_scaling_beyond_1_is_full_speed(client, scaling):
    goal = joints(HOME + [0.3, 0, 0, 0, 0, 0])
    motions = [client.plan(goal, scaling=s).trajectory.joint_trajectory for s in (1.0, scaling)]
    full, found = (m.points[-1].time_from_start for m in motions)
    assert full == found


def test_the_fastest_of_several_goals_is_taken_and_joints_go_with_their_pose(client):
    near = HOME + [0.2, 0, 0, 0, 0, 0]
    goals = [joints(HOME + [1.5, 0, 0, 0, 0, 0]), joints(near)]
    planned = client.plan(goals[0], goal_constraints=goals)
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    np.testing.assert_allclose(planned.trajectory.joint_trajectory.points[-1].positions, near)
    both = pose_goal(tool_down(0.5, 0.15, 0.35))
    both.joint_constraints = wanted_joints(near)
    planned = client.plan(both)
    assert planned.error_code.val == CODE.GOAL_CONSTRAINTS_VIOLATED, planned.error_code.message
    assert 'keeps the joint constraints' in planned.error_code.message


@pytest.mark.drill
def test_a_planner_refuses_to_start_beside_another_server_of_move_action(client):
    server = ActionServer(client.node, MoveGroup, '/other/move_action', lambda _goal: None)
    node = run_planner('-r', '__ns:=/other', '--params-file', str(CONFIG / 'robot_sim.yaml'))
    server.destroy()
    assert node.returncode == 2, node.stderr
    assert '/other/move_action/_action/send_goal is already offered' in node.stderr
