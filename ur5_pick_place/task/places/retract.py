# SPDX-License-Identifier: Apache-2.0
"""The retract motion: straight up from a place at which the arm was stopped."""

import math
from collections.abc import Iterable

import numpy as np

from ur5_pick_place.errors import PlanningError
from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.paths.moves import PathSegment
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.cycle.steps import annotate
from ur5_pick_place.task.motions import PlannedStage, TaskSettings
from ur5_pick_place.task.places.names import above

_MIN_RISE = 0.1  # share of approach_height; a smaller rise to it needs no motion of its own


def retract_from_place(
    planner: MotionPlanner,
    q: Array,
    places: Iterable[tuple[str, Array]],
    settings: TaskSettings,
) -> PlannedStage | None:
    """
    Return a stage straight up to `approach_height` above the nearest place; None if none is near.

    A part may stand between the fingers of an arm that was stopped at a place. Any other motion
    would push it over, and the scene does not know of it.

    - `planner`: with an empty gripper or a part in it
    - `q` (6,): joints now [rad]
    - `places` (3,): names and TCP positions (`base`) of the places where a part may stand [m]

    Raises `PlanningError`: the arm cannot move straight up.
    """
    height, T_base_tool = settings.approach_height, forward(planner.model, q)
    tcp = (T_base_tool @ planner.scene.tool.T_tool_tcp)[:3, 3]
    up = planner.scene.mounting.up_base
    near = [(float(np.linalg.norm(p - tcp)), name, float(up @ (tcp - p))) for name, p in places]
    distance, name, above_it = min(near, default=(math.inf, '', 0.0))
    if distance >= height:
        return None
    rise = height - above_it
    if rise < _MIN_RISE * height:
        return None
    T_up = T_base_tool.copy()
    T_up[:3, 3] += rise * up
    slow = max(settings.approach_distance - above_it, 0.0)
    speed = settings.approach_speed if slow else 0.0
    try:
        motion = planner.chain(q, [PathSegment(T_up, speed=speed, slow_first=slow)])
    except PlanningError as error:
        raise PlanningError(
            f'the arm is at {name} and cannot leave it straight up: {error}; jog it away first'
        ) from error
    return PlannedStage(annotate([Stage(f'leave {name}', 'lin', above(name))]), motion)
