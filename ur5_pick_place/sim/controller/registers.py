# SPDX-License-Identifier: Apache-2.0
"""Inputs, outputs and registers of a robot, and what an RTDE input package does to them."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any


class Registers:
    """
    Pins and registers.

    `digital_inputs`, `digital_outputs`: bits 0-7 standard, 8-15 configurable, 16-17 tool.
    `analog_inputs`: standard 0, 1, tool 0, 1 [V] or [A]. `analog_outputs`: 0 and 1, as fractions
    of their range; bit n of `analog_output_types` is 1 for a voltage, 0 for a current.
    """

    def __init__(self) -> None:
        self.digital_inputs = self.digital_outputs = 0
        self.analog_inputs = [0.0, 0.0, 0.0, 0.0]
        self.analog_outputs = [0.0, 0.0]
        self.analog_output_types = 0
        self.input_ints, self.output_ints = [0] * 48, [0] * 48
        self.input_floats, self.output_floats = [0.0] * 48, [0.0] * 48
        self.input_bits, self.output_bits = [False] * 128, [False] * 128
        self.flags = [False] * 32

    def set_input(self, pin: int, level: bool) -> None:
        self.digital_inputs = self.digital_inputs & ~(1 << pin) | int(level) << pin

    def set_outputs(self, mask: int, values: int) -> None:
        self.digital_outputs = self.digital_outputs & ~mask | values & mask

    def set_analog_outputs(self, mask: int, types: int, values: list[float]) -> None:
        """Set the analog outputs of a mask, to fractions of their range; bits of `types`: V."""
        for n, value in enumerate(values):
            if mask >> n & 1 and math.isfinite(value):
                self.analog_outputs[n] = min(max(value, 0.0), 1.0)
                self.analog_output_types = self.analog_output_types & ~(1 << n) | types & 1 << n

    def analog_output(self, n: int) -> float:
        """Return an analog output in [V] or [A]."""
        value = self.analog_outputs[n]
        return 10.0 * value if self.analog_output_types >> n & 1 else 0.004 + 0.016 * value


def bits_of(levels: list[bool]) -> int:
    return sum(level << n for n, level in enumerate(levels))


def _set_bits(levels: list[bool], first: int, value: int) -> None:
    levels[first : first + 32] = [bool(value >> n & 1) for n in range(32)]


def register_writer(registers: Registers, name: str) -> Callable[[Any], None] | None:
    """Return what writes an input register of that name; None if there is none."""
    first = {'input_bit_registers0_to_31': 0, 'input_bit_registers32_to_63': 32}.get(name)
    if first is not None:
        return partial(_set_bits, registers.input_bits, first)
    kinds: dict[str, list[Any]] = {
        'input_int_register_': registers.input_ints,
        'input_double_register_': registers.input_floats,
        'input_bit_register_': registers.input_bits,
    }
    for prefix, values in kinds.items():
        if name.startswith(prefix):
            return partial(values.__setitem__, int(name.removeprefix(prefix)))
    return None
