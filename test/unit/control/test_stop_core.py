# SPDX-License-Identifier: Apache-2.0
"""The executor's stop against a controller that answers late, has others' goals or loses ours."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from stop_cell import CYCLE, Anything, Cell, Limited, moving, turn

from ur5_pick_place.control.controller import Goal, Phase
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.timing.ptp import concatenate

STRANGER = b'a goal of somebody else'


def test_a_new_obstacle_at_the_far_end_of_a_motion_there_and_back_stops_it_on_the_way_out():
    for seconds in (1.1, 2.9, 4.3, 5.7, 6.9, 7.7):
        gate = Limited()
        gate.why_blocked = lambda q: 'box ahead' if q[:, 0].max() > HOME[0] + 0.99 else ''
        cell = Cell(gate)
        out, back = turn(1.0, 8.0), turn(-1.0, 5.0)
        from_far = Trajectory(back.t, back.q + out.q[-1] - HOME, back.qd, back.qdd)
        motion = concatenate([out, from_far])
        cell.executor.start(motion, cell.ends.append)
        cell.port.accept(cell.now)
        cell.run(seconds)
        cell.executor.stop_if_blocked()
        cell.port.accept(cell.now)  # the braking motion
        cell.run(3.0)
        at_the_box = (
            '; the arm needs 0.15 s to brake and cannot stop before it, so the motion was '
            'canceled at once: look whether the arm has touched it'
        )
        reason = 'the scene has changed: box ahead' + (at_the_box if seconds == 7.7 else '')
        assert cell.ends == [Outcome.failed(reason)], f'on the way out at {seconds} s'


@pytest.mark.parametrize('latch', [True, False])
def test_a_goal_that_is_accepted_after_the_stop_is_canceled_then(latch):
    cell = Cell()
    cell.start()
    cell.run(0.1)
    cell.executor.stop('enough', latch)
    assert cell.port.cancels
    cell.run(0.3)
    cell.port.accept(cell.now)
    cell.run(0.5)
    assert cell.port.running is None
    assert cell.ends == [Outcome.failed('enough')]
    assert np.abs(cell.port.q - HOME).max() < 1e-3
    assert cell.state == ('stopped: enough' if latch else 'ready')


@pytest.mark.parametrize('delay', [0.1, 0.3, 1.1, 1.8])
@pytest.mark.parametrize('has_feedback', [True, False])
def test_a_goal_that_is_delivered_late_runs_and_is_stopped_without_a_jump(delay, has_feedback):
    cell = Cell(Limited())
    cell.executor.start(turn(2.0, 4.0), cell.ends.append)
    cell.run(delay)
    cell.port.accept(cell.stamp)
    cell.run(0.2)
    assert cell.state == 'moving'
    if has_feedback:
        cell.report()
    cell.executor.stop('paused', latch=False)
    if has_feedback:
        braking = cell.port.sent[-1]
        arrival = cell.stamp + CYCLE - braking.begin
        jump = np.abs(braking.trajectory.sample(arrival)[0] - cell.port.q).max()
        assert braking.stop_reason and jump < 2 * CYCLE * np.abs(cell.status.qd).max()
    else:
        assert cell.port.running is None, 'canceled, as nobody knows where it is in its plan'


@pytest.mark.parametrize('delay', [0.06, 0.1, 0.15, 0.3, 1.0])
def test_a_goal_whose_answer_alone_is_late_runs_to_its_end(delay):
    cell = Cell(Anything())
    cell.executor.start(turn(1.5, 1.0), cell.ends.append)  # up to 2.8 rad/s
    (goal,) = cell.port.sent
    cell.port.running, cell.port.began = goal, cell.stamp
    cell.run(delay)
    cell.executor.on_answer(goal, True)
    cell.run(1.5)
    assert cell.ends == [DONE] and cell.state == 'ready'


def test_the_stop_is_reported_before_the_braking_motion_is_searched_for(monkeypatch):
    """On a busy PC the search takes long, and pick_place would take the planner for hung."""
    cell, seen = moving(), []
    search = lambda *_: seen.append(cell.states[-1])  # noqa: E731
    monkeypatch.setattr(Goal, 'braking', search)
    cell.executor.stop('enough', latch=True)
    assert seen == ['stopped: enough']


def test_a_search_that_was_not_run_for_a_while_is_repeated_from_the_next_joints(monkeypatch):
    """On a busy PC; the controller would take its motion after it has begun to brake."""
    cell, search, stalls = moving(), Goal.braking, [0.09, 0.06]

    def stalled(*args):
        found = search(*args)
        cell.now += stalls.pop() if stalls else 0.0
        return found

    monkeypatch.setattr(Goal, 'braking', stalled)
    cell.executor.stop('enough', latch=True)
    cell.run(CYCLE)
    assert len(cell.port.sent) == 1 and not cell.port.cancels
    cell.run(CYCLE)
    assert [goal.begin for goal in cell.port.sent[1:]] == [cell.stamp]
    stalls[:] = [0.06] * 50  # always: after some repetitions the last one counts
    cell = moving()
    cell.executor.stop('enough', latch=True)
    cell.run(0.05)
    assert len(cell.port.sent) == 2


@pytest.mark.parametrize('has_feedback', [True, False])
def test_a_stop_right_after_the_start_waits_for_the_first_feedback_but_not_for_long(has_feedback):
    """Before it nobody knows in which cycle the controller has begun, and so where to brake."""
    cell = moving(seconds=0.016)
    cell.executor.stop('enough', latch=True)
    cell.run(0.032)
    assert not cell.port.cancels and len(cell.port.sent) == 1 and cell.port.running
    if has_feedback:
        cell.report()
    cell.run(CYCLE if has_feedback else 0.12)
    assert len(cell.port.sent) == 2 and not cell.port.cancels
    assert cell.state == 'stopped: enough'


def test_a_braking_motion_that_is_not_taken_in_time_gives_way_to_a_cancel():
    cell = moving()
    cell.executor.stop('enough', latch=True)
    cell.run(0.35)
    there = cell.port.q
    assert cell.port.running is None
    cell.run(1.0)
    assert np.abs(cell.port.q - there).max() < 1e-6
    cell.run(5.0)  # until the motion that brakes can come no more
    assert cell.executor.rearm().ok


def test_a_foreign_goal_is_canceled_and_latched_whatever_we_do():
    for is_busy in (False, True):
        cell = Cell()
        if is_busy:
            cell.start()
            cell.port.accept(cell.now)
            cell.run(1.0)
        cell.port.strangers.add(STRANGER)
        cell.run(0.05)
        assert cell.state.startswith('stopped: foreign motion: the controller has a goal')
        assert not cell.port.goals
        cell.port.strangers.add(STRANGER)  # it tries again while the stop is latched
        cell.run(0.05)
        assert not cell.port.goals


def test_an_idle_arm_that_moves_without_a_goal_is_held_and_its_controller_switched_off():
    cell = Cell()
    hold, cell.port.hold = cell.port.hold, lambda q: None
    cell.port.drift[0] = 0.2 * CYCLE
    cell.run(0.3)
    assert cell.state.startswith('stopped: foreign motion')
    assert 'turned shoulder_pan_joint by' in cell.state
    assert 'the arm is moving' in cell.executor.rearm().reason
    cell.run(1.0)
    assert cell.port.deactivations
    cell.port.hold = hold
    cell.run(0.5)
    assert cell.port.holds and cell.executor.rearm().ok


def test_a_goal_that_goes_on_though_it_is_canceled_has_its_controller_switched_off():
    cell = moving()
    cell.port.cancel = lambda: None
    cell.executor.fail('enough')
    cell.run(0.7)
    assert cell.port.running and not (cell.port.holds or cell.port.deactivations)
    cell.run(0.3)
    assert cell.port.deactivations and not cell.port.holds


def test_another_driver_ends_a_motion_and_is_named_until_it_has_gone():
    cell = moving()
    cell.port.conflict = '2 drivers'
    cell.run(0.1)
    assert cell.state == 'stopped: 2 drivers' and cell.ends == [Outcome.failed('2 drivers')]
    cell.status.bad_joints = 'the joints of one arm, then of the other'
    assert cell.executor.rearm() == Outcome.failed('the cause persists: 2 drivers')
    cell.port.conflict = cell.status.bad_joints = ''
    cell.run(1.0)
    assert cell.executor.rearm().ok


def test_an_arm_that_creeps_is_noticed_by_where_it_once_rested():
    cell = Cell()
    cell.port.drift[2] = 2e-3 * CYCLE
    cell.run(6.0)
    assert 'turned elbow_joint by 0.010 rad' in cell.state


def test_an_arm_may_settle_for_a_second_of_the_robots_time_however_slow_a_simulation_is():
    cell = Cell(pace=0.2)
    cell.executor.start(turn(0.1, 1.0), cell.ends.append)
    cell.port.accept(cell.stamp)
    cell.run(0.9)
    while not cell.ends:
        cell.run(CYCLE)
    cell.port.drift[0] = 0.02 * CYCLE
    cell.run(0.9)
    assert cell.ends == [DONE] and cell.state == 'ready'
    cell.run(0.3)
    assert cell.state.startswith('stopped: foreign motion: the arm moves')


def test_an_arm_led_by_hand_is_no_foreign_motion_and_gets_no_motion():
    cell = Cell()
    cell.executor.status.is_in_freedrive = True
    cell.port.drift[0] = 0.2 * CYCLE
    cell.run(2.0)
    assert cell.state == 'ready'
    with pytest.raises(ExecutionError, match='freedrive'):
        cell.start()


@pytest.mark.parametrize('is_stopped_before', [False, True])
def test_a_stop_ends_the_motion_of_an_arm_led_by_hand_too(is_stopped_before):
    cell = Cell()
    if is_stopped_before:
        cell.executor.stop('enough', latch=True)
        cell.run(1.0)
    cell.status.is_in_freedrive = True
    cell.port.hold = lambda q: None  # the trajectory controller is inactive
    cell.port.drift[0] = 0.2 * CYCLE
    cell.run(2.0)
    assert not cell.port.deactivations, 'it is guided by hand'
    cell.executor.stop('enough', latch=True)
    assert 'the arm is moving' in cell.executor.rearm().reason
    cell.run(1.0)
    assert cell.port.deactivations


def test_ready_and_a_rearm_wait_for_an_active_controller():
    cell, inactive = Cell(watched=0.0), 'the controller is inactive'
    cell.status.why_inactive = inactive
    cell.run(0.5)
    assert cell.state == f'stopped: {inactive}'
    cell.status.why_inactive = ''
    cell.run(0.1)
    assert cell.state == 'ready'
    cell.executor.stop('enough', latch=True)
    cell.run(3.0)
    cell.status.why_inactive = inactive
    assert cell.executor.rearm() == Outcome.failed(f'{inactive}; try again')
    cell.status.is_in_freedrive = True
    assert cell.executor.rearm().ok, 'in freedrive it is not needed'


def test_ready_waits_for_an_arm_at_rest():
    cell = Cell(watched=0.0)
    assert cell.state.startswith('stopped: no joint_states yet')
    cell.port.drift[0] = 0.2 * CYCLE
    cell.run(0.5)
    assert cell.state == 'stopped: the arm is moving'
    cell.run(1.0)
    assert cell.state.startswith('stopped: foreign motion: the arm moves')


def test_a_goal_whose_answers_were_all_lost_does_not_keep_the_latch_shut():
    cell = Cell()
    cell.start()
    cell.port.accept(cell.now)
    cell.run(2.0)
    cell.port.running = None  # it has ended, and nobody says so
    cell.executor.fail('this node was away')
    cell.run(0.5)
    assert 'still has a goal' in cell.executor.rearm().reason
    cell.port.why_not_canceled = 'it does not answer'
    assert cell.executor.rearm().reason == 'it does not answer; try again'
    cell.run(4.0)
    assert cell.executor.rearm().ok
    assert cell.state == 'ready'


@pytest.mark.parametrize(
    ('moves', 'what'),
    [(True, 'the controller has not reported it'), (False, 'its goal was not reached')],
)
def test_a_motion_whose_end_is_never_reported_says_where_the_arm_is(moves, what):
    cell = Cell()
    cell.executor.start(turn(0.01, 1.0), cell.ends.append)
    cell.port.accept(cell.now)
    goal = cell.port.running
    cell.port.listener = SimpleNamespace(on_result=lambda *_: None)
    if not moves:
        cell.port.running = None
    cell.run(6.0)
    assert abs(cell.port.q - goal.trajectory.q[-1]).max() < 1e-3 or not moves
    assert cell.ends[0].reason == (
        f'the motion has not ended in time; {what}: see the log of the driver'
    )
    assert cell.state.startswith('stopped: the motion has not')


def test_of_two_motions_that_come_at_once_the_first_is_executed():
    class Reentrant(Anything):
        def check(self, *_):
            if self.second:
                again, self.second = self.second, None
                self.thread = threading.Thread(target=again)
                self.thread.start()

    gate, refusals = Reentrant(), []
    gate.second = None
    cell = Cell(gate)

    def later():
        try:
            cell.start()
        except ExecutionError as error:
            refusals.append(str(error))

    gate.second = later
    cell.executor.start(turn(0.5, 8.0), cell.ends.append)
    gate.thread.join(10.0)
    (goal,) = cell.port.sent
    assert goal.trajectory.q[-1][0] == pytest.approx(HOME[0] + 0.5)
    assert 'planner is moving' in refusals[0]


def test_a_braking_motion_that_is_refused_gives_way_to_a_cancel():
    cell = moving()
    cell.executor.stop('paused', latch=False)
    cell.executor.on_answer(cell.port.sent[-1], False)
    cell.run(0.5)
    assert cell.port.running is None
    assert (cell.ends, cell.state) == ([Outcome.failed('paused')], 'ready')


def test_a_stop_reaches_an_arm_that_nobody_sees():
    cell = Cell()
    cell.silent = True
    cell.port.drift[0] = 0.2 * CYCLE
    cell.run(0.7)
    assert 'joint_states silent' in cell.state
    cancels = cell.port.cancels
    cell.executor.stop('stop requested', latch=True)
    cell.run(2.0)
    assert cell.port.cancels > cancels + 5 and cell.port.deactivations
    assert not cell.port.holds, 'old joints would pull it back'


def test_a_stop_at_slider_zero_leaves_nothing_that_goes_on_when_it_is_opened():
    cell = moving()
    cell.status.speed_scaling = 0.0
    for _ in range(20):
        cell.port.began += CYCLE  # the controller's time stands
        cell.run(CYCLE)
    cell.executor.stop('stop requested', latch=True)
    cell.run(0.5)
    assert cell.port.running is None
    cell.status.speed_scaling = 1.0
    there = cell.port.q
    cell.run(1.0)
    assert np.abs(cell.port.q - there).max() < 1e-6
    assert cell.executor.rearm().ok


def test_a_stop_with_old_joints_cancels_as_a_late_ramp_would_be_joined_with_a_jolt():
    cell = moving(silent=0.3)
    sent = len(cell.port.sent)
    cell.executor.stop('stop requested', latch=True)
    assert len(cell.port.sent) == sent and cell.port.running is None


def test_a_pause_with_old_joints_waits_for_recent_ones_and_brakes():
    cell = moving(silent=0.2)
    cell.executor.stop('paused', latch=False)
    assert len(cell.port.sent) == 1 and cell.port.running and not cell.port.cancels
    cell.silent = False
    cell.run(CYCLE)
    cell.port.accept(cell.port.sent[-1].begin)
    assert len(cell.port.sent) == 2 and cell.port.sent[-1].phase is Phase.BRAKING
    cell.run(3.0)
    assert not cell.port.cancels and cell.ends == [Outcome.failed('paused')]
    assert cell.executor.stops == 1, 'what was asked for after the pause is not stopped too'


def test_a_stop_while_a_pause_waits_for_recent_joints_cancels_at_once():
    cell = moving(silent=0.2)
    cell.executor.stop('paused', latch=False)
    assert not cell.port.cancels
    cell.executor.stop('stop requested', latch=True)
    assert cell.port.cancels and cell.port.running is None


def test_braking_begins_later_by_the_age_of_the_joints():
    cell = moving(silent=0.08)
    plan, before = cell.port.running, cell.stamp - 0.08
    cell.executor.stop('stop requested', latch=True)
    braking = cell.port.sent[-1]
    assert braking.begin == pytest.approx(before)
    t = before - cell.port.began
    for later in np.arange(0.0, 0.08 + 0.099, 0.01):
        expected = plan.trajectory.sample(t + later)[0]
        np.testing.assert_allclose(braking.trajectory.sample(later)[0], expected, atol=1e-6)


@pytest.mark.parametrize('late', [0.04, 0.08, 0.15, 0.3])
@pytest.mark.parametrize('lag', [0.0, 0.03])
def test_an_arm_that_somebody_else_has_stopped_is_not_set_in_motion_by_a_late_stop(late, lag):
    """pick_place cancels a goal; the planner serves its stop before it learns of that."""
    cell = moving(seconds=4.0)
    speed = cell.status.qd
    assert speed.max() > 0.2
    cell.port.running, begin = None, cell.now  # and no result yet
    while cell.now < begin + late:
        rest = np.exp(-(cell.now - begin) / lag) if lag else 0.0
        cell.port.drift = speed * CYCLE * rest
        cell.run(CYCLE)
    cell.executor.stop('enough', latch=True)
    assert len(cell.port.sent) == 1 and cell.port.cancels


def test_an_arm_that_lags_behind_its_plan_brakes_along_it():
    cell = moving(seconds=4.0)
    plan = cell.port.running.trajectory
    for lag in (0.0, 0.03, 0.08):
        cell.status.q, cell.status.qd = plan.sample(cell.now - cell.port.began - lag)[:2]
        assert cell.port.running.is_followed(cell.status, cell.now - cell.port.began)


def test_an_object_that_comes_while_a_motion_is_gated_stops_it():
    class Changing(Limited):
        def check(self, *_):
            self.scene = object()

        def why_blocked(self, path):
            return 'box in the way'

    cell = moving(Changing(), seconds=0.5)
    assert cell.ends == [Outcome.failed('the scene has changed: box in the way')]
