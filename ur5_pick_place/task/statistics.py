# SPDX-License-Identifier: Apache-2.0
"""Production counters: cycles, parts placed and missed, stops by cause, cycle times."""

import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ur5_pick_place.config_files import read_bytes, write_atomically
from ur5_pick_place.errors import InvalidInput, one_line
from ur5_pick_place.task import events
from ur5_pick_place.task.machine import RUN

_BIN = 0.01
"""Relative width of the bins in which cycle times are counted, and error of the percentiles."""
_MAX_TIME = 1e6  # [s]
_LAST_BIN, _MAX_COUNT = 2000, 1e15  # largest values that a file may have
_MAX_CAUSES = 50
_OTHER = 'other causes'
_MAX_CAUSE = 60  # characters
_FORMAT = 1


@dataclass
class Tally:
    """Sums over cycles."""

    # cycles, placed, missed: cycles completed, parts released at a place, and grasps that closed
    # on nothing
    cycles: int = 0
    placed: int = 0
    missed: int = 0
    stops: dict[str, int] = field(default_factory=dict)  # stops by cause, of all jobs
    timed: int = 0  # cycles in `bins`: all that were completed without a pause
    time: float = 0.0  # their total duration [s]
    # number of durations by bin, which is the logarithm of the duration over that of 1.01
    bins: dict[int, int] = field(default_factory=dict)

    def add_time(self, seconds: float) -> None:
        """Count a cycle's duration [s]."""
        seconds = min(max(seconds, 1e-3), _MAX_TIME)
        k = round(math.log(seconds) / math.log1p(_BIN))
        self.bins[k] = self.bins.get(k, 0) + 1
        self.timed, self.time = self.timed + 1, self.time + seconds

    def add_stop(self, reason: str) -> None:
        """Count a stop under its cause."""
        cause = cause_of(reason)
        if cause not in self.stops and len(self.stops) >= _MAX_CAUSES:
            cause = _OTHER
        self.stops[cause] = self.stops.get(cause, 0) + 1

    @property
    def mean(self) -> float:
        """Mean cycle time [s] of cycles that there must be."""
        return self.time / self.timed

    def percentile(self, share: float) -> float:
        """Return the cycle time [s] that a share of cycles does not exceed; as `mean`."""
        bins = sorted(self.bins)
        counts = itertools.accumulate(self.bins[k] for k in bins)
        k = next(k for k, n in zip(bins, counts, strict=True) if n >= share * self.timed - 1e-9)
        return math.exp(k * math.log1p(_BIN))

    def figures(self) -> dict[str, str]:
        """Return the figures as text, by name."""
        shown = {
            'cycles': str(self.cycles),
            'placed': str(self.placed),
            'missed': str(self.missed),
            'stops': str(sum(self.stops.values())),
        }
        if self.timed:
            shown['cycle time mean [s]'] = f'{self.mean:.2f}'
            shown['cycle time p95 [s]'] = f'{self.percentile(0.95):.2f}'
        for cause, n in sorted(self.stops.items(), key=lambda item: -item[1]):
            shown[f'stopped: {cause}'] = str(n)
        return shown


def cause_of(reason: str) -> str:
    """Return a stop's reason without stage and figures, so that equal causes are counted once."""
    reason = re.sub(r'^stage ([\'"]).*?\1: ', '', reason)
    head = re.split(r'[:;(,]', reason, maxsplit=1)[0]
    text = re.sub(r'[-+]?\d+(\.\d+)?', '#', head).strip()
    printable = ''.join(c if c.isprintable() else ' ' for c in text)
    return printable[:_MAX_CAUSE] or 'no reason given'


class Statistics:
    """
    Production counters from the events of the task, since the node started and in total.

    - `recent`, `total`: since this object was made, and with what the file had before
    - `is_new`: whether `total` has changed since it was saved
    """

    def __init__(self, total: Tally | None = None) -> None:
        self.recent, self.total = Tally(), total or Tally()
        self.is_new = False
        self._begin, self._is_paused = math.nan, False

    def take(self, t: float, event: str, data: Mapping[str, Any]) -> None:
        """Count an event at time `t` [s], with its fields."""
        if event == events.STARTED and data['job'] == RUN:
            self._begin, self._is_paused = t, False
        elif event == events.PLACED:
            for tally in self._tallies():
                tally.placed += 1
        elif event == events.PAUSED:
            self._is_paused = True
        elif event == events.CYCLE_DONE:
            self._end_cycle(t)
        elif event == events.GRASP_MISSED:
            for tally in self._tallies():
                tally.missed += 1
        elif event == events.STOPPED:
            for tally in self._tallies():
                tally.add_stop(str(data['reason']))

    def _end_cycle(self, t: float) -> None:
        for tally in self._tallies():
            tally.cycles += 1
            if not self._is_paused and math.isfinite(self._begin):
                tally.add_time(t - self._begin)
        self._begin, self._is_paused = t, False

    def _tallies(self) -> tuple[Tally, Tally]:
        self.is_new = True
        return self.recent, self.total


def load_statistics(path: Path) -> Tally:
    """
    Return the tally of a file; an empty one if there is no file.

    Raises `InvalidInput`: the file cannot be read, or is not such a tally.
    """
    try:
        data = json.loads(read_bytes(path))
        if data.pop('format') != _FORMAT:
            raise ValueError(f'format must be {_FORMAT}')
        bins = {int(k): _count(n) for k, n in data.pop('bins').items()}
        stops = {one_line(cause): _count(n) for cause, n in data.pop('stops').items()}
        time = float(data.pop('time'))
        counts = {name: _count(n) for name, n in data.items()}
        most = max([abs(time), *counts.values()])  # NaN if the time is
        if any(abs(k) > _LAST_BIN for k in bins) or not most <= _MAX_COUNT:
            raise ValueError('a figure is out of range')
        if (binned := sum(bins.values())) != counts.get('timed'):
            raise ValueError(f'bins has {binned} cycles, timed is {counts.get("timed")}')
        return Tally(**counts, stops=stops, time=time, bins=bins)
    except FileNotFoundError:
        return Tally()
    except (OSError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError,
            RecursionError) as error:
        raise InvalidInput(f'statistics {path} cannot be read: {error}') from error


def save_statistics(path: Path, tally: Tally) -> None:
    """
    Write a tally; a crash leaves the old file or the new one.

    Raises `OSError`: it cannot be written; the old file is left.
    """
    content = json.dumps({'format': _FORMAT, **asdict(tally)}, indent=1)
    write_atomically(path, content.encode())


def _count(n: Any) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise ValueError(f'{n!r} is not a count')
    return n
