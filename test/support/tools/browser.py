# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for tests, driven by its DevTools protocol."""

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pace
from websockets.sync.client import connect

_NAMES = ('chromium', 'chromium-browser', 'google-chrome')
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), '')
# The panel must not cover the target. Without a GPU 1200 x 700 gives 2 frames/s, this often more.
SIZE = (1200, 500)
_OPTIONS = (
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
    '--enable-unsafe-swiftshader', '--remote-debugging-port=0',
)


class Browser:
    """One page."""

    def __init__(self, devtools: Any) -> None:
        self._devtools, self._number = devtools, 0
        self.command('Page.enable')
        self.command(
            'Emulation.setDeviceMetricsOverride', width=SIZE[0], height=SIZE[1],
            deviceScaleFactor=1, mobile=False,
        )

    def command(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        request = {'id': self._number, 'method': method, 'params': parameters}
        self._devtools.send(json.dumps(request))
        while True:
            reply = json.loads(self._devtools.recv(timeout=60))
            if reply.get('id') == self._number:
                assert 'error' not in reply, reply['error']
                return reply['result']

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        result = self.command('Runtime.evaluate', expression=script, returnByValue=True)
        assert 'exceptionDetails' not in result, result
        return result['result'].get('value')

    def until(self, is_done: Callable[[], Any], what: str, wall: float = 30.0) -> Any:
        deadline = time.monotonic() + pace.wall(wall)
        while not (found := is_done()):
            assert time.monotonic() < deadline, f'timed out waiting for {what}: {self.text()}'
            time.sleep(0.05)
        return found

    def open(self, address: str) -> None:
        self.command('Page.navigate', url=address)
        self.until(lambda: self.button('Stop'), 'the page')

    def text(self) -> str:
        return str(self.run('document.body.innerText'))

    def state(self) -> str:
        script = "document.querySelector('.cockpit-state')?.innerText"
        return (self.run(script) or '').partition('\n')[0]

    def button(self, name: str) -> list[float] | None:
        """Return the middle of a button that can be clicked and is not covered, else None."""
        return self.run(
            f'(() => {{ const b = [...document.querySelectorAll("button")].find('
            f'(b) => b.textContent.trim() === {json.dumps(name)});'
            ' if (!b || b.disabled) return null; b.scrollIntoView({block: "nearest"});'
            ' const r = b.getBoundingClientRect();'
            ' const x = r.x + r.width / 2, y = r.y + r.height / 2;'
            ' return b.contains(document.elementFromPoint(x, y)) ? [x, y] : null; })()'
        )

    def click(self, name: str) -> None:
        """Click a button by the mouse, once it is enabled."""
        where: list[Any] = [None, None]

        def is_still() -> bool:
            where.append(self.button(name))
            return bool(where[-1]) and where[-1] == where[-2] == where[-3]

        self.until(is_still, f'button {name} to be enabled')
        with self.held(*where[-1]):
            pass

    def tab(self, name: str) -> None:
        """Open a tab by the mouse; a click from a script does not open it."""
        where = self.run(
            '(() => { const t = [...document.querySelectorAll("[role=tab]")].find('
            f'(t) => t.textContent.trim() === {json.dumps(name)});'
            ' t.scrollIntoView({block: "nearest"}); const r = t.getBoundingClientRect();'
            ' return [r.x + r.width / 2, r.y + r.height / 2]; })()'
        )
        with self.held(*where):
            pass

    @contextlib.contextmanager
    def held(self, x: float, y: float) -> Iterator[None]:
        """Hold the left button of the mouse at a point [pixels]."""
        self.mouse('mouseMoved', x, y, 0)
        self.mouse('mousePressed', x, y)
        yield
        self.mouse('mouseReleased', *self._last, 0)

    def mouse(self, kind: str, x: float, y: float, buttons: int = 1) -> None:
        self._last = (x, y)
        self.command(
            'Input.dispatchMouseEvent', type=kind, x=x, y=y, buttons=buttons, clickCount=1,
            button='none' if kind == 'mouseMoved' and not buttons else 'left',
        )


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [CHROMIUM, *_OPTIONS, f'--user-data-dir={profile}', 'about:blank']
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            lines = (re.search(r'listening on ws://([^/]+)/', line) for line in process.stderr)
            host = next(found for found in lines if found)[1]
            with urllib.request.urlopen(f'http://{host}/json') as reply:
                pages = [tab for tab in json.load(reply) if tab['type'] == 'page']
            with connect(pages[0]['webSocketDebuggerUrl'], max_size=None, proxy=None) as devtools:
                yield Browser(devtools)
        finally:
            process.kill()
            process.wait()


def pixel_of(point: Any, camera: Any, looks_at: Any, view_angle: float) -> np.ndarray:
    """Return where a point of the scene is on the page, by the pinhole camera, z up."""
    forward = np.subtract(looks_at, camera)
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    seen = np.array([right, np.cross(right, forward), forward]) @ np.subtract(point, camera)
    focal = SIZE[1] / 2 / np.tan(view_angle / 2)
    return np.array([SIZE[0] / 2, SIZE[1] / 2]) + focal * seen[:2] / seen[2] * [1, -1]
