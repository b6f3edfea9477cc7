# SPDX-License-Identifier: Apache-2.0
"""The shares of the cycle time of a recorded cycle, and its lower bound."""

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.limits import Limits, tcp_and_elbow_speed
from ur5_pick_place.planning.timing.ptp import time_ptp
from ur5_pick_place.report.motion import Samples
from ur5_pick_place.task import events

FLOOR = 'time_floor_s'
SHARES = MappingProxyType(
    {
        'time_free_motions_s': 'fastest joint motions home-start-target-home (computed)',
        'time_fingers_s': 'fingers moving, arm at rest',
        'time_approach_s': 'further motion: lines, slow near places',
        'time_waiting_s': 'waiting between motions: gripper input, payload, controller',
        'time_other_s': 'at rest before the first motion and after the last',
    }
)
"""The meaning of each field of a result; together they are the cycle time."""

_ARM_MOVES = 0.005  # [rad/s] any joint
_FINGERS_MOVE = 0.005  # [m/s]
_DIGITS = 3  # as the times of events


def time_shares(
    samples: Samples, model: Model, T_tool_tcp: Array, limits: Limits
) -> Mapping[str, Any]:
    """
    Return the fields `FLOOR` and `SHARES` of a recorded run [s].

    The lower bound is the time of three joint motions from rest to rest, between the joints at
    which the arm was at begin, grip, release and end, within the limits of joints, TCP and elbow
    alone, plus the time for which the arm is at rest while the fingers move.

    `T_tool_tcp` (4, 4).

    Returns empty unless the samples hold one cycle from begin to end, with one grip and one
    release.
    """
    joints, fingers = (samples.joints.t, samples.joints.q), samples.fingers
    times = _times(samples)
    if times is None or min(joints[0].size, fingers[0].size) < 2:
        return {}
    begin, end = times[0], times[-1]
    t = np.concatenate([joints[0], fingers[0]])
    t = np.unique([begin, *t[(t > begin) & (t < end)], end])
    middle, step = (t[1:] + t[:-1]) / 2, np.diff(t)
    arm = _moves(*joints, _ARM_MOVES, middle)
    if not arm.any():
        return {}
    at_grip = _moves(*fingers, _FINGERS_MOVE, middle) & ~arm
    first, last = middle[arm][[0, -1]]
    is_between = (first < middle) & (middle < last)

    def speed_of(q: Array, qd: Array) -> Array:
        return tcp_and_elbow_speed(model, q, qd, T_tool_tcp[:3, 3])

    places = samples.joints_at(np.array(times))
    free = sum(time_ptp(a, b, limits, speed_of).duration for a, b in pairwise(places))
    parts = (
        free,
        step[at_grip].sum(),
        step[arm].sum() - free,
        step[~arm & ~at_grip & is_between].sum(),
        step[~arm & ~at_grip & ~is_between].sum(),
    )
    shares = {name: round(float(s), _DIGITS) for name, s in zip(SHARES, parts, strict=True)}
    return {FLOOR: round(float(free + parts[1]), _DIGITS), **shares}


def shares_lines(run: Mapping[str, Any]) -> list[str]:
    """Return the cycle time of a result as a sum, one share a line; none where it is unknown."""
    if run.get(FLOOR) is None:
        return []
    parts = [f'{run[name]:.2f} s  {meaning}' for name, meaning in SHARES.items()]
    heading = '  where the time goes; the first two are the lower bound:'
    return [heading, *(f'    {sign} {part}' for sign, part in zip('=++++', parts, strict=True))]


def _times(samples: Samples) -> list[float] | None:
    """Return the times of begin, grip, release and end of a cycle [s]; None if one is missing."""
    wanted = (
        (events.STARTED,),
        (events.GRASP_VERIFIED, events.GRASP_UNVERIFIED),
        (events.PLACED,),
        (events.DONE,),
    )
    found = [samples.times_of(*names) for names in wanted]
    return [times[0] for times in found] if all(len(times) == 1 for times in found) else None


def _moves(times: Array, values: Array, least: float, t: Array) -> NDArray[np.bool_]:
    """Return whether values (k, m) change faster than `least` per second at times `t`, (n,)."""
    change = np.abs(np.diff(values, axis=0)).max(axis=1)
    is_fast = np.array([False, *(change > least * np.diff(times)), False])
    return np.asarray(is_fast[np.searchsorted(times, t, side='right')])
