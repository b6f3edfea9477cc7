# SPDX-License-Identifier: Apache-2.0
"""What a running motion, or the one that brakes it, meets in the present scene."""

from ur5_pick_place.control.controller import Goal
from ur5_pick_place.control.motion_monitor import path_from
from ur5_pick_place.control.stream import Stream
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.trajectory import Trajectory

_STEP = 0.02  # [s] between samples; the collision check sweeps between them


def obstacle_ahead(
    planner: MotionPlanner, motion: Goal | Stream | None, q: Array | None
) -> str:
    """Return what the rest of a motion meets from joints (6,) [rad] on; empty if nothing."""
    if motion is None or q is None:
        return ''
    if motion.trajectory is None:
        return _on_the_way(planner, motion.loop.stopping)
    within = motion.monitor.within if isinstance(motion, Goal) else (0.0, float('inf'))
    return planner.obstacle(path_from(q, motion.trajectory, within))


def _on_the_way(planner: MotionPlanner, stopping: Trajectory | None) -> str:
    if stopping is None:
        return ''
    return planner.obstacle(stopping.sample(stopping.dense_times(_STEP))[0])


def too_near(planner: MotionPlanner, stopping: Trajectory | None) -> str:
    """Return what is to be said if the arm cannot brake before an obstacle; empty if it can."""
    if stopping is None or not _on_the_way(planner, stopping):
        return ''
    return (
        f'; that is nearer than the {stopping.duration:.2f} s of braking, so the motion was '
        'canceled at once: look whether the arm has touched it'
    )
