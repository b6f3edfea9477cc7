# SPDX-License-Identifier: Apache-2.0
"""What a URScript program reads and commands: a controller without its programs."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import forward, jacobian, solutions_near
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, Array
from ur5_pick_place.sim.controller import messages
from ur5_pick_place.sim.controller.personality import Personality
from ur5_pick_place.sim.physics.world import World
from ur5_pick_place.sim.robot import Robot as Modes
from ur5_pick_place.sim.robot import SafetyMode, motor_currents

_BOOT_CLOCK = 60.0  # [s] at the start: clients distrust a younger clock
_DIGITS = 7  # of what encoders tell apart [rad]: an arm at rest reports the same joints
_GRAVITY = 9.82  # [m/s2]
_SPEED_TOLERANCE = 0.19  # [rad/s] over its limit at which a joint is stopped
_TEMPERATURE = 28.0  # [deg C] of joints, which is not simulated


class Registers:
    """
    Pins and registers.

    `digital_inputs`, `digital_outputs`: bits 0-7 standard, 8-15 configurable, 16-17 tool.
    `analog_inputs`: standard 0, 1, tool 0, 1 [V] or [A]. `analog_outputs`: 0 and 1, as fractions
    of their range; bit n of `analog_output_types` is 1 for a voltage, 0 for a current.
    """

    def __init__(self) -> None:
        self.digital_inputs = self.digital_outputs = 0
        self.analog_inputs = [0.0, 0.0, 0.0, 0.0]
        self.analog_outputs = [0.0, 0.0]
        self.analog_output_types = 0
        self.input_ints, self.output_ints = [0] * 48, [0] * 48
        self.input_floats, self.output_floats = [0.0] * 48, [0.0] * 48
        self.input_bits, self.output_bits = [False] * 128, [False] * 128
        self.flags = [False] * 32

    def set_input(self, pin: int, level: bool) -> None:
        self.digital_inputs = self.digital_inputs & ~(1 << pin) | int(level) << pin

    def set_outputs(self, mask: int, values: int) -> None:
        self.digital_outputs = self.digital_outputs & ~mask | values & mask

    def set_analog_outputs(self, mask: int, types: int, values: list[float]) -> None:
        """Set the analog outputs of a mask, to fractions of their range; bits of `types`: V."""
        for n, value in enumerate(values):
            if mask >> n & 1 and math.isfinite(value):
                self.analog_outputs[n] = min(max(value, 0.0), 1.0)
                self.analog_output_types = self.analog_output_types & ~(1 << n) | types & 1 << n

    def analog_output(self, n: int) -> float:
        """Return an analog output in [V] or [A]."""
        value = self.analog_outputs[n]
        return 10.0 * value if self.analog_output_types >> n & 1 else 0.004 + 0.016 * value


@dataclass
class _Watchdog:
    period: float  # [s]
    action: str
    seen: float  # [s]


class Robot(Registers):
    """
    The robot of a cell, as a program knows it; called in the controller's one thread.

    Lists and arrays are the robot's own: a program reads them anew in each cycle. Poses are (4, 4)
    in the controller's base; wrenches and twists (6,) have the linear part first, in the base's
    axes, and are those of the TCP. Joints (6,): `q` [rad], `qd` [rad/s], `torque` [N m] and
    `current` [A] are measured, `target_q` and `target_qd` those of the last setpoint, `q_min`,
    `q_max` and `qd_max` limits. `wrench` [N, N m]: less what `zero_wrench` has stored.
    `time_scale`: robot time per time, 0 to 1. A program replaces `tcp` (flange to TCP), `payload`
    [kg], `payload_cog` (3,) [m] in the flange, `payload_inertia` (6,) [kg m2], `gravity` (3,)
    [m/s2], which points up, `tool_voltage`, `is_free`, whether the arm can be moved by hand, and
    `has_external_wrench`, whether the wrench is RTDE's `external_force_torque`. `pause` slows the
    program down; refused, as False, without a running program.
    """

    pause: Callable[[], bool]

    def __init__(self, personality: Personality, world: World) -> None:
        super().__init__()
        self.personality, self.world = personality, world
        self.step_time = personality.step_time
        model = personality.model
        self.q_min, self.q_max, self.qd_max = model.q_min, model.q_max, model.qd_max
        self.cycles = 0
        self.robot = Modes()
        self.outbox: deque[bytes] = deque(maxlen=200)
        self.tcp, self.payload = np.eye(4), 0.0
        self.payload_cog, self.payload_inertia = np.zeros(3), np.zeros(6)
        self.gravity = _GRAVITY * (T_BASE_BASE_LINK @ world.T_base_link_world)[:3, 2]
        self.temperature = np.full(6, _TEMPERATURE)
        self.popup_open, self.popup_text = False, ''
        self.target_q, self.target_qd = self.world.q, np.zeros(6)
        self.time_scale = 1.0
        self.is_free = False
        self._commanded: tuple[Array, Array] | None = None
        self._watchdogs: dict[str, _Watchdog] = {}
        self._history: deque[Array] = deque(maxlen=round(5.0 / self.step_time))
        self._wrench_zero, self.has_external_wrench = np.zeros(6), False
        self.external_force_torque = np.zeros(6)
        self._read()

    @property
    def tool_voltage(self) -> int:
        """0, 12 or 24 [V]."""
        return self.robot.tool_voltage

    @tool_voltage.setter
    def tool_voltage(self, voltage: int) -> None:
        self.robot.tool_voltage = int(voltage)

    def _measure_wrench(self) -> Array:
        """Return the wrench of the surroundings on the TCP (6,) [N, N m], in the base's axes."""
        if self.has_external_wrench:
            return self.external_force_torque
        torque = self.world.contact_torque
        if not torque.any():
            return np.zeros(6)
        J = self.jacobian(self.q)
        # damped, so that the wrench stays bounded near a singularity
        w = np.linalg.solve(J @ J.T + 1e-4 * np.eye(6), J @ torque)
        w[3:] -= np.cross(self.forward(self.q)[:3, :3] @ self.tcp[:3, 3], w[:3])
        return np.asarray(w, dtype=float)

    def forward(self, q: Array) -> Array:
        return forward(self.personality.model, q)

    def inverse(self, T_base_flange: Array, q_near: Array) -> Array | None:
        """Return the joints (6,) nearest to `q_near` that reach the pose, or None."""
        try:
            found = solutions_near(self.personality.model, T_base_flange, q_near)
        except InvalidInput:
            return None
        return found[0].q if found else None

    def jacobian(self, q: Array) -> Array:
        """Return the Jacobian (6, 6) of the flange, linear part first, in the base's axes."""
        return jacobian(self.personality.model, q, 'base')

    def history(self, steps: int) -> Array:
        """Return the joints (6,) measured `steps` cycles ago, or the oldest that are kept."""
        return self._history[max(len(self._history) - 1 - steps, 0)]

    def command(self, q: Array, qd: Array) -> None:
        """Take this cycle's setpoint (6,) [rad], [rad/s]; an impossible one stops the arm."""
        q = np.asarray(q, dtype=float)
        fastest = np.maximum(np.abs(q - self.target_q) / self.step_time, np.abs(qd))
        is_within = bool(((q >= self.q_min) & (q <= self.q_max)).all())
        if is_within and (fastest <= self.qd_max + _SPEED_TOLERANCE).all():  # never so for NaN
            self._commanded = q.copy(), np.array(qd, dtype=float)
        elif self.robot.safe:
            what = 'faster than a joint can turn' if is_within else 'beyond a joint limit'
            self.protective_stop(f'the program asks for a setpoint {what}')

    def zero_wrench(self) -> None:
        self._wrench_zero = self._measure_wrench()
        self.wrench = np.zeros(6)

    def watchdog(self, name: str, min_frequency: float, action: str) -> None:
        """Do `action` (pause, stop, ignore) if an RTDE input comes too seldom [Hz]."""
        if min_frequency > 0.0:
            self._watchdogs[name] = _Watchdog(1.0 / min_frequency, action.lower(), self.time)

    def textmsg(self, text: str) -> None:
        self.outbox.append(messages.text_message(self.time, text))

    def popup(self, text: str, title: str, kind: str) -> None:
        self.popup_open, self.popup_text = True, text
        self.outbox.append(messages.popup_message(self.time, title, text, kind))

    def exception(self, line: int, column: int, text: str) -> None:
        self.outbox.append(messages.exception_message(self.time, line, column, text))

    def error(self, code: int, argument: int, level: int, text: str) -> None:
        """Report an error code; level 1 info, 2 warning, 3 violation, 4 fault."""
        self.outbox.append(messages.error_message(self.time, code, argument, level, text))

    def protective_stop(self, why: str = '') -> None:
        if SafetyMode.PROTECTIVE_STOP not in self.robot.stops:
            self.error(209, 0, messages.WARNING, why)
        self.robot.protective_stop()

    def _read(self) -> None:
        self.time = _BOOT_CLOCK + self.cycles * self.step_time
        self.q = np.round(self.world.q, _DIGITS) + 0.0  # no negative zero
        self.qd = np.round(self.world.qd, _DIGITS) + 0.0
        self.torque = self.world.effort
        self.current = motor_currents(self.torque)
        self.wrench = self._measure_wrench() - self._wrench_zero
        self._history.append(self.q)

    def input_written(self, name: str) -> None:
        if name in self._watchdogs:
            self._watchdogs[name].seen = self.time
