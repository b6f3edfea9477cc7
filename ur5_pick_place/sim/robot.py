# SPDX-License-Identifier: Apache-2.0
"""A robot controller: power, safety, program and speed scaling, collisions, motor currents."""

from dataclasses import dataclass
from enum import Enum, IntEnum

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.settings import Settings, setting

MAX_SETPOINT_SPEED = 20.0
"""Joint speed [rad/s] above which the robot's program ignores a setpoint."""

_POWER_UP_TIME = 1.0  # [s] from POWER_ON to IDLE, and for the brakes
_UNLOCK_WAIT = 5.0  # [s] after which a protective stop may be unlocked
_RAMP = 0.01  # speed scaling regained per cycle after a pause
# UR publishes neither gears nor motors. The strain wave gears are said to reduce by 101; torque
# constants are of the size that the literature has for a UR5's two larger kinds of joint (Kufieta,
# Force estimation in robotic manipulators, NTNU 2014), for every type. They were not checked on a
# robot: read the currents for their sign and size, and no torque from them.
_GEAR = 101.0
_TORQUE_CONSTANTS = np.array([0.125, 0.125, 0.125, 0.0922, 0.0922, 0.0922])  # [N m / A]

_INSTALLED_PAYLOAD = 0.0, (0.0, 0.0, 0.0)  # mass [kg], centre of gravity in tool0 [m]


class RobotMode(IntEnum):
    """As in ur_dashboard_msgs."""

    BOOTING = 2
    POWER_OFF = 3
    POWER_ON = 4
    IDLE = 5
    RUNNING = 7


class SafetyMode(IntEnum):
    """As in ur_dashboard_msgs."""

    NORMAL = 1
    REDUCED = 2
    PROTECTIVE_STOP = 3
    SAFEGUARD_STOP = 5
    ROBOT_EMERGENCY_STOP = 7


_STOPS = (
    SafetyMode.ROBOT_EMERGENCY_STOP,
    SafetyMode.PROTECTIVE_STOP,
    SafetyMode.SAFEGUARD_STOP,
)
"""Most severe first: of several active stops the robot reports the first."""


class Program(Enum):
    """State of the External Control program."""

    STOPPED = 'STOPPED'
    PLAYING = 'PLAYING'
    PAUSED = 'PAUSED'


