# SPDX-License-Identifier: Apache-2.0
"""What drags, held buttons and clicks of browsers do, and what the cockpit's page shows then."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from guarded_page import DRAG, HANDLE, browser, click_arrives, packed

from ur5_pick_place.cockpit.actions import CellState
from ur5_pick_place.cockpit.checks import PreflightTab, TouchTab
from ur5_pick_place.cockpit.jog import RATE
from ur5_pick_place.cockpit.link import Offers
from ur5_pick_place.cockpit.node import Cockpit
from ur5_pick_place.cockpit.panel import Panel
from ur5_pick_place.cockpit.places import PlaceHandles
from ur5_pick_place.cockpit.tabs import JogTab
from ur5_pick_place.cockpit.view import CellView
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import load_model
from ur5_pick_place.kinematics.transforms import tool_down
from ur5_pick_place.planning.scene.scene import Scene, Tool
from ur5_pick_place.task.preflight import Observed


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

    def T_base_frame(frame: str, arm: object = None, waits: bool = True) -> np.ndarray:
        time.sleep(0.1 * waits)
        return np.eye(4)

    handles = {
        place: SimpleNamespace(follow=lambda _T, place=place: followed.append(place))
        for place in 'abcdefghij'
    }
    page = SimpleNamespace(
        _prefix='',
        _frames=SimpleNamespace(T_base_frame=T_base_frame),
        _places=SimpleNamespace(all=handles),
    )
    begin = time.monotonic()
    Cockpit._follow_frames(page)
    assert time.monotonic() - begin < 0.5 and followed == list('abcdefghij')


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
    page.place.show_refusal('in collision')
    page.place.follow(T)
    np.testing.assert_allclose(page.place.T_base_link_tcp, T, atol=1e-9)


def test_a_dropped_plan_and_the_path_of_an_ended_motion_are_not_drawn(page) -> None:
    model, scene = load_model('ur5e'), Scene(0.0, Tool(np.eye(4)))
    view = CellView(page.server, model, scene)
    for name in ('plan', 'path'):
        view.show_lines(name, [np.eye(3)], [], [np.eye(3)])
    shown = {}
    for task in ('idle', 'planned', 'running: transfer', 'paused: grip', 'stopped: x', 'idle'):
        view.follow(CellState(task, 'ready'))
        shown[task] = view._plan.visible
        assert view._lines['/plan/ghosts'].visible == (task == 'planned')
    assert [task for task, is_shown in shown.items() if is_shown] == [
        'planned', 'running: transfer', 'paused: grip'
    ]
    assert '/path/path' in view._lines  # published before the arm moves
    view.follow(CellState('busy: go_home', 'moving'))
    assert '/path/path' in view._lines
    view.follow(CellState('idle', 'ready'))
    assert '/path/path' not in view._lines
    assert '/plan/path' in view._lines


@pytest.fixture
def panel(page) -> Panel:
    return Panel(page.server, SimpleNamespace(state=CellState('planned', 'ready')), 'sim')


def test_after_a_run_the_page_says_first_what_it_did(panel: Panel) -> None:
    def banner(state: str = 'planned') -> str:
        panel.show(CellState(state, 'ready'), Offers())
        return panel._banner.content

    names = ('started', 'grasp_missed', 'grasp_verified', 'placed', 'placed', 'done')
    for i, name in enumerate(names):
        panel.on_event({'event': name, 'time': 100.0 + 2.1 * i, 'job': 'run'})
    done = 'placed 2, missed 1, in 10.5 s'
    assert f'anywhere">{done}</div>' in banner() and 'Run again' in banner()
    assert f'anywhere">{done}</div>' in banner('idle'), 'a pattern that is full has no plan'
    assert 'anywhere">STOPPED</div>' in banner('stopped: x') and done not in banner('stopped: x')
    assert f'run: {done}' in panel._log.content
    panel.on_event({'event': 'planned', 'time': 120.0})
    assert done not in banner() and 'The path is shown. Press Run.' in banner()


def test_of_a_run_that_was_stopped_the_page_says_what_it_did_until_then(panel: Panel) -> None:
    for name, t in (('started', 1.0), ('placed', 3.0), ('stopped', 4.0)):
        panel.on_event({'event': name, 'time': t, 'job': 'run'})
    assert 'run: placed 1, missed 0, in 3.0 s' in panel._log.content


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
    where = lambda _link, _frame: tool_down(*next(at), -0.012, 0.0)  # noqa: E731
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


def test_a_flood_of_held_buttons_is_thinned_out(page) -> None:
    jog = RecordedJog()
    tab = JogTab(page.server.gui, jog, is_real=False)
    held = packed('GuiButtonHoldMessage', uuid=tab._buttons[0]._impl.uuid, frequency=RATE)
    with browser(page) as socket:
        assert click_arrives(page, socket)
        begin = time.monotonic()
        for _ in range(300):
            socket.send(held)
        assert click_arrives(page, socket)
        assert len(jog.twists) <= 2 + (time.monotonic() - begin) / 0.015
