# SPDX-License-Identifier: Apache-2.0
"""The built-ins for inputs, outputs, registers and flags."""

from collections.abc import Callable, Sequence
from typing import Any

from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.values import (
    BuiltIns,
    ScriptFault,
    Value,
    integer,
    number,
)

_INT_MAX = 2**31 - 1
_GROUPS = {'': (0, 18), 'standard_': (0, 8), 'configurable_': (8, 8), 'tool_': (16, 2)}
"""Of digital pins: the first bit, and how many there are."""


def boolean(value: Value) -> bool:
    if type(value) is not bool and value not in (0, 1):
        raise ScriptFault(f'{value}: must be True or False')
    return bool(value)


def _digital(robot: Robot, group: str) -> BuiltIns:
    first, count = _GROUPS[group]

    def bit(n: Value) -> int:
        return first + integer(n, 0, count - 1)

    return {
        f'get_{group}digital_in': lambda n: bool(robot.digital_inputs >> bit(n) & 1),
        f'get_{group}digital_out': lambda n: bool(robot.digital_outputs >> bit(n) & 1),
        f'set_{group}digital_out': (
            lambda n, b: robot.set_outputs(1 << bit(n), boolean(b) << bit(n))
        ),
    }


def _analog(robot: Robot) -> BuiltIns:
    def write(n: Value, f: Value) -> None:
        fraction = number(f)
        if not 0.0 <= fraction <= 1.0:
            raise ScriptFault(f'analog output {n}: {fraction:g}, must be from 0 to 1')
        robot.analog_outputs[integer(n, 0, 1)] = fraction

    def set_domain(port: Value, domain: Value) -> None:
        n, is_voltage = integer(port, 0, 1), integer(domain, 0, 1)
        robot.analog_output_types = robot.analog_output_types & ~(1 << n) | is_voltage << n

    def set_voltage(voltage: Value) -> None:
        wanted = integer(voltage, 0, 24)
        if wanted not in (0, 12, 24):
            raise ScriptFault(f'tool voltage {wanted}: must be 0, 12 or 24')
        robot.tool_voltage = wanted

    return {
        'get_analog_in': lambda n: float(robot.analog_inputs[integer(n, 0, 3)]),
        'get_standard_analog_in': lambda n: float(robot.analog_inputs[integer(n, 0, 1)]),
        'get_tool_analog_in': lambda n: float(robot.analog_inputs[2 + integer(n, 0, 1)]),
        'get_analog_out': lambda n: float(robot.analog_outputs[integer(n, 0, 1)]),
        'get_standard_analog_out': lambda n: float(robot.analog_outputs[integer(n, 0, 1)]),
        'set_analog_out': write,
        'set_standard_analog_out': write,
        'set_analog_outputdomain': set_domain,
        'set_tool_voltage': set_voltage,
        # what the cell has nothing for
        'set_analog_inputrange': lambda port, range: None,
        'set_standard_analog_input_domain': lambda port, domain: None,
        'set_tool_analog_input_domain': lambda port, domain: None,
        'set_tool_output_mode': lambda mode: None,
        'set_tool_digital_output_mode': lambda n, mode: None,
        'set_tool_communication': (
            lambda enabled, baud_rate, parity, stop_bits, rx_idle_chars, tx_idle_chars: None
        ),
    }


def _reader(values: Sequence[Value]) -> Callable[[Value], Value]:
    return lambda address: values[integer(address, 0, len(values) - 1)]


def _put(values: list[Any], n: Value, value: Value) -> None:
    values[integer(n, 0, len(values) - 1)] = value


def _registers(robot: Robot) -> BuiltIns:
    reads = {
        f'read_{way}_{word}_register': _reader(getattr(robot, f'{way}_{values}'))
        for way in ('input', 'output')
        for word, values in (('integer', 'ints'), ('float', 'floats'), ('boolean', 'bits'))
    }

    def write_int(address: Value, value: Value) -> None:
        whole = max(-_INT_MAX - 1, min(_INT_MAX, round(number(value))))
        _put(robot.output_ints, address, whole)

    return {
        **reads,
        'write_output_integer_register': write_int,
        'write_output_float_register': (
            lambda address, value: _put(robot.output_floats, address, number(value))
        ),
        'write_output_boolean_register': (
            lambda address, value: _put(robot.output_bits, address, boolean(value))
        ),
        'get_flag': lambda n: robot.flags[integer(n, 0, 31)],
        'set_flag': lambda n, b: _put(robot.flags, n, boolean(b)),
    }


def pins(robot: Robot) -> BuiltIns:
    found = _analog(robot) | _registers(robot)
    for group in _GROUPS:
        found |= _digital(robot, group)
    return found
