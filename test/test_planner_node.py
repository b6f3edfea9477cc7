# SPDX-License-Identifier: Apache-2.0
"""
The planner node against the simulated driver, through real rclpy clients.

Every request gets the code that it deserves, nothing moves that was not checked, and a stop holds
until it is rearmed.

"""

import copy
import math
import re
import subprocess
import sys

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')

from action_msgs.msg import GoalStatus  # noqa: E402
from cells import CONFIG  # noqa: E402
from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from geometry_msgs.msg import Pose  # noqa: E402
from ik_garbage import NUMBERS, WORDS  # noqa: E402
from moveit_client import wanted_joints, wanted_pose  # noqa: E402
from moveit_msgs.action import MoveGroup  # noqa: E402
from moveit_msgs.msg import (  # noqa: E402
    AttachedCollisionObject,
    CollisionObject,
    Constraints,
    PlanningScene,
    PositionConstraint,
    RobotState,
)
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan  # noqa: E402
from plan_garbage import spoilt  # noqa: E402
from planner_client import (  # noqa: E402
    CODE,
    MODEL,
    T_BASE_LINK_BASE,
    box,
    joints,
    moved_by,
    pose_goal,
    tool_down,
)
from rclpy.action import ActionServer  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from std_srvs.srv import SetBool, Trigger  # noqa: E402
from ur_msgs.srv import SetSpeedSliderFraction  # noqa: E402

from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward  # noqa: E402
from ur5_pick_place.nodes.conversions import joint_state_msg, matrix_to_pose  # noqa: E402

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
    assert re.search(r'at pose \d+ of \d+.*too far.*by', path.error_code.message)


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


