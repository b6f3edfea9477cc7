# SPDX-License-Identifier: Apache-2.0
"""The driver's behaviour without ROS: pins, modes and dashboard over an ideal arm."""

import pytest
from ideal_driver import HERE, answer, move, run, switch
from ideal_driver import arm as arm
from ideal_driver import driver as driver

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.sim.controllers.controller_manager import IO_AND_STATUS, PASSTHROUGH, SCALED
from ur5_pick_place.sim.dashboard import Dashboard
from ur5_pick_place.sim.driver import Driver, DriverSettings
from ur5_pick_place.sim.io_controller import IoController
from ur5_pick_place.sim.robot import Robot, RobotMode, SafetyMode

# -- pins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize('pin', [0, 7, 8, 15, 16, 17])
def test_a_digital_output_changes_a_cycle_after_its_request_is_answered(driver, pin):
    request = driver.io.set_io(1, pin, 1.0)
    reply, taken = answer(driver, request)
    assert reply and taken == pytest.approx(0.06, abs=0.012)
    assert not driver.io.pins.digital_out[pin]
    driver.cycle()
    assert [i for i, on in enumerate(driver.io.pins.digital_out) if on] == [pin]
    answer(driver, driver.io.set_io(1, pin, 0.0))
    driver.cycle()
    assert not any(driver.io.pins.digital_out)


@pytest.mark.parametrize(
    ('fun', 'pin', 'state'),
    [
        (1, -1, 1.0),
        (1, 18, 1.0),
        (2, 0, 1.0),
        (3, -1, 0.5),
        (3, 2, 0.5),
        (3, 0, 1.1),
        (3, 0, -0.1),
        (4, 0, 5.0),
        (4, 0, 12.5),
        (0, 0, 1.0),
        (5, 0, 1.0),
        (1, 200, 1.0),
        (3, 0, float('nan')),
    ],
)
def test_a_request_out_of_range_is_refused_at_once(driver, fun, pin, state):
    before = repr(driver.io.pins)
    reply, taken = answer(driver, driver.io.set_io(fun, pin, state))
    assert reply is False and taken <= CYCLE + 1e-9
    run(driver, 0.2)
    assert repr(driver.io.pins) == before and driver.robot.tool_voltage == 0


@pytest.mark.parametrize('state', [0.5, -1.0, 255.0])
def test_any_state_but_zero_is_on(driver, state):
    answer(driver, driver.io.set_io(1, 3, state))
    driver.cycle()
    assert driver.io.pins.digital_out[3] is True


def test_requests_are_served_one_after_the_other(driver):
    requests = [driver.io.set_io(1, pin, 1.0) for pin in range(4)]
    times = [answer(driver, r)[1] for r in requests]
    assert all(t >= 0.05 for t in times)
    driver.cycle()
    assert driver.io.pins.digital_out[:4] == [True] * 4


def test_analog_outputs_keep_fraction_and_domain(driver):
    assert answer(driver, driver.io.set_io(3, 1, 0.25))[0]
    assert answer(driver, driver.io.set_analog_output(0, 0, 0.75))[0]
    driver.cycle()
    assert driver.io.pins.analog_out == [0.75, 0.25]
    assert driver.io.pins.analog_domain == [0, 1]
    for bad in ((2, 0, 0.5), (0, 2, 0.5), (0, 1, 1.5)):
        assert answer(driver, driver.io.set_analog_output(*bad))[0] is False


def test_the_gripper_needs_tool_voltage_and_drops_its_output_without(driver, arm):
    arm.part_between_fingers = True
    answer(driver, driver.io.set_io(1, 16, 1.0))
    run(driver, 0.05)
    assert driver.io.pins.digital_out[16] and not arm.closed
    answer(driver, driver.io.set_io(4, 0, 24.0))
    run(driver, 0.05)
    assert arm.closed and driver.io.pins.digital_in[16]
    answer(driver, driver.io.set_io(4, 0, 0.0))
    run(driver, 0.05)
    assert not arm.closed
    assert not driver.io.pins.digital_out[16] and not driver.io.pins.digital_in[16]


def test_an_inactive_io_controller_refuses(driver):
    assert switch(driver, off=[IO_AND_STATUS])[0]
    assert answer(driver, driver.io.set_io(1, 0, 1.0))[0] is False
    assert answer(driver, driver.io.set_speed_slider(0.5))[0] is False


