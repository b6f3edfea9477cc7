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
_PINS = 16  # of the control box


class CellPort:
    def __init__(self, controller: Controller, offset: int = 0) -> None:
        self._controller = controller
        self.port = Port(PORT + offset, answer_lines(self.answer), most=_MOST_LINE)
        robot = controller.robot
        # By name: the names of the numbers that it takes, and what it does.
        self.commands: dict[str, tuple[str, Callable[..., Any]]] = {
            'state': ('', self._state),
            'protective_stop': ('', controller.protective_stop),
            'unlock': ('', controller.unlock_soon),
            'emergency_stop': ('', controller.press_emergency_stop),
            'release_emergency_stop': ('', robot.release_emergency_stop),
            'open_safeguard': ('', robot.open_safeguard),
            'close_safeguard': ('', robot.close_safeguard),
            'reduced': ('0|1', self._reduced),
            'remote': ('0|1', self._remote),
            'slider': ('FRACTION', self._slider),
            'input': ('PIN 0|1', self._input),
            'analog_input': ('N VALUE', self._analog_input),
            'part': ('X Y YAW', controller.world.place_part),
            'close_popup': ('', controller.close_popup),
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

    def _reduced(self, on: float) -> None:
        self._controller.is_reduced = bool(on)

    def _remote(self, on: float) -> None:
        self._controller.is_remote = bool(on)

    def _slider(self, fraction: float) -> None:
        if not 0.0 <= fraction <= 1.0:
            raise InvalidInput(f'slider {fraction:g}: must be 0 to 1')
        self._controller.robot.slider = fraction

    def _input(self, pin: float, level: float) -> None:
        if pin not in range(_PINS):
            raise InvalidInput(f'input {pin:g}: must be 0 to {_PINS - 1}')
        self._controller.set_input(int(pin), bool(level))

    def _analog_input(self, n: float, value: float) -> None:
        if n not in range(4) or not 0.0 <= value <= 10.0:
            raise InvalidInput(f'analog input {n:g} at {value:g}: must be 0 to 3, at 0 to 10 V')
        self._controller.analog_inputs[int(n)] = value
