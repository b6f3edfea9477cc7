# SPDX-License-Identifier: Apache-2.0
"""Tabs of a cell's commissioning and upkeep: preflight, statistics, TCP and table by touch."""

import threading
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import viser

from ur5_pick_place.client.touch import TableTouches, TcpTouches, Where
from ur5_pick_place.cockpit.page import line, text
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.task.preflight import Check, Observed, check_all, verdict

_TCP, _TABLE = 'TCP', 'table'
_HOW = {
    _TCP: 'Touch one fixed tip with the TCP, at least four times, the tool turned by 30 deg or '
    'more between them.',
    _TABLE: 'Touch the table with the TCP at least three times, 100 mm or more apart.',
}


class PreflightTab:
    """
    Checks whether the cell is ready to move, as the command `preflight` does.

    `collect`: returns what is seen of the cell; takes up to ten seconds.
    """

    def __init__(self, gui: viser.GuiApi, collect: Callable[[], Observed]) -> None:
        self._collect, self._checking = collect, threading.Lock()
        self._button = gui.add_button('Preflight', color='gray')
        self._found = gui.add_html('')
        self._show('Checks within ten seconds whether the cell is ready to move; nothing moves.')
        self._button.on_click(self._check)

    def _check(self, _event: Any) -> None:
        """Check, on a thread of the page's pool; a second click meanwhile does nothing."""
        if not self._checking.acquire(blocking=False):
            return
        try:
            self._button.disabled = True
            self._show('Checking…')
            self._show(checks_html(check_all(self._collect())))
        except Ur5PickPlaceError as error:
            self._show(line(str(error), 'bad'))
        finally:
            self._button.disabled = False
            self._checking.release()

    def _show(self, html: str) -> None:
        self._found.content = text(html, 'preflight')


def checks_html(checks: Sequence[Check]) -> str:
    """Return the overall result and one line per check, with a remedy if it failed, as HTML."""
    is_ready = all(check.is_ok for check in checks)
    rows = [f'<b>{line(verdict(checks), "good" if is_ready else "bad")}</b>']
    for check in checks:
        mark, look = ('\N{CHECK MARK}', 'good') if check.is_ok else ('\N{BALLOT X}', 'bad')
        rows.append(line(f'{mark} {check.name}: {check.found}', look))
        if check.advice:
            rows.append(line(check.advice, 'advice'))
    return ''.join(rows)


class StatisticsTab:
    """The production counters that the task node publishes on /diagnostics."""

    def __init__(self, gui: viser.GuiApi) -> None:
        self._table = gui.add_html(text('pick_place has not published any yet.', 'statistics'))

    def take(self, values: Mapping[str, str]) -> None:
        """Show the figures among the values of a status."""
        if figures := figures_of(values):
            self._table.content = text(figures_html(figures), 'statistics')


def figures_of(values: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the figures since the start and in all, by name."""
    found = {name: value.partition(' since start, ') for name, value in values.items()}
    return {
        name: (recent, total.removesuffix(' in all'))
        for name, (recent, _, total) in found.items()
        if total.endswith(' in all')
    }


def figures_html(figures: Mapping[str, tuple[str, str]]) -> str:
    """Return a table of figures since the start and in all."""
    rows = [('', ('since start', 'in all')), *figures.items()]
    cells = (''.join(f'<td>{escape(c)}</td>' for c in (name, *both)) for name, both in rows)
    return f'<table>{"".join(f"<tr>{row}</tr>" for row in cells)}</table>'


class TouchTab:
    """
    Finds TCP and table height by touches, and writes them to the scene file only on request.

    `where`: returns the present pose (4, 4) of a link in `base_link`.
    """

    def __init__(
        self, gui: viser.GuiApi, where: Where, scene_file: str, mounting: Mounting = FLOOR
    ) -> None:
        self._series: dict[str, TcpTouches | TableTouches] = {
            _TCP: TcpTouches(where, lambda: scene_file),
            _TABLE: TableTouches(where, lambda: scene_file, mounting),
        }
        self._lock = threading.Lock()
        self._choice = gui.add_dropdown('Find', tuple(self._series))
        count = self._touch_count
        self._button(gui, 'Take touch', lambda touches: count(touches, touches.take()))
        self._button(gui, 'Drop last touch', lambda touches: count(touches, touches.forget_last()))
        self._button(gui, 'Write to scene file', lambda touches: touches.write())
        self._state = gui.add_html('')
        self._choice.on_update(lambda _event: self._show(_HOW[self._choice.value]))
        self._show(_HOW[_TCP])

    def _button(
        self, gui: viser.GuiApi, name: str, act: Callable[[TcpTouches | TableTouches], str]
    ) -> None:
        @gui.add_button(name, color='gray').on_click
        def _(_event: Any) -> None:  # on a thread of the page's pool, as it waits for the arm
            with self._lock:
                try:
                    self._show(act(self._series[self._choice.value]))
                except Ur5PickPlaceError as error:
                    self._show(str(error), 'bad')

    def _touch_count(self, touches: TcpTouches | TableTouches, count: int) -> str:
        counted = f'{count} touch' if count == 1 else f'{count} touches'
        try:
            return f'{counted}: {touches.result()}'
        except InvalidInput:  # too few
            return f'{counted}. {_HOW[self._choice.value]}'

    def _show(self, found: str, look: str = 'plain') -> None:
        self._state.content = text(line(found, look), 'touch')
