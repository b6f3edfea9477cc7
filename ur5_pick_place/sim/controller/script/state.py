# SPDX-License-Identifier: Apache-2.0
"""The built-ins that read the arm's state, and its kinematics."""

import numpy as np

from ur5_pick_place.kinematics.transforms import Array, inverse_transform, skew
from ur5_pick_place.sim.controller.script.arm import Arm
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.scheduler import Scheduler, Steps
from ur5_pick_place.sim.controller.script.values import (
    BuiltIns,
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
_FINE = 1e-10  # [m, rad]


def tcp_jacobian(robot: Robot, q: Array) -> Array:
    """Return the Jacobian (6, 6) of the TCP, linear part first, in the base's axes."""
    J = robot.jacobian(q).copy()
    J[:3] -= skew(robot.forward(q)[:3, :3] @ robot.tcp[:3, 3]) @ J[3:]
    return J


def readings(robot: Robot, arm: Arm) -> BuiltIns:
    return {
        'get_steptime': lambda: robot.step_time,
        'get_actual_joint_positions': lambda: list_of(robot.q),
        'get_joint_positions': lambda: list_of(arm.q),
        'get_actual_joint_positions_history': lambda steps=0: list_of(
            robot.history(integer(steps, 0))
        ),
        'get_actual_joint_speeds': lambda: list_of(robot.qd),
        'get_joint_speeds': lambda: list_of(robot.qd),
        'get_target_joint_positions': lambda: list_of(robot.target_q),
        'get_target_joint_speeds': lambda: list_of(robot.target_qd),
        'get_joint_torques': lambda: list_of(robot.torque),
        'get_joint_temp': lambda j: float(robot.temperature[integer(j, 0, 5)]),
        'is_steady': lambda: bool(np.abs(robot.qd).max() < _STEADY),
        'get_actual_tcp_pose': lambda: pose(robot.forward(robot.q) @ robot.tcp),
        'get_target_tcp_pose': lambda: pose(robot.forward(robot.target_q) @ robot.tcp),
        'get_actual_tool_flange_pose': lambda: pose(robot.forward(robot.q)),
        'get_actual_tcp_speed': lambda: list_of(tcp_jacobian(robot, robot.q) @ robot.qd),
        'get_target_tcp_speed': lambda: list_of(
            tcp_jacobian(robot, robot.target_q) @ robot.target_qd
        ),
        'get_target_waypoint': lambda: pose(robot.forward(arm.waypoint) @ robot.tcp),
        'get_tcp_offset': lambda: pose(robot.tcp),
        'get_forward_kin': lambda q=None, tcp=None: pose(
            robot.forward(robot.q if q is None else vector(q))
            @ (robot.tcp if tcp is None else transform(tcp))
        ),
        'get_jacobian': lambda q=None: list_of(
            tcp_jacobian(robot, robot.q if q is None else vector(q))
        ),
        'get_tcp_force': lambda: list_of(robot.wrench),
        'force': lambda: float(np.linalg.norm(robot.wrench[:3])),
        'get_target_payload': lambda: float(robot.payload),
        'get_target_payload_cog': lambda: list_of(robot.payload_cog),
        'get_target_payload_inertia': lambda: list_of(robot.payload_inertia),
        'get_controller_temp': lambda: 25.0,
        'get_tool_current': lambda: 0.0,
        'get_tool_accelerometer_reading': lambda: list_of(
            robot.forward(robot.q)[:3, :3].T @ robot.gravity
        ),
    }


class Inverse:
    """Inverse kinematics, which take as long as many loops."""

    def __init__(self, robot: Robot, threads: Scheduler) -> None:
        self._robot, self._threads = robot, threads

    def get_inverse_kin(
        self, x: Value, qnear: Value = None, maxPositionError: Value = _FINE,
        maxOrientationError: Value = _FINE, tcp: Value = None,
    ) -> Steps:  # fmt: skip
        q = yield from self._solve(x, qnear, tcp)
        if q is None:
            raise ScriptFault(f'get_inverse_kin: no solution for {to_str(x)}')
        return list_of(q)

    def get_inverse_kin_has_solution(
        self, pose: Value, qnear: Value = None, maxPositionError: Value = _FINE,
        maxOrientationError: Value = _FINE, tcp: Value = None,
    ) -> Steps:  # fmt: skip
        return (yield from self._solve(pose, qnear, tcp)) is not None

    def is_within_safety_limits(self, pose: Value, qnear: Value = None) -> Steps:
        is_pose = isinstance(pose, Pose)
        q = (yield from self._solve(pose, qnear, None)) if is_pose else vector(pose)
        low, high = self._robot.q_min, self._robot.q_max
        return q is not None and bool(np.all((q >= low) & (q <= high)))

    def _solve(self, x: Value, qnear: Value, tcp: Value) -> Steps:
        near = self._robot.target_q if qnear is None else vector(qnear)
        offset = self._robot.tcp if tcp is None else transform(tcp)
        T = transform(x) @ inverse_transform(offset)
        if self._threads.charge(_INVERSE_COST):
            yield
        return self._robot.inverse(T, near)
