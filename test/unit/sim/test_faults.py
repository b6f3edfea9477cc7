# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the simulated cell, as the real robot shows it, and contacts; no ROS."""

import numpy as np
import pytest
from hand import GRASP_HEIGHT, Hand, hand_over
from ideal_driver import HERE, THERE, FaultyCell, answer, move, run

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.sim.controllers.controller_manager import SCALED
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.faults import FAULTS, LATENCY, LOSS
from ur5_pick_place.sim.link import Channel
from ur5_pick_place.sim.physics.world import World
from ur5_pick_place.sim.robot import ContactSettings, SafetyMode


@pytest.fixture
def cell():
    return FaultyCell()


def test_every_fault_says_what_a_person_reads_and_can_be_cleared_at_once_or_says_why():
    world = World()
    for name in FAULTS:
        cell = FaultyCell(arm=world)
        assert cell.faults.inject(name) == FAULTS[name].text
        assert cell.faults.active == (name,)
        if name == 'protective_stop':
            with pytest.raises(InvalidInput, match='until 5s after'):
                cell.clear(name)
            cell.run(5.1)
        cell.clear(name)
        assert cell.faults.active == ()


# -- stops --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('name', 'mode'),
    [
        ('protective_stop', SafetyMode.PROTECTIVE_STOP),
        ('safeguard_stop', SafetyMode.SAFEGUARD_STOP),
        ('emergency_stop', SafetyMode.ROBOT_EMERGENCY_STOP),
        ('program_paused', SafetyMode.NORMAL),
    ],
)
def test_a_stop_freezes_the_goal_and_nothing_moves_until_it_is_cleared_and_played(
    cell, name, mode
):
    goal = cell.moving()
    cell.inject(name)
    assert cell.stands(5.0)
    robot = cell.driver.robot
    assert robot.safety is mode and goal.outcome is None
    assert robot.program_running and robot.scaling == 0.0
    if name != 'program_paused':
        assert not cell.driver.dashboard.act('play').success
    cell.clear(name)
    assert robot.safety is SafetyMode.NORMAL
    if name != 'program_paused':  # taking that back is playing
        assert cell.stands() and goal.outcome is None
        if name == 'emergency_stop':
            assert not cell.driver.dashboard.act('play').success
            cell.driver.dashboard.act('power_on')
            cell.run(1.1)
            cell.driver.dashboard.act('brake_release')
            cell.run(1.1)
        assert cell.driver.dashboard.act('play').success
    cell.run(3.0)
    assert goal.outcome.status == 'succeeded'


def test_of_several_stops_the_gravest_shows_and_each_holds_the_arm(cell):
    robot = cell.driver.robot
    for name, mode in (('safeguard_stop', 5), ('protective_stop', 3), ('emergency_stop', 7)):
        cell.inject(name)
        assert robot.safety == mode
    cell.run(6.0)
    for name, left in (('emergency_stop', 3), ('protective_stop', 5), ('safeguard_stop', 1)):
        assert not cell.driver.dashboard.act('play').success
        cell.clear(name)
        assert robot.safety == left


def test_a_slider_that_someone_has_pushed_meanwhile_is_left_alone(cell):
    cell.inject('speed_slider_zero')
    answer(cell.driver, cell.driver.io.set_speed_slider(0.3))
    cell.run(0.05)
    cell.clear('speed_slider_zero')
    cell.run(0.05)
    assert cell.driver.robot.slider == 0.3


# -- joint_states -------------------------------------------------------------------------------


def told(cell, name, seconds=1.0):
    """Return what joint_states told in a motion with a fault; the arm itself moves on."""
    goal = move(cell.driver, THERE, duration=seconds)
    cell.run(CYCLE)
    cell.inject(name)
    cell.reports.clear()
    cell.run(seconds)
    cell.clear(name)
    reports = list(cell.reports)
    cell.run(0.2)
    assert goal.outcome.status == 'succeeded'
    cell.reports.clear()
    cell.run(0.5)
    assert all(report.q == pytest.approx(THERE) for report in cell.reports)
    return reports


def test_frozen_joint_states_repeat_one_position_under_new_stamps(cell):
    reports = told(cell, 'joint_states_frozen')[1:]
    assert all(np.array_equal(r.q, reports[0].q) for r in reports)
    assert np.diff([r.stamp for r in reports]) == pytest.approx(CYCLE)


def test_dropped_joint_states_tell_nothing(cell):
    assert told(cell, 'joint_states_dropped')[1:] == [None] * 124


def test_joint_states_with_nan_keep_their_stamps(cell):
    reports = told(cell, 'joint_states_nan')[1:]
    assert np.isnan([r.q for r in reports]).all()
    assert np.diff([r.stamp for r in reports]) == pytest.approx(CYCLE)


