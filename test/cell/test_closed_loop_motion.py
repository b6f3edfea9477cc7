# SPDX-License-Identifier: Apache-2.0
"""
The two closed-loop methods on the simulated driver, without ROS.

Both reach their goal near the straight line and keep every limit, alike at 0, 50 and 100 ms of
servo lag, whatever the slider says and however late or lossy the messages are; each stop names its
reason and leaves the arm at rest.
"""

import re

import numpy as np
import pytest
from closed_loop_cell import (
    LIFT,
    METHODS,
    MODEL,
    PLANNER,
    START,
    Cell,
    goal_of,
    loop_on,
    miss,
    off_line,
    plan,
)

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.outcome import DONE


@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize('lag', [0.0, pytest.param(0.05, marks=pytest.mark.drill), 0.1])
def test_the_goal_is_reached_alike_at_any_servo_lag(method, lag):
    T_goal, path = goal_of(START), plan(method)
    cell = Cell(START, lag)
    assert cell.run(loop_on(path, method)) == ''
    taken = CYCLE * (len(cell.q) - 25)
    assert abs(taken - path.duration) < 0.1 * path.duration + 0.3
    mm, deg = miss(cell.driver.q, T_goal)
    assert mm <= 0.2 and deg <= 0.1
    allowed = off_line(path.q, T_goal) + 5e-4
    assert off_line(cell.q, T_goal) <= allowed < 0.02
    qd, qdd = cell.rates
    assert np.abs(qd).max() < 1.0
    assert np.abs(qdd).max() < 10.0


@pytest.mark.parametrize(
    'conditions',
    [
        {'late': 8},
        {'late': 2, 'lost': 0.4},
        {'slider': 0.5, 'late': 3},
        {'slider': 0.6, 'late': 3, 'lost': 0.3},
        {'slider': 0.3, 'every': 3},
        pytest.param({'slider': 0.05}, marks=pytest.mark.drill),
    ],
)
@pytest.mark.parametrize('lag', [0.0, 0.03])
def test_late_and_lost_messages_and_the_slider_change_nothing_but_the_time(conditions, lag):
    T_goal, path = goal_of(START), plan('resolved_rate')
    cell = Cell(START, lag, **conditions)
    assert cell.run(loop_on(path, 'resolved_rate'), 60.0) == ''
    slider = conditions.get('slider', 1.0)
    taken = CYCLE * (len(cell.q) - 25) * slider
    assert abs(taken - path.duration) < 0.1 * path.duration + 0.1
    assert off_line(cell.q, T_goal) <= off_line(path.q, T_goal) + 5e-5
    qd, qdd = cell.rates
    assert np.abs(qd).max() < 0.4 * slider
    assert np.abs(qdd).max() < 3.0 * slider


@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize(
    'conditions',
    [
        {'every': 2},
        pytest.param({'every': 3, 'late': 8}, marks=pytest.mark.drill),
        pytest.param({'every': 12}, marks=pytest.mark.drill),
        {'unheard': 0.5},
        pytest.param({'unheard': 0.5, 'late': 2, 'lost': 0.2}, marks=pytest.mark.drill),
    ],
)
def test_few_or_lost_joint_states_cost_neither_time_nor_the_line(method, conditions):
    T_goal, path = goal_of(START), plan(method)
    cell = Cell(START, 0.03, **conditions)
    assert cell.run(loop_on(path, method)) == ''
    taken = CYCLE * (len(cell.q) - 25)
    assert taken < 1.1 * path.duration + 0.1
    assert off_line(cell.q, T_goal) <= off_line(path.q, T_goal) + 5e-4
    qd, qdd = cell.rates
    assert np.abs(qd).max() < 1.0
    assert np.abs(qdd).max() < 10.0


