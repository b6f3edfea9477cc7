# SPDX-License-Identifier: Apache-2.0
"""
The demo: one command that runs the whole system on the simulated cell.

It starts every node as a process in its own DDS domain, teaches, plans and runs a cycle file, and
writes the results to `out/`.
"""

import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ur5_pick_place.config_files import locked
from ur5_pick_place.demo.options import DemoOptions, read_options
from ur5_pick_place.demo.processes import begin_command, working_folder
from ur5_pick_place.demo.recorded_run import (
    RecordedMessages,
    arm_of,
    record_run,
    write_runs,
)
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.errors import Ur5PickPlaceError
from ur5_pick_place.report.runs import RecordedRun
from ur5_pick_place.sim.physics.scene_boxes import SolidBox
from ur5_pick_place.terminal import Ended, command, signals_raised

if TYPE_CHECKING:
    from ur5_pick_place.report.command import Report
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


@command('demo')
def main() -> int:
    """Run the demo; the exit code is 0 if every cube was placed."""
    begin_command()
    logging.basicConfig(level=logging.WARNING, format='warning: %(message)s')
    try:
        with signals_raised():
            return run(sys.argv[1:])
    except Ended as end:
        message = f'\ndemo: ended by {end}; all processes ended, no unfinished results were kept'
        print(message, file=sys.stderr)
        return 128 + end.number


def run(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    places = ', '.join(f'{name} {spot}' for name, spot in options.task.spots.items())
    print(f'Places: {places}.')
    with working_folder() as work:
        code, runs = 0, list[RecordedMessages]()
        try:
            for method in options.methods:
                runs.append(record_run(method, options, work, sys.stdout))
        except BrokenPipeError:
            raise
        except (Ur5PickPlaceError, OSError) as error:
            print(f'demo: {_reason(error, work)}', file=sys.stderr)
            code = 1
        if runs:  # those of one method are kept even if the next one fails
            code |= _keep(work, options, runs)
    return code


def _keep(work: Path, options: DemoOptions, runs: list[RecordedMessages]) -> int:
    """Write and evaluate the recording, publish and print the results; return the exit code."""
    # A slow import, needed only after the time-critical part.
    from ur5_pick_place.report.command import read_report, run_text

    arm = arm_of(options)
    facts = {
        'real_time_factor': options.rtf,
        'seed': options.seed,
        'mounting': str(options.setup.mounting),
        'gripper': options.setup.gripper,
        'cycle': options.cycle_file.name,
        'grid': options.grid,
        'arm': arm,
    }
    try:
        write_runs(work / RUN_FILE, arm, runs)
        report = read_report(work / RUN_FILE)
        write_result(work, report.runs, facts)
        write_events(work, report.runs)
        whole = (r for r in report.runs if r.motion and r.samples and r.samples.is_complete)
        drawn = next(whole, None)
        if drawn:
            print('Drawing the pictures.')
            draw_pictures(work, drawn, options)
        _write_page(work, report)
        made = publish(work, options.out)
    except (Ur5PickPlaceError, OSError) as error:
        print(f'demo: {_reason(error, work)}', file=sys.stderr)
        return 1
    texts = (run_text(run, with_stages=False) for run in report.runs)
    print('', '\n\n'.join(texts), '', sep='\n')
    files = ', '.join(name for name in FILES if (made / name).exists())
    print(f'{options.out / LATEST} -> {made.name}: {files}')
    failed = [run.result for run in report.runs if not run.result['success']]
    for result in failed:
        print(f'demo: {result["method"]} failed: {result["reason"]}', file=sys.stderr)
    return int(bool(failed))


def _reason(error: Exception, work: Path) -> str:
    """Return the reason of an error; one of writing to a full disk names no file."""
    if not isinstance(error, OSError) or error.filename:
        return str(error)
    return f'{work}: {error}: free some space, or set TMPDIR to a folder on another disk'


def _write_page(work: Path, report: 'Report') -> None:
    """Write `report.html`; the results are kept without it too."""
    from ur5_pick_place.report.command import PAGE, write_page

    now = datetime.now(timezone.utc)
    try:
        write_page(work / PAGE, f'a demo of {now:%Y-%m-%d %H:%M} UTC', report)
    except (Ur5PickPlaceError, OSError) as error:
        logging.warning('%s is not written: %s', PAGE, error)


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


if __name__ == '__main__':
    raise SystemExit(main())
