# SPDX-License-Identifier: Apache-2.0
"""The terminal display of a running cycle: one line per stage, refreshed on a terminal."""

import shutil
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from ur5_pick_place.demo.spots import Stand
from ur5_pick_place.kinematics import Model, forward
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.physics.hand import OPEN_GAP
from ur5_pick_place.task import events

if TYPE_CHECKING:
    from ur5_pick_place.demo.simulated_cell import SimulatedCell

_HEADING = """\
Stages; times are simulated, counted from the start of the cell.
stage ends  stage            max joint speed  TCP height  finger gap"""
_REFRESH = 0.1  # [s] wall time


class ProgressDisplay:
    """
    Displays the stages of a run.

    `T_tool_tcp` (4, 4). `stream`: on a terminal the line of the current stage is refreshed;
    otherwise, and on one narrower than the line, each line is written when its stage ends.
    `stand`: where the table is.
    """

    def __init__(
        self, model: Model, T_tool_tcp: Array, stream: TextIO, stand: Stand = Stand()
    ) -> None:
        self._stand = stand
        self._model, self._T_tool_tcp, self._stream = model, T_tool_tcp, stream
        is_wide = shutil.get_terminal_size().columns > len(_HEADING.splitlines()[-1])
        self._is_live = stream.isatty() and is_wide
        self._stage = self._line = ''
        self._last: tuple[float, Array] | None = None
        self._top_speed = self._shown = 0.0

    def on_event(self, event: Mapping[str, Any], cell: 'SimulatedCell') -> None:
        if event['event'] not in (events.STAGE, events.DONE, events.STOPPED):
            return
        self.refresh(cell)
        self.end_stage()
        if event['event'] != events.STAGE:
            return
        if self._last is None:
            print(_HEADING, file=self._stream, flush=True)
        self._stage, self._top_speed = event['stage'], 0.0
        self.refresh(cell)

    def refresh(self, cell: 'SimulatedCell') -> None:
        """Show the current stage; call this often."""
        if not self._stage:
            return
        t, q = cell.stamped_joints
        if self._last and t > self._last[0]:
            speed = np.abs(q - self._last[1]).max() / (t - self._last[0])
            self._top_speed = max(self._top_speed, float(speed))
        self._last = t, q
        point = (forward(self._model, q) @ self._T_tool_tcp)[:3, 3]
        height = self._stand.mounting.up_base @ point - self._stand.table_height
        gap = OPEN_GAP - cell.fingers.sum()
        self._line = (
            f'{t:8.2f} s  {self._stage:<15}  {self._top_speed:9.2f} rad/s  {height:8.3f} m'
            f'  {1e3 * gap:7.1f} mm'
        )
        if self._is_live and time.monotonic() > self._shown + _REFRESH:
            self._shown = time.monotonic()
            print(f'\r{self._line}', end='', file=self._stream, flush=True)

    def end_stage(self) -> None:
        """Finish the current line."""
        if self._line:
            print(f'{self._is_live * chr(13)}{self._line}', file=self._stream, flush=True)
        self._stage = self._line = ''