@pytest.mark.parametrize('period', [0.002, 0.01, 0.0125, 0.016, 0.02, 0.1])
def test_joint_states_at_any_rate_lead_an_ideal_arm_alike(period):
    path = plan('resolved_rate')
    loop = loop_on(path, 'resolved_rate')
    q, qd, t = START, np.zeros(6), 100.0
    while loop.outcome is None and t < 110.0:
        segment = loop.tick(t, q, qd, 1.0)
        t = round(t + period, 6)
        passed = segment.age + t - segment.stamp
        q, qd, _, _ = (row[0] for row in segment.trajectory.sample([passed]))
    assert loop.outcome == DONE
    assert t - 100.0 < 1.1 * path.duration + 0.1 + period


def test_a_pass_near_the_wrist_singularity_keeps_the_limits():
    """Theta 5 comes to 0.09 rad at most, while the tool stays within 4 mm of its line."""
    q_near = np.array([0.2, -1.4, 1.6, -0.2 - np.pi / 2, 0.08, 0.3])
    T = forward(MODEL, q_near)
    T_start, T_goal = T.copy(), T.copy()
    T_start[1, 3] -= 0.15
    T_goal[1, 3] += 0.15
    q = PLANNER.joint_goals(T_start, q_near)[0]
    path = plan('resolved_rate', q, T_goal)
    cell = Cell(q, 0.05)
    assert cell.run(loop_on(path, 'resolved_rate')) == ''
    assert np.abs(np.array(cell.q)[:, 4]).min() < 0.09
    assert off_line(cell.q, T_goal) < 4e-3
    qd, qdd = cell.rates
    assert np.abs(qd).max() <= 1.001
    assert np.abs(qdd).max() < 10.0


def test_a_slider_at_zero_is_a_wait_and_sends_nothing():
    path, cell = plan('resolved_rate'), Cell(START, 0.03)
    loop = loop_on(path, 'resolved_rate')
    counts = []

    def slide(to):
        cell.driver.robot.slider = to
        counts.append(cell.sent)

    outcome = cell.run(loop, at={100: lambda: slide(0.0), 600: lambda: slide(1.0)})
    assert outcome == ''
    assert counts[1] - counts[0] <= 1  # the scaling follows the slider a cycle later


@pytest.mark.parametrize('method', METHODS)
def test_a_wanted_stop_brakes_within_the_limits_and_near_the_line(method):
    T_goal, path = goal_of(START), plan(method)
    cell = Cell(START, 0.05)
    loop = loop_on(path, method)
    assert cell.run(loop, at={110: lambda: loop.stop('enough')}) == 'enough'
    assert np.abs(cell.driver.qd).max() < 0.01
    taken = CYCLE * (len(cell.q) - 25 - 110)
    assert taken < 1.0
    assert miss(cell.driver.q, T_goal)[0] > 10.0
    assert np.abs(cell.rates[1]).max() < 10.0


def test_half_a_second_in_which_nothing_is_heard_is_made_up_for():
    """Our process stood; the arm came to rest on its ramp, and is led on from there."""
    path, cell = plan('resolved_rate'), Cell(START, 0.03)
    loop = loop_on(path, 'resolved_rate')
    assert cell.run(loop, seconds=1.0) is None
    for _ in range(60):
        cell.cycle()
    assert cell.run(loop) == ''
    assert off_line(cell.q, goal_of(START)) <= off_line(path.q, goal_of(START)) + 5e-4
    assert np.abs(cell.rates[1]).max() < 10.0


def test_a_stamp_seen_before_sends_nothing():
    path = plan('resolved_rate')
    loop = loop_on(path, 'resolved_rate')
    assert loop.tick(1.0, START, np.zeros(6), 1.0) is not None
    assert loop.tick(1.0, START, np.zeros(6), 1.0) is None
    assert loop.tick(0.9, START, np.zeros(6), 1.0) is None


def test_joints_that_are_no_numbers_are_refused():
    path = plan('resolved_rate')
    loop = loop_on(path, 'resolved_rate')
    loop.tick(1.0, START, np.zeros(6), 1.0)
    with pytest.raises(InvalidInput, match='must be finite'):
        loop.tick(1.008, np.full(6, np.nan), np.zeros(6), 1.0)


