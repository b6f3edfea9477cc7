# SPDX-License-Identifier: Apache-2.0
"""The setpoint of the arm within a cycle, the laws that move it, and what programs read of it."""

import cmath
import math
from collections.abc import Callable

import numpy as np

from ur5_pick_place.kinematics.transforms import Array, skew
from ur5_pick_place.sim.controller.script.paths import Move
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.scheduler import Scheduler, Thread
from ur5_pick_place.sim.controller.script.values import (
    WORK,
    BuiltIns,
    ScriptFault,
    integer,
    list_of,
    pose,
    transform,
    vector,
)

_STEADY = 0.01  # [rad/s]
_JACOBIAN_WORK = 15  # loops that it takes as long as
# [1/s2 per unit of gain], which UR does not publish; so chosen that the stiffest setting, which is
# the one of UR's driver (gain 2000, lookahead 0.03 s), is critically damped as the cell's servos
_STIFFNESS = (2.0 / 0.03) ** 2 / 2000.0
_IDLE_BRAKE = 10.0  # [rad/s2] with which an arm stops that a thread has left in motion


class Arm:
    """
    The setpoint: `q` (6,) [rad] and `qd` (6,) [rad/s of robot time], as last computed.

    Laws may be followed for parts of a cycle; the setpoint at its end is commanded once.
    `tails`: moves whose rest, from a time [s], runs beside the next.
    `waypoint` (6,) [rad]: the end of the last move. `compliance`: of force mode, the speeds
    (6,) [rad/s] that the commanded joints (6,) get beside those of the laws.
    """

    def __init__(self, robot: Robot, threads: Scheduler) -> None:
        self._robot = robot
        self._threads = threads
        self._mover: Thread | None = None
        self._moved = 0.0
        self._is_moving = self._keeps_speed = False
        self.tails: list[tuple[Move, float]] = []
        self._aim: Array | None = None  # of the servo, while no other law moves the arm
        self._offset = np.zeros(6)
        self.compliance: Callable[[Array], Array] | None = None
        self.q = self.waypoint = robot.target_q.copy()
        self.qd = np.zeros(6)

    def begin(self) -> None:
        """Begin a cycle; an arm that no program moves is where the controller has it."""
        self._mover, self._moved = None, 0.0
        self.take_up()

    def take_up(self) -> None:
        """Start from where the arm is, unless a move goes on."""
        if not self._is_moving:
            robot = self._robot
            if self.compliance is None:
                self._offset = np.zeros(6)
            self.q, self.qd = robot.target_q - self._offset, robot.target_qd.copy()

    def end(self) -> None:
        """End a cycle; in the time that no thread used, the arm keeps its speed or stops."""
        if not self._is_moving and self.compliance is None:
            return
        dt = self._robot.step_time * self._robot.time_scale
        if dt - self._moved > 1e-9:
            self._idle(dt - self._moved)
        self._is_moving = bool(self.tails) or bool(self.qd.any())
        speed = self.qd
        if self.compliance is not None:
            extra = self.compliance(self.q + self._offset)
            self._offset, speed = self._offset + extra * dt, speed + extra
        self._robot.command(self.q + self._offset, speed * self._robot.time_scale)

    def _idle(self, dt: float) -> None:
        if self.tails:
            try:
                self.place(self.base, np.zeros(6), dt)
                return
            except ScriptFault:
                self.tails = []
        self.ramp(self.qd if self._keeps_speed else np.zeros(6), _IDLE_BRAKE, dt)

    def claim(self, dt: float, keeps_speed: bool) -> None:
        """Let the running thread move the arm for `dt` [s]; refused if another does already."""
        mover = self._threads.current
        if self._mover not in (None, mover):
            raise ScriptFault('another thread is already controlling the robot')
        self._mover, self._is_moving, self._keeps_speed = mover, True, keeps_speed
        self._moved += dt

    @property
    def base(self) -> Array:
        """Where the next move starts: the end of a move that is being blended, or here."""
        return self.tails[-1][0].end if self.tails else self.q

    @property
    def is_adrift(self) -> bool:
        return not self.tails and bool(self.qd.any())

    def place(self, q: Array, qd: Array, dt: float) -> None:
        """Set joints (6,) [rad] and speeds (6,) [rad/s], and add what rests of earlier moves."""
        tails = [(move, t + dt) for move, t in self.tails]
        for move, t in tails:
            rest, speed = move.at(t)
            q, qd = q + rest - move.end, qd + speed
        self.tails = [(move, t) for move, t in tails if t < move.duration]
        self.q, self.qd, self._aim = q, qd, None

    def limited(self, qd: Array) -> Array:
        """Return speeds, all reduced in proportion if a joint would exceed its limit."""
        return qd / max(1.0, float(np.max(np.abs(qd) / self._robot.qd_max)))

    def ramp(self, target: Array, a: float, dt: float) -> None:
        """Approach speeds (6,), the leading joint with `a` [rad/s2], for `dt` [s]."""
        self._aim = None
        change = target - self.qd
        largest = float(np.abs(change).max())
        if largest <= a * dt:
            ramp = largest / a if a > 0.0 else 0.0
            self.q = self.q + self.qd * ramp + change * (0.5 * ramp) + target * (dt - ramp)
            self.qd = target
        else:
            change *= a * dt / largest
            self.q = self.q + (self.qd + 0.5 * change) * dt
            self.qd = self.qd + change

    def servo(self, target: Array, lookahead: float, gain: float, dt: float) -> None:
        """
        Follow joints (6,) for `dt` [s]: qdd = stiffness (goal - q - lookahead qd).

        The script manual describes it so: the position projected by `lookahead` [s] approaches
        the target as with the P-term `gain`. The goal moves evenly from the target before to this
        one, so that the arm trails a steady motion by `lookahead` whatever the cycle. The
        solution is exact.
        """
        a, b, c, d = _servo_step(lookahead, gain * _STIFFNESS, dt)
        before = target if self._aim is None else self._aim
        slope = (target - before) / dt
        trail = lookahead * slope
        error, speed = self.q - before + trail, self.qd - slope
        self.q = target - trail + a * error + b * speed
        self.qd = slope + c * error + d * speed
        self._aim = target


def _servo_step(lookahead: float, k: float, dt: float) -> tuple[float, float, float, float]:
    """Return exp(A dt), by rows, of A = [[0, 1], [-k, -k lookahead]]."""
    half = 0.5 * k * lookahead
    root = cmath.sqrt(half * half - k)
    decay = math.exp(-half * dt)
    even = decay * cmath.cosh(root * dt).real
    odd = decay * (cmath.sinh(root * dt) / root).real if abs(root) * dt > 1e-6 else decay * dt
    return even + half * odd, odd, -k * odd, even - half * odd


def tcp_jacobian(robot: Robot, q: Array) -> Array:
    """Return the Jacobian (6, 6) of the TCP, linear part first, in the base's axes."""
    WORK[0] += _JACOBIAN_WORK
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