def test_jumping_joint_states_jump_and_come_back(cell):
    q = np.array([r.q for r in told(cell, 'joint_states_jumping')])
    jumps = np.flatnonzero(abs(np.diff(q[:, 0])) > 0.3)
    assert jumps.tolist() == [0, 49, 50, 99, 100]  # there and back, every fiftieth
    assert abs(np.diff(q[:, 1:], axis=0)).max() < 0.02


# -- pins ---------------------------------------------------------------------------------------


def test_a_slow_set_io_acts_and_answers_at_its_last_look(cell):
    cell.inject('set_io_slow')
    reply, taken = answer(cell.driver, cell.driver.io.set_io(1, 3, 1.0), at_most=0.6)
    assert reply and taken == pytest.approx(0.55, abs=0.02)
    assert not cell.driver.io.pins.digital_out[3]
    cell.run(2 * CYCLE)
    assert cell.driver.io.pins.digital_out[3]
    cell.clear('set_io_slow')
    assert answer(cell.driver, cell.driver.io.set_io(1, 3, 0.0))[1] < 0.1


def test_a_lying_set_io_answers_true_and_does_nothing(cell):
    cell.inject('set_io_lying')
    reply, taken = answer(cell.driver, cell.driver.io.set_io(1, 3, 1.0), at_most=0.6)
    assert reply and taken == pytest.approx(0.55, abs=0.02)
    assert answer(cell.driver, cell.driver.io.set_io(1, 99, 1.0))[0] is False
    cell.run(1.0)
    assert not cell.driver.io.pins.digital_out[3]
    cell.clear('set_io_lying')
    answer(cell.driver, cell.driver.io.set_io(1, 3, 1.0))
    cell.run(2 * CYCLE)
    assert cell.driver.io.pins.digital_out[3]


@pytest.mark.parametrize('before', [0.0, 1.0])
def test_a_stuck_output_keeps_the_gripper_as_it_was_whatever_io_states_shows(cell, before):
    def command(state):
        answer(cell.driver, cell.driver.io.set_io(1, 16, state))
        cell.run(2 * CYCLE)

    command(before)
    cell.inject('output_stuck')
    command(1.0 - before)
    assert cell.driver.io.pins.digital_out[16] == bool(1.0 - before)
    assert cell.arm.closed == bool(before)
    cell.clear('output_stuck')
    cell.run(CYCLE)
    assert cell.arm.closed == bool(1.0 - before)


def presence(cell, name, seconds):
    """Grip a part with a fault there; returns the input from that cycle on, then lets go."""
    cell.inject(name)
    cell.run(0.1)
    cell.arm.closed = cell.arm.part_between_fingers = True
    cell.driver.io.pins.digital_out[16] = True
    cell.inputs.clear()
    cell.run(seconds)
    inputs = list(cell.inputs)
    cell.clear(name)
    cell.run(CYCLE)
    assert cell.inputs[-1]
    cell.inputs.clear()
    cell.arm.part_between_fingers = False
    cell.run(0.2)
    assert not any(cell.inputs)
    return inputs


def test_a_stuck_part_present_input_keeps_its_state(cell):
    assert presence(cell, 'part_present_stuck', 2.0) == [False] * 250
    cell.arm.part_between_fingers = True
    cell.inject('part_present_stuck')
    cell.arm.part_between_fingers = False
    cell.run(1.0)
    assert cell.inputs[-1]


def test_a_bouncing_part_present_input_settles_after_a_tenth_of_a_second(cell):
    inputs = presence(cell, 'part_present_bouncing', 1.0)
    changes = np.flatnonzero(np.diff(inputs))
    assert len(changes) >= 3 and changes[-1] <= 0.1 / CYCLE
    assert inputs[0] and all(inputs[14:])


def test_a_late_part_present_input_follows_half_a_second_later(cell):
    inputs = presence(cell, 'part_present_late', 1.0)
    assert inputs.index(True) * CYCLE == pytest.approx(0.5, abs=2 * CYCLE)
    assert all(inputs[inputs.index(True):])


# -- the part -----------------------------------------------------------------------------------


def test_on_slippery_pads_the_cube_slides_out_and_is_held_again_on_dry_ones():
    world = World()
    hand = hand_over(world, 0.45, -0.2, 0.0)
    hand.grip(True)
    hand.go(0.45, -0.2, 0.1, 0.0)
    undo = FAULTS['part_slips'].inject(Driver(world))
    hand.wait(1.0)
    assert not world.hand.part_present and world.T_world_part[2, 3] < 0.03
    undo()
    hand.grip(False)
    x, y = world.T_world_part[:2, 3]
    hand.go(x, y, GRASP_HEIGHT, 0.0)
    hand.grip(True)
    hand.go(x, y, 0.1, 0.0)
    hand.wait(0.5)
    assert world.hand.part_present


