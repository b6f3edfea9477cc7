# SPDX-License-Identifier: Apache-2.0
"""
The UR driver on the simulated cell, in cycles of the robot, without ROS.

A cycle applies the previous command to the world, reads the joints, serves the requests, and
updates the active controller, as ros2_control does on the robot.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.sim.controllers.controller_manager import (
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
from ur5_pick_place.sim.controllers.passthrough import PassthroughController
from ur5_pick_place.sim.controllers.setpoints import (
    ForwardController,
    FreedriveController,
    Setpoint,
)
from ur5_pick_place.sim.controllers.trajectory_controller import TrajectoryController
from ur5_pick_place.sim.dashboard import Dashboard
from ur5_pick_place.sim.gripper_server import GripperServer
from ur5_pick_place.sim.grippers import ACTION, GRIPPER_COMMAND, PARALLEL
from ur5_pick_place.sim.io_controller import (
    BLOW_OFF_PIN,
    GRIPPER_PIN,
    PART_PRESENT_PIN,
    IoController,
)
from ur5_pick_place.sim.link import JointReport, Link
from ur5_pick_place.sim.physics.arm import JOINT_NAMES, load_arm
from ur5_pick_place.sim.physics.hand import Cup, Fingers
from ur5_pick_place.sim.physics.world import World
from ur5_pick_place.sim.robot import ContactSettings, ContactWatch, Robot, motor_currents
from ur5_pick_place.sim.wiring import Wiring

RESTART, SPLICE = 'restart', 'splice'
REPLACEMENTS = (RESTART, SPLICE)

_ACTIVATION_TIME = 0.06  # [s] after the program's start: controller_stopper asks, then switches
_RECEIVE_TIMEOUT = 0.04  # [s] without a command after which the robot's program ends

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DriverSettings(Settings):
    """Controllers and robot of the simulated driver."""

    controller: str = setting(
        SCALED, 'motion controller that is active at the start', choices=MOTION_CONTROLLERS
    )
    tf_prefix: str = setting('', 'prefix of joint names and frames, as given to the driver')
    trajectory_replacement: str = setting(
        RESTART,
        'how a new trajectory replaces the running one: as joint_trajectory_controller up to 6.9 '
        'or after it',
        choices=REPLACEMENTS,
    )
    arrival_jitter: int = setting(
        0,
        'messages from clients arrive at random up to this many cycles late',
        low=0,
        high=5,
    )
    program_running: bool = setting(
        True, 'the program runs from the start; false: the pendant waits for Play'
    )
    polyscope_x: bool = setting(
        False, 'the dashboard is that of PolyScope X, which a CB3 robot cannot have'
    )
    gripper_action_type: str = setting(
        GRIPPER_COMMAND,
        'with gripper: action, the type of its action',
        choices=(GRIPPER_COMMAND, PARALLEL),
    )


class Driver:
    """
    Controllers, pins and modes of the simulated driver.

    `world`: only the driver may step it. `contact`: thresholds of the protective stop after a
    contact. Raises `InvalidInput`: the robot cannot have that software.

    - `time`, `q`, `qd`, `current`: of the last measurement, in controller joint order
      [s, rad, rad/s, A]
    - `report`: the measurement as published on joint_states; None if it is dropped
    - `pc_frozen`: whether the PC, and with it this driver, stands still; the robot does not
    """

    def __init__(
        self,
        world: World,
        settings: DriverSettings = DriverSettings(),
        contact: ContactSettings = ContactSettings(),
    ) -> None:
        ur_type = world.settings.ur_type
        arm, period = load_arm(ur_type), world.cycle
        if settings.polyscope_x and arm.polyscope == '3':
            raise InvalidInput(
                f'polyscope_x = true: a {ur_type} has PolyScope 3; choose a type that is not CB3'
            )
        self.world, self.period = world, period
        self.tf_prefix = settings.tf_prefix
        self.joint_names: Sequence[str] = tuple(self.tf_prefix + name for name in JOINT_NAMES)
        self.gripper_server: GripperServer | None = None
        if world.settings.gripper == ACTION and isinstance(world.hand, Fingers):
            self.gripper_server = GripperServer(world.hand, settings.gripper_action_type)
        self.link, self.wiring = Link(period), Wiring()
        self.link.to_driver.jitter = settings.arrival_jitter
        self._contact = ContactWatch(contact, period)
        self._read()
        self.robot = Robot()
        polyscope = 'X' if settings.polyscope_x else arm.polyscope
        self.dashboard = Dashboard(self.robot, ur_type, polyscope)
        self.io = IoController(self.robot, arm.payload, arm.polyscope != '3')
        splices = settings.trajectory_replacement == SPLICE
        self.trajectory: dict[str, TrajectoryController] = {
            name: TrajectoryController(self.joint_names, period, splices)
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
        self.controllers = ControllerManager(settings.controller, self._on_controller)
        if not settings.program_running:
            self.robot.stop()

    def cycle(self) -> None:
        """Advance by one cycle."""
        self.world.step(None if self._free else self._setpoint.q)
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
        world = self.world
        self.time, self.q, self.qd = world.time, world.q, world.qd
        self.current = motor_currents(world.effort)
        self.report = self.link.pass_on(JointReport(self.time, self.q, self.qd, self.current))

    def _watch_contact(self) -> None:
        """Trigger a protective stop at a contact and hold the measured joints."""
        if not self.robot.moves:
            self._contact.reset()
        elif self._contact.update(self.world.external_torque):
            self.robot.protective_stop()
            self.robot.popup = 'Protective stop: collision detected by joint torque'
            self._setpoint.hold(self.q)
            _log.error('%s: %.0f N m', self.robot.popup, self.world.external_torque)

    def _wire_gripper(self) -> None:
        """Connect output, gripper and part-present input while the tool has power."""
        powered = self.robot.tool_voltage > 0
        if self.gripper_server:
            self.gripper_server.update(self.time, powered)
            return
        pins, hand = self.io.pins, self.world.hand
        if isinstance(hand, Cup):
            hand.blows = powered and pins.digital_out[BLOW_OFF_PIN]
        hand.close(powered and self.wiring.close_command(pins.digital_out[GRIPPER_PIN]))
        present = powered and hand.part_present
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
        target = self.position.command if name == POSITION else None
        if name in self.trajectory:
            target = self.trajectory[name].update(self.time, self.q, self.qd, self.robot.scaling)
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
