# SPDX-License-Identifier: Apache-2.0
"""The fields of RTDE: outputs with their types and values, inputs with types and effects."""

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.registers import bits_of, register_writer
from ur5_pick_place.sim.controller.sample import JOINT_VOLTAGE, MAINS, Sample

_FORMATS = {
    'BOOL': '?', 'UINT8': 'B', 'UINT32': 'I', 'UINT64': 'Q', 'INT32': 'i', 'DOUBLE': 'd',
    'VECTOR3D': '3d', 'VECTOR6D': '6d', 'VECTOR6INT32': '6i', 'VECTOR6UINT32': '6I',
}  # fmt: skip
_TOOL_TEMPERATURE = 25.0  # [deg C]

Getter = Callable[[Sample], Any]


class Output(NamedTuple):
    """An output: its type, and its value as a number or a sequence of them."""

    kind: str
    value: Getter


_SIMULATED: dict[str, dict[str, Getter]] = {
    'DOUBLE': {
        'timestamp': lambda s: s.c.time,
        'speed_scaling': lambda s: s.c.speed_scaling,
        'target_speed_fraction': lambda s: s.c.robot.slider,
        'actual_main_voltage': lambda s: MAINS,
        'actual_robot_voltage': lambda s: MAINS if s.is_powered else 0.0,
        'actual_robot_current': lambda s: s.robot_current,
        'standard_analog_input0': lambda s: s.c.analog_inputs[0],
        'standard_analog_input1': lambda s: s.c.analog_inputs[1],
        'standard_analog_output0': lambda s: s.c.analog_output(0),
        'standard_analog_output1': lambda s: s.c.analog_output(1),
        'tool_analog_input0': lambda s: s.c.analog_inputs[2],
        'tool_analog_input1': lambda s: s.c.analog_inputs[3],
        'tool_output_current': lambda s: 0.05 if s.c.tool_voltage else 0.0,
        'tool_temperature': lambda s: _TOOL_TEMPERATURE,
        'tcp_force_scalar': lambda s: float(np.linalg.norm(s.c.wrench[:3])),
        'payload': lambda s: s.c.payload,
    },
    'VECTOR6D': {
        'target_q': lambda s: s.c.target_q,
        'target_qd': lambda s: s.c.target_qd,
        'target_qdd': lambda s: s.c.target_qdd,
        'target_current': lambda s: s.c.current,
        'target_moment': lambda s: s.c.torque,
        'actual_q': lambda s: s.c.q,
        'actual_qd': lambda s: s.c.qd,
        'actual_current': lambda s: s.c.current,
        'actual_current_as_torque': lambda s: s.c.torque,
        'joint_control_output': lambda s: s.c.current,
        'actual_TCP_pose': lambda s: s.pose,
        'actual_TCP_speed': lambda s: s.speed,
        'actual_TCP_force': lambda s: s.c.wrench,
        'target_TCP_pose': lambda s: s.target_pose,
        'target_TCP_speed': lambda s: s.target_speed,
        'tcp_offset': lambda s: s.tcp_offset,
        'actual_TCP_acceleration': lambda s: s.target_acceleration,
        'target_TCP_acceleration': lambda s: s.target_acceleration,
        'joint_temperatures': lambda s: s.c.temperature,
        'actual_joint_voltage': lambda s: (JOINT_VOLTAGE if s.is_powered else 0.0,) * 6,
        'ft_raw_wrench': lambda s: s.c.wrench,
        'wrench_calc_from_currents': lambda s: s.c.wrench,
        'payload_inertia': lambda s: s.c.payload_inertia,
    },
    'VECTOR3D': {
        'actual_tool_accelerometer': lambda s: s.gravity_in_tool,
        'elbow_position': lambda s: s.elbow,
        'payload_cog': lambda s: s.c.payload_cog,
        'target_gravity': lambda s: s.c.gravity,
    },
    'UINT64': {
        'actual_digital_input_bits': lambda s: s.c.digital_inputs,
        'actual_digital_output_bits': lambda s: s.c.digital_outputs,
        'actual_configurable_digital_input_bits': lambda s: s.c.digital_inputs >> 8 & 0xFF,
        'actual_configurable_digital_output_bits': lambda s: s.c.digital_outputs >> 8 & 0xFF,
        'control_step': lambda s: s.c.cycles,
    },
    'UINT32': {
        'runtime_state': lambda s: s.c.runtime_state,
        'robot_status_bits': lambda s: s.robot_status_bits,
        'safety_status_bits': lambda s: s.safety_status_bits,
        # bits: analog inputs 0 and 1, which are voltages here, then the outputs
        'analog_io_types': lambda s: 3 | s.c.analog_output_types << 2,
        'tool_mode': lambda s: s.joint_modes[0],
        'tool_analog_input_types': lambda s: 3,
        'script_control_line': lambda s: s.c.program.line if s.c.program else 0,
        'input_bit_registers0_to_31': lambda s: bits_of(s.c.input_bits[:32]),
        'input_bit_registers32_to_63': lambda s: bits_of(s.c.input_bits[32:64]),
        'output_bit_registers0_to_31': lambda s: bits_of(s.c.output_bits[:32]),
        'output_bit_registers32_to_63': lambda s: bits_of(s.c.output_bits[32:64]),
    },
    'INT32': {
        'robot_mode': lambda s: int(s.c.robot.mode),
        'safety_mode': lambda s: int(s.c.safety),
        'safety_status': lambda s: int(s.c.safety),
        'tool_output_voltage': lambda s: s.c.tool_voltage,
    },
    'VECTOR6INT32': {'joint_mode': lambda s: s.joint_modes},
}
_NOT_SIMULATED = {  # by type; their value is 0
    'DOUBLE': (
        'actual_execution_time', 'target_execution_time', 'actual_momentum', 'io_current',
        'joint_position_deviation_ratio', 'collision_detection_ratio', 'euromap67_24V_voltage',
        'euromap67_24V_current', 'actual_robot_energy_consumed',
        'actual_robot_braking_energy_dissipated',
    ),
    'VECTOR6D': ('actual_current_window', 'target_base_acceleration', 'target_base_wrench'),
    'VECTOR3D': ('elbow_velocity',),
    'UINT32': ('euromap67_input_bits', 'euromap67_output_bits'),
    'INT32': ('encoder0_raw', 'encoder1_raw', 'time_scale_source'),
    'UINT8': ('tool_output_mode', 'tool_digital_output0_mode', 'tool_digital_output1_mode'),
}  # fmt: skip
_E_SERIES_ALONE = {
    'ft_raw_wrench', 'wrench_calc_from_currents', 'tool_output_mode', 'tool_digital_output0_mode',
    'tool_digital_output1_mode', 'actual_current_as_torque', 'collision_detection_ratio',
    'encoder0_raw', 'encoder1_raw', 'actual_robot_energy_consumed', 'time_scale_source',
    'actual_robot_braking_energy_dissipated', 'target_gravity', 'target_base_acceleration',
    'target_base_wrench', 'control_step', 'actual_TCP_acceleration', 'target_TCP_acceleration',
}  # fmt: skip


