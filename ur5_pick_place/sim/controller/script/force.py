# SPDX-License-Identifier: Apache-2.0
"""The built-ins for force mode and contact, and those for torques, which the arm does not take."""

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.controller.script.arm import Arm
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.state import tcp_jacobian
from ur5_pick_place.sim.controller.script.values import (
    List,
    ScriptFault,
    Value,
    integer,
    number,
    transform,
    vector,
)

_CONTACT_FORCE = 10.0  # [N]
_MOBILITY = np.array([5e-4] * 3 + [5e-3] * 3)  # [m/s per N, rad/s per N m] of a compliant axis


class Force:
    """
    In force mode compliant axes of a frame move with a speed in proportion to the missing force.

    The law is ours; UR does not publish its own.

    """

    def __init__(self, robot: Robot, arm: Arm) -> None:
        self._robot, self._arm = robot, arm
        self._damping, self._gain = 0.025, 1.0

    def force_mode(
        self, task_frame: Value, selection_vector: Value, wrench: Value, type: Value,
        limits: Value,
    ) -> None:  # fmt: skip
        T, selected = transform(task_frame), vector(selection_vector) != 0.0
        goal, bounds = vector(wrench), np.abs(vector(limits))
        if integer(type, 1, 3) != 2:
            raise ScriptFault(f'force_mode: type {type} is not simulated, only 2: a fixed frame')
        robot = self._robot
        both = np.kron(np.eye(2), T[:3, :3])

        def compliance(q: Array) -> Array:
            missing = goal + both.T @ robot.wrench
            wish = missing * _MOBILITY * self._gain * (1.0 - self._damping)
            twist = np.where(selected, np.clip(wish, -bounds, bounds), 0.0)
            try:
                qd = np.linalg.solve(tcp_jacobian(robot, q), both @ twist)
                return self._arm.limited(np.asarray(qd, float))
            except np.linalg.LinAlgError:
                return np.zeros(6)

        self._arm.compliance = compliance

    def end_force_mode(self) -> None:
        self._arm.compliance = None

    def force_mode_set_damping(self, damping: Value) -> None:
        self._damping = min(max(number(damping), 0.0), 1.0)

    def force_mode_set_gain_scaling(self, scaling: Value) -> None:
        self._gain = min(max(number(scaling), 0.0), 2.0)

    def tool_contact(self, direction: Value = None) -> int:
        """Return 1 in contact against the direction, otherwise 0."""
        force = self._robot.wrench[:3]
        first = direction[:3] if isinstance(direction, List) else direction
        way = np.zeros(3) if direction is None else vector(first, 3)
        length = float(np.linalg.norm(way))
        against = -float(force @ way) / length if length > 1e-9 else float(np.linalg.norm(force))
        return int(against > _CONTACT_FORCE)

    def direct_torque(
        self, torque: Value, friction_comp: Value = True, viscous_scale: Value = None,
        coulomb_scale: Value = None,
    ) -> None:  # fmt: skip
        raise ScriptFault('direct_torque: the simulated arm is moved by position, not by torque')
