# SPDX-License-Identifier: Apache-2.0
"""
Summarise a recorded run as text and as an HTML page with plots.

Reads the results of a demo (a folder of out/), an MCAP file (run.mcap, or a record of the flight
recorder), or a rosbag2 folder of a robot (MCAP or sqlite3). Of a folder with several recordings it
takes the newest. With --history it prints the production counters instead.

"""

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ur5_pick_place.config_files import user_path
from ur5_pick_place.demo.outputs import RUN_FILE
from ur5_pick_place.errors import InvalidInput, MissingPackage, Ur5PickPlaceError, one_line
from ur5_pick_place.report.events import Event, is_event, is_result, split_runs, story
from ur5_pick_place.report.history import (
    FOLDER,
    history_json,
    history_text,
    read_history,
)
from ur5_pick_place.report.motion import RunKinematics
from ur5_pick_place.report.page import error_text, number, page
from ur5_pick_place.report.recording import (
    Recording,
    newest_recording,
    read_recording,
    recording_files,
)
from ur5_pick_place.report.runs import RecordedRuns, recorded_runs, summary
from ur5_pick_place.report.time_shares import shares_text
from ur5_pick_place.report.topics import is_wanted
from ur5_pick_place.terminal import INTERRUPTED, Parser, number_within, quiet_pipe

PAGE = 'report.html'
_DEFAULT = Path('out/latest')
_EPILOG = (
    'Times are those of the robot, simulated in a simulated cell. Writes report.html to the\n'
    'folder, or a page beside the file. Exit code: 0 if something could be read, even if the run\n'
    'failed or the recording is damaged; 2 otherwise. Example: report out/latest'
)


