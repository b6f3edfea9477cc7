# SPDX-License-Identifier: Apache-2.0
"""The runs in a recording: those of a demo with all their figures, else what there is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.report.evaluation import evaluate
from ur5_pick_place.report.events import Event, story, valid_events
from ur5_pick_place.report.motion import Motion, RecordedJoints, Samples, motion_of
from ur5_pick_place.report.recording import Recording
from ur5_pick_place.report.topics import RobotTopics, joints_of, robot_topics, samples_of
from ur5_pick_place.task.events import CYCLE_DONE, DONE, STARTED, STOPPED
from ur5_pick_place.task.machine import RUN

_RESTART = 1.0  # [s] by which the robot's clock goes back when it restarts
_MOST_RESTARTS = 20  # more are damage, not restarts
_DIGITS = 6
_STOPPED = 'planner stopped'


@dataclass(frozen=True)
class RecordedRun:
    # as `evaluate` returns it; `outcome` replaces what is known of a demo alone
    result: dict[str, Any]
    story: dict[str, Any]  # stages, remarks and planned motions, see `events.story`
    motion: Motion | None = None  # none without joints
    events: Sequence[Event] = field(default=())  # of the whole run, its preparation included
    samples: Samples | None = None  # of a demo

    @property
    def told(self) -> dict[str, Any]:
        """Result and story."""
        return {**self.result, **self.story}


def recorded_runs(recording: Recording) -> list[RecordedRun]:
    """
    Return the runs of a recording.

    Raises `InvalidInput`: it has neither joints nor events.
    """
    arm = next((facts['arm'] for facts in recording.facts if 'arm' in facts), None)
    asked = [facts['run'] for facts in recording.facts if 'run' in facts]
    try:
        if asked:
            topics = robot_topics(recording, of_demo=True)
            return [_demo_run(run, topics, arm) for run in asked]
    except (KeyError, TypeError, ValueError, IndexError):  # not as the demo writes it
        recording.problems.append('the facts of its runs are damaged')
    return _other_runs(robot_topics(recording), arm)


# -- a demo ----------------------------------------------------------------------------------


def _demo_run(asked: Mapping[str, Any], topics: RobotTopics, arm: Any) -> RecordedRun:
    """Return a run of a demo; each of its cells has a clock of its own."""
    within = topics.within(*asked['log_times'])
    events = valid_events([event for _, event in within.events])
    begun = [i for i, e in enumerate(events) if e['event'] == STARTED and e['job'] == RUN]
    own = events[begun[0] :] if begun else []
    samples = samples_of(within, own, own[0]['time'] if own else math.inf)
    motion = motion_of(samples.joints, arm)
    result = evaluate(asked, samples, motion, arm['ur_type'])
    return RecordedRun(result, story(events), motion, events, samples)


# -- any other recording ---------------------------------------------------------------------


def _other_runs(topics: RobotTopics, arm: Any) -> list[RecordedRun]:
    runs: list[RecordedRun] = []
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
    if not runs:
        raise InvalidInput(
            'neither joints of a UR arm (joint_states) nor events of the task (pick_place/event)'
        )
    return runs


def _segments(topics: RobotTopics) -> list[tuple[int, int]]:
    """Return the log times [ns] between restarts of the robot's clock."""
    cuts, last = [0], -math.inf
    for log_time, t in _clock(topics):
        if t < last - _RESTART:
            cuts.append(log_time)
            last = -math.inf
        last = max(last, t)
    if len(cuts) > _MOST_RESTARTS:
        cuts = [0]
    return [(a, b - 1) for a, b in zip(cuts, [*cuts[1:], 2**63], strict=True)]


def _motion(joints: RecordedJoints, arm: Any) -> Motion | None:
    try:
        return motion_of(joints, arm)
    except InvalidInput:
        return motion_of(joints, None)


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
    name: str, events: Sequence[Event], stops: list[dict[str, Any]], motion: Motion | None
) -> RecordedRun:
    what = story(events, float(motion.t[-1]) if motion else -math.inf)
    speed = motion and motion.max_tcp_speed
    reasons = [e['reason'] for e in events if e['event'] == STOPPED]
    reasons += [stop['text'] for stop in stops]
    cycles, cycle = sum(event['event'] == CYCLE_DONE for event in events), _cycle_time(events)
    outcome = 'stopped' if reasons else f'{cycles} of its cycles ended' if cycles else 'recorded'
    result = {
        'method': name,
        'outcome': outcome,
        'success': not reasons,
        'reason': reasons[-1] if reasons else '',
        'cycle_time_s': None if cycle is None else round(cycle, 3),
        'max_tcp_speed_m_s': speed and round(speed, _DIGITS),
    }
    remarks = sorted([*what['remarks'], *stops], key=lambda remark: remark['time_s'])
    return RecordedRun(result, {**what, 'remarks': remarks}, motion, events)


def _cycle_time(events: Sequence[Event]) -> float | None:
    """Return the time of the recorded cycle [s]; None unless there is exactly one, and whole."""
    begun = [e['time'] for e in events if e['event'] == STARTED and e.get('job') == RUN]
    ended = [e['time'] for e in events if e['event'] == DONE and e.get('job') == RUN]
    cycles = sum(event['event'] == CYCLE_DONE for event in events)
    is_one = len(begun) == len(ended) == 1 and begun[0] < ended[0] and cycles <= 1
    return ended[0] - begun[0] if is_one else None
