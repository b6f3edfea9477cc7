# SPDX-License-Identifier: Apache-2.0
"""The robot's topics in a recording as arrays and events, whatever namespace and prefix."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from ur5_pick_place.control.motion_state import is_stop_event
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array, matrix_from_quat
from ur5_pick_place.report.events import Event
from ur5_pick_place.report.motion import RecordedJoints, Samples
from ur5_pick_place.report.recording import Recording
from ur5_pick_place.task.events import read_event

JOINT_STATES = '/joint_states'
CONTROLLER_STATE = '/controller_state'
EVENT = '/pick_place/event'
MOTION_STATE = '/trajectory_planner/motion_state'
EXECUTION_EVENT = '/trajectory_execution_event'
SENT_GOAL = '/trajectory_planner/sent_goal'
PARTS, FINGERS = '/sim_driver/part_poses', '/sim_driver/finger_states'
_TEXT = 'std_msgs', 'String'
_KINDS = {
    JOINT_STATES: ('sensor_msgs', 'JointState'),
    CONTROLLER_STATE: ('control_msgs', 'JointTrajectoryControllerState'),
    EVENT: _TEXT,
    MOTION_STATE: _TEXT,
    EXECUTION_EVENT: _TEXT,
    SENT_GOAL: ('trajectory_msgs', 'JointTrajectory'),
    PARTS: ('geometry_msgs', 'PoseArray'),
    FINGERS: ('sensor_msgs', 'JointState'),
}
_WANTED = tuple(_KINDS)
_LARGEST = 100.0  # [rad] or [rad/s] of a joint; anything beyond is no measurement
_SAME = 0.004  # [s] within which a reference belongs to measured joints


def is_wanted(topic: str) -> bool:
    return topic.endswith(_WANTED)


@dataclass(frozen=True)
class RobotTopics:
    """What a recording has of one arm; log times in nanoseconds, times of the robot in seconds."""

    # joints, shape (6,) [rad] and [rad/s]; unknown numbers are NaN
    joint_states: list[Any]
    controller_states: list[Any]
    events: list[tuple[int, dict[str, Any]]]
    stops: list[tuple[int, str]]  # reasons of the planner's stops
    # of a run in the simulated cell
    parts: list[Any] = field(default_factory=list)
    fingers: list[Any] = field(default_factory=list)
    # numbers of points of the trajectories that were sent
    goals: list[tuple[int, int]] = field(default_factory=list)

    def within(self, begin: int, end: int) -> 'RobotTopics':
        """Return the messages between two log times."""
        return RobotTopics(
            *([row for row in rows if begin <= row[0] <= end] for rows in vars(self).values())
        )


def robot_topics(recording: Recording, of_demo: bool = False) -> RobotTopics:
    """
    Return what a recording contains of one arm, that with the most joint states.

    Other arms become a problem of the recording. Of a demo it takes what the simulator published
    instead of the joint states.
    """
    arms = _arms(recording, JOINT_STATES, _joint_states, not of_demo)
    controllers = {} if arms else _arms(recording, CONTROLLER_STATE, _controller_states, True)
    found = list(arms or controllers) or [_Arm('', '')]
    shown, others = found[0], found[1:]
    if others:
        recording.problems.append(
            f'{1 + len(others)} arms: only that with the most messages is shown, {shown}; not '
            f'shown: {", ".join(map(str, others))}'
        )

    def topics_of(suffix: str) -> Iterator[str]:
        for topic in _by_count(recording, suffix):
            space = _space(topic, suffix)
            if space == shown.space or (not others and space.startswith(f'{shown.space}/')):
                yield topic

    def decoded(suffix: str) -> Iterator[tuple[int, Any]]:
        return recording.decoded(next(topics_of(suffix), ''))

    for topic in topics_of(CONTROLLER_STATE) if arms else ():
        states = _controller_states(recording.decoded(topic))
        if rows := [row for prefix, row in states if prefix == shown.prefix]:
            controllers[shown] = rows
            break
    return RobotTopics(
        [] if of_demo else arms.get(shown, []),
        controllers.get(shown, []),
        list(_events(decoded(EVENT))),
        sorted([*_stops(decoded(MOTION_STATE)), *_stops(decoded(EXECUTION_EVENT))]),
        list(_parts(decoded(PARTS))) if of_demo else [],
        list(_fingers(decoded(FINGERS))) if of_demo else [],
        [(at, len(m.points)) for at, m in decoded(SENT_GOAL)] if of_demo else [],
    )


@dataclass(frozen=True)
class _Arm:
    """Which arm of a recording: its namespace, and the prefix of its joints."""

    space: str
    prefix: str

    def __str__(self) -> str:
        name = f'of namespace {self.space or "/"}'
        return f'{name} with joints {self.prefix}…' if self.prefix else name


def _arms(
    recording: Recording,
    suffix: str,
    read: Callable[[Iterator[tuple[int, Any]]], Iterator[tuple[str, Any]]],
    is_whole: bool,
) -> dict[_Arm, list[Any]]:
    """Return the arms of a recording, the largest first, with its rows, the others with some."""
    arms: dict[_Arm, list[Any]] = {}
    for topic in _by_count(recording, suffix):
        rows = read(recording.decoded(topic))
        found: dict[_Arm, list[Any]] = {}
        for prefix, row in rows if is_whole and not arms else islice(rows, 1):
            found.setdefault(_Arm(_space(topic, suffix), prefix), []).append(row)
        for arm in sorted(found, key=lambda arm: -len(found[arm])):
            arms.setdefault(arm, found[arm])
    return arms


def _space(topic: str, suffix: str) -> str:
    """Return the namespace of the arm to which a topic belongs."""
    space = topic.removesuffix(suffix)
    return space.rpartition('/')[0] if suffix == CONTROLLER_STATE else space


def _by_count(recording: Recording, suffix: str) -> list[str]:
    found = [
        topic
        for topic in recording.messages
        if topic.endswith(suffix) and _package_and_name(recording.types[topic]) == _KINDS[suffix]
    ]
    return sorted(found, key=lambda topic: -len(recording.messages[topic]))


def joints_of(topics: RobotTopics) -> RecordedJoints:
    """Return measured joints, and the controller's reference where there is one."""
    joints = _joints(topics.joint_states or topics.controller_states)
    t = joints.t
    if topics.joint_states and topics.controller_states:
        there = _joints(topics.controller_states)
        after = np.searchsorted(there.t, t).clip(0, there.t.size - 1)
        before = (after - 1).clip(0)
        nearest = np.where(np.abs(t - there.t[before]) < np.abs(there.t[after] - t), before, after)
        is_there = np.abs(there.t[nearest] - t) <= _SAME
        joints.q_reference[is_there] = there.q_reference[nearest[is_there]]
    if not np.isfinite(joints.qd).all() and t.size > 1:
        return replace(joints, qd=np.gradient(joints.q, t, axis=0))
    return joints


