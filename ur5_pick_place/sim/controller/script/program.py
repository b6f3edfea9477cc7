# SPDX-License-Identifier: Apache-2.0
"""A URScript program: compiled once, then run a cycle at a time."""

import inspect
import re
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

from ur5_pick_place.sim.controller.script import maths, values
from ur5_pick_place.sim.controller.script.arm import Arm
from ur5_pick_place.sim.controller.script.expressions import Check
from ur5_pick_place.sim.controller.script.force import Force
from ur5_pick_place.sim.controller.script.io import Io
from ur5_pick_place.sim.controller.script.lexer import ScriptError
from ur5_pick_place.sim.controller.script.motion import Motion
from ur5_pick_place.sim.controller.script.parser import Parser
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.scheduler import Halt, Scheduler, Steps, Wait
from ur5_pick_place.sim.controller.script.sockets import Sockets
from ur5_pick_place.sim.controller.script.state import State
from ur5_pick_place.sim.controller.script.system import System
from ur5_pick_place.sim.controller.script.values import ScriptFault

__all__ = ['Program', 'ScriptError']

_FILE = '<urscript>'
_LANGUAGE = ('add', 'subtract', 'multiply', 'divide', 'modulo', 'negate', 'xor',
             'make_list', 'make_pose', 'put')  # fmt: skip
_HELPERS = {f'h_{name}': getattr(values, name) for name in _LANGUAGE}


class Program:
    """
    A program for `robot`.

    `text`: as received; statements, or one `def` or `sec` block. `allow_hosts`: whether sockets
    may be opened to other hosts than this one. Raises `ScriptError` if it does not compile.

    """

    def __init__(self, text: str, robot: Robot, allow_hosts: bool = False) -> None:
        self._parser = Parser(text, _checks())
        code = _compile(self._parser)
        self.name, self.is_secondary = self._parser.name, self._parser.is_secondary
        self.is_over = False
        self._robot = robot
        self._threads = Scheduler(robot)
        self._arm = Arm(robot, self._threads)
        self._sockets = Sockets(self._threads, allow_hosts)
        state = State(robot, self._arm, self._threads)
        groups = (state, Io(robot), self._sockets, System(robot, self._threads),
                  Motion(robot, self._arm, self._threads), Force(robot, self._arm))  # fmt: skip
        names: dict[str, Any] = {'__builtins__': {}, 'UNSET': object()}
        names |= _HELPERS | self._threads.helpers
        names |= {f'b_{name}': function for name, function in _public(maths).items()}
        for group in groups:
            names |= {f'b_{name}': getattr(group, name) for name in _public(type(group))}
        exec(code, names)  # only what `Parser` has made: prefixed names, constants
        self._main = names['f0_main']()
        self._threads.start(self._main)

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
        self._arm.end()
        if not goes_on:
            self.kill()

    def kill(self) -> None:
        """End the program: its threads, its sockets."""
        self.is_over = True
        self._threads.close()
        self._sockets.close()

    def _place(self, error: Exception) -> tuple[int, int]:
        """Return line and column of the innermost statement that raised."""
        lineno, trace = 1, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == _FILE:
                lineno = trace.tb_lineno
            trace = trace.tb_next
        return self._parser.position(lineno)


def _compile(parser: Parser) -> CodeType:
    module = parser.parse()
    try:
        return compile(module, _FILE, 'exec', dont_inherit=True)
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        raise ScriptError(1, 1, f'compile_error_too_complex: {error}') from None


def _public(owner: object) -> dict[str, Callable[..., Any]]:
    """Return what a module or class offers to programs: its functions without an underscore."""
    return {
        name: found
        for name, found in vars(owner).items()
        if inspect.isfunction(found) and name[0] != '_' and found.__module__ == _module(owner)
    }


def _module(owner: object) -> str:
    return str(getattr(owner, '__module__', getattr(owner, '__name__', '')))


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


@lru_cache(maxsize=1)
def _checks() -> dict[str, Check]:
    found = {name: _check(function, 0) for name, function in _public(maths).items()}
    for group in (State, Io, Sockets, System, Motion, Force):
        found |= {name: _check(function, 1) for name, function in _public(group).items()}
    return found


def _check(function: Callable[..., Any], bound: int) -> Check:
    takes_time = function.__annotations__.get('return') in (Steps, Wait)
    signature = inspect.signature(function)

    def check(count: int, names: list[str]) -> bool:
        signature.bind(*[None] * (count + bound), **dict.fromkeys(names))
        return takes_time

    return check