def _table() -> dict[str, Output]:
    found = {n: Output(kind, get) for kind, rows in _SIMULATED.items() for n, get in rows.items()}
    for kind, names in _NOT_SIMULATED.items():
        zero = (0.0,) * int(kind[6]) if kind.startswith('VECTOR') else 0
        found |= {name: Output(kind, partial(_constant, zero)) for name in names}
    for way in ('input', 'output'):
        for kind, word, values, numbers in _REGISTERS:
            for n in numbers:
                get = partial(_entry, f'{way}_{values}', n)
                found[f'{way}_{word}_register_{n}'] = Output(kind, get)
    return found


def _constant(value: Any, s: Sample) -> Any:
    return value


def _entry(values: str, n: int, s: Sample) -> Any:
    return getattr(s.c, values)[n]


_REGISTERS = (
    ('INT32', 'int', 'ints', range(48)),
    ('DOUBLE', 'double', 'floats', range(48)),
    ('BOOL', 'bit', 'bits', range(64, 128)),
)
_OUTPUTS = _table()
INPUTS = {
    'speed_slider_mask': 'UINT32',
    'speed_slider_fraction': 'DOUBLE',
    **{
        f'{place}_digital_output{what}': 'UINT8'
        for place in ('standard', 'configurable', 'tool')
        for what in ('_mask', '')
    },
    'standard_analog_output_mask': 'UINT8',
    'standard_analog_output_type': 'UINT8',
    'standard_analog_output_0': 'DOUBLE',
    'standard_analog_output_1': 'DOUBLE',
    'external_force_torque': 'VECTOR6D',
} | {
    name: output.kind
    for name, output in _OUTPUTS.items()
    if name.startswith('input_') and '_register' in name
}


