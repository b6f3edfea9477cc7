# SPDX-License-Identifier: Apache-2.0
"""The production statistics of cells as text: what each has counted since it was set up."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ur5_pick_place.errors import InvalidInput, one_line
from ur5_pick_place.nodes.pick_place.statistics_file import statistics_path
from ur5_pick_place.task.statistics import Tally, load_statistics

FOLDER = Path('~/.ros/ur5_pick_place')
"""Where each robot's taught poses and statistics are by default."""

_NAMES = statistics_path(Path('*.yaml')).name

History = tuple[Path, Tally]  # a file of statistics, and what it counts


def read_history(path: Path) -> tuple[list[History], list[str]]:
    """
    Return the statistics in a file, or in each file of a folder, and what could not be read.

    Raises `InvalidInput`: there are none, or none could be read.
    """
    files = sorted(path.glob(_NAMES)) if path.is_dir() else [path] if path.exists() else []
    if not files:
        raise InvalidInput(
            f'{path}: no statistics ({_NAMES}): the task node writes them beside its poses_file '
            'at the first cycle or stop; give their folder'
        )
    found, problems = [], []
    for file in files:
        try:
            found.append((file, load_statistics(file)))
        except InvalidInput as error:
            problems.append(one_line(error))
    if not found:
        raise InvalidInput('; '.join(problems))
    return found, problems


def history_json(histories: Sequence[History]) -> list[dict[str, Any]]:
    """Return the figures as JSON values; times in seconds, None without cycles."""
    return [
        {
            'file': str(path),
            'cycles': tally.cycles,
            'placed': tally.placed,
            'missed': tally.missed,
            'stops': tally.stops,
            'cycle_time_mean_s': round(tally.mean, 3) if tally.timed else None,
            'cycle_time_p95_s': round(tally.percentile(0.95), 3) if tally.timed else None,
        }
        for path, tally in histories
    ]


def history_table(path: Path, tally: Tally) -> str:
    """Return the figures of one file as a table."""
    changed = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    figures = {one_line(name): value for name, value in tally.figures().items()}
    name_width, width = (max(map(len, column)) for column in (figures, figures.values()))
    rows = [f'  {name:{name_width}}  {value:>{width}}' for name, value in figures.items()]
    return '\n'.join([f'{path}, last written {changed:%Y-%m-%d %H:%M} UTC', *rows])
