# SPDX-License-Identifier: Apache-2.0
"""The built-ins for inputs, outputs, registers and flags."""

from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.values import ScriptFault, Value, integer, number

_CONFIGURABLE, _TOOL = 8, 16  # first bits
_INT_MAX = 2**31 - 1


def _boolean(value: Value) -> bool:
    if type(value) is not bool and value not in (0, 1):
        raise ScriptFault(f'{value}: must be True or False')
    return bool(value)


class Io:
    """Pins, registers, flags."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot

    def _write(self, bit: int, b: Value) -> None:
        mask = 1 << bit
        if _boolean(b):
            self._robot.digital_outputs |= mask
        else:
            self._robot.digital_outputs &= ~mask

    # digital

    def get_digital_in(self, n: Value) -> bool:
        return bool(self._robot.digital_inputs >> integer(n, 0, 17) & 1)

    def get_digital_out(self, n: Value) -> bool:
        return bool(self._robot.digital_outputs >> integer(n, 0, 17) & 1)

    def set_digital_out(self, n: Value, b: Value) -> None:
        self._write(integer(n, 0, 17), b)

    def get_standard_digital_in(self, n: Value) -> bool:
        return self.get_digital_in(integer(n, 0, 7))

    def get_standard_digital_out(self, n: Value) -> bool:
        return self.get_digital_out(integer(n, 0, 7))

    def set_standard_digital_out(self, n: Value, b: Value) -> None:
        self._write(integer(n, 0, 7), b)

    def get_configurable_digital_in(self, n: Value) -> bool:
        return self.get_digital_in(_CONFIGURABLE + integer(n, 0, 7))

    def get_configurable_digital_out(self, n: Value) -> bool:
        return self.get_digital_out(_CONFIGURABLE + integer(n, 0, 7))

    def set_configurable_digital_out(self, n: Value, b: Value) -> None:
        self._write(_CONFIGURABLE + integer(n, 0, 7), b)

    def get_tool_digital_in(self, n: Value) -> bool:
        return self.get_digital_in(_TOOL + integer(n, 0, 1))

    def get_tool_digital_out(self, n: Value) -> bool:
        return self.get_digital_out(_TOOL + integer(n, 0, 1))

    def set_tool_digital_out(self, n: Value, b: Value) -> None:
        self._write(_TOOL + integer(n, 0, 1), b)

    # analog

    def get_analog_in(self, n: Value) -> float:
        return float(self._robot.analog_inputs[integer(n, 0, 3)])

    def get_standard_analog_in(self, n: Value) -> float:
        return self.get_analog_in(integer(n, 0, 1))

    def get_tool_analog_in(self, n: Value) -> float:
        return self.get_analog_in(2 + integer(n, 0, 1))

    def get_analog_out(self, n: Value) -> float:
        return float(self._robot.analog_outputs[integer(n, 0, 1)])

    def get_standard_analog_out(self, n: Value) -> float:
        return self.get_analog_out(n)

    def set_analog_out(self, n: Value, f: Value) -> None:
        fraction = number(f)
        if not 0.0 <= fraction <= 1.0:
            raise ScriptFault(f'analog output {n}: {fraction:g}, must be from 0 to 1')
        self._robot.analog_outputs[integer(n, 0, 1)] = fraction

    def set_standard_analog_out(self, n: Value, f: Value) -> None:
        self.set_analog_out(n, f)

    def set_analog_outputdomain(self, port: Value, domain: Value) -> None:
        bit = 1 << integer(port, 0, 1)
        if integer(domain, 0, 1):
            self._robot.analog_output_types |= bit
        else:
            self._robot.analog_output_types &= ~bit

    def set_analog_inputrange(self, port: Value, range: Value) -> None:
        integer(port, 0, 3)

    def set_standard_analog_input_domain(self, port: Value, domain: Value) -> None:
        integer(port, 0, 1)

    def set_tool_analog_input_domain(self, port: Value, domain: Value) -> None:
        integer(port, 0, 1)

    # the tool's connector

    def set_tool_voltage(self, voltage: Value) -> None:
        wanted = integer(voltage, 0, 24)
        if wanted not in (0, 12, 24):
            raise ScriptFault(f'tool voltage {wanted}: must be 0, 12 or 24')
        self._robot.tool_voltage = wanted

    def set_tool_communication(
        self, enabled: Value, baud_rate: Value, parity: Value, stop_bits: Value,
        rx_idle_chars: Value, tx_idle_chars: Value,
    ) -> None:  # fmt: skip
        _boolean(enabled)

    def set_tool_output_mode(self, mode: Value) -> None:
        integer(mode, 0, 1)

    def set_tool_digital_output_mode(self, n: Value, mode: Value) -> None:
        integer(n, 0, 1)

    # registers

    def read_input_integer_register(self, address: Value) -> int:
        return self._robot.input_ints[integer(address, 0, 47)]

    def read_input_float_register(self, address: Value) -> float:
        return self._robot.input_floats[integer(address, 0, 47)]

    def read_input_boolean_register(self, address: Value) -> bool:
        return self._robot.input_bits[integer(address, 0, 127)]

    def read_output_integer_register(self, address: Value) -> int:
        return self._robot.output_ints[integer(address, 0, 47)]

    def read_output_float_register(self, address: Value) -> float:
        return self._robot.output_floats[integer(address, 0, 47)]

    def read_output_boolean_register(self, address: Value) -> bool:
        return self._robot.output_bits[integer(address, 0, 127)]

    def write_output_integer_register(self, address: Value, value: Value) -> None:
        whole = max(-_INT_MAX - 1, min(_INT_MAX, round(number(value))))
        self._robot.output_ints[integer(address, 0, 47)] = whole

    def write_output_float_register(self, address: Value, value: Value) -> None:
        self._robot.output_floats[integer(address, 0, 47)] = number(value)

    def write_output_boolean_register(self, address: Value, value: Value) -> None:
        self._robot.output_bits[integer(address, 0, 127)] = _boolean(value)

    def get_flag(self, n: Value) -> bool:
        return self._robot.flags[integer(n, 0, 31)]

    def set_flag(self, n: Value, b: Value) -> None:
        self._robot.flags[integer(n, 0, 31)] = _boolean(b)
