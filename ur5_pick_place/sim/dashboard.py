# SPDX-License-Identifier: Apache-2.0
"""The dashboard server of a robot with PolyScope 3 (CB3), 5 (e-Series) or X."""

from collections.abc import Callable
from typing import NamedTuple

from ur5_pick_place.sim.robot import Robot

PROGRAM = 'external_control.urp'
VERSIONS = {'3': (3, 15, 8), '5': (5, 22, 0), 'X': (10, 8, 0)}
"""Of the software, by PolyScope."""

_ROLES = ('PROGRAMMER', 'OPERATOR', 'NONE', 'LOCKED', 'RESTRICTED')

_UNLOCK_ADVICE = (
    'Cannot unlock protective stop until 5s after occurrence. Always inspect cause of protective '
    'stop before unlocking'
)


class Answer(NamedTuple):
    """Whether a command succeeded, and the reply of the server."""

    success: bool
    text: str


class Dashboard:
    """
    The commands of one robot, by the names of the driver's services.

    A command that its PolyScope does not have is refused with the reason.

    Parameters
    ----------
    polyscope : str
        A key of `VERSIONS`.

    """

    def __init__(self, robot: Robot, ur_type: str = 'ur5', polyscope: str = '3') -> None:
        self._robot = robot
        self._ur_type, self._polyscope = ur_type, polyscope
        self.version = VERSIONS[polyscope]
        self.user_role = 'NONE'
        self.log: list[str] = []

    def power_on(self) -> Answer:
        """Switch the arm on."""
        return _answer(self._robot.power_on(), 'Powering on', 'power on')

    def power_off(self) -> Answer:
        """Switch the arm off."""
        return _answer(self._robot.power_off(), 'Powering off', 'power off')

    def brake_release(self) -> Answer:
        """Make the arm ready to move."""
        return _answer(self._robot.release_brakes(), 'Brake releasing', 'brake release')

    def play(self) -> Answer:
        """Start or resume the loaded program."""
        return _answer(self._robot.play(), 'Starting program', 'play')

    def pause(self) -> Answer:
        """Pause the program."""
        return _answer(self._robot.pause(), 'Pausing program', 'pause')

    def stop(self) -> Answer:
        """End the program."""
        return _answer(self._robot.stop(), 'Stopped', 'stop')

    def unlock_protective_stop(self) -> Answer:
        """Unlock a protective stop."""
        done = self._robot.unlock()
        return Answer(done, 'Protective stop releasing' if done else _UNLOCK_ADVICE)

    def close_popup(self) -> Answer:
        """Close the popup on the pendant."""
        self._robot.popup = ''
        return Answer(True, 'closing popup')

    def close_safety_popup(self) -> Answer:
        """Close the safety popup on the pendant."""
        self._robot.popup = ''
        return Answer(True, 'closing safety popup')

    def restart_safety(self) -> Answer:
        """Restart the safety system, which leaves the arm switched off."""
        self._robot.power_off()
        return Answer(True, 'Restarting safety')

    def popup(self, message: str) -> Answer:
        """Show a message on the pendant."""
        self._robot.popup = message
        return Answer(True, 'showing popup')

    def add_to_log(self, message: str) -> Answer:
        """Add a line to the robot's log."""
        self.log = [*self.log[-99:], message]
        return Answer(True, 'Added log message')

    def robotmode(self) -> Answer:
        """Return the robot mode."""
        return Answer(True, f'Robotmode: {self._robot.mode.name}')

    def safetymode(self) -> Answer:
        """Return the safety mode."""
        return Answer(True, f'Safetymode: {self._robot.safety.name}')

    def running(self) -> Answer:
        """Return whether a program is running."""
        return Answer(True, f'Program running: {str(self._robot.program_running).lower()}')

    def program_state(self) -> Answer:
        """Return the program's state and name."""
        return Answer(True, f'{self._robot.program.value} {PROGRAM}')

    def get_loaded_program(self) -> Answer:
        """Return which program is loaded."""
        return Answer(True, f'Loaded program: /programs/{PROGRAM}')

    def load_program(self, name: str) -> Answer:
        """Load a program; only External Control exists."""
        if name.rsplit('/', 1)[-1] == PROGRAM:
            return Answer(True, f'Loading program: /programs/{PROGRAM}')
        return Answer(False, f'File not found: {name}')

    def polyscope_version(self) -> Answer:
        """Return the software version."""
        return Answer(True, f'URSoftware {".".join(map(str, self.version))}')

    def get_robot_model(self) -> Answer:
        """Return the model, which is the same for both series."""
        return Answer(True, self._ur_type.upper().removesuffix('E'))

    def resume(self) -> Answer:
        """Continue a paused program, on PolyScope X."""
        if self._polyscope != 'X':
            return self._lacking('resume', 'play')
        return _answer(self._robot.play(), 'Resuming program', 'resume')

    def is_in_remote_control(self) -> Answer:
        """Return that the robot is in remote control, which a CB3 robot does not have."""
        return self._lacking('remote control') if self._polyscope == '3' else Answer(True, 'true')

    def clear_operational_mode(self) -> Answer:
        """Let the operational mode be chosen on the pendant again."""
        if self._polyscope == '3':
            return self._lacking('operational mode')
        return Answer(True, 'No longer controlling the operational mode')

    def get_user_role(self) -> Answer:
        """Return the role of the user, which only a CB3 robot has."""
        if self._polyscope != '3':
            return self._lacking('user role')
        return Answer(True, self.user_role)

    def set_user_role(self, role: str) -> Answer:
        """Set the role of the user."""
        if self._polyscope != '3':
            return self._lacking('user role')
        if role not in _ROLES:
            return Answer(False, f'Failed setting user role: {role}')
        self.user_role = role
        return Answer(True, f'Setting user role: {role}')

    def _lacking(self, what: str, instead: str = '') -> Answer:
        other = f'; use {instead}' if instead else ''
        return Answer(False, f'PolyScope {self._polyscope} has no {what}{other}')

    def raw_request(self, query: str) -> str:
        """Return the reply to a line of the server's socket protocol."""
        line = query.strip()
        for word, command in self._with_argument().items():
            if line.startswith(f'{word} '):
                return command(line[len(word) + 1 :]).text
        plain = self._plain().get(line.lower())
        return plain().text if plain else f"could not understand: '{line}'"

    def _plain(self) -> dict[str, Callable[[], Answer]]:
        return {
            'power on': self.power_on,
            'power off': self.power_off,
            'brake release': self.brake_release,
            'play': self.play,
            'pause': self.pause,
            'stop': self.stop,
            'unlock protective stop': self.unlock_protective_stop,
            'close popup': self.close_popup,
            'close safety popup': self.close_safety_popup,
            'restart safety': self.restart_safety,
            'robotmode': self.robotmode,
            'safetymode': self.safetymode,
            'running': self.running,
            'programstate': self.program_state,
            'get loaded program': self.get_loaded_program,
            'polyscopeversion': self.polyscope_version,
            'get robot model': self.get_robot_model,
        }

    def _with_argument(self) -> dict[str, Callable[[str], Answer]]:
        return {'load': self.load_program, 'popup': self.popup, 'addToLog': self.add_to_log}


def _answer(done: bool, text: str, command: str) -> Answer:
    return Answer(done, text if done else f'Failed to execute: {command}')
