# SPDX-License-Identifier: Apache-2.0
"""To a client the simulated cell is the UR driver: which goals it takes, slows, freezes, ends."""

import math

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2: make setup')

from driver_client import IO, JOINT_NAMES, SCALED, goal, point, rest, trajectory
from lone_driver import REACHED, THERE, UNSCALED
from lone_driver import cell as cell
from lone_driver import driver as driver
from std_msgs.msg import Bool, Float64
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory
from ur_dashboard_msgs.msg import RobotMode, SafetyMode

from ur5_pick_place.kinematics import HOME

pytestmark = pytest.mark.nodes
OFF_PATH = ('aborted', -4, 'Aborted due to path tolerance violation')


def _seconds(duration):
    return duration.sec + duration.nanosec * 1e-9


# -- goals that are refused ---------------------------------------------------------------------


def too_late(cell):
    return goal(rest(THERE, 1.0), stamp=cell.time - 5.0)


@pytest.mark.parametrize(
    'bad',
    [
        goal(rest(THERE, 1.0), names=JOINT_NAMES[:5]),
        goal(rest(THERE, 1.0), names=()),
        goal(rest(THERE, 1.0), names=(*JOINT_NAMES, 'finger')),
        goal(rest(THERE, 1.0), names=(*JOINT_NAMES[:5], 'finger')),
        goal(),
        goal(point(THERE, 1.0, velocities=[1e-3] * 6)),
        too_late,
        goal(rest(HOME, 1.0), rest(THERE, 1.0)),
        goal(rest(HOME, 1.0), rest(THERE, 0.5)),
        goal(point(THERE[:5], 1.0)),
        goal(point((), 1.0, velocities=[0.0] * 6)),
        goal(point(THERE, 1.0, velocities=[0.0] * 5)),
        goal(point(THERE, 1.0, velocities=[0.0] * 6, accelerations=[0.0] * 7)),
        goal(point(THERE, 1.0, effort=[1.0] * 6)),
    ],
    ids=[
        'five joints',
        'no joints',
        'seven joints',
        'unknown joint',
        'no points',
        'end velocity',
        'wholly past',
        'equal times',
        'falling times',
        'five positions',
        'velocities only',
        'five velocities',
        'seven accelerations',
        'efforts',
    ],
)
def test_a_malformed_goal_is_rejected_and_nothing_moves(cell, bad):
    assert not cell.send(bad(cell) if callable(bad) else bad).accepted
    cell.run(0.1)
    assert cell.q == pytest.approx(HOME, abs=1e-3)


def test_an_inactive_controller_has_a_server_that_rejects(cell):
    assert not cell.send(goal(rest(THERE, 1.0)), UNSCALED).accepted


def test_a_rejected_goal_leaves_the_running_one_alone(cell):
    running = cell.send(goal(rest(THERE, 1.0)))
    cell.run(0.3)
    assert not cell.send(goal(rest(THERE, 1.0), names=JOINT_NAMES[:5])).accepted
    assert cell.result(running) == REACHED


# -- how goals end ------------------------------------------------------------------------------


