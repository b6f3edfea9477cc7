# SPDX-License-Identifier: Apache-2.0
"""
The model of one arm: DH table, limits, and joint mounts if it is calibrated.

Frame i follows frame i-1 by Rz(q_i + offset_i) Tz(d_i) Tx(a_i) Rx(alpha_i) (standard DH). Frame 0
is the controller's `base`, frame 6 is `tool0`. Metres and radians throughout.

References
----------
DH tables: Universal Robots, article "DH Parameters for calculations of kinematics and dynamics".
Limits: Universal_Robots_ROS2_Description, config/<type>/joint_limits.yaml, which takes speeds from
the user manuals and torques from the article "Max. joint torques". The same numbers are in
config/<type>/default_kinematics.yaml.
Masses, centres and inertias: config/<type>/physical_parameters.yaml there, rotated here from link
frames to DH frames, but for what follows. At 2221ec0: ur3 (its links as cylinders), ur10, ur10e,
ur12e, ur16e, ur20, masses of ur5 and ur30. At 3426d67: tensors of ur3e and ur5e; the ur7e has the
ur5e's. At 2cb0bf1: ur15. At 6ffee81: ur18, no second source. From its ROS 1 port at 31e2294:
ur8long, no second source. Centres and tensors of ur5: its parameter sheet (kinematics and
dynamics), which has 1.1219 kg for links 4 and 5. Tensors of ur30, and mass and centre of link 6 of
ur20: the article of the DH tables (the description repeats others').
"""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.kinematics._ik import Arm
from ur5_pick_place.kinematics.transforms import Array

JOINT_NAMES = (
    'shoulder_pan_joint',
    'shoulder_lift_joint',
    'elbow_joint',
    'wrist_1_joint',
    'wrist_2_joint',
    'wrist_3_joint',
)

LINKS = ('base', 'shoulder', 'upper_arm', 'forearm', 'wrist_1', 'wrist_2', 'wrist_3')
MOVING_LINKS = LINKS[1:]
"""Link i of these turns with joint i."""

HOME = np.deg2rad([0.0, -90.0, 90.0, -90.0, -90.0, 0.0])  # tool down, clear of all singularities
HOME.setflags(write=False)

CYCLE = 0.008
"""Control period of a CB3 robot and its driver [s]; also the grid of a closed loop's reference."""

ALPHA = (math.pi / 2, 0.0, 0.0, math.pi / 2, -math.pi / 2, 0.0)  # the same for every UR [rad]

# The elbow is limited to half of its ±360° because it hits the upper arm beyond about ±180°
# (ros-industrial/universal_robot issue 265). wrist_3 of ur3 and ur3e turns endlessly; it is
# limited to ±360° like the others, which is also enough for every variant.
Q_MAX = np.deg2rad([360.0, 360.0, 180.0, 360.0, 360.0, 360.0])

def _read_arms() -> dict[str, dict[str, Any]]:
    arms = json.loads(Path(__file__).with_name('arms.json').read_text())
    return {name: {**arms.get(arm.get('like'), {}), **arm} for name, arm in arms.items()}


ARMS = _read_arms()
"""
By UR type, what UR publishes; an arm `like` another differs in what it gives itself.

`cycle`: control period of the robot and its driver [s].
`lengths`: a2, a3, d1, d4, d5, d6 [m]. `speeds`, `torques`: of joint 1-2, 3, 4-6 [deg/s, N m].
`payload` [kg]: UR, technical details of each type. `links`: of links 1 to 6, in DH frame i, which
turns with joint i, `mass` [kg], `centre` [m] and `inertia` about it, xx, yy, zz, xy, xz, yz
[kg m2]; no source has the rotors. `assumed`: what UR has not published of this type.
"""
UR_TYPES = tuple(ARMS)

# The UR3 of the laboratory exercise, with the lengths of its work sheet. Its zero differs:
# robot theta_1 = sheet + pi, robot theta_4 = sheet - pi/2.
UR3_LAB_DH = (-0.244, -0.213, 0.152, 0.110, 0.083, 0.082)
UR3_LAB_OFFSET = (math.pi, 0.0, 0.0, -math.pi / 2, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Model:
    """One arm's geometry and limits; arrays are read-only."""

    name: str  # preset, or 'dh' for a caller's own table
    # (6,) DH lengths and offsets [m]
    a: Array
    d: Array
    # (6,) DH twists, and the offset added to q to give theta [rad]
    alpha: Array
    offset: Array
    # (6,) position limits of q [rad]
    q_min: Array
    q_max: Array
    qd_max: Array  # (6,) speed limits [rad/s]
    effort_max: Array  # (6,) torque limits [N m]
    payload: float  # largest mass at the flange, tool and part together [kg]
    # (6, 4, 4) calibrated arms only: the frame in which joint i turns about z, seen from frame
    # i-1; a nominal arm has Tz(d_i) there
    mounts: Array | None = None
    calibration: str = ''  # hash of the calibration file; empty for a nominal arm

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            if isinstance(value, np.ndarray):
                frozen = np.array(value, dtype=np.float64)
                frozen.setflags(write=False)
                object.__setattr__(self, key, frozen)

    @property
    def cycle(self) -> float:
        """Control period of the robot and its driver [s]."""
        return float(ARMS.get(self.name, {}).get('cycle', CYCLE))

    @property
    def assumed(self) -> str:
        """What is assumed of the arm because UR has not published it; empty if nothing is."""
        return str(ARMS.get(self.name, {}).get('assumed', ''))

    @cached_property
    def lengths(self) -> tuple[float, float, float, float, float, float]:
        """The six lengths of a UR as plain numbers: a2, a3, d1, d4, d5, d6 [m]."""
        _, a2, a3, *_ = self.a.tolist()
        d1, _, _, d4, d5, d6 = self.d.tolist()
        return a2, a3, d1, d4, d5, d6

    @cached_property
    def reach(self) -> tuple[float, float]:
        """Least and largest distance of frame 3 from frame 1: elbow folded, stretched [m]."""
        a2, a3 = abs(self.lengths[0]), abs(self.lengths[1])
        return abs(a2 - a3), a2 + a3

    @cached_property
    def arm(self) -> Arm:
        """The arm as the compiled kinematics take it."""
        ca, sa = np.round(np.cos(self.alpha)), np.round(np.sin(self.alpha))  # exactly 0 or ±1
        rows = np.stack([self.a, self.d, ca, sa, self.offset], axis=1)
        mounts = [] if self.mounts is None else self.mounts.ravel().tolist()
        return Arm(self.lengths, rows.ravel().tolist(), mounts)
