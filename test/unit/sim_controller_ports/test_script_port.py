# SPDX-License-Identifier: Apache-2.0
"""Which programs are in what a client has sent, however it was cut."""

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
