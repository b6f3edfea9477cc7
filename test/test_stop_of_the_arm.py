# SPDX-License-Identifier: Apache-2.0
"""
A stop is about the arm: whoever moves it, whatever has died, frozen or been flooded.

Through real nodes and clients that are not ours, judged by the joints.

"""

import signal
import time

import numpy as np
import pytest

pytest.importorskip('rclpy')

from cells import nodes_cell
from driver_client import SCALED, goal, rest
from moveit_msgs.action import ExecuteTrajectory
from moveit_msgs.msg import PlanningSceneComponents
from moveit_msgs.srv import GetPlanningScene
from rclpy.action import ActionClient
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from task_client import TARGET
from trajectory_msgs.msg import JointTrajectory

from ur5_pick_place.kinematics import HOME

pytestmark = pytest.mark.nodes

TURNED = HOME + [1.0, 0, 0, 0, 0, 0]
STOP_TIME = 0.5  # [s] on the wall; the braking comes on top
BRAKING = 0.6  # [s]
VELOCITY = 'forward_velocity_controller'


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    with nodes_cell(ros_domain, tmp_path_factory.mktemp('cell'), peer_timeout=1.0) as cell:
        yield cell


@pytest.fixture(autouse=True)
def at_home(cell):
    """Every test finds the arm at home and the cell ready."""
    client = cell.client
    client.look()
    if client.states[-1].startswith('stopped') or cell.planner != 'ready':
        cell.rearm()
    if np.abs(client.look() - HOME).max() > 1e-3:
        client.do('teach_home') if not client.events else None
        client.job('go_home')


def set_off(cell, q=TURNED, seconds=8.0):
    """Let a foreign client move the arm; returns its goal's handle once the arm moves."""
    handle = cell.client.send(goal(rest(q, seconds)))
    cell.client.until(lambda: np.abs(cell.client.qd).max() > 0.05, 'the arm to move')
    return handle


def ask_planner(cell, name):
    return cell.client.call(Trigger, f'trajectory_planner/{name}')


def test_a_foreign_goal_is_stopped_and_latched_as_foreign_motion(cell):
    client = cell.client
    client.do('teach_home')
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


def test_another_controller_that_moves_the_arm_is_switched_off(cell):
    client = cell.client
    commands = client.node.create_publisher(Float64MultiArray, f'{VELOCITY}/commands', 10)
    assert client.switch(on=[VELOCITY], off=[SCALED]).ok
    client.until(commands.get_subscription_count, 'the controller to listen')
    commands.publish(Float64MultiArray(data=[0.1, 0.0, 0.0, 0.0, 0.0, 0.0]))
    client.until(lambda: cell.planner.startswith('stopped: foreign motion'), 'the latch')
    cell.time_to_rest(2.5)
    cell.stays_at_rest(1.0)


def test_nothing_is_taught_or_rearmed_while_somebody_else_moves_the_arm(cell):
    client = cell.client
    with cell.frozen('trajectory_planner'):
        handle = set_off(cell, seconds=3.0)
        taught = client.ask('teach_home')
        assert not taught.success and 'the arm is moving' in taught.message
    del handle
    cell.time_to_rest(5.0)


def test_both_nodes_restarted_find_the_goal_that_outlived_its_sender(cell):
    client = cell.client
    cell.kill('trajectory_planner', 'pick_place')
    set_off(cell, seconds=16.0)
    cell.start('trajectory_planner')
    cell.start('pick_place')
    client.until(lambda: cell.planner.startswith('stopped: foreign motion'), 'the planner', 20.0)
    cell.time_to_rest(BRAKING)
    assert np.abs(client.q - TURNED).max() > 0.1, 'it was stopped on its way'
    cell.rearm()
    assert cell.planner == 'ready'


def execute(cell, seconds=8.0):
    """Let another client move the arm through the planner; returns once the arm moves."""
    client = cell.client
    action = ActionClient(client.node, ExecuteTrajectory, 'execute_trajectory')
    client.until(action.server_is_ready, 'execute_trajectory')
    request = ExecuteTrajectory.Goal()
    points = goal(rest(HOME, 0.0), rest(TURNED, seconds))
    request.trajectory.joint_trajectory = points.trajectory
    client.wait(action.send_goal_async(request), 'the motion to be taken')
    client.until(lambda: np.abs(client.qd).max() > 0.05, 'the arm to move')
    return action


