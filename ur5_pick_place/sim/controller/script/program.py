# SPDX-License-Identifier: Apache-2.0
"""A URScript program: compiled once, then run a cycle at a time."""

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.controller.script.robot import Robot


class ScriptError(InvalidInput):
    """
    A program that does not compile.

    `line`, `column`: where, from 1 in the text as sent. `text`: as a robot reports it.

    """

    def __init__(self, line: int, column: int, text: str) -> None:
        super().__init__(f'{line}:{column}: {text}')
        self.line, self.column, self.text = line, column, text


class Program:
    """
    A program for `robot`.

    `text`: as received, ending with a newline; a single statement or a `def` or `sec` block.
    `allow_hosts`: whether sockets may be opened to other hosts than this one.
    Raises `ScriptError` if it does not compile.

    """

    name: str
    """Of its `def` or `sec`, or `unnamed`."""
    is_secondary: bool
    """Whether it is a `sec`: it runs beside the main program, in one step."""
    is_over: bool
    line: int
    """Of the main thread's statement, from 1; 0 after the end."""

    def __init__(self, text: str, robot: Robot, allow_hosts: bool = False) -> None:
        raise ScriptError(1, 1, 'no interpreter yet')

    def step(self) -> None:
        """
        Run a cycle: every thread until it has spent its frame.

        Never raises, never blocks. A run-time exception is reported to the robot and ends the
        program.

        """

    def kill(self) -> None:
        """End the program: its threads, its sockets."""
