# SPDX-License-Identifier: Apache-2.0
"""Inputs, outputs and registers of a robot, and what an RTDE input package does to them."""

import math


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
