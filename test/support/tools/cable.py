# SPDX-License-Identifier: Apache-2.0
"""
Two machines on one: network namespaces, and a cable between them that delays, loses, is cut.

The cable is a process that carries Ethernet frames between a TAP device in either namespace, as
not every kernel has `netem`. Nothing has a name that could be left behind: all is gone with the
processes that use it.
"""

import contextlib
import ctypes
import dataclasses
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Self

MACHINES = {'cell': '10.99.0.1', 'pc': '10.99.0.2'}

_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x0002 | 0x1000  # IFF_TAP, IFF_NO_PI
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True)
class Link:
    """
    What the cable does, in either direction: [s], [s] about it, and the part that is lost.

    `is_deaf`: nothing comes to the cell.
    """

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    is_deaf: bool = False


CUT = Link(loss=1.0)


def why_not() -> str:
    """Return what this machine lacks for two machines, or nothing."""
    try:
        with Cable(Link()):
            return ''
    except (OSError, subprocess.CalledProcessError) as error:
        return f'needs root, ip and /dev/net/tun for two networks on one machine: {error}'


class Cable(contextlib.ExitStack):
    """Two machines and a cable between them; leaving the context takes them away."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self._namespaces: dict[str, int] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as made:
            ends = []
            for name, address in MACHINES.items():
                with _back_home():
                    _check(_LIBC.unshare(_CLONE_NEWNET))
                    self._namespaces[name] = _open(made, '/proc/thread-self/ns/net', os.O_RDONLY)
                    ends.append(_open(made, '/dev/net/tun', os.O_RDWR))
                    _plug_in(ends[-1], address)
            command = [sys.executable, '-I', '-S', __file__, *map(str, ends)]
            # Its standard input is its life: it ends with us, however we do.
            self._process = made.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=ends)
            )
            self.set(self._link)
            self.push(made.pop_all())
        return self

    def set(self, link: Link) -> None:
        """Be another cable from now on; what is on its way arrives, or is lost in a cut."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(dataclasses.asdict(link)).encode() + b'\n')
        self._process.stdin.flush()

    @contextlib.contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Be on a machine: what this thread starts there, threads and processes, stays there."""
        with _back_home():
            _check(_LIBC.setns(self._namespaces[name], _CLONE_NEWNET))
            yield


@contextlib.contextmanager
def _back_home() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        home = _open(stack, '/proc/thread-self/ns/net', os.O_RDONLY)
        try:
            yield
        finally:
            _check(_LIBC.setns(home, _CLONE_NEWNET))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _open(stack: contextlib.ExitStack, path: str, flags: int) -> int:
    descriptor = os.open(path, flags)
    stack.callback(os.close, descriptor)
    return descriptor


def _plug_in(tap: int, address: str) -> None:
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack('16sH', b'cable', _TAP_WITHOUT_HEADER))
    for words in ('link set lo up', f'addr add {address}/24 dev cable', 'link set cable up'):
        subprocess.run(['ip', *words.split()], check=True)


class _Way:
    """One direction of the cable; frames keep their order."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._random = Random(source)
        self._frames: deque[tuple[float, bytes]] = deque()

    def take(self, link: Link) -> None:
        frame = os.read(self._source, 65536)
        if self._random.random() >= link.loss:
            due = time.monotonic() + link.delay + self._random.uniform(-1, 1) * link.jitter
            self._frames.append((max(due, self._frames[-1][0] if self._frames else 0.0), frame))

    def give(self, now: float) -> float:
        """Hand over what is due; returns the time until the next is [s]."""
        while self._frames and self._frames[0][0] <= now:
            os.write(self._sink, self._frames.popleft()[1])
        return self._frames[0][0] - now if self._frames else 1.0

    def cut(self) -> None:
        self._frames.clear()


def carry(a: int, b: int) -> None:
    """Carry frames between two TAP devices; each line of standard input is another `Link`."""
    with contextlib.suppress(PermissionError):  # a container may forbid it
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))  # a cable waits for nobody
    ways, link = {a: _Way(a, b), b: _Way(b, a)}, CUT
    while True:
        now = time.monotonic()
        wait = min(way.give(now) for way in ways.values())
        ready, _, _ = select.select([0, a, b], [], [], wait)
        if 0 in ready:
            line = os.read(0, 4096)
            if not line:
                return
            link = Link(**json.loads(line.splitlines()[-1]))
            if link == CUT:
                for way in ways.values():
                    way.cut()
        for tap in ways.keys() & ready:
            lost = link.is_deaf and tap == b  # from the PC
            ways[tap].take(dataclasses.replace(link, loss=1.0) if lost else link)


if __name__ == '__main__':
    carry(*map(int, sys.argv[1:]))
