# SPDX-License-Identifier: Apache-2.0
"""Threads of a program, the time that they spend, messages, pins and registers."""

import pytest
from script_robot import ScriptRobot

from ur5_pick_place.sim.controller.script import program as module
from ur5_pick_place.sim.controller.script import values
from ur5_pick_place.sim.controller.script.program import Program


def run(text, seconds=5.0, **settings):
    """Run a program's lines to its end; return the robot."""
    robot = ScriptRobot()
    for name, value in settings.items():
        setattr(robot, name, value)
    assert robot.run(f'def test():\n{text}\nend\n', seconds).is_over
    return robot


@pytest.mark.parametrize(
    ('scale', 'body', 'cycles'),
    [
        (1.0, 'sync()', 1),
        (0.1, 'sync()\nsync()', 2),
        (1.0, 'sleep(0.08)', 10),
        (1.0, 'sleep(0.004)\nsleep(0.004)\nsleep(0.004)', 2),  # three halves of a cycle
        (0.5, 'sleep(0.08)', 20),
        (1.0, 'i = 0\nwhile i < 3:\n i = i + 1\n sync()\nend', 3),
        (1.0, 'servoj(get_joint_positions(), t=0.024)', 3),
        (0.25, 'servoj(get_joint_positions(), t=0.008)', 4),
        (1.0, 'speedj([0, 0, 0, 0, 0, 0], 1, 0.02)', 3),
    ],
)
def test_instructions_spend_robot_time(scale, body, cycles):
    robot = run(f'{body}\nset_flag(0, True)', time_scale=scale)
    assert robot.flags[0] and cycles - 1 <= len(robot.targets) - 1 <= cycles


def test_threads_share_the_cycle_and_the_variables():
    robot = run(
        'n = 0\nthread count():\n while True:\n  n = n + 1\n  sync()\n end\nend\n'
        'a = run count()\nb = run count()\nsleep(0.08)\nkill a\n'
        'write_output_integer_register(0, n)\n'
        'sleep(0.08)\nwrite_output_integer_register(1, n)\nkill b\nkill 0\njoin 0\njoin b\n'
        'm = n\nsleep(0.08)\ntextmsg(n == m)'
    )
    assert robot.output_ints[0] == pytest.approx(20, abs=2)
    assert robot.output_ints[1] - robot.output_ints[0] == pytest.approx(10, abs=1)
    assert robot.texts() == ['True']


def test_a_thread_dies_with_the_one_that_started_it_and_may_kill_itself():
    robot = run(
        'n = 0\nme = 0\n'
        'thread child():\n while True:\n  n = n + 1\n  sync()\n end\nend\n'
        'thread parent():\n run_id = run child()\n sleep(1)\nend\n'
        'thread suicide():\n sync()\n kill me\n n = 1000\nend\n'
        'p1 = run parent()\nme = run suicide()\nsleep(0.08)\nkill p1\nm = n\nsleep(0.08)\n'
        'textmsg(m == n)\ntextmsg(m < 100)\njoin me\ntextmsg("joined")'
    )
    assert robot.texts() == ['True', 'True', 'joined']


def test_join_waits_and_the_end_of_the_program_ends_all():
    robot = run(
        'thread t():\n sleep(0.1)\n textmsg("t")\n sleep(9)\n textmsg("late")\nend\n'
        'thread u():\n sleep(0.2)\n textmsg("u")\nend\nr = run t()\ns = run u()\njoin s\n'
        'textmsg("m")'
    )
    assert robot.texts() == ['t', 'u', 'm']


def test_a_critical_section_is_no_mutex_but_is_not_interrupted():
    robot = run(
        'n = 0\nthread t():\n while True:\n  enter_critical\n  n = n + 1\n  sync()\n'
        '  exit_critical\n'
        ' end\nend\nr = run t()\nenter_critical\ni = 0\nm = n\nsleep(0.04)\ntextmsg(n > m)\n'
        'm = n\n'
        'while i < 3000:\n i = i + 1\nend\ntextmsg(n == m)\nexit_critical'
    )
    assert robot.texts() == ['True', 'True']


def test_long_computing_takes_cycles_and_lets_others_run():
    robot = run(
        'n = 0\nthread t():\n while True:\n  n = n + 1\n  sync()\n end\nend\nr = run t()\ni = 0\n'
        'while i < 5000:\n i = i + 1\nend\nwrite_output_integer_register(0, n)'
    )
    assert 5 < robot.output_ints[0] < 100


def test_halt_ends_the_program_wherever_it_stands():
    robot = run('thread t():\n sleep(0.05)\n halt\nend\nr = run t()\nwhile True:\n sync()\nend')
    assert len(robot.targets) < 12