def _joints(rows: Sequence[Any]) -> RecordedJoints:
    kept = _increasing(rows)
    if not kept:
        return RecordedJoints(np.zeros(0), *(np.zeros((0, 6)) for _ in range(3)))
    return RecordedJoints(*map(np.array, list(zip(*kept, strict=True))[1:]))


def samples_of(topics: RobotTopics, events: Sequence[Event], begin: float) -> Samples:
    """Return what was published from a time on [s]."""
    parts, fingers = (
        _increasing([row for row in rows if row[1] >= begin])
        for rows in (topics.parts, topics.fingers)
    )
    numbers = np.full((len(parts), max((len(row[2]) for row in parts), default=0), 7), math.nan)
    for row, (*_, poses) in zip(numbers, parts, strict=True):
        row[: len(poses)] = poses
    return Samples(
        _joints([row for row in topics.controller_states if row[1] >= begin]),
        (np.array([row[1] for row in parts]), _poses(numbers)),
        (
            np.array([row[1] for row in fingers]),
            np.array([row[2] for row in fingers]).reshape(-1, 2),
        ),
        events,
        _goals(topics),
    )


def _goals(topics: RobotTopics) -> list[tuple[float, int]]:
    """Return when goals were sent [s], and their numbers of points."""
    if not topics.controller_states:
        return []
    log_times, times, *_ = zip(*topics.controller_states, strict=True)
    return [(float(np.interp(at, log_times, times)), n) for at, n in topics.goals]


