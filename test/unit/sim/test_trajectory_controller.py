# SPDX-License-Identifier: Apache-2.0
"""
The controller does what UR's does: the driver's goal checks, how the arm moves, how goals end.

The arm here is ideal (it stands where it was told one cycle ago) or trails by a first-order lag.
"""

import math

import numpy as np
import pytest

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.sim.controllers.goals import GoalResult, JointTolerance
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.controllers.trajectory_controller import TrajectoryController

CYCLE = 0.008
HERE = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
THERE = HERE + 0.4
REACHED = GoalResult('succeeded', 0, 'Goal successfully reached!')
OFF_PATH = GoalResult('aborted', -4, 'Aborted due to path tolerance violation')


class Cell:
    """A controller and an arm that trails its setpoint by `lag` seconds."""

    def __init__(self, lag=0.0, scaling=1.0):
        self.now, self.q, self.qd = 10.0, HERE.copy(), np.zeros(6)
        self.lag, self.scaling = lag, scaling
        self.stuck = False
        self.controller = TrajectoryController(JOINT_NAMES, CYCLE)
        self.controller.activate(self.q)
        self.history = []
        self.run(0.04)

    def cycle(self):
        self.now = round(self.now + CYCLE, 9)
        target = self.controller.update(self.now, self.q, self.qd, self.scaling)
        share = 1.0 if self.lag == 0.0 else 1.0 - math.exp(-CYCLE / self.lag)
        step = np.nan_to_num((target - self.q) * share, posinf=0.0)
        if self.stuck:
            step = np.zeros(6)
        self.history.append(self.controller.tracking)
        self.q, self.qd = self.q + step, step / CYCLE

    def run(self, seconds):
        for _ in range(round(seconds / CYCLE)):
            self.cycle()

    def send(self, *points, **tolerances):
        return self.controller.start_goal(command(*points), self.now, **tolerances)

    def run_to_end(self, goal, at_most=10.0):
        """Run until the goal has ended; returns the time that took [s]."""
        start = self.now
        while goal.outcome is None:
            assert self.now - start < at_most, 'goal does not end'
            self.cycle()
        return self.now - start

    def outcome(self, goal):
        self.run_to_end(goal)
        return goal.outcome


@pytest.fixture
def cell():
    return Cell()


def command(*points, names=JOINT_NAMES, stamp=0.0):
    return TrajectoryCommand(names, points, stamp)


def point(time, q=THERE, **derivatives):
    return Waypoint(time, tuple(q), **{k: tuple(v) for k, v in derivatives.items()})


def all_joints(position):
    return [JointTolerance(name, position) for name in JOINT_NAMES]


def rest(time, q=THERE):
    return point(time, q, velocities=np.zeros(6), accelerations=np.zeros(6))


# -- which goals are accepted -------------------------------------------------------------------


@pytest.mark.parametrize(
    ('bad', 'reason'),
    [
        (command(rest(1.0), names=JOINT_NAMES[:5]), '5 joint names'),
        (command(rest(1.0), names=()), '0 joint names'),
        (command(rest(1.0), names=(*JOINT_NAMES, 'finger')), '7 joint names'),
        (command(), 'no points'),
        (command(rest(1.0), names=(*JOINT_NAMES[:5], 'finger')), "unknown joint 'finger'"),
        (command(point(1.0, velocities=np.full(6, 2e-7))), 'velocity other than zero'),
        (command(rest(1.0), stamp=8.9), 'ends at 9.900 s'),
        (command(rest(1.0), rest(1.0)), 'point 1 at 1.0 s'),
        (command(rest(1.0), rest(0.5)), 'point 1 at 0.5 s'),
        (command(point(1.0, THERE[:5])), '5 positions'),
        (command(point(1.0, ())), '0 positions'),
        (command(point(1.0, (), velocities=np.zeros(6))), '0 positions'),
        (command(point(1.0, velocities=np.zeros(5))), '5 velocities'),
        (command(point(1.0, accelerations=np.zeros(7))), '7 accelerations'),
        (command(point(1.0, effort=np.zeros(6))), 'efforts'),
    ],
)
def test_a_malformed_trajectory_is_refused_and_the_running_goal_goes_on(cell, bad, reason):
    running = cell.send(rest(1.0))
    cell.run(0.1)
    for entrance in (cell.controller.start_goal, cell.controller.follow):
        with pytest.raises(InvalidInput, match=reason):
            entrance(bad, cell.now)
    assert cell.outcome(running) == REACHED
    assert cell.q == pytest.approx(THERE)


