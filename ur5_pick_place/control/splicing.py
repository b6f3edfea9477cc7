# SPDX-License-Identifier: Apache-2.0
"""
Trajectories for a controller that splices a new one onto the running one.

Up to 6.9 joint_trajectory_controller starts a trajectory with a past stamp in the middle, at the
present time. Later versions start it at its first point: the arm would step back by its speed
times the age of the stamp. They get only the rest of it, from the expected time of arrival on.

"""

from ur5_pick_place.control.stop_trajectory import rest_of
from ur5_pick_place.planning.trajectory import Trajectory, hold_trajectory

_LARGEST_AGE = 0.1  # [s]; clocks further apart are not in step


def on_arrival(trajectory: Trajectory, begin: float, arrival: float) -> Trajectory:
    """
    Return what remains of a motion that began at stamp `begin`, to be sent without a stamp.

    Parameters
    ----------
    trajectory : Trajectory
    begin, arrival : float
        Stamps of its first point and of its expected arrival in the controller [s].

    """
    age = min(max(arrival - begin, 0.0), _LARGEST_AGE)
    if age >= trajectory.duration:
        return hold_trajectory(trajectory.q[-1])
    return rest_of(trajectory, age)
