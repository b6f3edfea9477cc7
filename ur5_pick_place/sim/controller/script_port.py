# SPDX-License-Identifier: Apache-2.0
"""Programs, text commands and, on port 30020 of the e-Series, interpreted statements."""

import re
from collections.abc import Callable

from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.network import Port, answer_lines

INTERPRETER = 30020
_LONGEST_COMMAND = 100  # characters
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


# The wait of 5 s before an unlock is PolyScope's, not the controller's.
_COMMANDS: dict[str, Callable[[Controller], bool]] = {
    'power on': Controller.power_on,
    'power off': Controller.power_off,
    'set robotmode run': Controller.release_brakes,
    'set unlock protective stop': Controller.unlock_soon,
    'stop program': Controller.stop,
    'set sim': bool,
    'set real': bool,
}


def execute(controller: Controller, text: str) -> None:
    command = _COMMANDS.get(text.strip().lower()) if len(text) < _LONGEST_COMMAND else None
    if command is not None:
        command(controller)
    else:
        controller.run(lambda: text if text.endswith('\n') else text + '\n')


def interpreter_port(controller: Controller, offset: int = 0) -> Port:
    def answer(line: str) -> str:
        program = controller.program
        if program is None:
            return f'discard: no program runs: {line}'
        return program.interpreter.receive(line)

    return Port(INTERPRETER + offset, answer_lines(answer))
