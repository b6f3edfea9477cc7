# SPDX-License-Identifier: Apache-2.0
"""The statistics of a cell, kept in a file beside its taught poses."""

import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.statistics import Statistics, load_statistics, save_statistics

_AGAIN = 10.0  # [s] after which a file that could not be written is written again


def statistics_path(poses_file: Path) -> Path:
    """Return where the statistics of the robot are kept whose poses are in a file."""
    return poses_file.with_name(f'{poses_file.stem}_statistics.json')


class StatisticsFile:
    """
    Counts events and saves each change, in a thread of its own: a disk may be slow.

    A file that cannot be read is renamed, not overwritten.

    `warn`: takes the text of a warning.
    """

    def __init__(self, path: Path, warn: Callable[[str], object]) -> None:
        self._path, self._warn = path, warn
        self._lock, self._changed = threading.Lock(), threading.Event()
        self._is_failing = False
        self._statistics = Statistics(self._load())
        threading.Thread(target=self._keep_saving, daemon=True).start()

    def take(self, t: float, event: str, data: Mapping[str, Any]) -> None:
        """Count an event at time `t` [s], with its fields."""
        with self._lock:
            self._statistics.take(t, event, data)
            if self._statistics.is_new:
                self._changed.set()

    def figures(self) -> dict[str, str]:
        """Return the counters since the node started, and in total, as text by name."""
        with self._lock:
            recent, total = self._statistics.recent, self._statistics.total
            figures = {name: f'{value} since start' for name, value in recent.figures().items()}
            for name, value in total.figures().items():
                figures[name] = f'{figures.get(name, "0 since start")}, {value} in all'
        return figures

    def _load(self) -> Any:
        try:
            return load_statistics(self._path)
        except InvalidInput as error:
            aside = self._path.with_name(f'{self._path.name}.unreadable')
            try:
                self._path.rename(aside)
                self._warn(f'{error}; kept as {aside.name}, the counters restart at 0')
            except OSError as why:
                self._warn(f'{error}; the counters restart at 0 ({why})')
            return None

    def _keep_saving(self) -> None:
        while True:
            self._changed.wait(_AGAIN if self._is_failing else None)
            self._changed.clear()
            with self._lock:
                total, self._statistics.is_new = deepcopy(self._statistics.total), False
            try:
                save_statistics(self._path, total)
                self._is_failing = False
            except OSError as error:
                if not self._is_failing:  # one warning for a full disk, not one a cycle
                    self._warn(f'statistics {self._path} cannot be written: {error}')
                self._is_failing = True
