# SPDX-License-Identifier: Apache-2.0
"""Programs on the controller: start, pause, stops, watchdog; judged by joints of the cell."""

import struct
from time import perf_counter

import numpy as np
import pytest

from ur5_pick_place.kinematics import HOME
from ur5_pick_place.sim.controller import controller as states
from ur5_pick_place.sim.controller.personality import personality
from ur5_pick_place.sim.physics.world import CellSettings, World
from ur5_pick_place.sim.robot import SafetyMode

PRIMARY, CELL, RTDE = 30001, 29990, 30004
GOAL = HOME + [0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
MOVE = f'def turn():\n  movej({GOAL.tolist()}, a=2.0, v=1.0)\n  textmsg("there")\nend\n'


def until(box, is_true, seconds=20.0):
    for _ in range(round(seconds / box.controller.step_time)):
        if is_true():
            return
        box.step(1)
    raise AssertionError(f'not within {seconds} s')


@pytest.fixture
def box(make_box):
    return make_box('ur5')


@pytest.fixture
def send(box):
    """Send a program and wait until it runs."""

    def send(text):
        wire = box.connect(PRIMARY)
        wire.send(text.encode())
        until(box, lambda: box.controller.program is not None)
        return wire

    return send


def ask(box, line):
    wire = box.dashboard()
    answer = wire.ask(line)
    wire.socket.close()
    return answer


def test_a_program_starts_speaks_and_stops_in_this_order(box, send):
    wire = send(MOVE)
    said = []
    while b'STOPPED' not in b''.join(said):
        kind, body = wire.primary()
        said += [body] if kind == 20 else []
    words = b'PROGRAM_XXX_STARTEDturn', b'there', b'PROGRAM_XXX_STOPPEDturn'
    places = [b''.join(said).index(word) for word in words]
    assert places == sorted(places)
    np.testing.assert_allclose(box.controller.q, GOAL, atol=2e-3)


@pytest.mark.parametrize('program', [b'textmsg("x")\n', b'sleep(100)\n'])
def test_a_new_program_replaces_the_running_one_and_the_arm_brakes(box, send, program):
    send(MOVE)
    until(box, lambda: box.controller.qd[0] > 0.5)
    box.connect(PRIMARY).send(program)
    until(box, lambda: box.controller.target_qd[0] < 0.4)
    speeds = []
    for _ in range(100):
        box.step(1)
        speeds.append(box.controller.target_qd[0])
        assert box.controller.runtime_state in (states.STOPPING, states.STOPPED, states.PLAYING)
    assert speeds[-1] == 0.0 and min(speeds) >= 0.0, 'it stays where it has come to rest'
    assert np.abs(np.diff(speeds)).max() <= 8.0 * 0.008 + 1e-9, 'it brakes within limits'


def test_pause_and_play_go_on_on_the_path(box, send):
    send(MOVE)
    until(box, lambda: box.controller.qd[0] > 0.5)
    assert ask(box, 'pause') == 'Pausing program'
    until(box, lambda: box.controller.runtime_state == states.PAUSED)
    assert ask(box, 'programState') == 'PAUSED <unnamed>'
    box.step_seconds(1.0)
    q = box.controller.q
    assert q[0] < GOAL[0] - 0.05 and not box.controller.speed_scaling
    box.step_seconds(1.0)
    np.testing.assert_array_equal(box.controller.q, q)
    assert ask(box, 'play') == 'Starting program'
    until(box, lambda: box.controller.program is None)
    np.testing.assert_allclose(box.controller.target_q, GOAL, atol=1e-6)


def test_after_a_protective_stop_play_goes_on_where_the_stop_was(box, send):
    send(MOVE)
    until(box, lambda: box.controller.qd[0] > 0.5)
    cell = box.connect(CELL)
    cell.ask('protective_stop')
    box.step_seconds(1.0)
    assert not box.controller.target_qd.any() and box.controller.q[0] < GOAL[0] - 0.05
    assert ask(box, 'play') == 'Failed to execute: play'
    cell.ask('unlock')
    until(box, lambda: box.controller.robot.safe)
    assert ask(box, 'play') == 'Starting program'
    steps = []
    while box.controller.program is not None:
        before = box.controller.target_q
        box.step(1)
        steps.append(np.abs(box.controller.target_q - before).max() / 0.008)
    np.testing.assert_allclose(box.controller.target_q, GOAL, atol=1e-6)
    assert max(steps) < 1.1


def test_a_program_that_asks_for_a_protective_stop_may_end_in_it(box):
    wire = box.connect(PRIMARY)
    wire.send(b'protective_stop()\n')
    assert struct.unpack_from('>i', wire.message(6)) == (209,)
    until(box, lambda: box.controller.program is None, 2.0)
    assert not box.controller.robot.safe


def test_play_starts_what_is_loaded(make_box, tmp_path):
    (tmp_path / 'turn.script').write_text(MOVE)
    box = make_box('ur5', programs=tmp_path)
    wire = box.dashboard()
    assert wire.ask('load /programs/turn.urp') == 'Loading program: /programs/turn.urp'
    assert wire.ask('get loaded program') == 'Loaded program: /programs/turn.urp'
    assert wire.ask('load ../other.urp') == 'File not found: ../other.urp'
    assert wire.ask('play') == 'Starting program'
    until(box, lambda: box.controller.program is not None)
    assert wire.ask('programState') == 'PLAYING turn.urp'
    until(box, lambda: box.controller.program is None)
    np.testing.assert_allclose(box.controller.target_q, GOAL, atol=1e-6)


def test_an_emergency_stop_cuts_power_and_ends_the_program(box, send):
    send(MOVE)
    cell = box.connect(CELL)
    cell.ask('emergency_stop')
    assert ask(box, 'robotmode') == 'Robotmode: POWER_OFF'
    assert ask(box, 'safetymode') == 'Safetymode: ROBOT_EMERGENCY_STOP'
    assert ask(box, 'power on') == 'Failed to execute: power on'
    assert box.controller.program is None and not box.controller.tool_voltage
    cell.ask('release_emergency_stop')
    assert ask(box, 'brake release') == 'Brake releasing'
    until(box, lambda: box.controller.robot.mode.name == 'RUNNING')
    box.step_seconds(1.0)
    assert box.controller.q[0] < GOAL[0] - 0.05


@pytest.mark.parametrize(('command', 'fraction'), [('slider 0.5', 0.5), ('reduced 1', 0.5)])
def test_slider_and_reduced_mode_slow_a_program_down(make_box, command, fraction):
    def duration(box):
        box.connect(PRIMARY).send(MOVE.encode())
        until(box, lambda: box.controller.program is not None)
        start = box.controller.time
        until(box, lambda: box.controller.program is None)
        return box.controller.time - start

    fast, slow = make_box('ur5'), make_box('ur5')
    slow.connect(CELL).ask(command)
    c = slow.controller
    assert (c.speed_scaling, c.robot.slider) in [(1.0, 0.5), (0.5, 1.0)], 'clients multiply both'
    assert duration(slow) == pytest.approx(duration(fast) / fraction, rel=0.1)


def test_a_program_that_feels_for_the_table_is_not_stopped(box, send):
    send(
        'def feel():\nset_tcp(p[0, 0, 0.145, 0, 0, 0])\nzero_ftsensor()\n'
        'movej(get_inverse_kin(p[-0.5, 0, 0.05, 0, 3.14159, 0]), 2, 2)\n'
        'while tool_contact() == 0:\nspeedl([0, 0, -0.1, 0, 0, 0], 1.2, 0.008)\nend\n'
        'stopl(3)\nmovel(get_actual_joint_positions_history(5))\nend\n'
    )
    c = box.controller
    until(box, lambda: c.program is None)
    height = (c.forward(c.q) @ c.tcp)[2, 3]
    assert c.robot.safe and 0.0 < height < 0.03


def test_a_collision_is_a_protective_stop_that_does_not_jolt(box, send):
    controller = box.controller
    send('def down():\n  p = get_actual_tcp_pose()\n  p[2] = p[2] - 0.6\n  movel(p)\nend\n')
    fastest = 0.0  # before the stop
    while controller.robot.safe:
        fastest = max(fastest, np.abs(controller.qd).max())
        box.step(1)
    assert controller.safety is SafetyMode.PROTECTIVE_STOP
    for _ in range(63):
        box.step(1)
        assert np.abs(controller.qd).max() < 1.05 * fastest
    q = controller.q
    box.step_seconds(0.5)
    np.testing.assert_allclose(controller.q, q, atol=1e-3)
    assert controller.forward(q)[2, 3] > 0.1, 'the fingers are on the table'


@pytest.mark.parametrize('action', ['pause', 'STOP'])
def test_a_watchdog_acts_when_its_input_is_not_written(box, send, action):
    wire = box.connect(RTDE)
    wire.request('I', b'input_int_register_0')
    name = 'input_int_register_0'
    send(f'def f():\n  rtde_set_watchdog("{name}", 2, "{action}")\n  while True:\n    sync()\n'
         '  end\nend\n')
    for k in range(1, 6):
        wire.send(struct.pack('>HBBi', 8, ord('U'), 1, k))
        while box.controller.input_ints[0] != k:  # the clock stands still meanwhile
            box.server.network.serve(perf_counter() + 0.01)
        box.step_seconds(0.2)
    assert box.controller.runtime_state == states.PLAYING
    box.step_seconds(1.0)
    expected = states.PAUSED if action == 'pause' else states.STOPPED
    assert box.controller.runtime_state == expected


@pytest.mark.parametrize('jump', [0.2, 0.5, 1.5, 6.0])
@pytest.mark.parametrize('ur_type', ['ur5', 'ur5e'])
def test_a_target_that_jumps_away_stops_the_arm_before_it_is_too_fast(make_box, ur_type, jump):
    box = make_box(ur_type)
    controller = box.controller
    box.connect(PRIMARY).send(
        f"""def f():
  q = get_actual_joint_positions()
  q[0] = q[0] + {jump}
  while True:
    servoj(q, t=get_steptime(), lookahead_time=0.03, gain=2000)
  end
end
""".encode()
    )
    until(box, lambda: not controller.robot.safe)
    box.step_seconds(1.0)
    assert controller.safety is SafetyMode.PROTECTIVE_STOP and not controller.qd.round(3).any()
    assert np.abs(controller.q - HOME).max() < 0.9, 'way to accelerate and to brake from pi rad/s'


def test_in_freedrive_the_arm_can_be_moved_and_stays(box, send):
    send('def f():\n  freedrive_mode()\n  sleep(1)\n  end_freedrive_mode()\n  sleep(0.5)\nend\n')
    until(box, lambda: box.controller.is_free)
    box.controller.world._data.qvel[0] = 0.5
    until(box, lambda: box.controller.program is None)
    assert box.controller.q[0] > 0.01
    np.testing.assert_allclose(box.controller.target_q, box.controller.q, atol=1e-2)


def test_a_program_is_not_started_while_the_arm_is_off(box):
    wire = box.connect(PRIMARY)
    wire.send(b'power off\n' + MOVE.encode())
    assert wire.message(0) == b'program not started: the robot is POWER_OFF, NORMAL'
    assert box.controller.program is None


@pytest.mark.parametrize(('mounting', 'up'), [('wall', (1, 0, 0)), ('ceiling', (0, 0, -1))])
def test_a_mounted_arm_stays_where_it_is_and_reports_where_up_is(mounting, up):
    settings = CellSettings(ur_type='ur5e', mounting=mounting)
    robot = states.Controller(personality('ur5e'), settings=settings)
    begin = robot.q.copy()
    for _ in range(500):
        robot.cycle()
    assert robot.q == pytest.approx(begin, abs=1e-3)
    assert robot.gravity == pytest.approx(9.82 * np.array(up))  # in the controller's base
    down = robot.forward(robot.q)[:3, 2]  # of a tool that points down at home
    assert down @ up == pytest.approx(-1.0, abs=1e-3)


@pytest.mark.parametrize('ur_type', ['ur5', 'ur5e'])
def test_servoj_as_urs_driver_calls_it_moves_the_arm_as_the_drivers_face_does(make_box, ur_type):
    """Both get the same setpoint in the same cycle; up to 2 rad/s."""
    box = make_box(ur_type)
    controller = box.controller
    face = World(CellSettings(ur_type=ur_type), HOME)
    box.connect(PRIMARY).send(b"""def follow():
  q = get_actual_joint_positions()
  first = q[0]
  t = 0
  while True:
    t = t + get_steptime()
    q[0] = first + 0.5 - 0.5 * cos(4 * t)
    servoj(q, t=get_steptime(), lookahead_time=0.03, gain=2000)
  end
end
""")
    while controller.program is None:
        box.step(1)
    until = controller.time + 1.8
    t = 0.0
    while controller.time < until:
        t += box.controller.step_time
        face.step(HOME + [0.5 - 0.5 * np.cos(4.0 * t), 0, 0, 0, 0, 0])
        assert controller.q == pytest.approx(face.q, abs=2e-4)
        assert controller.q == pytest.approx(controller.target_q, abs=5e-4)
        box.step(1)
