# SPDX-License-Identifier: Apache-2.0
"""The messages of the primary interface, packed. All numbers are big-endian."""

import struct

_CONTROLLER, _ROBOT_INTERFACE = 7, -2  # who sends a message

WARNING, VIOLATION = 2, 3  # levels of an error code


def packet(kind: int, body: bytes) -> bytes:
    return struct.pack('>iB', len(body) + 5, kind) + body


def _message(time: float, kind: int, body: bytes, source: int = _CONTROLLER) -> bytes:
    return packet(20, struct.pack('>QbB', round(1e6 * time), source, kind) + body)


def _short(text: str) -> bytes:
    """Return a text of up to 255 bytes after its length."""
    data = _bytes(text)[:255]
    return bytes([len(data)]) + data


def _bytes(text: str) -> bytes:
    return text.encode('utf-8', 'replace')[:8192]


def text_message(time: float, text: str) -> bytes:
    return _message(time, 0, _bytes(text), _ROBOT_INTERFACE)


def popup_message(time: float, title: str, text: str, kind: str) -> bytes:
    """Return a popup; `kind`: message, warning or error."""
    flags = struct.pack('>IBBBB', 0, 0, kind == 'warning', kind == 'error', 0)
    return _message(time, 2, flags + _short(title) + _bytes(text))


def version_message(time: float, version: tuple[int, int, int, int], date: str) -> bytes:
    numbers = struct.pack('>BBii', *version)
    return _message(time, 3, _short('URControl') + numbers + _bytes(date))


def safety_message(time: float, mode: int) -> bytes:
    return _message(time, 5, struct.pack('>iiBII', 0, 0, mode, 0, 0))


def error_message(time: float, code: int, argument: int, level: int, text: str) -> bytes:
    """Return an error code of the controller."""
    return _message(time, 6, struct.pack('>iiiII', code, argument, level, 0, 0) + _bytes(text))


def key_message(time: float, title: str, text: str) -> bytes:
    """Return a key message, as the start of a program."""
    return _message(time, 7, struct.pack('>ii', 0, 0) + _short(title) + _bytes(text))


def exception_message(time: float, line: int, column: int, text: str) -> bytes:
    """Return what ended a program, and where; both count from 1."""
    return _message(time, 10, struct.pack('>ii', line, column) + _bytes(text))
