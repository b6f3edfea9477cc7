# SPDX-License-Identifier: Apache-2.0
"""RTDE, port 30004, protocol versions 1 and 2."""

import struct
from collections.abc import Callable

from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.fields import INPUTS, InputRecipe, Output, Recipe, output_of
from ur5_pick_place.sim.controller.network import Client, Port
from ur5_pick_place.sim.controller.sample import Sample

PORT = 30004
_TEXT, _DATA = ord('M'), ord('U')
_MOST_RECIPES = 255
_MOST_FAULTS = 20  # of a connection
_WARNING = 2


class _Session:
    def __init__(self) -> None:
        self.version = 1
        self.outputs: list[Output] = []
        self.recipe: Recipe | None = None
        self.decimation = 1
        self.is_sending = False
        self.faults = 0  # packets that were no request
        self.inputs: dict[int, InputRecipe] = {}


class RtdeServer:
    def __init__(self, controller: Controller, offset: int) -> None:
        self._controller = controller
        self._sessions: dict[Client, _Session] = {}
        self.port = Port(PORT + offset, self._received, self._greet, self._forget, most=1 << 17)
        self._handlers: dict[int, Callable[[Client, _Session, bytes], bytes | None]] = {
            ord('V'): self._agree_version,
            ord('v'): self._controller_version,
            ord('O'): self._set_up_outputs,
            ord('I'): self._set_up_inputs,
            ord('S'): self._start,
            ord('P'): self._pause,
            _DATA: self._data,
            _TEXT: lambda client, session, payload: None,
        }

    def publish(self, sample: Sample) -> None:
        """Send the outputs of a cycle to who has started them."""
        for client, session in self._sessions.items():
            due = self._controller.cycles % session.decimation == 0
            if session.is_sending and session.recipe and due:
                data = session.recipe.pack(session.outputs, sample)
                head = b'\x01' if session.version == 2 else b''
                client.send(_packet(_DATA, head + data), is_stream=True)

    def _greet(self, client: Client) -> None:
        self._sessions[client] = _Session()

    def _forget(self, client: Client) -> None:
        del self._sessions[client]

    def _received(self, client: Client) -> bool:
        inbox, session = client.inbox, self._sessions[client]
        if len(inbox) < 3:
            return False
        size, kind = struct.unpack_from('>HB', inbox)
        if size < 3:
            client.end()
            return False
        if len(inbox) < size:
            return False
        payload = bytes(inbox[3:size])
        del inbox[:size]
        handler = self._handlers.get(kind)
        if handler is None:
            self._tell(client, session, f'type {kind} is no request of RTDE')
            return True
        try:
            answer = handler(client, session, payload)
        except (struct.error, ValueError) as error:
            self._tell(client, session, f'type {chr(kind)}: {error}')
            return True
        if answer is not None:
            client.send(_packet(kind, answer))
        return True

    def _tell(self, client: Client, session: _Session, text: str) -> None:
        session.faults += 1
        if session.faults > _MOST_FAULTS:
            client.end()
            return
        data, level = text.encode()[:255], bytes([_WARNING])
        in_2 = bytes([len(data)]) + data + b'\x04RTDE' + level
        client.send(_packet(_TEXT, level + data if session.version == 1 else in_2))

    def _agree_version(self, client: Client, session: _Session, payload: bytes) -> bytes:
        (wanted,) = struct.unpack('>H', payload)
        if wanted in (1, 2):
            session.version = wanted
        return bytes([wanted in (1, 2)])

    def _controller_version(self, client: Client, session: _Session, payload: bytes) -> bytes:
        return struct.pack('>IIII', *self._controller.personality.version)

    def _set_up_outputs(self, client: Client, session: _Session, payload: bytes) -> bytes:
        fastest = round(1.0 / self._controller.step_time)
        frequency = float(fastest)
        if session.version == 2:
            (frequency,) = struct.unpack_from('>d', payload)
            payload = payload[8:]
        names = _names(payload)
        found = [output_of(name, self._controller.personality.is_cb3) for name in names]
        kinds = [output.kind if output else 'NOT_FOUND' for output in found]
        outputs = [output for output in found if output]
        is_valid = bool(names) and len(outputs) == len(found) and 0.0 < frequency <= fastest
        session.recipe = Recipe(kinds) if is_valid else None
        session.outputs, session.is_sending = outputs, False
        if is_valid:
            session.decimation = max(1, int(fastest / frequency))
        return bytes([is_valid])[: session.version - 1] + ','.join(kinds).encode()

    def _set_up_inputs(self, client: Client, session: _Session, payload: bytes) -> bytes:
        others = [s for s in self._sessions.values() if s is not session]
        taken = {name for s in others for recipe in s.inputs.values() for name in recipe.names}
        names = _names(payload)
        kinds = ['IN_USE' if name in taken else INPUTS.get(name, 'NOT_FOUND') for name in names]
        number = len(session.inputs) + 1
        is_valid = bool(names) and not {'IN_USE', 'NOT_FOUND'} & set(kinds)
        if not is_valid or number > _MOST_RECIPES:
            return b'\x00' + ','.join(kinds).encode()
        session.inputs[number] = InputRecipe(self._controller, names, kinds)
        return bytes([number]) + ','.join(kinds).encode()

    def _start(self, client: Client, session: _Session, payload: bytes) -> bytes:
        session.is_sending = session.recipe is not None
        return bytes([session.is_sending])

    def _pause(self, client: Client, session: _Session, payload: bytes) -> bytes:
        session.is_sending = False
        return b'\x01'

    def _data(self, client: Client, session: _Session, payload: bytes) -> None:
        found = session.inputs.get(payload[0]) if payload else None
        if found is None or len(payload) != found.size + 1:
            number = payload[0] if payload else 0
            self._tell(client, session, f'input recipe {number} is unknown or of another size')
            return
        found.write(payload[1:])


def _names(payload: bytes) -> list[str]:
    names = payload.decode('latin-1').split(',')
    return names[:-1] if names[-1] == '' else names


def _packet(kind: int, payload: bytes) -> bytes:
    return struct.pack('>HB', len(payload) + 3, kind) + payload
