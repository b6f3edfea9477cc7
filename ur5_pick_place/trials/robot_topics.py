# SPDX-License-Identifier: Apache-2.0
"""The robot's topics in a recording as arrays and events, whatever namespace and prefix."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.trials.recording import Recording
from ur5_pick_place.trials.report_motion import RecordedJoints

JOINT_STATES = '/joint_states'
CONTROLLER_STATE = '/controller_state'
EVENT = '/pick_place/event'
MOTION_STATE = '/trajectory_planner/motion_state'
EXECUTION_EVENT = '/trajectory_execution_event'
_TEXT = 'std_msgs', 'String'
_KINDS = {
    JOINT_STATES: ('sensor_msgs', 'JointState'),
    CONTROLLER_STATE: ('control_msgs', 'JointTrajectoryControllerState'),
    EVENT: _TEXT,
    MOTION_STATE: _TEXT,
    EXECUTION_EVENT: _TEXT,
}
_WANTED = tuple(_KINDS)
_LARGEST = 100.0  # [rad] or [rad/s] of a joint; anything beyond is no measurement
_SAME = 0.004  # [s] within which a reference belongs to measured joints


def is_wanted(topic: str) -> bool:
    """Return whether a topic is evaluated."""
    return topic.endswith(_WANTED)


@dataclass(frozen=True)
class RobotTopics:
    """
    What a recording contains of one arm; log times in nanoseconds, times of the robot in seconds.

    Attributes
    ----------
    joint_states, controller_states : list of (log time, time, q, qd, reference)
        Joints, shape (6,) [rad] and [rad/s]; unknown numbers are NaN.
    events : list of (log time, event)
    stops : list of (log time, str)
        Reasons of the planner's stops.

    """

    joint_states: list[Any]
    controller_states: list[Any]
    events: list[tuple[int, dict[str, Any]]]
    stops: list[tuple[int, str]]

    def within(self, begin: int, end: int) -> 'RobotTopics':
        """Return the messages between two log times."""
        return RobotTopics(
            *([row for row in rows if begin <= row[0] <= end] for rows in vars(self).values())
        )


def robot_topics(recording: Recording, with_joint_states: bool = True) -> RobotTopics:
    """Return what a recording contains of the arm with the most joint states."""
    joint_states: list[Any] = []
    space = ''
    for topic in _by_count(recording, JOINT_STATES):
        space = topic.removesuffix(JOINT_STATES)
        if with_joint_states:
            joint_states = list(_joint_states(recording.decoded(topic)))
        if joint_states or not with_joint_states:
            break

    def decoded(suffix: str) -> Iterator[tuple[int, Any]]:
        found = _by_count(recording, suffix)
        return recording.decoded(next((t for t in found if t.startswith(f'{space}/')), ''))

    return RobotTopics(
        joint_states,
        list(_controller_states(decoded(CONTROLLER_STATE))),
        list(_events(decoded(EVENT))),
        sorted([*_stops(decoded(MOTION_STATE)), *_stops(decoded(EXECUTION_EVENT))]),
    )


def _by_count(recording: Recording, suffix: str) -> list[str]:
    found = [
        topic
        for topic in recording.messages
        if topic.endswith(suffix) and _package_and_name(recording.types[topic]) == _KINDS[suffix]
    ]
    return sorted(found, key=lambda topic: -len(recording.messages[topic]))


def joints_of(topics: RobotTopics) -> RecordedJoints:
    """Return measured joints, and the controller's reference where there is one."""
    rows, references = topics.joint_states, topics.controller_states
    if not rows:
        rows, references = references, []
    rows = _increasing(rows)
    if not rows:
        return no_joints()
    t, q, qd, reference = (np.array(column) for column in list(zip(*rows, strict=True))[1:])
    if references:
        there = _increasing(references)
        times = np.array([row[1] for row in there])
        after = np.searchsorted(times, t).clip(0, len(times) - 1)
        before = (after - 1).clip(0)
        nearest = np.where(np.abs(t - times[before]) < np.abs(times[after] - t), before, after)
        is_there = np.abs(times[nearest] - t) <= _SAME
        reference[is_there] = np.array([row[4] for row in there])[nearest[is_there]]
    if not np.isfinite(qd).all() and t.size > 1:
        qd = np.gradient(q, t, axis=0)
    return RecordedJoints(t, q, qd, reference)


def no_joints() -> RecordedJoints:
    """Return joints without samples."""
    return RecordedJoints(np.zeros(0), *(np.zeros((0, 6)) for _ in range(3)))


def controller_joints(topics: RobotTopics, times: Sequence[float]) -> RecordedJoints:
    """Return what the controller published between two times [s], as the demo received it."""
    first, last = times
    rows = _increasing([row for row in topics.controller_states if first <= row[1] <= last])
    if not rows:
        return no_joints()
    return RecordedJoints(*(np.array(column) for column in list(zip(*rows, strict=True))[1:]))


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


def _joint_states(messages: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    orders: dict[tuple[str, ...], list[int] | None] = {}
    for log_time, message in messages:
        names = tuple(message.name)
        if names not in orders:
            orders[names] = _order(names)
        order = orders[names]
        if order is None:
            continue
        q, qd = _values(message.position, order), _values(message.velocity, order)
        if np.isfinite(q).all():
            yield log_time, _seconds(message), q, qd, np.full(6, math.nan)


def _controller_states(messages: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    for log_time, message in messages:
        order = _order(tuple(message.joint_names))
        # Humble has other names.
        measured = getattr(message, 'feedback', None) or getattr(message, 'actual', None)
        wanted = getattr(message, 'reference', None) or getattr(message, 'desired', None)
        if order is None or measured is None or wanted is None:
            continue
        q, qd = (_values(v, order) for v in (measured.positions, measured.velocities))
        if np.isfinite(q).all():
            yield log_time, _seconds(message), q, qd, _values(wanted.positions, order)


def _order(names: Sequence[str]) -> list[int] | None:
    """Return the indices of the joints of the first arm in a message; None without one."""
    first = JOINT_NAMES[0]
    for prefix in (name.removesuffix(first) for name in names if name.endswith(first)):
        wanted = [prefix + name for name in JOINT_NAMES]
        if set(wanted) <= set(names):
            return [list(names).index(name) for name in wanted]
    return None


def _values(numbers: Sequence[float], order: list[int]) -> Array:
    if len(numbers) <= max(order):
        return np.full(6, math.nan)
    found = np.array([numbers[i] for i in order], dtype=float)
    return np.where(np.abs(found) <= _LARGEST, found, math.nan)


def _events(messages: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for log_time, message in messages:
        try:
            event = json.loads(message.data)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield log_time, event


def _stops(messages: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, str]]:
    for log_time, message in messages:
        state, separator, reason = message.data.partition(': ')
        if separator and state == 'stopped':
            yield log_time, reason
        elif message.data == 'stop':
            yield log_time, f'stop on {EXECUTION_EVENT.lstrip("/")}'


def _seconds(message: Any) -> float:
    """Return the stamp [s], as `conversions.to_seconds`, which needs ROS."""
    stamp = message.header.stamp
    return float(stamp.sec + stamp.nanosec * 1e-9)
