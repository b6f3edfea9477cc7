# SPDX-License-Identifier: Apache-2.0
"""A simulated controller behind its ports in this process, stepped by the test, with clients."""

import itertools
import os
import socket
import struct
from time import perf_counter
from typing import Any

from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.personality import personality
from ur5_pick_place.sim.controller.server import Server

_BOUND = 30.0  # [s] for an answer
_addresses = itertools.count(2)


def own_address() -> str:
    """Return a loopback address that no other test process listens at."""
    n = next(_addresses)
    return f'127.{os.getpid() >> 8 & 0x7F | 0x40}.{os.getpid() & 0xFF}.{n % 250 + 2}'


class Wire:
    """A client's connection; waiting for bytes steps the controller."""

    def __init__(self, box: 'Box', port: int) -> None:
        self._box = box
        self.socket = socket.create_connection((box.host, port), timeout=5.0)
        self.socket.setblocking(False)
        box.step(1)  # which accepts it
        self.received = b''

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, n: int) -> bytes:
        """Return the next `n` bytes."""
        until = perf_counter() + _BOUND
        while len(self.received) < n:
            assert perf_counter() < until, f'{n} bytes expected, {self.received!r} arrived'
            self._box.step(1)
            try:
                data = self.socket.recv(1 << 16)
            except BlockingIOError:
                continue
            assert data, f'the connection was closed after {self.received!r}'
            self.received += data
        taken, self.received = self.received[:n], self.received[n:]
        return taken

    def is_closed(self) -> bool:
        """Return whether the controller closes the connection within a few cycles."""
        for _ in range(20):
            self._box.step(1)
            try:
                if not self.socket.recv(1 << 16):
                    return True
            except BlockingIOError:
                continue
            except OSError:
                return True
        return False

    def line(self) -> str:
        """Return the next line."""
        data = b''
        while not data.endswith(b'\n'):
            data += self.read(1)
        return data.decode().rstrip('\n')

    def ask(self, text: str) -> str:
        """Return the answer to a line."""
        self.send(f'{text}\n'.encode())
        return self.line()

    def rtde(self) -> tuple[str, bytes]:
        """Return type and payload of the next packet of RTDE."""
        size, kind = struct.unpack('>HB', self.read(3))
        return chr(kind), self.read(size - 3)

    def request(self, kind: str, payload: bytes = b'') -> bytes:
        """Return the answer to a request of RTDE; outputs in between are passed over."""
        self.send(struct.pack('>HB', len(payload) + 3, ord(kind)) + payload)
        while True:
            answer, data = self.rtde()
            if answer == kind:
                return data

    def primary(self) -> tuple[int, bytes]:
        """Return type and body of the next packet of the primary interface."""
        size, kind = struct.unpack('>iB', self.read(5))
        return kind, self.read(size - 5)

    def message(self, kind: int) -> bytes:
        """Return the body of the next message of a kind, after time, source and kind."""
        until = perf_counter() + _BOUND
        while True:
            assert perf_counter() < until, f'no message of kind {kind}'
            what, body = self.primary()
            if what == 20 and body[9] == kind:
                return body[10:]


class Box:
    """The controller and its server."""

    def __init__(self, ur_type: str = 'ur5', is_cold: bool = False, **of_server: Any) -> None:
        self.host = own_address()
        self.controller = Controller(personality(ur_type), is_cold=is_cold)
        self.server = Server(self.controller, self.host, **of_server)

    def connect(self, port: int) -> Wire:
        return Wire(self, port)

    def dashboard(self) -> Wire:
        """Return a connection to the dashboard, which has said its welcome."""
        wire = self.connect(29999)
        assert wire.line() == 'Connected: Universal Robots Dashboard Server'
        return wire

    def step(self, cycles: int) -> None:
        """Run cycles, as fast as they go."""
        for _ in range(cycles):
            self.server.cycle()
            self.server.network.serve(0.0)

    def step_seconds(self, seconds: float) -> None:
        self.step(round(seconds / self.controller.step_time))

    def close(self) -> None:
        self.server.close()
