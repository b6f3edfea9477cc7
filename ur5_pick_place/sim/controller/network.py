# SPDX-License-Identifier: Apache-2.0
"""
TCP servers in one thread: nothing here blocks, and every buffer is bounded.

A client that does not read loses the oldest packets of its streams; one that lets replies pile up,
or sends more than its port takes, is disconnected.
"""

import logging
import selectors
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from ur5_pick_place.errors import InvalidInput

_MOST_CLIENTS = 30  # of a port
_MOST_ACCEPTED = 10  # of a port at once, so that a flood does not hold up the cycle
_MOST_UNSENT = 1 << 18  # [bytes] of a client
_READ = 1 << 11  # [bytes] at once
_FEWEST_SERVED = 8  # connections, and messages, in a cycle however late it is

_log = logging.getLogger(__name__)


class Client:
    """
    A connection from the address `host`.

    `inbox`: what has arrived and was not taken yet; the port's handler takes from it.
    `is_pending`: whether the handler has yet to look at it.
    `is_given_up`: whether nothing waits for it, as it has not read for too long.
    `unsent_bytes`: what waits to be sent.
    `ended`: whether it is closed, or will be when everything is sent.
    """

    def __init__(self, sock: socket.socket, port: 'Port', host: str = '') -> None:
        self.inbox = bytearray()
        self.ended = self.is_pending = self.is_given_up = False
        self.local_at_connect = False
        self.socket, self.port, self.host = sock, port, host
        self._unsent: deque[tuple[bytes, bool]] = deque()
        self.unsent_bytes = self._sent = 0  # `_sent` of the first packet

    def send(self, packet: bytes, is_stream: bool = False) -> None:
        """Send a packet; `is_stream`: a newer one may replace it if the client reads slowly."""
        if self.ended:
            return
        was_behind = self.unsent_bytes > 0
        self._unsent.append((packet, is_stream))
        self.unsent_bytes += len(packet)
        if not was_behind:
            self.flush()
        elif self.unsent_bytes > _MOST_UNSENT:
            self._drop_oldest()

    def flush(self) -> None:
        try:
            while self._unsent:
                packet, _ = self._unsent[0]
                self._sent += self.socket.send(packet[self._sent :] if self._sent else packet)
                if self._sent < len(packet):
                    return
                self._unsent.popleft()
                self.unsent_bytes -= len(packet)
                self._sent = 0
        except BlockingIOError:
            return
        except OSError:
            self._abandon()

    def _drop_oldest(self) -> None:
        first = 1 if self._sent else 0  # a packet that is half sent must be finished
        while self.unsent_bytes > _MOST_UNSENT and len(self._unsent) > first:
            packet, is_stream = self._unsent[first]
            if not is_stream:
                break
            del self._unsent[first]
            self.unsent_bytes -= len(packet)
        if self.unsent_bytes > 2 * _MOST_UNSENT:
            self._abandon()

    def read(self) -> None:
        """Take what has arrived to the inbox; an end of the connection is noticed here."""
        try:
            data = self.socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b''
        self.inbox += data
        self.ended = self.ended or not data

    def end(self) -> None:
        """Close the connection after what was sent."""
        self.flush()
        self.ended = True

    def _abandon(self) -> None:
        self._unsent.clear()
        self.unsent_bytes, self.ended = 0, True


@dataclass(eq=False)
class Port:
    """
    A listening port.

    `received` is called with a client whose inbox has grown or that has ended; it takes a message
    at most, so that a flood does not hold up the cycle, and returns whether it is to be called
    again. `greet` is called with a new client, `forget` with one that is gone. `most`: bytes that
    an inbox may hold.
    """

    number: int
    received: Callable[[Client], bool]
    greet: Callable[[Client], None] = lambda client: None
    forget: Callable[[Client], None] = lambda client: None
    most: int = 1 << 16
    clients: list[Client] = field(default_factory=list)
    is_full: bool = False


def swallow(client: Client) -> bool:
    client.inbox.clear()
    return False


