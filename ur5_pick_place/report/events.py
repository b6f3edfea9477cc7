# SPDX-License-Identifier: Apache-2.0
"""What result and events of a run contain: stages, remarks and the planned motions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ur5_pick_place.settings import is_finite_number
from ur5_pick_place.task.events import (
    CYCLE_DONE,
    DONE,
    FIELDS,
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
from ur5_pick_place.task.machine import RUN
from ur5_pick_place.task.plan_report import COLUMNS

Event = Mapping[str, Any]

_WORDS = ('event', 'job', 'stage', 'remark', 'reason')
_REMARKS = (WAITING, GRASP_MISSED, GRASP_UNVERIFIED, PART_LOST, REFUSED, STOPPED)


def valid_events(events: Sequence[Event]) -> list[Event]:
    """Return those events that have every field that the task writes."""
    return [
        event
        for event in events
        if _is_event(event) and set(FIELDS.get(event['event'], ())) <= event.keys()
    ]


def story(events: Sequence[Event], end: float = -math.inf) -> dict[str, Any]:
    """
    Return stages, remarks and planned motions of a run, by these names.

    `end`: of the recording [s], where it is later than the last event; what it cuts ends there.

    Raises `KeyError`: an event lacks a field.
    """
    end = max((end, *(event['time'] for event in events[-1:])))
    return {
        'stages': _stages(events, end),
        'remarks': _remarks(events, end),
        'plan': _plan(events),
    }


def _is_event(event: Any) -> bool:
    """Return whether an object has name and time of an event, and texts where they belong."""
    return (
        isinstance(event, dict)
        and 'event' in event
        and is_finite_number(event.get('time'))
        and all(isinstance(event.get(name, ''), str) for name in _WORDS)
        and (event['event'] != PLAN_REPORT or _are_rows(event.get('rows')))
    )


def _are_rows(rows: Any) -> bool:
    return isinstance(rows, list) and all(map(_is_row, rows))


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and all(
        key in row and (shape == '{}' or is_finite_number(row[key])) for key, _, shape in COLUMNS
    )


def _stages(events: Sequence[Event], last: float) -> list[dict[str, Any]]:
    """Return name, begin and duration [s] of each stage of the cycle."""
    begins = [i for i, event in enumerate(events) if event['event'] == STAGE]
    stages = []
    for i in begins:
        event = events[i]
        end = next((e['time'] for e in events[i + 1 :] if _ends_stage(e)), last)
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
        return bool(event['job'] == RUN)
    return event['event'] in (STAGE, CYCLE_DONE)


def _remarks(events: Sequence[Event], last: float) -> list[dict[str, Any]]:
    """Return pauses, retries and stops: time [s], what, and the reason or duration."""
    remarks = []
    for i, event in enumerate(events):
        if event['event'] == PAUSED:
            resumed = (e['time'] for e in events[i + 1 :] if e['event'] in (RESUMED, STOPPED))
            text = f'{next(resumed, last) - event["time"]:.2f} s'
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
