# SPDX-License-Identifier: Apache-2.0
"""
The TF tree of ur_description: link frames and fixed frames.

References
----------
Universal_Robots_ROS2_Description, urdf/ur_macro.xacro and config/ur5/default_kinematics.yaml. The
link frames split the DH product before the joint: link i is Tx(a) Rx(alpha) of joint i-1, then
Tz(d) Rz(q) of joint i, so that the last link is DH frame 6.

"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ur5_pick_place.kinematics import Model

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

LINKS = (
    'base_link_inertia',
    'shoulder_link',
    'upper_arm_link',
    'forearm_link',
    'wrist_1_link',
    'wrist_2_link',
    'wrist_3_link',
)

_NONE = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Frame:
    """Pose of `child` in `parent`: position [m] and quaternion x, y, z, w."""

    parent: str
    child: str
    position: Vector
    quat_xyzw: Quaternion


def fixed_frames(prefix: str = '') -> list[Frame]:
    """Return the fixed frames; all names but `world` have the prefix."""
    here = (0.0, 0.0, 0.0)
    turned = (0.0, 0.0, 1.0, 0.0)  # pi about z: base_link is REP-103, base the controller's
    return [
        Frame('world', f'{prefix}base_link', here, _NONE),
        Frame(f'{prefix}base_link', f'{prefix}base_link_inertia', here, turned),
        Frame(f'{prefix}base_link', f'{prefix}base', here, turned),
        Frame(f'{prefix}wrist_3_link', f'{prefix}ft_frame', here, (1.0, 0.0, 0.0, 0.0)),
        Frame(f'{prefix}wrist_3_link', f'{prefix}flange', here, (-0.5, -0.5, -0.5, 0.5)),
        Frame(f'{prefix}flange', f'{prefix}tool0', here, (0.5, 0.5, 0.5, 0.5)),
    ]


def link_frames(model: Model, q: Sequence[float], prefix: str = '') -> list[Frame]:
    """
    Return the frames that move with the joints.

    Parameters
    ----------
    q : sequence of float
        Joint positions in controller order [rad].
    prefix : str
        Prefix of the frames' names.

    """
    frames = []
    a = alpha = 0.0
    for i in range(6):
        half = (float(q[i]) + float(model.offset[i])) / 2
        ca, sa = math.cos(alpha / 2), math.sin(alpha / 2)
        cq, sq = math.cos(half), math.sin(half)
        d = float(model.d[i])
        frames.append(
            Frame(
                prefix + LINKS[i],
                prefix + LINKS[i + 1],
                (a, -math.sin(alpha) * d, math.cos(alpha) * d),
                (sa * cq, -sa * sq, ca * sq, ca * cq),
            )
        )
        a, alpha = float(model.a[i]), float(model.alpha[i])
    return frames
