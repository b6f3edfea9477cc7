# SPDX-License-Identifier: Apache-2.0
"""The page's controls: state in large letters, Stop, the buttons of the task, and the tabs."""

import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import viser
from std_srvs.srv import SetBool, Trigger

from ur5_pick_place.client.connection import TASK, Answer
from ur5_pick_place.client.results import run_result
from ur5_pick_place.cockpit.actions import (
    FREEDRIVE,
    SERVICES,
    STOP,
    TEACH,
    CellState,
    advice,
    next_button,
    why_not,
)
from ur5_pick_place.cockpit.link import CellLink, Offers
from ur5_pick_place.cockpit.page import line, text
from ur5_pick_place.nodes.cell.node_list import SIMULATED
from ur5_pick_place.task import events
from ur5_pick_place.task.machine import RUN

_LINES = 7  # of the last events
_MOST_EVENTS = 10_000  # of a run
_LONGEST = 160  # characters of one
_NUMBER = re.compile(r'(?<!\w)-?\d[\d.]*')
_BANNER = {
    '': '#6b7280', 'idle': '#334155', 'planning': '#1d4ed8', 'planned': '#1d4ed8',
    'running': '#15803d', 'paused': '#b45309', 'busy': '#15803d', 'freedrive': '#7e22ce',
    'stopped': '#b91c1c',
}
_QUIET = {events.PLANNING, events.PLAN_REPORT, events.STARTED}  # too many, too long, or a state
_LONG = {'pose', 'joints', 'stages', 'stamp'}  # fields that are not shown
_NAMED = {'branch': 'branch {}', 'motion_time': '{} s of motion', 'cycles': 'cycles: {}'}