def run_move_to(*words):
    main = 'from ur5_pick_place.commands.move_to import main; main()'
    command = [sys.executable, '-c', main, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_move_to_goes_there_and_reports_measured_minus_commanded(client):
    run = run_move_to('0.45', '-0.1', '0.2', '-30', '--scaling', '0.5')
    assert run.returncode == 0, run.stderr
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    np.testing.assert_allclose(T[:3, 3], [0.45, -0.1, 0.345], atol=2e-3)
    assert re.search(r'TCP at \(0\.45000, -0\.10000, 0\.20000\) m, yaw -30\.000 deg', run.stdout)
    miss = re.search(r'measured minus commanded: .*mm, ([\d.]+) mm and ([\d.]+) deg', run.stdout)
    assert miss and float(miss[1]) < 2.0 and float(miss[2]) < 0.5


@pytest.mark.parametrize(
    ('words', 'code', 'message'),
    [
        (('1.5', '0', '0.2', '0'), 1, 'no joint solution'),
        (('nan', '0', '0.2', '0'), 2, 'X = nan: must be a finite number'),
        (('0.4', '0', '0.2', 'left'), 2, 'invalid float value'),
    ],
)
def test_move_to_refuses_what_cannot_be_and_does_not_move(client, words, code, message):
    def ask():
        run = run_move_to(*words)
        assert (run.returncode, message in run.stderr) == (code, True), run.stderr

    assert moved_by(client, ask) < 1e-4


def test_an_unknown_planner_means_ptp(client):
    planned = client.plan(joints(HOME + 0.1), planner_id='RRTConnectkConfigDefault')
    assert planned.error_code.val == CODE.SUCCESS


def spoil(name, trajectory):
    points = trajectory.joint_trajectory.points
    if name == 'nan':
        points[3].positions[1] = math.nan
    elif name == 'twice':
        trajectory.joint_trajectory.joint_names[0] = JOINT_NAMES[1]
    elif name == 'fast':
        for point in points:
            nanoseconds = point.time_from_start.sec * 10**9 + point.time_from_start.nanosec
            point.time_from_start.sec, point.time_from_start.nanosec = divmod(
                nanoseconds // 3, 10**9
            )
    elif name == 'elsewhere':
        for point in points:
            point.positions[0] += 0.05
    elif name == 'positions only':
        for point in points:
            point.velocities = point.accelerations = []
    elif name == 'empty':
        trajectory.joint_trajectory.points = []
    elif name == 'efforts':
        points[3].effort = [1.0] * 6
    elif name == 'later':
        trajectory.joint_trajectory.header.stamp.sec = 2**31 - 1


@pytest.mark.parametrize(
    ('what', 'message'),
    [
        ('nan', r'q\[3, 1\] = nan'),
        ('twice', 'named twice: shoulder_lift_joint'),
        ('fast', 'limit'),
        ('elsewhere', 'rad from the arm at shoulder_pan_joint'),
        ('positions only', 'has 0 velocities'),
        ('empty', '0 points'),
        ('efforts', 'point 3 has 6 efforts'),
        ('later', 's from now: a motion begins at once'),
    ],
)
def test_a_spoilt_trajectory_is_not_executed(client, what, message):
    trajectory = client.plan(joints(HOME + [0.5, 0, 0, 0, 0, 0])).trajectory
    spoil(what, trajectory)

    def ask():
        status, code = client.end(client.start(trajectory))
        assert status == GoalStatus.STATUS_ABORTED
        assert re.search(message, code.message)

    assert moved_by(client, ask) < 1e-4
    assert client.states[-1] == 'ready'


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


def test_a_cancel_brakes_on_the_path_and_leaves_the_planner_ready(client):
    handle = client.set_off()
    client.wait(handle.cancel_goal_async(), 'the answer to a cancel')
    status, code = client.end(handle)
    assert (status, code.val) == (GoalStatus.STATUS_CANCELED, CODE.PREEMPTED)
    client.run(0.3)
    assert 0.05 < client.q[0] < 1.9
    np.testing.assert_allclose(client.q[1:], HOME[1:], atol=1e-3)
    assert np.abs(client.qd).max() < 1e-3
    client.state('ready')


def test_braking_keeps_the_acceleration_within_the_limit(client):
    handle = client.set_off()
    first = len(client.joints)
    handle.cancel_goal_async()
    client.end(handle)
    heard = client.joints[first:]
    pan = np.array([m.velocity[m.name.index(JOINT_NAMES[0])] for m in heard])
    t = np.array([m.header.stamp.sec + m.header.stamp.nanosec * 1e-9 for m in heard])
    assert pan[0] > 0.3 > pan[-1]
    deceleration = -np.diff(pan) / np.diff(t)
    assert deceleration.max() < 12.0  # limit 10; an unbraked cancel gives several times that


def test_ten_seconds_at_the_slowest_slider_are_a_wait_and_the_line_is_kept(client):
    """At half speed, then ten seconds at the least that the driver takes, then at full."""

    def slide(fraction):
        name = 'io_and_status_controller/set_speed_slider'
        assert client.call(SetSpeedSliderFraction, name, speed_slider_fraction=fraction).success

    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    start = T[:3, 3].copy()
    T[:3, 3] += [0.05, 0.25, -0.05]
    path = client.line([matrix_to_pose(T)], max_velocity_scaling_factor=0.3)
    first = len(client.joints)
    slide(0.5)
    try:
        handle = client.start(path.solution)
        client.run(0.5)
        slide(0.01)
        client.run(10.0)
        assert client.states[-1] == 'moving'
    finally:
        slide(1.0)
    assert client.end(handle)[1].val == CODE.SUCCESS
    client.look()  # it has arrived within the tolerance, and settles
    names = client.joints[-1].name
    order = [names.index(name) for name in JOINT_NAMES]
    q = np.array([m.position for m in client.joints[first:]])[:, order]
    p = (T_BASE_LINK_BASE @ forward(MODEL, q))[:, :3, 3]
    way = (T[:3, 3] - start) / np.linalg.norm(T[:3, 3] - start)
    assert np.linalg.norm(np.cross(p - start, way), axis=1).max() < 1e-3
    np.testing.assert_allclose(p[-1], T[:3, 3], atol=1e-3)


def test_the_event_stop_ends_a_motion_as_a_cancel_does(client):
    handle = client.set_off()
    client.event.publish(String(data='stop'))
    _, code = client.end(handle)
    assert code.val == CODE.PREEMPTED and 'trajectory_execution_event' in code.message
    client.state('ready')


def test_a_requested_stop_is_latched_until_rearmed(client):
    handle = client.set_off()
    assert client.trigger('stop').success
    _, code = client.end(handle)
    assert code.val == CODE.CONTROL_FAILED and 'stop requested' in code.message
    client.state('stopped: stop requested')
    trajectory = client.plan(joints(HOME)).trajectory

    def try_to_move():
        _, code = client.end(client.start(trajectory))
        assert 'stop requested' in code.message and 'rearm' in code.message

    client.run(0.3)
    assert moved_by(client, try_to_move) < 1e-4
    assert client.trigger('rearm').success
    client.go(HOME)


def test_a_protective_stop_cancels_latches_and_resumes_nothing(client):
    handle = client.set_off()
    client.call(Trigger, 'sim_driver/protective_stop')
    _, code = client.end(handle)
    assert 'protective stop' in code.message
    client.state('stopped: protective stop')
    client.run(0.3)  # the arm ends its way within the servo lag
    refusal = client.trigger('rearm')
    assert not refusal.success and 'the cause persists: protective stop' in refusal.message

    def recover():
        client.run(5.5)  # the robot keeps it locked for 5 s
        assert client.dashboard('close_safety_popup').success
        assert client.dashboard('unlock_protective_stop').success
        assert client.dashboard('play').success
        client.run(1.0)

    assert moved_by(client, recover) < 2e-3
    client.until(lambda: client.trigger('rearm').success, 'the planner to be rearmed')
    client.go(HOME)


def test_joints_of_another_device_neither_stop_the_arm_nor_count_as_heard(client):
    gripper = JointState(name=['finger_joint'], position=[0.4])
    publisher = client.node.create_publisher(JointState, 'joint_states', 10)
    timer = client.node.create_timer(0.01, lambda: publisher.publish(gripper))
    try:
        client.go(HOME + [0.3, 0, 0, 0, 0, 0])
        client.go(HOME)
        client.set_off()
        client.call(SetBool, 'sim_driver/faults/joint_states_dropped', data=True)
        client.state('stopped: joint_states silent')
        client.call(SetBool, 'sim_driver/faults/joint_states_dropped', data=False)
        client.until(lambda: client.trigger('rearm').success, 'the planner to be rearmed')
    finally:
        client.node.destroy_timer(timer)
        client.node.destroy_publisher(publisher)


def test_a_message_with_some_joints_of_the_arm_stops_it_and_says_why(client):
    some = JointState(name=[*JOINT_NAMES[:3], 'finger_joint'], position=[0.0] * 4)
    publisher = client.node.create_publisher(JointState, 'joint_states', 10)
    client.set_off()
    client.until(publisher.get_subscription_count, 'joint_states to be heard')
    publisher.publish(some)
    client.state('stopped: impossible joint_states: joint state has no position of wrist_1_joint')
    assert 'what else publishes joints of this arm' in client.states[-1]
    client.node.destroy_publisher(publisher)
    client.until(lambda: client.trigger('rearm').success, 'the planner to be rearmed')


def test_names_from_outside_forge_no_line_of_the_log_and_fill_none(client):
    forged = '\n[INFO] [0.0] [trajectory_planner]: FORGED \x1b[31m\u202e' + 'x' * 1_000_000
    reply = client.plan(joints(HOME + 0.01), planner_id=forged)
    assert reply.error_code.val == CODE.SUCCESS
    reply = client.plan(joints(HOME), group_name=forged)
    assert reply.error_code.val == CODE.INVALID_GROUP_NAME
    assert len(reply.error_code.message) < 5000 and reply.error_code.message.isprintable()
    client.event.publish(String(data=forged))
    client.boxes.publish(CollisionObject(id=forged, operation=b'\x07'))
    client.until(lambda: client.processes.log().count('FORGED') >= 3, 'the log')
    lines = client.processes.log().splitlines()
    assert not [line for line in lines if 'FORGED' in line and line.startswith('[INFO] [0.0]')]
    assert max(map(len, lines)) < 5000
    assert '\x1b' not in client.processes.log()
    client.boxes.publish(CollisionObject(operation=CollisionObject.REMOVE))
    client.until(lambda: client.plan(joints(HOME)).error_code.val == CODE.SUCCESS, 'the end of it')


def test_a_stopped_program_is_a_fault_with_its_cure(client):
    handle = client.set_off()
    client.dashboard('stop')
    _, code = client.end(handle)
    assert code.val == CODE.CONTROL_FAILED
    client.state('stopped: ')
    assert client.call(Trigger, 'io_and_status_controller/resend_robot_program').success
    client.until(lambda: client.trigger('rearm').success, 'the planner to be rearmed')
    client.go(HOME)


def run_planner(*ros_args):
    main = 'from ur5_pick_place.nodes.trajectory_planner import main; main()'
    words = [sys.executable, '-c', main, '--ros-args', *ros_args]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ('override', 'message'),
    [
        ('max_sped:=0.2', "unknown parameter 'max_sped'; did you mean max_speed?"),
        ('max_speed:=250.0', 'max_speed'),
        ('ur_type:=ur6', "ur_type = 'ur6': must be one of ur3, ur5"),
        ('scene_file:=/nowhere.yaml', '/nowhere.yaml'),
    ],
)
def test_a_wrong_parameter_is_refused_at_the_start(ros_domain, override, message):
    node = run_planner('-r', '__ns:=/lonely', '-p', override)
    assert node.returncode == 2
    assert message in node.stderr


