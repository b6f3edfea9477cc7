# SPDX-License-Identifier: Apache-2.0
"""A URScript program: compiled once, then run a cycle at a time."""

import ast
import queue
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import CodeType
from typing import Any

from ur5_pick_place.sim.controller.script import values
from ur5_pick_place.sim.controller.script.arm import Arm, readings
from ur5_pick_place.sim.controller.script.interpreter import Interpreter
from ur5_pick_place.sim.controller.script.io import pins
from ur5_pick_place.sim.controller.script.lexer import ScriptError
from ur5_pick_place.sim.controller.script.maths import MATHS
from ur5_pick_place.sim.controller.script.motion import Force, Motion
from ur5_pick_place.sim.controller.script.parser import Parser
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.scheduler import Halt, Scheduler, Steps
from ur5_pick_place.sim.controller.script.sockets import Connections, Sockets
from ur5_pick_place.sim.controller.script.system import System
from ur5_pick_place.sim.controller.script.values import ScriptFault

__all__ = ['Program', 'ScriptError']

_FILE = '<urscript>'
_LANGUAGE = ('add', 'subtract', 'multiply', 'divide', 'modulo', 'xor',
             'make_list', 'make_pose', 'put')  # fmt: skip
_HELPERS = {f'h_{name}': getattr(values, name) for name in _LANGUAGE}
_MOST_KEPT, _LONGEST_KEPT = 4, 1 << 16  # texts, characters
_kept: dict[str, tuple[Parser, CodeType]] = {}
"""Texts that are compiled: clients send theirs again, and wait for its start for 0.1 s alone."""


class Program:
    """
    A program for `robot`.

    `text`: as received; statements, or one `def` or `sec` block. `allow_hosts`: whether sockets
    may be opened to other hosts than this one. Raises `ScriptError` if it does not compile.
    """

    def __init__(self, text: str, robot: Robot, allow_hosts: bool = False) -> None:
        self._robot = robot
        self._threads = threads = Scheduler(robot)
        self._arm = arm = Arm(robot, threads)
        self._opened = opened = Connections()
        builtins = MATHS | readings(robot, arm) | pins(robot)
        for group in (
            Sockets(threads, opened, allow_hosts), System(robot, threads),
            Motion(robot, arm, threads), Force(robot, arm),
        ):  # fmt: skip
            builtins |= {name: getattr(group, name) for name in dir(group) if name[0] != '_'}
        self.interpreter = Interpreter(self._compile_statement)
        builtins |= self.interpreter.builtins
        self._parser, code = _kept.get(text) or _parse(text, builtins)
        self.name, self.is_secondary = self._parser.name, self._parser.is_secondary
        self.is_over = False
        self._names = {'__builtins__': {}, **_HELPERS, **threads.helpers}
        self._names |= {f'b_{name}': function for name, function in builtins.items()}
        exec(code, self._names)  # only what `Parser` has made: prefixed names, constants
        self._main = self._names['f0_main']()
        threads.start(self._main)

    @property
    def line(self) -> int:
        """Of the main thread's statement, from 1; 0 after the end."""
        code: Any = self._main
        lineno = 0
        while code is not None and (frame := getattr(code, 'gi_frame', None)) is not None:
            if frame.f_code.co_filename == _FILE:
                lineno = frame.f_lineno
            code = code.gi_yieldfrom
        return self._parser.position(lineno)[0] if lineno and not self.is_over else 0

    def step(self) -> None:
        """
        Run a cycle: every thread until it has spent its part of it.

        Never raises, never blocks. A run-time exception is reported to the robot and ends the
        program.
        """
        if self.is_over:
            return
        self._arm.begin()
        try:
            goes_on = self._threads.step()
            if goes_on and self.is_secondary:
                raise ScriptFault('a secondary program may not take time')
        except Halt:
            goes_on = False
        except Exception as error:
            goes_on = False
            self._robot.exception(*self._place(error), _text_of(error))
        if not self.is_secondary:
            self._arm.end()
        if not goes_on:
            self.kill()

    def kill(self) -> None:
        self.is_over = True
        self._threads.close()
        self._opened.close()

    def _compile_statement(self, text: str) -> Callable[[], Steps]:
        """Return an interpreted statement as a function; raises `ScriptError`."""
        _kept.clear()  # the statement's names become the parser's
        code = _compile(lambda: self._parser.parse_statement(text), '<interpreted>')
        exec(code, self._names)
        statement: Callable[[], Steps] = self._names['f0_main']
        return statement

    def _place(self, error: Exception) -> tuple[int, int]:
        """Return line and column of the innermost statement that raised."""
        lineno, trace = 1, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == _FILE:
                lineno = trace.tb_lineno
            trace = trace.tb_next
        return self._parser.position(lineno)


class Compiler:
    """Compiles one program after the other beside the cycle; its thread ends with the process."""

    def __init__(self) -> None:
        self._jobs = queue.SimpleQueue[tuple[Callable[[], Program], Future[Program]]]()
        threading.Thread(target=self._run, name='urscript', daemon=True).start()

    def submit(self, compile_program: Callable[[], Program]) -> Future[Program]:
        """Return what will hold the program, or the error."""
        future: Future[Program] = Future()
        self._jobs.put((compile_program, future))
        return future

    def _run(self) -> None:
        while True:
            compile_program, future = self._jobs.get()
            try:
                future.set_result(compile_program())
            except BaseException as error:
                future.set_exception(error)


def _parse(text: str, builtins: values.BuiltIns) -> tuple[Parser, CodeType]:
    parser = Parser(text, builtins)
    code = _compile(parser.parse)
    if len(text) <= _LONGEST_KEPT:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[text] = parser, code
    return parser, code


def _compile(parse: Callable[[], ast.Module], file: str = _FILE) -> CodeType:
    try:
        return compile(parse(), file, 'exec', dont_inherit=True)
    except ScriptError:
        raise
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        raise ScriptError(1, 1, f'compile_error_too_complex: {error}') from None


def _text_of(error: Exception) -> str:
    """Return what a robot would report, without names of generated code."""
    if isinstance(error, ScriptFault):
        return str(error)
    if isinstance(error, RecursionError):
        return 'stack overflow: too many calls within each other'
    if isinstance(error, MemoryError):
        return 'out of memory'
    kind = 'type error' if isinstance(error, TypeError) else 'error'
    return f'{kind}: {re.sub(r"[vfbh][0-9]*_(?=[A-Za-z])", "", str(error))}'
