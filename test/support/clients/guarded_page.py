# SPDX-License-Identifier: Apache-2.0
"""A page behind the cockpit's guard, and browsers that send it messages of their own."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import viser
from msgspec import msgpack
from websockets.sync.client import connect

from ur5_pick_place.cockpit.guard import Guard, listen, new_token, open_server
from ur5_pick_place.cockpit.places import PlaceHandle

HANDLE = {'name': '/places/target', 'owner': ''}
DRAG = {**HANDLE, 'wxyz': [1.0, 0.0, 0.0, 0.0], 'position': [0.4, 0.2, 0.1]}
CAMERA = {
    'wxyz': [1.0, 0.0, 0.0, 0.0], 'position': [1.0, 1.0, 1.0], 'fov': 1.0, 'near': 0.01,
    'far': 1000.0, 'image_height': 900, 'image_width': 1440, 'look_at': [0.0, 0.0, 0.0],
    'up_direction': [0.0, 0.0, 1.0],
}


def packed(kind: str, **fields: object) -> bytes:
    return msgpack.encode({'type': kind, **fields})


@pytest.fixture(scope='module')
def page() -> Iterator[SimpleNamespace]:
    """A page with a button and a place, and what arrived from them."""
    listener = listen('127.0.0.1', 0)
    guard = Guard(new_token(), '127.0.0.1', listener.getsockname()[1])
    warnings: list[str] = []
    server = open_server(listener, guard, warnings.append)
    page = SimpleNamespace(
        server=server, guard=guard, warnings=warnings, poses=[], clicked=threading.Event(),
        host=f'127.0.0.1:{guard.port}',
    )
    page.button = server.gui.add_button('Stop')
    page.button.on_click(lambda _event: page.clicked.set())
    page.place = PlaceHandle(
        server, 'target', 0, (0.04,) * 3, lambda _name, T: page.poses.append(T), lambda *_: None
    )
    yield page
    server.stop()


def browser(page: SimpleNamespace, path: str | None = None, **headers: str):
    path = f'/?token={page.guard.token}' if path is None else path
    return connect(
        f'ws://{page.host}{path}',
        origin=headers.pop('Origin', f'http://{page.host}'),
        additional_headers=headers,
        subprotocols=[f'viser-v{viser.__version__}'],
        max_size=None,
        proxy=None,
    )


def click_arrives(page: SimpleNamespace, socket) -> bool:
    page.clicked.clear()
    socket.send(packed('ViewerCameraMessage', **CAMERA))
    button = page.button._impl.uuid
    socket.send(packed('GuiUpdateMessage', uuid=button, updates={'value': True}))
    return page.clicked.wait(5.0)