def test_diagnostics_tell_the_state_and_how_evenly_the_joints_come(client):
    heard = client.collect(DiagnosticArray, 'diagnostics', 10)
    client.until(
        lambda: any(s.values[1:] for m in heard for s in m.status if 'planner' in s.name),
        'figures in /diagnostics',
    )
    status = next(s for m in heard for s in m.status if 'planner' in s.name and s.values[1:])
    values = {v.key: v.value for v in status.values}
    assert values['state'] == 'ready'
    assert 2.0 < float(values['tick p50 [ms]']) < 50.0
    assert float(values['tick worst [ms]']) >= float(values['tick p99 [ms]'])


# ---- what a MoveIt client sends


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


def test_move_action_plans_executes_and_tells_what_it_did(client):
    first = len(client.joints)
    T = tool_down(0.45, 0.15, 0.4)
    position, orientation = wanted_pose(T)
    goal = Constraints(position_constraints=[position], orientation_constraints=[orientation])
    status, result = client.move_group.end(client.move_group.start(goal))
    assert (status, result.error_code.val) == (GoalStatus.STATUS_SUCCEEDED, CODE.SUCCESS)
    found = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    np.testing.assert_allclose(found, T, atol=2e-3)
    assert 0.0 < result.planning_time < 5.0
    assert set(client.move_group.states) <= {'PLANNING', 'MONITOR', 'IDLE'}
    assert 'MONITOR' in client.move_group.states
    np.testing.assert_allclose(result.trajectory_start.joint_state.position, HOME, atol=2e-3)
    planned = result.planned_trajectory.joint_trajectory
    end = T_BASE_LINK_BASE @ forward(MODEL, planned.points[-1].positions)
    np.testing.assert_allclose(end, T, atol=1e-9)
    trace = result.executed_trajectory.joint_trajectory
    assert list(trace.joint_names) == list(JOINT_NAMES) and len(trace.points) > 5
    heard = {tuple(by_name(m)) for m in client.joints[first:]}
    assert heard & {tuple(p.positions) for p in trace.points}  # as measured
    np.testing.assert_allclose(trace.points[-1].positions, client.q, atol=3e-3)