class Robot:
    """A robot that is switched on and runs External Control."""

    def __init__(self) -> None:
        self.mode = RobotMode.RUNNING
        self.program = Program.PLAYING
        self.slider = 1.0  # 0 to 1
        # as the driver reports it: the slider, 0 while the program is paused, and a ramp from 0
        # to the slider afterwards
        self.scaling = 1.0
        self._tool_voltage = 0
        self.payload = _INSTALLED_PAYLOAD  # of a program that starts, whatever was set before
        self.popup = ''  # on the pendant; empty for none
        self._now = 0.0
        self.stops: set[SafetyMode] = set()
        self._stopped_at = 0.0
        self._coming: tuple[float, RobotMode] | None = None

    @property
    def tool_voltage(self) -> int:
        """0, 12 or 24 [V], as requested; 0 while the robot is switched off."""
        return self._tool_voltage if self.mode >= RobotMode.POWER_ON else 0

    @tool_voltage.setter
    def tool_voltage(self, voltage: int) -> None:
        self._tool_voltage = voltage

    @property
    def program_running(self) -> bool:
        """Whether External Control is connected; also while the program is paused."""
        return self.program is not Program.STOPPED

    @property
    def safety(self) -> SafetyMode:
        """The most severe active stop, or normal."""
        return next((stop for stop in _STOPS if stop in self.stops), SafetyMode.NORMAL)

    @property
    def safe(self) -> bool:
        """Whether no stop is active."""
        return not self.stops

    @property
    def moves(self) -> bool:
        """Whether setpoints are followed."""
        return self.mode is RobotMode.RUNNING and self.safe and self.program is Program.PLAYING

    def advance(self, now: float) -> None:
        """Run one cycle, at `now` [s]."""
        self._now = now
        if self._coming is not None and now >= self._coming[0]:
            self.mode, self._coming = self._coming[1], None
        if self.program is Program.PAUSED:
            self.scaling = 0.0
        elif self.scaling < self.slider and self.program is Program.PLAYING:
            self.scaling = min(self.scaling + _RAMP, self.slider)
        else:
            self.scaling = self.slider

    def power_on(self) -> bool:
        """Switch the arm on, brakes closed; refused while the emergency stop is pressed."""
        if SafetyMode.ROBOT_EMERGENCY_STOP in self.stops:
            return False
        if self.mode is RobotMode.POWER_OFF:
            self.mode = RobotMode.POWER_ON
            self._coming = (self._now + _POWER_UP_TIME, RobotMode.IDLE)
        return True

    def release_brakes(self) -> bool:
        """Make the arm ready to move, switching it on if necessary."""
        if not self.safe:
            return False
        is_coming = self._coming is not None and self._coming[1] is RobotMode.RUNNING
        if self.mode is not RobotMode.RUNNING and not is_coming:
            steps = 1 if self.mode is RobotMode.IDLE else 2
            self._coming = (self._now + steps * _POWER_UP_TIME, RobotMode.RUNNING)
        return True

    def power_off(self) -> bool:
        """Switch the arm and its tool off."""
        self._cut_power()
        self.program = Program.STOPPED
        return True

    def boot(self) -> None:
        """Start anew what watches over safety; the arm is switched off then."""
        self.mode = RobotMode.BOOTING
        self._coming = (self._now + _POWER_UP_TIME, RobotMode.POWER_OFF)

    def play(self) -> bool:
        """Start or resume the program; refused while the arm cannot move."""
        if self.mode is not RobotMode.RUNNING or not self.safe:
            return False
        if self.program is Program.STOPPED:
            self.payload = _INSTALLED_PAYLOAD
        self.program = Program.PLAYING
        return True

    def pause(self) -> bool:
        if self.program is Program.PLAYING:
            self.program = Program.PAUSED
        return self.program is Program.PAUSED

    def close_popup(self) -> bool:
        self.popup = ''
        return True

    def stop(self) -> bool:
        """End the program."""
        self.program = Program.STOPPED
        return True

    def protective_stop(self) -> None:
        """Stop the arm because of an error; the program is paused."""
        self.stops.add(SafetyMode.PROTECTIVE_STOP)
        self._stopped_at = self._now
        self.pause()

    def unlock(self) -> bool:
        """Unlock a protective stop; refused in its first five seconds."""
        if SafetyMode.PROTECTIVE_STOP in self.stops:
            if self._now - self._stopped_at < _UNLOCK_WAIT:
                return False
            self.stops.remove(SafetyMode.PROTECTIVE_STOP)
        return True

    def open_safeguard(self) -> None:
        """Stop the arm as a person may be near (category 2 stop); the program is paused."""
        self.stops.add(SafetyMode.SAFEGUARD_STOP)
        self.pause()

    def close_safeguard(self) -> None:
        """Close and reset the safeguard; the program stays paused until it is played."""
        self.stops.discard(SafetyMode.SAFEGUARD_STOP)

    def press_emergency_stop(self) -> None:
        """Stop the arm and cut power to arm and tool (category 1 stop); the program is paused."""
        self.stops.add(SafetyMode.ROBOT_EMERGENCY_STOP)
        self.pause()
        self._cut_power()

    def release_emergency_stop(self) -> None:
        """Release the button; the arm stays off until it is switched on."""
        self.stops.discard(SafetyMode.ROBOT_EMERGENCY_STOP)

    def _cut_power(self) -> None:
        self.mode, self._coming = RobotMode.POWER_OFF, None
        self._tool_voltage = 0


@dataclass(frozen=True)
class ContactSettings(Settings):
    """Thresholds of the protective stop after a contact."""

    contact_torque: float = setting(
        10.0,
        'unexplained torque of any joint that causes a protective stop; 0.6 is normal with the '
        'cube, a collision exceeds 100',
        unit='N m',
        low=2.0,
        high=150.0,
    )
    contact_time: float = setting(
        0.016,
        'how long the torque must last; one cycle may be noise, three cause damage',
        unit='s',
        low=0.008,
        high=0.5,
    )


class ContactWatch:
    """
    Detects a contact from the unexplained torque of each cycle.

    `period`: cycle time [s].
    """

    def __init__(self, settings: ContactSettings, period: float) -> None:
        self._torque = settings.contact_torque
        self._cycles_needed = max(1, round(settings.contact_time / period))
        self._cycles = 0

    def update(self, torque: float) -> bool:
        """Take a cycle's torque [N m]; return whether a contact is detected."""
        self._cycles = self._cycles + 1 if torque > self._torque else 0
        return self._cycles >= self._cycles_needed

    def reset(self) -> None:
        """Reset the count of cycles."""
        self._cycles = 0


def motor_currents(torque: Array) -> Array:
    """Return the currents of the motors [A] for joint torques (6,) [N m], without friction."""
    return torque / (_GEAR * _TORQUE_CONSTANTS)
