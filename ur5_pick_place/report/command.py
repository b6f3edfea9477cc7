# SPDX-License-Identifier: Apache-2.0
"""
Summarise a recorded run as text and as an HTML page with plots.

Reads the results of a demo (a folder of out/), an MCAP file (run.mcap, or a record of the flight
recorder), or a rosbag2 folder of a robot (MCAP or sqlite3). Of a folder with several recordings it
takes the newest. With --history it prints the production counters instead.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ur5_pick_place.config_files import user_path, write_atomically
from ur5_pick_place.errors import InvalidInput, MissingPackage, Ur5PickPlaceError, one_line
from ur5_pick_place.nodes.pick_place.statistics_file import statistics_path
from ur5_pick_place.report.page import facts, page, remark_text
from ur5_pick_place.report.recording import newest_recording, read_recording
from ur5_pick_place.report.runs import RecordedRun, recorded_runs
from ur5_pick_place.report.time_shares import shares_lines
from ur5_pick_place.report.topics import is_wanted
from ur5_pick_place.task.statistics import Tally, load_statistics
from ur5_pick_place.terminal import Parser, number_within, quiet_pipe, reading

PAGE = 'report.html'
_DEFAULT = Path('out/latest')
_EPILOG = (
    'Times are those of the robot, simulated in a simulated cell. Writes report.html to the\n'
    'folder, or a page beside the file. Exit code: 0 if something could be read, even if the run\n'
    'failed or the recording is damaged; 2 otherwise. Example: report out/latest'
)
FOLDER = Path('~/.ros/ur5_pick_place')
"""Where each robot's taught poses and statistics are by default."""

_NAMES = statistics_path(Path('*.yaml')).name

History = tuple[Path, Tally]  # a file of statistics, and what it counts


@dataclass(frozen=True)
class Report:
    runs: list[RecordedRun]
    problems: list[str]  # what could not be read
    contents: str  # what the recording contains, as one line


@quiet_pipe()
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    given = _parser().parse_args(argv)
    try:
        if given.history:
            return _history(given.path or user_path(FOLDER), given.json)
        path = given.path or _DEFAULT
        _check_exists(path)
        path, note = newest_recording(path)
        if note:
            print(f'report: {one_line(note)}', file=sys.stderr)
        if given.replay:
            print(_replay(path, given.rate))
            return 0
        found = read_report(path)
    except BrokenPipeError:
        raise
    except (Ur5PickPlaceError, OSError) as error:
        print(f'report: {error}', file=sys.stderr)
        return 2
    if found.problems:
        print(f'report: {"; ".join(map(one_line, found.problems))}', file=sys.stderr)
    if given.json:
        print(json.dumps([run.told for run in found.runs], indent=2))
        return 0
    print(f'{one_line(found.contents)}\n')
    print('\n\n'.join(map(run_text, found.runs)))
    html = path / PAGE if path.is_dir() else path.with_suffix('.html')
    try:
        write_page(html, path.resolve().name, found)
    except (MissingPackage, OSError) as error:
        print(f'report: no HTML page was written: {error}', file=sys.stderr)
        return 0
    print(f'\nHTML page with plots: {one_line(html)}')
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog='report',
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        'path',
        nargs='?',
        type=reading(user_path),
        help=f'default: {_DEFAULT}; with --history {FOLDER}',
    )
    parser.add_argument('--json', action='store_true', help='print JSON; write no HTML page')
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        '--replay',
        action='store_true',
        help='publish a recording instead, for RViz or the cockpit, on ROS_DOMAIN_ID',
    )
    instead.add_argument(
        '--history',
        action='store_true',
        help='print the production counters: cycles, parts, stops by cause and cycle times',
    )
    parser.add_argument(
        '--rate',
        type=number_within(0.01, 100.0),
        default=1.0,
        help='of --replay: recorded seconds per second',
    )
    return parser


def _history(path: Path, as_json: bool) -> int:
    histories, problems = read_history(path)
    if problems:
        print(f'report: {"; ".join(problems)}', file=sys.stderr)
    if as_json:
        print(json.dumps(history_json(histories), indent=2))
    else:
        print('\n\n'.join(history_table(*history) for history in histories))
    return 0


def _replay(path: Path, rate: float) -> str:
    """Publish a recording; return what was done."""
    try:
        from ur5_pick_place.report.replay import replay
    except ImportError as error:
        raise MissingPackage(f'a replay needs ROS 2 ({error})') from error
    return replay(path, rate)


def write_page(path: Path, name: str, report: Report) -> None:
    """
    Write the HTML page of a report.

    `path`: the page; pictures in its folder become part of it. `name`: of the recording, for the
    title.

    Raises `MissingPackage`: Jinja2 is not installed; `OSError`: the page cannot be written; what
    was there before still is.
    """
    text = page(path.parent, name, report.runs, [report.contents, *report.problems])
    write_atomically(path, text.encode(errors='backslashreplace'))


def read_report(path: Path) -> Report:
    """
    Return what is known of the runs of a recording, a file or a folder.

    All recordings in a folder count as one; see `newest_recording`.

    Raises `Ur5PickPlaceError`: nothing could be read; gives the reason.
    """
    _check_exists(path)
    recording = read_recording(path, is_wanted)
    try:
        runs = recorded_runs(recording)
    except InvalidInput as error:
        why = '; '.join([*recording.problems, str(error)])
        raise InvalidInput(f'{path}: nothing to report could be read: {why}') from error
    seconds = (recording.end - recording.begin) * 1e-9
    contents = (
        f'{path.absolute().name}: {seconds:.1f} s, {recording.count} messages on '
        f'{len(recording.counts)} topics'
    )
    return Report(runs, recording.problems, contents)


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise InvalidInput(
            f'{path}: no such folder; run `demo` first, or give a folder with its results, or a '
            'recording'
        )


def run_text(run: RecordedRun, with_stages: bool = True) -> str:
    """Return a run as text, its figures alone or with stages and remarks too."""
    told = run.told
    lines = [_heading(told), *(f'  {name}: {value}' for name, value in facts(told, run.motion))]
    lines += shares_lines(told)
    if with_stages:
        if told['stages'] or 'outcome' not in told:
            lines.append(f'  {"stage":20}{"start [s]":>12}{"duration [s]":>14}')
        lines += [
            f'  {s["stage"]:20}{s["begin_s"]:12.2f}{s["duration_s"]:14.2f}  {s["remark"]}'.rstrip()
            for s in told['stages']
        ]
        lines += [f'  {r["time_s"]:.2f} s: {remark_text(r)}' for r in told['remarks']]
    return '\n'.join(map(one_line, lines))


def _heading(run: Mapping[str, Any]) -> str:
    if 'outcome' in run:
        reason = f': {run["reason"]}' if run['reason'] else ''
        return f'{run["method"]}: {run["outcome"]}{reason}'
    return f'{run["method"]}: ' + ('placed' if run['success'] else f'FAILED: {run["reason"]}')


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


if __name__ == '__main__':
    raise SystemExit(main())
