# SPDX-License-Identifier: Apache-2.0
"""Programs, text commands and, on port 30020 of the e-Series, interpreted statements."""

import re
from itertools import islice

from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.network import Port

INTERPRETER = 30020
_LINES = 4  # of a client that are compiled a cycle
MOST_TEXT = 1 << 21
"""Bytes that a program may have."""

_OPENS = re.compile(rb'(def|sec|thread|while|if|for|struct)\b')
_CLOSES = re.compile(rb'end\b')
_BLANK = re.compile(rb'\s*(#.*)?$')


class ProgramReader:
    """
    Cuts what a client sends into programs, a line at a time.

    A program is a `def` or `sec` that begins and ends in the first column, or a single line.
    Comments and blank lines stay with the program that follows, so that its lines count as sent.
    """

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._depth = self.size = 0

    def take(self, inbox: bytearray, is_complete: bool = False) -> list[str]:
        """
        Take the complete lines out of `inbox`; return the programs that end with them.

        `is_complete`: nothing more will arrive, so that the last line needs no newline.
        """
        end = len(inbox) if is_complete else inbox.rfind(b'\n') + 1
        programs: list[str] = []
        for line in bytes(inbox[:end]).splitlines(keepends=True):
            self._begun.append(line)
            self.size += len(line)
            if _OPENS.match(line):
                self._depth += 1
            elif self._depth and _CLOSES.match(line):
                self._depth -= 1
            if not self._depth and not _BLANK.match(line):
                programs.append(b''.join(self._begun).decode('utf-8', 'replace'))
                self._begun, self.size = [], 0
        del inbox[:end]
        return programs


def execute(controller: Controller, text: str) -> None:
    command = {
        'power on': controller.power_on,
        'power off': controller.power_off,
        'set robotmode run': controller.release_brakes,
        # The wait of 5 s is PolyScope's, not the controller's.
        'set unlock protective stop': controller.unlock_soon,
        'stop program': controller.stop,
        'set sim': bool,
        'set real': bool,
    }.get(text.strip().lower())
    if command is not None:
        command()
    else:
        controller.run(text if text.endswith('\n') else text + '\n')


class InterpreterPort:
    def __init__(self, controller: Controller, offset: int = 0) -> None:
        self._controller = controller
        self.port = Port(INTERPRETER + offset, lambda client: None)  # lines wait for `serve`

    def serve(self) -> None:
        """Take some lines of every client, and answer each."""
        for client in self.port.clients:
            for line in islice(client.lines(), _LINES):
                program = self._controller.program
                answer = 'discard: no program runs: ' + line
                if program is not None:
                    answer = program.interpreter.receive(line)
                client.send(f'{answer}\n'.encode())