def _poses(numbers: Array) -> Array:
    """Return positions and quaternions x, y, z, w (..., 7) as (..., 4, 4); NaN stays NaN."""
    there = np.isfinite(numbers).all(axis=-1)
    T = np.full((*there.shape, 4, 4), math.nan)
    T[there] = np.eye(4)
    T[there, :3, :3] = matrix_from_quat(numbers[there, 3:])
    T[there, :3, 3] = numbers[there, :3]
    return T


def _package_and_name(kind: str) -> tuple[str, str]:
    package, _, name = kind.partition('/')
    return package, name.removeprefix('msg/')


def _increasing(rows: Sequence[Any]) -> list[Any]:
    """Return the rows whose time is after that of all before."""
    found: list[Any] = []
    for row in rows:
        if not found or row[1] > found[-1][1]:
            found.append(row)
    return found


def _joint_states(messages: Iterator[tuple[int, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the prefix of the arm, and its row, for each arm in each message."""
    orders: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for log_time, message in messages:
        names = tuple(message.name)
        if names not in orders:
            orders[names] = _orders(names)
        for prefix, order in orders[names].items():
            q, qd = _values(message.position, order), _values(message.velocity, order)
            if np.isfinite(q).all():
                yield prefix, (log_time, _seconds(message), q, qd, np.full(6, math.nan))


def _controller_states(messages: Iterator[tuple[int, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the prefix of the arm, and its row, for each message with an arm."""
    for log_time, message in messages:
        # Humble has other names.
        measured = getattr(message, 'feedback', None) or getattr(message, 'actual', None)
        wanted = getattr(message, 'reference', None) or getattr(message, 'desired', None)
        if measured is None or wanted is None:
            continue
        for prefix, order in _orders(tuple(message.joint_names)).items():
            q, qd = (_values(v, order) for v in (measured.positions, measured.velocities))
            if np.isfinite(q).all():
                row = log_time, _seconds(message), q, qd, _values(wanted.positions, order)
                yield prefix, row


def _orders(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of the joints of each arm in a message, by its prefix."""
    first = JOINT_NAMES[0]
    prefixes = [name.removesuffix(first) for name in names if name.endswith(first)]
    return {
        prefix: [list(names).index(prefix + name) for name in JOINT_NAMES]
        for prefix in prefixes
        if {prefix + name for name in JOINT_NAMES} <= set(names)
    }


def _values(numbers: Sequence[float], order: list[int]) -> Array:
    if len(numbers) <= max(order):
        return np.full(6, math.nan)
    found = np.array([numbers[i] for i in order], dtype=float)
    return np.where(np.abs(found) <= _LARGEST, found, math.nan)


def _events(messages: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for log_time, message in messages:
        if event := read_event(message.data):
            yield log_time, event


def _parts(messages: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, float, Array]]:
    for log_time, message in messages:
        pairs = [(pose.position, pose.orientation) for pose in message.poses]
        rows = [[p.x, p.y, p.z, q.x, q.y, q.z, q.w] for p, q in pairs]
        yield log_time, _seconds(message), np.array(rows, dtype=float).reshape(-1, 7)


def _fingers(messages: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, float, Array]]:
    for log_time, message in messages:
        if len(message.position) == 2:
            yield log_time, _seconds(message), np.array(message.position)


def _stops(messages: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, str]]:
    """Yield what stopped the arm, without what the planner waited for until it was ready first."""
    before: list[tuple[int, str]] = []
    is_ready = False
    for log_time, message in messages:
        state, _, reason = message.data.partition(': ')
        if state == 'stopped' and is_ready:
            yield log_time, reason
        elif state == 'stopped':
            before.append((log_time, reason))
        elif is_stop_event(state):
            yield log_time, f'stop on {EXECUTION_EVENT.lstrip("/")}'
        else:
            is_ready = True
    if not is_ready:
        yield from before


def _seconds(message: Any) -> float:
    """Return the stamp [s], as `conversions.to_seconds`, which needs ROS."""
    stamp = message.header.stamp
    return float(stamp.sec + stamp.nanosec * 1e-9)
