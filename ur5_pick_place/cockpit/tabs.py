# SPDX-License-Identifier: Apache-2.0
"""Tabs of jogging, of a pose's solutions, of live plots, and of the simulated cell's faults."""

from collections import deque
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any

import numpy as np
import viser
from std_srvs.srv import SetBool, Trigger
from viser import uplot

from ur5_pick_place.client.connection import SIM_DRIVER, Answer
from ur5_pick_place.client.results import Solutions
from ur5_pick_place.cockpit.jog import RATE, HoldFilter, Jog
from ur5_pick_place.cockpit.link import CellLink
from ur5_pick_place.cockpit.page import text
from ur5_pick_place.cockpit.panel import Panel, solutions_html
from ur5_pick_place.cockpit.places import PlaceHandles
from ur5_pick_place.cockpit.view import BRANCH_COLOURS, CellView
from ur5_pick_place.kinematics import JOINT_NAMES, Model
from ur5_pick_place.kinematics.transforms import Array

PLOT_PERIOD = 0.2  # [s] between two samples
_SPAN = 10.0  # [s] shown
_COLOURS = ('#1f77b4', '#ff7f0e', '#2ca02c', '#d62728', '#9467bd', '#17a2b8')
_HEIGHT = 190  # pixels
_VISIBLE = 0.05  # [deg, deg/s]
_TWISTS = ('X', 'Y', 'Z', 'Rx', 'Ry', 'Rz')
_MINUS = '\N{MINUS SIGN}'
_SLOW, _USUAL = 0.1, 0.5  # share of full jog speed at the start: with a robot, in simulation
_KEYS = (
    'Keys, while held: arrows X and Y, Page Up and Down Z. Escape is Stop. A jog ends 0.2 s after '
    'the button is released, or the browser is gone.'
)


class JogTab:
    """
    Buttons that move the arm while they are held.

    `is_real`: whether to begin at a tenth of the speed.
    """

    def __init__(self, gui: viser.GuiApi, jog: Jog, is_real: bool) -> None:
        self._jog, self._hold_filter = jog, HoldFilter()
        self._note = gui.add_html(text(_KEYS, 'jog'))
        self._speed = gui.add_slider(
            'Jog speed', min=0.05, max=1.0, step=0.05,
            initial_value=_SLOW if is_real else _USUAL,
        )
        self._frame = gui.add_dropdown('TCP frame', ('base_link', 'tcp'))
        self._buttons: list[viser.GuiButtonHandle] = []
        for axis, name in enumerate(_TWISTS):
            for sign, symbol in ((-1.0, _MINUS), (1.0, '+')):
                self._add(gui, f'{name} {symbol}', partial(self._twist, axis, sign))
        for joint, name in enumerate(JOINT_NAMES):
            for sign, symbol in ((-1.0, _MINUS), (1.0, '+')):
                short = name.removesuffix('_joint').replace('_', ' ')
                self._add(gui, f'{short} {symbol}', partial(self._joint, joint, sign))

    def _add(self, gui: viser.GuiApi, name: str, publish: Callable[[], None]) -> None:
        button = gui.add_button(name, color='gray')
        self._buttons.append(button)

        async def held(event: Any) -> None:
            if self._hold_filter.accepts(event.client_id, name):
                publish()

        button.on_hold(held, callback_hz=RATE)

    def _twist(self, axis: int, sign: float) -> None:
        self._jog.twist(self._frame.value, axis, sign, self._share)

    def _joint(self, joint: int, sign: float) -> None:
        self._jog.joint(joint, sign, self._share)

    @property
    def _share(self) -> float:
        return float(self._speed.value)

    def show(self, reason: str) -> None:
        """Enable the buttons, or show why no jog can begin now."""
        for button in self._buttons:
            button.disabled = bool(reason)
        self._note.content = text(escape(f'No jog now: {reason}.') if reason else _KEYS, 'jog')


