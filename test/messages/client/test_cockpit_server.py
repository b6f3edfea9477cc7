# SPDX-License-Identifier: Apache-2.0
"""Who may open the cockpit's page, which messages of a browser it takes, and what they do."""

import contextlib
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from types import SimpleNamespace

import numpy as np
import pytest
import viser
from msgspec import msgpack
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from ur5_pick_place.cockpit.actions import CellState
from ur5_pick_place.cockpit.checks import PreflightTab, TouchTab
from ur5_pick_place.cockpit.guard import Guard, listen, new_token, open_server
from ur5_pick_place.cockpit.jog import RATE
from ur5_pick_place.cockpit.link import Offers
from ur5_pick_place.cockpit.messages import LARGEST, problem_of
from ur5_pick_place.cockpit.node import Cockpit
from ur5_pick_place.cockpit.panel import Panel
from ur5_pick_place.cockpit.places import PlaceHandle, PlaceHandles
from ur5_pick_place.cockpit.tabs import JogTab
from ur5_pick_place.cockpit.view import CellView
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import load_model
from ur5_pick_place.kinematics.transforms import tool_down
from ur5_pick_place.planning.scene.scene import Scene, Tool
from ur5_pick_place.task.preflight import Observed

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


def test_a_tunnel_from_another_port_is_told_that_it_needs_the_same(page) -> None:
    status, _, body = get(page, f'/?token={page.guard.token}', Host='127.0.0.1:1')
    port = str(page.guard.port).encode()
    assert (status, b'ssh -L ' + port + b':127.0.0.1:' + port in body) == (403, True)


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


RUBBISH = random.Random(5)
SPOILT = [
    RUBBISH.choice([RUBBISH.randbytes(50), 'text', packed('Nonsense')]) for _ in range(200)
]


@pytest.mark.parametrize('sent', [SPOILT, [bytes(20_000_000)]], ids=['rubbish', 'too much'])
def test_a_browser_that_sends_what_no_page_of_ours_does_is_cut_off_and_others_go_on(page, sent):
    with browser(page) as good, browser(page) as bad:
        with pytest.raises(ConnectionClosed):
            for data in sent:
                bad.send(data)
            while True:
                bad.recv(timeout=5)
        assert click_arrives(page, good)
    assert len(sent) == 1 or any('was ignored' in text for text in page.warnings)


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


def test_a_port_scan_does_no_harm(page) -> None:
    for data in (b'', b'\x16\x03\x01', b'GET', b'GET / HTTP/1.1\r\n\r\n', b'\r\n' * 50):
        with socket.create_connection(('127.0.0.1', page.guard.port), timeout=5) as raw:
            raw.sendall(data)
    with browser(page) as good:
        assert click_arrives(page, good)


def test_a_drag_arrives_as_the_pose_of_a_tool_that_looks_down(page) -> None:
    page.poses.clear()
    with browser(page) as one, browser(page) as other:
        assert click_arrives(page, one)  # after the camera, which every browser sends first
        for kind in ('Start', 'End'):
            if kind == 'End':
                one.send(packed('TransformControlsUpdateMessage', **DRAG))
            one.send(packed(f'TransformControlsDrag{kind}Message', **HANDLE))
        assert click_arrives(page, other)  # in order, so that the drag has arrived too
        assert click_arrives(page, one)
    (T,) = page.poses
    np.testing.assert_allclose(T[:3, 3], DRAG['position'])
    np.testing.assert_allclose(T[:3, :3], np.diag([1.0, -1.0, -1.0]), atol=1e-12)


def test_only_the_browser_that_drags_lets_go_and_its_death_teaches_nothing(page) -> None:
    page.poses.clear()
    with browser(page) as other:
        with browser(page) as one:
            one.send(packed('TransformControlsDragStartMessage', **HANDLE))
            one.send(packed('TransformControlsUpdateMessage', **DRAG))
            assert click_arrives(page, one)
            other.send(packed('TransformControlsDragEndMessage', **HANDLE))
            assert click_arrives(page, other)
            assert not page.poses and page.place.is_dragged
        deadline = time.monotonic() + 5.0
        while page.place.is_dragged:
            assert time.monotonic() < deadline, 'the drag of a dead browser did not end within 5 s'
            time.sleep(0.02)
        assert click_arrives(page, other)
    assert not page.poses


def test_a_pose_that_is_not_a_number_never_reaches_a_place(page) -> None:
    page.poses.clear()
    before = page.place.T_base_link_tcp
    with browser(page) as socket:
        assert click_arrives(page, socket)
        socket.send(packed('TransformControlsDragStartMessage', **HANDLE))
        bad = {**DRAG, 'position': [float('nan'), 0.0, 0.0]}
        socket.send(packed('TransformControlsUpdateMessage', **bad))
        socket.send(packed('TransformControlsDragEndMessage', **HANDLE))
        assert click_arrives(page, socket)
    np.testing.assert_allclose(page.poses[0], before)


