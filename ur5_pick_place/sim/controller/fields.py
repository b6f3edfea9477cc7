# SPDX-License-Identifier: Apache-2.0
"""The fields of RTDE: outputs with their types and values, inputs with types and effects."""

import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.sample import JOINT_VOLTAGE, MAINS, Sample

_FORMATS = {
    'BOOL': '?', 'UINT8': 'B', 'UINT32': 'I', 'UINT64': 'Q', 'INT32': 'i', 'DOUBLE': 'd',
    'VECTOR3D': '3d', 'VECTOR6D': '6d', 'VECTOR6INT32': '6i', 'VECTOR6UINT32': '6I',
}  # fmt: skip

Getter = Callable[[Sample], Any]


class Output(NamedTuple):
    """An output: its type, and its value as a number or a sequence of them."""

    kind: str
    value: Getter


_ATTRIBUTES = {  # by type and field: where a sample has the value
    'DOUBLE': {
        'timestamp': 'c.time', 'speed_scaling': 'c.speed_scaling', 'payload': 'c.payload',
        'target_speed_fraction': 'c.robot.slider', 'actual_robot_current': 'robot_current',
    },
    'VECTOR6D': {
        'target_q': 'c.target_q', 'target_qd': 'c.target_qd', 'target_qdd': 'c.target_qdd',
        'target_current': 'c.current', 'target_moment': 'c.torque', 'actual_q': 'c.q',
        'actual_qd': 'c.qd', 'actual_current': 'c.current', 'actual_current_as_torque': 'c.torque',
        'joint_control_output': 'c.current', 'actual_TCP_pose': 'pose',
        'actual_TCP_speed': 'speed', 'actual_TCP_force': 'c.wrench',
        'target_TCP_pose': 'target_pose', 'target_TCP_speed': 'target_speed',
        'tcp_offset': 'tcp_offset', 'actual_TCP_acceleration': 'target_acceleration',
        'target_TCP_acceleration': 'target_acceleration', 'joint_temperatures': 'c.temperature',
        'ft_raw_wrench': 'c.wrench', 'wrench_calc_from_currents': 'c.wrench',
        'payload_inertia': 'c.payload_inertia',
    },
    'VECTOR3D': {
        'actual_tool_accelerometer': 'gravity_in_tool', 'elbow_position': 'elbow',
        'payload_cog': 'c.payload_cog', 'target_gravity': 'c.gravity',
    },
    'UINT64': {
        'actual_digital_input_bits': 'c.digital_inputs', 'control_step': 'c.cycles',
        'actual_digital_output_bits': 'c.digital_outputs',
    },
    'UINT32': {
        'runtime_state': 'c.runtime_state', 'robot_status_bits': 'robot_status_bits',
        'safety_status_bits': 'safety_status_bits',
    },
    'INT32': {
        'robot_mode': 'c.robot.mode', 'safety_mode': 'c.safety', 'safety_status': 'c.safety',
        'tool_output_voltage': 'c.tool_voltage',
    },
    'VECTOR6INT32': {'joint_mode': 'joint_modes'},
}  # fmt: skip
_COMPUTED: dict[str, tuple[str, Getter]] = {
    'actual_main_voltage': ('DOUBLE', lambda s: MAINS),
    'actual_robot_voltage': ('DOUBLE', lambda s: MAINS if s.is_powered else 0.0),
    'standard_analog_output0': ('DOUBLE', lambda s: s.c.analog_output(0)),
    'standard_analog_output1': ('DOUBLE', lambda s: s.c.analog_output(1)),
    'tool_output_current': ('DOUBLE', lambda s: 0.05 if s.c.tool_voltage else 0.0),
    'tool_temperature': ('DOUBLE', lambda s: 25.0),
    'tcp_force_scalar': ('DOUBLE', lambda s: float(np.linalg.norm(s.c.wrench[:3]))),
    'actual_joint_voltage': ('VECTOR6D', lambda s: (JOINT_VOLTAGE if s.is_powered else 0.0,) * 6),
    'actual_configurable_digital_input_bits': ('UINT64', lambda s: s.c.digital_inputs >> 8 & 255),
    'actual_configurable_digital_output_bits': (
        'UINT64', lambda s: s.c.digital_outputs >> 8 & 255
    ),
    # bits: analog inputs 0 and 1, which are voltages here, then the outputs
    'analog_io_types': ('UINT32', lambda s: 3 | s.c.analog_output_types << 2),
    'tool_mode': ('UINT32', lambda s: s.joint_modes[0]),
    'tool_analog_input_types': ('UINT32', lambda s: 3),
    'script_control_line': ('UINT32', lambda s: s.c.program.line if s.c.program else 0),
}  # fmt: skip
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