class FaultsTab:
    """
    The simulated cell's faults and its feeder.

    `panel`: shows the answers. `places`: source of the pose where the part is put.
    """

    def __init__(
        self, gui: viser.GuiApi, link: CellLink, panel: Panel, places: PlaceHandles
    ) -> None:
        self._link, self._panel, self._places = link, panel, places
        self._choice = gui.add_dropdown('Fault', ('none',))
        self._choice.on_update(self._prepare)
        self._button(gui, 'Inject fault', lambda: self._switch(True))
        self._button(gui, 'Clear fault', lambda: self._switch(False))
        self._button(gui, 'Clear all faults', lambda: self._trigger('clear_faults'))
        self._button(gui, 'Put part at start', self._put)
        self._button(gui, 'Feed next part', lambda: self._trigger('feed_part'))

    def _button(self, gui: viser.GuiApi, name: str, act: Callable[[], object]) -> None:
        @gui.add_button(name, color='gray').on_click
        async def _(_event: Any) -> None:
            act()

    async def _prepare(self, _event: Any) -> None:
        """Create the client of the chosen fault alone: each one slows the node's executor down."""
        if self._choice.value in self._choice.options[1:]:
            self._link.client(SetBool, f'{SIM_DRIVER}/faults/{self._choice.value}')

    def _switch(self, is_on: bool) -> None:
        fault = self._choice.value
        if fault not in self._choice.options or fault == 'none':
            return self._panel.add_line('choose a fault first', is_bad=True)
        name = f'{SIM_DRIVER}/faults/{fault}'
        return self._link.request(SetBool, name, self._shown(fault), data=is_on)

    def _trigger(self, name: str) -> None:
        self._link.request(Trigger, f'{SIM_DRIVER}/{name}', self._shown(name))

    def _put(self) -> None:
        start = self._places.all.get('start')
        if start is None or not start.is_taught:
            return self._panel.add_line('teach start first: the part is put there', is_bad=True)
        self._link.send_pose(f'{SIM_DRIVER}/place_part', start.T_base_link_tcp)
        return self._panel.add_line('put the part at start')

    def _shown(self, what: str) -> Answer:
        def show(success: bool | None, message: str) -> None:
            self._panel.add_line(f'{what}: {message or "done"}', is_bad=not success)

        return show

    def offer(self, faults: tuple[str, ...]) -> None:
        if faults and self._choice.options[1:] != faults:
            self._choice.options = ('none', *faults)


class SolutionsTab:
    """The solutions of a dragged pose, as text and as ghosts."""

    def __init__(self, gui: viser.GuiApi, view: CellView) -> None:
        self._view = view
        self._is_shown = gui.add_checkbox('Show ghosts', initial_value=True)
        self._text = gui.add_html(
            text('Drag a place: its eight solutions appear here.', 'solutions')
        )

        @self._is_shown.on_update
        async def _(_event: Any) -> None:
            if not self._is_shown.value:
                self._view.show_solutions({})

    def show(self, place: str, found: Solutions) -> None:
        """Show the solutions of a pose, and why the others are missing."""
        colours = [f'rgb{colour}' for colour in BRANCH_COLOURS]
        rows = list(zip(found, colours, strict=False))
        self._text.content = solutions_html(rows, found.missing, place)
        if self._is_shown.value:
            self._view.show_solutions(found)


class Plots:
    """
    Two plots over the last seconds.

    `model`: source of the limits.
    """

    def __init__(self, gui: viser.GuiApi, model: Model) -> None:
        self._low, self._high = model.q_min, model.q_max
        self._samples: deque[tuple[float, Array, Array]] = deque(maxlen=round(_SPAN / PLOT_PERIOD))
        self._sent = np.empty((0, 12))
        self._speeds = self._plot(gui, 'Joint speeds [deg/s]')
        self._margins = self._plot(gui, 'Distance to the nearer limit [deg]')

    @staticmethod
    def _plot(gui: viser.GuiApi, title: str) -> Any:
        series = [uplot.Series(label='t [s]')]
        series += [
            uplot.Series(label=name.removesuffix('_joint'), stroke=colour, width=2)
            for name, colour in zip(JOINT_NAMES, _COLOURS, strict=True)
        ]
        nothing = (np.zeros(1),) * 7
        return gui.add_uplot(
            nothing,
            tuple(series),
            title=title,
            height=_HEIGHT,
            scales={'x': uplot.Scale(time=False)},
            legend=uplot.Legend(show=True),
        )

    def add(self, t: float, q: Array, qd: Array) -> None:
        """Add joints (6,) [rad] and speeds (6,) [rad/s] at time t [s]."""
        if self._samples and t < self._samples[-1][0]:
            self._samples.clear()  # a restarted cell
        self._samples.append((t, np.degrees(qd), np.degrees(self.margins(q))))

    def margins(self, q: Array) -> Array:
        """Return the distance of each joint to its nearer limit (6,) [rad]."""
        return np.asarray(np.minimum(q - self._low, self._high - q))

    def draw(self) -> None:
        """Send the plots to the browsers, unless they look as before."""
        if not self._samples:
            return
        values = np.array([np.concatenate(sample[1:]) for sample in self._samples])
        if values.shape == self._sent.shape and np.abs(values - self._sent).max() < _VISIBLE:
            return
        self._sent = values
        t = np.array([sample[0] for sample in self._samples])
        for plot, lines in ((self._speeds, values[:, :6]), (self._margins, values[:, 6:])):
            plot.data = (t - t[-1], *np.ascontiguousarray(lines.T))
