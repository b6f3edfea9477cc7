# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics and Jacobians of a nominal or calibrated arm, for any stack of joints."""

from collections.abc import Sequence
from math import isfinite
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.model import JOINT_NAMES, MOVING_LINKS, Model
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array, as_floats

# The links that move, as the robot description calls them: link i turns with joint i.
LINK_NAMES = tuple(f'{link}_link' for link in MOVING_LINKS)


def check_joints(q: ArrayLike, name: str = 'q') -> Array:
    """Return joints as float64 (..., 6), or raise `InvalidInput` naming the wrong entry."""
    joints = as_floats(q, name)
    if joints.shape[-1:] != (6,):
        raise InvalidInput(f'{name} has shape {joints.shape}: must be (..., 6)')
    if joints.ndim == 1 and all(map(isfinite, joints.tolist())):
        return joints  # faster than NumPy for six numbers
    finite = np.isfinite(joints)
    if not finite.all():
        at = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise InvalidInput(
            f'{name}[{", ".join(map(str, at))}] = {joints[at]} ({JOINT_NAMES[at[-1]]}): '
            'must be finite'
        )
    return joints


def forward(m: Model, q: ArrayLike) -> Array:
    """
    Return the pose of the tool (DH frame 6, tool0) in `base`.

    Parameters
    ----------
    q : array_like, shape (..., 6)
        Joint angles [rad].

    Returns
    -------
    ndarray, shape (..., 4, 4)
        T_base_tool, metres.

    """
    joints = check_joints(q)
    T: Array = np.empty((*joints.shape[:-1], 4, 4))
    m.arm.forward(np.ascontiguousarray(joints).reshape(-1, 6), T.reshape(-1, 4, 4))
    return T


def link_frames(m: Model, q: ArrayLike) -> Array:
    """
    Return the pose in `base` of every DH frame, 0 (`base` itself) to 6 (the tool).

    Parameters
    ----------
    q : array_like, shape (..., 6)
        Joint angles [rad].

    Returns
    -------
    ndarray, shape (..., 7, 4, 4)
        T_base_i in row i, metres.

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
    Return the pose of a link of the robot description in `base`.

    Its frame lies on the joint's axis and turns with it: DH frame i without the Tx(a) Rx(alpha)
    that follow the joint.

    Parameters
    ----------
    q : array_like, shape (..., 6)
        Joint angles [rad].
    link : str
        One of `LINK_NAMES`; the last is the tool.

    Returns
    -------
    ndarray, shape (..., 4, 4)
        T_base_link, metres.

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
    Return the Jacobian from joint velocities to the twist of the tool, linear part first.

    Joint i turns about the z axis of its mount, so its column is (z x (p_tool - p_mount), z).

    Parameters
    ----------
    q : array_like, shape (..., 6)
        Joint angles [rad].
    frame : {'tool', 'base'}
        Axes of the twist: 'tool' gives the body Jacobian, 'base' the velocity of the tool's origin
        and the angular velocity in the axes of `base`.

    Returns
    -------
    ndarray, shape (..., 6, 6)
        Metres and radians per radian.

    """
    if frame not in ('tool', 'base'):
        raise InvalidInput(f"Jacobian frame {frame!r}: must be 'tool' or 'base'")
    joints = check_joints(q)
    J: Array = np.empty((*joints.shape[:-1], 6, 6))
    rows = np.ascontiguousarray(joints).reshape(-1, 6)
    m.arm.jacobian(rows, frame == 'tool', J.reshape(-1, 6, 6))
    return J


def point_velocity(
    m: Model, q: ArrayLike, qd: ArrayLike, points: Sequence[tuple[int, ArrayLike]]
) -> Array:
    """
    Return the velocity in `base` of points that are fixed to links of the arm.

    Parameters
    ----------
    m : Model
        Ideal or calibrated.
    q, qd : array_like, shape (..., 6)
        Joint angles [rad] and velocities [rad/s].
    points : sequence of (int, array_like of shape (3,))
        For each point its DH frame, 1 to 6 (6 = the tool), and its position in that frame [m].

    Returns
    -------
    ndarray, shape (..., len(points), 3)
        [m/s]

    """
    frames = link_frames(m, q)
    z, origin = _joint_axes(m, frames)
    spin = np.asarray(qd, dtype=np.float64)[..., None] * z
    # Angular velocity of each link, and velocity of the link's point at the origin of `base`.
    omega = np.cumsum(spin, axis=-2)
    drift = np.cumsum(np.cross(origin, spin), axis=-2)
    velocities = []
    for frame, p_frame_point in points:
        T = frames[..., frame, :, :]
        p = T[..., :3, :3] @ np.asarray(p_frame_point, dtype=np.float64) + T[..., :3, 3]
        velocities.append(drift[..., frame - 1, :] + np.cross(omega[..., frame - 1, :], p))
    return np.stack(velocities, axis=-2)


def _joint_axes(m: Model, frames: Array) -> tuple[Array, Array]:
    """Return direction and a point of each joint's axis in `base`, (..., 6, 3) [1, m]."""
    axes = frames[..., :6, :, :] if m.mounts is None else frames[..., :6, :, :] @ m.mounts
    return axes[..., :3, 2], axes[..., :3, 3]