def test_the_first_reason_in_the_drivers_order_is_given(cell):
    everything = command(point(1.0, ()), point(1.0, ()), names=JOINT_NAMES[:5])
    with pytest.raises(InvalidInput, match='5 joint names'):
        cell.controller.start_goal(everything, cell.now)


def test_joints_are_matched_by_name(cell):
    order = [3, 0, 5, 1, 4, 2]
    names = [JOINT_NAMES[i] for i in order]
    goal = cell.controller.start_goal(command(rest(0.5, THERE[order]), names=names), cell.now)
    cell.run_to_end(goal)
    assert cell.q == pytest.approx(THERE)


def test_of_a_joint_named_twice_the_last_value_wins_and_the_missing_one_stays(cell):
    names = (*JOINT_NAMES[:5], JOINT_NAMES[0])
    goal = cell.controller.start_goal(command(rest(0.5), names=names), cell.now)
    assert cell.outcome(goal) == REACHED
    assert cell.q == pytest.approx([THERE[5], *THERE[1:5], HERE[5]])


def test_not_a_number_succeeds_without_motion_of_that_joint(cell):
    goal = cell.send(rest(0.5, [*THERE[:2], math.nan, *THERE[3:]]))
    assert cell.outcome(goal) == REACHED
    assert cell.q[2] == HERE[2] and cell.q[0] == pytest.approx(THERE[0])


@pytest.mark.parametrize(
    'oddity',
    [
        point(1.0, np.full(6, math.inf)),
        point(-1.0),
        point(0.5, accelerations=np.zeros(6)),
    ],
    ids=['infinite position', 'first time negative', 'accelerations without velocities'],
)
def test_these_are_accepted_and_then_break_the_path_tolerance(cell, oddity):
    goal = cell.send(oddity, point(2.0, THERE))
    assert cell.outcome(goal) == OFF_PATH


# -- how the arm moves --------------------------------------------------------------------------


@pytest.mark.parametrize('scaling', [1.0, 0.5, 0.1])
def test_a_goal_lasts_its_time_divided_by_the_speed_scaling(scaling):
    cell = Cell(scaling=scaling)
    goal = cell.send(rest(0.8))
    taken = cell.run_to_end(goal, at_most=12.0)
    assert goal.outcome == REACHED
    # The end is seen by the command, which is one unscaled period of trajectory time ahead.
    assert taken == pytest.approx((0.8 - CYCLE) / scaling, abs=2 * CYCLE)
    assert cell.history[-1].elapsed == pytest.approx(taken, abs=2 * CYCLE)
    assert cell.history[-1].reference_time == pytest.approx(0.8, abs=2 * CYCLE)


def test_the_first_segment_starts_at_the_measured_state():
    cell = Cell(lag=0.03)
    cell.send(point(1.0, HERE + 1.0))
    cell.run(0.4)
    q, qd = cell.q.copy(), cell.qd.copy()
    cell.controller.follow(command(rest(1.0)), cell.now)
    cell.cycle()
    assert cell.history[-1].reference.q == pytest.approx(q)
    assert cell.history[-1].reference.qd == pytest.approx(qd)
    assert abs(cell.history[-1].reference.qd).min() > 0.5


def test_a_point_at_time_zero_steps_in_one_cycle(cell):
    goal = cell.send(point(0.0, HERE + 0.15))
    cell.cycle()
    assert cell.q == pytest.approx(HERE + 0.15)
    assert cell.outcome(goal) == REACHED


def test_a_target_a_full_turn_away_makes_the_full_turn(cell):
    goal = cell.send(rest(4.0, HERE + 2 * math.pi))
    cell.run_to_end(goal)
    assert cell.q == pytest.approx(HERE + 2 * math.pi)


def test_the_index_counts_the_waypoints_approached(cell):
    goal = cell.send(point(0.2, HERE + 0.1), point(0.4, HERE + 0.2), point(0.6, HERE + 0.3))
    cell.run_to_end(goal)
    seen = [t.reference.index for t in cell.history[5:]]
    assert sorted(set(seen)) == [0, 1, 2, 3] and seen == sorted(seen)


