# SPDX-License-Identifier: Apache-2.0
"""
Which programs are in what a client has sent, however it was cut; and the ports of the e-Series.

30020 is interpreter mode, 54321 the serial line of the tool.
"""

import pytest

from ur5_pick_place.sim.controller.script_port import ProgramReader

DEF = b'def f():\n  if True:\n    textmsg("x")\n  end\nend\n'


@pytest.mark.parametrize(
    ('sent', 'programs'),
    [
        (b'stop program\n' + DEF, ['stop program\n', DEF.decode()]),
        (b'# a comment\n\n' + DEF, ['# a comment\n\n' + DEF.decode()]),
        (b'movej([0,0,0,0,0,0])\ntextmsg("a")\n', ['movej([0,0,0,0,0,0])\n', 'textmsg("a")\n']),
        (b'sec s():\n x()\nend\n', ['sec s():\n x()\nend\n']),
        (b'def f():\nif x:\ny()\nend\nend\n', ['def f():\nif x:\ny()\nend\nend\n']),
        (b'power on', []),
        (b'def f():\n  x()\n', []),
        (b'\xff\xfe\n', ['\ufffd\ufffd\n']),
        (b'\n\n# only this\n', []),
        (b'\xef\xbb\xbf' + DEF, ['\ufeff' + DEF.decode()]),
        (b'\tdef f():\n\t\tif x:\n\t\tend\n\tend\nx()\n',
         ['\tdef f():\n\t\tif x:\n\t\tend\n\tend\n', 'x()\n']),
        (b'def f():\r\n\tx()\r\nend\r\n', ['def f():\r\n\tx()\r\nend\r\n']),
    ],
)
def test_programs_end_in_the_column_in_which_they_begin(sent, programs):
    assert ProgramReader().take(bytearray(sent)) == programs
    reader, inbox, found = ProgramReader(), bytearray(), []
    for byte in sent:
        inbox.append(byte)
        found += reader.take(inbox)
    assert found == programs


@pytest.mark.parametrize('rest', [b'', b'  end\n'])
def test_what_has_not_ended_at_the_end_of_a_connection_is_left_to_the_compiler(rest):
    reader, inbox = ProgramReader(), bytearray(b'def f():\n  x()\n' + rest)
    assert reader.take(inbox) == []
    assert reader.take(inbox, is_complete=True) == ['def f():\n  x()\n' + rest.decode()]
    assert reader.take(inbox, is_complete=True) == []


def test_the_last_line_needs_no_newline_at_the_end_of_a_connection():
    reader, inbox = ProgramReader(), bytearray(b'def f():\n  x()\nend')
    assert reader.take(inbox) == []
    assert reader.take(inbox, is_complete=True) == ['def f():\n  x()\nend']
    assert not inbox


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
