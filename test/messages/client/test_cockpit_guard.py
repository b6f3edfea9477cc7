# SPDX-License-Identifier: Apache-2.0
"""Who may open the cockpit's page, and which messages of a browser it takes."""

import contextlib
import json
import random
import socket
from http.client import HTTPConnection
from types import SimpleNamespace

import pytest
from guarded_page import CAMERA, DRAG, HANDLE, browser, click_arrives, packed
from msgspec import msgpack
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ur5_pick_place.cockpit.guard import listen
from ur5_pick_place.cockpit.messages import LARGEST, problem_of
from ur5_pick_place.errors import InvalidInput


def get(page: SimpleNamespace, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    http = HTTPConnection(*page.host.split(':'), timeout=10)
    with contextlib.closing(http):
        http.request('GET', path, headers=headers)
        reply = http.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()


def test_the_address_with_its_token_opens_the_page_and_a_cookie_keeps_it_open(page) -> None:
    status, headers, body = get(page, f'/?token={page.guard.token}')
    assert status == 200
    assert b'<html' in body[:200].lower() or headers['Content-Encoding'] == 'gzip'
    cookie = headers['Set-Cookie']
    assert 'HttpOnly' in cookie
    assert 'SameSite=Strict' in cookie
    assert get(page, '/', Cookie=cookie.partition(';')[0])[0] == 200
    with browser(page, '/', Cookie=cookie.partition(';')[0]) as socket:
        assert click_arrives(page, socket)


@pytest.mark.parametrize('others', ['prefs={"a":1}; {}', 'a b=[1]; x="; {}', '{}; prefs={"a":1}'])
def test_a_malformed_cookie_of_another_program_on_this_host_shuts_nobody_out(page, others) -> None:
    ours = f'{page.guard.cookie}={page.guard.token}'
    assert get(page, '/', Cookie=others.replace('{}', ours))[0] == 200
    assert get(page, '/', Cookie=others.replace('{}', ours[:-1]))[0] == 403


@pytest.mark.parametrize('path', ['/', '/?token=', '/?token=x', '/index.html', '/?token[=1'])
def test_nobody_without_the_token_gets_the_page_or_a_socket(page, path) -> None:
    assert get(page, path)[0] == 403
    with pytest.raises(InvalidStatus, match='403'), browser(page, path):
        pass


@pytest.mark.parametrize(
    'origin', ['http://evil.example', 'null', 'http://127.0.0.1', 'http://localhost:1']
)
def test_a_page_of_another_origin_gets_no_socket_even_with_the_token(page, origin) -> None:
    with pytest.raises(InvalidStatus, match='403'), browser(page, Origin=origin):
        pass
    assert get(page, f'/?token={page.guard.token}', Origin=origin)[0] == 403


def test_a_domain_that_points_to_this_machine_is_refused(page) -> None:
    host = f'evil.example:{page.guard.port}'
    status, _, body = get(page, f'/?token={page.guard.token}', Host=host)
    assert (status, b'another host' in body) == (403, True)


def test_the_page_may_load_and_send_nothing_elsewhere(page) -> None:
    policy = get(page, f'/?token={page.guard.token}')[1]['Content-Security-Policy']
    words = policy.replace(';', ' ').split()
    assert "frame-ancestors 'none'" in policy
    assert [word for word in words if '://' in word] == [f'ws://{page.host}']
    assert '*' not in policy


def test_the_page_is_never_shared_outward(page, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr('viser._viser.ViserTunnel', lambda *a, **k: asked.append(a))
    with browser(page) as socket:
        socket.send(packed('ShareUrlRequest'))
        assert click_arrives(page, socket)
    with pytest.raises(InvalidInput, match='no public share address'):
        page.server.request_share_url()
    assert not asked


def test_a_taken_port_is_named(page) -> None:
    with pytest.raises(InvalidInput, match=f'port {page.guard.port} on 127.0.0.1'):
        listen('127.0.0.1', page.guard.port)


def test_what_the_page_itself_sends_is_let_in() -> None:
    assert not problem_of(packed('ViewerCameraMessage', **CAMERA))
    assert not problem_of(packed('TransformControlsUpdateMessage', **DRAG))
    assert not problem_of(packed('TransformControlsDragEndMessage', **HANDLE))
    assert not problem_of(packed('GuiUpdateMessage', uuid='a', updates={'value': 0.5}))
    assert not problem_of(packed('GuiButtonHoldMessage', uuid='a', frequency=30.0))


@pytest.mark.parametrize(
    'data',
    [
        'text',
        b'',
        b'\xff' * 40,
        b'\x91' * 8000,
        bytes(LARGEST + 1),
        packed('ShareUrlRequest'),
        packed('Share\nforged'),
        packed('RunJavascriptMessage', source='alert(1)'),
        packed('FileTransferPart', name='x'),
        packed('GuiUpdateMessage', uuid='a', updates={'update_cb': 1}),
        packed('GuiUpdateMessage', uuid='a', updates={'value': True, 'disabled': False}),
        packed('GuiUpdateMessage', uuid='a', updates={'value': float('nan')}),
        packed('GuiUpdateMessage', uuid='a', updates={'value': 'x' * 1000}),
        packed('TransformControlsUpdateMessage', **{**DRAG, 'position': [float('nan'), 0, 0]}),
        packed('TransformControlsUpdateMessage', **{**DRAG, 'position': [1e9, 0.0, 0.0]}),
        packed('TransformControlsUpdateMessage', **{**DRAG, 'wxyz': [0.0, 0.0, 0.0, 0.0]}),
        packed('TransformControlsUpdateMessage', **{**DRAG, 'wxyz': [1.0, 0.0, 0.0]}),
        packed('TransformControlsUpdateMessage', **HANDLE),
        packed('TransformControlsDragEndMessage', **HANDLE, more=1),
        msgpack.encode([1, 2]),
        msgpack.encode({'type': ['a']}),
        json.dumps({'type': 'ShareUrlRequest'}).encode(),
    ],
)
def test_anything_else_is_not(data) -> None:
    assert problem_of(data).isprintable() and problem_of(data)


def test_random_bytes_and_random_fields_are_judged_and_never_raise() -> None:
    draw = random.Random(3)
    values = [None, True, -1, 2**63, 1e308, float('inf'), '', 'x', b'x', [], [[]], {}, {'a': 1}]
    for _ in range(3000):
        assert problem_of(draw.randbytes(draw.randrange(60)))
        fields = {key: draw.choice(values) for key in (*DRAG, 'uuid', 'updates')}
        assert problem_of(packed('TransformControlsUpdateMessage', **fields))


def test_a_browser_that_sends_rubbish_is_cut_off_and_the_others_go_on(page) -> None:
    draw = random.Random(5)
    with browser(page) as good, browser(page) as bad:
        with pytest.raises(ConnectionClosed):
            for _ in range(200):
                bad.send(draw.choice([draw.randbytes(50), 'text', packed('Nonsense')]))
            while True:
                bad.recv(timeout=5)
        assert click_arrives(page, good)
    assert any('was ignored' in text for text in page.warnings)


def test_only_values_that_a_control_offers_are_entered_in_it(page) -> None:
    gui = page.server.gui
    frame = gui.add_dropdown('Frame', ('base_link', 'tcp'))
    speed = gui.add_slider('Speed', min=0.05, max=1.0, step=0.05, initial_value=0.5)
    ghosts = gui.add_checkbox('Ghosts', initial_value=True)
    page.warnings.clear()
    for control, bad in (
        (frame, ('wrist_1_link', 7, True)),
        (speed, ('nan', 'abc', 7.0, -0.1, True)),
        (ghosts, ('', 0, 'false')),
    ):
        before = control.value
        with browser(page) as socket:
            for value in bad:
                uuid = control._impl.uuid
                socket.send(packed('GuiUpdateMessage', uuid=uuid, updates={'value': value}))
            assert click_arrives(page, socket)
        assert control.value == before
    assert sum('entered: must be' in text for text in page.warnings) == 11
    with browser(page) as socket:
        for control, value in ((frame, 'tcp'), (speed, 1)):
            uuid = control._impl.uuid
            socket.send(packed('GuiUpdateMessage', uuid=uuid, updates={'value': value}))
        assert click_arrives(page, socket)
    assert (frame.value, speed.value) == ('tcp', 1.0)


def test_a_huge_message_ends_its_connection_alone(page) -> None:
    with browser(page) as good, browser(page) as bad:
        with pytest.raises(ConnectionClosed):
            bad.send(bytes(20_000_000))
            while True:
                bad.recv(timeout=5)
        assert click_arrives(page, good)


def test_a_port_scan_does_no_harm(page) -> None:
    for data in (b'', b'\x16\x03\x01', b'GET', b'GET / HTTP/1.1\r\n\r\n', b'\r\n' * 50):
        with socket.create_connection(('127.0.0.1', page.guard.port), timeout=5) as raw:
            raw.sendall(data)
    with browser(page) as good:
        assert click_arrives(page, good)
