# SPDX-License-Identifier: Apache-2.0
"""Programs, text commands and, on port 30020 of the e-Series, interpreted statements."""

import re
from codecs import BOM_UTF8
from collections.abc import Callable

from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.network import Port, answer_lines

INTERPRETER = 30020
_LONGEST_COMMAND = 100  # characters
MOST_TEXT = 1 << 21  # bytes of a program

_OPENS = re.compile(rb'(def|sec|thread|while|if|for|struct)\b')
_CLOSES = re.compile(rb'end\b')
_BLANK = re.compile(rb'\s*(#.*)?$')


class ProgramReader:
    """
    Cuts what a client sends into programs, a line at a time.

    A program is a block, as `def`, that ends in the column in which it begins, or a single line.
    Comments and blank lines stay with the program that follows, so that its lines count as sent.
    """

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._depth = self._column = self.size = 0

    def take(self, inbox: bytearray, is_complete: bool = False) -> list[str]:
        """
        Take the complete lines out of `inbox`; return the programs that end with them.

        `is_complete`: nothing more will arrive, so that the last line needs no newline, and what
        has not ended is left to the compiler.
        """
        end = len(inbox) if is_complete else inbox.rfind(b'\n') + 1
        programs: list[str] = []
        for line in bytes(inbox[:end]).splitlines(keepends=True):
            self._begun.append(line)
            self.size += len(line)
            line = line.removeprefix(BOM_UTF8)
            text = line.lstrip(b' \t')
            column = len(line) - len(text)
            self._column = self._column if self._depth else column
            if column <= self._column and _OPENS.match(text):
                self._depth += 1
            elif self._depth and column <= self._column and _CLOSES.match(text):
                self._depth -= 1
            if not self._depth and not _BLANK.match(line):
                programs.append(self._cut())
        del inbox[:end]
        return [*programs, self._cut()] if is_complete and self._depth else programs

    def _cut(self) -> str:
        program = b''.join(self._begun).decode('utf-8', 'replace')
        self._begun, self._depth, self.size = [], 0, 0
        return program


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


def interpreter_port(controller: Controller, offset: int) -> Port:
    def answer(line: str) -> str:
        if (program := controller.program) is None:
            return f'discard: no program runs: {line}'
        return program.interpreter.receive(line)

    return Port(INTERPRETER + offset, answer_lines(answer))