def test_a_place_that_is_read_from_a_frame_follows_it_and_no_drag_moves_it(page) -> None:
    sent: list[str] = []
    size = (0.04,) * 3
    places = PlaceHandles(page.server, size, lambda name, _T: sent.append(name), lambda *_: None)
    places.offer(('start',), ())
    T = tool_down(0.4, 0.2, 0.0225, 0.5)
    places.all['start'].follow(T)
    np.testing.assert_allclose(places.all['start'].T_base_link_tcp, T, atol=1e-9)
    handle = {'name': '/places/start', 'owner': ''}
    with browser(page) as socket:
        for kind in ('Start', 'Update', 'End'):
            name = 'UpdateMessage' if kind == 'Update' else f'Drag{kind}Message'
            fields = {**DRAG, **handle} if kind == 'Update' else handle
            socket.send(packed(f'TransformControls{name}', **fields))
        assert click_arrives(page, socket)
    assert not sent
    np.testing.assert_allclose(places.all['start'].T_base_link_tcp, T, atol=1e-9)
    T = tool_down(0.4, -0.2, 0.0225, 0.0)  # Plan may update the frame without an event
    places.all['start'].follow(T)
    np.testing.assert_allclose(places.all['start'].T_base_link_tcp, T, atol=1e-9)


def test_the_handles_of_all_places_follow_their_frames_without_a_wait() -> None:
    """Under a flood of /tf a wait takes 0.1 s, in the thread that takes the joints."""
    followed: list[str] = []
    waited: list[bool] = []

    def T_base_frame(_frame: str, arm: object = None, waits: bool = True) -> np.ndarray:
        waited.append(waits)
        return np.eye(4)

    handles = {
        place: SimpleNamespace(follow=lambda _T, place=place: followed.append(place))
        for place in 'abc'
    }
    frames, places = SimpleNamespace(T_base_frame=T_base_frame), SimpleNamespace(all=handles)
    Cockpit._follow_frames(SimpleNamespace(_prefix='', _frames=frames, _places=places))
    assert waited == [False] * 3 and followed == list('abc')


def test_a_place_under_a_drag_or_awaiting_its_answer_does_not_follow_its_frame(page) -> None:
    page.poses.clear()
    T = tool_down(0.4, -0.2, 0.0225, 0.0)
    with browser(page) as socket:
        socket.send(packed('TransformControlsDragStartMessage', **HANDLE))
        socket.send(packed('TransformControlsUpdateMessage', **DRAG))
        for last in ((), (packed('TransformControlsDragEndMessage', **HANDLE),)):
            for data in last:
                socket.send(data)
            assert click_arrives(page, socket)
            page.place.follow(T)
            np.testing.assert_allclose(page.place.T_base_link_tcp[:3, 3], DRAG['position'])
    page.place.show_refusal('target not taught: the TCP is 126 mm below the table')
    assert page.place._label.text == 'target: refused: the TCP is 126\nmm below the table'
    page.place.follow(T)
    np.testing.assert_allclose(page.place.T_base_link_tcp, T, atol=1e-9)


def test_a_refusal_at_a_handle_goes_when_a_job_starts(page) -> None:
    places = PlaceHandles(page.server, (0.04,) * 3, lambda *_: None, lambda *_: None)
    places.offer(('start', 'target'), ('start', 'target'))
    places.all['start'].show_taught(np.eye(4))
    for name in ('start', 'target'):
        places.on_event({'event': 'refused', 'request': f'{name}_pose', 'reason': 'too far'})
        assert places.all[name]._label.text == f'{name}: refused: too far'
    places.on_event({'event': 'started', 'job': 'run'})
    assert places.all['start']._label.text == 'start'


def test_a_dropped_plan_and_the_path_of_an_ended_motion_are_not_drawn(page) -> None:
    model, scene = load_model('ur5e'), Scene(0.0, Tool(np.eye(4)))
    view = CellView(page.server, model, scene)
    for name in ('plan', 'path'):
        view.show_lines(name, [np.eye(3)], [np.eye(3)])
    view.show_arm(np.zeros(6))
    view.show_postures('plan/ghosts', [np.zeros(6), np.ones(6)])
    assert [len(g.batched_positions) for g in view._ghosts['plan/ghosts']] == [1] * 5, 'beside it'
    shown = {}
    for task in ('idle', 'planned', 'running: transfer', 'paused: grip', 'stopped: x', 'idle'):
        view.follow(CellState(task, 'ready'))
        shown[task] = view._plan.visible
        assert view._plan_ghosts.visible == (task == 'planned')
    assert [task for task, is_shown in shown.items() if is_shown] == [
        'planned', 'running: transfer', 'paused: grip'
    ]
    assert view._lines['path']  # published before the arm moves
    view.follow(CellState('busy: go_home', 'moving'))
    assert view._lines['path']
    view.follow(CellState('idle', 'ready'))
    assert not view._lines['path']
    assert view._lines['plan']


@pytest.fixture
def panel(page) -> Panel:
    link = SimpleNamespace(state=CellState('planned', 'ready'))
    return Panel(page.server, link, 'sim', {'target': 0.00021}.get)


