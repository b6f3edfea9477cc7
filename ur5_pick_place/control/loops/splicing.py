# SPDX-License-Identifier: Apache-2.0
"""
How a controller joins a motion that has begun, or the next segment of a stream.

joint_trajectory_controller starts a trajectory with a past stamp in the middle, at the present
time, whenever it arrives. After 6.9 it starts it at its first point, unless
allow_trajectory_replacement is false: the arm would step back by its speed times the age of the
stamp. Nothing is streamed to it then; a braking motion has a stamp in the future, see `gap_form`.

The speed scaling slows down what the controller follows, but not the age of a stamp. A segment
that is received `d` later than expected is therefore joined (1 - scaling) * d too far with a
stamp, and scaling * d too early without one.
"""

from ur5_pick_place.control.loops.stream import TrajectorySegment
from ur5_pick_place.control.stop_trajectory import rest_of
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.paths.trajectory import Trajectory

_LARGEST_AGE = 0.1  # [s]; clocks further apart are not in step
_EARLY = 0.05  # of a period; a stamp and the points of a motion are known to about that
_STAMPED = 0.45  # least speed scaling with a stamp: near 0.5, but no usual slider setting


def next_segment(segment: TrajectorySegment, arrival: float) -> tuple[Trajectory, float]:
    """
    Return the trajectory to send for a segment, and its stamp [s]; 0 = without a stamp.

    `arrival`: stamp of its expected arrival in the controller [s].
    """
    scaling = segment.speed_scaling
    wait = min(max(arrival - segment.stamp, 0.0), _LARGEST_AGE)
    if scaling < _STAMPED:
        return rest_of(segment.trajectory, segment.age + scaling * wait), 0.0
    return segment.trajectory, segment.stamp - segment.age + (1.0 - scaling) * wait


def gap_form(
    segment: TrajectorySegment, points: Array, arrival: float, period: float
) -> tuple[float, float]:
    """
    Return the stamp [s] of a braking motion, and the time in it [s] at that stamp.

    A controller that splices keeps the running points between a message's arrival and one period
    before its stamp, a period late, before all new ones. Between two of them any future stamp is
    right whichever cycle takes the message, if the new motion begins in the past.

    - `points` (n,): when the controller passes the points of the running motion [s]
    - `arrival`, `period`: of the earliest cycle that may take the message, and of a cycle [s]
    """
    later = points[points > arrival + _EARLY * period]
    stamp = (float(later[0]) if len(later) else arrival + period) + (1.0 - _EARLY) * period
    return stamp, segment.age + segment.speed_scaling * (stamp - segment.stamp)


def has_gap(points: Array, arrival: float, period: float) -> bool:
    """Return whether `gap_form` allows for two cycles of delay; parameters as there."""
    ahead = (points - arrival) / period
    return not ((ahead > _EARLY) & (ahead < 1.0 + 3.0 * _EARLY)).any()