def test_two_threads_that_move_at_once_are_an_error():
    robot = run(
        'thread t():\n while True:\n  servoj([0, 0, 0, 0, 0, 0], t=0.008)\n end\nend\n'
        'r = run t()\n'
        'while True:\n speedj([0, 0, 0, 0, 0, 0], 1, 0.008)\nend'
    )
    assert 'another thread is already controlling the robot' in robot.events[-1][3]


def test_a_secondary_program_runs_in_one_step_and_may_not_take_time():
    robot = ScriptRobot()
    program = Program('sec test():\n set_digital_out(1, True)\nend\n', robot)
    assert program.is_secondary and program.name == 'test'
    robot.cycle(program)
    assert program.is_over and robot.digital_outputs == 2
    program = Program('sec test():\n sleep(1)\nend\n', robot)
    robot.cycle(program)
    assert program.is_over and robot.events[-1][0] == 'exception'


def test_what_the_ports_have_computed_is_not_charged_to_a_program():
    robot = ScriptRobot()
    program = Program('sec test():\n set_digital_out(1, True)\nend\n', robot)
    values.WORK[0] = 10_000
    program.step()
    assert program.is_over and robot.digital_outputs == 2


def test_a_line_is_a_program_of_its_own():
    robot = ScriptRobot()
    program = robot.run('set_tool_voltage(24)\n')
    assert program.is_over and robot.tool_voltage == 24 and program.name == 'unnamed'


def test_a_text_that_comes_again_starts_anew_without_being_compiled(monkeypatch):
    lines = 'global n = 0\nwhile n < 3:\n n = n + 1\n textmsg(n)\n sync()\nend'
    run(lines)
    monkeypatch.setattr(module, 'Parser', None)
    assert run(lines).texts() == ['1', '2', '3']


def test_the_line_of_the_main_thread_is_known():
    robot = ScriptRobot()
    program = Program('def f():\n  def g():\n    sleep(0.1)\n  end\n  sync()\n  g()\nend\n', robot)
    for line in (5, 3):
        robot.cycle(program)
        assert program.line == line
    assert robot.run('sync()\n').line == 0, 'over'


def test_a_blocking_popup_waits_for_a_person():
    robot = ScriptRobot()
    program = Program('popup("a", title="b", blocking=True, error=True)\ntextmsg("on")\n', robot)
    for _ in range(5):
        robot.cycle(program)
    assert robot.events == [('popup', 'a', 'b', 'error')]
    robot.popup_open = False
    robot.cycle(program)
    assert program.is_over and robot.texts() == ['on']


def test_pins_registers_and_the_load():
    robot = run(
        'set_digital_out(0, True)\nset_configurable_digital_out(1, True)\n'
        'set_tool_digital_out(1, True)\n'
        'digital_out[3] = True\ntextmsg(digital_out[3])\nset_digital_out(0, False)\n'
        'textmsg([get_digital_in(2), get_configurable_digital_in(0), get_tool_digital_in(0)])\n'
        'set_standard_analog_out(1, 0.25)\nset_analog_outputdomain(1, 1)\n'
        'textmsg(get_standard_analog_in(0))\n'
        'write_output_integer_register(7, read_input_integer_register(3) + 1)\n'
        'write_output_float_register(7, read_input_float_register(3) / 2)\n'
        'write_output_boolean_register(64, not read_input_boolean_register(0))\n'
        'set_payload(1.0, (0, 0, 0.1))\nset_gravity([0, 0, 9.82])\n'
        'set_tcp(p[0, 0, 0.2, 0, 0, 0])\n'
        'set_flag(3, get_flag(4))\nrtde_set_watchdog("input_int_register_0", 10, "PAUSE")\n'
        'textmsg(get_target_payload(), get_tcp_offset())',
        digital_inputs=0b1_0000_0001_0000_0100,
        analog_inputs=[2.5, 0.0, 0.0, 0.0],
        input_ints=[0, 0, 0, 41] + [0] * 44,
        input_floats=[0.0, 0.0, 0.0, 5.0] + [0.0] * 44,
    )
    assert robot.digital_outputs == 1 << 9 | 1 << 17 | 1 << 3
    assert robot.texts() == ['True', '[True, True, True]', '2.5', '1p[0, 0, 0.2, 0, 0, 0]']
    assert robot.analog_outputs == [0.0, 0.25] and robot.analog_output_types == 2
    assert robot.output_ints[7] == 42 and robot.output_floats[7] == 2.5 and robot.output_bits[64]
    assert robot.payload == 1.0 and robot.payload_cog.tolist() == [0, 0, 0.1]
    assert robot.events[-2] == ('watchdog', 'input_int_register_0', 10.0, 'pause')
