# SPDX-License-Identifier: Apache-2.0
"""
The interfaces that send the state and take programs: primary, secondary and real-time.

Ports 30001 and 30002 send 10 states a second, 30001 also messages, 30003 one packet a cycle;
30011, 30012 and 30013 do the same but take nothing.
"""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ur5_pick_place.sim.controller import messages
from ur5_pick_place.sim.controller.controller import PAUSED, Controller
from ur5_pick_place.sim.controller.network import Client, Port, swallow
from ur5_pick_place.sim.controller.sample import JOINT_VOLTAGE, MAINS, Sample
from ur5_pick_place.sim.controller.script_port import MOST_TEXT, ProgramReader, execute
from ur5_pick_place.sim.robot import SafetyMode

PRIMARY, SECONDARY, REAL_TIME = 30001, 30002, 30003
_READ_ONLY = 10  # added to the number of the port
_PERIOD = 0.1  # [s]
_READ_ONLY_CODE = 210
_JOINT_SPEED, _JOINT_ACCELERATION = 1.05, 1.4  # [rad/s], [rad/s2], what movej takes
_TOOL_SPEED, _TOOL_ACCELERATION = 0.25, 1.2  # [m/s], [m/s2], what movel takes


class PrimaryServer:
    def __init__(self, controller: Controller, offset: int) -> None:
        self._controller = controller
        self._readers: dict[Client, ProgramReader] = {}
        self._every = round(_PERIOD / controller.step_time)
        self._fixed = _kinematics(controller), _configuration(controller)
        self.ports: dict[str, Port] = {}
        self._primary = self._pair('primary', PRIMARY + offset, self._greet)
        self._secondary = self._pair('secondary', SECONDARY + offset, self._greet)
        self._real_time = self._pair('real-time', REAL_TIME + offset, self._begin)

    def _pair(self, name: str, number: int, greet: Callable[[Client], None]) -> list[Port]:
        pair = [
            Port(number, self._received, greet, self._forget, MOST_TEXT),
            Port(number + _READ_ONLY, swallow, greet, self._forget),
        ]
        self.ports[name], self.ports[f'{name}, read-only'] = pair
        return pair

    def publish(self, sample: Sample) -> None:
        """Send the state when it is due or another safety mode is entered, and the messages."""
        c = self._controller
        is_due = c.cycles % self._every == 0 or c.safety_changed
        if is_due and any(port.clients for port in self.ports.values()):
            _send([*self._primary, *self._secondary], state_packet(sample, *self._fixed))
        while c.outbox:
            _send(self._primary, c.outbox.popleft())
        if any(port.clients for port in self._real_time):
            _send(self._real_time, real_time_packet(sample))

    def _begin(self, client: Client) -> None:
        """Expect programs of a client; what it may do depends on who controls the robot now."""
        self._readers[client] = ProgramReader()
        client.local_at_connect = not self._controller.is_remote

    def _forget(self, client: Client) -> None:
        del self._readers[client]

    def _greet(self, client: Client) -> None:
        c = self._controller
        self._begin(client)
        client.send(messages.version_message(c.time, c.personality.version, c.personality.date))

    def _received(self, client: Client) -> bool:
        """Execute what a client has sent; under local control it is told that it may not."""
        c = self._controller
        if client.local_at_connect or not c.is_remote:
            if client.inbox and client.port in self._primary:
                text = 'the robot is under local control: this connection is read-only'
                level = messages.VIOLATION
                client.send(messages.error_message(c.time, _READ_ONLY_CODE, 0, level, text))
            client.inbox.clear()
            return False
        reader = self._readers[client]
        for text in reader.take(client.inbox, client.ended):
            execute(c, text)
        if reader.size > MOST_TEXT:
            client.end()
        return False


def _send(ports: list[Port], packet: bytes) -> None:
    for port in ports:
        for client in port.clients:
            client.send(packet, is_stream=True)


def state_packet(s: Sample, kinematics: bytes, configuration: bytes) -> bytes:
    """Return a robot state; the mode comes first, for clients that look at nothing else."""
    cartesian = _part(4, '12d', *s.pose, *s.tcp_offset)
    parts = (_mode(s), _joints(s), cartesian, kinematics, _board(s), _tool(s), configuration)
    more = _part(7, '7d', *s.c.wrench, 0.0), _part(8, 'BBBB', s.c.is_free, 0, 0, 0)
    return messages.packet(16, b''.join([*parts, *more]))


