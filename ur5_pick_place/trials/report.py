# SPDX-License-Identifier: Apache-2.0
"""`report`: summarise a recorded demo run as text and as an HTML page with plots."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.events import (
    CYCLE_DONE,
    DONE,
    GRASP_MISSED,
    GRASP_UNVERIFIED,
    PART_LOST,
    PAUSED,
    PLAN_REPORT,
    REFUSED,
    RESUMED,
    STAGE,
    STOPPED,
    WAITING,
)
from ur5_pick_place.task.plan_report import cells
from ur5_pick_place.terminal import quiet_pipe
from ur5_pick_place.trials.joints_file import read_joints
from ur5_pick_place.trials.report_motion import Motion, motion_of
from ur5_pick_place.trials.report_page import apart, number, page
from ur5_pick_place.trials.time_shares import FLOOR, SHARES, shares_text

Event = Mapping[str, Any]

_EPILOG = (
    'Times are simulated. Writes report.html to the folder. Exit code: 0 if the folder could be '
    'read, even if the run failed; 2 otherwise. Example: report out/latest'
)
_RUN = 'run'  # the job that runs the cycle
_WORDS = ('event', 'job', 'stage', 'remark', 'reason')
_FIGURES = (
    'placement_error_m',
    'placement_error_rad',
    'in_hand_error_m',
    'in_hand_error_rad',
    'cycle_time_s',
    'planning_time_s',
    'max_tcp_speed_m_s',
)
_SHARES = (FLOOR, *SHARES)
_REMARKS = (WAITING, GRASP_MISSED, GRASP_UNVERIFIED, PART_LOST, REFUSED, STOPPED)


@quiet_pipe()
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    parser = argparse.ArgumentParser(prog='report', description=__doc__, epilog=_EPILOG)
    parser.add_argument(
        'folder', nargs='?', type=Path, default=Path('out/latest'), help='default: %(default)s'
    )
    parser.add_argument('--json', action='store_true', help='print JSON; write no HTML page')
    given = parser.parse_args(argv)
    try:
        if not given.folder.is_dir():
            raise InvalidInput(
                f'{given.folder}: no such folder; run `demo` first, or give a folder with its '
                'results'
            )
        found = read_runs(given.folder)
        if given.json:
            print(json.dumps(found, indent=2))
            return 0
        print('\n\n'.join(map(_text, found)))
        path = given.folder / 'report.html'
        path.write_text(page(given.folder, found, read_motions(given.folder)), encoding='utf-8')
    except BrokenPipeError:
        raise
    except (InvalidInput, OSError) as error:
        print(f'report: {error}', file=sys.stderr)
        return 2
    print(f'\nHTML page with plots: {path}')
    return 0


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
    parts = _parts(_events(path))
    if len(parts) != len(runs):
        raise InvalidInput(
            f'{path}: has events of {len(parts)} runs, but result.json has {len(runs)} runs: a '
            'run ended before its first event; see nodes.log'
        )
    try:
        return [
            {**run, 'stages': _stages(part), 'remarks': _remarks(part), 'plan': _plan(part)}
            for run, part in zip(runs, parts, strict=True)
        ]
    except (KeyError, TypeError) as error:
        raise InvalidInput(f'{path}: an event lacks {error}: not written by `demo`') from error


def read_motions(folder: Path) -> dict[str, Motion]:
    """
    Return the recorded motion of each run, by method; runs without joints are left out.

    Raises
    ------
    InvalidInput
        `joints.csv` is invalid, or `result.json` lacks the facts of the arm.

    """
    if not (folder / 'joints.csv').exists():
        return {}
    joints, path = read_joints(folder / 'joints.csv'), folder / 'result.json'
    arm = _json(_read(path), str(path)).get('arm')
    try:
        motions = {method: motion_of(recorded, arm) for method, recorded in joints.items()}
    except InvalidInput as error:
        raise InvalidInput(f'{path}: {error}') from error
    return {method: motion for method, motion in motions.items() if motion}


def _results(path: Path) -> list[dict[str, Any]]:
    content = _json(_read(path), str(path))
    runs = content.get('runs') if isinstance(content, dict) else None
    if not isinstance(runs, list) or not runs or not all(map(_is_result, runs)):
        raise InvalidInput(f'{path}: must have "runs", a list of results as written by `demo`')
    return runs


def _is_result(run: Any) -> bool:
    return (
        isinstance(run, dict)
        and {'success', *_FIGURES} <= run.keys()
        and all(isinstance(run.get(name), str) for name in ('method', 'reason'))
        and all(
            isinstance(run.get(name), (int, float, type(None))) for name in (*_FIGURES, *_SHARES)
        )
        and len({run.get(name) is None for name in _SHARES}) == 1
        and all(map(_is_spot, (run[name] for name in ('start', 'target') if name in run)))
    )


def _is_spot(spot: Any) -> bool:
    return isinstance(spot, dict) and all(
        isinstance(spot.get(name), (int, float)) for name in ('x', 'y', 'yaw')
    )


def _events(path: Path) -> list[Event]:
    events = []
    for i, line in enumerate(_read(path).splitlines(), 1):
        event = _json(line, f'{path}, line {i}')
        if not _is_event(event):
            raise InvalidInput(f'{path}, line {i}: not an event as written by `demo`')
        events.append(event)
    return events


def _is_event(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and 'event' in event
        and isinstance(event.get('time'), (int, float))
        and all(isinstance(event.get(name, ''), str) for name in _WORDS)
        and (event['event'] != PLAN_REPORT or _are_rows(event.get('rows')))
    )


def _are_rows(rows: Any) -> bool:
    try:
        return isinstance(rows, list) and all(map(cells, rows))
    except (KeyError, TypeError, ValueError):
        return False


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


def _parts(events: Sequence[Event]) -> list[list[Event]]:
    """Split the events of several runs where the clock restarts."""
    parts: list[list[Event]] = []
    for event in events:
        if not parts or event['time'] < parts[-1][-1]['time']:
            parts.append([])
        parts[-1].append(event)
    return parts


def _stages(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return name, begin and duration [s] of each stage of the cycle."""
    begins = [i for i, event in enumerate(events) if event['event'] == STAGE]
    stages = []
    for i in begins:
        event = events[i]
        end = next((e['time'] for e in events[i + 1 :] if _ends_stage(e)), events[-1]['time'])
        stages.append(
            {
                'stage': event['stage'],
                'begin_s': event['time'],
                'duration_s': round(end - event['time'], 3),
                'remark': event['remark'],
            }
        )
    return stages


