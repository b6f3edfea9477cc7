# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics and Jacobians of a nominal or calibrated arm, for any stack of joints."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.model import JOINT_NAMES, MOVING_LINKS, Model
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array, as_floats, is_finite

# The links that move, as the robot description calls them: link i turns with joint i.
LINK_NAMES = tuple(f'{link}_link' for link in MOVING_LINKS)


def check_joints(q: ArrayLike, name: str = 'q') -> Array:
    """Return joints as float64 (..., 6), or raise `InvalidInput` naming the wrong entry."""
    joints = as_floats(q, name)
    if joints.shape[-1:] != (6,):
        raise InvalidInput(f'{name} has shape {joints.shape}: must be (..., 6)')
    if not is_finite(joints):
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(joints))[0])
        raise InvalidInput(
            f'{name}[{", ".join(map(str, at))}] = {joints[at]} ({JOINT_NAMES[at[-1]]}): '
            'must be finite'
        )
    return joints


def forward(m: Model, q: ArrayLike) -> Array:
    """Return T_base_tool (..., 4, 4) [m] of joints (..., 6) [rad]; tool = DH frame 6, tool0."""
    joints = check_joints(q)
    T: Array = np.empty((*joints.shape[:-1], 4, 4))
    m.arm.forward(np.ascontiguousarray(joints).reshape(-1, 6), T.reshape(-1, 4, 4))
    return T


def link_frames(m: Model, q: ArrayLike) -> Array:
    """
    Return T_base_i (..., 7, 4, 4) [m] of every DH frame i, 0 (`base` itself) to 6 (the tool).

    `q` (..., 6): joint angles [rad].
    """
    joints = check_joints(q)
    frames: Array = np.empty((*joints.shape[:-1], 7, 4, 4))
    rows = np.ascontiguousarray(joints).reshape(-1, 6)
    m.arm.link_frames(rows, frames.reshape(-1, 7, 4, 4))
    return frames


def arm_corners(m: Model, q: ArrayLike) -> Array:
    """
    Return the corners of the arm drawn as a line, in `base_link` (13, 3) [m].

    For each joint two corners, the origin of the frame before it and that origin moved by d along
    z, so that shoulder and elbow can be distinguished; then the tool. Joints `q` (6,) [rad].
    """
    frames = T_BASE_LINK_BASE @ link_frames(m, q)
    moved = frames[:6, :3, 3] + m.d[:, None] * frames[:6, :3, 2]
    corners = np.stack([frames[:6, :3, 3], moved], axis=1).reshape(-1, 3)
    return np.vstack([corners, frames[6, :3, 3]])


def link_pose(m: Model, q: ArrayLike, link: str) -> Array:
    """
    Return T_base_link (..., 4, 4) [m] of a link of the robot description, one of `LINK_NAMES`.

    Its frame lies on the joint's axis and turns with it: DH frame i without the Tx(a) Rx(alpha)
    that follow the joint. The last one is the tool.

    `q` (..., 6): joint angles [rad].
    """
    if link not in LINK_NAMES:
        raise InvalidInput(f'link {link!r} is unknown: must be one of {", ".join(LINK_NAMES)}')
    i = LINK_NAMES.index(link)
    c, s = float(np.round(np.cos(m.alpha[i]))), float(np.round(np.sin(m.alpha[i])))
    T_dh_link = np.array(
        [[1.0, 0.0, 0.0, -m.a[i]], [0.0, c, s, 0.0], [0.0, -s, c, 0.0], [0.0, 0.0, 0.0, 1.0]]
    )
    T_base_link: Array = link_frames(m, q)[..., i + 1, :, :] @ T_dh_link
    return T_base_link


def jacobian(m: Model, q: ArrayLike, frame: Literal['tool', 'base'] = 'tool') -> Array:
    """
    Return the Jacobian (..., 6, 6) [m, rad per rad], to the twist of the tool, linear part first.

    Joint i turns about the z axis of its mount, so its column is (z x (p_tool - p_mount), z).

    `q` (..., 6): joint angles [rad]. `frame`: axes of the twist: 'tool' gives the body Jacobian,
    'base' the velocity of the tool's origin and the angular velocity in the axes of `base`.
    """
    if frame not in ('tool', 'base'):
        raise InvalidInput(f"Jacobian frame {frame!r}: must be 'tool' or 'base'")
    joints = check_joints(q)
    J: Array = np.empty((*joints.shape[:-1], 6, 6))
    rows = np.ascontiguousarray(joints).reshape(-1, 6)
    m.arm.jacobian(rows, frame == 'tool', J.reshape(-1, 6, 6))
    return J
