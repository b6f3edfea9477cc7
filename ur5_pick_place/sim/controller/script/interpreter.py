# SPDX-License-Identifier: Apache-2.0
"""Interpreter mode: statements that arrive one by one while the program runs them."""

from collections import deque
from collections.abc import Callable

from ur5_pick_place.sim.controller.script.lexer import ScriptError
from ur5_pick_place.sim.controller.script.scheduler import Steps, Wait
from ur5_pick_place.sim.controller.script.values import BuiltIns, Value

_MOST_STATEMENTS = 500


class Interpreter:
    """
    The queue of a program's interpreted statements.

    `compile_statement`: returns a statement as a function, or raises `ScriptError`.
    """

    def __init__(self, compile_statement: Callable[[str], Callable[[], Steps]]) -> None:
        self._compile = compile_statement
        self._queue: deque[tuple[int, Callable[[], Steps]]] = deque()
        self._received = self._executed = self._cleared = 0
        self._is_ending = self._is_aborting = False
        self.is_active = False
        self.builtins: BuiltIns = {
            'interpreter_mode': self._run,
            'end_interpreter': self._end,
            'clear_interpreter': self._clear,
        }

    def receive(self, line: str) -> str:
        """Take a line from outside: a statement or a command; return the answer."""
        statement = line.strip()
        if statement in ('skipbuffer', 'abort'):
            self._queue.clear()
            self._is_aborting = statement == 'abort'
        state = {
            'skipbuffer': self._received,
            'abort': self._received,
            'statelastexecuted': self._executed,
            'statelastinterpreted': self._received,
            'statelastcleared': self._cleared,
            'stateunexecuted': len(self._queue),
        }.get(statement)
        if state is not None:
            return f'state: {state}: {statement}'
        if not self.is_active:
            return f'discard: no program is in interpreter mode: {statement}'
        if self._received - self._cleared >= _MOST_STATEMENTS:
            return f'discard: too many interpreted messages, clear_interpreter first: {statement}'
        try:
            code = self._compile(statement)
        except ScriptError as error:
            return f'discard: {error.text}: {statement}'
        self._received += 1
        self._queue.append((self._received, code))
        return f'ack: {self._received}: {statement}'

    def _run(self, clearQueueOnEnter: Value = True, clearOnEnd: Value = True) -> Wait:
        if clearQueueOnEnter:
            self._queue.clear()
        self.is_active, self._is_ending = True, False
        try:
            while self._queue or not self._is_ending:
                if self._queue:
                    yield from self._execute(*self._queue.popleft())
                else:
                    yield
        finally:
            self.is_active = False
        if clearOnEnd:
            self._clear()

    def _execute(self, number: int, statement: Callable[[], Steps]) -> Wait:
        self._is_aborting = False
        for _ in statement():
            yield
            if self._is_aborting:
                break
        self._executed = number

    def _end(self) -> None:
        self._is_ending = True

    def _clear(self) -> None:
        self._cleared = self._executed
