# SPDX-License-Identifier: Apache-2.0
"""Ports 30020 and 54321 of the e-Series: interpreter mode, and the serial line of the tool."""


def run_until(box, condition):
    """Run cycles until a condition of the running program holds."""
    for _ in range(20_000):
        if condition(box.controller.program):
            return
        box.step(1)
    raise AssertionError('the program did not get there')


def test_statements_are_answered_and_run(make_box):
    box = make_box('ur5e')
    interpreter = box.connect(30020)
    assert interpreter.ask('x = 1') == 'discard: no program runs: x = 1'
    script = box.connect(30002)
    script.send(b'def f():\n  interpreter_mode()\n  set_standard_digital_out(7, True)\nend\n')
    run_until(box, lambda program: program is not None and program.interpreter.is_active)
    assert interpreter.ask('x = = 1').startswith('discard: compile_error')
    interpreter.send(b'set_standard_digital_out(1, True)\n' * 20 + b'end_interpreter()\n')
    answers = [interpreter.line() for _ in range(21)]
    assert [answer.split(':')[1] for answer in answers] == [f' {k}' for k in range(1, 22)]
    run_until(box, lambda program: program is None)
    assert box.controller.digital_outputs == 1 << 1 | 1 << 7


def test_the_serial_line_of_the_tool_takes_bytes_and_answers_nothing(make_box):
    box = make_box('ur5e')
    line = box.connect(54321)
    line.send(bytes(range(256)) * 1000)
    assert not line.is_closed()


def test_a_cb3_has_neither_interpreter_nor_serial_line(make_box):
    assert not {'interpreter', 'tool RS-485'} & set(make_box('ur5').server.ports)
