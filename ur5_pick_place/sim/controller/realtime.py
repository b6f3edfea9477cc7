# SPDX-License-Identifier: Apache-2.0
"""The real-time interface, ports 30003 and 30013: one packet a cycle; 30003 takes programs."""

import struct
from typing import Any

import numpy as np

from ur5_pick_place.sim.controller.network import Port
from ur5_pick_place.sim.controller.primary import PrimaryServer, swallow
from ur5_pick_place.sim.controller.sample import JOINT_VOLTAGE, MAINS, Sample
from ur5_pick_place.sim.controller.script_port import MOST_TEXT

REAL_TIME, REAL_TIME_READ_ONLY = 30003, 30013


class RealTimeServer:
    """Serves the stream; programs are left to `primary`."""

    def __init__(self, primary: PrimaryServer, offset: int = 0) -> None:
        self.ports = [
            Port(
                REAL_TIME + offset, primary.received, primary.begin, primary.forget, MOST_TEXT
            ),
            Port(REAL_TIME_READ_ONLY + offset, swallow),
        ]

    def publish(self, sample: Sample) -> None:
        """Send the packet of a cycle."""
        clients = [client for port in self.ports for client in port.clients]
        if clients:
            packet = real_time_packet(sample)
            for client in clients:
                client.send(packet, is_stream=True)


def real_time_packet(s: Sample) -> bytes:
    """Return the packet: its size, then numbers in a fixed order."""
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
