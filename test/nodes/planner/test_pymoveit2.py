# SPDX-License-Identifier: Apache-2.0
"""Our nodes offer pymoveit2, unmodified, all that its class has."""

import threading

import numpy as np
import pace
import pytest
import rclpy
import trimesh
from cells import running_cell
from geometry_msgs.msg import TwistStamped
from planner_client import CODE, MODEL, T_BASE_LINK_BASE, PlannerClient, tool_down
from rclpy.executors import MultiThreadedExecutor
from std_srvs.srv import SetBool, Trigger

from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose, pose_to_matrix

pymoveit2 = pytest.importorskip('pymoveit2', reason='make bench installs it')

pytestmark = pytest.mark.nodes
AWAY = (HOME + [0.5, 0, 0, 0, 0, 0]).tolist()
BLOCKED = (HOME + [1.0, 0, 0, 0, 0, 0]).tolist()
GRIPPER = 'gripper_action_controller/gripper_command'
SERVO = ('delta_twist_cmds', 'delta_joint_cmds', 'pause_servo', 'switch_command_type')
IN_THE_WAY = (0.35, 0.36, 0.3)
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
SECONDS = pace.wall(30.0)


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    with running_cell(PlannerClient, ros_domain, tmp_path_factory.mktemp('cell')) as client:
        yield client


@pytest.fixture(scope='module')
def user(cell):
    """The arms and the gripper of a user; a thread spins the node, as pymoveit2 asks for."""
    node = rclpy.create_node('user', context=cell.node.context)
    ur = pymoveit2.robots.ur
    names = ur.joint_names(), ur.base_link_name(), ur.end_effector_name(), ur.MOVE_GROUP_ARM
    arms = {
        kind: pymoveit2.MoveIt2(node, *names, use_move_group_action=kind == 'move_action')
        for kind in ('services', 'move_action')
    }
    for arm in arms.values():
        arm.max_velocity = arm.max_acceleration = 1.0
    gripper = pymoveit2.GripperCommand(
        node, ['finger'], 0.035, 0.0, gripper_command_action_name=GRIPPER
    )
    remapped = [w for n in SERVO for w in ('-r', f'servo_node/{n}:=trajectory_planner/{n}')]
    jogging = rclpy.create_node(
        'jogging',
        context=cell.node.context,
        cli_args=['--ros-args', '-p', 'use_sim_time:=true', *remapped],
    )
    servo = pymoveit2.MoveIt2Servo(jogging, 'base_link', linear_speed=0.1, enable_at_init=False)
    executor = MultiThreadedExecutor(2, context=cell.node.context)
    executor.add_node(node)
    executor.add_node(jogging)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    yield {**arms, 'gripper': gripper, 'servo': servo}
    executor.shutdown()
    thread.join(10.0)
    node.destroy_node()
    jogging.destroy_node()


@pytest.fixture(params=['services', 'move_action'])
def arm(request, cell, user):
    """The arm at home in an empty scene, by planning and executing or by MoveGroup."""
    arm = user[request.param]
    empty(cell, arm)
    cell.go_home()
    yield arm
    arm.clear_goal_constraints()
    arm.clear_path_constraints()
    cell.processes.check()


def empty(cell, arm) -> None:
    cleared = arm.clear_all_collision_objects(SECONDS)
    cell.until(cleared.done, 'the answer of the scene')
    assert arm.process_clear_all_collision_objects_future(cleared)


def pose_of(q) -> np.ndarray:
    return T_BASE_LINK_BASE @ forward(MODEL, np.array(q))


def refusal(arm, **goal) -> str:
    """Return why there is no plan; pymoveit2 tells after an attempt to execute none."""
    assert not arm.execute(arm.plan(**goal))
    return arm.last_failure()


def arrives(cell, arm, goal, atol=2e-3) -> None:
    assert arm.wait_until_executed(SECONDS), arm.last_failure()
    assert arm.get_last_execution_error_code().val == CODE.SUCCESS
    np.testing.assert_allclose(pose_of(cell.look()), goal, atol=atol)


def test_it_moves_to_joints_to_poses_and_along_lines(cell, arm):
    assert arm.move_to_configuration(AWAY, timeout_sec=SECONDS)
    arrives(cell, arm, pose_of(AWAY))
    T = tool_down(0.4, 0.1, 0.35)
    assert arm.move_to_pose(matrix_to_pose(T), timeout_sec=SECONDS)
    arrives(cell, arm, T)
    T[2, 3] += 0.05
    assert arm.move_to_pose(matrix_to_pose(T), cartesian=True, timeout_sec=SECONDS)
    arrives(cell, arm, T)


