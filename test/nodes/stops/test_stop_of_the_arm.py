# SPDX-License-Identifier: Apache-2.0
"""
A stop is about the arm: whoever moves it, whatever has died, frozen or been flooded.

Through real nodes and clients that are not ours, judged by the joints.
"""

import signal
import time

import numpy as np
import pace
import pytest
from cells import TURNED, execute, killable_cell
from driver_client import SCALED, goal, rest
from geometry_msgs.msg import Point, Pose
from moveit_msgs.msg import CollisionObject, Constraints, JointConstraint, MoveItErrorCodes
from moveit_msgs.srv import GetMotionPlan
from shape_msgs.msg import SolidPrimitive
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger
from task_client import TARGET, pose
from trajectory_msgs.msg import JointTrajectory

from ur5_pick_place.kinematics import HOME, JOINT_NAMES

pytestmark = pytest.mark.nodes

STOP_TIME = 0.5  # [s] on the wall; the braking comes on top
BRAKING = 0.6  # [s]
VELOCITY = 'forward_velocity_controller'
FREEDRIVE = 'freedrive_mode_controller'


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    with killable_cell(ros_domain, tmp_path_factory.mktemp('cell'), peer_timeout=2.0) as cell:
        cell.client.do('teach_home')
        yield cell


@pytest.fixture(autouse=True)
def at_home(cell):
    """Every test finds the arm at home and the cell ready."""
    client = cell.client
    client.look()
    if client.states[-1].startswith('stopped') or cell.planner != 'ready':
        cell.rearm()
    if np.abs(client.look() - HOME).max() > 1e-3:
        client.job('go_home')


def test_a_foreign_goal_is_stopped_and_latched_as_foreign_motion(cell):
    client = cell.client
    handle = client.send(goal(rest(TURNED, 8.0)))
    assert cell.time_to_rest(STOP_TIME + BRAKING) < STOP_TIME + BRAKING
    assert client.result(handle)[0] == 'canceled'
    client.until(lambda: cell.planner.startswith('stopped: foreign motion'), 'the latch')
    cell.stays_at_rest(1.0)


def test_a_foreign_stream_on_the_topic_is_noticed_by_the_joints_and_ended(cell):
    client = cell.client
    stream = client.node.create_publisher(JointTrajectory, f'{SCALED}/joint_trajectory', 10)
    client.until(stream.get_subscription_count, 'the controller to listen')
    while np.abs(client.q - HOME).max() < 5e-3:  # the controller may miss a message
        stream.publish(goal(rest(TURNED, 8.0)).trajectory)
        client.run(0.1)
    client.until(lambda: cell.planner.startswith('stopped: foreign motion'), 'the latch')
    cell.time_to_rest(STOP_TIME + BRAKING)
    assert np.abs(client.q - TURNED).max() > 0.5
    cell.stays_at_rest(1.0)


@pytest.mark.drill
def test_without_the_planner_a_stream_on_the_topic_is_stopped_and_its_successor_stays_stopped(
    cell,
):
    client = cell.client
    stream = client.node.create_publisher(JointTrajectory, f'{SCALED}/joint_trajectory', 10)
    client.until(stream.get_subscription_count, 'the controller to listen')
    cell.kill('trajectory_planner')
    client.until(lambda: client.states[-1].startswith('stopped: the planner node'), 'the stop')
    time.sleep(2.5)  # until the task node no longer watches for goals in transit
    while np.abs(client.look() - HOME).max() < 5e-3:
        stream.publish(goal(rest(TURNED, 8.0)).trajectory)
        client.run(0.1)
    client.do('stop')
    cell.time_to_rest(STOP_TIME + BRAKING)
    assert np.abs(client.q - TURNED).max() > 0.5
    cell.start('trajectory_planner')
    client.until(lambda: cell.planner == 'stopped: stop requested', 'the latch', 20.0)
    client.run(2.0)
    assert cell.planner == 'stopped: stop requested'
    cell.stays_at_rest(0.5)


def test_poses_that_pour_in_do_not_delay_a_stop(cell):
    client = cell.client
    for _ in range(25):
        client.poses['target'].publish(pose(*TARGET))
    client.run(0.05)
    begin = time.monotonic()
    client.do('stop')
    assert time.monotonic() - begin < pace.wall(0.1)
    client.until(
        lambda: any(e.get('place') == 'target' for e in client.events[-30:]), 'the poses'
    )


def test_another_controller_that_moves_the_arm_is_switched_off(cell):
    client = cell.client
    commands = client.node.create_publisher(Float64MultiArray, f'{VELOCITY}/commands', 10)
    assert client.switch(on=[VELOCITY], off=[SCALED]).ok
    client.until(commands.get_subscription_count, 'the controller to listen')
    commands.publish(Float64MultiArray(data=[0.1, 0.0, 0.0, 0.0, 0.0, 0.0]))
    client.until(lambda: cell.planner.startswith('stopped: foreign motion'), 'the latch')
    cell.time_to_rest(2.5)
    cell.stays_at_rest(1.0)


@pytest.mark.drill
def test_a_place_is_taught_from_joints_that_come_late_and_refused_without(cell):
    client = cell.client
    with cell.frozen('sim_driver'):
        time.sleep(0.5)
        asked = client.call_later(Trigger, 'pick_place/teach_home')
        time.sleep(0.2)
        assert not asked.done()
    assert client.wait(asked, 'the answer').success
    with cell.frozen('sim_driver'):
        time.sleep(0.5)
        refused = client.ask('teach_home')
    assert not refused.success and 'no joint_states for' in refused.message


