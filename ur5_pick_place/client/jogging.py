# SPDX-License-Identifier: Apache-2.0
"""A jog from a script: a stream of velocities, and whether the arm has followed it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from control_msgs.msg import JointJog
from numpy.typing import ArrayLike

from ur5_pick_place.client import requests
from ur5_pick_place.client.connection import PLANNER
from ur5_pick_place.client.link import Link
from ur5_pick_place.errors import ExecutionError, InvalidInput, TimedOut
from ur5_pick_place.kinematics.transforms import Array, pose_distance

_LISTENER = 2.0  # [s] for a topic's subscriber to be discovered
_LONGEST = 60.0  # [s]
_MOVED = 1e-4  # [rad]; less is no motion
_MIN_COVERED = 0.7  # share of the commanded jog; less is an error if the planner has logged why
_MAX_ANGLE = 2.5  # [rad]; a jog that may turn more is not judged: poses show at most half a turn
_BEGIN, _END = 0.5, 2.0  # [s] for the planner to begin a jog, and to end one of an arm at rest
_LOG = 1.0  # [s] for a reason to arrive on /rosout
_FASTEST = 10.0  # [m/s], [rad/s]; no joint turns faster than 2 pi, no TCP moves at more than 6


def jog(
    link: Link,
    tcp: Callable[[], Array],
    twist: ArrayLike | None,
    joints: ArrayLike | None,
    seconds: float,
    frame: str | None,
) -> None:
    """See `PickPlaceClient.jog`; `tcp` returns the present pose (4, 4) of the TCP."""
    seconds = requests.number('seconds', seconds, 0.0, _LONGEST, 's')
    topic, velocity, message = _command(link, twist, joints, frame)
    try:
        publisher = link.publisher(type(message), topic, _LISTENER)
    except TimedOut as error:
        raise ExecutionError(f'jog: {error}') from error
    received = link.received
    _check_not_stopped(link, 'jog refused', ': call rearm first')
    received.forget_errors()
    q, T = received.joints()[0], tcp() if twist is not None else np.eye(4)
    elapsed = link.repeat(publisher, message, seconds)
    _check_not_refused(link)  # the arm may move all the same, as another client's motion runs
    if velocity.any():
        _wait_for_jog(link, q)
    _wait_for_end_of_jog(link)
    if not velocity.any():
        return
    _check_not_refused(link)
    moved = received.joints()[0] - q
    if twist is not None:
        covered = time_at_twist(T, tcp(), velocity, elapsed)
    else:
        covered = float(moved @ velocity / (velocity @ velocity))
    if np.abs(moved).max() <= _MOVED:
        _explain_jog(link, 'jog: the arm did not move', _LOG)
        raise ExecutionError(f'jog: the arm did not move; look at the log of {PLANNER}')
    if covered < _MIN_COVERED * elapsed:
        percent = 100.0 * covered / elapsed
        _explain_jog(link, f'jog covered only {percent:.0f} % of its path', 0.0)


def _wait_for_end_of_jog(link: Link) -> None:
    states = link.received.states
    try:
        link.wait_for_rest()
    except TimedOut as error:
        _check_not_stopped(link, 'jog ended', f'; {error}')
        raise
    with suppress(TimedOut):  # an arm that was halted is at rest before the jog ends
        link.wait(lambda: states[PLANNER] != 'moving', 'the jog to end', _END)
    _check_not_stopped(link, 'jog ended')


def _check_not_stopped(link: Link, what: str, more: str = '') -> None:
    if (state := link.received.states[PLANNER]).startswith('stopped'):
        raise ExecutionError(f'{what}: {state}{more}')


def _check_not_refused(link: Link) -> None:
    if reason := link.received.error('jog refused'):
        raise ExecutionError(reason)


def _wait_for_jog(link: Link, q: Array) -> None:
    """Give a busy planner time to begin: a short jog may be over before the arm moves."""
    received = link.received

    def has_begun() -> bool:
        is_away = np.abs(received.joints()[0] - q).max() > _MOVED
        return is_away or received.states[PLANNER] != 'ready'

    with suppress(TimedOut):
        link.wait(has_begun, 'the jog to begin', _BEGIN)


def _command(
    link: Link, twist: ArrayLike | None, joints: ArrayLike | None, frame: str | None
) -> tuple[str, Array, Any]:
    """Return topic, velocity (6,) and message of a jog."""
    if (twist is None) == (joints is None):
        raise InvalidInput('give either twist or joints')
    if twist is not None:
        velocity = requests.numbers('twist', twist, 6, 'm/s, rad/s')
        _check_unit('twist', velocity[:3], 'm/s', 'mm/s')
        _check_unit('twist', velocity[3:], 'rad/s', 'deg/s')
        return f'{PLANNER}/delta_twist_cmds', velocity, requests.twist(velocity, frame)
    requests.refuse_beside('joints', frame=frame)
    velocity = requests.numbers('joints', joints, 6, 'rad/s')
    _check_unit('joints', velocity, 'rad/s', 'deg/s')
    message = JointJog(joint_names=link.received.joint_names, velocities=velocity.tolist())
    return f'{PLANNER}/delta_joint_cmds', velocity, message


def _check_unit(name: str, velocity: Array, unit: str, other: str) -> None:
    fastest = float(np.abs(velocity).max())
    if fastest > _FASTEST:
        raise InvalidInput(
            f'{name}: {fastest:g} {unit} is faster than any arm, must be at most {_FASTEST:g} '
            f'{unit}; {unit}, not {other}?'
        )


def _explain_jog(link: Link, what: str, timeout: float) -> None:
    """Raise `ExecutionError` with the planner's reason if one comes within `timeout` [s]."""
    with suppress(TimedOut):  # the topics have no answer but the log
        reason = link.wait(
            lambda: link.received.error('jog'), 'the reason', timeout
        )
        raise ExecutionError(f'{what}: {reason.removeprefix("jog: ")}')


def time_at_twist(T_before: Array, T_after: Array, twist: Array, elapsed: float) -> float:
    """
    Return how long a motion at a twist takes from one pose (4, 4) of the TCP to another [s].

    `elapsed` [s] if it may turn by more than _MAX_ANGLE.
    """
    linear, angular = np.linalg.norm(twist[:3]), np.linalg.norm(twist[3:])
    if angular * elapsed > _MAX_ANGLE:
        return elapsed
    moved, turned = pose_distance(T_before, T_after)
    return float(moved / linear if linear > 0.0 else turned / angular)
