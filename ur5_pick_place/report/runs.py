# SPDX-License-Identifier: Apache-2.0
"""The runs in a recording: those of a demo with all their figures, else what there is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.report.events import RUN, Event, is_result, story, valid_events
from ur5_pick_place.report.motion import (
    RecordedJoints,
    RunKinematics,
    motion_of,
    motion_of_unknown_arm,
)
from ur5_pick_place.report.recording import Recording
from ur5_pick_place.report.topics import (
    RobotTopics,
    controller_joints,
    joints_of,
    robot_topics,
)
from ur5_pick_place.task.events import CYCLE_DONE, DONE, STARTED, STOPPED

_RESTART = 1.0  # [s] by which the robot's clock goes back when it restarts
_MOST_RESTARTS = 20  # more are damage, not restarts
_DIGITS = 6
_STOPPED = 'planner stopped'


@dataclass(frozen=True)
class RecordedRuns:
    """
    Runs and their motions, for the report.

    Attributes
    ----------
    runs : list of dict
        As `report.read_runs` returns them; `outcome` replaces the result where it is unknown.
    motions : dict of str to RunKinematics
        By `method` of the run; runs without joints are missing.

    """

    runs: list[dict[str, Any]]
    motions: dict[str, RunKinematics]


def recorded_runs(recording: Recording) -> RecordedRuns:
    """
    Return the runs of a recording.

    Raises
    ------
    InvalidInput
        It has neither joints nor events.

    """
    arm = next((facts['arm'] for facts in recording.facts if 'arm' in facts), None)
    given = [facts['run'] for facts in recording.facts if 'run' in facts]
    try:
        if given:
            topics = robot_topics(recording, with_joint_states=False)
            runs = [_demo_run(run, topics, arm) for run in given]
            return RecordedRuns(
                [run for run, _ in runs], {run['method']: m for run, m in runs if m is not None}
            )
    except (KeyError, TypeError, ValueError, IndexError):  # not as the demo writes it
        recording.problems.append('the facts of its runs are damaged')
    return _other_runs(robot_topics(recording), arm)


# -- a demo ----------------------------------------------------------------------------------


def _demo_run(
    facts: Mapping[str, Any], topics: RobotTopics, arm: Any
) -> tuple[dict[str, Any], RunKinematics | None]:
    """Return a run as the demo printed it, and its motion; each cell has a clock of its own."""
    if not is_result(facts['result']):
        raise ValueError('not a result')
    within = topics.within(*facts['log_times'])
    events = valid_events([event for _, event in within.events])
    run = {**facts['result'], **story(events)}
    if facts['joint_times'] is None:
        return run, None
    return run, motion_of(controller_joints(within, facts['joint_times']), arm)


# -- any other recording ---------------------------------------------------------------------


def _other_runs(topics: RobotTopics, arm: Any) -> RecordedRuns:
    runs: list[dict[str, Any]] = []
    motions: dict[str, RunKinematics] = {}
    for begin, end in _segments(topics):
        within = topics.within(begin, end)
        joints = joints_of(within)
        events = valid_events([event for _, event in within.events])
        if not joints.t.size and not events:
            continue
        name = 'recording' if not runs else f'recording {len(runs) + 1}'
        zero = float(joints.t[0]) if joints.t.size else min(event['time'] for event in events)
        stops = _planner_stops(within, events, joints)
        events = [{**e, 'time': round(e['time'] - zero, _DIGITS)} for e in events]
        stops = [{**stop, 'time_s': round(stop['time_s'] - zero, 3)} for stop in stops]
        motion = _motion(RecordedJoints(joints.t - zero, *list(vars(joints).values())[1:]), arm)
        runs.append(_run(name, events, stops, motion))
        if motion is not None:
            motions[name] = motion
    if not runs:
        raise InvalidInput(
            'neither joints of a UR arm (joint_states) nor events of the task (pick_place/event)'
        )
    return RecordedRuns(runs, motions)


def _segments(topics: RobotTopics) -> list[tuple[int, int]]:
    """Return the log times [ns] between restarts of the robot's clock."""
    cuts, last = [0], -math.inf
    for row in topics.joint_states or topics.controller_states:
        if row[1] < last - _RESTART:
            cuts.append(row[0])
            last = -math.inf
        last = max(last, row[1])
    if len(cuts) > _MOST_RESTARTS:
        cuts = [0]
    return [(a, b - 1) for a, b in zip(cuts, [*cuts[1:], 2**63], strict=True)]


def _motion(joints: RecordedJoints, arm: Any) -> RunKinematics | None:
    try:
        return motion_of(joints, arm)
    except InvalidInput:
        return motion_of_unknown_arm(joints)


def _planner_stops(
    topics: RobotTopics, events: Sequence[Event], joints: RecordedJoints
) -> list[dict[str, Any]]:
    """Return the planner's stops as remarks, where the task did not report them."""
    if any(event['event'] == STOPPED for event in events) or joints.t.size < 2:
        return []
    log_times, stamps = zip(*_clock(topics), strict=True)
    return [
        {
            'time_s': float(np.interp(log_time, log_times, stamps)),
            'what': _STOPPED,
            'text': reason,
        }
        for log_time, reason in topics.stops
    ]


def _clock(topics: RobotTopics) -> list[tuple[int, float]]:
    """Return log times [ns] with the robot's time at each [s]."""
    return [(row[0], row[1]) for row in topics.joint_states or topics.controller_states]


def _run(
    name: str, events: Sequence[Event], stops: list[dict[str, Any]], motion: RunKinematics | None
) -> dict[str, Any]:
    what = story(events)
    speed = None
    if motion is not None and motion.has_tcp:
        speed = round(float(motion.trace.tcp_speed.max()), _DIGITS)
    reasons = [e['reason'] for e in events if e['event'] == STOPPED]
    reasons += [stop['text'] for stop in stops]
    cycles, cycle = sum(event['event'] == CYCLE_DONE for event in events), _cycle_time(events)
    outcome = 'stopped' if reasons else f'{cycles} of its cycles ended' if cycles else 'recorded'
    return {
        'method': name,
        'outcome': outcome,
        'success': not reasons,
        'reason': reasons[-1] if reasons else '',
        'cycle_time_s': None if cycle is None else round(cycle, 3),
        'max_tcp_speed_m_s': speed,
        **what,
        'remarks': sorted([*what['remarks'], *stops], key=lambda remark: remark['time_s']),
    }


def _cycle_time(events: Sequence[Event]) -> float | None:
    """Return the time of the recorded cycle [s]; None unless there is exactly one, and whole."""
    begun = [e['time'] for e in events if e['event'] == STARTED and e.get('job') == RUN]
    ended = [e['time'] for e in events if e['event'] == DONE and e.get('job') == RUN]
    cycles = sum(event['event'] == CYCLE_DONE for event in events)
    is_one = len(begun) == len(ended) == 1 and begun[0] < ended[0] and cycles <= 1
    return ended[0] - begun[0] if is_one else None


def summary(recording: Recording, path: Path) -> str:
    """Return in one line what a recording contains."""
    seconds = (recording.end - recording.begin) * 1e-9
    return (
        f'{path.name}: {seconds:.1f} s, {recording.count} messages on '
        f'{len(recording.counts)} topics'
    )