@pytest.mark.parametrize(
    ('names', 'number'),
    [
        (['trajectory_planner'], signal.SIGINT),
        pytest.param(
            ['trajectory_planner', 'pick_place'], signal.SIGINT, marks=pytest.mark.drill
        ),
        pytest.param(
            ['trajectory_planner', 'pick_place'], signal.SIGHUP, marks=pytest.mark.drill
        ),
    ],
    ids=str,
)
def test_nodes_that_a_terminal_ends_let_the_arm_brake_along_its_path_first(cell, names, number):
    client, sent = cell.client, []
    client.hear(JointTrajectory, 'trajectory_planner/sent_goal', sent.append)
    execute(cell)
    begin = time.monotonic()
    for name in names:
        cell.signal(name, number)
    cell.time_to_rest(STOP_TIME + BRAKING)
    assert np.abs(client.q - TURNED).max() > 0.1, 'it was stopped on its way'
    assert np.abs(client.q - HOME)[1:].max() < 5e-3, 'and on its path'
    braking = sent[-1].points[-1].time_from_start
    assert braking.sec < 2, 'the last goal is the one that brakes'
    assert [cell.ended(name) for name in names] == [0] * len(names)
    assert time.monotonic() - begin < pace.wall(4.0)
    for name in names:
        cell.start(name)
    cell.rearm()


@pytest.mark.drill
def test_both_nodes_restarted_find_the_goal_that_outlived_its_sender(cell):
    client = cell.client
    cell.kill('trajectory_planner', 'pick_place')
    client.send(goal(rest(TURNED, 25.0)))  # for both to start on a slow PC
    client.until(lambda: np.abs(client.qd).max() > 0.05, 'the arm to move')
    cell.start('trajectory_planner')
    cell.start('pick_place')
    client.until(lambda: cell.planner.startswith('stopped: foreign motion'), 'the planner', 20.0)
    cell.time_to_rest(BRAKING)
    assert np.abs(client.q - TURNED).max() > 0.1, 'it was stopped on its way'
    cell.rearm()
    assert cell.planner == 'ready'


def test_a_stop_while_the_planner_hangs_is_not_later_for_it(cell):
    client = cell.client
    execute(cell)
    with cell.frozen('trajectory_planner'):
        client.do('stop')
        assert cell.time_to_rest(STOP_TIME + BRAKING) < STOP_TIME + BRAKING
    cell.rearm()


def ring_of_posts():
    """Put posts all around the arm: the way to its other side is long to search for."""
    posts = CollisionObject(id='posts', operation=CollisionObject.ADD)
    posts.header.frame_id = 'base_link'
    for angle in np.r_[np.arange(0.9, 2.0, 0.1), np.arange(-2.0, -0.9, 0.1)]:
        posts.primitives.append(SolidPrimitive(type=1, dimensions=[0.02, 0.02, 2.0]))
        place = Point(x=0.35 * np.cos(angle), y=0.35 * np.sin(angle), z=0.9)
        posts.primitive_poses.append(Pose(position=place))
    return posts


@pytest.mark.parametrize('who', ['pick_place', 'trajectory_planner'])
def test_a_stop_ends_the_search_for_a_way_round_and_the_motion_meanwhile(cell, who):
    client = cell.client
    scene = client.node.create_publisher(CollisionObject, 'collision_object', 10)
    client.until(scene.get_subscription_count, 'the planner to listen')
    posts = ring_of_posts()
    scene.publish(posts)
    client.run(0.3)
    turned = client.look() + [0, 0, 0, 0, 0, 1.5]
    action = execute(cell, turned)
    request = GetMotionPlan.Request()
    request.motion_plan_request.allowed_planning_time = 60.0
    beyond = [
        JointConstraint(joint_name=name, position=float(q), weight=1.0)
        for name, q in zip(JOINT_NAMES, client.look() + [3.0, 0, 0, 0, 0, 0], strict=True)
    ]
    request.motion_plan_request.goal_constraints = [Constraints(joint_constraints=beyond)]
    service = client.node.create_client(GetMotionPlan, 'plan_kinematic_path')
    replies = [service.call_async(request) for _ in range(2)]  # the second one waits for its turn
    client.run(0.15)
    assert not any(reply.done() for reply in replies), 'the search is still going on'
    assert client.call(Trigger, f'{who}/stop').success
    cell.time_to_rest(STOP_TIME + BRAKING)
    assert np.abs(client.q - turned).max() > 0.5, 'it was stopped on its way'
    client.until(lambda: all(reply.done() for reply in replies), 'the search to end', 3.0)
    codes = {reply.result().motion_plan_response.error_code.val for reply in replies}
    assert codes == {MoveItErrorCodes.PREEMPTED}
    client.until(lambda: cell.planner.startswith('stopped'), 'the latch')
    posts.operation = CollisionObject.REMOVE
    scene.publish(posts)
    action.destroy()


@pytest.mark.drill
def test_freedrive_of_another_client_is_no_foreign_motion_and_a_stop_ends_it(cell):
    """The part, which freedrive does not know of, pulls the arm down."""
    client = cell.client
    cell.carry()
    client.do('stop')
    cell.time_to_rest(STOP_TIME + BRAKING)
    cell.rearm()
    enable = client.node.create_publisher(Bool, f'{FREEDRIVE}/enable_freedrive_mode', 10)
    before = client.look()
    client.switch(on=[FREEDRIVE], off=[SCALED])
    while np.abs(client.look() - before).max() < 0.03:
        enable.publish(Bool(data=True))
        client.run(0.1)
    assert cell.planner == 'ready' and client.states[-1] == 'freedrive'
    refusal = client.ask('go_home')
    assert not refusal.success and 'freedrive' in refusal.message
    assert client.call(Trigger, 'trajectory_planner/stop').success
    cell.time_to_rest(STOP_TIME + BRAKING)
    cell.stays_at_rest(1.0)
    assert SCALED in client.active_controllers()
    cell.recover()
