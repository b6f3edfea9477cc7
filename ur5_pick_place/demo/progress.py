# SPDX-License-Identifier: Apache-2.0
"""The terminal display of a running cycle: one line per stage, refreshed on a terminal."""

import time
from typing import TextIO

import numpy as np

from ur5_pick_place.demo.record import Record
from ur5_pick_place.kinematics import Model, forward
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.physics.hand import OPEN_GAP
from ur5_pick_place.task import events

_HEADING = """\
Stages; times are simulated, counted from the start of the cell.
stage ends  stage            max joint speed  TCP height  finger gap"""
_REFRESH = 0.1  # [s] wall time
_SPAN = 5  # samples over which a joint's speed is averaged


class ProgressDisplay:
    """
    Displays the stages of a record while it is recorded.

    Parameters
    ----------
    T_tool_tcp : ndarray, shape (4, 4)
    stream : text stream
        On a terminal the line of the current stage is refreshed; otherwise each line is written
        when its stage ends.

    """

    def __init__(self, model: Model, T_tool_tcp: Array, stream: TextIO) -> None:
        self._model, self._T_tool_tcp, self._stream = model, T_tool_tcp, stream
        self._is_live = stream.isatty()
        self._stages = 0
        self._line = ''
        self._top_speed = 0.0
        self._shown = 0.0

    def show(self, record: Record) -> None:
        """Show the current stage; call this often."""
        stages = [event['stage'] for event in record.events if event['event'] == events.STAGE]
        if not stages or not record.is_complete:
            return
        if not self._stages:
            print(_HEADING, file=self._stream, flush=True)
        is_over = record.time_of(events.DONE) is not None
        for stage in stages[self._stages :] or ([] if is_over else stages[-1:]):
            if len(stages) > self._stages:
                self.end_stage()
                self._stages += 1
                self._top_speed = 0.0
            self._top_speed = max(self._top_speed, _joint_speed(record))
            self._line = self._describe(stage, record)
        if self._is_live and time.monotonic() > self._shown + _REFRESH:
            self._shown = time.monotonic()
            print(f'\r{self._line}', end='', file=self._stream, flush=True)

    def end_stage(self) -> None:
        """Finish the current line."""
        if self._line:
            print(f'{self._is_live * chr(13)}{self._line}', file=self._stream, flush=True)
            self._line = ''

    def _describe(self, stage: str, record: Record) -> str:
        t, q, *_ = record.joints[-1]
        height = (forward(self._model, q) @ self._T_tool_tcp)[2, 3]
        gap = OPEN_GAP - sum(record.fingers[-1][1])
        return (
            f'{t:8.2f} s  {stage:<15}  {self._top_speed:9.2f} rad/s  {height:8.3f} m'
            f'  {1e3 * gap:7.1f} mm'
        )


def _joint_speed(record: Record) -> float:
    """Return the speed of the fastest joint [rad/s]."""
    recent = record.joints[-_SPAN:]
    (t0, q0, *_), (t1, q1, *_) = recent[0], recent[-1]
    return float(np.abs(np.subtract(q1, q0)).max() / (t1 - t0)) if t1 > t0 else 0.0
