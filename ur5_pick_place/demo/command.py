# SPDX-License-Identifier: Apache-2.0
"""
The demo: one command that runs the whole system on the simulated cell.

It starts every node as a process in its own DDS domain, teaches, plans and runs a cycle file, and
writes the results to `out/`.
"""

import logging
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from ur5_pick_place.demo.options import DemoOptions, read_options
from ur5_pick_place.demo.outputs import (
    FILES,
    LATEST,
    RUN_FILE,
    draw_pictures,
    publish,
    write_events,
    write_result,
)
from ur5_pick_place.demo.processes import begin_command, working_folder
from ur5_pick_place.demo.recorded_run import (
    RecordedMessages,
    arm_of,
    record_run,
    write_runs,
)
from ur5_pick_place.errors import Ur5PickPlaceError
from ur5_pick_place.terminal import Ended, command, signals_raised

if TYPE_CHECKING:
    from ur5_pick_place.report.command import Report


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


if __name__ == '__main__':
    raise SystemExit(main())
