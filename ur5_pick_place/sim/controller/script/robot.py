# SPDX-License-Identifier: Apache-2.0
"""What a URScript program reads and commands of the controller."""

from typing import Protocol

from ur5_pick_place.kinematics.transforms import Array


class Robot(Protocol):
    """
    The controller, as a program knows it; called in the controller's one thread.

    Lists and arrays are the controller's own: a program reads them anew in each cycle. Poses are
    (4, 4) in the controller's base; wrenches and twists (6,) have the linear part first, in the
    base's axes, and are those of the TCP. Pins and registers: see `Registers`.

    """

    step_time: float  # [s]
    time_scale: float  # robot time per time, 0 to 1: slider x limits, ramped to 0 before a pause

    # joints (6,): measured, of the last setpoint, and their limits
    q: Array  # [rad]
    qd: Array  # [rad/s]
    torque: Array  # [N m]
    temperature: Array  # [deg C]
    target_q: Array  # [rad]
    target_qd: Array  # [rad/s]
    q_min: Array  # [rad]
    q_max: Array  # [rad]
    qd_max: Array  # [rad/s]
    wrench: Array  # (6,) [N, N m] measured, less what `zero_wrench` has stored

    # what a program replaces
    tcp: Array  # (4, 4) flange to TCP
    payload: float  # [kg]
    payload_cog: Array  # (3,) [m] in the flange
    payload_inertia: Array  # (6,) [kg m2]
    gravity: Array  # (3,) [m/s2] in the base, pointing up
    tool_voltage: int  # 0, 12 or 24 [V]
    is_free: bool  # the arm can be moved by hand; ends with the program by itself
    has_external_wrench: bool  # from RTDE's `external_force_torque` instead of the sensor

    digital_inputs: int
    digital_outputs: int
    analog_inputs: list[float]
    analog_outputs: list[float]
    analog_output_types: int
    input_ints: list[int]
    input_floats: list[float]
    input_bits: list[bool]
    output_ints: list[int]
    output_floats: list[float]
    output_bits: list[bool]
    flags: list[bool]  # kept from program to program
    popup_open: bool  # a popup waits for a person

    # what they do is said in `Controller`
    def forward(self, q: Array) -> Array: ...
    def inverse(self, T_base_flange: Array, q_near: Array) -> Array | None: ...
    def jacobian(self, q: Array) -> Array: ...
    def history(self, steps: int) -> Array: ...
    def command(self, q: Array, qd: Array) -> None: ...
    def zero_wrench(self) -> None: ...
    def watchdog(self, name: str, min_frequency: float, action: str) -> None: ...
    def textmsg(self, text: str) -> None: ...
    def popup(self, text: str, title: str, kind: str) -> None: ...
    def exception(self, line: int, column: int, text: str) -> None: ...
    def error(self, code: int, argument: int, level: int, text: str) -> None: ...
    def protective_stop(self) -> None: ...
    def pause(self) -> bool: ...
