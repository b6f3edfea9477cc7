# SPDX-License-Identifier: Apache-2.0
"""What a URScript program reads and commands of the controller."""

from typing import Protocol

from ur5_pick_place.kinematics.transforms import Array


class Robot(Protocol):
    """
    The controller, as a program knows it; called in the controller's one thread.

    Lists and arrays are the controller's own: a program reads them anew in each cycle. Poses are
    (4, 4) in the controller's base; wrenches and twists (6,) have the linear part first, in the
    base's axes, and are those of the TCP.

    """

    step_time: float
    """[s] of a cycle: 0.008 (CB3) or 0.002."""
    time_scale: float
    """Robot time per time, 0 to 1: slider x limits, ramped to 0 before a pause. In a pause the
    controller does not call `Program.step`."""
    time: float
    """[s] of robot time since power-up."""
    version: tuple[int, int, int, int]
    """Major, minor, bugfix, build."""

    q: Array
    """(6,) [rad], measured; so are `qd` [rad/s], `torque` [N m], `current` [A] and so on."""
    qd: Array
    torque: Array
    current: Array
    temperature: Array
    target_q: Array
    """(6,) [rad] of the last setpoint; so is `target_qd` [rad/s]."""
    target_qd: Array
    q_min: Array
    """(6,) [rad], lower safety limit of the joints; `q_max`: the upper."""
    q_max: Array
    qd_max: Array
    """(6,) [rad/s], speed limit of the joints."""
    wrench: Array
    """(6,) [N, N m] measured at the TCP, less what `zero_wrench` has stored."""

    tcp: Array
    """(4, 4) flange to TCP; a program replaces it, as the fields down to `tool_voltage`."""
    payload: float
    """[kg]; centre of gravity (3,) [m] in the flange; inertia (6,) [kg m2]."""
    payload_cog: Array
    payload_inertia: Array
    gravity: Array
    """(3,) [m/s2] in the base, pointing up."""
    tool_voltage: int
    """0, 12 or 24 [V]."""

    digital_inputs: int
    """Bits 0-7 standard, 8-15 configurable, 16-17 tool; so are `digital_outputs`, which a program
    replaces."""
    digital_outputs: int
    analog_inputs: list[float]
    """Standard 0, 1, tool 0, 1: [V] or [A]."""
    analog_outputs: list[float]
    """0 and 1, each as a fraction 0 to 1 of its range."""
    analog_output_types: int
    """Bit n is 1 if output n is a voltage (0 to 10 V), 0 for a current (4 to 20 mA)."""
    input_ints: list[int]
    """48 registers, as `input_floats`; 128 `input_bits`. A program writes `output_...`."""
    input_floats: list[float]
    input_bits: list[bool]
    output_ints: list[int]
    output_floats: list[float]
    output_bits: list[bool]
    flags: list[bool]
    """32, kept from program to program."""
    popup_open: bool
    """Whether a popup waits for a person."""

    def forward(self, q: Array) -> Array:
        """Return the pose (4, 4) of the flange."""

    def inverse(self, T_base_flange: Array, q_near: Array) -> Array | None:
        """Return the joints (6,) nearest to `q_near` that reach the pose, or None."""

    def jacobian(self, q: Array) -> Array:
        """Return the Jacobian (6, 6) of the flange, linear part first, in the base's axes."""

    def history(self, steps: int) -> Array:
        """Return the joints (6,) measured `steps` cycles ago, or the oldest that are kept."""

    def command(self, q: Array, qd: Array) -> None:
        """Take this cycle's setpoint (6,) [rad], [rad/s]; at most one call a cycle."""

    def freedrive(self, on: bool) -> None:
        """Let the arm be moved by hand, or hold it again; ends with the program by itself."""

    def zero_wrench(self) -> None:
        """Take the present wrench for zero."""

    def external_wrench(self, on: bool) -> None:
        """Take the wrench from RTDE's `external_force_torque` instead of the sensor."""

    def watchdog(self, name: str, min_frequency: float, action: str) -> None:
        """Watch an RTDE input: `action` (pause, stop, ignore) if it comes too seldom [Hz]."""

    def textmsg(self, text: str) -> None:
        """Send a text message, and log it."""

    def popup(self, text: str, title: str, kind: str) -> None:
        """Show a popup; `kind`: message, warning or error. Sets `popup_open`."""

    def exception(self, line: int, column: int, text: str) -> None:
        """Report the run-time exception that has just ended the program; both count from 1."""

    def error(self, code: int, argument: int, level: int, text: str) -> None:
        """Report an error code; level 1 info, 2 warning, 3 violation, 4 fault."""

    def protective_stop(self) -> None:
        """Stop the arm and pause the program; error 209 is reported by the controller."""

    def pause(self) -> None:
        """Pause the program, after this cycle."""
