# SPDX-License-Identifier: Apache-2.0
"""`sim_controller` as a process of its own, for tests and scripts."""

import json
import random
import socket
import subprocess
import sys
import tempfile
from typing import Any

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.controller.cell_port import PORT

_RUN = 'from ur5_pick_place.commands.sim_controller import main; raise SystemExit(main())'
_READY = 'ready'
_ANSWER_TIME = 30.0  # [s]
_END_TIME = 10.0  # [s]


class RunningController:
    """
    A context manager: a simulated robot at an address of this machine that nobody else uses.

    `options`: those of `sim_controller`, as '--ur-type', 'ur5e'. Raises `InvalidInput`: they are
    wrong.
    """

    def __init__(self, *options: str) -> None:
        self.host = '127.0.0.1'
        if sys.platform == 'linux':  # which answers at every 127.x.y.z, others at one
            self.host = '.'.join(['127', *(str(random.randint(2, 253)) for _ in range(3))])
        with tempfile.TemporaryFile('w+') as log:  # a pipe that nobody reads would fill and block
            self.process = subprocess.Popen(
                [sys.executable, '-c', _RUN, '--host', self.host, *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            assert self.process.stdout is not None
            if any(line.startswith(_READY) for line in self.process.stdout):
                return
            self.process.wait()
            log.seek(0)
            raise InvalidInput(f'sim_controller has not started: {log.read()}')

    def __enter__(self) -> 'RunningController':
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.communicate(timeout=_END_TIME)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def tell(self, command: str) -> str:
        """
        Return the answer of the cell's port to a command, as 'protective_stop'.

        Raises `InvalidInput` with the reason if the cell refuses it.
        """
        with socket.create_connection((self.host, PORT), timeout=_ANSWER_TIME) as wire:
            wire.sendall(f'{command}\n'.encode())
            answer = wire.makefile().readline().strip()
        if answer.startswith('error: '):
            raise InvalidInput(answer.removeprefix('error: '))
        return answer

    def state(self) -> dict[str, Any]:
        """Return what is true in the cell: joints, pose of the part, mode, and so on."""
        return dict(json.loads(self.tell('state')))
