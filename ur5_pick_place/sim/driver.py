# SPDX-License-Identifier: Apache-2.0
"""
The UR driver on the simulated cell, in cycles of the robot, without ROS.

A cycle applies the previous command to the world, reads the joints, serves the requests, and
updates the active controller, as ros2_control does on the robot.

"""

import logging
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.link_inertias import rated_payload
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.pins import TOOL_PIN_0, TOOL_PIN_1
from ur5_pick_place.sim.contact import ContactSettings, ContactWatch
from ur5_pick_place.sim.controller_manager import (
    FREEDRIVE,
    IO_AND_STATUS,
    MOTION_CONTROLLERS,
    PASSTHROUGH,
    POSITION,
    SCALED,
    UNSCALED,
    VELOCITY,
    ControllerManager,
)
from ur5_pick_place.sim.currents import motor_currents
from ur5_pick_place.sim.dashboard import Dashboard
from ur5_pick_place.sim.gripper_server import GripperServer
from ur5_pick_place.sim.grippers import ACTION, DIGITAL, GRIPPER_COMMAND, VACUUM
from ur5_pick_place.sim.io_controller import IoController
from ur5_pick_place.sim.link import JointReport, Link
from ur5_pick_place.sim.passthrough import PassthroughController
from ur5_pick_place.sim.robot import Robot
from ur5_pick_place.sim.setpoints import ForwardController, FreedriveController, Setpoint
from ur5_pick_place.sim.trajectory_controller import TrajectoryController
from ur5_pick_place.sim.wiring import Wiring

GRIPPER_PIN = TOOL_PIN_0  # the output that closes
PART_PRESENT_PIN = TOOL_PIN_0  # an input
BLOW_OFF_PIN = TOOL_PIN_1  # the output of a suction cup

RESTART, SPLICE = 'restart', 'splice'
REPLACEMENTS = (RESTART, SPLICE)

_ACTIVATION_TIME = 0.06  # [s] after the program's start: controller_stopper asks, then switches
_RECEIVE_TIMEOUT = 0.04  # [s] without a command after which the robot's program ends

_log = logging.getLogger(__name__)


class Arm(Protocol):
    """The interface of the world that the driver uses; `sim.world.World` implements it."""

    @property
    def time(self) -> float: ...

    @property
    def q(self) -> Array: ...

    @property
    def qd(self) -> Array: ...

    @property
    def effort(self) -> Array: ...

    @property
    def external_torque(self) -> float: ...

    @property
    def part_present(self) -> bool: ...

    def step(self, q_command: Array | None) -> None: ...

    def set_gripper(self, closed: bool) -> None: ...

    # Only for other grippers:

    def set_blow_off(self, blows: bool) -> None: ...

    @property
    def finger_gap(self) -> float: ...

    def set_finger_gap(self, gap: float) -> None: ...

    def set_jam(self, is_jammed: bool) -> None: ...

    def set_leak(self, leaks: bool) -> None: ...

    # Only for faults of the part:

    @property
    def T_world_part(self) -> Array: ...

    def place_part(self, x: float, y: float, yaw: float, z: float | None = None) -> None: ...

    def set_grip(self, share: float) -> None: ...


