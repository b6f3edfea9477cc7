# SPDX-License-Identifier: Apache-2.0
"""Joints of recorded runs as a CSV file, one row per driver cycle."""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array

JointSample = tuple[float, Sequence[float], Sequence[float], Sequence[float]]
"""Simulated time [s], measured joints [rad] and their velocities [rad/s], reference [rad]."""

_QUANTITIES = ('position', 'velocity', 'reference')
_HEADING = ['method', 'time', *(f'{name}.{what}' for what in _QUANTITIES for name in JOINT_NAMES)]
_REFERENCE = 2 + 2 * len(JOINT_NAMES)  # first of its columns
_DIGITS = 6


@dataclass(frozen=True)
class RecordedJoints:
    """
    Joints of one run.

    Attributes
    ----------
    t : ndarray, shape (n,)
        Simulated time [s], increasing; same clock as the events.
    q, qd : ndarray, shape (n, 6)
        Measured joints [rad, rad/s].
    q_reference : ndarray, shape (n, 6)
        Reference of the controller [rad]; NaN without one.

    """

    t: Array
    q: Array
    qd: Array
    q_reference: Array


def add_joints(path: Path, method: str, samples: Iterable[JointSample]) -> None:
    """Append a run to a file or create it; a reference that is not finite is left empty."""
    is_new = not path.exists()
    with path.open('a', encoding='utf-8', newline='') as file:
        table = csv.writer(file)
        if is_new:
            table.writerow(_HEADING)
        for t, *rows in samples:
            table.writerow([method, _cell(t), *(_cell(v) for row in rows for v in row)])


def read_joints(path: Path) -> dict[str, RecordedJoints]:
    """
    Return the joints of each run by its method.

    Raises
    ------
    InvalidInput
        The file cannot be read, or was not written by `add_joints`; names the line.

    """
    try:
        with path.open(encoding='utf-8', newline='') as file:
            lines = list(csv.reader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f'{path}: {error}; run the demo again') from error
    if not lines or lines[0] != _HEADING:
        raise InvalidInput(f'{path}: must begin with the heading {",".join(_HEADING[:3])},…')
    runs: dict[str, list[list[float]]] = {}
    for number, cells in enumerate(lines[1:], 2):
        row = _row(cells, f'{path}, line {number}')
        rows = runs.setdefault(cells[0], [])
        if rows and row[0] <= rows[-1][0]:
            raise InvalidInput(
                f'{path}, line {number}: time {row[0]} s: must be after {rows[-1][0]} s of the '
                'previous row of this method'
            )
        rows.append(row)
    return {method: _recorded(np.array(rows)) for method, rows in runs.items()}


def _cell(value: float) -> str:
    return f'{value:.{_DIGITS}f}' if math.isfinite(value) else ''


def _row(cells: Sequence[str], where: str) -> list[float]:
    if len(cells) != len(_HEADING):
        raise InvalidInput(f'{where}: {len(cells)} columns: must be {len(_HEADING)}')
    return [_number(i, cell, where) for i, cell in enumerate(cells[1:], 1)]


def _number(column: int, cell: str, where: str) -> float:
    if not cell and column >= _REFERENCE:
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInput(f'{where}: {_HEADING[column]} = {cell!r}: must be a finite number')
    return value


def _recorded(rows: Array) -> RecordedJoints:
    q, qd, q_reference = np.split(rows[:, 1:], 3, axis=1)
    return RecordedJoints(rows[:, 0], q, qd, q_reference)