@dataclass(frozen=True)
class Report:
    """
    What is reported.

    Attributes
    ----------
    runs : list of dict
        See `read_runs` and `recorded_runs`.
    motions : dict of str to RunKinematics
        By `method` of the run.
    problems : list of str
        What could not be read.
    contents : str
        What a recording contains; empty for results of a demo.

    """

    runs: list[dict[str, Any]]
    motions: dict[str, RunKinematics] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    contents: str = ''


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
    except KeyboardInterrupt:  # of a replay
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (Ur5PickPlaceError, OSError) as error:
        print(f'report: {error}', file=sys.stderr)
        return 2
    if found.problems:
        print(f'report: {"; ".join(map(one_line, found.problems))}', file=sys.stderr)
    if given.json:
        print(json.dumps(found.runs, indent=2))
        return 0
    if found.contents:
        print(f'{one_line(found.contents)}\n')
    print('\n\n'.join(map(_text, found.runs)))
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
        'path', nargs='?', type=user_path, help=f'default: {_DEFAULT}; with --history {FOLDER}'
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
    print(json.dumps(history_json(histories), indent=2) if as_json else history_text(histories))
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

    Parameters
    ----------
    path : Path
        The page; pictures in its folder become part of it.
    name : str
        Of the recording, for the title.

    Raises
    ------
    MissingPackage
        Jinja2 is not installed.
    OSError
        The page cannot be written; what was there before still is.

    """
    notes = [*filter(None, [report.contents]), *report.problems]
    text = page(path.parent, name, report.runs, report.motions, notes)
    unfinished = path.with_name(f'.{path.name}.unfinished')
    try:
        unfinished.write_text(text, encoding='utf-8', errors='backslashreplace')
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def read_report(path: Path) -> Report:
    """
    Return what is known of a run, from any of the files that `report` reads.

    All recordings in a folder count as one; see `newest_recording`.

    Raises
    ------
    Ur5PickPlaceError
        Nothing could be read; gives the reason.

    """
    _check_exists(path)
    if (path / 'result.json').exists():
        return _results_report(path)
    return _recording_report(path) if recording_files(path) else _results_report(path)


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise InvalidInput(
            f'{path}: no such folder; run `demo` first, or give a folder with its results, or a '
            'recording'
        )


def _results_report(folder: Path) -> Report:
    runs = read_runs(folder)
    try:
        motions, problems = _motions(folder)
    except Ur5PickPlaceError as error:
        motions, problems = {}, [f'no plots: {error}']
    return Report(runs, motions, problems)


def _recording_report(path: Path) -> Report:
    recording, found = _recorded(path)
    return Report(found.runs, found.motions, recording.problems, summary(recording, path))


def _recorded(path: Path) -> tuple[Recording, RecordedRuns]:
    recording = read_recording(path, is_wanted)
    try:
        return recording, recorded_runs(recording)
    except InvalidInput as error:
        why = '; '.join([*recording.problems, str(error)])
        raise InvalidInput(f'{path}: nothing to report could be read: {why}') from error


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """
    Return the runs of a results folder: result, stages, remarks and planned motions of each.

    Raises
    ------
    InvalidInput
        A file is missing or invalid; names the file and the line.

    """
    runs = _results(folder / 'result.json')
    path = folder / 'events.jsonl'
    parts = split_runs(_events(path))
    if len(parts) != len(runs):
        raise InvalidInput(
            f'{path}: has events of {len(parts)} runs, but result.json has {len(runs)} runs: a '
            'run ended before its first event; see nodes.log'
        )
    try:
        return [{**run, **story(part)} for run, part in zip(runs, parts, strict=True)]
    except (KeyError, TypeError) as error:
        raise InvalidInput(f'{path}: an event lacks {error}: not written by `demo`') from error


def read_motions(folder: Path) -> dict[str, RunKinematics]:
    """
    Return the recorded motion of each run, by method; runs without joints are left out.

    Raises
    ------
    Ur5PickPlaceError
        `run.mcap` cannot be read at all.

    """
    return _motions(folder)[0]


def _motions(folder: Path) -> tuple[dict[str, RunKinematics], list[str]]:
    """Return the motions of a results folder, and what of its recording could not be read."""
    path = folder / RUN_FILE
    if not path.exists():
        return {}, []
    recording, found = _recorded(path)
    return found.motions, recording.problems


def _results(path: Path) -> list[dict[str, Any]]:
    content = _json(_read(path), str(path))
    runs = content.get('runs') if isinstance(content, dict) else None
    if not isinstance(runs, list) or not runs or not all(map(is_result, runs)):
        raise InvalidInput(f'{path}: must have "runs", a list of results as written by `demo`')
    return runs


def _events(path: Path) -> list[Event]:
    events = []
    for i, line in enumerate(_read(path).splitlines(), 1):
        event = _json(line, f'{path}, line {i}')
        if not is_event(event):
            raise InvalidInput(f'{path}, line {i}: not an event as written by `demo`')
        events.append(event)
    return events


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f'{path}: {error}; give a folder with results of `demo`') from error


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f'{where}: invalid JSON: {error}') from error


def _text(run: Mapping[str, Any]) -> str:
    lines = [_heading(run)]
    if 'placement_error_m' in run:
        lines.append(
            f'  placement error {error_text(run, "placement")}, '
            f'without grip offset {error_text(run, "in_hand")}'
        )
    figures = [('cycle', 'cycle_time_s', 's'), ('planning', 'planning_time_s', 's')]
    figures.append(('max TCP speed', 'max_tcp_speed_m_s', 'm/s'))
    texts = [f'{title} {number(run[key], unit)}' for title, key, unit in figures if key in run]
    lines.append(f'  {", ".join(texts)}')
    if 'outcome' not in run:
        lines += f'  {shares_text(run)}'.splitlines()
    if run['stages'] or 'outcome' not in run:
        lines.append(f'  {"stage":20}{"start [s]":>12}{"duration [s]":>14}')
    lines += [
        f'  {s["stage"]:20}{s["begin_s"]:12.2f}{s["duration_s"]:14.2f}  {s["remark"]}'.rstrip()
        for s in run['stages']
    ]
    for r in run['remarks']:
        where = f' at stage {r["stage"]!r}' if r.get('stage') else ''
        lines.append(f'  {r["time_s"]:.2f} s: {r["what"]}{where}: {r["text"]}'.rstrip(': '))
    return '\n'.join(map(one_line, lines))


def _heading(run: Mapping[str, Any]) -> str:
    if 'outcome' in run:
        reason = f': {run["reason"]}' if run['reason'] else ''
        return f'{run["method"]}: {run["outcome"]}{reason}'
    return f'{run["method"]}: ' + ('placed' if run['success'] else f'FAILED: {run["reason"]}')


if __name__ == '__main__':
    sys.exit(main())
