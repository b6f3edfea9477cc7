# SPDX-License-Identifier: Apache-2.0
"""What the ports report of one cycle; each quantity is computed when a client asks for it."""

from functools import cached_property

import numpy as np

from ur5_pick_place.kinematics import link_frames
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.controller.controller import PAUSING, PLAYING, RESUMING, Controller
from ur5_pick_place.sim.controller.script.arm import tcp_jacobian
from ur5_pick_place.sim.controller.script.values import Pose, pose
from ur5_pick_place.sim.robot import RobotMode, SafetyMode

MAINS, JOINT_VOLTAGE = 48.0, 47.5  # [V]
_STOP_BITS = {
    SafetyMode.PROTECTIVE_STOP: 1 << 2,
    SafetyMode.SAFEGUARD_STOP: 1 << 4,
    SafetyMode.ROBOT_EMERGENCY_STOP: 3 << 6,
}
_OFF, _IDLE, _RUNS, _BOOTS = 239, 255, 253, 247  # modes of a joint


class Sample:
    """The state after one cycle; poses (6,) are position and rotation vector in the base."""

    def __init__(self, controller: Controller) -> None:
        self.c = controller

    @cached_property
    def pose(self) -> Pose:
        """Measured pose of the TCP (6,) [m, rad]."""
        return pose(self.c.forward(self.c.q) @ self.c.tcp)

    @cached_property
    def target_pose(self) -> Pose:
        """Commanded pose of the TCP (6,) [m, rad]."""
        return pose(self.c.forward(self.c.target_q) @ self.c.tcp)

    @cached_property
    def speed(self) -> Array:
        """Measured twist of the TCP (6,) [m/s, rad/s]."""
        return self._twist(self.c.q, self.c.qd)

    @cached_property
    def target_speed(self) -> Array:
        """Commanded twist of the TCP (6,) [m/s, rad/s]."""
        return self._twist(self.c.target_q, self.c.target_qd)

    @cached_property
    def target_acceleration(self) -> Array:
        """Commanded acceleration of the TCP (6,), less what turning adds [m/s2, rad/s2]."""
        return self._twist(self.c.target_q, self.c.target_qdd)

    def _twist(self, q: Array, qd: Array) -> Array:
        if not qd.any():
            return np.zeros(6)
        return tcp_jacobian(self.c, q) @ qd

    @cached_property
    def tcp_offset(self) -> Pose:
        """Pose of the TCP in the flange (6,) [m, rad]."""
        return pose(self.c.tcp)

    @cached_property
    def robot_current(self) -> float:
        """[A] of the whole robot: that of the motors at their voltage, and the electronics."""
        return 0.5 + float(np.abs(self.c.current).sum()) if self.is_powered else 0.1

    @cached_property
    def elbow(self) -> Array:
        return np.asarray(link_frames(self.c.personality.model, self.c.q)[2, :3, 3])

    @cached_property
    def gravity_in_tool(self) -> Array:
        """What the accelerometer of the tool reads at rest (3,) [m/s2]."""
        return np.asarray(self.c.forward(self.c.q)[:3, :3].T @ self.c.gravity)

    @property
    def is_powered(self) -> bool:
        return self.c.robot.mode >= RobotMode.POWER_ON

    @cached_property
    def joint_modes(self) -> list[int]:
        mode = self.c.robot.mode
        code = {RobotMode.IDLE: _IDLE, RobotMode.POWER_ON: _BOOTS, RobotMode.RUNNING: _RUNS}
        return [code.get(mode, _OFF)] * 6

    @cached_property
    def robot_status_bits(self) -> int:
        """Bits: power on, program running, teach button, power button."""
        runs = self.c.runtime_state in (PLAYING, PAUSING, RESUMING)
        return self.is_powered | runs << 1 | int(self.c.is_free) << 2 | self.is_powered << 3

    @cached_property
    def safety_status_bits(self) -> int:
        """Bits from normal over reduced, protective stop to stopped by safety."""
        stops = self.c.robot.stops
        bits = bool(stops) << 10 | self.c.is_reduced << 1 | (self.c.safety is SafetyMode.NORMAL)
        return bits | sum(_STOP_BITS[stop] for stop in stops)
