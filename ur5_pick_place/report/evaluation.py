# SPDX-License-Identifier: Apache-2.0
"""
The result of a demo's run, from its messages and from what the demo was asked.

Lengths and angles are the simulator's, times are simulated; `planning_time_s` is wall time. The
largest error of a cube from its place is the placement error, a quarter turn of the cube counts.
The grip offset is the pose of the cube in the gripper relative to the taught grip; the in-hand
error is the placement error without it: what the arm causes, not the grip. Both are known only
where one cube is gripped once.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ur5_pick_place.errors import InvalidInput, quoted
from ur5_pick_place.kinematics import Model, forward, load_model
from ur5_pick_place.kinematics.transforms import (
    T_BASE_LINK_BASE,
    Array,
    inverse_transform,
    log_so3,
    pose_distance,
    tool_down,
)
from ur5_pick_place.planning.limits import MotionSettings, motion_limits
from ur5_pick_place.report.motion import Motion, Samples, numbers
from ur5_pick_place.report.time_shares import FLOOR, SHARES, time_shares
from ur5_pick_place.task import events

TOLERANCE_M = 0.002
TOLERANCE_RAD = math.radians(1.0)
"""Largest placement error of a successful run."""

FIGURES = (
    'placement_error_m',
    'placement_error_rad',
    'placement_errors_m',
    'placement_errors_rad',
    'grip_offset_m',
    'grip_offset_rad',
    'in_hand_error_m',
    'in_hand_error_rad',
    'cycle_time_s',
    'planning_time_s',
    'max_tcp_speed_m_s',
    FLOOR,
    *SHARES,
)
"""The figures of a result, in this order; None where they are unknown."""

_NO_CUBES = np.zeros((0, 4, 4))


def evaluate(
    asked: Mapping[str, Any], samples: Samples, motion: Motion | None, ur_type: str
) -> dict[str, Any]:
    """
    Return the result of a run as JSON values, rounded to six digits.

    `asked`: as `Task.facts` of the demo gives it, with `method`, `failure` and `planning_time_s`.
    `samples`: from the start of the run until the cubes are at rest; empty if the run never began.
    `motion`: of their joints.

    Raises `InvalidInput, KeyError, TypeError`: not as the demo writes it.
    """
    method, failure = asked['method'], asked['failure']
    if not isinstance(method, str) or not isinstance(failure, str):
        raise InvalidInput('method and failure: must be text')
    model = load_model(ur_type)
    T_tool_grip = numbers(asked, 'T_tool_grip', (4, 4))
    ends = numbers(asked, 'ends', (len(asked['ends']), 4, 4)) if asked['ends'] else _NO_CUBES
    limits = motion_limits(model, MotionSettings(**asked['limits']))
    found = {
        **measured(samples, ends, model, T_tool_grip),
        **time_shares(samples, model, T_tool_grip, limits),
        'max_tcp_speed_m_s': motion and motion.max_tcp_speed,
    }
    if asked['planning_time_s'] is not None:
        found['planning_time_s'] = float(numbers(asked, 'planning_time_s', ()))
    places = {name: _spot(asked[name], '') for name in ('start', 'target') if name in asked}
    moved = asked['displacement'] and _spot(asked['displacement'], 'd')
    reason = failure or (misplacement(found, bool(moved)) if asked['ends'] else '')
    return {
        'method': method,
        'success': not reason,
        'reason': reason,
        **{name: _rounded(found.get(name)) for name in FIGURES},
        **places,
        'displacement': moved,
    }


def measured(
    samples: Samples, ends: Array, model: Model, T_tool_tcp: Array
) -> dict[str, Any]:
    """
    Return the figures for which the samples suffice.

    `ends` (k, 4, 4): where each cube must lie at the end, in `base_link`. `T_tool_tcp` (4, 4):
    where the tool holds the centre of a cube.
    """
    found: dict[str, Any] = {}
    if not samples.is_complete:
        return found

    def T_world_tcp(q: Array) -> Array:
        return np.asarray(T_BASE_LINK_BASE @ forward(model, q) @ T_tool_tcp)

    started, done = samples.times_of(events.STARTED), samples.times_of(events.DONE)
    if started and done:
        found['cycle_time_s'] = done[0] - started[0]
    ended = samples.parts[1][-1]
    if not len(ends) or len(ended) < len(ends) or np.isnan(ended[: len(ends)]).any():
        return found
    misses = [pose_distance(*pair) for pair in zip(ends, ended, strict=False)]
    for unit, errors in zip(('m', 'rad'), zip(*misses, strict=True), strict=True):
        found[f'placement_errors_{unit}'] = errors
        found[f'placement_error_{unit}'] = max(errors)
    grips = samples.times_of(events.GRASP_VERIFIED)
    if len(ends) == len(grips) == 1:
        T_tcp_part = (
            inverse_transform(T_world_tcp(samples.joints_at(grips[0])))
            @ samples.parts_at(grips[0])[0]
        )
        offset = tool_down(0.0, 0.0, 0.0, 0.0) @ T_tcp_part  # its own inverse
        found['grip_offset_m'] = tuple(offset[:3, 3].tolist())
        found['grip_offset_rad'] = tuple(log_so3(offset[:3, :3]).tolist())
        miss = pose_distance(ends[0] @ offset, ended[0])
        found['in_hand_error_m'], found['in_hand_error_rad'] = miss
    return found


def misplacement(found: Mapping[str, Any], is_displaced: bool) -> str:
    """
    Return why the cubes do not count as placed; '' if they do.

    If the cube was displaced after teaching, the error without the grip offset is checked.
    """
    what, how = ('in_hand', ' without grip offset') if is_displaced else ('placement', '')
    miss, turn = (found.get(f'{what}_error_{unit}') for unit in ('m', 'rad'))
    if miss is None or turn is None:
        return 'the simulator published no pose of the cube, or too few cubes'
    if miss <= TOLERANCE_M and turn <= TOLERANCE_RAD:
        return ''
    return (
        f'placement error{how} {1e3 * miss:.1f} mm and {math.degrees(turn):.1f} deg: must be '
        f'at most {1e3 * TOLERANCE_M:.0f} mm and {math.degrees(TOLERANCE_RAD):.0f} deg'
    )


def _spot(values: Any, prefix: str) -> dict[str, float]:
    if not isinstance(values, Mapping):
        raise InvalidInput(f'{quoted(values)}: must be numbers by name')
    names = [f'{prefix}{name}' for name in ('x', 'y', 'yaw')]
    return {name: float(numbers(values, name, ())) for name in names}


def _rounded(value: Any) -> Any:
    """Round to six digits: micrometres, microradians, microseconds."""
    if isinstance(value, tuple):
        return [_rounded(v) for v in value]
    return round(value, 6) if isinstance(value, float) else value
