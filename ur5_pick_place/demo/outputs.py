# SPDX-License-Identifier: Apache-2.0
"""The result files of a demo: result, recording, events, pictures and log, all at once."""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ur5_pick_place.config_files import locked
from ur5_pick_place.demo.options import DemoOptions
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.report.runs import RecordedRun
from ur5_pick_place.sim.physics.scene_boxes import SolidBox

LATEST = 'latest'
RUN_FILE = 'run.mcap'
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


def write_result(folder: Path, runs: Sequence[RecordedRun], facts: Mapping[str, Any]) -> None:
    """Write `result.json`: the runs and facts about them."""
    content = {**facts, 'runs': [run.result for run in runs]}
    text = json.dumps(content, indent=2, allow_nan=False)
    (folder / 'result.json').write_text(text + '\n', encoding='utf-8')


def write_events(folder: Path, runs: Sequence[RecordedRun]) -> None:
    """Write `events.jsonl`: the events of the task nodes, one per line."""
    lines = [json.dumps(event) + '\n' for run in runs for event in run.events]
    (folder / 'events.jsonl').write_text(''.join(lines), encoding='utf-8')


def draw_pictures(folder: Path, run: RecordedRun, options: DemoOptions) -> None:
    """Draw cell, cycle and joints of a run that has samples; without OpenGL the joints alone."""
    # Slow imports, needed only after the time-critical part.
    from ur5_pick_place.demo import pictures
    from ur5_pick_place.report.plots import joints_figure

    assert run.samples and run.motion
    task = options.task
    start, target = default_spots(options.setup)
    boxes = options.setup.scene_content(options.boxes)['boxes']
    film = pictures.Film(
        run.samples,
        (task.start or start).T_base_link_part,
        (task.target or target).T_base_link_part,
        options.setup,
        [SolidBox.from_dict(box) for box in boxes],
    )
    joints_figure(run.told, run.motion).savefig(folder / 'joints.png', dpi=110)
    if pictures.draw_cell(film, folder / 'cell.png'):
        pictures.draw_cycle(film, folder / 'cycle.gif')


def publish(work: Path, out: Path) -> Path:
    """
    Move the finished files to a new folder in `out` and point the symlink `latest` there.

    The folder appears complete or not at all.

    `work`: folder with the files; missing ones are skipped. `out`: created if necessary.

    Returns the new folder, named after the time (UTC).
    """
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):  # against other demos that publish here
        for path in out.iterdir():  # other commands leave files so named here
            if re.fullmatch(_UNFINISHED, path.name) and path.is_dir():
                shutil.rmtree(path)  # left by a demo that was killed
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


def _unused(out: Path, stamp: str) -> Path:
    folder, n = out / stamp, 1
    while folder.exists():
        n += 1
        folder = out / f'{stamp}-{n}'
    return folder
