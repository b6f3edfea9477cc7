# SPDX-License-Identifier: Apache-2.0
"""
Trajectories for a controller that splices a new one onto the running one.

Up to 6.9 joint_trajectory_controller joins a trajectory whose stamp is past where it would be now.
After it, a stamp that is past counts as now, so that the arm would step back by its speed times
the age of the stamp. What such a controller gets therefore begins where the motion is on arrival.

"""

from ur5_pick_place.control.stop_trajectory import rest_of
from ur5_pick_place.planning.trajectory import Trajectory, at_rest

_LARGEST_AGE = 0.1  # [s]; clocks further apart are not in step


def on_arrival(trajectory: Trajectory, begin: float, arrival: float) -> Trajectory:
    """
    Return the rest of a motion that began at stamp `begin`, to be sent without a stamp.

    Parameters
    ----------
    trajectory : Trajectory
    begin, arrival : float
        Stamps of its first point and of its expected arrival in the controller [s].

    """
    age = min(max(arrival - begin, 0.0), _LARGEST_AGE)
    if age >= trajectory.duration:
        return at_rest(trajectory.q[-1])
    return rest_of(trajectory, age)