_LISTED = {  # elements of lists of the robot: their type, the list, and where
    **{f'standard_analog_input{n}': ('DOUBLE', 'analog_inputs', n) for n in (0, 1)},
    **{f'tool_analog_input{n}': ('DOUBLE', 'analog_inputs', n + 2) for n in (0, 1)},
    **{
        f'{way}_{word}_register_{n}': (kind, f'{way}_{values}', n)
        for way in ('input', 'output')
        for kind, word, values, numbers in (
            ('INT32', 'int', 'ints', range(48)),
            ('DOUBLE', 'double', 'floats', range(48)),
            ('BOOL', 'bit', 'bits', range(64, 128)),
        )
        for n in numbers
    },
}
_WORDS = {  # of 32 bits: the list, and the first
    f'{way}_bit_registers{n}_to_{n + 31}': (f'{way}_bits', n)
    for way in ('input', 'output')
    for n in (0, 32)
}


def _table() -> dict[str, Output]:
    found = {name: Output(*of) for name, of in _COMPUTED.items()}
    for kind, paths in _ATTRIBUTES.items():
        found |= {name: Output(kind, attrgetter(path)) for name, path in paths.items()}
    for kind, names in _NOT_SIMULATED.items():
        found |= dict.fromkeys(names, Output(kind, _zero(_size(kind))))
    for name, (kind, values, n) in _LISTED.items():
        found[name] = Output(kind, _entry(values, n))
    for name, (bits, first) in _WORDS.items():
        found[name] = Output('UINT32', _word(bits, first))
    return found


def _size(kind: str) -> int:
    """Return how many numbers a vector has; 0 for what is none."""
    return int(kind[6]) if kind.startswith('VECTOR') else 0


def _zero(size: int) -> Getter:
    return lambda s: (0.0,) * size if size else 0


def _entry(values: str, n: int) -> Getter:
    return lambda s: getattr(s.c, values)[n]


def _word(bits: str, first: int) -> Getter:
    return lambda s: sum(getattr(s.c, bits)[first + n] << n for n in range(32))


_OUTPUTS = _table()
_BYTES = (
    'standard_digital_output', 'configurable_digital_output', 'tool_digital_output',
    'standard_digital_output_mask', 'configurable_digital_output_mask',
    'tool_digital_output_mask', 'standard_analog_output_mask', 'standard_analog_output_type',
)  # fmt: skip
_FRACTIONS = 'speed_slider_fraction', 'standard_analog_output_0', 'standard_analog_output_1'
INPUTS = {
    'speed_slider_mask': 'UINT32',
    **dict.fromkeys(_BYTES, 'UINT8'),
    **dict.fromkeys(_FRACTIONS, 'DOUBLE'),
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
        self._counts = [_size(kind) for kind in kinds]
        self.size = self._struct.size

    def pack(self, outputs: list[Output], sample: Sample) -> bytes:
        values: list[Any] = []
        for output, count in zip(outputs, self._counts, strict=True):
            value = output.value(sample)
            if isinstance(value, np.ndarray):
                value = value.tolist()  # many times faster to pack
            values += value if count else [value]
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
        self._controller, self.names = c, names

    def write(self, data: bytes) -> None:
        c, values = self._controller, dict(zip(self.names, self.unpack(data), strict=True))
        for name, value in values.items():
            c.input_written(name)
            if name in _LISTED:
                _, found, n = _LISTED[name]
                getattr(c, found)[n] = value
            elif name in _WORDS:
                found, n = _WORDS[name]
                getattr(c, found)[n : n + 32] = [bool(value >> i & 1) for i in range(32)]
        _write_pins(c, values)


def _write_pins(c: Controller, values: dict[str, Any]) -> None:
    """Let slider, outputs and wrench take the values that their masks choose; NaN is ignored."""
    fraction = values.get('speed_slider_fraction', -1.0)
    if values.get('speed_slider_mask', 0) & 1 and 0.0 <= fraction <= 1.0:
        c.robot.slider = fraction
    for place, first in (('standard', 0), ('configurable', 8), ('tool', 16)):
        mask = values.get(f'{place}_digital_output_mask', 0) & (3 if place == 'tool' else 0xFF)
        c.set_outputs(mask << first, values.get(f'{place}_digital_output', 0) << first)
    c.set_analog_outputs(
        values.get('standard_analog_output_mask', 0),
        values.get('standard_analog_output_type', 0),
        [values.get(f'standard_analog_output_{n}', float('nan')) for n in (0, 1)],
    )
    wrench = np.array(values.get('external_force_torque', [np.nan]))
    if np.isfinite(wrench).all():
        c.external_force_torque = wrench