def by_name(message):
    return [message.position[list(message.name).index(name)] for name in JOINT_NAMES]


def test_move_action_may_only_plan(client):
    goal = Constraints(joint_constraints=wanted_joints(HOME + [0.5, 0, 0, 0, 0, 0]))

    def ask():
        status, result = client.move_group.end(client.move_group.start(goal, plan_only=True))
        assert (status, result.error_code.val) == (GoalStatus.STATUS_SUCCEEDED, CODE.SUCCESS)
        assert result.planned_trajectory.joint_trajectory.points
        assert not result.executed_trajectory.joint_trajectory.points

    assert moved_by(client, ask) < 1e-4


def a_scene():
    scene = PlanningScene(is_diff=True)
    scene.world.collision_objects = [box('post', 0.35, 0.36, 0.3)]
    return scene


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        ({'planning_scene_diff': a_scene()}, 'planning_scene_diff holds world: leave it empty'),
        ({'look_around': True}, 'look_around is not supported'),
        ({'replan': True}, 'replan is not supported'),
    ],
)
def test_move_action_refuses_options_that_it_cannot_honour(client, options, words):
    goal = Constraints(joint_constraints=wanted_joints(HOME + [0.5, 0, 0, 0, 0, 0]))

    def ask():
        status, result = client.move_group.end(client.move_group.start(goal, **options))
        assert status == GoalStatus.STATUS_ABORTED
        assert result.error_code.val == CODE.INVALID_GOAL_CONSTRAINTS
        assert words in result.error_code.message

    assert moved_by(client, ask, 0.2) < 1e-4


