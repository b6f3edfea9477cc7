# SPDX-License-Identifier: Apache-2.0
"""Nodes as processes in their own DDS domain, which end with this process."""

import contextlib
import ctypes
import io
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.nodes.cell.node_list import NodeSpec
from ur5_pick_place.nodes.ros.distro import discovery
from ur5_pick_place.nodes.ros.environment import prepare_environment

_DOMAIN = 'ROS_DOMAIN_ID'
_DOMAINS = range(1, 102)  # above 101 the ports overlap Linux's ephemeral ports
_STOP_TIME = 0.6  # [s] to end after SIGINT, before they are killed
_WRITING_TIME = 1.8  # [s] for the recorder, which may have a record to write
_TAIL = 12  # log lines quoted when a node has died
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def reserved(domain: int) -> Iterator[bool]:
    """Reserve a domain among cells and demos; gives whether it was free. Nodes may be in it."""
    # A name in Linux's abstract socket namespace, which goes with this process.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
        try:
            name.bind(f'\0ur5_pick_place.domain.{domain}')
            is_free = True
        except OSError:
            is_free = False
        yield is_free


@contextlib.contextmanager
def own_domain() -> Iterator[int]:
    """
    Reserve a ROS_DOMAIN_ID that no process on this machine uses, and set it meanwhile.

    A check of the domain's ports excludes ROS processes that reserve none.

    Raises `ExecutionError`: all domains are in use; `InvalidInput`: as `prepare_environment`.
    """
    for domain in random.sample(_DOMAINS, len(_DOMAINS)):
        with reserved(domain) as is_free:
            # The port of a domain's i-th process; local discovery tries 32 of them.
            if is_free and all(_is_free(7410 + 250 * domain + 2 * i) for i in range(32)):
                prepare_environment(domain)
                given = os.environ.get(_DOMAIN)
                os.environ[_DOMAIN] = str(domain)
                try:
                    yield domain
                finally:
                    if given is None:
                        del os.environ[_DOMAIN]
                    else:
                        os.environ[_DOMAIN] = given
                return
    raise ExecutionError(f'every ROS_DOMAIN_ID of {_DOMAINS} is in use on this machine')


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(('', port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """Give a temporary folder, which goes with the context or with this process, even killed."""
    with tempfile.TemporaryDirectory(prefix='ur5_pick_place-') as folder:
        # Its end of the pipe closes with this process; in a session of its own it survives Ctrl-C.
        removal = ['sh', '-c', 'read _; rm -rf -- "$0"', folder]
        with subprocess.Popen(removal, stdin=subprocess.PIPE, start_new_session=True):
            yield Path(folder)


class NodeProcesses:
    """
    The nodes of a list, one process each.

    Leaving the context ends them; so does any end of this process.

    `domain`: ROS_DOMAIN_ID. `folder`: folder for `<executable>.log`. `reach`:
    ROS_AUTOMATIC_DISCOVERY_RANGE.

    Raises `ExecutionError`: an executable is not installed.
    """

    def __init__(
        self, specs: Sequence[NodeSpec], domain: int, folder: Path, reach: str = 'LOCALHOST'
    ) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        environment = {
            **os.environ,
            _DOMAIN: str(domain),
            **discovery(reach),
            'RCUTILS_LOGGING_BUFFERED_STREAM': '0',
            'PYTHONUNBUFFERED': '1',
            # Five nodes on two cores: threads of linear algebra would only slow them down.
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
        # A process group of its own: Ctrl-C reaches the parent alone. Not a session of its own:
        # Linux's autogroup would weigh each session as a whole, and with one core busy a thread
        # that had rarely run waited for up to 0.28 s, in which no joint state arrived.
        group: dict[str, Any] = {'process_group': 0} if sys.version_info >= (3, 11) else {}
        with self._log(spec.executable).open('wb') as log:
            return subprocess.Popen(
                [*_child_of(os.getpid()), _find(spec.executable), *spec.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                **group,
            )

    def __enter__(self) -> 'NodeProcesses':
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by executable."""
        return {name: process.pid for name, process in self._processes.items()}

    def check(self) -> None:
        """
        Check that all nodes are running.

        Raises `ExecutionError`: a node has ended; gives its exit code or signal and its last log
        lines.
        """
        for name, how in self.ended.items():
            raise ExecutionError(f'node {name} {how}{self._log_tail(name)}')

    @property
    def ended(self) -> dict[str, str]:
        """How those nodes ended that are not running any more, by executable."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        return {name: how_ended(code) for name, code in codes.items() if code is not None}

    def stop(self) -> None:
        """End all nodes by SIGINT; kill those that do not end in time."""
        alive = {name: p for name, p in self._processes.items() if p.poll() is None}
        for process in alive.values():
            process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        for name in sorted(alive, key=lambda name: name == 'recorder'):
            process, limit = alive[name], _WRITING_TIME if name == 'recorder' else _STOP_TIME
            try:
                process.wait(max(0.0, begin + limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log(self) -> str:
        """Return the logs of all nodes, one after the other."""
        return '\n'.join(
            f'==> {name} <==\n{self._log(name).read_text(encoding="utf-8", errors="replace")}'
            for name in self._processes
        )

    def _log(self, name: str) -> Path:
        return self._folder / f'{name}.log'

    def _log_tail(self, name: str) -> str:
        lines = self._log(name).read_text(encoding='utf-8', errors='replace').splitlines()
        if not lines:
            return '; it logged nothing'
        return '; its last log lines:' + ''.join(f'\n    {line}' for line in lines[-_TAIL:])


def _child_of(parent: int) -> list[str]:
    """
    Return the words before a command that let the kernel kill it with process `parent`.

    The shell ends a command whose parent was killed before the kernel was asked.
    """
    check = f'[ $PPID = {parent} ] && exec "$@"'
    return ['setpriv', '--pdeathsig', 'KILL', 'sh', '-c', check, 'sh']


def _find(executable: str) -> str:
    """Return the path of an executable: next to this command, else next to Python."""
    for folder in (Path(sys.argv[0]).parent, Path(sys.executable).parent):
        path = folder / executable
        if path.is_file() and os.access(path, os.X_OK):
            return str(path.resolve())
    raise ExecutionError(
        f'executable {executable} is neither next to {sys.argv[0]} nor next to {sys.executable}: '
        'install the package (make setup, or colcon build)'
    )


def begin_command() -> None:
    """Let a pipe show each line at once; under `make`, end with it even if that is killed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    if 'MAKELEVEL' in os.environ:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def how_ended(code: int) -> str:
    """Return in words how a process ended, from the `exitcode` that Python gives."""
    if code >= 0:
        return f'ended with exit code {code}'
    return f'was killed by {signal.Signals(-code).name}'
