# SPDX-License-Identifier: Apache-2.0
"""Interpreter mode: statements one by one share the program's names, and can be dropped."""

import pytest
from script_robot import ScriptRobot

from ur5_pick_place.sim.controller.script.program import Program

TEXT = """def test():
  n = 1
  def double(x): return 2 * x end
  interpreter_mode()
  textmsg("n", n)
end
"""


@pytest.fixture
def robot():
    return ScriptRobot()


@pytest.fixture
def program(robot):
    program = Program(TEXT, robot)
    robot.cycle(program)
    assert program.interpreter.is_active and program.line == 4
    return program


def send(robot, program, *lines, cycles=3):
    answers = [program.interpreter.receive(line) for line in lines]
    for _ in range(cycles):
        robot.cycle(program)
    return answers


def test_statements_share_variables_and_functions_with_the_program(robot, program):
    answers = send(
        robot, program, 'm = double(4)', 'n = n + m', 'def add(a): n = n + a return n end',
        'if n == 9: textmsg(add(1)) end', 'end_interpreter()',
    )  # fmt: skip
    assert [answer[:8] for answer in answers] == [f'ack: {k}: ' for k in range(1, 6)]
    assert program.is_over and robot.texts() == ['10', 'n10']
    again = Program(TEXT, robot)
    robot.cycle(again)
    assert 'name_not_found:m' in again.interpreter.receive('textmsg(m)')


def test_a_bad_statement_is_discarded_and_the_rest_goes_on(robot, program):
    answers = send(robot, program, 'x = = 1', 'y = nothing', 'textmsg("on")')
    assert answers[0].startswith('discard: compile_error_syntax')
    assert answers[1] == 'discard: compile_error_name_not_found:nothing:: y = nothing'
    assert answers[2].startswith('ack: 1: ') and robot.texts() == ['on']
    assert program.interpreter.receive('statelastexecuted') == 'state: 1: statelastexecuted'


def test_waiting_statements_are_skipped_and_a_running_one_aborted(robot, program):
    send(robot, program, 'sleep(9)', 'textmsg("a")')
    assert program.interpreter.receive('stateunexecuted') == 'state: 1: stateunexecuted'
    send(robot, program, 'skipbuffer')
    send(robot, program, 'textmsg("b")')
    assert robot.texts() == []
    send(robot, program, 'abort', cycles=1)
    send(robot, program, 'textmsg("c")')
    assert robot.texts() == ['c']


def test_the_buffer_has_a_bound_and_is_cleared(robot, program):
    answers = send(robot, program, *['x = 1'] * 501, cycles=500)
    assert answers[-1].startswith('discard: too many')
    assert send(robot, program, 'x = 1')[0].startswith('discard')
    program.interpreter.receive('skipbuffer')
    program.kill()


def test_a_fault_in_a_statement_ends_the_program(robot, program):
    send(robot, program, 'x = 1 / 0')
    assert program.is_over
    assert robot.events == [('exception', 4, 3, 'division by zero')]