def output_of(name: str, is_cb3: bool) -> Output | None:
    return None if is_cb3 and name in _E_SERIES_ALONE else _OUTPUTS.get(name)


class Recipe:
    def __init__(self, kinds: list[str]) -> None:
        self._struct = struct.Struct('>' + ''.join(_FORMATS[kind] for kind in kinds))
        self._counts = [
            int(_FORMATS[kind][:-1] or 1) if kind.startswith('VECTOR') else 0 for kind in kinds
        ]
        self.size = self._struct.size

    def pack(self, outputs: list[Output], sample: Sample) -> bytes:
        values: list[Any] = []
        for output, count in zip(outputs, self._counts, strict=True):
            value = output.value(sample)
            if not count:
                values.append(value)
            elif isinstance(value, np.ndarray):
                values += value.tolist()
            else:
                values += value
        return self._struct.pack(*values)

    def unpack(self, data: bytes) -> list[Any]:
        """Return one value for each field, a list for a vector."""
        flat = iter(self._struct.unpack(data))
        return [
            [next(flat) for _ in range(count)] if count else next(flat) for count in self._counts
        ]


class InputRecipe(Recipe):
    def __init__(self, c: Controller, names: list[str], kinds: list[str]) -> None:
        super().__init__(kinds)
        self._controller, self._names = c, names
        self._writers = [register_writer(c, name) for name in names]
        self._has_effects = not all(self._writers)

    def write(self, data: bytes) -> None:
        values = self.unpack(data)
        for writer, name, value in zip(self._writers, self._names, values, strict=True):
            self._controller.input_written(name)
            if writer:
                writer(value)
        if self._has_effects:
            _write_pins(self._controller, dict(zip(self._names, values, strict=True)))


def _write_pins(c: Controller, values: dict[str, Any]) -> None:
    """Let slider, outputs and wrench take the values that their masks choose; NaN is ignored."""
    fraction = values.get('speed_slider_fraction', -1.0)
    if values.get('speed_slider_mask', 0) & 1 and 0.0 <= fraction <= 1.0:
        c.robot.slider = fraction
    for place, first in (('standard', 0), ('configurable', 8), ('tool', 16)):
        mask = values.get(f'{place}_digital_output_mask', 0) & (3 if place == 'tool' else 0xFF)
        c.set_outputs(mask << first, values.get(f'{place}_digital_output', 0) << first)
    if 'standard_analog_output_mask' in values:
        c.set_analog_outputs(
            values['standard_analog_output_mask'],
            values.get('standard_analog_output_type', 0),
            [values.get(f'standard_analog_output_{n}', float('nan')) for n in (0, 1)],
        )
    wrench = np.array(values.get('external_force_torque', [np.nan]))
    if np.isfinite(wrench).all():
        c.external_force_torque = wrench
