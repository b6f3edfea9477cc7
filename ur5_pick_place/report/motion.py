# SPDX-License-Identifier: Apache-2.0
"""The motion of a recorded run, and its error from the reference of the controller."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ur5_pick_place.errors import InvalidInput, quoted
from ur5_pick_place.kinematics import UR_TYPES, forward, load_model
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array
from ur5_pick_place.report.trace import Trace

_LEAST = 3  # samples of a motion, at least
_BACK = 50  # samples by which the arm may lag its reference


@dataclass(frozen=True)
class RecordedJoints:
    """Joints of one run."""

    t: Array  # (n,) time of the robot's clock [s], increasing; same clock as the events
    # (n, 6) measured joints [rad, rad/s]
    q: Array
    qd: Array
    q_reference: Array  # (n, 6) reference of the controller [rad]; NaN without one


@dataclass(frozen=True)
class RunKinematics:
    """The recorded joints of one run, with facts of the arm."""

    trace: Trace  # measured joints
    q_reference: Array  # (n, 6) reference of the controller [rad]; NaN without one
    # (n, 3) measured and reference TCP in `base_link` [m]; NaN for an unknown arm or tool
    p_tcp: Array
    p_tcp_reference: Array
    max_velocity: Array  # (6,) limits of the joints [rad/s]; NaN where unknown
    max_speed: float  # limit of the TCP [m/s]; NaN where unknown

    @property
    def has_tcp(self) -> bool:
        """Whether the TCP is known."""
        return bool(np.isfinite(self.p_tcp).any())

    @property
    def error(self) -> Array:
        """Measured minus reference, including servo lag, shape (n, 6) [rad]."""
        return self.trace.q - self.q_reference

    @property
    def deviation(self) -> Array:
        """Distance of the TCP from the path of the reference, without lag, (n,) [m]."""
        path, n = self.p_tcp_reference, len(self.p_tcp)
        nearest = np.full(n, np.nan)
        for back in range(_BACK):
            end = np.maximum(np.arange(n) - back, 0)
            begin = np.maximum(end - 1, 0)
            nearest = np.fmin(nearest, _to_segment(self.p_tcp, path[begin], path[end]))
        return nearest


def motion_of(joints: RecordedJoints, arm: Any) -> RunKinematics | None:
    """
    Return the motion of a run, or None if there are too few samples.

    `arm`: as `planning.limits.arm_facts`, with which every recording of ours begins.

    Raises `InvalidInput`: `arm` is invalid; names the entry.

    """
    if joints.t.size < _LEAST:
        return None
    if not isinstance(arm, Mapping) or arm.get('ur_type') not in UR_TYPES:
        raise InvalidInput('must have "arm" with "ur_type", as a recording of ours begins')
    model = load_model(arm['ur_type'])
    T_tool_tcp = numbers(arm, 'T_tool_tcp', (4, 4))
    trace = Trace(joints.t, joints.q, joints.qd, forward(model, joints.q) @ T_tool_tcp)
    known = np.isfinite(joints.q_reference).all(axis=1)
    p_reference = np.full((joints.t.size, 3), np.nan)
    p_reference[known] = _in_base_link(forward(model, joints.q_reference[known]) @ T_tool_tcp)
    return RunKinematics(
        trace,
        joints.q_reference,
        _in_base_link(trace.T_base_tcp),
        p_reference,
        numbers(arm, 'max_velocity', (6,)),
        float(numbers(arm, 'max_speed', ())),
    )


def motion_of_unknown_arm(joints: RecordedJoints) -> RunKinematics | None:
    """Return the motion of joints alone, or None if there are too few samples."""
    n = joints.t.size
    if n < _LEAST:
        return None
    trace = Trace(joints.t, joints.q, joints.qd, np.full((n, 4, 4), math.nan))
    nowhere = np.full((n, 3), math.nan)
    return RunKinematics(
        trace, joints.q_reference, nowhere, nowhere, np.full(6, math.nan), math.nan
    )


def numbers(facts: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    """Return numbers among facts as an array; `InvalidInput` if they are not finite or so many."""
    try:
        values = np.array(facts.get(name), dtype=float)
    except (TypeError, ValueError, OverflowError):
        values = np.array(math.nan)
    if values.shape != shape or not np.isfinite(values).all():
        size = ' x '.join(map(str, shape)) + ' finite numbers' if shape else 'a finite number'
        raise InvalidInput(f'{name} = {quoted(facts.get(name))}: must be {size}')
    return values


def _in_base_link(T_base_tcp: Array) -> Array:
    return np.asarray((T_BASE_LINK_BASE @ T_base_tcp)[:, :3, 3])


def _to_segment(p: Array, a: Array, b: Array) -> Array:
    """Return the distance (n,) of points from segments, all (n, 3)."""
    segment = b - a
    length = np.maximum((segment * segment).sum(axis=1), 1e-18)
    share = np.clip(((p - a) * segment).sum(axis=1) / length, 0.0, 1.0)
    return np.asarray(np.linalg.norm(p - a - share[:, None] * segment, axis=1))
