# SPDX-License-Identifier: Apache-2.0
"""
The passthrough trajectory controller, with which the robot has the whole trajectory.

A PC that stands still for a moment changes nothing, a stop stops, and what needs a stream is
refused by name.
"""


import numpy as np
import pytest
from ideal_driver import HERE, REST, IdealArm, run
from lab.in_process import InProcessCell

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.rollout import loop_of, plan_roll_out
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.nodes.driver.controller_goals import PASSTHROUGH, check_method
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.planning.limits import Scaling
from ur5_pick_place.sim.controllers.controller_manager import SCALED
from ur5_pick_place.sim.controllers.goals import GOAL_TOLERANCE_VIOLATED, JointTolerance
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.driver import Driver, DriverSettings

SWING = HOME + [1.5, 0.0, 0.0, 0.0, 0.0, 0.0]


def swinging_cell(controller: str) -> tuple[InProcessCell, list[str]]:
    """Return a cell in the middle of a swing, and what becomes of the motion."""
    cell, ends = InProcessCell({'controller': controller}), list[Outcome]()
    cell.teach(*default_spots())
    motion = cell.station.planner.ptp(HOME, SWING).trajectory
    cell.manager.start(motion, ends.append)
    cell.wait(0.4)
    assert cell.driver.qd[0] > 1.0
    return cell, ends


def freeze(cell: InProcessCell, seconds: float) -> None:
    """Let driver and nodes stand still, and the robot go on."""
    cell.driver.pc_frozen = True
    for _ in range(round(seconds / cell.driver.period)):
        cell.driver.cycle()
    cell.driver.pc_frozen = False


def test_a_pc_that_stands_still_for_half_a_second_changes_nothing():
    cell, ends = swinging_cell(PASSTHROUGH)
    freeze(cell, 0.5)
    cell.until(lambda: bool(ends), 5.0, 'the end of the motion')
    assert ends == [DONE] and np.abs(cell.q - SWING).max() < 2e-3


def test_a_stream_of_setpoints_ends_when_the_pc_stands_still():
    cell, ends = swinging_cell(SCALED)
    freeze(cell, 0.5)
    cell.until(lambda: bool(ends), 5.0, 'the end of the motion')
    assert not ends[0].ok and not cell.driver.robot.program_running
    q = cell.q
    cell.wait(0.5)
    assert np.abs(cell.q - q).max() < 1e-3


@pytest.mark.parametrize('how', ['stop', 'cancel', 'fault', 'pause'])
def test_a_stop_stops_the_robot(how):
    cell, ends = swinging_cell(PASSTHROUGH)
    q = cell.q
    if how == 'stop':
        cell.stop()
    elif how == 'cancel':
        cell.port.cancel_motion()
    elif how == 'fault':
        cell.manager.fail('something is wrong')
    else:
        cell.driver.robot.pause()
    cell.until(lambda: bool(ends), 3.0, 'the end of the motion')
    cell.wait(1.0)
    rest = cell.q
    cell.wait(0.5)
    assert np.abs(cell.q - rest).max() < 1e-3
    assert 0.0 < rest[0] - q[0] < 0.8 and rest[0] < SWING[0] - 0.1
    if how == 'pause':
        cell.driver.robot.play()
        cell.wait(1.0)
        assert np.abs(cell.q - rest).max() < 0.01, 'nothing goes on when the cause goes away'


def test_a_second_goal_is_rejected_while_one_runs():
    cell, _ = swinging_cell(PASSTHROUGH)
    controller = cell.driver.trajectory[PASSTHROUGH]
    with pytest.raises(InvalidInput, match='cancel it first'):
        controller.check_goal(None, cell.driver.time)
    with pytest.raises(InvalidInput, match='action goals alone'):
        controller.follow(None, cell.driver.time)


def passthrough(points, tolerances):
    """Return driver and accepted goal of points over an ideal arm."""
    driver = Driver(IdealArm(), DriverSettings(controller=PASSTHROUGH))
    driver.cycle()
    command = TrajectoryCommand(driver.joint_names, points)
    given = [JointTolerance(*entry) for entry in tolerances]
    controller = driver.trajectory[PASSTHROUGH]
    return driver, controller.start_goal(command, driver.time, goal_tolerances=given)


def all_joints(*limits):
    return [(name, *limits) for name in Driver(IdealArm()).joint_names]


STEP = [Waypoint(0.5, tuple(HERE + 0.1), REST), Waypoint(1.0, tuple(HERE + 0.2), REST)]
BARE = [Waypoint(point.time, point.positions) for point in STEP]


@pytest.mark.parametrize(
    ('points', 'tolerances', 'reason'),
    [
        (STEP, all_joints(0.01)[:1], 'goal tolerances of 1 joints: must be all, or none'),
        (STEP, [*all_joints(0.01)[:5], ('elbow', 0.01)], "unknown joint 'elbow'"),
        ([BARE[0], STEP[1]], [], 'some points have velocities'),
    ],
)
def test_a_goal_that_the_driver_rejects_is_rejected(points, tolerances, reason):
    with pytest.raises(InvalidInput, match=reason):
        passthrough(points, tolerances)


@pytest.mark.parametrize(
    ('points', 'tolerances', 'is_reached'),
    [
        (STEP, [], True),
        (STEP, all_joints(0.01, 0.2), True),
        (STEP, all_joints(0.01), False),  # the arm still moves, and 0 is no default
        (BARE, all_joints(0.01), True),  # without velocities only positions are compared
        (BARE, all_joints(1e-9), False),
    ],
)
def test_goal_tolerances_are_judged_once_at_the_end_and_literally(points, tolerances, is_reached):
    driver, goal = passthrough(points, tolerances)
    run(driver, 1.1)
    end = ('succeeded', 0) if is_reached else ('aborted', GOAL_TOLERANCE_VIOLATED)
    assert (goal.outcome.status, goal.outcome.code) == end


def test_a_path_far_from_the_arm_aborts_no_goal():
    driver, goal = passthrough([Waypoint(0.0, tuple(HERE + 0.3), REST), *STEP], [])
    run(driver, 0.1)
    assert goal.outcome is None


def test_a_closed_loop_is_refused_by_name():
    cell = InProcessCell({'controller': PASSTHROUGH})
    cell.teach(*default_spots())
    planner, T_goal = cell.station.planner, forward(cell.model, HOME)
    T_goal[2, 3] += 0.03
    plan = plan_roll_out(planner, 'resolved_rate', HOME, T_goal, Scaling(), LoopSettings())

    def make(report):
        return loop_of(planner, 'resolved_rate', plan.trajectory, LoopSettings(), report)

    with pytest.raises(ExecutionError, match='passthrough trajectory controller accepts complete'):
        cell.manager.start_loop(make, plan.trajectory, lambda _reason: None)
    check_method(PASSTHROUGH, 'ik')
    check_method(SCALED, 'gradient')
    with pytest.raises(InvalidInput, match="method = 'gradient': passthrough"):
        check_method(PASSTHROUGH, 'gradient')
