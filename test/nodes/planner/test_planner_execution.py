# SPDX-License-Identifier: Apache-2.0
"""
The planner node moves the simulated driver's arm, through real rclpy clients.

What is spoilt is not executed, a cancel brakes on the path, and a stop holds until it is rearmed.
A closed loop is a planned roll-out, executed by naming its method; how it ends at a stop or at a
fault is in `test/unit/control`.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticArray
from driver_client import by_name
from moveit_msgs.msg import CollisionObject, PlanningScene
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
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward

pytestmark = [pytest.mark.nodes, pytest.mark.usefixtures('at_home')]


def run_move_to(*words):
    command = [Path(sys.executable).with_name('move_to'), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_move_to_goes_there_and_reports_measured_minus_commanded(client):
    run = run_move_to('0.45', '-0.1', '0.2', '-30', '--scaling', '0.5')
    assert run.returncode == 0, run.stderr
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    np.testing.assert_allclose(T[:3, 3], [0.45, -0.1, 0.345], atol=2e-3)
    assert re.search(r'TCP at \(0\.45000, -0\.10000, 0\.20000\) m, yaw -30\.000 deg', run.stdout)
    miss = re.search(r'measured minus commanded: .*mm, ([\d.]+) mm and ([\d.]+) deg', run.stdout)
    assert miss and float(miss[1]) < 2.0 and float(miss[2]) < 0.5


def test_a_trajectory_that_is_to_begin_later_is_not_executed(client):
    trajectory = client.plan(joints(HOME + [0.5, 0, 0, 0, 0, 0])).trajectory
    trajectory.joint_trajectory.header.stamp.sec = 2**31 - 1

    def ask():
        status, code = client.end(client.start(trajectory))
        assert status == GoalStatus.STATUS_ABORTED
        assert 's from now: a motion begins at once' in code.message

    assert moved_by(client, ask) < 1e-4
    assert client.states[-1] == 'ready'


def test_a_cancel_brakes_on_the_path_and_leaves_the_planner_ready(client):
    handle = client.set_off()
    begin = client.q[0]
    client.wait(handle.cancel_goal_async(), 'the answer to a cancel')
    status, code = client.end(handle)
    assert (status, code.val) == (GoalStatus.STATUS_CANCELED, CODE.PREEMPTED)
    client.run(0.3)
    assert begin + 0.005 < client.q[0] < 1.9
    np.testing.assert_allclose(client.q[1:], HOME[1:], atol=1e-3)
    assert np.abs(client.qd).max() < 1e-3
    client.state('ready')


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
        client.end_protective_stop()
        client.run(1.0)

    assert moved_by(client, recover) < 2e-3
    client.until(lambda: client.trigger('rearm').success, 'the planner to be rearmed')
    client.go(HOME)


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


def test_move_action_plans_executes_and_tells_what_it_did(client):
    first = len(client.joints)
    T = tool_down(0.45, 0.15, 0.4)
    status, result = client.move_group.end(client.move_group.start(pose_goal(T)))
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


def test_move_action_may_only_plan(client):
    goal = joints(HOME + [0.5, 0, 0, 0, 0, 0])

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
    goal = joints(HOME + [0.5, 0, 0, 0, 0, 0])

    def ask():
        status, result = client.move_group.end(client.move_group.start(goal, **options))
        assert status == GoalStatus.STATUS_ABORTED
        assert result.error_code.val == CODE.INVALID_GOAL_CONSTRAINTS
        assert words in result.error_code.message

    assert moved_by(client, ask, 0.2) < 1e-4


def move_off(client):
    """Start a long turn of the shoulder by move_action; returns its handle once the arm moves."""
    goal = joints(HOME + [2.0, 0, 0, 0, 0, 0])
    handle = client.move_group.start(goal, scaling=0.4)
    result = handle.get_result_async()
    client.until(lambda: result.done() or client.qd[0] > 0.3, 'the arm to move')
    assert not result.done(), result.result().result.error_code.message
    return handle


def test_a_cancel_of_move_action_brakes_and_a_second_motion_is_refused(client):
    handle = move_off(client)
    back = joints(HOME)
    status, result = client.move_group.end(client.move_group.start(back))
    assert (status, result.error_code.val) == (GoalStatus.STATUS_ABORTED, CODE.CONTROL_FAILED)
    assert 'another motion of move_action is under way' in result.error_code.message
    status, code = client.end(client.start(client.plan(joints(HOME)).trajectory))
    assert (status, code.val) == (GoalStatus.STATUS_ABORTED, CODE.CONTROL_FAILED)
    assert client.qd[0] > 0.3  # neither disturbed the first
    begin = client.q[0]
    client.wait(handle.cancel_goal_async(), 'the answer to a cancel')
    status, result = client.move_group.end(handle)
    assert (status, result.error_code.val) == (GoalStatus.STATUS_CANCELED, CODE.PREEMPTED)
    client.run(0.3)
    assert begin + 0.005 < client.q[0] < 1.9 and np.abs(client.qd).max() < 1e-3
    client.state('ready')


METHODS = {'resolved_rate': 'RESOLVED_RATE', 'gradient': 'JACOBIAN_TRANSPOSE'}
WAY = np.array([0.03, 0.1, -0.04])  # [m]


@pytest.mark.parametrize('method', METHODS)
def test_a_roll_out_is_run_as_a_closed_loop_to_its_goal(client, method):
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    T[:3, 3] += WAY
    told, planned = len(client.states), client.plan(pose_goal(T), METHODS[method])
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    _, code = client.end(client.start(planned.trajectory, [method]))
    assert code.val == CODE.SUCCESS, code.message
    miss = (T_BASE_LINK_BASE @ forward(MODEL, client.look()))[:3, 3] - T[:3, 3]
    assert 1e3 * np.linalg.norm(miss) <= 0.2
    assert 'moving' in client.states[told:]
    client.state('ready')


def test_what_is_no_roll_out_of_a_method_is_refused_and_nothing_moves(client):
    """The same way in joint space swings the tool off the line."""
    goal = HOME + [1.2, 0.3, -0.6, 0.2, 0.0, 0.5]
    trajectory = client.plan(joints(goal)).trajectory

    def ask():
        for names, code in (
            (['magic'], CODE.INVALID_GOAL_CONSTRAINTS),
            (['gradient', 'resolved_rate'], CODE.INVALID_GOAL_CONSTRAINTS),
            (['resolved_rate'], CODE.INVALID_MOTION_PLAN),
        ):
            _, reply = client.end(client.start(trajectory, names))
            assert reply.val == code, reply.message

    assert moved_by(client, ask, 0.1) < 1e-4