class Driver:
    """
    Controllers, pins and modes of the simulated driver.

    Parameters
    ----------
    arm : Arm
        The world; only the driver may step it.
    contact : ContactSettings
        Thresholds of the protective stop after a contact.
    controller : str
        The motion controller that is active at the start.
    tf_prefix : str
        Prefix of the joint names.
    period : float
        Time of a cycle [s], as the arm's.
    replacement : str
        One of `REPLACEMENTS`: how a trajectory replaces the running one.
    ur_type, polyscope : str
        For the dashboard, and the rated payload.
    gripper : str
        That of the world, one of `GRIPPERS`.
    gripper_action_type : str
        Type of the action of a gripper with an action server.
    arrival_jitter : int
        Largest delay of messages from clients, at random [cycles].

    Attributes
    ----------
    period : float
    time : float
        Time of the last measurement [s].
    q, qd, current : ndarray, shape (6,)
        Last measurement in controller joint order [rad, rad/s, A].
    report : JointReport or None
        The measurement as published on joint_states; None if it is dropped.
    pc_frozen : bool
        Whether the PC, and with it this driver, stands still; the robot does not.
    link, wiring
        The connection from driver to clients, and from tool connector to gripper.
    robot, dashboard, io, controllers
        The parts that the services use.
    trajectory : dict of str to TrajectoryController
        The trajectory controllers by name.
    velocity, position : ForwardController
    freedrive : FreedriveController
    gripper_server : GripperServer or None
        Only of a gripper with an action server.

    """

    def __init__(
        self,
        arm: Arm,
        controller: str = SCALED,
        tf_prefix: str = '',
        contact: ContactSettings = ContactSettings(),
        period: float = CYCLE,
        replacement: str = RESTART,
        ur_type: str = 'ur5',
        polyscope: str = '3',
        gripper: str = DIGITAL,
        gripper_action_type: str = GRIPPER_COMMAND,
        arrival_jitter: int = 0,
    ) -> None:
        self.period = period
        self.joint_names: Sequence[str] = tuple(tf_prefix + name for name in JOINT_NAMES)
        self.arm, self.gripper = arm, gripper
        self.gripper_server: GripperServer | None = None
        if gripper == ACTION:
            self.gripper_server = GripperServer(arm, gripper_action_type)
        self.link, self.wiring = Link(period), Wiring()
        self.link.to_driver.jitter = arrival_jitter
        self._contact = ContactWatch(contact, period)
        self._read()
        self.robot = Robot()
        self.dashboard = Dashboard(self.robot, ur_type, polyscope)
        self.io = IoController(self.robot, rated_payload(ur_type), polyscope != '3')
        self.trajectory: dict[str, TrajectoryController] = {
            name: TrajectoryController(self.joint_names, period, replacement == SPLICE)
            for name in (SCALED, UNSCALED)
        }
        self.trajectory[PASSTHROUGH] = PassthroughController(self.joint_names, period)
        self.velocity, self.position = ForwardController(), ForwardController()
        self.freedrive = FreedriveController()
        self._forwarders: dict[str, ForwardController | FreedriveController] = {
            VELOCITY: self.velocity,
            POSITION: self.position,
            FREEDRIVE: self.freedrive,
        }
        self._setpoint = Setpoint(self.q, period)
        self.pc_frozen, self._commanded = False, self.time
        self._free = False
        self._program_ran = self.robot.program_running
        self._activation_due = math.inf  # [s]
        self.controllers = ControllerManager(controller, self._on_controller)

    def cycle(self) -> None:
        """Advance by one cycle."""
        self.arm.step(None if self._free else self._setpoint.q)
        self._read()
        self.robot.advance(self.time)
        if self.pc_frozen:
            self._continue_alone()
            return
        self._commanded = self.time
        self.io.update(self.time)
        self._watch_contact()
        self._wire_gripper()
        self._follow_program()
        self._command()

    def _continue_alone(self) -> None:
        """Let the robot go on without the PC: for 40 ms, or as long as it has a trajectory."""
        self.report = None
        self._watch_contact()  # the robot's own
        if self.controllers.motion == PASSTHROUGH:
            self._command()
            return
        if self.time - self._commanded > _RECEIVE_TIMEOUT:
            self.robot.stop()
        self._setpoint.speed(np.zeros(6))

    def _read(self) -> None:
        arm = self.arm
        self.time, self.q, self.qd = arm.time, arm.q, arm.qd
        self.current = motor_currents(arm.effort)
        self.report = self.link.pass_on(JointReport(self.time, self.q, self.qd, self.current))

    def _watch_contact(self) -> None:
        """Trigger a protective stop at a contact and hold the measured joints."""
        if not self.robot.moves:
            self._contact.reset()
        elif self._contact.update(self.arm.external_torque):
            self.robot.protective_stop()
            self.robot.popup = 'Protective stop: collision detected by joint torque'
            self._setpoint.hold(self.q)
            _log.error('%s: %.0f N m', self.robot.popup, self.arm.external_torque)

    def _wire_gripper(self) -> None:
        """Connect output, gripper and part-present input while the tool has power."""
        powered = self.robot.tool_voltage > 0
        if self.gripper_server:
            self.gripper_server.update(self.time, powered)
            return
        pins = self.io.pins
        if self.gripper == VACUUM:
            self.arm.set_blow_off(powered and pins.digital_out[BLOW_OFF_PIN])
        close = self.wiring.close_command(pins.digital_out[GRIPPER_PIN])
        self.arm.set_gripper(powered and close)
        present = powered and self.arm.part_present
        pins.digital_in[PART_PRESENT_PIN] = self.wiring.part_present(present, self.time)

    def _follow_program(self) -> None:
        runs = self.robot.program_running
        if runs and not self._program_ran:
            self._activation_due = self.time + _ACTIVATION_TIME
        elif self._program_ran and not runs:
            if math.isinf(self._activation_due):
                self.controllers.stop_motion()
            self._activation_due = math.inf
        if self.time >= self._activation_due:
            self._activation_due = math.inf
            self.controllers.restore_motion()
        self._program_ran = runs

    def _command(self) -> None:
        """Compute the setpoint of the next cycle with the active motion controller."""
        name, moves = self.controllers.motion, self.robot.moves
        target = None
        if name in self.trajectory:
            target = self.trajectory[name].update(self.time, self.q, self.qd, self.robot.scaling)
        elif name == POSITION:
            target = self.position.command
        free = moves and name == FREEDRIVE and self.freedrive.free(self.time)
        if self._free and not free:
            self._setpoint.hold(self.q)
        self._free = free
        if name == VELOCITY and moves and self.velocity.command is not None:
            self._setpoint.speed(self.velocity.command)
        elif target is not None and moves:
            self._servo(target)
        else:
            self._setpoint.speed(np.zeros(6))

    def _servo(self, target: Array) -> None:
        refused_before = self._setpoint.refused
        self._setpoint.servo(target)
        if self._setpoint.refused and not refused_before:
            self.robot.popup = 'Velocity too high: ignoring setpoints until they are within reach'
            _log.error('%s: a setpoint requires more than 20 rad/s', self.robot.popup)

    def _on_controller(self, name: str, active: bool) -> None:
        if name == IO_AND_STATUS:
            self.io.active = active
        if name not in MOTION_CONTROLLERS:
            return
        if active:
            self._setpoint.hold(self.q)
        if name not in self.trajectory:
            self._forwarders[name].set_active(active)
        elif active:
            self.trajectory[name].activate(self.q)
        else:
            self.trajectory[name].deactivate()
