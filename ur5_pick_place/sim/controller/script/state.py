# SPDX-License-Identifier: Apache-2.0
"""The built-ins that read the arm's state."""

import numpy as np

from ur5_pick_place.kinematics.transforms import Array, skew
from ur5_pick_place.sim.controller.script.arm import Arm
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.values import (
    BuiltIns,
    integer,
    list_of,
    pose,
    transform,
    vector,
)

_STEADY = 0.01  # [rad/s]


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
