# SPDX-License-Identifier: Apache-2.0
"""How a stopped motion brakes on its path, when it is canceled instead, and what lies ahead."""

import numpy as np

from ur5_pick_place.control.controller import Goal
from ur5_pick_place.control.loops.stream import Stream
from ur5_pick_place.control.path_position import first_pass
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.control.stop_trajectory import brake
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner

_REPLY = 0.25  # [s] for the controller to accept the braking motion; then all is canceled
_SLOW = 0.2  # speed scaling below which a cancel is as gentle as braking, and quicker
# An arm follows its plan if its joint velocities are those of the plan at some time up to _LAG [s]
# earlier, within a share of the speed and a slack [rad/s].
_LAG, _SHARE, _SLACK = 0.1, 0.5, 0.03
_EQUALLY_NEAR = 0.02  # [rad]; how much nearer a later pass must be to be the present one
_STEP = 0.02  # [s] between samples of a path; the collision check sweeps between them


def braking_motion(
    goal: Goal, status: RobotStatus, planner: MotionPlanner, takeover_time: float, now: float
) -> Trajectory | None:
    """
    Return the motion that brakes a running goal on its path; None if it is to be canceled.

    It begins at the stamp of the joints. The controller has `takeover_time` [s] from the steady
    time `now` [s] on to receive it before it brakes.
    """
    t = goal.time_at(status.stamp, status.speed_scaling)
    if is_slow(status) or not goal.is_running_at(t) or not follows_plan(goal, status, t):
        return None
    delay = takeover_time + status.speed_scaling * status.age(now)
    return brake(goal.trajectory, max(t, 0.0), planner.limits, delay, planner.dynamics)


def is_slow(status: RobotStatus) -> bool:
    """Return whether the arm moves so slowly that it stops at once."""
    return status.speed_scaling < _SLOW


def follows_plan(goal: Goal, status: RobotStatus, t: float) -> bool:
    """
    Return whether the measured velocities are those of the plan at its time t [s], or just before.

    They are not if somebody else has stopped the arm and this node does not know it yet:
    pick_place cancels all goals where this node answers its stop late, as it may on a busy PC.
    """
    if status.qd is None:
        return False
    earlier = np.maximum(t - np.linspace(0.0, _LAG, 11) * status.speed_scaling, 0.0)
    planned = status.speed_scaling * goal.trajectory.sample(earlier)[1]
    off, speed = np.abs(status.qd - planned).max(axis=1), np.abs(planned).max(axis=1)
    return bool((off <= _SHARE * speed + _SLACK).any())


def ends_braking(goal: Goal, status: RobotStatus, now: float) -> bool:
    """Return whether a braking motion gives way to a cancel at a steady time [s]."""
    is_late = not goal.is_accepted and now - goal.sent > _REPLY
    return is_late or is_slow(status)


def too_near(planner: MotionPlanner, braking: Trajectory | None) -> str:
    """Return what to add to a stop reason if the arm cannot brake before an obstacle, or ''."""
    if braking is None or not planner.why_blocked(_joints_along(braking)):
        return ''
    return (
        f'; the arm needs {braking.duration:.2f} s to brake and cannot stop before it, so the '
        'motion was canceled at once: look whether the arm has touched it'
    )


def path_ahead(motion: Goal | Stream | None, q: Array | None) -> Array:
    """Return the joints (n, 6) [rad] that a motion will pass from `q` (6,) on; n = 0 if none."""
    if motion is None or q is None:
        return np.empty((0, 6))
    trajectory = motion.trajectory
    if trajectory is None:  # of a jog
        return _joints_along(motion.loop.braking if isinstance(motion, Stream) else None)
    return path_from(q, trajectory, motion.within)


def path_from(
    q: Array, trajectory: Trajectory, within: tuple[float, float] = (0.0, np.inf)
) -> Array:
    """Return joints (n, 6) [rad] from `q` (6,) on; the arm is between two times `within` [s]."""
    times = trajectory.dense_times(_STEP)
    later = times[times >= first_pass(trajectory, q, within, _EQUALLY_NEAR)]
    return np.vstack([q, trajectory.sample(later)[0]])


def _joints_along(braking: Trajectory | None) -> Array:
    if braking is None:
        return np.empty((0, 6))
    return braking.sample(braking.dense_times(_STEP))[0]
