# SPDX-License-Identifier: Apache-2.0
"""What was recorded of a run: joints, parts and fingers, and the motion with its errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import InvalidInput, quoted
from ur5_pick_place.kinematics import UR_TYPES, forward, load_model
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array

_LEAST = 3  # samples of a motion, at least
_BACK = 50  # samples by which the arm may lag its reference
_SLACK = 1e-3  # [s] to which the time of an event is rounded


@dataclass(frozen=True)
class RecordedJoints:
    t: Array  # (n,) time of the robot's clock [s], increasing; same clock as the events
    # (n, 6) measured joints [rad, rad/s]
    q: Array
    qd: Array
    q_reference: Array  # (n, 6) reference of the controller [rad]; NaN without one


@dataclass(frozen=True)
class Samples:
    """What a recording holds of one run on the simulated cell, over the cell's clock."""

    joints: RecordedJoints  # as the controller published them
    # time [s], and poses of the cubes in `base_link` in order of feeding; NaN before one came
    parts: tuple[Array, Array]
    fingers: tuple[Array, Array]  # time [s], and closing travel of both fingers [m]
    events: Sequence[Mapping[str, Any]]  # events of the task node
    # when trajectories were sent [s], and their numbers of points
    goals: Sequence[tuple[float, int]] = ()

    @property
    def is_complete(self) -> bool:
        """Whether there are joints, cubes and fingers."""
        return all(t.size for t in (self.joints.t, self.parts[0], self.fingers[0]))

    def times_of(self, *names: str) -> list[float]:
        """Return the times of the events of these names [s]."""
        return [event['time'] for event in self.events if event['event'] in names]

    def joints_at(self, t: float | Array) -> Array:
        """Return the last measured joints up to time `t`, (..., 6) [rad]."""
        return self.joints.q[_last(self.joints.t, t)]

    def parts_at(self, t: float | Array) -> Array:
        """Return the cubes' last poses up to time `t`, (..., k, 4, 4)."""
        return self.parts[1][_last(self.parts[0], t)]

    def fingers_at(self, t: float | Array) -> Array:
        """Return the last travel of the fingers up to time `t`, (..., 2) [m]."""
        return self.fingers[1][_last(self.fingers[0], t)]


def _last(times: Array, t: float | Array) -> NDArray[np.intp]:
    return np.maximum(np.searchsorted(times, np.asarray(t) + _SLACK, side='right') - 1, 0)


@dataclass(frozen=True)
class Motion(RecordedJoints):
    """The recorded joints of one run, with the TCP and facts of the arm; NaN where unknown."""

    T_base_tcp: Array  # (n, 4, 4)
    p_tcp_reference: Array  # (n, 3) TCP of the reference in `base_link` [m]
    max_velocity: Array  # (6,) limits of the joints [rad/s]
    max_speed: float  # limit of the TCP [m/s]

    def part(self, rows: slice) -> 'Motion':
        rowed = ('t', 'q', 'qd', 'q_reference', 'T_base_tcp', 'p_tcp_reference')
        return replace(self, **{name: getattr(self, name)[rows] for name in rowed})

    @property
    def has_tcp(self) -> bool:
        return bool(np.isfinite(self.T_base_tcp).any())

    @property
    def p_tcp(self) -> Array:
        """The TCP in `base_link`, (n, 3) [m]."""
        return _in_base_link(self.T_base_tcp)

    @property
    def duration(self) -> float:
        """Time from the first row to the last [s]."""
        return float(self.t[-1] - self.t[0])

    @property
    def travel(self) -> float:
        """Sum of the absolute joint motion of all six joints [rad]."""
        return float(np.abs(np.diff(self.q, axis=0)).sum())

    @property
    def joint_speed(self) -> Array:
        """Speed of the fastest joint, shape (n,) [rad/s]."""
        return np.asarray(np.abs(self.qd).max(axis=1))

    @property
    def tcp_speed(self) -> Array:
        """Speed of the TCP, shape (n,) [m/s]."""
        velocity = np.gradient(self.T_base_tcp[:, :3, 3], self.t, axis=0)
        return np.asarray(np.linalg.norm(velocity, axis=1))

    @property
    def max_tcp_speed(self) -> float | None:
        """Largest of `tcp_speed` [m/s]; None where the TCP is unknown."""
        return float(self.tcp_speed.max()) if self.has_tcp else None

    @property
    def jerk(self) -> Array:
        """Second difference of the joint velocities, if evenly spaced, (n - 2, 6) [rad/s^3]."""
        jerk: Array = np.diff(self.qd, 2, axis=0) / (self.t[1] - self.t[0]) ** 2
        return jerk

    @property
    def error(self) -> Array:
        """Measured minus reference, including servo lag, shape (n, 6) [rad]."""
        return self.q - self.q_reference

    @property
    def deviation(self) -> Array:
        """Distance of the TCP from the path of the reference, without lag, (n,) [m]."""
        path, p, n = self.p_tcp_reference, self.p_tcp, len(self.t)
        nearest = np.full(n, np.nan)
        for back in range(_BACK):
            end = np.maximum(np.arange(n) - back, 0)
            begin = np.maximum(end - 1, 0)
            nearest = np.fmin(nearest, distance_to_segment(p, path[begin], path[end]))
        return nearest


def motion_of(joints: RecordedJoints, arm: Any) -> Motion | None:
    """
    Return the motion of a run, or None if there are too few samples.

    `arm`: as `planning.limits.arm_facts`, with which every recording of ours begins; None if it is
    not known.

    Raises `InvalidInput`: `arm` is invalid; names the entry.
    """
    n = joints.t.size
    if n < _LEAST:
        return None
    found = Motion(
        **vars(joints),
        T_base_tcp=np.full((n, 4, 4), math.nan),
        p_tcp_reference=np.full((n, 3), math.nan),
        max_velocity=np.full(6, math.nan),
        max_speed=math.nan,
    )
    if arm is None:
        return found
    if not isinstance(arm, Mapping) or arm.get('ur_type') not in UR_TYPES:
        raise InvalidInput('must have "arm" with "ur_type", as a recording of ours begins')
    model = load_model(arm['ur_type'])
    T_tool_tcp = numbers(arm, 'T_tool_tcp', (4, 4))
    known = np.isfinite(joints.q_reference).all(axis=1)
    reference = forward(model, joints.q_reference[known]) @ T_tool_tcp
    found.p_tcp_reference[known] = _in_base_link(reference)
    return replace(
        found,
        T_base_tcp=forward(model, joints.q) @ T_tool_tcp,
        max_velocity=numbers(arm, 'max_velocity', (6,)),
        max_speed=float(numbers(arm, 'max_speed', ())),
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


def distance_to_segment(p: Array, a: Array, b: Array) -> Array:
    """Return the distance (n,) of points (n, 3) from segments from a to b, (..., 3)."""
    segment = b - a
    length = np.maximum((segment * segment).sum(axis=-1), 1e-18)
    share = np.clip(((p - a) * segment).sum(axis=1) / length, 0.0, 1.0)
    return np.asarray(np.linalg.norm(p - a - share[:, None] * segment, axis=1))
