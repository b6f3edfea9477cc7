# SPDX-License-Identifier: Apache-2.0
"""
The built-ins for TCP connections to the program's peers.

Sockets never block: a call that waits looks once a cycle. Waiting is counted in cycles, whatever
the time scale.
"""

import errno
import ipaddress
import re
import socket
import struct
from collections.abc import Callable

from ur5_pick_place.sim.controller.script.scheduler import Scheduler, Steps, Wait
from ur5_pick_place.sim.controller.script.values import (
    LONGEST_TEXT,
    List,
    ScriptFault,
    Value,
    integer,
    number,
    text,
    to_str,
)

_OPEN_TIME = 2.0  # [s]
_SEND_TIME = 1.0
_DEFAULT_WAIT = 2.0
_MOST_SOCKETS = 16
_MOST_NUMBERS = 30
_MOST_BUFFERED = 65536  # bytes
_FLOATS = re.compile(rb'\(([^()]{0,4096})\)')
_NAME = 'socket_0'


class Connection:
    """A connected socket; `buffer`: received, not yet read."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.buffer = bytearray()
        self.is_closed = False

    def poll(self) -> None:
        if self.is_closed or len(self.buffer) >= _MOST_BUFFERED:
            return
        try:
            got = self.link.recv(_MOST_BUFFERED)
        except BlockingIOError:
            return
        except OSError:
            got = b''
        self.is_closed = not got
        self.buffer += got

    def take(self, size: int) -> bytes:
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken


class Connections(dict[str, Connection]):
    def drop(self, name: str) -> None:
        if (connection := self.pop(name, None)) is not None:
            connection.link.close()

    def close(self) -> None:
        for name in list(self):
            self.drop(name)


class Sockets:
    """What a program does with its sockets; `allow_hosts`: also to hosts other than this one."""

    def __init__(self, threads: Scheduler, opened: Connections, allow_hosts: bool) -> None:
        self._threads, self._open, self._allow_hosts = threads, opened, allow_hosts

    def socket_open(self, address: Value, port: Value, socket_name: Value = _NAME) -> Steps:
        name, host = text(socket_name), self._host(text(address))
        self._open.drop(name)
        if len(self._open) >= _MOST_SOCKETS:
            raise ScriptFault(f'too many sockets: at most {_MOST_SOCKETS}')
        link = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        link.setblocking(False)
        try:
            target = (host, integer(port, 1, 65535))
            deadline = self._threads.now + _OPEN_TIME
            while not _is_connected(link, target):
                if self._threads.now >= deadline:
                    raise TimeoutError
                yield
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            link.close()
            yield  # a refusal takes time, too
            return False
        except BaseException:  # the program ends
            link.close()
            raise
        self._open.drop(name)
        self._open[name] = Connection(link)
        return True

    def _host(self, address: str) -> str:
        host = '127.0.0.1' if address == 'localhost' else address
        try:
            is_local = ipaddress.IPv4Address(host).is_loopback
        except ValueError:
            raise ScriptFault(f'socket_open: {address!r}: must be an IPv4 address') from None
        if not is_local and not self._allow_hosts:
            raise ScriptFault(f'socket_open: {address} is another host, which is not allowed here')
        return host

    def socket_close(self, socket_name: Value = _NAME) -> None:
        self._open.drop(text(socket_name))

    def socket_send_int(self, value: Value, socket_name: Value = _NAME) -> Steps:
        return self._send(struct.pack('>i', integer(value)), socket_name)

    def socket_send_byte(self, value: Value, socket_name: Value = _NAME) -> Steps:
        return self._send(bytes([integer(value, 0, 255)]), socket_name)

    def socket_send_string(self, str: Value, socket_name: Value = _NAME) -> Steps:
        return self._send(to_str(str).encode(), socket_name)

    def socket_send_line(self, str: Value, socket_name: Value = _NAME) -> Steps:
        return self._send(to_str(str).encode() + b'\n', socket_name)

    def socket_set_var(self, name: Value, value: Value, socket_name: Value = _NAME) -> Wait:
        yield from self._send(f'SET {text(name)} {to_str(value)}\n'.encode(), socket_name)

    def _send(self, data: bytes, socket_name: Value) -> Steps:
        connection = self._open.get(text(socket_name))
        deadline = self._threads.now + _SEND_TIME
        while connection is not None and data:
            try:
                data = data[connection.link.send(data) :]
            except BlockingIOError:
                if self._threads.now >= deadline:
                    return False
                yield
            except OSError:
                return False
        return connection is not None

    def _read(
        self, socket_name: Value, timeout: Value, find: Callable[[Connection], Value],
        failed: Value = '',
    ) -> Steps:  # fmt: skip
        """
        Return what `find` makes of the received bytes, or `failed`.

        It is called until it returns something, the time [s] is over (0 or less: never), or the
        peer has closed.
        """
        name = text(socket_name)
        longest = number(timeout)
        deadline = self._threads.now + longest
        while True:
            connection = self._open.get(name)
            if connection is None:
                return failed
            if (found := find(connection)) is None:
                connection.poll()
                found = find(connection)
            if found is not None:
                self._threads.current.behind = 0  # it waits, though its peer keeps it busy
                return found
            is_late = longest > 0.0 and self._threads.now >= deadline - 1e-9
            if connection.is_closed or is_late:
                return failed
            yield

    def socket_read_binary_integer(
        self, number: Value, socket_name: Value = _NAME, timeout: Value = _DEFAULT_WAIT
    ) -> Steps:
        return self._read_numbers(number, 'i', socket_name, timeout)

    def socket_read_byte_list(
        self, number: Value, socket_name: Value = _NAME, timeout: Value = _DEFAULT_WAIT
    ) -> Steps:
        return self._read_numbers(number, 'B', socket_name, timeout)

    def _read_numbers(self, number: Value, kind: str, name: Value, timeout: Value) -> Steps:
        count = integer(number, 0, _MOST_NUMBERS)
        layout = struct.Struct(f'>{count}{kind}')

        def find(connection: Connection) -> Value:
            if len(connection.buffer) < layout.size:
                return None
            return List((count, *layout.unpack(connection.take(layout.size))))

        return self._read(name, timeout, find, List((0, *[-1] * count)))

    def socket_read_ascii_float(
        self, number: Value, socket_name: Value = _NAME, timeout: Value = _DEFAULT_WAIT
    ) -> Steps:
        count = integer(number, 0, _MOST_NUMBERS)
        failed = List((0, *[float('nan')] * count))

        def find(connection: Connection) -> Value:
            match = _FLOATS.search(connection.buffer)
            if match is None:
                return failed if len(connection.buffer) >= _MOST_BUFFERED else None
            found = connection.take(match.end())[match.start(1) : match.end(1)]
            try:
                values = [float(word) for word in found.split(b',')]
            except ValueError:
                return failed
            return List((count, *values)) if len(values) == count else failed

        return self._read(socket_name, timeout, find, failed)

    def socket_read_string(
        self, socket_name: Value = _NAME, prefix: Value = '', suffix: Value = '',
        interpret_escape: Value = False, timeout: Value = _DEFAULT_WAIT,
    ) -> Steps:  # fmt: skip
        head, tail = text(prefix), text(suffix)
        if interpret_escape:
            head, tail = (part.replace('\\n', '\n').replace('\\r', '\r') for part in (head, tail))
        start, stop = head.encode(), tail.encode()

        def find(connection: Connection) -> Value:
            begin = connection.buffer.find(start)
            if begin < 0 or not connection.buffer:
                return None
            begin += len(start)
            end = len(connection.buffer) if not stop else connection.buffer.find(stop, begin)
            if end < 0:
                return None
            end = min(end, begin + LONGEST_TEXT)
            found = connection.buffer[begin:end]
            connection.take(end + (len(stop) if connection.buffer.startswith(stop, end) else 0))
            return found.decode(errors='replace')

        return self._read(socket_name, timeout, find)

    def socket_read_line(
        self, socket_name: Value = _NAME, timeout: Value = _DEFAULT_WAIT
    ) -> Steps:
        def find(connection: Connection) -> Value:
            end = connection.buffer.find(b'\n', 0, LONGEST_TEXT)
            if end < 0 and len(connection.buffer) < LONGEST_TEXT:
                return None
            line = connection.take(end + 1 if end >= 0 else LONGEST_TEXT)
            return line.decode(errors='replace').rstrip('\r\n')

        return self._read(socket_name, timeout, find)

    def socket_get_var(self, name: Value, socket_name: Value = _NAME) -> Steps:
        wanted = text(name)
        if not (yield from self._send(f'GET {wanted}\n'.encode(), socket_name)):
            return 0
        line = yield from self.socket_read_line(socket_name)
        found = re.fullmatch(re.escape(wanted) + r'\s+(-?\d{1,9})\s*', line)
        return int(found.group(1)) if found else 0


def _is_connected(link: socket.socket, target: tuple[str, int]) -> bool:
    """Return whether a non-blocking connection has been made; raises `OSError` if it fails."""
    code = link.connect_ex(target)
    if code not in (0, errno.EISCONN, errno.EINPROGRESS, errno.EALREADY):
        raise OSError(code, 'not connected')
    return code in (0, errno.EISCONN)
