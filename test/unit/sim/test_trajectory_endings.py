# SPDX-License-Identifier: Apache-2.0
"""How the trajectory controller ends goals, as UR's does: tolerances, cancels, preemption."""

import pytest
from trailing_arm import CYCLE, HERE, OFF_PATH, REACHED, THERE, Cell, command, point, rest

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.sim.controllers.goals import GoalResult, JointTolerance

CANCELED = GoalResult('canceled', 0, '')


def test_falling_behind_the_path_tolerance_aborts_and_holds_the_measured_joints():
    cell = Cell()
    goal = cell.send(rest(1.0))
    cell.run(0.2)
    cell.stuck = True
    cell.run_to_end(goal)
    assert goal.outcome == OFF_PATH
    assert abs(cell.history[-1].error).max() > 0.2
    measured = cell.q.copy()
    cell.stuck = False
    cell.run(1.0)
    assert cell.q == pytest.approx(measured)


@pytest.mark.parametrize(('tolerance', 'outcome'), [(1e-6, OFF_PATH), (1e-3, REACHED)])
def test_a_hair_of_lag_breaks_a_micrometre_tolerance_but_not_a_millimetre_one(tolerance, outcome):
    cell = Cell(lag=1.5e-3)
    path = [JointTolerance(n, tolerance) for n in JOINT_NAMES]
    goal = cell.send(rest(1.0), path_tolerances=path)
    cell.run_to_end(goal)
    assert goal.outcome == outcome


def test_without_goal_time_an_unreached_goal_is_waited_for_without_end():
    cell = Cell()
    goal = cell.send(point(0.1, HERE + 0.15))
    cell.stuck = True
    cell.run(30.0)
    assert goal.outcome is None


def test_success_is_given_a_tenth_of_a_radian_early_unless_asked_otherwise():
    early, exact = Cell(lag=0.03), Cell(lag=0.03)
    early_goal = early.send(point(0.4))
    wishes = [JointTolerance(n, 0.001) for n in JOINT_NAMES]
    exact_goal = exact.send(point(0.4), goal_tolerances=wishes, goal_time=1.0)
    early.run_to_end(early_goal)
    exact.run_to_end(exact_goal)
    assert abs(early.history[-1].q - THERE).max() > 0.01
    assert abs(exact.history[-1].q - THERE).max() <= 0.001
    assert exact.now > early.now


def test_goal_time_is_judged_in_scaled_time():
    cell = Cell(scaling=0.5)
    goal = cell.send(point(0.1, HERE + 0.15), goal_time=0.4)
    cell.stuck = True
    taken = cell.run_to_end(goal)
    assert (goal.outcome.status, goal.outcome.code) == ('aborted', -5)
    assert goal.outcome.message.startswith('Aborted due to goal_time_tolerance exceeding by 0.4')
    assert goal.outcome.message.endswith(' seconds')
    assert taken == pytest.approx((0.1 + 0.4) / 0.5, abs=3 * CYCLE)


def test_minus_one_switches_a_tolerance_off():
    cell = Cell()
    off = [JointTolerance(n, -1.0) for n in JOINT_NAMES]
    goal = cell.send(rest(1.0), path_tolerances=off, goal_tolerances=off)
    cell.stuck = True
    cell.run_to_end(goal)
    assert goal.outcome == REACHED


@pytest.mark.parametrize(
    'wish',
    [
        JointTolerance('elbow_joint', -2.0),
        JointTolerance('elbow_joint', velocity=-3.0),
        JointTolerance('finger', 0.5),
    ],
)
def test_one_nonsensical_wish_brings_all_defaults_back(wish, caplog):
    cell = Cell(lag=0.03)
    path = [JointTolerance(n, 1e-9) for n in JOINT_NAMES] + [wish]
    goal = cell.send(rest(1.0), path_tolerances=path)
    cell.run_to_end(goal)
    assert goal.outcome == REACHED
    assert 'using the defaults' in caplog.text


def test_wishes_hold_for_their_goal_only():
    cell = Cell(lag=0.03)
    tight = [JointTolerance(n, 1e-9) for n in JOINT_NAMES]
    first = cell.send(rest(1.0), path_tolerances=tight)
    cell.run_to_end(first)
    second = cell.send(rest(1.0))
    cell.run_to_end(second)
    assert (first.outcome, second.outcome) == (OFF_PATH, REACHED)


def test_a_new_goal_preempts_the_old_one():
    cell = Cell()
    old = cell.send(rest(1.0))
    cell.run(0.2)
    new = cell.send(rest(1.0, HERE))
    preempted = 'Current goal preempted by new incoming action.'
    assert old.outcome == GoalResult('aborted', -1, preempted)
    cell.run_to_end(new)
    assert new.outcome == REACHED and cell.q == pytest.approx(HERE)


def test_cancel_holds_the_measured_joints_without_braking():
    cell = Cell(lag=0.03)
    goal = cell.send(point(1.0, HERE + 2.0))
    cell.run(0.4)
    cell.controller.cancel(goal)
    measured = cell.history[-1].q
    assert goal.outcome == CANCELED
    cell.cycle()
    cell.cycle()
    assert cell.controller.tracking.output == pytest.approx(cell.q, abs=0.08)
    cell.run(1.0)
    assert cell.q == pytest.approx(measured, abs=0.08)
    assert abs(cell.qd).max() < 1e-6


def test_cancelling_an_ended_goal_changes_nothing():
    cell = Cell()
    old = cell.send(rest(0.2))
    cell.run_to_end(old)
    new = cell.send(rest(0.5, HERE))
    cell.controller.cancel(old)
    cell.run_to_end(new)
    assert (old.outcome, new.outcome) == (REACHED, REACHED)


def test_deactivation_aborts_the_goal_and_activation_holds():
    cell = Cell()
    goal = cell.send(rest(1.0))
    cell.run(0.4)
    cell.controller.deactivate()
    assert goal.outcome == GoalResult(
        'aborted', -1, 'Current goal cancelled during deactivate transition.'
    )
    cell.controller.activate(cell.q)
    held = cell.q.copy()
    cell.run(0.5)
    assert cell.q == pytest.approx(held)


def test_a_topic_trajectory_replaces_the_motion_and_the_goal_ends_with_it():
    cell = Cell()
    goal = cell.send(rest(1.0))
    cell.run(0.2)
    elsewhere = HERE - 0.3
    cell.controller.follow(command(rest(0.5, elsewhere)), cell.now)
    taken = cell.run_to_end(goal)
    assert goal.outcome == REACHED
    assert taken == pytest.approx(0.5, abs=3 * CYCLE)
    assert cell.q == pytest.approx(elsewhere, abs=1e-3)


def test_a_topic_trajectory_that_cannot_be_followed_ends_in_a_hold():
    cell = Cell()
    cell.controller.follow(command(rest(0.5)), cell.now)
    cell.stuck = True
    cell.run(1.0)
    cell.stuck = False
    cell.run(1.0)
    assert cell.q == pytest.approx(HERE)