def test_a_payload_is_answered_when_the_robot_has_it(driver):
    reply, taken = answer(driver, driver.io.set_payload(0.08, (0.0, 0.0, 0.145)))
    assert reply and taken >= 0.1
    assert driver.robot.payload == (0.08, (0.0, 0.0, 0.145))


def test_a_program_that_starts_again_has_the_payload_of_the_installation(driver):
    answer(driver, driver.io.set_payload(0.08, (0.0, 0.0, 0.145)))
    assert driver.robot.pause() and driver.robot.play()
    assert driver.robot.payload[0] == 0.08
    assert driver.robot.stop() and driver.robot.play()
    assert driver.robot.payload[0] == 0.0


@pytest.mark.parametrize(
    ('mass', 'inertia', 'reason'),
    [
        (-1.0, (0.0,) * 6, 'mass must lie in 0 to 5 kg'),
        (5.01, (0.0,) * 6, 'mass must lie in 0 to 5 kg'),
        (float('nan'), (0.0,) * 6, 'must be finite'),
        (1.0, (1e-3, 1e-3, float('nan'), 0.0, 0.0, 0.0), 'must be finite'),
        (1.0, (1e-3, 1e-3, 1e-3, 2e-3, 0.0, 0.0), 'positive semidefinite'),
        (1.0, (-1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0), 'positive semidefinite'),
    ],
)
def test_a_payload_that_cannot_be_is_refused_and_logged(driver, caplog, mass, inertia, reason):
    request = driver.io.set_payload(mass, (0.0, 0.0, 0.1), inertia)
    assert answer(driver, request)[0] is False and driver.robot.payload[0] == 0.0
    assert reason in caplog.text


def test_the_rated_payload_of_any_inertia_that_a_body_can_have_is_taken(driver):
    rod = (1e-3, 1e-3, 0.0, 0.0, 0.0, 0.0)
    assert answer(driver, driver.io.set_payload(5.0, (0.0, 0.0, 0.1), rod))[0]


def test_a_robot_without_power_supplies_no_tool_whatever_is_requested(driver):
    driver.robot.press_emergency_stop()
    for request in (driver.io.set_io(4, 0, 24.0), driver.io.set_io(1, 16, 1.0)):
        answer(driver, request)
    run(driver, 0.1)
    assert driver.robot.tool_voltage == 0 and not driver.io.pins.digital_out[16]
    assert answer(driver, driver.io.set_io(1, 3, 1.0))[0], 'the control box has power'
    driver.robot.release_emergency_stop()
    assert driver.dashboard.act('power_on').success
    run(driver, 0.1)
    assert driver.robot.tool_voltage == 24 and not driver.io.pins.digital_out[16]
    assert driver.io.pins.digital_out[3]


@pytest.mark.parametrize('controller', [SCALED, PASSTHROUGH])
def test_a_robot_stops_at_a_contact_also_while_the_pc_stands_still(arm, controller):
    driver = Driver(arm, DriverSettings(controller=controller))
    run(driver, 0.1)
    driver.pc_frozen, arm.external_torque = True, 200.0
    run(driver, 0.1)
    assert driver.robot.safety is SafetyMode.PROTECTIVE_STOP


@pytest.mark.parametrize('has_sensor', [True, False])
def test_a_sensor_of_force_is_zeroed_where_there_is_one(has_sensor):
    io = IoController(Robot(), has_force_sensor=has_sensor)
    request = io.zero_ftsensor()
    for i in range(10):
        io.update(i * CYCLE)
    assert request.reply is has_sensor


# -- speed, program, modes ----------------------------------------------------------------------


@pytest.mark.parametrize('fraction', [0.0, 0.009, 1.01, -1.0, float('nan')])
def test_the_slider_goes_from_one_to_a_hundred_percent(driver, fraction):
    assert answer(driver, driver.io.set_speed_slider(fraction))[0] is False
    assert driver.robot.scaling == 1.0


def test_a_paused_program_resumes_on_a_ramp(driver):
    assert driver.dashboard.act('pause').success
    run(driver, 0.1)
    assert driver.dashboard.act('play').success
    run(driver, 0.4)
    assert driver.robot.scaling == pytest.approx(0.5, abs=0.02)
    run(driver, 0.4)
    assert driver.robot.scaling == 1.0


