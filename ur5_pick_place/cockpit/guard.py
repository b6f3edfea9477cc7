# SPDX-License-Identifier: Apache-2.0
"""
Who may open the page and its WebSocket: those with the token, but no page of another origin.

viser serves everybody, and checks neither the origin of a WebSocket nor what arrives on it. Here
are the checks, and `open_server`, which puts them before viser's own server.
"""

import hmac
import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from http import HTTPStatus
from io import StringIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import viser
import websockets.asyncio.server as web
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from ur5_pick_place.cockpit.messages import LARGEST, problem_of
from ur5_pick_place.errors import InvalidInput

_ROUNDING = 1e-6  # of a slider's value in a browser
_MOST_BAD = 20  # bad messages before a connection is closed
_POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; "
    "style-src 'self' 'unsafe-inline'; worker-src 'self' blob: data:; frame-ancestors 'none'; "
    "connect-src 'self' data: blob: ws://{host}; base-uri 'none'; form-action 'none'"
)
_LOG = logging.getLogger(__name__)
_LOG.setLevel(logging.CRITICAL)  # a refused browser is no error of this node

Warn = Callable[[str], object]


@dataclass(frozen=True)
class Guard:
    """Decides on requests by their path and headers."""

    token: str
    host: str  # name or address on which the server listens
    port: int

    @property
    def cookie(self) -> str:
        """Name of the cookie, with the port: browsers send cookies to every port of a host."""
        return f'ur5_pick_place_cockpit_{self.port}'

    def refusal(self, path: str, headers: Headers) -> str:
        """Return why a request is refused; empty if it is let in."""
        hosts, origins = headers.get_all('Host'), headers.get_all('Origin')
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return (
                'Host header of another host or port: open the address that the cockpit has '
                f'printed; a tunnel needs the same port (ssh -L {self.port}:127.0.0.1:{self.port})'
            )
        if origins and [o.lower() for o in origins] != [f'http://{hosts[0]}'.lower()]:
            return 'a page of another origin: open the address that the cockpit has printed'
        if not (self.has_token(path) or self._has_cookie(headers)):
            return 'no valid token: open the whole address that the cockpit has printed'
        return ''

    def has_token(self, path: str) -> bool:
        """Return whether the path's query holds the token."""
        try:
            given = parse_qs(urlsplit(path).query).get('token', [])
        except ValueError:
            return False
        return len(given) == 1 and self._is_token(given[0])

    def _has_cookie(self, headers: Headers) -> bool:
        # Pair by pair: the cookies of other programs on this host may be malformed.
        pairs = (p.partition('=') for line in headers.get_all('Cookie') for p in line.split(';'))
        return any(
            name.strip() == self.cookie and self._is_token(value.strip())
            for name, _, value in pairs
        )

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors='replace'), self.token.encode())

    def _is_ours(self, host: str) -> bool:
        """Return whether a Host header names this server and not a domain that points to it."""
        try:
            parts = urlsplit(f'//{host}')
            name, port = parts.hostname or '', parts.port or 80
        except ValueError:
            return False
        if port != self.port:
            return False
        known = {'localhost', self.host.lower(), socket.gethostname().lower()}
        return name in known or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def listen(host: str, port: int) -> socket.socket:
    """
    Return a socket that listens on an address.

    Raises `InvalidInput`: the port is taken, or the host is not an address of this machine.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise InvalidInput(
            f'port {port} on {host} cannot be used: {error.strerror or error}; is another cockpit '
            'running? end it, or give another port'
        ) from error
    return listener


def open_server(listener: socket.socket, guard: Guard, warn: Warn) -> viser.ViserServer:
    """
    Return viser's server behind a guard.

    `listener`: see `listen`. `warn`: takes a line about what was refused.

    Raises `InvalidInput`: the installed viser does not start its server by
    `websockets.asyncio.server.serve`.
    """
    guarded: list[bool] = []
    serve = web.serve

    def value_problem(uuid: str, value: Any) -> str:
        return _value_problem(server.gui._gui_input_handle_from_uuid.get(uuid), value)

    def serve_guarded(handler: Any, _host: Any, _port: Any, **options: Any) -> Any:
        guarded.append(True)
        options |= {
            'process_request': _guarded(options['process_request'], guard, warn),
            'create_connection': _connection_type(warn, value_problem),
            'max_size': LARGEST,
            'logger': _LOG,
        }
        return serve(handler, sock=listener, **options)

    # viser looks the function up when it starts, chooses the port itself and offers no other way.
    with _replaced(serve_guarded), redirect_stdout(StringIO()):
        server = viser.ViserServer(host=guard.host, port=guard.port, verbose=False)
    if not guarded:
        server.stop()
        raise InvalidInput(
            f'viser {viser.__version__} is not supported: install viser 1.1.1 '
            '(pip install viser==1.1.1)'
        )
    server.request_share_url = _never_shared  # type: ignore[method-assign]
    return server


def _never_shared(verbose: bool = True) -> None:
    raise InvalidInput('the cockpit has no public share address')


@contextmanager
def _replaced(serve: Any) -> Iterator[None]:
    original = web.serve
    web.serve = serve  # type: ignore[misc]
    try:
        yield
    finally:
        web.serve = original  # type: ignore[misc]


def _guarded(answer: Any, guard: Guard, warn: Warn) -> Any:
    def process(connection: ServerConnection, request: Request) -> Response | None:
        if reason := guard.refusal(request.path, request.headers):
            warn(f'a browser was refused: {reason}')
            return connection.respond(HTTPStatus.FORBIDDEN, f'refused: {reason}\n')
        response: Response | None = answer(connection, request)
        if response is not None:
            headers = response.headers
            headers['Content-Security-Policy'] = _POLICY.format(host=request.headers['Host'])
            headers['Cache-Control'] = 'no-store'
            headers['Referrer-Policy'] = 'no-referrer'
            headers['X-Content-Type-Options'] = 'nosniff'
            if guard.has_token(request.path):
                headers['Set-Cookie'] = (
                    f'{guard.cookie}={guard.token}; Path=/; HttpOnly; SameSite=Strict'
                )
        return response

    return process


def _value_problem(control: Any, value: Any) -> str:
    """Return why a value may not be entered in a control of the page; empty if it may."""
    if isinstance(control, viser.GuiDropdownHandle):
        is_good, wanted = value in control.options, f'one of {", ".join(control.options)}'
    elif isinstance(control, viser.GuiSliderHandle):
        low, high = control.min - _ROUNDING, control.max + _ROUNDING
        is_good = type(value) in (int, float) and low <= value <= high
        wanted = f'{control.min:g} to {control.max:g}'
    else:  # a button, a checkbox, or what is no longer there
        is_good, wanted = isinstance(value, bool), 'true or false'
    return '' if is_good else f'{value!r} entered: must be {wanted}'


def _connection_type(
    warn: Warn, value_problem: Callable[[str, Any], str]
) -> type[ServerConnection]:
    """Return a connection on which viser receives only messages that were checked."""

    class Checked(ServerConnection):
        _bad = 0

        async def recv(self, decode: bool | None = None) -> Any:
            while True:
                data = await super().recv(decode)
                problem = problem_of(data, value_problem)
                if not problem:
                    return data
                self._bad += 1
                warn(f'a message of a browser was ignored: {problem}')
                if self._bad > _MOST_BAD:
                    self.transport.abort()  # a closing handshake would read on for 10 s

    return Checked