def _part(kind: int, layout: str, *values: float) -> bytes:
    body = struct.pack('>' + layout, *values)
    return struct.pack('>IB', len(body) + 5, kind) + body


def _mode(s: Sample) -> bytes:
    c = s.c
    is_paused = c.runtime_state == PAUSED
    stops = c.robot.stops
    flags = (
        True, True, s.is_powered, SafetyMode.ROBOT_EMERGENCY_STOP in stops,
        SafetyMode.PROTECTIVE_STOP in stops, c.program is not None and not is_paused, is_paused,
    )  # fmt: skip
    time, mode = round(1e6 * c.time), int(c.robot.mode)
    values = c.robot.slider, c.speed_scaling, 1.0, 0
    return _part(0, 'Q7?BBdddB', time, *flags, mode, int(c.is_free), *values)


def _joints(s: Sample) -> bytes:
    c, volts = s.c, JOINT_VOLTAGE if s.is_powered else 0.0
    values: list[float] = []
    for i in range(6):
        values += [c.q[i], c.target_q[i], c.qd[i], c.current[i], volts, c.temperature[i], 0.0,
                   s.joint_modes[i]]
    return _part(1, 'dddffffB' * 6, *values)


def _tool(s: Sample) -> bytes:
    c = s.c
    return _part(
        2, 'BBddfBffB', 1, 1, *c.analog_inputs[2:], MAINS if s.is_powered else 0.0,
        c.tool_voltage, 0.05 if c.tool_voltage else 0.0, 25.0, s.joint_modes[0],
    )  # fmt: skip


def _board(s: Sample) -> bytes:
    c, types = s.c, s.c.analog_output_types
    return _part(
        3, 'IIBBddBBddffffBBBIBBB', c.digital_inputs, c.digital_outputs, 1, 1,
        *c.analog_inputs[:2], types & 1, types >> 1 & 1, c.analog_output(0), c.analog_output(1),
        30.0, MAINS if s.is_powered else 0.0, s.robot_current, 0.0, int(c.safety),
        c.is_reduced, 0, 0, 0, 0, 0,
    )  # fmt: skip


def _kinematics(c: Controller) -> bytes:
    m = c.personality.model
    return _part(5, '6I24dI', *[0xFFFFFFFF] * 6, *m.offset, *m.a, *m.d, *m.alpha, 0)


def _configuration(c: Controller) -> bytes:
    m = c.personality.model
    limits = np.stack([m.q_min, m.q_max], axis=1).ravel()
    motion = np.stack([m.qd_max, np.full(6, 800.0)], axis=1).ravel()
    defaults = _JOINT_SPEED, _JOINT_ACCELERATION, _TOOL_SPEED, _TOOL_ACCELERATION, 0.05
    codes = 4 if c.personality.is_cb3 else 5, 2, c.personality.type_code, 0
    return _part(
        6, '12d12d5d24d4i', *limits, *motion, *defaults, *m.a, *m.d, *m.alpha, *m.offset, *codes
    )


def real_time_packet(s: Sample) -> bytes:
    c = s.c
    zeros = [0.0] * 6
    volts = JOINT_VOLTAGE if s.is_powered else 0.0
    parts: list[Any] = [
        c.time, c.target_q, c.target_qd, c.target_qdd, c.current, c.torque,
        c.q, c.qd, c.current, c.current,
        s.pose, s.speed, c.wrench, s.target_pose, s.target_speed,
        c.digital_inputs, c.temperature, 1e3 * c.step_time, 0.0,
        int(c.robot.mode), s.joint_modes, int(c.safety), zeros,
        s.gravity_in_tool, zeros, c.speed_scaling, 0.0, 0.0, 0.0,
        MAINS, MAINS if s.is_powered else 0.0, s.robot_current, [volts] * 6,
        c.digital_outputs, c.runtime_state, s.elbow, zeros[:3], int(c.safety),
    ]  # fmt: skip
    if not c.personality.is_cb3:
        parts += [zeros[:3], c.payload, c.payload_cog, c.payload_inertia]
    numbers = np.hstack(parts).astype('>f8').tobytes()
    return struct.pack('>i', len(numbers) + 4) + numbers
