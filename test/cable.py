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

_TUN = '/dev/net/tun'
_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x0002 | 0x1000  # IFF_TAP, IFF_NO_PI
_CLONE_NEWNET = 0x40000000
_FRAME = 65536  # [bytes] more than any frame has
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True)
class Link:
    """What the cable does, in either direction: [s], [s] about it, and the part that is lost."""

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0


CUT = Link(loss=1.0)


def why_not() -> str:
    """Return what this machine lacks for two machines, or nothing."""
    if os.geteuid() != 0:
        return 'network namespaces need root'
    try:
        with _elsewhere():
            os.close(os.open(_TUN, os.O_RDWR))
            subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f'no network namespace with a TAP device here: {error}'
    return ''


class Cable:
    """
    Two machines and the cable between them; leaving the context takes them away.

    Parameters
    ----------
    link : Link

    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._stack = contextlib.ExitStack()
        self._namespaces: dict[str, int] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            ends = []
            for name, address in MACHINES.items():
                with _elsewhere():
                    self._namespaces[name] = _keep(stack, '/proc/thread-self/ns/net', os.O_RDONLY)
                    ends.append(_keep(stack, _TUN, os.O_RDWR))
                    _plug_in(ends[-1], address)
            command = [sys.executable, '-I', '-S', __file__, *map(str, ends)]
            # Its standard input is its life: it ends with us, however we do.
            self._process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=ends)
            )
            self.set(self._link)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    def set(self, link: Link) -> None:
        """Be another cable from now on; what is on its way arrives, or is lost in a cut."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(dataclasses.asdict(link)).encode() + b'\n')
        self._process.stdin.flush()

    @contextlib.contextmanager
    def at(self, name: str) -> Iterator[None]:
        """Be on a machine: what this thread starts there, threads and processes, stays there."""
        with _back_home():
            _enter(self._namespaces[name])
            yield


@contextlib.contextmanager
def _back_home() -> Iterator[None]:
    home = os.open('/proc/thread-self/ns/net', os.O_RDONLY)
    try:
        yield
    finally:
        _enter(home)
        os.close(home)


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Be in a network namespace of its own."""
    with _back_home():
        _check(_LIBC.unshare(_CLONE_NEWNET))
        yield


def _enter(namespace: int) -> None:
    _check(_LIBC.setns(namespace, _CLONE_NEWNET))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _keep(stack: contextlib.ExitStack, path: str, flags: int) -> int:
    descriptor = os.open(path, flags)
    stack.callback(os.close, descriptor)
    return descriptor


def _plug_in(tap: int, address: str) -> None:
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack('16sH', b'cable', _TAP_WITHOUT_HEADER))
    for words in (
        'link set lo up',
        f'address add {address}/24 dev cable',
        'link set cable up',
    ):
        subprocess.run(['ip', *words.split()], check=True)


class _Way:
    """One direction of the cable; frames keep their order."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._random = Random(source)
        self._frames: deque[tuple[float, bytes]] = deque()

    def take(self, link: Link) -> None:
        frame = os.read(self._source, _FRAME)
        if self._random.random() < link.loss:
            return
        due = time.monotonic() + link.delay + self._random.uniform(-1, 1) * link.jitter
        last = self._frames[-1][0] if self._frames else 0.0
        self._frames.append((max(due, last), frame))

    def give(self, now: float) -> float:
        """Hand over what is due; returns when the next is [s]."""
        while self._frames and self._frames[0][0] <= now:
            os.write(self._sink, self._frames.popleft()[1])
        return self._frames[0][0] if self._frames else now + 1.0

    def empty(self) -> None:
        self._frames.clear()


def carry(a: int, b: int) -> None:
    """Carry frames between two TAP devices; each line of standard input is another `Link`."""
    # A cable waits for no processor.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    ways = {a: _Way(a, b), b: _Way(b, a)}
    link = CUT
    while True:
        now = time.monotonic()
        wait = min(way.give(now) for way in ways.values()) - now
        ready, _, _ = select.select([0, a, b], [], [], max(wait, 0.0))
        for tap in ways.keys() & ready:
            ways[tap].take(link)
        if 0 in ready:
            line = os.read(0, 4096)
            if not line:
                return
            link = Link(**json.loads(line.splitlines()[-1]))
            if link == CUT:
                for way in ways.values():
                    way.empty()


if __name__ == '__main__':
    carry(*map(int, sys.argv[1:]))