def test_a_missing_part_lies_aside_and_comes_back_to_where_it_was():
    cell = FaultyCell(arm=World())
    before = cell.arm.T_world_part
    cell.inject('part_missing')
    cell.run(0.2)
    assert np.linalg.norm(cell.arm.T_world_part[:3, 3] - before[:3, 3]) > 0.5
    assert cell.arm.T_world_part[2, 3] == pytest.approx(0.0225, abs=1e-3)
    cell.clear('part_missing')
    assert cell.arm.T_world_part == pytest.approx(before, abs=1e-6)


def test_a_shifted_part_lies_ten_millimetres_off_and_is_put_back_only_if_left_alone():
    cell = FaultyCell(arm=World())
    before = cell.arm.T_world_part[:3, 3]
    cell.inject('part_shifted')
    cell.run(0.2)
    assert cell.arm.T_world_part[:3, 3] - before == pytest.approx([0.01, 0.0, 0.0], abs=1e-4)
    cell.clear('part_shifted')
    assert cell.arm.T_world_part[:3, 3] == pytest.approx(before, abs=1e-4)
    cell.inject('part_shifted')
    cell.arm.place_part(0.5, 0.2, 0.0)
    cell.clear('part_shifted')
    assert cell.arm.T_world_part[:2, 3] == pytest.approx([0.5, 0.2])


def test_a_part_in_the_hand_cannot_be_shifted(cell):
    cell.arm.closed = cell.arm.part_between_fingers = True
    with pytest.raises(InvalidInput, match='holds the cube'):
        cell.inject('part_shifted')


# -- controllers and link -----------------------------------------------------------------------


def test_an_inactive_controller_aborts_its_goal_and_rejects_others_while_the_program_runs(cell):
    goal = cell.moving()
    cell.inject('controller_inactive')
    assert cell.stands()
    assert (goal.outcome.status, goal.outcome.code) == ('aborted', -1)
    assert cell.driver.robot.program_running and cell.driver.controllers.motion == ''
    with pytest.raises(InvalidInput, match='not running'):
        move(cell.driver, THERE)
    with pytest.raises(InvalidInput, match='no motion controller'):
        cell.inject('controller_inactive')
    cell.clear('controller_inactive')
    assert cell.driver.controllers.motion == SCALED


def test_rejected_goals_leave_the_running_one_alone(cell):
    goal = cell.moving()
    cell.inject('goals_rejected')
    with pytest.raises(InvalidInput, match='rejected'):
        move(cell.driver, HERE)
    cell.run(1.0)
    assert goal.outcome.status == 'succeeded'
    cell.clear('goals_rejected')
    assert move(cell.driver, HERE) is not None


@pytest.mark.parametrize('way', ['to_clients', 'to_driver'])
def test_a_slow_link_delivers_late_and_in_order(cell, way):
    channel, heard = getattr(cell.driver.link, way), []

    def send(k, now):
        channel.send(lambda: heard.append((k, round(now_of[0], 3))), now)

    now_of = [0.0]
    cell.inject('link_latency')
    for k in range(50):
        now_of[0] = k * 0.01
        channel.advance(now_of[0])
        if k < 30:
            send(k, now_of[0])
        if k == 25:
            cell.clear('link_latency')
    assert [k for k, _ in heard] == list(range(30))
    delays = [when - 0.01 * k for k, when in heard]
    assert min(delays[:26]) >= LATENCY - 1e-9 and max(delays) <= LATENCY + 0.011
    send('now', 1.0)
    assert heard[-1][0] == 'now'


@pytest.mark.parametrize('period', [0.002, 0.008])
def test_messages_arrive_up_to_two_cycles_late_in_order_and_alike_in_every_run(period):
    def arrivals() -> np.ndarray:
        """Return the cycles in which messages were sent and arrived, shape (n, 2)."""
        channel, clock, seen = Channel(1, period), [0], []
        channel.jitter = 2
        for clock[0] in range(300):
            now, sent = 50.0 + clock[0] * period, clock[0]
            channel.advance(now)
            channel.send(lambda sent=sent: seen.append((sent, clock[0])), now)
        return np.array(seen)

    sent, arrived = arrivals().T
    assert (sent == np.arange(len(sent))).all() and len(sent) >= 298
    assert set(arrived - sent) == {0, 1, 2}
    np.testing.assert_array_equal(arrivals(), np.stack([sent, arrived], axis=1))


def test_a_lossy_link_loses_its_share_of_the_best_effort_messages_only(cell):
    channel = cell.driver.link.to_clients
    cell.inject('link_loss')
    heard = {False: 0, True: 0}
    for reliable in heard:
        for _ in range(2000):
            channel.send(lambda r=reliable: heard.__setitem__(r, heard[r] + 1), 0.0, reliable)
    assert heard[True] == 2000
    assert heard[False] == pytest.approx(2000 * (1 - LOSS), abs=80)
    cell.clear('link_loss')
    for _ in range(50):
        channel.send(lambda: heard.__setitem__(True, heard[True] + 1), 0.0)
    assert heard[True] == 2050


