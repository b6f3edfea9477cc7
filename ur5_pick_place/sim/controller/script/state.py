# SPDX-License-Identifier: Apache-2.0
"""The built-ins that read the arm's state, and its kinematics."""

import numpy as np

from ur5_pick_place.kinematics.transforms import Array, inverse_transform, skew
from ur5_pick_place.sim.controller.script.arm import Arm
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.scheduler import Scheduler, Steps
from ur5_pick_place.sim.controller.script.values import (
    List,
    Pose,
    ScriptFault,
    Value,
    integer,
    list_of,
    pose,
    to_str,
    transform,
    vector,
)

_STEADY = 0.01  # [rad/s]
_INVERSE_COST = 50  # loops that a solution takes as long as


def tcp_jacobian(robot: Robot, q: Array) -> Array:
    """Return the Jacobian (6, 6) of the TCP, linear part first, in the base's axes."""
    J = robot.jacobian(q).copy()
    J[:3] -= skew(robot.forward(q)[:3, :3] @ robot.tcp[:3, 3]) @ J[3:]
    return J


class State:
    """Measured, commanded and computed state of the arm."""

    def __init__(self, robot: Robot, arm: Arm, threads: Scheduler) -> None:
        self._robot, self._arm, self._threads = robot, arm, threads

    def get_steptime(self) -> float:
        return self._robot.step_time

    # joints

    def get_actual_joint_positions(self) -> List:
        return list_of(self._robot.q)

    def get_joint_positions(self) -> List:
        return list_of(self._robot.q)

    def get_actual_joint_positions_history(self, steps: Value = 0) -> List:
        return list_of(self._robot.history(integer(steps, 0)))

    def get_actual_joint_speeds(self) -> List:
        return list_of(self._robot.qd)

    def get_joint_speeds(self) -> List:
        return list_of(self._robot.qd)

    def get_target_joint_positions(self) -> List:
        return list_of(self._robot.target_q)

    def get_target_joint_speeds(self) -> List:
        return list_of(self._robot.target_qd)

    def get_joint_torques(self) -> List:
        return list_of(self._robot.torque)

    def get_joint_temp(self, j: Value) -> float:
        return float(self._robot.temperature[integer(j, 0, 5)])

    def is_steady(self) -> bool:
        return bool(np.abs(self._robot.qd).max() < _STEADY)

    def is_within_safety_limits(self, pose: Value, qnear: Value = None) -> Steps:
        q: Array | None
        if isinstance(pose, Pose):
            q = yield from self._solve(pose, qnear)
        else:
            q = vector(pose)
        robot = self._robot
        return q is not None and bool(np.all((q >= robot.q_min) & (q <= robot.q_max)))

    # poses

    def get_actual_tcp_pose(self) -> Pose:
        return pose(self._robot.forward(self._robot.q) @ self._robot.tcp)

    def get_target_tcp_pose(self) -> Pose:
        return pose(self._robot.forward(self._robot.target_q) @ self._robot.tcp)

    def get_actual_tool_flange_pose(self) -> Pose:
        return pose(self._robot.forward(self._robot.q))

    def get_actual_tcp_speed(self) -> List:
        return list_of(tcp_jacobian(self._robot, self._robot.q) @ self._robot.qd)

    def get_target_tcp_speed(self) -> List:
        return list_of(
            tcp_jacobian(self._robot, self._robot.target_q) @ self._robot.target_qd
        )

    def get_target_waypoint(self) -> Pose:
        return pose(self._robot.forward(self._arm.waypoint) @ self._robot.tcp)

    def get_tcp_offset(self) -> Pose:
        return pose(self._robot.tcp)

    def get_forward_kin(self, q: Value = None, tcp: Value = None) -> Pose:
        joints = self._robot.q if q is None else vector(q)
        offset = self._robot.tcp if tcp is None else transform(tcp)
        return pose(self._robot.forward(joints) @ offset)

    def get_inverse_kin(
        self,
        x: Value,
        qnear: Value = None,
        maxPositionError: Value = 1e-10,
        maxOrientationError: Value = 1e-10,
        tcp: Value = None,
    ) -> Steps:
        q = yield from self._solve(x, qnear, tcp)
        if q is None:
            raise ScriptFault(f'get_inverse_kin: no solution for {to_str(x)}')
        return list_of(q)

    def get_inverse_kin_has_solution(
        self,
        pose: Value,
        qnear: Value = None,
        maxPositionError: Value = 1e-10,
        maxOrientationError: Value = 1e-10,
        tcp: Value = None,
    ) -> Steps:
        q = yield from self._solve(pose, qnear, tcp)
        return q is not None

    def _solve(self, x: Value, qnear: Value, tcp: Value = None) -> Steps:
        near = self._robot.target_q if qnear is None else vector(qnear)
        offset = self._robot.tcp if tcp is None else transform(tcp)
        T = transform(x) @ inverse_transform(offset)
        if self._threads.charge(_INVERSE_COST):
            yield
        return self._robot.inverse(T, near)

    # forces and the rest

    def get_tcp_force(self) -> List:
        return list_of(self._robot.wrench)

    def force(self) -> float:
        return float(np.linalg.norm(self._robot.wrench[:3]))

    def torque(self) -> float:
        return float(np.linalg.norm(self._robot.wrench[3:]))

    def get_target_payload(self) -> float:
        return float(self._robot.payload)

    def get_target_payload_cog(self) -> List:
        return list_of(self._robot.payload_cog)

    def get_target_payload_inertia(self) -> List:
        return list_of(self._robot.payload_inertia)

    def get_controller_temp(self) -> float:
        return 25.0

    def get_tool_current(self) -> float:
        return 0.0

    def get_tool_accelerometer_reading(self) -> List:
        R = self._robot.forward(self._robot.q)[:3, :3]
        return list_of(R.T @ self._robot.gravity)
