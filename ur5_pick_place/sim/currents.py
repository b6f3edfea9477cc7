# SPDX-License-Identifier: Apache-2.0
"""
Motor currents, which the driver reports as `effort`.

UR publishes neither gears nor motors. The strain wave gears are said to reduce by 101; torque
constants are of the size that the literature has for a UR5's two larger kinds of joint (Kufieta,
Force estimation in robotic manipulators, NTNU 2014), for every type. They were not checked on a
robot: read the currents for their sign and size, and no torque from them.

"""

import numpy as np

from ur5_pick_place.kinematics.transforms import Array

_GEAR = 101.0
_TORQUE_CONSTANTS = np.array([0.125, 0.125, 0.125, 0.0922, 0.0922, 0.0922])  # [N m / A]


def motor_currents(torque: Array) -> Array:
    """Return the currents of the motors [A] for joint torques (6,) [N m], without friction."""
    return torque / (_GEAR * _TORQUE_CONSTANTS)