class Panel:
    """
    The controls of the page.

    `robot`: one of `ROBOTS` of `node_list`. `distance_to`: returns how far the part lies from a
    place [m], None where that is not known.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        link: CellLink,
        robot: str,
        distance_to: Callable[[str], float | None],
    ) -> None:
        self._gui, self._link, self._robot = server.gui, link, robot
        self._distance_to = distance_to
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._lock = threading.Lock()  # lines come from the nodes and from the page
        self._run: list[Mapping[str, Any]] = []  # events of the job
        self._outcome = ''  # of the last run, until the next job, plan or rearm
        gui = server.gui
        gui.set_panel_label('UR cockpit')
        self._banner = gui.add_html('')
        self.buttons: dict[str, viser.GuiButtonHandle] = {}
        self._add(STOP, self._stop, 'red', viser.Icon.HAND_STOP)
        for name, service in SERVICES.items():
            self._add(name, self._requester(name, f'{TASK}/{service}'))
        self._add(FREEDRIVE, self._freedrive)
        self._teach = gui.add_folder('Teach from the present joints')
        self._log = gui.add_html('')
        self.add_line('ready')

    def _add(
        self, name: str, act: Callable[[], object], colour: Any = 'gray', icon: Any = None
    ) -> None:
        button = self._gui.add_button(name, color=colour, icon=icon)

        @button.on_click
        async def _(_event: Any) -> None:  # on the server's own thread: a stop waits for nothing
            act()

        self.buttons[name] = button

    # -- requests --------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._link.stop(self._answered_stop)
        self.add_line('Stop: sent to both nodes')

    def _answered_stop(self, success: bool | None, message: str) -> None:
        if success:
            self.add_line(f'Stop: {message}')  # it may add what is still on
        else:
            self.add_line(f'Stop: {message}; USE THE EMERGENCY STOP', is_bad=True)

    def _requester(self, name: str, service: str) -> Callable[[], object]:
        return lambda: self._link.request(Trigger, service, self._answered(name))

    def _freedrive(self) -> None:
        state = self._link.state
        is_on = state.kind != 'freedrive' and not state.is_stopped
        answered = self._answered(FREEDRIVE)
        self._link.request(SetBool, f'{TASK}/freedrive', answered, data=is_on)

    def _answered(self, name: str) -> Answer:
        """Return what shows a refusal; what was granted shows in the state and in events."""

        def show(success: bool | None, message: str) -> None:
            if not success:
                outcome = name if success is None else f'{name} refused'
                self.add_line(f'{outcome}: {message}', is_bad=True)

        return show

    # -- what is shown ---------------------------------------------------------------------------

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Show an event of the task node."""
        name = str(event['event'])
        if name not in _QUIET:
            self.add_line(event_text(event), name in (events.REFUSED, events.STOPPED))
        if name in (events.STARTED, events.PLANNED, events.REARMED):
            self._run, self._outcome = [], ''
        if len(self._run) < _MOST_EVENTS:
            self._run.append(event)
        if name in (events.DONE, events.STOPPED) and event.get('job') == RUN:
            self._outcome = f'{run_result([*self._run, event])}{self._error()}'
            self.add_line(f'run: {self._outcome}')

    def _error(self) -> str:
        """Return how far the last part that was placed lies from its place; empty if unknown."""
        placed = [str(e.get('place')) for e in self._run if e['event'] == events.PLACED]
        distance = self._distance_to(placed[-1]) if placed else None
        return '' if distance is None else f', {1e3 * distance:.1f} mm off'

    def add_line(self, text: str, is_bad: bool = False) -> None:
        """Add a line to the list of the last events."""
        short = text if len(text) <= _LONGEST else f'{text[:_LONGEST]}…'
        new = line(short, 'bad' if is_bad else 'plain')
        with self._lock:
            if self._lines and _NUMBER.sub('', self._lines[-1]) == _NUMBER.sub('', new):
                self._lines.pop()  # such as a jog that is slowed down more and more
            self._lines.append(new)
            newest_first = ''.join(reversed(self._lines))
            self._log.content = f'<div class="cockpit-log">{newest_first}</div>'

    def show(self, state: CellState, offers: Offers) -> None:
        """Show the state, and which buttons may be tried in it."""
        for name in offers.teachable:
            if f'{TEACH}{name}' not in self.buttons:
                with self._teach:
                    self._add(
                        f'{TEACH}{name}',
                        self._requester(f'{TEACH}{name}', f'{TASK}/teach_{name}'),
                    )
        self._banner.content = self._banner_html(state, offers)  # viser sends changes alone
        leads_on = next_button(state)
        for name, button in self.buttons.items():
            if name == STOP:
                continue
            reason = why_not(name, state)
            button.disabled = bool(reason)
            button.color = 'blue' if name == leads_on and not reason else 'gray'

    def _banner_html(self, state: CellState, offers: Offers) -> str:
        kind = 'stopped' if state.is_stopped else state.kind
        colour = _BANNER.get(kind, '#334155')
        title = 'STOPPED' if kind == 'stopped' else state.task or 'no nodes'
        has_run = bool(self._outcome)
        if has_run and kind in ('planned', 'idle'):
            title = self._outcome
        reason = state.reason or advice(state, has_run)
        also = advice(state) if state.reason else ''
        planner = state.planner.partition(':')[0] or 'not there'
        return (
            f'{self._robot_html(offers)}'
            f'<div class="cockpit-state" style="background:{colour}"><b>{escape(title)}</b>'
            f'{escape(reason)}<small>{escape(also)}{"<br>" if also else ""}'
            f'planner: {escape(planner)}</small></div>'
        )

    def _robot_html(self, offers: Offers) -> str:
        is_real = self._robot in ('real', 'ursim')  # whatever else is on the network
        if self._robot in SIMULATED or (offers.is_simulated and not is_real):
            return '<div class="cockpit-robot">simulated cell</div>'
        if self._robot == 'mock':
            return '<div class="cockpit-robot">mock hardware: nothing moves</div>'
        return (
            '<div class="cockpit-robot cockpit-real">'
            'REAL ROBOT: it moves. Keep clear, hand on the emergency stop.</div>'
        )


def event_text(event: Mapping[str, Any]) -> str:
    """Return an event as one line, with those of its fields that fit."""
    name = str(event['event'])
    fields = ((key, event.get(key)) for key in events.FIELDS.get(name, ()) if key not in _LONG)
    texts = [
        _NAMED.get(key, '{}').format(_short(value))
        for key, value in fields
        if value not in ('', None)
    ]
    return f'{name}: {", ".join(texts)}' if texts else name


def _short(value: Any) -> str:
    return f'{value:.1f}' if isinstance(value, float) else str(value)


def solutions_html(
    found: Sequence[tuple[str, str]], missing: Mapping[str, str], place: str
) -> str:
    """Return a table of branches found (name, CSS colour) and of those missing, with reasons."""
    rows = [
        f'<div><span style="color:{colour}">&#9632;</span> <b>{escape(name)}</b></div>'
        for name, colour in found
    ]
    rows += [
        f'<div class="cockpit-missing">&#9633; {escape(name)}: {escape(reason)}</div>'
        for name, reason in missing.items()
    ]
    about = f'<div>at {escape(place)}, {len(found)} free of collision</div>'
    return text(f'{about}{"".join(rows)}', 'solutions')