def test_a_goal_is_reached_in_its_time_and_feeds_back_at_20_hz(cell):
    heard = []
    handle = cell.send(
        goal(rest(HOME + (THERE - HOME) / 2, 0.5), rest(THERE, 1.0), goal=0.001, goal_time=1.0),
        feedback=lambda m: heard.append(m.feedback),
    )
    assert cell.result(handle) == REACHED
    assert 14 <= len(heard) <= 24
    assert _seconds(heard[-1].actual.time_from_start) == pytest.approx(1.05, abs=0.2)
    cell.run(0.1)
    assert cell.q == pytest.approx(THERE, abs=1.1e-3)
    assert all(list(m.joint_names) == list(JOINT_NAMES) for m in heard)
    index = [m.index for m in heard]
    assert index == sorted(index) and {0, 1} <= set(index)
    middle = heard[len(heard) // 2]
    error = np.array(middle.desired.positions) - np.array(middle.actual.positions)
    assert middle.error.positions == pytest.approx(error)


def test_joints_may_come_in_any_order(cell):
    order = [5, 3, 1, 0, 2, 4]
    names = [JOINT_NAMES[i] for i in order]
    assert cell.result(cell.send(goal(rest(THERE[order], 1.0), names=names))) == REACHED
    cell.run(0.3)
    assert cell.q == pytest.approx(THERE, abs=1e-3)


def test_not_a_number_succeeds_without_moving_the_joint(cell):
    target = THERE.copy()
    target[0] = math.nan
    assert cell.result(cell.send(goal(rest(target, 1.0)))) == REACHED
    cell.run(0.3)
    assert cell.q == pytest.approx([HOME[0], *THERE[1:]], abs=1e-3)


def test_a_micrometre_path_tolerance_aborts_and_the_arm_holds(cell):
    assert cell.result(cell.send(goal(rest(THERE, 1.0), path=1e-6))) == OFF_PATH
    cell.run(0.3)
    held = cell.q
    cell.run(0.5)
    assert cell.q == pytest.approx(held, abs=1e-4)


def test_a_goal_beyond_20_rad_per_second_is_not_followed_and_breaks_the_path(cell):
    far = HOME + np.array([3.0, 0, 0, 0, 0, 0])
    assert cell.result(cell.send(goal(point(far, 0.1)))) == OFF_PATH
    assert cell.q == pytest.approx(HOME, abs=1e-3)


def test_a_goal_time_that_passes_aborts(cell):
    near = HOME + np.array([0.18, 0, 0, 0, 0, 0])  # within the path tolerance, but too fast
    status, code, words = cell.result(cell.send(goal(point(near, 0.0), goal_time=0.3)))
    assert (status, code) == ('aborted', -5)
    assert words.startswith('Aborted due to goal_time_tolerance exceeding by 0.3')


@pytest.mark.drill
def test_without_a_goal_time_the_goal_stays_executing(cell):
    near = HOME + np.array([0.18, 0, 0, 0, 0, 0])
    handle = cell.send(goal(point(near, 0.0)))
    result = handle.get_result_async()
    cell.run(5.0)
    assert not result.done()
    cell.wait(handle.cancel_goal_async(), 'cancel')
    assert cell.result(handle) == ('canceled', 0, '')


def test_a_cancelled_goal_ends_with_code_zero_and_the_arm_stands(cell):
    handle = cell.send(goal(rest(THERE, 1.5)))
    cell.run(0.7)
    before = cell.time
    assert cell.wait(handle.cancel_goal_async(), 'cancel').return_code == 0
    assert cell.result(handle) == ('canceled', 0, '')
    assert cell.time - before < 0.3
    cell.run(0.3)
    assert abs(cell.qd).max() < 1e-3
    assert 0.1 < (cell.q[0] - HOME[0]) / (THERE[0] - HOME[0]) < 0.9
    assert cell.wait(handle.cancel_goal_async(), 'cancel').return_code == 3


def test_a_new_goal_preempts_with_an_abort(cell):
    old = cell.send(goal(rest(THERE, 2.0)))
    cell.run(0.3)
    new = cell.send(goal(rest(HOME, 1.0)))
    assert cell.result(old) == (
        'aborted',
        -1,
        'Current goal preempted by new incoming action.',
    )
    assert cell.result(new) == REACHED


def test_a_deactivated_controller_aborts_its_goal(cell):
    handle = cell.send(goal(rest(THERE, 2.0)))
    cell.run(0.3)
    assert cell.switch(on=[UNSCALED], off=[SCALED]).ok
    try:
        assert cell.result(handle) == (
            'aborted',
            -1,
            'Current goal cancelled during deactivate transition.',
        )
        assert cell.result(cell.send(goal(rest(HOME, 1.0)), UNSCALED)) == REACHED
        assert not cell.send(goal(rest(HOME, 1.0))).accepted
    finally:
        assert cell.switch(on=[SCALED], off=[UNSCALED]).ok


def test_a_trajectory_on_the_topic_moves_and_a_goal_is_judged_against_it(cell):
    publisher = cell.node.create_publisher(JointTrajectory, f'{SCALED}/joint_trajectory', 10)
    cell.until(lambda: publisher.get_subscription_count(), 'the topic')
    handle = cell.send(goal(rest(THERE, 6.0)))
    elsewhere = HOME + np.array([-0.2, 0, 0, 0, 0, 0])
    start = cell.time
    while cell.q[0] > HOME[0] - 0.01:  # the subscription is best-effort: messages may be lost
        assert cell.time - start < 4.0, 'the topic does not move the arm'
        publisher.publish(trajectory(rest(elsewhere, 0.8)))
        cell.run(0.3)
    publisher.publish(trajectory())  # ignored, as is the next
    cell.run(0.1)
    publisher.publish(trajectory(rest(HOME, 1.0), names=JOINT_NAMES[:5]))
    assert cell.result(handle) == REACHED
    assert cell.time - start < 5.5
    cell.run(0.3)
    assert cell.q == pytest.approx(elsewhere, abs=1e-3)


# -- speed and program --------------------------------------------------------------------------


def test_the_slider_scales_time_and_is_shown_in_percent(cell):
    scaling = cell.collect(Float64, 'speed_scaling_state_broadcaster/speed_scaling', 10)
    assert not cell.set_speed(0.0) and not cell.set_speed(1.1)
    assert cell.set_speed(0.5)
    cell.until(lambda: scaling and scaling[-1].data == 50.0, '50 percent')
    heard = []
    handle = cell.send(goal(rest(THERE, 1.0)), feedback=lambda m: heard.append(m.feedback))
    assert cell.result(handle) == REACHED
    scaled = _seconds(heard[-1].desired.time_from_start)
    assert scaled == pytest.approx(1.0, abs=0.1)
    assert _seconds(heard[-1].actual.time_from_start) == pytest.approx(2 * scaled, abs=0.02)
    assert cell.set_speed(1.0)
    cell.until(lambda: scaling[-1].data == 100.0, '100 percent')


def test_a_pause_freezes_the_goal_and_play_finishes_it(cell):
    program = cell.collect(Bool, f'{IO}/robot_program_running')
    handle = cell.send(goal(rest(THERE, 3.0)))
    result = handle.get_result_async()
    cell.run(0.4)
    assert cell.dashboard('pause').success
    cell.run(0.3)
    frozen = cell.q
    cell.run(2.0)
    assert not result.done() and cell.q == pytest.approx(frozen, abs=1e-4)
    assert cell.dashboard('play').success
    assert cell.result(handle) == REACHED
    assert [m.data for m in program] == [True]


def test_a_protective_stop_freezes_until_unlocked_and_played(cell):
    safety = cell.collect(SafetyMode, f'{IO}/safety_mode')
    handle = cell.send(goal(rest(THERE, 3.0)))
    result = handle.get_result_async()
    cell.run(0.3)
    assert cell.call(Trigger, 'sim_driver/protective_stop').success
    cell.until(lambda: safety[-1].mode == SafetyMode.PROTECTIVE_STOP, 'the stop')
    assert not cell.dashboard('play').success
    assert not cell.dashboard('unlock_protective_stop').success
    cell.run(5.1)
    assert cell.dashboard('unlock_protective_stop').success
    cell.until(lambda: safety[-1].mode == SafetyMode.NORMAL, 'the unlocking')
    assert not result.done()
    assert cell.dashboard('play').success
    assert cell.result(handle) == REACHED


@pytest.mark.parametrize(
    'end', [f'{IO}/hand_back_control', 'dashboard_client/stop'], ids=['handed back', 'stopped']
)
def test_the_programs_end_aborts_and_its_return_reactivates(cell, end):
    program = cell.collect(Bool, f'{IO}/robot_program_running')
    handle = cell.send(goal(rest(THERE, 2.0)))
    cell.run(0.3)
    assert cell.call(Trigger, end).success
    assert cell.result(handle)[:2] == ('aborted', -1)
    cell.until(lambda: [m.data for m in program] == [True, False], 'the end of the program')
    assert not cell.send(goal(rest(HOME, 1.0))).accepted
    assert cell.call(Trigger, f'{IO}/resend_robot_program').success
    cell.until(lambda: program[-1].data, 'the program')
    cell.run(0.1)  # the driver activates the controller a moment later
    assert cell.result(cell.send(goal(rest(HOME, 1.0)))) == REACHED


def test_power_is_restored_step_by_step(cell):
    modes = cell.collect(RobotMode, f'{IO}/robot_mode')
    assert cell.dashboard('power_off').success
    cell.until(lambda: modes and modes[-1].mode == RobotMode.POWER_OFF, 'power off')
    assert cell.dashboard('power_on').success
    cell.until(lambda: modes[-1].mode == RobotMode.IDLE, 'idle')
    assert cell.dashboard('brake_release').success
    cell.until(lambda: modes[-1].mode == RobotMode.RUNNING, 'running')
    assert cell.dashboard('play').success
    cell.run(0.1)
    assert cell.result(cell.send(goal(rest(THERE, 1.0)))) == REACHED