def _ends_stage(event: Event) -> bool:
    if event['event'] in (DONE, STOPPED):
        return bool(event['job'] == _RUN)
    return event['event'] in (STAGE, CYCLE_DONE)


def _remarks(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return pauses, retries and stops: time [s], what, and the reason or duration."""
    remarks = []
    for i, event in enumerate(events):
        if event['event'] == PAUSED:
            resumed = (e['time'] for e in events[i + 1 :] if e['event'] in (RESUMED, STOPPED))
            text = f'{next(resumed, events[-1]["time"]) - event["time"]:.2f} s'
        elif event['event'] in _REMARKS:
            text = event.get('reason', '')
        else:
            continue
        where = {'stage': event['stage']} if 'stage' in event else {}
        what = event['event'].replace('_', ' ')
        remarks.append({'time_s': event['time'], 'what': what, **where, 'text': text})
    return remarks


def _plan(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the rows of the last plan report, [] without one."""
    rows = [event['rows'] for event in events if event['event'] == PLAN_REPORT]
    return rows[-1] if rows else []


def _text(run: Mapping[str, Any]) -> str:
    lines = [f'{run["method"]}: ' + ('placed' if run['success'] else f'FAILED: {run["reason"]}')]
    lines += [
        f'  placement error {apart(run, "placement")}, in-hand error {apart(run, "in_hand")}',
        f'  cycle {number(run["cycle_time_s"], "s")}, planning '
        f'{number(run["planning_time_s"], "s")}, max TCP speed '
        f'{number(run["max_tcp_speed_m_s"], "m/s")}',
        f'  {shares_text(run)}',
        f'  {"stage":20}{"start [s]":>12}{"duration [s]":>14}',
    ]
    lines += [
        f'  {s["stage"]:20}{s["begin_s"]:12.2f}{s["duration_s"]:14.2f}  {s["remark"]}'.rstrip()
        for s in run['stages']
    ]
    for r in run['remarks']:
        where = f' at stage {r["stage"]!r}' if 'stage' in r else ''
        lines.append(f'  {r["time_s"]:.2f} s: {r["what"]}{where}: {r["text"]}'.rstrip(': '))
    return '\n'.join(lines)


if __name__ == '__main__':
    sys.exit(main())
