# SPDX-License-Identifier: Apache-2.0
"""Whatever arrives on the ports, the process lives, its clock runs and the arm stands still."""

import contextlib
import signal
import socket
import struct
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('mujoco')
from ur5_pick_place.commands.sim_controller import main
from ur5_pick_place.sim.controller.network import Client
from ur5_pick_place.sim.controller.process import RunningController
from ur5_pick_place.sim.controller.server import Server

PORTS = (29999, 30001, 30002, 30003, 30004, 30011, 30012, 30013, 29990)
NAMES = b'timestamp,actual_q,input_int_register_1,nonsense'
LINES = [
    b'def f(:\n', b'end\nend\n', b'def f():\n' * 500, b'movej(\n', b'"\n', b'\x00\n', b'p[1,2]\n',
    b'load ' + b'x' * 3000 + b'\n', b'popup \xff\xfe\n', b'quit\n', b'programState\n' * 200,
    b'play\n', b'slider nan\n', b'part nan 0 0\n', b'part 1e308 1e308 1\n', b'x\n' * 3000,
]  # fmt: skip


def junk(rng):
    kind = rng.integers(7)
    if kind == 0:
        return rng.bytes(rng.integers(2000))
    if kind == 1:
        return struct.pack('>HB', rng.integers(65536), rng.choice(list(b'VvMUOISP\xff'))) + NAMES
    if kind == 2:
        rate = struct.pack('>d', rng.choice([500.0, -1.0, np.nan, np.inf, 1e-300]))
        payload = rate + [NAMES, b',,,', b'timestamp,' * 3000][rng.integers(3)]
        return struct.pack('>HB', len(payload) + 3, rng.choice(list(b'OI'))) + payload
    if kind == 3:
        return LINES[rng.integers(len(LINES))]
    if kind == 4:
        return b'A' * int(rng.choice([10, 5000, 100_000]))
    if kind == 5:
        return struct.pack('>HBH', 5, ord('V'), 2) + b'\x00\x03S\x00\x04U\x01'
    return b''


def memory(process_id):
    """Return resident memory [MB]."""
    status = Path(f'/proc/{process_id}/status').read_text()
    return int(status.split('VmRSS:')[1].split()[0]) / 1024


def insist(ask):
    """Return an answer; a port that is full refuses until it has seen that others have left."""
    until = time.monotonic() + 30.0
    while time.monotonic() < until:
        with contextlib.suppress(ConnectionError):
            if answer := ask():
                return answer
        time.sleep(0.05)
    raise AssertionError('no answer')


@pytest.mark.parametrize('n', [150, pytest.param(1500, marks=pytest.mark.drill)])
def test_nothing_that_arrives_kills_it_or_moves_the_arm(rng, n):
    with RunningController('--ur-type', 'ur5') as robot:
        before, used = robot.state(), memory(robot.process.pid)
        kept = []  # these never read
        for _ in range(n):
            wire = socket.create_connection((robot.host, int(rng.choice(PORTS))), timeout=30.0)
            wire.settimeout(0.5)
            with contextlib.suppress(OSError):
                wire.sendall(junk(rng))
            fate = rng.random()
            if fate < 0.1:
                kept.append(wire)
                continue
            if fate < 0.4:  # it vanishes
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            wire.close()
            if len(kept) > 100:
                kept.pop(0).close()
        after = insist(robot.state)
        assert after['time'] > before['time']
        assert (after['mode'], after['safety'], after['program']) == ('RUNNING', 'NORMAL', '')
        np.testing.assert_allclose(after['q'], before['q'], atol=1e-6)
        assert memory(robot.process.pid) < used + 100
        for wire in kept:
            wire.close()


def test_a_flood_of_connections_is_bounded_and_a_client_gets_in_afterwards():
    with RunningController() as robot:
        wires = [socket.create_connection((robot.host, 30004), timeout=30.0) for _ in range(100)]
        assert robot.state()['mode'] == 'RUNNING'
        for wire in wires:
            wire.close()

        def ask():
            with socket.create_connection((robot.host, 30004), timeout=30.0) as wire:
                wire.sendall(b'\x00\x03v')
                return wire.recv(3)

        assert insist(ask) == struct.pack('>HB', 19, ord('v'))


def test_a_full_port_refuses_at_once_says_so_once_and_has_room_when_one_leaves(make_box, caplog):
    box = make_box()
    wires = [box.connect(29990) for _ in range(30)]
    for _ in range(5):
        assert box.connect(29990).is_closed()
    assert [record.args[0] for record in caplog.records] == [29990]
    wires.pop().socket.close()
    box.step(2)
    assert '"NORMAL"' in box.connect(29990).ask('state')


@pytest.mark.parametrize(
    'port, message', [(29990, b'state\n'), (29999, b'x\n'), (30004, b'\0\3S')]
)
def test_many_messages_at_once_are_answered_over_several_cycles(make_box, port, message):
    box = make_box()
    wire = box.connect(port)
    answered = []
    send = Client.send
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, 'send', lambda c, *a: (answered.append(a), send(c, *a)))
        wire.send(message * 300)
        counts = []
        while len(answered) < 300:
            box.step(1)
            counts.append(len(answered))
    assert max(np.diff([0, *counts])) <= 10


def test_a_taken_port_is_named_and_ctrl_c_ends_it(capsys):
    with RunningController() as robot:
        assert main(['--host', robot.host]) == 2
        assert f'port 29999 of {robot.host}: ' in capsys.readouterr().err
        robot.process.send_signal(signal.SIGINT)
        until = time.monotonic() + 30.0
        while robot.process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        assert robot.process.poll() == 0


@pytest.mark.parametrize(
    ('words', 'robot'),
    [
        ((), 'ur5, '),
        (('--series', 'cb3'), 'ur5, '),
        (('--series', 'e'), 'ur5e, '),
        (('--series', 'e', '--ur-type', 'ur5'), ''),
    ],
)
def test_a_series_alone_means_a_type_of_it(words, robot, capsys, monkeypatch):
    monkeypatch.setattr(Server, 'run', lambda _server: None)
    assert main([*words, '--host', '127.0.0.39']) == (0 if robot else 2)
    assert capsys.readouterr().out.startswith(robot)


@pytest.mark.parametrize(
    ('option', 'value', 'reason'),
    [
        ('--host', '', 'is empty: must be an address'),
        ('--port-offset', '1.5', "'1.5': must be a whole number"),
        ('--programs', '~/none', '/somewhere/none: must be a folder'),
    ],
)
def test_a_value_that_is_none_is_refused(option, value, reason, monkeypatch, capsys):
    monkeypatch.setenv('HOME', '/somewhere')
    try:
        code = main([option, value])
    except SystemExit as end:
        code = end.code
    assert code == 2 and reason in capsys.readouterr().err
