# SPDX-License-Identifier: Apache-2.0
"""The dashboard server of a robot with PolyScope 3 (CB3), 5 (e-Series) or X."""

from collections.abc import Callable
from operator import methodcaller
from typing import Any, NamedTuple

from ur5_pick_place.sim.robot import Robot

PROGRAM = 'external_control.urp'
VERSIONS = {'3': (3, 15, 8), '5': (5, 22, 0), 'X': (10, 8, 0)}
"""Of the software, by PolyScope."""

ROLES = ('PROGRAMMER', 'OPERATOR', 'NONE', 'LOCKED', 'RESTRICTED')

UNLOCK_ADVICE = (
    'Cannot unlock protective stop until 5s after occurrence. Always inspect cause of protective '
    'stop before unlocking'
)

ACTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    'power_on': (methodcaller('power_on'), 'Powering on'),
    'power_off': (methodcaller('power_off'), 'Powering off'),
    'shutdown': (methodcaller('power_off'), 'Shutting down'),
    'brake_release': (methodcaller('release_brakes'), 'Brake releasing'),
    'play': (methodcaller('play'), 'Starting program'),
    'resume': (methodcaller('play'), 'Resuming program'),
    'pause': (methodcaller('pause'), 'Pausing program'),
    'stop': (methodcaller('stop'), 'Stopped'),
    'unlock_protective_stop': (methodcaller('unlock'), 'Protective stop releasing'),
    'close_popup': (methodcaller('close_popup'), 'closing popup'),
    'close_safety_popup': (methodcaller('close_popup'), 'closing safety popup'),
    'restart_safety': (methodcaller('power_off'), 'Restarting safety'),
    'clear_operational_mode': (
        lambda robot: True, 'No longer controlling the operational mode'
    ),
    'connect': (lambda robot: True, 'Connected: Universal Robots Dashboard Server'),
    'quit': (lambda robot: True, 'Disconnected'),
}
"""Commands without arguments, as the driver's services: what the robot does, and its reply."""

_LACKING = {
    '3': {'resume': '; use play', 'clear_operational_mode': '', 'remote_control': ''},
    '5': {'resume': '; use play', 'user_role': ''},
    'X': {'user_role': ''},
}
"""What a PolyScope does not have, and what to use instead."""


class Answer(NamedTuple):
    """Whether a command succeeded, and the reply of the server."""

    success: bool
    text: str


class Dashboard:
    """
    The commands of one robot; one that its PolyScope does not have is refused with the reason.

    `polyscope`: a key of `VERSIONS`.
    """

    def __init__(self, robot: Robot, ur_type: str = 'ur5', polyscope: str = '3') -> None:
        self._robot, self._polyscope = robot, polyscope
        self.version = VERSIONS[polyscope]
        self.model = ur_type.upper().removesuffix('E')  # the same for both series
        self.user_role = 'NONE'

    def act(self, name: str) -> Answer:
        """Do one of `ACTIONS`."""
        lacking = self.lacking(name)
        if lacking:
            return lacking
        action, text = ACTIONS[name]
        if action(self._robot):
            return Answer(True, text)
        failed = f'Failed to execute: {name.replace("_", " ")}'
        return Answer(False, UNLOCK_ADVICE if name == 'unlock_protective_stop' else failed)

    def lacking(self, what: str) -> Answer | None:
        """Return the refusal of what its PolyScope does not have, else None."""
        instead = _LACKING[self._polyscope].get(what)
        if instead is None:
            return None
        name = what.replace('_', ' ')
        return Answer(False, f'PolyScope {self._polyscope} has no {name}{instead}')

    def state(self) -> dict[str, str]:
        """Return the replies to what only asks, by the words of the server's protocol."""
        robot = self._robot
        return {
            'robotmode': f'Robotmode: {robot.mode.name}',
            'safetymode': f'Safetymode: {robot.safety.name}',
            'running': f'Program running: {str(robot.program_running).lower()}',
            'programstate': f'{robot.program.value} {PROGRAM}',
            'get loaded program': f'Loaded program: /programs/{PROGRAM}',
            'issaved': f'true {PROGRAM}',
            'polyscopeversion': f'URSoftware {".".join(map(str, self.version))}',
            'get robot model': self.model,
            'get serial number': '0',
        }

    def show_popup(self, message: str) -> Answer:
        self._robot.popup = message
        return Answer(True, 'showing popup')

    def load(self, file: str) -> Answer:
        """Load a program; only External Control exists."""
        if file.rsplit('/', 1)[-1] == PROGRAM:
            return Answer(True, f'Loading program: /programs/{PROGRAM}')
        return Answer(False, f'File not found: {file}')

    def set_user_role(self, role: str) -> Answer:
        lacking = self.lacking('user_role')
        if lacking or role not in ROLES:
            return lacking or Answer(False, f'Failed setting user role: {role}')
        self.user_role = role
        return Answer(True, f'Setting user role: {role}')

    def raw_request(self, query: str) -> str:
        """Return the reply to a line of the server's socket protocol."""
        line = query.strip()
        word, _, argument = line.partition(' ')
        takers = {'load': self.load, 'popup': self.show_popup, 'addToLog': add_to_log}
        if argument and word in takers:
            return takers[word](argument).text
        name = line.lower().replace(' ', '_')
        if name in ACTIONS:
            return self.act(name).text
        return self.state().get(line.lower(), f"could not understand: '{line}'")


def add_to_log(message: str) -> Answer:
    """Add a line to the robot's log, which nothing shows."""
    return Answer(True, 'Added log message')
