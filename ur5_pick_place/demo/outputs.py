# SPDX-License-Identifier: Apache-2.0
"""The result files of a demo: result, recording, events, pictures and log, all at once."""

import contextlib
import fcntl
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.demo.options import DemoOptions
from ur5_pick_place.demo.record import Record, RunResult, Task
from ur5_pick_place.demo.spots import Spot, default_spots
from ur5_pick_place.report.time_shares import shares_text
from ur5_pick_place.sim.scene_boxes import load_boxes

LATEST = 'latest'
RUN_FILE = 'run.mcap'
_WITHOUT_GRIP = (
    'without grip offset: the error that the arm causes, not the position of the part in the '
    'gripper'
)
FILES = (
    'result.json',
    'report.html',
    'cell.png',
    'cycle.gif',
    'joints.png',
    RUN_FILE,
    'events.jsonl',
    'nodes.log',
)
"""Files that a results folder may hold."""
_UNFINISHED = r'\.\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ(-\d+)?\.unfinished'


def write_result(folder: Path, results: Sequence[RunResult], facts: Mapping[str, Any]) -> None:
    """Write `result.json`: the runs and facts about them."""
    content = {**facts, 'runs': [plain_result(result) for result in results]}
    text = json.dumps(content, indent=2, allow_nan=False)
    (folder / 'result.json').write_text(text + '\n', encoding='utf-8')


def plain_result(result: RunResult) -> dict[str, Any]:
    """Return a result as JSON values, rounded to six digits."""
    values = asdict(result)
    del values['task']
    task, moved = result.task, result.task.displacement
    return {
        **{name: _rounded(value) for name, value in values.items()},
        **({'start': _plain_spot(task.start)} if task.start else {}),
        **({'target': _plain_spot(task.target)} if task.target else {}),
        'displacement': moved
        and {
            'dx': _rounded(1e3 * moved.dx),
            'dy': _rounded(1e3 * moved.dy),
            'dyaw': _rounded(math.degrees(moved.dyaw)),
        },
    }


def _plain_spot(spot: Spot) -> dict[str, float]:
    """Return a spot as people read it: metres and degrees."""
    return {'x': spot.x, 'y': spot.y, 'yaw': _rounded(math.degrees(spot.yaw))}


def _rounded(value: Any) -> Any:
    """Round to six digits: micrometres, microradians, microseconds."""
    if isinstance(value, tuple):
        return [_rounded(v) for v in value]
    return round(value, 6) if isinstance(value, float) else value


def write_events(folder: Path, events: Sequence[Mapping[str, Any]]) -> None:
    """Append events of the task node to `events.jsonl`, one per line."""
    with (folder / 'events.jsonl').open('a', encoding='utf-8') as file:
        file.writelines(json.dumps(event) + '\n' for event in events)


def draw_pictures(
    folder: Path, record: Record, task: Task, options: DemoOptions, scene_file: Path
) -> None:
    """Draw cell, cycle and joints; without OpenGL the joints alone."""
    if not record.is_complete:
        return
    # A slow import, needed only after the time-critical part.
    from ur5_pick_place.demo import pictures

    times = np.unique([t for t, _ in record.parts])
    start, target = default_spots(options.ur_type)
    recording = pictures.RunSamples(
        t=times,
        q=record.joints_at(times),
        fingers=record.fingers_at(times),
        T_base_link_parts=record.parts_at(times),
        T_start=(task.start or start).T_base_link_part,
        T_target=(task.target or target).T_base_link_part,
        boxes=load_boxes(scene_file),
        ur_type=options.ur_type,
        gripper=options.gripper,
    )
    t, q, _, q_planned = (np.array(column) for column in zip(*record.joints, strict=True))
    pictures.plot_joints((t, q_planned), (t, q), folder / 'joints.png')
    if pictures.draw_cell(recording, folder / 'cell.png'):
        pictures.draw_cycle(recording, folder / 'cycle.gif')


def publish(work: Path, out: Path) -> Path:
    """
    Move the finished files to a new folder in `out` and point the symlink `latest` there.

    The folder appears complete or not at all.

    Parameters
    ----------
    work : Path
        Folder with the files; missing ones are skipped.
    out : Path
        Created if necessary.

    Returns
    -------
    Path
        The new folder, named after the time (UTC).

    """
    out.mkdir(parents=True, exist_ok=True)
    with _alone_in(out):
        for remains in filter(_is_unfinished, out.iterdir()):
            shutil.rmtree(remains)  # left by a demo that was killed here
        folder = _unused(out, datetime.now(timezone.utc).strftime('%Y-%m-%dT%H-%M-%SZ'))
        unfinished = out / f'.{folder.name}.unfinished'
        unfinished.mkdir()
        try:
            for name in FILES:
                if (work / name).exists():
                    shutil.copyfile(work / name, unfinished / name)
            os.replace(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        link = out / f'.{LATEST}.unfinished.link'
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
        os.replace(link, out / LATEST)
    return folder


def _is_unfinished(path: Path) -> bool:
    """Return whether this is a folder of `publish`: other commands leave files so named here."""
    return bool(re.fullmatch(_UNFINISHED, path.name)) and path.is_dir()


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder against other demos that publish here."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _unused(out: Path, stamp: str) -> Path:
    folder, n = out / stamp, 1
    while folder.exists():
        n += 1
        folder = out / f'{stamp}-{n}'
    return folder


def table(results: Sequence[RunResult]) -> str:
    """Return the runs as a text table, and below it where the time of each went."""
    rows = [(
            'method',
            'result',
            'placement error',
            'without grip offset',
            'cycle',
            'planning',
            'max TCP speed',
        )]
    rows += [
        (
            r.method,
            'placed' if r.success else 'FAILED',
            _apart(r.placement_error_m, r.placement_error_rad),
            _apart(r.in_hand_error_m, r.in_hand_error_rad),
            _number(r.cycle_time_s, '.2f', 's'),
            _number(r.planning_time_s, '.2f', 's'),
            _number(r.max_tcp_speed_m_s, '.2f', 'm/s'),
        )
        for r in results
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ('  '.join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    shares = (f'{r.method}: {shares_text(vars(r))}' for r in results)
    return '\n'.join([*(line.rstrip() for line in lines), _WITHOUT_GRIP, '', *shares])


def _apart(miss: float | None, turn: float | None) -> str:
    if miss is None or turn is None:
        return '-'
    return f'{1e3 * miss:.2f} mm {math.degrees(turn):.2f} deg'


def _number(value: float | None, form: str, unit: str) -> str:
    return '-' if value is None else f'{value:{form}} {unit}'
