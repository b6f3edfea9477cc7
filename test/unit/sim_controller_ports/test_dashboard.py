# SPDX-License-Identifier: Apache-2.0
"""The dashboard's lines, as UR's article and the client library's patterns have them."""

import pytest

CELL = 29990


@pytest.fixture
def dashboard(shared_box):
    wire = shared_box.dashboard()
    yield wire
    wire.socket.close()
    shared_box.step(2)


@pytest.mark.parametrize(
    ('line', 'answer'),
    [
        ('robotmode', 'Robotmode: RUNNING'),
        ('SafetyMode', 'Safetymode: NORMAL'),
        ('programState', 'STOPPED <unnamed>'),
        ('running', 'Program running: false'),
        ('get robot model', 'UR5'),
        ('is in remote control', 'true'),
        ('load x.urp', 'File not found: x.urp'),
        ('load installation default.installation', 'Loading installation: default.installation'),
        ('addToLog', 'No log message to add'),
        ('popup Hello', 'showing popup'),
        ('close popup', 'closing popup'),
        ('play', 'Failed to execute: play'),
        ('pause', 'Failed to execute: pause'),
        ('stop', 'Stopped'),
        ('unlock protective stop', 'Protective stop releasing'),
        ('set operational mode manual', 'Operational mode MANUAL is set'),
        ('setUserRole NONE', "could not understand: 'setUserRole NONE'"),
        ('', "could not understand: ''"),
        ('brake_release', "could not understand: 'brake_release'"),
    ],
)
def test_answers(dashboard, line, answer):
    assert dashboard.ask(line) == answer


def test_version_is_between_blank_and_bracket(dashboard):
    assert dashboard.ask('PolyscopeVersion').startswith('URSoftware 5.22.0.')
    assert ' (' in dashboard.ask('PolyscopeVersion')


def test_quit_ends_the_connection(dashboard):
    assert dashboard.ask('quit') == 'Disconnected'
    assert dashboard.is_closed()


def test_a_line_without_end_ends_the_connection(dashboard):
    dashboard.send(b'x' * 10_000)
    assert dashboard.is_closed()


def test_power_cycle_takes_its_time_and_the_tool_its_voltage(make_box):
    box = make_box()
    wire = box.dashboard()
    assert wire.ask('power off') == 'Powering off'
    assert wire.ask('robotmode') == 'Robotmode: POWER_OFF' and not box.controller.tool_voltage
    assert wire.ask('play') == 'Failed to execute: play'
    assert wire.ask('power on') == 'Powering on'
    assert wire.ask('robotmode') == 'Robotmode: POWER_ON'
    box.step_seconds(1.1)
    assert wire.ask('robotmode') == 'Robotmode: IDLE'
    assert wire.ask('brake release') == 'Brake releasing'
    box.step_seconds(1.1)
    assert wire.ask('robotmode') == 'Robotmode: RUNNING' and box.controller.tool_voltage == 24
    assert wire.ask('restart safety') == 'Restarting safety'
    assert wire.ask('robotmode') == 'Robotmode: BOOTING'


def test_protective_stop_is_not_unlocked_within_5_s(make_box):
    box = make_box()
    wire, cell = box.dashboard(), box.connect(CELL)
    assert cell.ask('protective_stop') == 'ok'
    assert wire.ask('safetymode') == 'Safetymode: PROTECTIVE_STOP'
    assert wire.ask('unlock protective stop').startswith('Cannot unlock protective stop until 5s')
    box.step_seconds(5.1)
    assert wire.ask('unlock protective stop') == 'Protective stop releasing'
    assert wire.ask('safetymode') == 'Safetymode: NORMAL'


def test_under_local_control_an_e_series_does_nothing(make_box):
    wire = make_box('ur5e', is_cold=True).dashboard()
    assert wire.ask('is in remote control') == 'false'
    for command in ('power on', 'close safety popup', 'load x.urp', 'load installation x'):
        assert wire.ask(command).startswith('Command is not allowed due to safety reasons, ')
    assert wire.ask('robotmode') == 'Robotmode: POWER_OFF'


@pytest.mark.parametrize(
    ('line', 'answer'),
    [
        ('emergency_stop', 'ok'),
        ('slider 2', 'error: slider 2: must be 0 to 1'),
        ('slider', 'error: slider: must be slider FRACTION'),
        ('slider nan', 'error: slider nan: must be slider FRACTION'),
        ('input 16 1', 'error: input 16: must be 0 to 15'),
        ('part 99 0 0', 'error: part at (99.0, 0.0'),
        ('dance', "error: unknown command 'dance'; known are: state, protective_stop"),
    ],
)
def test_the_cell_port_says_what_it_cannot_do(make_box, line, answer):
    assert make_box().connect(CELL).ask(line).startswith(answer)


def test_the_gripper_closes_on_a_tool_output(make_box):
    box = make_box()
    box.controller.digital_outputs = 1 << 16
    box.step_seconds(1.5)
    assert box.controller.world.hand.travel.sum() > 0.06
    box.controller.tool_voltage = 0
    box.step_seconds(1.5)
    assert box.controller.world.hand.travel.sum() < 0.01, 'without power it opens'