def test_a_goal_knows_its_own_cycles_only(cell):
    goal = cell.send(rest(0.2))
    assert goal.tracking is None  # what is known yet is of the hold before
    cell.run_to_end(goal)
    last = goal.tracking
    assert last.reference.q == pytest.approx(THERE, abs=1e-3)
    cell.run(0.1)
    assert goal.tracking is last


# -- what can be asked --------------------------------------------------------------------------


def test_query_answers_inside_the_trajectory_only(cell):
    assert cell.controller.query(cell.now) is None
    cell.send(point(1.0))
    cell.cycle()
    start = cell.now
    assert cell.controller.query(start + 0.5).q == pytest.approx((HERE + THERE) / 2)
    assert cell.controller.query(start - 0.1) is None
    assert cell.controller.query(start + 1.0) is None
    cell.controller.deactivate()
    assert cell.controller.query(start + 0.5) is None


CANCELED = GoalResult('canceled', 0, '')


def test_falling_behind_the_path_tolerance_aborts_and_holds_the_measured_joints(cell):
    goal = cell.send(rest(1.0))
    cell.run(0.2)
    cell.stuck = True
    assert cell.outcome(goal) == OFF_PATH
    assert abs(cell.history[-1].error).max() > 0.2
    measured = cell.q.copy()
    cell.stuck = False
    cell.run(1.0)
    assert cell.q == pytest.approx(measured)


@pytest.mark.parametrize(('tolerance', 'outcome'), [(1e-6, OFF_PATH), (1e-3, REACHED)])
def test_a_hair_of_lag_breaks_a_micrometre_tolerance_but_not_a_millimetre_one(tolerance, outcome):
    cell = Cell(lag=1.5e-3)
    goal = cell.send(rest(1.0), path_tolerances=all_joints(tolerance))
    assert cell.outcome(goal) == outcome


def test_without_goal_time_an_unreached_goal_is_waited_for_without_end(cell):
    goal = cell.send(point(0.1, HERE + 0.15))
    cell.stuck = True
    cell.run(30.0)
    assert goal.outcome is None


def test_success_is_given_a_tenth_of_a_radian_early_unless_asked_otherwise():
    early, exact = Cell(lag=0.03), Cell(lag=0.03)
    early_goal = early.send(point(0.4))
    exact_goal = exact.send(point(0.4), goal_tolerances=all_joints(0.001), goal_time=1.0)
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


def test_minus_one_switches_a_tolerance_off(cell):
    off = all_joints(-1.0)
    goal = cell.send(rest(1.0), path_tolerances=off, goal_tolerances=off)
    cell.stuck = True
    assert cell.outcome(goal) == REACHED


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
    goal = cell.send(rest(1.0), path_tolerances=[*all_joints(1e-9), wish])
    assert cell.outcome(goal) == REACHED
    assert 'using the defaults' in caplog.text


def test_wishes_hold_for_their_goal_only():
    cell = Cell(lag=0.03)
    tight = cell.send(rest(1.0), path_tolerances=all_joints(1e-9))
    assert cell.outcome(tight) == OFF_PATH
    assert cell.outcome(cell.send(rest(1.0))) == REACHED


def test_a_new_goal_preempts_the_old_one(cell):
    old = cell.send(rest(1.0))
    cell.run(0.2)
    new = cell.send(rest(1.0, HERE))
    preempted = 'Current goal preempted by new incoming action.'
    assert old.outcome == GoalResult('aborted', -1, preempted)
    assert cell.outcome(new) == REACHED and cell.q == pytest.approx(HERE)


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


def test_cancelling_an_ended_goal_changes_nothing(cell):
    old = cell.send(rest(0.2))
    cell.run_to_end(old)
    new = cell.send(rest(0.5, HERE))
    cell.controller.cancel(old)
    assert (old.outcome, cell.outcome(new)) == (REACHED, REACHED)


def test_a_topic_trajectory_replaces_the_motion_and_the_goal_ends_with_it(cell):
    goal = cell.send(rest(1.0))
    cell.run(0.2)
    cell.controller.follow(command(rest(0.5, HERE - 0.3)), cell.now)
    assert cell.run_to_end(goal) == pytest.approx(0.5, abs=3 * CYCLE)
    assert goal.outcome == REACHED and cell.q == pytest.approx(HERE - 0.3, abs=1e-3)
