# SPDX-License-Identifier: Apache-2.0
"""
Port 29990: what a person does in the cell, and what is true there. No robot has it.

A line is a command, its answer a line: `ok`, what was asked for as JSON, or `error:` and the
reason.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from ur5_pick_place.errors import InvalidInput, quoted
from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.network import Port, answer_lines

PORT = 29990
_MOST_LINE = 1024  # [bytes]
_MOST = {'0|1': 1, 'PIN': 15, 'N': 3, 'FRACTION': 1.0, 'VALUE': 10.0}
"""Of a number by its name, from 0; an int: it must be whole."""


class CellPort:
    def __init__(self, controller: Controller, offset: int) -> None:
        self._controller = controller
        self.port = Port(PORT + offset, answer_lines(self.answer), most=_MOST_LINE)
        c, robot = controller, controller.robot
        # By name: the names of the numbers that it takes, and what it does.
        self.commands: dict[str, tuple[str, Callable[..., Any]]] = {
            'state': ('', self._state),
            'protective_stop': ('', c.protective_stop),
            'unlock': ('', c.unlock_soon),
            'emergency_stop': ('', c.press_emergency_stop),
            'release_emergency_stop': ('', robot.release_emergency_stop),
            'open_safeguard': ('', robot.open_safeguard),
            'close_safeguard': ('', robot.close_safeguard),
            'reduced': ('0|1', lambda on: setattr(c, 'is_reduced', bool(on))),
            'remote': ('0|1', lambda on: setattr(c, 'is_remote', bool(on))),
            'slider': ('FRACTION', lambda fraction: setattr(robot, 'slider', fraction)),
            'input': ('PIN 0|1', lambda pin, level: c.set_input(int(pin), bool(level))),
            'analog_input': ('N VALUE', lambda n, v: c.analog_inputs.__setitem__(int(n), v)),
            'part': ('X Y YAW', c.world.place_part),
            'close_popup': ('', c.close_popup),
        }

    def answer(self, line: str) -> str:
        """Do a command; return its answer."""
        try:
            return self._do(line.split())
        except InvalidInput as error:
            return f'error: {error}'

    def _do(self, words: list[str]) -> str:
        name, *given = words or ['']
        if name not in self.commands:
            known = ', '.join(f'{n} {a}'.strip() for n, (a, _) in self.commands.items())
            raise InvalidInput(f'unknown command {quoted(name)}; known are: {known}')
        names, act = self.commands[name]
        try:
            numbers = [float(word) for word in given]
        except ValueError:
            numbers = [math.nan]
        if len(numbers) != len(names.split()) or not all(map(math.isfinite, numbers)):
            raise InvalidInput(f'{" ".join(words)}: must be {name} {names}'.rstrip())
        for word, number in zip(names.split(), numbers, strict=True):
            most = _MOST.get(word, math.inf)
            is_whole = number.is_integer() or type(most) is float
            if word in _MOST and not (0.0 <= number <= most and is_whole):
                raise InvalidInput(f'{name} {number:g}: must be 0 to {most:g}')
        result = act(*numbers)
        return json.dumps(result) if name == 'state' else 'ok'

    def _state(self) -> dict[str, Any]:
        c = self._controller
        return {
            'time': c.time,
            'mode': c.robot.mode.name,
            'safety': c.safety.name,
            'program': c.program.name if c.program else '',
            'q': c.q.tolist(),
            'target_q': c.target_q.tolist(),
            'part': c.world.T_world_part[:3, 3].tolist(),
            'holds_part': c.world.hand.part_present,
            'popup': c.popup_text,
            'payload': c.payload,
        }
