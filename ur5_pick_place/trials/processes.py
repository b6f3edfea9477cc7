# SPDX-License-Identifier: Apache-2.0
"""The demo's nodes as processes: in a DDS domain of their own, and never left behind."""

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.nodes.node_list import NodeSpec

_DOMAINS = range(1, 102)  # above 101 the ports of a domain are those Linux hands out itself
_STOP_TIME = 0.6  # [s] to end by themselves, before they are killed
_TAIL = 12  # lines of its log that tell of a node's death
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def own_domain() -> Iterator[int]:
    """
    Reserve a ROS_DOMAIN_ID that nobody on this machine uses.

    A name in Linux's abstract namespace keeps other demos out, for as long as this process lives
    and no longer; that nobody sits on the domain's ports keeps us from everybody else.

    Raises
    ------
    ExecutionError
        All domains are taken.

    """
    for domain in random.sample(_DOMAINS, len(_DOMAINS)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
            try:
                name.bind(f'\0ur5_pick_place.domain.{domain}')
            except OSError:
                continue
            # The port of a domain's i-th process; local discovery looks at 32 of them.
            if all(_is_free(7410 + 250 * domain + 2 * i) for i in range(32)):
                yield domain
                return
    raise ExecutionError(f'every ROS_DOMAIN_ID of {_DOMAINS} is in use on this machine')


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(('', port))
        except OSError:
            return False
    return True


class NodeProcesses:
    """
    Every node of a list, each in a process of its own.

    Leaving the context ends them; so does the death of this process, however it comes about.

    Parameters
    ----------
    specs : sequence of NodeSpec
    domain : int
        ROS_DOMAIN_ID.
    folder : Path
        Where `<executable>.log` is written.
    reach : str
        ROS_AUTOMATIC_DISCOVERY_RANGE: how far away other nodes may be.

    Raises
    ------
    ExecutionError
        An executable is not installed.

    """

    def __init__(
        self, specs: Sequence[NodeSpec], domain: int, folder: Path, reach: str = 'LOCALHOST'
    ) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        environment = {
            **os.environ,
            'ROS_DOMAIN_ID': str(domain),
            'ROS_AUTOMATIC_DISCOVERY_RANGE': reach,
            'RCUTILS_LOGGING_BUFFERED_STREAM': '0',
            'PYTHONUNBUFFERED': '1',
            # Two cores and five nodes: threads of linear algebra would only be in the way.
            'OMP_NUM_THREADS': '1',
            'OPENBLAS_NUM_THREADS': '1',
        }
        try:
            for spec in specs:
                self._processes[spec.executable] = self._start(spec, environment)
        except BaseException:
            self.stop()
            raise

    def _start(self, spec: NodeSpec, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with self._log(spec.executable).open('wb') as log:
            return subprocess.Popen(
                [_find(spec.executable), *spec.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C is ours to pass on
                preexec_fn=_die_with(os.getpid()),  # safe, as no thread runs yet
            )

    def __enter__(self) -> 'NodeProcesses':
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by executable."""
        return {name: process.pid for name, process in self._processes.items()}

    def memory(self) -> dict[str, float]:
        """Return how much memory each node holds [MB], by executable."""
        pages = {
            name: int(Path(f'/proc/{pid}/statm').read_text(encoding='ascii').split()[1])
            for name, pid in self.pids.items()
        }
        return {name: n * os.sysconf('SC_PAGE_SIZE') / 2**20 for name, n in pages.items()}

    def check(self) -> None:
        """
        Refuse to go on when a node is gone.

        Raises
        ------
        ExecutionError
            Names it, how it ended, and its last words.

        """
        for name, process in self._processes.items():
            code = process.poll()
            if code is not None:
                raise ExecutionError(f'node {name} {_how(code)}{self._last_words(name)}')

    def stop(self) -> None:
        """End them all, by force where asking does not help."""
        alive = [p for p in self._processes.values() if p.poll() is None]
        for process in alive:
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _STOP_TIME
        for process in alive:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log(self) -> str:
        """Return what all nodes have said, one node after the other."""
        return '\n'.join(
            f'==> {name} <==\n{self._log(name).read_text(encoding="utf-8", errors="replace")}'
            for name in self._processes
        )

    def _log(self, name: str) -> Path:
        return self._folder / f'{name}.log'

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text(encoding='utf-8', errors='replace').splitlines()
        return (
            ''.join(f'\n    {line}' for line in ['; its last words:', *lines[-_TAIL:]])
            if (lines)
            else '; it said nothing'
        )


def _find(executable: str) -> str:
    """Return the path of a node's executable: beside this command, else beside Python."""
    for folder in (Path(sys.argv[0]).parent, Path(sys.executable).parent):
        path = folder / executable
        if path.is_file() and os.access(path, os.X_OK):
            return str(path.resolve())
    raise ExecutionError(
        f'executable {executable} is neither beside {sys.argv[0]} nor beside {sys.executable}: '
        'install the package (make setup, or colcon build)'
    )


def _die_with(parent: int) -> Callable[[], None]:
    """Return what makes a child end when `parent` ends, even if that is killed."""

    def ask_kernel() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # too late: the parent was gone before we asked

    return ask_kernel


def end_with_parent() -> None:
    """Have this process told to end (SIGTERM) when its parent is gone, even if that is killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _how(code: int) -> str:
    if code >= 0:
        return f'ended with exit code {code}'
    return f'was killed by {signal.Signals(-code).name}'
