# SPDX-License-Identifier: Apache-2.0
"""Stop and the keys of the cockpit's page in a browser, without any node."""

import time
from collections.abc import Iterator

import pace
import pytest
import viser
from browser import CHROMIUM, chromium

from ur5_pick_place.cockpit.guard import Guard, listen, new_token, open_server
from ur5_pick_place.cockpit.page import add_keys

pytestmark = [
    pytest.mark.drill,
    pytest.mark.nodes,
    pytest.mark.skipif(not CHROMIUM, reason='no Chromium on this machine'),
]


@pytest.fixture
def served() -> Iterator[tuple[viser.ViserServer, str]]:
    """A server with an empty page, and its address."""
    listener = listen('127.0.0.1', 0)
    guard = Guard(new_token(), '127.0.0.1', listener.getsockname()[1])
    server = open_server(listener, guard, lambda _text: None)
    server.scene.configure_environment_map(None)
    try:
        yield server, f'http://127.0.0.1:{guard.port}/?token={guard.token}'
    finally:
        server.stop()


def test_stop_by_mouse_key_and_folded_panel(served) -> None:
    server, address = served
    stops: list[float] = []
    stop = server.gui.add_button('Stop', icon=viser.Icon.HAND_STOP)
    stop.on_click(lambda _event: stops.append(time.monotonic()))
    add_keys(server)
    with chromium() as page:
        page.open(address)
        page.click('Stop')
        page.until(lambda: len(stops) == 1, 'the click')
        find = "[...document.querySelectorAll('button')].find(b => b.innerText == 'Stop')"
        page.run(f'{find}.focus()')
        enter = {'key': 'Enter', 'code': 'Enter', 'windowsVirtualKeyCode': 13}
        page.command('Input.dispatchKeyEvent', type='keyDown', text='\r', **enter)
        page.command('Input.dispatchKeyEvent', type='keyUp', **enter)
        page.until(lambda: len(stops) == 2, 'a click by the keyboard, and none by the release')
        stops.pop()

        page.command('Input.dispatchKeyEvent', type='keyDown', key='Escape')
        page.until(lambda: len(stops) == 2, 'Escape')
        page.run('document.querySelector(\'[aria-label="Minimize panel"]\').click()')
        spare = "document.querySelector('.cockpit-spare-stop')"
        page.until(lambda: page.run(f'!!{spare}'), 'the spare Stop')
        page.run(f'{spare}.click()')
        page.until(lambda: len(stops) == 3, 'the spare Stop to act')

        server.stop()
        said = f"{spare}?.disabled && {spare}.innerText.startsWith('No connection')"
        page.until(lambda: page.run(said), 'a Stop that says that it cannot be sent')


def test_the_jog_keys_hold_only_a_button_that_is_seen_and_leave_others_their_keys(served) -> None:
    server, address = served
    held: list[float] = []
    server.gui.add_button('Stop', icon=viser.Icon.HAND_STOP)
    tabs = server.gui.add_tab_group()
    with tabs.add_tab('Jog'):
        speed = server.gui.add_slider('Jog speed', min=0.0, max=1.0, step=0.1, initial_value=0.5)
        jog = server.gui.add_button('X +')
        jog.on_hold(lambda _event: held.append(time.monotonic()), callback_hz=30.0)
    with tabs.add_tab('Plots'):
        server.gui.add_button('Another')
    add_keys(server)

    def press(focus: str | None) -> int:
        """Hold an arrow where `focus` is, or None; return how often the jog was reported."""
        if focus is not None:
            page.run('document.activeElement.blur()')
        if focus:
            page.run(f'document.querySelector({focus!r}).focus()')
        before, key = len(held), {'key': 'ArrowUp', 'windowsVirtualKeyCode': 38}
        page.command('Input.dispatchKeyEvent', type='keyDown', **key)
        time.sleep(pace.wall(0.5))
        page.command('Input.dispatchKeyEvent', type='keyUp', **key)
        time.sleep(0.2)
        return len(held) - before

    with chromium() as page:
        page.open(address)
        page.until(lambda: page.button('X +'), 'the tab')
        assert press('') > 1
        assert press('[role=tab]') == 0
        assert press('[role=slider]') == 0
        assert speed.value > 0.5  # the slider has had its key
        page.tab('Plots')
        page.until(lambda: page.button('Another'), 'the other tab')
        assert press('') == 0
        page.tab('Jog')
        page.until(lambda: page.button('X +'), 'the tab')
        # A frame after the release of the mouse; seconds may pass between two on a busy machine.
        focus = "document.activeElement.matches('[role=tab]')"
        page.until(lambda: not page.run(focus), 'the focus to leave the tab')
        assert press(None) > 1, 'a tab that was clicked leaves the keys to the jog'
