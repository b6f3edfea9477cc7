# SPDX-License-Identifier: Apache-2.0
"""The terminal display of a running cycle: one line per stage, refreshed on a terminal."""

import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import numpy as np

from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.demo.spots import T_tool_grip
from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.physics.hand import OPEN_GAP
from ur5_pick_place.task import events

Look = Callable[[], tuple[float, Array, Array]]
"""Returns the robot's time [s], joints (6,) [rad] and closing travel of both fingers (2,) [m]."""

_HEADING = """\
Stages; times are simulated, counted from the start of the cell.
stage ends  stage            max joint speed  TCP height  finger gap"""
_REFRESH = 0.1  # [s] wall time


class ProgressDisplay:
    """
    Displays the stages of a run.

    `stream`: on a terminal the line of the current stage is refreshed; otherwise, and on one
    narrower than the line, each line is written when its stage ends.
    """

    def __init__(self, setup: CellSetup, stream: TextIO) -> None:
        self._setup, self._T_tool_grip, self._stream = setup, T_tool_grip(setup.scene), stream
        is_wide = shutil.get_terminal_size().columns > len(_HEADING.splitlines()[-1])
        self._is_live = stream.isatty() and is_wide
        self._stage = self._line = ''
        self._last: tuple[float, Array] | None = None
        self._top_speed = self._shown = 0.0

    def on_event(self, event: Mapping[str, Any], look: Look) -> None:
        if event['event'] not in (events.STAGE, events.DONE, events.STOPPED):
            return
        self.refresh(look)
        self.end_stage()
        if event['event'] != events.STAGE:
            return
        if self._last is None:
            print(_HEADING, file=self._stream, flush=True)
        self._stage, self._top_speed = event['stage'], 0.0
        self.refresh(look)

    def refresh(self, look: Look) -> None:
        """Show the current stage; call this often."""
        if not self._stage:
            return
        t, q, fingers = look()
        if self._last and t > self._last[0]:
            speed = np.abs(q - self._last[1]).max() / (t - self._last[0])
            self._top_speed = max(self._top_speed, float(speed))
        self._last = t, q
        point = (forward(self._setup.model, q) @ self._T_tool_grip)[:3, 3]
        height = self._setup.mounting.up_base @ point - self._setup.table_height
        gap = OPEN_GAP - fingers.sum()
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
