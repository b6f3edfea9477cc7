# SPDX-License-Identifier: Apache-2.0
"""The controllers of the driver: list, switch, and stop with the robot's program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

STRICT = 2

SCALED = 'scaled_joint_trajectory_controller'
UNSCALED = 'joint_trajectory_controller'
VELOCITY = 'forward_velocity_controller'
PASSTHROUGH = 'passthrough_trajectory_controller'
POSITION = 'forward_position_controller'
FREEDRIVE = 'freedrive_mode_controller'
JOINT_STATES = 'joint_state_broadcaster'
SPEED_SCALING = 'speed_scaling_state_broadcaster'
IO_AND_STATUS = 'io_and_status_controller'

MOTION_CONTROLLERS = (SCALED, UNSCALED, PASSTHROUGH, VELOCITY, POSITION, FREEDRIVE)

_TYPES = {
    JOINT_STATES: 'joint_state_broadcaster/JointStateBroadcaster',
    IO_AND_STATUS: 'ur_controllers/GPIOController',
    SPEED_SCALING: 'ur_controllers/SpeedScalingStateBroadcaster',
    SCALED: 'ur_controllers/ScaledJointTrajectoryController',
    UNSCALED: 'joint_trajectory_controller/JointTrajectoryController',
    PASSTHROUGH: 'ur_controllers/PassthroughTrajectoryController',
    VELOCITY: 'velocity_controllers/JointGroupVelocityController',
    POSITION: 'position_controllers/JointGroupPositionController',
    FREEDRIVE: 'ur_controllers/FreedriveModeController',
}


@dataclass
class Controller:
    name: str
    type: str
    active: bool

    @property
    def moves(self) -> bool:
        """Whether the controller commands motion; only one such controller can be active."""
        return self.name in MOTION_CONTROLLERS


class ControllerManager:
    """
    All controllers of the cell.

    `initial`: the motion controller that is active from the start. `on_change`: called with a
    controller's name and whether it has become active.
    """

    def __init__(self, initial: str, on_change: Callable[[str, bool], None]) -> None:
        self._on_change = on_change
        self._restored: list[str] = []
        self.controllers = {
            name: Controller(name, kind, active=False) for name, kind in _TYPES.items()
        }
        for name, controller in self.controllers.items():
            if not controller.moves or name == initial:
                self._set(name, True)

    @property
    def motion(self) -> str:
        """Name of the active motion controller; empty if there is none."""
        return next((c.name for c in self.controllers.values() if c.moves and c.active), '')

    def switch(
        self, activate: Sequence[str], deactivate: Sequence[str], strictness: int
    ) -> tuple[bool, str]:
        """
        Deactivate and activate controllers in one step.

        With `STRICT` an impossible entry refuses the whole request; otherwise it is left out.

        Returns the message names the entries that were refused or left out.
        """
        off: list[str] = []
        problems: list[str] = []
        for name in deactivate:
            problem = self._problem(name, active=False)
            (problems if problem else off).append(problem or name)
        on: list[str] = []
        for name in activate:
            problem = self._problem(name, active=True, released=off)
            if not problem and self._conflicts(name, off, on):
                problem = f'{name}: joints are claimed by another active controller'
            (problems if problem else on).append(problem or name)
        if problems and strictness == STRICT:
            return False, '; '.join(problems)
        for name in off:
            self._set(name, False)
        for name in on:
            self._set(name, True)
        return True, '; '.join(problems)

    def stop_motion(self) -> None:
        """Deactivate the motion controllers, as controller_stopper does when the program ends."""
        self._restored = [name for name in MOTION_CONTROLLERS if self.controllers[name].active]
        for name in self._restored:
            self._set(name, False)

    def restore_motion(self) -> None:
        """Reactivate the controllers of `stop_motion`, unless another one is active."""
        for name in self._restored:
            if not self.motion:
                self._set(name, True)
        self._restored = []

    def _problem(self, name: str, active: bool, released: Sequence[str] = ()) -> str:
        if name not in self.controllers:
            return f'{name}: no such controller'
        if active == (self.controllers[name].active and name not in released):
            return f'{name}: already {"active" if active else "inactive"}'
        return ''

    def _conflicts(self, name: str, off: Sequence[str], on: Sequence[str]) -> bool:
        if not self.controllers[name].moves:
            return False
        staying = [c.name for c in self.controllers.values() if c.active and c.name not in off]
        return any(self.controllers[other].moves for other in (*staying, *on))

    def _set(self, name: str, active: bool) -> None:
        self.controllers[name].active = active
        self._on_change(name, active)