def test_the_end_of_the_program_deactivates_motion_and_its_start_brings_it_back(driver, arm):
    goal = move(driver, HERE + 1.0)
    run(driver, 0.4)
    answer(driver, driver.io.hand_back_control())
    run(driver, 0.05)
    assert (goal.outcome.status, goal.outcome.code) == ('aborted', -1)
    assert driver.controllers.motion == '' and not driver.robot.program_running
    stopped = arm.q.copy()
    with pytest.raises(InvalidInput, match='not running'):
        move(driver, HERE)
    run(driver, 1.0)
    assert arm.q == pytest.approx(stopped)
    assert answer(driver, driver.io.resend_robot_program())[0]
    run(driver, 0.03)
    assert driver.controllers.motion == '' and driver.robot.program_running, 'a moment later'
    run(driver, 0.05)
    assert driver.controllers.motion == SCALED and driver.robot.program_running
    run(driver, 1.0)
    assert arm.q == pytest.approx(stopped)


def test_a_program_that_stops_before_its_controller_is_active_again_leaves_it_inactive(driver):
    driver.robot.stop()
    run(driver, 0.05)
    driver.robot.play()
    run(driver, 0.03)
    driver.robot.stop()
    run(driver, 0.5)
    assert driver.controllers.motion == ''
    driver.robot.play()
    run(driver, 0.07)
    assert driver.controllers.motion == SCALED


def test_power_off_drops_the_tool_and_the_way_back_is_on_brakes_program(driver):
    answer(driver, driver.io.set_io(4, 0, 24.0))
    answer(driver, driver.io.set_io(1, 16, 1.0))
    run(driver, 0.05)
    driver.dashboard.act('power_off')
    run(driver, 0.05)
    assert driver.robot.mode is RobotMode.POWER_OFF and driver.robot.tool_voltage == 0
    assert not driver.io.pins.digital_out[16] and not driver.robot.program_running
    assert not driver.dashboard.act('play').success
    driver.dashboard.act('power_on')
    run(driver, 1.1)
    assert driver.robot.mode is RobotMode.IDLE
    driver.dashboard.act('brake_release')
    run(driver, 1.1)
    assert driver.robot.mode is RobotMode.RUNNING and not driver.robot.program_running
    assert driver.dashboard.act('play').success
    run(driver, 0.07)
    assert driver.controllers.motion == SCALED


@pytest.mark.parametrize(
    ('line', 'words'),
    [
        ('robotmode', 'Robotmode: RUNNING'),
        ('safetymode', 'Safetymode: NORMAL'),
        ('running', 'Program running: true'),
        ('programState', 'PLAYING external_control.urp'),
        ('pause', 'Pausing program'),
        ('load other.urp', 'File not found: other.urp'),
        ('popup hello', 'showing popup'),
        ('dance', "could not understand: 'dance'"),
    ],
)
def test_a_raw_request_is_answered_in_the_servers_words(driver, line, words):
    assert driver.dashboard.raw_request(line) == words


@pytest.mark.parametrize(
    ('ur_type', 'polyscope', 'major', 'model'),
    [('ur10', '3', 3, 'UR10'), ('ur10e', '5', 5, 'UR10'), ('ur5e', 'X', 10, 'UR5')],
)
def test_version_and_model(ur_type, polyscope, major, model):
    dashboard = Dashboard(Robot(), ur_type, polyscope)
    assert dashboard.version[0] == major and dashboard.model == model
    assert dashboard.state()['polyscopeversion'].startswith(f'URSoftware {major}.')


@pytest.mark.parametrize(
    ('polyscope', 'has'),
    [
        ('3', {'user_role'}),
        ('5', {'remote_control', 'clear_operational_mode'}),
        ('X', {'remote_control', 'clear_operational_mode', 'resume'}),
    ],
)
def test_what_a_polyscope_lacks_is_refused_by_name(polyscope, has):
    dashboard = Dashboard(Robot(), 'ur5e', polyscope)
    for name in ('user_role', 'remote_control', 'clear_operational_mode', 'resume'):
        refusal = dashboard.lacking(name)
        assert (refusal is None) == (name in has), name
        assert refusal is None or refusal.text.startswith(f'PolyScope {polyscope} has no ')
    assert dashboard.act('resume').success == (polyscope == 'X')


def test_resume_continues_a_paused_program_of_polyscope_x():
    robot = Robot()
    assert robot.pause() and not Dashboard(robot, 'ur5e', '5').act('resume').success
    assert Dashboard(robot, 'ur5e', 'X').act('resume').success and robot.moves
