# SPDX-License-Identifier: Apache-2.0
"""The executor's stop against a controller that answers late, has others' goals or loses ours."""

import threading

import numpy as np
import pytest

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.robot_status import HealthSettings, RobotStatus
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import HOME, JOINT_NAMES, load_model
from ur5_pick_place.planning.limits import MotionSettings, motion_limits
from ur5_pick_place.planning.trajectory import Trajectory

CYCLE = 0.008
STRANGER = b'a goal of somebody else'


class LateController:
    """A controller that answers when it is told to; the arm follows what it has accepted."""

    def __init__(self):
        self.missing = ''
        self.sent, self.running, self.strangers = [], None, set()
        self.cancels = self.holds = self.take_overs = 0
        self.q, self.drift = HOME.copy(), np.zeros(6)
        self.began = 0.0

    @property
    def goals(self):
        return frozenset(self.strangers | ({self.running.id} if self.running else set()))

    def prepare(self, trajectory):
        return trajectory

    def send(self, goal, listener):
        self.sent.append(goal)
        self.listener = listener

    def cancel(self):
        self.cancels += 1
        self.strangers.clear()
        ended, self.running = self.running, None
        if ended:
            self.listener.on_result(ended, 'goal canceled')

    def hold(self, q):
        self.holds += 1
        self.drift[:] = 0.0

    def take_over(self):
        self.take_overs += 1

    def accept(self, now):
        """Take the goal that was sent last."""
        self.running, self.began = self.sent[-1], now
        self.listener.on_answer(self.running, True)

    def move(self, now):
        before = self.q
        if self.running:
            self.q = self.running.trajectory.sample(now - self.began)[0]
            if now - self.began > self.running.trajectory.duration:
                ended, self.running = self.running, None
                self.listener.on_result(ended, '')
        self.q = self.q + self.drift
        return (self.q - before) / CYCLE


class Anything:
    """A planner whose gate takes everything."""

    limits = None
    scene = None

    def check(self, *_):
        return None


class Cell:
    def __init__(self, gate=None, watched=0.3):
        self.now, self.states, self.ends, self.silent = 100.0, [], [], False
        self.port, self.status = LateController(), RobotStatus(
            robot_mode=7, safety_mode=1, program_running=True
        )
        self.executor = ExecutionManager(
            gate or Anything(),
            self.port,
            self.status,
            (HealthSettings(), TrackingSettings()),
            '',
            self.states.append,
            lambda: self.now,
        )
        self.run(watched)

    def run(self, seconds):
        for i in range(round(seconds / CYCLE)):
            self.now += CYCLE
            qd = self.port.move(self.now)
            if not self.silent:
                self.status.update_joints(self.now, self.port.q, qd, JOINT_NAMES, self.now)
                self.executor.on_joints()
            if i % 2:
                self.executor.watch()

    def start(self):
        self.executor.start(turn(1.0, 8.0), self.ends.append)

    @property
    def state(self):
        return self.executor.motion_state


def moving():
    """Return a cell in the middle of a motion that can brake."""
    gate = Anything()
    gate.limits = motion_limits(load_model('ur5'), MotionSettings())
    cell = Cell(gate)
    cell.start()
    cell.port.accept(cell.now)
    cell.run(3.0)
    return cell


def turn(angle, seconds):
    """A slow quintic of the shoulder."""
    u = np.linspace(0.0, 1.0, 40)[:, None]
    joint = np.eye(6)[0] * angle
    return Trajectory(
        u[:, 0] * seconds,
        HOME + (10 * u**3 - 15 * u**4 + 6 * u**5) * joint,
        30 * u**2 * (1 - u) ** 2 / seconds * joint,
        60 * u * (1 - u) * (1 - 2 * u) / seconds**2 * joint,
    )


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
    assert cell.ends == ['enough']
    assert np.abs(cell.port.q - HOME).max() < 1e-3
    assert cell.state == ('stopped: enough' if latch else 'ready')


def test_a_braking_motion_that_is_not_taken_in_time_gives_way_to_a_cancel():
    cell = moving()
    cell.executor.stop('enough', latch=True)
    cell.run(0.35)
    there = cell.port.q
    assert cell.port.running is None
    cell.run(1.0)
    assert np.abs(cell.port.q - there).max() < 1e-6
    cell.run(5.0)  # until the motion that brakes can come no more
    assert cell.executor.rearm() == ''


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
    assert 'turned joint 1 by' in cell.state and cell.state.startswith('stopped: foreign motion')
    assert 'the arm is moving' in cell.executor.rearm()
    cell.run(1.0)
    assert cell.port.take_overs
    cell.port.hold = hold
    cell.run(0.5)
    assert cell.port.holds and cell.executor.rearm() == ''