def answer_lines(answer: Callable[[str], str], last: str = '') -> Callable[[Client], bool]:
    """Return what answers a client's lines, each with one; after `last` it is disconnected."""

    def received(client: Client) -> bool:
        end = client.inbox.find(b'\n')
        if end < 0:
            return False
        line = client.inbox[:end].decode('utf-8', 'replace').strip()
        del client.inbox[: end + 1]
        client.send(f'{answer(line)}\n'.encode())
        if line.lower() == last:
            client.end()
        return True

    return received


class Network:
    """
    Listening ports and their clients.

    `host`: address to listen at. `send_buffer`: bytes that the system keeps for a client which
    reads slowly; by default it decides, up to megabytes. Raises `InvalidInput`: a port is taken,
    or the address is not one of this machine.
    """

    def __init__(self, host: str, ports: list[Port], send_buffer: int | None = None) -> None:
        self._send_buffer = send_buffer
        self._selector = selectors.DefaultSelector()
        self._clients: list[Client] = []
        self._pending: deque[Client] = deque()
        self._listeners: list[socket.socket] = []
        for port in ports:
            try:
                listener = socket.create_server((host, port.number), backlog=128)
            except (OSError, OverflowError) as error:
                self.close()
                reason = getattr(error, 'strerror', None) or error
                raise InvalidInput(f'port {port.number} of {host}: {reason}') from error
            listener.setblocking(False)
            self._listeners.append(listener)
            self._selector.register(listener, selectors.EVENT_READ, port)

    def serve(self, until: float) -> None:
        """
        Serve what arrives until a time of `perf_counter` [s]; a little even if that is past.

        What is left over is served the next time.
        """
        while True:
            rest = max(until - perf_counter(), 0.0)
            self._serve_ready(0.0 if self._pending else rest, until)
            if perf_counter() >= until:
                return

    def _serve_ready(self, wait: float, until: float) -> None:
        for served, (key, _) in enumerate(self._selector.select(wait)):
            if served >= _FEWEST_SERVED and perf_counter() > until:
                break
            if isinstance(key.data, Port):
                assert isinstance(key.fileobj, socket.socket)
                self._accept(key.fileobj, key.data)
            elif not key.data.is_pending:
                key.data.read()
                key.data.is_pending = True
                self._pending.append(key.data)
        served = 0
        while self._pending and (served < _FEWEST_SERVED or perf_counter() < until):
            self._take(self._pending.popleft())
            served += 1
        for client in [c for c in self._clients if c.ended and not c.is_pending]:
            self._remove(client)

    def flush(self) -> bool:
        """Send what waits; return whether that of a client waits which was not given up."""
        behind = [client for client in self._clients if client.unsent_bytes]
        for client in behind:
            client.flush()
            client.is_given_up &= client.unsent_bytes > 0
        return any(client.unsent_bytes and not client.is_given_up for client in behind)

    def give_up(self) -> None:
        """Give up the clients that are behind, until they have caught up."""
        for client in self._clients:
            client.is_given_up = client.unsent_bytes > 0

    def _accept(self, listener: socket.socket, port: Port) -> None:
        for _ in range(_MOST_ACCEPTED):
            try:
                sock, address = listener.accept()
            except OSError:
                return
            if len(port.clients) >= _MOST_CLIENTS:
                sock.close()
                if not port.is_full:  # else a flood would fill the log
                    _log.warning('port %d: %s refused, %d are connected', port.number, address[0],
                                 _MOST_CLIENTS)
                port.is_full = True
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._send_buffer is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
            client = Client(sock, port, address[0])
            port.clients.append(client)
            self._clients.append(client)
            self._selector.register(sock, selectors.EVENT_READ, client)
            port.greet(client)

    def _take(self, client: Client) -> None:
        client.is_pending = client.port.received(client) and not client.ended
        if client.is_pending:
            self._pending.append(client)
        elif len(client.inbox) > client.port.most:
            _log.warning('port %d: a client sent more than %d bytes that are no message',
                         client.port.number, client.port.most)
            client.end()

    def _remove(self, client: Client) -> None:
        self._clients.remove(client)
        self._selector.unregister(client.socket)
        client.socket.close()
        client.port.clients.remove(client)
        client.port.is_full = False
        client.port.forget(client)

    def close(self) -> None:
        for client in list(self._clients):
            client.flush()
            self._remove(client)
        for listener in self._listeners:
            listener.close()
        self._selector.close()
