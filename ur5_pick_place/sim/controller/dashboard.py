# SPDX-License-Identifier: Apache-2.0
"""The dashboard server, port 29999: one line for each line of a client."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.network import Client, Port, answer_lines
from ur5_pick_place.sim.dashboard import ACTIONS, ROLES, UNLOCK_ADVICE
from ur5_pick_place.sim.robot import Program
from ur5_pick_place.sim.urp import script_of, with_external_control

PORT = 29999
_BANNER = 'Connected: Universal Robots Dashboard Server'
_MOST_LINE = 4096  # [bytes]
_MODES = ('MANUAL', 'AUTOMATIC')

_log = logging.getLogger(__name__)

_UNKNOWN = 'resume', 'connect', 'clear_operational_mode'  # which the driver has
# What the controller does at a command; the driver's services have the same answers.
_ACTIONS: dict[str, Callable[[Controller], bool]] = {
    **{n.replace('_', ' '): act for n, (act, _) in ACTIONS.items() if n not in _UNKNOWN},
    'unlock protective stop': lambda c: c.robot.unlock(),
    'restart safety': Controller.restart_safety,
}
_LOCAL_TOO = {'close popup', 'shutdown', 'quit'}
_NOT_IN_LOCAL = (
    'Command is not allowed due to safety reasons, please switch robot to Remote Control mode and '
    f'reconnect to port {PORT}'
)
_CB3_ALONE = ('setuserrole', 'getuserrole')
_E_SERIES_ALONE = 'is in remote', 'set operational', 'get operational', 'clear operational'


class DashboardServer:
    """
    Serves the dashboard for a controller; `offset` is added to the number of the port.

    `programs`: folder of what `load X.urp` loads: X.urp or, without that, X.script.
    """

    def __init__(
        self, controller: Controller, offset: int, programs: Path | None
    ) -> None:
        self._controller, self._programs = controller, programs
        self._role, self._mode = 'PROGRAMMER', 'NONE'
        self._pc = '127.0.0.1'  # who has connected last: it sends programs for External Control
        received = answer_lines(self.answer, 'quit')
        self.port = Port(PORT + offset, received, self._greet, most=_MOST_LINE)
        # By the first words of a command; an argument follows.
        self._takers: dict[str, Callable[[str], str]] = {
            'load installation': self._load_installation,
            'load': self._load,
            'popup': self._popup,
            'addtolog': lambda s: 'Added log message' if s else 'No log message to add',
            'setuserrole': self._set_role,
            'set operational mode': self._set_mode,
            'clear operational mode': self._clear_mode,
            'generate flight report': lambda kind: 'Flight Report generated with id: 1',
            'generate support file': lambda path: f'Completed successfully: {path or "."}/1.zip',
        }

    def _greet(self, client: Client) -> None:
        self._pc = client.host
        client.send(f'{_BANNER}\n'.encode())

    def answer(self, line: str) -> str:
        command = ' '.join(line.lower().split())
        unknown = f"could not understand: '{line}'"
        lacking = _E_SERIES_ALONE if self._controller.personality.is_cb3 else _CB3_ALONE
        if command.startswith(lacking):
            return unknown
        if command in _ACTIONS:
            return self._act(command)
        if (reply := self._replies().get(command)) is not None:
            return reply
        for words, take in self._takers.items():
            if command == words or command.startswith(f'{words} '):
                if words.startswith('load') and not self._controller.is_remote:
                    return _NOT_IN_LOCAL
                return take(line[len(words) :].strip())
        return unknown

    def _act(self, command: str) -> str:
        c = self._controller
        if not c.is_remote and command not in _LOCAL_TOO:
            return _NOT_IN_LOCAL
        if _ACTIONS[command](c):
            return ACTIONS[command.replace(' ', '_')][1]
        return UNLOCK_ADVICE if command.startswith('unlock') else f'Failed to execute: {command}'

    def _replies(self) -> dict[str, str]:
        c = self._controller
        name = c.loaded[0] if c.loaded else ''
        state = 'STOPPED' if c.program is None else c.robot.program.name
        runs = c.robot.program is Program.PLAYING
        version = '.'.join(map(str, c.personality.version))
        return {
            'robotmode': f'Robotmode: {c.robot.mode.name}',
            'safetymode': f'Safetymode: {c.safety.name}',
            'safetystatus': f'Safetystatus: {c.safety.name}',
            'running': f'Program running: {str(runs).lower()}',
            'programstate': f'{state} {name or "<unnamed>"}',
            'get loaded program': (
                f'Loaded program: /programs/{name}' if name else 'No program loaded'
            ),
            'isprogramsaved': f'true {name}' if name else 'false <unnamed>',
            'polyscopeversion': f'URSoftware {version} ({c.personality.date})',
            'version': version,
            'get robot model': c.personality.ur_type.upper().removesuffix('E'),
            'get serial number': f'20{c.personality.type_code:02d}300000',
            'is in remote control': str(c.is_remote).lower(),
            'getuserrole': self._role,
            'get operational mode': self._mode,
            'savelog': 'Log saved to disk',
        }

    def _load(self, name: str) -> str:
        """Load a program; of its path only the last part counts."""
        c, stem = self._controller, PurePosixPath(name).stem
        files = [self._programs / f'{stem}{end}' for end in ('.urp', '.script') if self._programs]
        file = next((file for file in files if name and file.is_file()), None)
        if file is None:
            return f'File not found: {name}'
        try:
            data = file.read_bytes()
            text = script_of(data, stem) if file.suffix == '.urp' else data.decode()
        except (OSError, ValueError, InvalidInput) as error:
            _log.warning('%s: %s', file, error)
            return f'Error while loading program: {name}'
        c.stop()
        c.loaded = PurePosixPath(name).name, partial(with_external_control, text, self._pc)
        return f'Loading program: {name}'

    def _load_installation(self, name: str) -> str:
        if name.rsplit('/', 1)[-1] == 'default.installation':
            return f'Loading installation: {name}'
        return f'File not found: {name}'

    def _popup(self, text: str) -> str:
        self._controller.popup(text, '', 'message')
        return 'showing popup'

    def _set_role(self, role: str) -> str:
        if role not in ROLES:
            return f'Failed setting user role: {role}'
        self._role = role
        return f'Setting user role: {role}'

    def _set_mode(self, mode: str) -> str:
        if mode.upper() not in _MODES:
            return f'Failed setting operational mode: {mode}'
        self._mode = mode.upper()
        return f'Operational mode {self._mode} is set'

    def _clear_mode(self, _: str) -> str:
        self._mode = 'NONE'
        return "No longer controlling the operational mode. Current operational mode: 'NONE'."
