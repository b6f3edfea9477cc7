# SPDX-License-Identifier: Apache-2.0
"""Programs of PolyScope, written here in its format, and a PC that serves External Control."""

import contextlib
import gzip
import socket
import threading

import pytest

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim import urp


def program(*nodes, once='true', before=''):
    main = f'<MainProgram runOnlyOnce="{once}"><children>{"".join(nodes)}</children></MainProgram>'
    return f'<URProgram><children>{before}{main}</children></URProgram>'.encode()


def expression(text):
    signs = ''.join(f'<ExpressionChar character="{sign}"/>' for sign in text)
    return f'<expression>{signs}</expression>'


LINE = f'<Script type="Line">{expression("sync()")}</Script>'
EXTERNAL = '<Contributed strategyProgramNodeType="External Control"><dataModel/></Contributed>'
ASSIGNMENT = (
    '<SpecialSequence type="BeforeStart"><children><Assignment valueSource="Expression">'
    f'<variable name="goal"/>{expression("p[0,0,0,0,0,1]")}</Assignment></children>'
    '</SpecialSequence>'
)
REFERENCE = '../../../../../../SpecialSequence/children/Assignment/variable'


@pytest.mark.parametrize(
    ('data', 'script'),
    [
        (program(LINE), 'sync()'),
        (program('<Comment comment="x"/>', LINE, once='false'), 'while True: sync() end'),
        (program('<Wait type="Sleep"><waitTime>0.5</waitTime></Wait>'), 'sleep(0.5)'),
        (
            program(f'<If type="If">{expression("a≟1")}<children>{LINE}</children></If>'),
            'if a==1: sync() end',
        ),
        (
            program(
                '<Move motionType="MoveL" speed="0.1" acceleration="1.2"><children><Waypoint '
                f'type="Variable"><variable reference="{REFERENCE}"/></Waypoint></children>'
                '</Move>',
                before=ASSIGNMENT,
            ),
            'global goal = p[0,0,0,0,0,1] movel(goal, 1.2, 0.1)',
        ),
        (
            program(
                LINE,
                before='<Thread name="t" runOnlyOnce="true"><children><Loop type="Forever">'
                f'<children>{LINE}</children></Loop></children></Thread>',
            ),
            'thread t(): while True: sync() end end run t() sync()',
        ),
    ],
)  # fmt: skip
def test_nodes_become_statements(data, script):
    for form in (data, gzip.compress(data)):
        words = urp.script_of(form, 'x').split()
        assert ' '.join(words) == f'def x(): {script} end'


@pytest.mark.parametrize(
    ('data', 'reason'),
    [
        (b'', 'no program of PolyScope'),
        (b'\x1f\x8b\x08', 'no program of PolyScope'),
        (program('<Palletize type="Grid"/>'), 'node Palletize Grid: .* is not simulated'),
        (program('<Waypoint type="Variable"/>'), "node Waypoint Variable: 'call'"),
        (program('<Assignment><variable reference="../x"/></Assignment>'), 'variable ../x'),
        (program('<Folder><children>' * 2000 + '</children></Folder>' * 2000), 'too deeply'),
    ],
)
def test_what_is_not_simulated_is_named(data, reason):
    with pytest.raises(InvalidInput, match=reason):
        urp.script_of(data, 'x')


def test_load_and_play_request_the_program_of_external_control(make_box, tmp_path, monkeypatch):
    (tmp_path / 'control.urp').write_bytes(program(EXTERNAL))
    (tmp_path / 'broken.urp').write_bytes(program('<Palletize type="Grid"/>'))
    box = make_box(programs=tmp_path)
    wire = box.dashboard()
    assert wire.ask('load broken.urp') == 'Error while loading program: broken.urp'
    assert wire.ask('load control.urp') == 'Loading program: control.urp'
    with socket.create_server(('127.0.0.1', 0)) as pc:
        monkeypatch.setattr(urp, '_PORT', pc.getsockname()[1])
        asked = []

        def serve():
            link, _ = pc.accept()
            with link:
                asked.append(link.recv(64))
                link.sendall(b'# HEADER_BEGIN\ndef f():\n write_output_integer_register(0, 7)\n')
                link.sendall(b'end\n# HEADER_END\nf()\nsleep(100)\n')

        server = threading.Thread(target=serve)
        server.start()
        assert wire.ask('play') == 'Starting program'
        while wire.ask('programState') != 'PLAYING control.urp':
            box.step(1)
        box.step(1)
        server.join()
    assert asked == [b'request_program\n'] and box.controller.output_ints[0] == 7


def test_without_a_pc_a_popup_tells_of_it(make_box, tmp_path, monkeypatch):
    (tmp_path / 'control.urp').write_bytes(program(EXTERNAL))
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))  # which does not listen
        monkeypatch.setattr(urp, '_PORT', free.getsockname()[1])
        box = make_box(programs=tmp_path)
        wire = box.dashboard()
        assert wire.ask('load control.urp') and wire.ask('play')
        while not box.controller.popup_text:
            box.step(1)
    assert box.controller.popup_text.startswith('no program from 127.0.0.1:')


def test_a_pc_that_does_not_stop_sending_is_left(monkeypatch):
    with socket.create_server(('127.0.0.1', 0)) as pc:
        monkeypatch.setattr(urp, '_PORT', pc.getsockname()[1])

        def serve():
            link, _ = pc.accept()
            with link, contextlib.suppress(OSError):
                while True:
                    link.sendall(b'x' * 100_000)

        server = threading.Thread(target=serve)
        server.start()
        script = urp.with_external_control('def p():\n# External Control\nend', '127.0.0.1')
        server.join()
    assert 'it sends over 10000000 bytes' in script and len(script) < 1000
