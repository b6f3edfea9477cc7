# SPDX-License-Identifier: Apache-2.0
"""The interpreter's port, 30020, of the e-Series: statements for a program in interpreter mode."""

from itertools import islice

from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.network import Port

PORT = 30020
_LINES = 4  # of a client that are compiled a cycle


class InterpreterPort:
    """Serves the interpreter for a controller; `offset` is added to the number of the port."""

    def __init__(self, controller: Controller, offset: int = 0) -> None:
        self._controller = controller
        self.port = Port(PORT + offset, lambda client: None)  # lines wait for `serve`

    def serve(self) -> None:
        """Take some lines of every client, and answer each."""
        for client in self.port.clients:
            for line in islice(client.lines(), _LINES):
                program = self._controller.program
                answer = 'discard: no program runs: ' + line
                if program is not None:
                    answer = program.interpreter.receive(line)
                client.send(f'{answer}\n'.encode())