def test_a_plan_is_executed_as_it_was_returned(cell, user):
    arm = user['services']
    empty(cell, arm)
    cell.go_home()
    arm.planner_id, arm.num_planning_attempts, arm.allowed_planning_time = 'PTP', 3, 1.0
    arm.set_workspace_parameters((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
    plan = arm.plan_async(joint_positions=AWAY)
    cell.until(plan.done, 'the plan')
    trajectory = arm.get_trajectory(plan)
    assert list(trajectory.joint_names) == list(JOINT_NAMES)
    assert arm.execute(trajectory)
    cell.until(lambda: arm.get_execution_future() is not None, 'the goal to be accepted')
    arrives(cell, arm, pose_of(AWAY))
    from_there = arm.plan(joint_positions=AWAY, start_joint_state=HOME.tolist())
    np.testing.assert_allclose(from_there.points[0].positions, HOME, atol=1e-6)
    assert arm.reset_controller(AWAY) and arm.wait_until_executed(SECONDS)


def test_goals_are_put_together_from_constraints(cell, user):
    arm = user['services']
    empty(cell, arm)
    cell.go_home()
    far, near = tool_down(0.4, 0.3, 0.3), tool_down(0.45, 0.0, 0.3)
    arm.set_pose_goal(matrix_to_pose(far))
    arm.create_new_goal_constraint()
    arm.set_pose_goal(matrix_to_pose(near))
    end = arm.plan().points[-1].positions
    assert min(np.abs(pose_of(end) - T).max() for T in (far, near)) < 2e-3
    arm.clear_goal_constraints()
    arm.set_joint_goal(AWAY, tolerance=0.01)
    np.testing.assert_allclose(arm.plan().points[-1].positions, AWAY, atol=0.011)
    quaternion = matrix_to_pose(tool_down(0, 0, 0)).orientation
    arm.set_path_orientation_constraint(quaternion, tolerance=0.1)
    arm.set_joint_goal(AWAY)
    assert 'path_constraints' in refusal(arm)
    arm.clear_path_constraints()
    assert arm.plan(joint_positions=AWAY) is not None


def test_it_computes_joints_and_poses(cell, user):
    arm = user['services']
    empty(cell, arm)
    tool, forearm = arm.compute_fk(AWAY, ['tool0', 'forearm_link'], timeout_sec=SECONDS)
    np.testing.assert_allclose(pose_to_matrix(tool.pose), pose_of(AWAY), atol=1e-6)
    assert forearm.header.frame_id == 'base_link'
    one = tool.pose
    found = arm.compute_ik(
        one.position, one.orientation, start_joint_state=AWAY, timeout_sec=SECONDS
    )
    np.testing.assert_allclose(found.position, AWAY, atol=1e-6)
    assert arm.compute_ik((5.0, 0.0, 0.0), UPRIGHT, timeout_sec=SECONDS) is None
    asked = arm.compute_fk_async()
    cell.until(asked.done, 'the pose')
    present = pose_to_matrix(arm.get_compute_fk_result(asked).pose)
    np.testing.assert_allclose(present, pose_of(cell.look()), atol=1e-3)


def test_a_cancel_or_a_stop_of_all_brakes_the_arm(cell, arm):
    for stop in (arm.cancel_execution, arm.stop_all_trajectory_execution):
        arm.max_velocity = 0.2
        assert arm.move_to_configuration(AWAY, timeout_sec=SECONDS)
        cell.until(lambda: np.abs(cell.look() - HOME).max() > 0.02, 'the arm to move')
        stop()
        assert not arm.wait_until_executed(SECONDS)
        cell.until(lambda: arm.query_state() == pymoveit2.MoveIt2State.IDLE, 'the end')
        assert np.abs(cell.look() - AWAY).max() > 0.05
        arm.max_velocity = 1.0
        cell.go_home()


@pytest.mark.parametrize('kind', ['box', 'sphere', 'cylinder', 'cone', 'mesh'])
def test_an_object_of_each_shape_is_in_the_scene_until_it_is_removed(cell, user, kind):
    arm = user['services']
    empty(cell, arm)
    cell.go_home()
    place = {'position': IN_THE_WAY, 'quat_xyzw': UPRIGHT}
    mesh = trimesh.creation.box((0.1, 0.1, 0.4))
    {
        'box': lambda: arm.add_collision_box(kind, (0.1, 0.1, 0.4), **place),
        'sphere': lambda: arm.add_collision_sphere(kind, 0.1, **place),
        'cylinder': lambda: arm.add_collision_cylinder(kind, 0.4, 0.06, **place),
        'cone': lambda: arm.add_collision_cone(kind, 0.4, 0.08, **place),
        'mesh': lambda: arm.add_collision_mesh(None, kind, mesh=mesh, **place),
    }[kind]()
    cell.until(lambda: ids(arm) == [kind], 'the object')
    arm.planner_id = 'PTP'
    assert kind in refusal(arm, joint_positions=BLOCKED)
    arm.move_collision(kind, (0.35, -0.5, 0.3), UPRIGHT)
    cell.until(lambda: arm.plan(joint_positions=BLOCKED) is not None, 'the way to be free')
    arm.remove_collision_object(kind)
    cell.until(lambda: ids(arm) == [], 'the scene to be empty')


def ids(arm) -> list[str]:
    assert arm.update_planning_scene(SECONDS)
    return [thing.id for thing in arm.planning_scene.world.collision_objects]


def test_objects_are_attached_and_detached_by_id(cell, user):
    arm = user['services']
    empty(cell, arm)
    cell.go_home()

    def held() -> list[str]:
        assert arm.update_planning_scene(SECONDS)
        return [t.object.id for t in arm.planning_scene.robot_state.attached_collision_objects]

    T = pose_of(HOME)
    for name, x in (('rod', 0.0), ('plate', 0.1)):
        at = (T @ [x, 0.0, 0.25, 1.0])[:3].tolist()
        arm.add_collision_box(name, (0.02, 0.02, 0.02), position=at, quat_xyzw=UPRIGHT)
    cell.until(lambda: len(ids(arm)) == 2, 'the objects')
    for name in ('rod', 'plate'):
        arm.attach_collision_object(name, weight=0.1)
    cell.until(lambda: sorted(held()) == ['plate', 'rod'], 'both to be held')
    assert ids(arm) == []
    arm.detach_collision_object('rod')
    cell.until(lambda: held() == ['plate'] and ids(arm) == ['rod'], 'one to be let go')
    arm.detach_all_collision_objects()
    cell.until(lambda: held() == [], 'all to be let go')


def test_allowing_collisions_is_refused_and_changes_nothing(cell, user):
    arm = user['services']
    empty(cell, arm)
    cell.go_home()
    arm.add_collision_box('post', (0.1, 0.1, 0.4), position=IN_THE_WAY, quat_xyzw=UPRIGHT)
    cell.until(lambda: ids(arm) == ['post'], 'the object')
    asked = arm.allow_collisions('post', True, SECONDS)
    cell.until(asked.done, 'the answer')
    assert not arm.process_allow_collision_future(asked)
    arm.planner_id = 'PTP'
    assert 'post' in refusal(arm, joint_positions=BLOCKED)
    empty(cell, arm)
    assert arm.plan(joint_positions=BLOCKED) is not None


def test_its_gripper_opens_and_closes(cell, user):
    gripper = user['gripper']

    def does(command) -> bool:
        return command() and gripper.wait_until_executed(SECONDS)

    assert cell.call(Trigger, 'pick_place/init_gripper').success
    cell.until(lambda: does(gripper.open), 'the gripper to be ready')
    assert does(gripper.close) and does(gripper.open), gripper.last_failure()


def test_its_servo_jogs_until_it_is_disabled(cell, user):
    servo = user['servo']
    empty(cell, user['services'])
    cell.go_home()
    assert servo.enable(SECONDS, sync=True)
    z, wrist = pose_of(cell.look())[2, 3], cell.look()[5]

    def rises() -> bool:
        servo.servo(linear=(0.0, 0.0, 1.0))
        return pose_of(cell.look())[2, 3] > z + 0.02

    def turns() -> bool:
        servo.servo_jog(('wrist_3_joint',), (0.3,))
        return abs(cell.look()[5] - wrist) > 0.1

    cell.until(rises, 'the TCP to rise')
    cell.until(turns, 'the wrist to turn')
    assert servo.disable(SECONDS, sync=True)
    cell.state('ready')
    before = cell.look()
    publisher = cell.node.create_publisher(TwistStamped, f'trajectory_planner/{SERVO[0]}', 1)
    command = TwistStamped()
    command.twist.linear.z = 0.1
    for _ in range(20):
        publisher.publish(command)
        cell.run(0.05)
    np.testing.assert_allclose(cell.look(), before, atol=1e-3)
    assert servo.enable(SECONDS, sync=True)
    z = pose_of(cell.look())[2, 3]
    cell.until(rises, 'the TCP to rise again')
    assert servo.shutdown(SECONDS)
    assert cell.call(SetBool, 'trajectory_planner/pause_servo').success