def test_an_arm_that_does_not_follow_is_noticed_within_two_seconds():
    path = plan('resolved_rate', T_goal=goal_of(START, 3 * LIFT))
    loop = loop_on(path, 'resolved_rate')
    for k in range(1, 250):
        loop.tick(k * CYCLE, START, np.zeros(6), 1.0)
        if loop.outcome:
            break
    assert 'from its reference' in loop.outcome.reason


def test_an_arm_pushed_out_of_its_corridor_stops():
    path, cell = plan('resolved_rate'), Cell(START, 0.03)
    loop = loop_on(path, 'resolved_rate', LoopSettings(loop_corridor=0.01))
    cell.run(loop, seconds=1.0)
    driver = cell.driver
    loop.tick(driver.time + CYCLE, driver.q + [0, 0, 0, 0, 0.02, 0], driver.qd, 1.0)
    assert 'wrist_2_joint is 0.0' in loop.stop_reason
    assert 'from its roll-out' in loop.stop_reason


class Sticking(Cell):
    """An arm that stays where it is from so many millimetres before its goal on."""

    def __init__(self, q, T_goal, mm):
        self._T_goal, self._mm, self._stuck = T_goal, mm, None
        super().__init__(q, 0.03)

    @property
    def measured(self):
        if self._stuck is None and miss(self.driver.q, self._T_goal)[0] < self._mm:
            self._stuck = self.driver.q
        return self.driver.q if self._stuck is None else self._stuck


@pytest.mark.parametrize('method', METHODS)
def test_an_arm_that_is_held_a_little_off_its_goal_has_reached_it(method):
    """As by a part that is pressed on the table; a correction that has no effect must end."""
    path = plan(method)
    T_goal = forward(MODEL, path.q[-1])
    cell = Sticking(START, T_goal, 0.09)
    assert cell.run(loop_on(path, method)) == ''
    assert 0.08 < miss(cell.measured, T_goal)[0] < 0.09
    assert CYCLE * (len(cell.q) - 25) < path.duration + 1.5


def test_an_arm_that_is_held_further_off_its_goal_has_not_reached_it():
    path = plan('resolved_rate')
    cell = Sticking(START, forward(MODEL, path.q[-1]), 0.3)
    assert 'no progress towards the goal for 2.0 s' in cell.run(loop_on(path, 'resolved_rate'))


@pytest.mark.parametrize('conditions', [{}, {'every': 3}, {'unheard': 0.5}])
def test_what_is_in_the_way_stops_the_loop_before_its_ramp_reaches_it(conditions):
    """A bound on the tool's height that its roll-out did not know."""
    T_goal = goal_of(START, (0.05, 0.1, -0.1))
    path = plan('gradient', T_goal=T_goal)
    floor = forward(MODEL, START)[2, 3] - 0.05

    def below(q):
        low = forward(MODEL, q)[..., 2, 3].min()
        return f'tool at {low:.3f} m, the floor is at {floor:.3f} m' if low < floor else ''

    cell = Cell(START, 0.05, **conditions)
    assert 'gradient stopped: tool at' in cell.run(loop_on(path, 'gradient', why_blocked=below))
    assert forward(MODEL, np.array(cell.q))[:, 2, 3].min() >= floor - 1e-5
    assert np.abs(cell.driver.qd).max() < 0.01


@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize(
    ('late', 'says'),
    [(14, 'and for delays of network or PC'), (25, r'the arm follows 0\.2. s late')],
)
def test_a_loop_whose_segments_arrive_too_late_says_so(method, late, says):
    """They are past what they settle when they arrive; the arm stays, or trails too far."""
    cell = Cell(START, 0.03, late=late)
    outcome = cell.run(loop_on(plan(method, T_goal=goal_of(START)), method))
    assert re.search(f'{method} stopped: (no progress|.* from its reference).*{says}', outcome)
    assert np.abs(cell.driver.qd).max() < 0.01
