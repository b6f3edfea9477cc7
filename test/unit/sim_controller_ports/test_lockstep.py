# SPDX-License-Identifier: Apache-2.0
"""In lockstep the clock waits for its clients: they get every cycle, and runs are the same."""

import socket
import threading
import time

import numpy as np
import pytest

pytest.importorskip('mujoco')
from ur5_pick_place.sim.controller import server

SIZE = 1116  # [bytes] of a CB3's real-time packet
CYCLES = 700  # more than buffers hold
TIME, Q_TARGET, Q = 0, slice(1, 7), slice(31, 37)
PROGRAM = """def program():
  movej([0.3, -1.4, 1.5, -1.6, -1.5, 0.2], a=3, v=2)
  i = 0
  while i < 100:
    servoj([0.3 + 0.001 * i, -1.4, 1.5, -1.6, -1.5, 0.2], t=0.008)
    i = i + 1
  end
  stopj(5)
end
"""


def listen(box):
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.connect((box.host, 30013))
    box.step(1)
    return wire


def read_late(box, wire, data):
    """Read until the controller has closed, from when it first stands still."""
    last = -1
    while last != (last := box.controller.cycles):
        time.sleep(0.1)
    while chunk := wire.recv(1 << 14):
        data += chunk


def record(box):
    """Return all real-time packets of a program's run, as numbers (n, m)."""
    wire, data = listen(box), bytearray()
    reader = threading.Thread(target=read_late, args=(box, wire, data))
    reader.start()
    box.connect(30002).send(PROGRAM.encode())
    box.step(CYCLES)
    box.close()
    reader.join()
    wire.close()
    packets = np.frombuffer(bytes(data), np.uint8).reshape(-1, SIZE)[:, 4:]
    return np.ascontiguousarray(packets).view('>f8')


def test_a_client_gets_every_cycle_and_two_runs_move_alike(make_box, monkeypatch):
    monkeypatch.setattr(server, '_LOCKSTEP_WAIT', 60.0)
    runs = [record(make_box(is_lockstep=True)) for _ in range(2)]
    paths = []
    for packets in runs:
        assert len(packets) >= CYCLES
        cycles = (packets[:, TIME] - 60.0) / 0.008
        np.testing.assert_allclose(cycles, cycles[0] + np.arange(len(cycles)), atol=1e-6)
        begin = np.diff(packets[:, Q_TARGET], axis=0).any(axis=1).argmax()
        paths.append(packets[begin : begin + 400, Q])
    assert np.ptp(paths[0], axis=0)[0] > 0.1
    np.testing.assert_array_equal(*paths)


def test_a_client_that_never_reads_is_waited_for_once(make_box, monkeypatch):
    monkeypatch.setattr(server, '_LOCKSTEP_WAIT', 0.1)
    box = make_box(is_lockstep=True)
    given_up = []
    give_up = box.server.network.give_up
    monkeypatch.setattr(box.server.network, 'give_up', lambda: given_up.append(give_up()))
    with listen(box):
        box.step(CYCLES)
    assert box.controller.cycles == CYCLES + 1
    assert len(given_up) == 1
