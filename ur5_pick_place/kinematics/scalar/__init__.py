# SPDX-License-Identifier: Apache-2.0
"""
The kinematics of one configuration or pose, number by number: what runs per tick and per sample.

`make setup` compiles the parts of this package as one module, with the C types of `compiled.pxd`;
`core` chooses between the compiled and this form. Both do the same arithmetic in the same order.
The parts have no name in common. Callers pass contiguous float64 arrays of the stated shapes:
sizes are not checked here.

References
----------
The UR5 IK note, for `closed_form`. Lynch and Park, Modern Robotics (2017), sections 3.2 and 3.3,
for exp and log; chapter 5 for the Jacobian.

"""

from ur5_pick_place.kinematics.scalar.arm import Arm
from ur5_pick_place.kinematics.scalar.branch import classify
from ur5_pick_place.kinematics.scalar.calibrated import MOST, solutions
from ur5_pick_place.kinematics.scalar.closed_form import planes
from ur5_pick_place.kinematics.scalar.inverse import inverse, inverse_all, solutions_near
from ur5_pick_place.kinematics.scalar.joints import (
    between,
    is_within,
    largest_gap,
    nearest,
    turn_near,
)
from ur5_pick_place.kinematics.scalar.laws import descent, limit_rate, resolved_rate
from ur5_pick_place.kinematics.scalar.motion import changed, fewest_cycles, unproved
from ur5_pick_place.kinematics.scalar.poses import (
    RIGID_TOLERANCE,
    body_error,
    compose,
    error_twist,
    fill_pose,
    log_se3,
    log_so3,
    moved,
    on_line,
)

__all__ = [
    'MOST',
    'RIGID_TOLERANCE',
    'Arm',
    'between',
    'body_error',
    'changed',
    'classify',
    'compose',
    'descent',
    'error_twist',
    'fewest_cycles',
    'fill_pose',
    'inverse',
    'inverse_all',
    'is_within',
    'largest_gap',
    'limit_rate',
    'log_se3',
    'log_so3',
    'moved',
    'nearest',
    'on_line',
    'planes',
    'resolved_rate',
    'solutions',
    'solutions_near',
    'turn_near',
    'unproved',
]