def test_after_a_run_the_page_says_first_what_it_did(panel: Panel) -> None:
    def banner(state: str = 'planned') -> str:
        panel.show(CellState(state, 'ready'), Offers())
        return panel._banner.content

    names = ('started', 'grasp_missed', 'grasp_verified', 'placed', 'placed', 'done')
    for i, name in enumerate(names):
        panel.on_event({'event': name, 'time': 100.0 + 2.1 * i, 'job': 'run'})
    done = 'placed 2, missed 1, in 10.5 s'
    assert f'<b>{done}</b>' in banner() and 'Run again' in banner()
    assert f'<b>{done}</b>' in banner('idle'), 'a pattern that is full has no plan'
    assert '<b>STOPPED</b>' in banner('stopped: x') and done not in banner('stopped: x')
    assert f'run: {done}' in panel._log.content
    panel.on_event({'event': 'planned', 'time': 120.0})
    assert done not in banner() and 'The path is shown. Press Run.' in banner()


def test_of_a_run_that_was_stopped_the_page_says_what_it_did_until_then(panel: Panel) -> None:
    for name, t in (('started', 1.0), ('placed', 3.0), ('stopped', 4.0)):
        panel.on_event({'event': name, 'time': t, 'job': 'run'})
    assert 'run: placed 1, missed 0, in 3.0 s' in panel._log.content
    panel.on_event({'event': 'rearmed', 'time': 5.0})
    panel.show(CellState('idle', 'ready'), Offers())
    assert '<b>idle</b>' in panel._banner.content
    for name, t in (('started', 1.0), ('placed', 3.0), ('done', 4.0)):
        panel.on_event({'event': name, 'time': t, 'job': 'run', 'place': 'target'})
    assert 'run: placed 1, missed 0, in 3.0 s, 0.2 mm off' in panel._log.content


class RecordedJog:
    """Keeps what a jog would publish."""

    def __init__(self) -> None:
        self.twists: list[tuple] = []

    def twist(self, *what: object) -> None:
        self.twists.append(what)


def test_a_jog_lasts_exactly_as_long_as_a_browser_reports_a_held_button(page) -> None:
    jog = RecordedJog()
    tab = JogTab(page.server.gui, jog, is_real=True)
    tab.show('')
    held = packed('GuiButtonHoldMessage', uuid=tab._buttons[1]._impl.uuid, frequency=RATE)
    with browser(page) as socket:
        assert click_arrives(page, socket)
        for _ in range(10):
            socket.send(held)
            time.sleep(1 / RATE)
        assert click_arrives(page, socket)
        reported = len(jog.twists)
        time.sleep(0.3)
        assert len(jog.twists) == reported  # the browser is silent, so nothing is published
    assert 5 <= reported <= 10
    assert set(jog.twists) == {('base_link', 0, 1.0, 0.1)}  # a tenth of the speed


def test_touches_are_taken_judged_and_written_only_on_request(page, tmp_path) -> None:
    scene = tmp_path / 'scene.yaml'
    text = 'table_height: 0.0\ntool:\n  tcp: {position: [0.0, 0.0, 0.1]}\n'
    scene.write_text(text)
    at = iter([(0.3, 0.0), (0.5, 0.0), (0.4, 0.3), (0.4, -0.3)])
    where = lambda _link: tool_down(*next(at), -0.012, 0.0)  # noqa: E731
    tab = TouchTab(page.server.gui, where, str(scene))
    tab._choice.value = 'table'

    def press(name: str) -> str:
        (button,) = (b for b in page.server.gui._gui_input_handle_from_uuid.values()
                     if getattr(b, 'label', '') == name)
        before = tab._state.content
        with browser(page) as socket:
            assert click_arrives(page, socket)
            uuid = button._impl.uuid
            socket.send(packed('GuiUpdateMessage', uuid=uuid, updates={'value': True}))
            end = time.monotonic() + 5.0
            while tab._state.content == before and time.monotonic() < end:
                time.sleep(0.01)
        return tab._state.content

    assert '1 touch.' in press('Take touch')
    assert '2 touches' in press('Take touch')
    assert 'at least 3' in press('Write to scene file')
    assert 'table at -0.0120 m' in press('Take touch')
    assert 'good' in press('Take touch')
    assert scene.read_text() == text
    assert f'written to {scene}' in press('Write to scene file')
    assert 'table_height: -0.012' in scene.read_text()


def test_preflight_shows_what_it_finds_and_why_it_cannot_look(page) -> None:
    seen: list[object] = [Observed(where='ROS_DOMAIN_ID 7'), InvalidInput('namespace = "-"')]

    def collect() -> Observed:
        found = seen.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    tab = PreflightTab(page.server.gui, collect)
    tab._check(None)
    assert 'ROS_DOMAIN_ID 7' in tab._found.content
    assert 'see their logs' in tab._found.content
    tab._check(None)
    assert 'namespace = ' in tab._found.content
    assert not tab._button.disabled
