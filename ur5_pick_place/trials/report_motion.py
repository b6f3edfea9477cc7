# SPDX-License-Identifier: Apache-2.0
"""How the arm moved in a recorded run, and how near it kept to what its controller followed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import UR_TYPES, forward, load_model
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array
from ur5_pick_place.trials.joints_file import RecordedJoints
from ur5_pick_place.trials.measure import Trace

_LEAST = 3  # samples that make a motion
_BACK = 50  # samples that the arm may be behind its reference


@dataclass(frozen=True)
class Motion:
    """
    The recorded joints of one run with the arm that they are of.

    Attributes
    ----------
    trace : Trace
        As measured.
    q_reference : ndarray, shape (n, 6)
        What the controller followed [rad]; NaN where it followed nothing.
    p_tcp, p_tcp_reference : ndarray, shape (n, 3)
        The TCP by either in `base_link` [m].
    max_velocity : ndarray, shape (6,)
        Limits of the joints [rad/s].
    max_speed : float
        Limit of the TCP [m/s].

    """

    trace: Trace
    q_reference: Array
    p_tcp: Array
    p_tcp_reference: Array
    max_velocity: Array
    max_speed: float

    @property
    def error(self) -> Array:
        """Measured minus reference, servo lag included, shape (n, 6) [rad]."""
        return self.trace.q - self.q_reference

    @property
    def deviation(self) -> Array:
        """Distance of the TCP from the way of the reference, lag not counted, (n,) [m]."""
        way, n = self.p_tcp_reference, len(self.p_tcp)
        nearest = np.full(n, np.nan)
        for back in range(_BACK):
            end = np.maximum(np.arange(n) - back, 0)
            begin = np.maximum(end - 1, 0)
            nearest = np.fmin(nearest, _to_segment(self.p_tcp, way[begin], way[end]))
        return nearest


def motion_of(joints: RecordedJoints, arm: Any) -> Motion | None:
    """
    Return the motion of a run, or None if too little was recorded to speak of one.

    Parameters
    ----------
    joints : RecordedJoints
    arm : object
        `arm` of `result.json`, as `demo` writes it.

    Raises
    ------
    InvalidInput
        `arm` is something else; names what.

    """
    if joints.t.size < _LEAST:
        return None
    if not isinstance(arm, Mapping) or arm.get('ur_type') not in UR_TYPES:
        raise InvalidInput('needs "arm" with "ur_type", as `demo` writes it')
    model = load_model(arm['ur_type'])
    T_tool_tcp = _numbers(arm, 'T_tool_tcp', (4, 4))
    trace = Trace(joints.t, joints.q, joints.qd, forward(model, joints.q) @ T_tool_tcp)
    known = np.isfinite(joints.q_reference).all(axis=1)
    p_reference = np.full((joints.t.size, 3), np.nan)
    p_reference[known] = _in_base_link(forward(model, joints.q_reference[known]) @ T_tool_tcp)
    return Motion(
        trace,
        joints.q_reference,
        _in_base_link(trace.T_base_tcp),
        p_reference,
        _numbers(arm, 'max_velocity', (6,)),
        float(_numbers(arm, 'max_speed', ())),
    )


def _numbers(arm: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    try:
        values = np.array(arm.get(name), dtype=float)
    except (TypeError, ValueError):
        values = np.array(math.nan)
    if values.shape != shape or not np.isfinite(values).all():
        size = ' x '.join(map(str, shape)) + ' finite numbers' if shape else 'a finite number'
        raise InvalidInput(f'arm: {name} = {arm.get(name)!r}: must be {size}')
    return values


def _in_base_link(T_base_tcp: Array) -> Array:
    return np.asarray((T_BASE_LINK_BASE @ T_base_tcp)[:, :3, 3])


def _to_segment(p: Array, a: Array, b: Array) -> Array:
    """Return the distance (n,) of points from segments, all (n, 3)."""
    way = b - a
    length = np.maximum((way * way).sum(axis=1), 1e-18)
    share = np.clip(((p - a) * way).sum(axis=1) / length, 0.0, 1.0)
    return np.asarray(np.linalg.norm(p - a - share[:, None] * way, axis=1))
