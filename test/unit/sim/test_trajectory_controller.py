# SPDX-License-Identifier: Apache-2.0
"""
The controller does what UR's does: rows of the driver's goal checks, and how the arm moves.

The arm here is ideal (it stands where it was told one cycle ago) or trails by a first-order lag.

"""

import math

import numpy as np
import pytest
from trailing_arm import CYCLE, HERE, OFF_PATH, REACHED, THERE, Cell, command, point, rest

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES

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
def test_a_malformed_trajectory_is_refused_and_the_running_goal_goes_on(bad, reason):
    cell = Cell()
    running = cell.send(rest(1.0))
    cell.run(0.1)
    for entrance in (cell.controller.start_goal, cell.controller.follow):
        with pytest.raises(InvalidInput, match=reason):
            entrance(bad, cell.now)
    cell.run_to_end(running)
    assert running.outcome == REACHED
    assert cell.q == pytest.approx(THERE)


def test_the_first_reason_in_the_drivers_order_is_given():
    cell = Cell()
    everything = command(point(1.0, ()), point(1.0, ()), names=JOINT_NAMES[:5])
    with pytest.raises(InvalidInput, match='5 joint names'):
        cell.controller.start_goal(everything, cell.now)


def test_an_inactive_controller_refuses():
    cell = Cell()
    cell.controller.deactivate()
    with pytest.raises(InvalidInput, match='not running'):
        cell.send(rest(1.0))
    with pytest.raises(InvalidInput, match='not running'):
        cell.controller.follow(command(rest(1.0)), cell.now)


def test_joints_are_matched_by_name():
    cell = Cell()
    order = [3, 0, 5, 1, 4, 2]
    names = [JOINT_NAMES[i] for i in order]
    goal = cell.controller.start_goal(command(rest(0.5, THERE[order]), names=names), cell.now)
    cell.run_to_end(goal)
    assert cell.q == pytest.approx(THERE)


def test_of_a_joint_named_twice_the_last_value_wins_and_the_missing_one_stays():
    cell = Cell()
    names = (*JOINT_NAMES[:5], JOINT_NAMES[0])
    goal = cell.controller.start_goal(command(rest(0.5), names=names), cell.now)
    cell.run_to_end(goal)
    assert goal.outcome == REACHED
    assert cell.q == pytest.approx([THERE[5], *THERE[1:5], HERE[5]])


def test_not_a_number_succeeds_without_motion_of_that_joint():
    cell = Cell()
    target = THERE.copy()
    target[2] = math.nan
    goal = cell.send(rest(0.5, target))
    cell.run_to_end(goal)
    assert goal.outcome == REACHED
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
def test_these_are_accepted_and_then_break_the_path_tolerance(oddity):
    cell = Cell()
    goal = cell.send(oddity, point(2.0, THERE))
    cell.run_to_end(goal)
    assert goal.outcome == OFF_PATH


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


def test_scaling_zero_freezes_the_goal_and_it_goes_on_afterwards():
    cell = Cell()
    goal = cell.send(rest(0.8))
    cell.run(0.4)
    cell.scaling = 0.0
    cell.run(0.016)
    frozen = cell.q.copy()
    cell.run(5.0)
    assert goal.outcome is None
    assert cell.q == pytest.approx(frozen)
    cell.scaling = 1.0
    cell.run_to_end(goal)
    assert goal.outcome == REACHED


def test_a_stamp_in_the_future_does_not_delay_the_start():
    cell = Cell()
    cell.controller.follow(command(point(1.0), stamp=cell.now + 0.5), cell.now)
    cell.run(0.75)
    # Half of stamp plus time has passed, so half of the way.
    assert cell.q == pytest.approx((HERE + THERE) / 2, abs=0.01)
    assert cell.history[6].reference_time == pytest.approx(-0.48, abs=CYCLE)


def test_a_stamp_partly_past_joins_midway():
    cell = Cell()
    points = (point(1.0, HERE), point(2.0, HERE + 0.1), point(3.0, HERE + 0.2))
    goal = cell.controller.start_goal(command(*points, stamp=cell.now - 1.9), cell.now)
    taken = cell.run_to_end(goal)
    assert taken == pytest.approx(1.1, abs=2 * CYCLE)


def test_a_point_at_time_zero_steps_in_one_cycle():
    cell = Cell()
    goal = cell.send(point(0.0, HERE + 0.15))
    cell.cycle()
    assert cell.q == pytest.approx(HERE + 0.15)
    cell.run_to_end(goal)
    assert goal.outcome == REACHED


def test_a_target_a_full_turn_away_makes_the_full_turn():
    cell = Cell()
    goal = cell.send(rest(4.0, HERE + 2 * math.pi))
    cell.run_to_end(goal)
    assert cell.q == pytest.approx(HERE + 2 * math.pi)


def test_the_index_counts_the_waypoints_approached():
    cell = Cell()
    goal = cell.send(point(0.2, HERE + 0.1), point(0.4, HERE + 0.2), point(0.6, HERE + 0.3))
    cell.run_to_end(goal)
    seen = [t.reference.index for t in cell.history[5:]]
    assert sorted(set(seen)) == [0, 1, 2, 3] and seen == sorted(seen)


def test_a_goal_knows_its_own_cycles_only():
    cell = Cell()
    goal = cell.send(rest(0.2))
    assert goal.tracking is None  # what is known yet is of the hold before
    cell.run_to_end(goal)
    last = goal.tracking
    assert last.reference.q == pytest.approx(THERE, abs=1e-3)
    cell.run(0.1)
    assert goal.tracking is last


# -- what can be asked --------------------------------------------------------------------------


def test_query_answers_inside_the_trajectory_only():
    cell = Cell()
    assert cell.controller.query(cell.now) is None
    cell.send(point(1.0))
    cell.cycle()
    start = cell.now
    assert cell.controller.query(start + 0.5).q == pytest.approx((HERE + THERE) / 2)
    assert cell.controller.query(start - 0.1) is None
    assert cell.controller.query(start + 1.0) is None
    cell.controller.deactivate()
    assert cell.controller.query(start + 0.5) is None