def test_an_arm_that_creeps_is_noticed_by_where_it_once_rested():
    cell = Cell()
    cell.port.drift[2] = 2e-3 * CYCLE
    cell.run(6.0)
    assert 'turned joint 3 by 0.010 rad' in cell.state


def test_an_arm_led_by_hand_is_no_foreign_motion_and_gets_no_motion():
    cell = Cell()
    cell.executor.status.is_free = True
    cell.port.drift[0] = 0.2 * CYCLE
    cell.run(2.0)
    assert cell.state == 'ready'
    with pytest.raises(ExecutionError, match='freedrive'):
        cell.start()


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
    assert 'still has a goal' in cell.executor.rearm()
    cell.run(4.0)
    assert cell.executor.rearm() == ''
    assert cell.state == 'ready'


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


def test_a_trajectory_outlives_half_a_second_of_silence_and_no_more():
    cell = Cell()
    cell.start()
    cell.port.accept(cell.now)
    cell.run(2.0)
    cell.silent = True
    cell.run(0.45)
    assert cell.state == 'moving'
    cell.run(0.15)
    assert cell.state.startswith('stopped: joint_states silent for 0.5')


def test_nothing_begins_with_joints_older_than_a_tenth_of_a_second():
    cell = Cell()
    cell.silent = True
    cell.run(0.15)
    with pytest.raises(ExecutionError, match=r'joints are 0\.1. s old'):
        cell.start()


def test_a_stall_of_this_process_is_no_silence_of_the_robot_and_is_told_from_it():
    cell = Cell()
    cell.start()
    cell.port.accept(cell.now)
    cell.run(2.0)
    cell.now += 0.8  # nothing of ours was run; the joints wait to be read
    cell.port.began += 0.8
    cell.executor.watch()
    assert cell.state == 'moving'
    stamp = cell.status.stamp + CYCLE
    cell.status.update_joints(stamp, cell.port.q, np.zeros(6), JOINT_NAMES, cell.now)
    assert cell.status.gap.startswith('this PC was 0.80 s late to read joint_states')


def test_a_process_that_was_frozen_latches_and_can_be_rearmed():
    cell = Cell()
    cell.now += 5.0
    cell.executor.watch()
    assert cell.state.startswith('stopped: this node was frozen for 5.0 s')
    cell.run(0.3)
    assert cell.executor.rearm() == ''


def test_a_braking_motion_that_is_refused_gives_way_to_a_cancel():
    cell = moving()
    cell.executor.stop('paused', latch=False)
    cell.executor.on_answer(cell.port.sent[-1], False)
    cell.run(0.5)
    assert cell.port.running is None
    assert (cell.ends, cell.state) == (['paused'], 'ready')


def test_a_stop_reaches_an_arm_that_nobody_sees():
    cell = Cell()
    cell.silent = True
    cell.port.drift[0] = 0.2 * CYCLE
    cell.run(0.7)
    assert 'joint_states silent' in cell.state
    cancels = cell.port.cancels
    cell.executor.stop('stop requested', latch=True)
    cell.run(2.0)
    assert cell.port.cancels > cancels + 5 and cell.port.take_overs
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
    assert cell.executor.rearm() == ''


def test_a_stop_with_old_joints_cancels_as_a_late_ramp_would_be_joined_with_a_jolt():
    cell = moving()
    cell.silent = True
    cell.run(0.3)
    sent = len(cell.port.sent)
    cell.executor.stop('stop requested', latch=True)
    assert len(cell.port.sent) == sent and cell.port.running is None


def test_an_object_that_comes_while_a_motion_is_gated_stops_it():
    class Changing(Anything):
        def check(self, *_):
            self.scene = object()

        def obstacle(self, path):
            return 'box in the way'

    gate = Changing()
    gate.limits = motion_limits(load_model('ur5'), MotionSettings())
    cell = Cell(gate)
    cell.start()
    cell.port.accept(cell.now)
    cell.run(0.5)
    assert cell.ends == ['the scene has changed: box in the way']


def test_a_clock_that_is_set_back_ends_a_closed_loop():
    class Loop:
        stop_reason = outcome = None
        q_planned = HOME

        def tick(self, *_):
            return None

    cell = Cell()
    cell.executor.start_loop(lambda _: Loop(), turn(1.0, 8.0), cell.ends.append)
    cell.run(0.1)
    cell.now -= 5.0
    cell.status.update_joints(cell.now, HOME, np.zeros(6), JOINT_NAMES, cell.now)
    cell.executor.on_joints()
    assert 'the clock of joint_states was set back' in cell.state