def move_off(client):
    """Start a long turn of the shoulder by move_action; returns its handle once the arm moves."""
    goal = Constraints(joint_constraints=wanted_joints(HOME + [2.0, 0, 0, 0, 0, 0]))
    handle = client.move_group.start(goal, scaling=0.4)
    result = handle.get_result_async()
    client.until(lambda: result.done() or client.qd[0] > 0.3, 'the arm to move')
    assert not result.done(), result.result().result.error_code.message
    return handle


def test_a_cancel_of_move_action_brakes_and_a_second_motion_is_refused(client):
    handle = move_off(client)
    back = Constraints(joint_constraints=wanted_joints(HOME))
    status, result = client.move_group.end(client.move_group.start(back))
    assert (status, result.error_code.val) == (GoalStatus.STATUS_ABORTED, CODE.CONTROL_FAILED)
    assert 'another motion of move_action is under way' in result.error_code.message
    status, code = client.end(client.start(client.plan(joints(HOME)).trajectory))
    assert (status, code.val) == (GoalStatus.STATUS_ABORTED, CODE.CONTROL_FAILED)
    assert client.qd[0] > 0.3  # neither disturbed the first
    client.wait(handle.cancel_goal_async(), 'the answer to a cancel')
    status, result = client.move_group.end(handle)
    assert (status, result.error_code.val) == (GoalStatus.STATUS_CANCELED, CODE.PREEMPTED)
    client.run(0.3)
    assert 0.05 < client.q[0] < 1.9 and np.abs(client.qd).max() < 1e-3
    client.state('ready')


def test_a_requested_stop_ends_a_motion_of_move_action_and_is_latched(client):
    handle = move_off(client)
    assert client.trigger('stop').success
    status, result = client.move_group.end(handle)
    assert (status, result.error_code.val) == (GoalStatus.STATUS_ABORTED, CODE.CONTROL_FAILED)
    client.state('stopped: stop requested')
    client.run(0.3)
    goal = Constraints(joint_constraints=wanted_joints(HOME))

    def try_to_move():
        _, result = client.move_group.end(client.move_group.start(goal))
        assert 'call ~/rearm' in result.error_code.message

    assert moved_by(client, try_to_move) < 1e-4


def test_a_motion_of_too_many_points_is_refused_before_it_is_looked_at(client):
    trajectory = client.plan(joints(HOME + [0.5, 0, 0, 0, 0, 0])).trajectory
    trajectory.joint_trajectory.points = [trajectory.joint_trajectory.points[0]] * 20001
    status, code = client.end(client.start(trajectory))
    assert status == GoalStatus.STATUS_ABORTED
    assert 'trajectory has 20001 points: must be 1 to 20000' in code.message


def test_a_planner_refuses_to_start_beside_another_server_of_move_action(client):
    server = ActionServer(client.node, MoveGroup, '/other/move_action', lambda _goal: None)
    node = run_planner('-r', '__ns:=/other', '--params-file', str(CONFIG / 'robot_sim.yaml'))
    server.destroy()
    assert node.returncode == 2, node.stderr
    assert '/other/move_action/_action/send_goal is already offered' in node.stderr