@pytest.mark.parametrize('dies', ['killed', 'frozen'])
def test_the_task_node_stops_anothers_motion_when_the_planner_is_gone(cell, dies):
    client, since = cell.client, len(cell.client.events)
    execute(cell)
    cell.signal('trajectory_planner', signal.SIGKILL if dies == 'killed' else signal.SIGSTOP)
    client.until(lambda: client.states[-1].startswith('stopped: the planner'), 'the latch')
    cell.time_to_rest(STOP_TIME + BRAKING)
    assert np.abs(client.q - TURNED).max() > 0.1
    assert 'the planner node has gone' in client.event('stopped', since=since)['reason']
    if dies == 'killed':
        cell.start('trajectory_planner')
    else:
        time.sleep(5.0)  # longer than the lease of its DDS participant
        cell.signal('trajectory_planner', signal.SIGCONT)
    cell.rearm()


def test_a_stop_while_the_planner_hangs_is_not_later_for_it(cell):
    client = cell.client
    execute(cell)
    with cell.frozen('trajectory_planner'):
        client.do('stop')
        assert cell.time_to_rest(STOP_TIME + BRAKING) < STOP_TIME + BRAKING
    cell.rearm()


def test_a_flood_at_the_planner_does_not_keep_the_task_node_from_stopping(cell):
    client = cell.client
    huge = ExecuteTrajectory.Goal()
    points = [rest(HOME, 0.01 * i) for i in range(60_000)]
    huge.trajectory.joint_trajectory = goal(*points).trajectory
    flood = execute(cell, 16.0)
    refused = flood.send_goal_async(huge)
    client.run(0.2)
    client.do('stop')
    assert cell.time_to_rest(STOP_TIME + BRAKING) < STOP_TIME + BRAKING
    assert np.abs(client.q - TURNED).max() > 0.1
    handle = client.wait(refused, 'the end of the flood')
    client.wait(handle.get_result_async(), 'its refusal')
    cell.rearm()


def test_a_pause_is_resumed_before_the_arm_is_at_rest(cell):
    client = cell.client
    cell.carry()
    since = len(client.events)
    client.do('pause')
    client.do('resume')
    client.event('done', since=since, job='run')
    client.look()
    np.testing.assert_allclose(client.part_at()[:2], TARGET[:2], atol=2e-3)


def test_freedrive_outlives_a_killed_task_node_and_is_ended_by_the_next(cell):
    client = cell.client
    assert client.call(SetBool, 'pick_place/freedrive', data=True).success
    client.until(lambda: client.states[-1] == 'freedrive', 'freedrive')
    cell.kill('pick_place')
    client.until(lambda: 'pick_place' in cell.planner, 'the planner to notice')
    told = len(client.states)
    cell.start('pick_place')
    client.until(lambda: 'freedrive' in client.states[told:], 'freedrive to be found')
    reply = client.call(SetBool, 'pick_place/freedrive', data=False)
    assert reply.success, reply.message
    cell.rearm()
    client.do('teach_home')
    client.job('go_home')


def test_a_part_in_the_hand_is_found_by_both_nodes_after_a_restart(cell):
    client = cell.client
    cell.carry()
    cell.kill('pick_place', 'trajectory_planner')
    client.run(2.0)
    cell.start('trajectory_planner')
    cell.start('pick_place')
    client.until(lambda: 'part_in_hand' in cell.log('pick_place'), 'the part to be found')
    kind = PlanningSceneComponents.ROBOT_STATE_ATTACHED_OBJECTS
    wanted = PlanningSceneComponents(components=kind)

    def attached():
        reply = client.call(GetPlanningScene, 'get_planning_scene', components=wanted)
        return reply.scene.robot_state.attached_collision_objects

    client.until(attached, 'the planner to know')
    cell.recover()
    assert not attached()