@pytest.mark.parametrize(
    ('name', 'flag'),
    [
        ('io_states_silent', 'io_states_silent'),
        ('set_io_absent', 'set_io_absent'),
        ('action_server_gone', 'actions_absent'),
        ('driver_killed', 'killed'),
    ],
)
def test_whoever_serves_the_clients_is_told_what_has_gone(cell, name, flag):
    assert not getattr(cell.driver.link, flag)
    cell.inject(name)
    assert getattr(cell.driver.link, flag)
    cell.clear(name)
    assert not getattr(cell.driver.link, flag)


# -- by name -------------------------------------------------------------------------------------


def test_all_faults_are_cleared_at_once_but_for_those_that_the_robot_holds(cell):
    for name in ('io_states_silent', 'protective_stop', 'part_present_late'):
        cell.inject(name)
    with pytest.raises(InvalidInput, match='protective_stop: Cannot unlock'):
        cell.faults.clear_all()
    assert cell.faults.active == ('protective_stop',)
    cell.run(5.1)
    assert cell.faults.clear_all() == 'all faults cleared'
    assert 'not injected' in cell.faults.clear('protective_stop')


def test_injecting_twice_happens_twice_and_is_cleared_together():
    cell = FaultyCell(arm=World())
    before = cell.arm.T_world_part[:3, 3]
    cell.inject('part_shifted')
    cell.inject('part_shifted')
    assert cell.arm.T_world_part[0, 3] == pytest.approx(before[0] + 0.02)
    cell.clear('part_shifted')
    assert cell.arm.T_world_part[:3, 3] == pytest.approx(before, abs=1e-4)


def test_an_unknown_fault_is_refused_with_the_nearest_name(cell):
    with pytest.raises(InvalidInput, match='did you mean link_loss'):
        cell.inject('link_los')
    with pytest.raises(InvalidInput, match='known are: protective_stop'):
        cell.clear('xyz')


def drive(driver, hand, *where):
    """Go somewhere through the driver in a second; returns the goal and the peak torque."""
    goal = move(driver, hand.joints(*where))
    torques = []
    for _ in range(round(1.3 / CYCLE)):
        driver.cycle()
        torques.append(driver.world.external_torque)
    return goal, max(torques)


def test_running_into_the_table_is_a_protective_stop_and_presses_no_longer():
    world = World()
    driver, hand = Driver(world), Hand(world)
    assert drive(driver, hand, 0.5, 0.2, 0.1, 0.0)[1] < 2.0
    goal, torque = drive(driver, hand, 0.5, 0.2, -0.05, 0.0)
    assert torque > 10.0 and goal.outcome is None
    assert driver.robot.safety is SafetyMode.PROTECTIVE_STOP
    assert 'collision' in driver.robot.popup
    assert world.external_torque < 10.0
    run(driver, 5.0)
    assert driver.dashboard.act('unlock_protective_stop').success
    driver.dashboard.act('stop')
    driver.cycle()
    driver.dashboard.act('play')
    run(driver, 0.07)  # until the controller is active again
    goal, torque = drive(driver, hand, 0.5, 0.2, 0.1, 0.0)
    assert goal.outcome.status == 'succeeded'
    assert driver.robot.safety is SafetyMode.NORMAL


@pytest.mark.parametrize('stop', ['pause', 'cancel'])
def test_the_hardest_stop_is_no_contact(stop):
    """At pi rad/s the motors saturate; the torque is the arm's own."""
    world = World()
    driver = Driver(world)
    goal = move(driver, HOME + [1.6, 0.4, -0.4, 0.8, 0.8, 0.8])
    run(driver, 0.5)
    assert abs(world.qd).max() > 2.5
    if stop == 'pause':
        driver.dashboard.act('pause')
    else:
        driver.trajectory[SCALED].cancel(goal)
    for _ in range(125):
        driver.cycle()
        assert world.external_torque < 1.0
    assert driver.robot.safety is SafetyMode.NORMAL and abs(world.qd).max() < 0.01


def test_a_knock_of_one_cycle_stops_nothing():
    cell = FaultyCell()
    for torques, stopped in (([50.0, 0.0] * 5, False), ([9.9] * 5, False), ([10.1] * 2, True)):
        for cell.arm.external_torque in torques:
            cell.cycle()
        assert (cell.driver.robot.safety is SafetyMode.PROTECTIVE_STOP) == stopped


def test_contact_settings_are_bounded():
    with pytest.raises(InvalidInput, match='contact_torque = 0'):
        ContactSettings(contact_torque=0)
