# SPDX-License-Identifier: Apache-2.0
"""
Rigid motions: poses, twists, quaternions, roll-pitch-yaw, rotation vectors.

`T_a_b` is the pose of b in a and maps p_b to p_a, so T_a_b @ T_b_c = T_a_c. Twists have the linear
part first. Quaternions are x, y, z, w as in ROS. Roll, pitch, yaw are about the fixed axes, as in
URDF: R = Rz(yaw) Ry(pitch) Rx(roll). Everything works on stacks: shape (..., 4, 4), (..., 6) etc.

References
----------
Lynch and Park, Modern Robotics (2017), sections 3.2 and 3.3, for exp and log.
"""

from math import isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import _ik
from ur5_pick_place.kinematics._ik import RIGID_TOLERANCE

Array = NDArray[np.float64]

# base_link (REP-103, x forward) is the controller's base turned by pi about z.
T_BASE_BASE_LINK: Array = np.diag([-1.0, -1.0, 1.0, 1.0])
T_BASE_LINK_BASE = T_BASE_BASE_LINK  # half a turn is its own inverse

_FLOAT64 = np.dtype(np.float64)


def check_transform(T: ArrayLike, name: str = 'transform') -> Array:
    """
    Return `T` as float64 (..., 4, 4), or raise, naming the pose that is not a rigid motion.

    Raises `InvalidInput`: the shape is wrong, an entry is not finite, the last row is not 0 0 0 1,
    or the rotation is not orthonormal and right-handed within `RIGID_TOLERANCE`.
    """
    poses = as_poses(T, name)
    check_rigid(poses, name)
    return poses


def as_floats(values: ArrayLike, name: str) -> Array:
    """Return values as float64, or raise `InvalidInput` if they are not an array of reals."""
    try:
        found = np.asarray(values)
        if found.dtype is _FLOAT64:  # as nearly always, and a second conversion would cost more
            return found
        if np.iscomplexobj(found):
            raise TypeError('complex, must be real')
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f'{name}: not an array of numbers: {error}') from error


def is_finite(values: Array) -> bool:
    """Return whether all values are finite."""
    # A sum of squares is finite unless it overflows, and takes a fifth of the time.
    return isfinite(np.vdot(values, values)) or bool(np.isfinite(values).all())


def as_poses(T: ArrayLike, name: str) -> Array:
    """Return `T` as float64 of shape (..., 4, 4), entries unchecked; see `check_transform`."""
    poses = as_floats(T, name)
    if poses.shape[-2:] != (4, 4):
        raise InvalidInput(f'{name} has shape {poses.shape}: must be (..., 4, 4)')
    return poses


def check_rigid(poses: Array, name: str) -> None:
    """Check the entries of poses (..., 4, 4); raises as `check_transform`."""
    bad = _ik.first_not_rigid(np.ascontiguousarray(poses).reshape(-1, 4, 4))
    if bad >= 0:
        _explain_not_rigid(poses, bad, name)


def _explain_not_rigid(poses: Array, bad: int, name: str) -> None:
    T = poses.reshape(-1, 4, 4)[bad]
    if poses.ndim > 2:
        name = f'{name}[{", ".join(str(i) for i in np.unravel_index(bad, poses.shape[:-2]))}]'
    for i, j in np.ndindex(4, 4):
        if not np.isfinite(T[i, j]):
            raise InvalidInput(f'{name}: entry [{i}, {j}] = {T[i, j]}: must be finite')
    for j, wanted in enumerate((0.0, 0.0, 0.0, 1.0)):
        if abs(T[3, j] - wanted) > RIGID_TOLERANCE:
            raise InvalidInput(f'{name}: entry [3, {j}] = {T[3, j]}: must be {wanted:g}')
    if np.linalg.det(T[:3, :3]) < 0.0:
        raise InvalidInput(
            f'{name}: not a rotation: det R = {np.linalg.det(T[:3, :3]):.6g}, must be 1; its axes '
            'are left-handed: one of them points in the opposite direction'
        )
    gram = T[:3, :3].T @ T[:3, :3]
    i, j = np.unravel_index(np.argmax(np.abs(gram - np.eye(3))), (3, 3))
    if abs(gram[i, j] - (i == j)) <= RIGID_TOLERANCE:  # many small defects may add up
        off = np.cross(T[:3, 0], T[:3, 1]) - T[:3, 2]
        k = int(np.argmax(np.abs(off)))
        raise InvalidInput(
            f'{name}: not a rotation: entry [{k}, 2] is {abs(off[k]):.3g} from the cross product '
            f'of the first two columns, must be within {RIGID_TOLERANCE:g}; normalise the '
            'orientation first'
        )
    raise InvalidInput(
        f'{name}: not a rotation: entry [{i}, {j}] of R^T R is {gram[i, j]}, must be '
        f'{int(i == j)} within {RIGID_TOLERANCE:g}; normalise the orientation first'
    )


def make_transform(rotation: ArrayLike, position: ArrayLike) -> Array:
    """Return poses (..., 4, 4) of rotations (..., 3, 3) and positions (..., 3) [m]."""
    R = np.asarray(rotation, dtype=np.float64)
    p = np.asarray(position, dtype=np.float64)
    T = np.zeros((*np.broadcast(R[..., 0], p).shape[:-1], 4, 4))
    T[..., :3, :3] = R
    T[..., :3, 3] = p
    T[..., 3, 3] = 1.0
    return T


def tool_down(x: float, y: float, z: float, yaw: float) -> Array:
    """
    Return the pose of a tool that points down, shape (4, 4).

    `x`, `y`, `z`: position [m]. `yaw`: angle of the tool's x axis about z [rad].
    """
    c, s = np.cos(yaw), np.sin(yaw)
    return make_transform([[c, s, 0.0], [s, -c, 0.0], [0.0, 0.0, -1.0]], [x, y, z])


def inverse_transform(T: ArrayLike) -> Array:
    """Return T_b_a of T_a_b, for poses (..., 4, 4)."""
    T_a_b = np.asarray(T, dtype=np.float64)
    T_b_a, R_b_a = np.zeros(T_a_b.shape), T_a_b[..., :3, :3].swapaxes(-1, -2)
    T_b_a[..., :3, :3], T_b_a[..., :3, 3:] = R_b_a, -(R_b_a @ T_a_b[..., :3, 3:])
    T_b_a[..., 3, 3] = 1.0
    return T_b_a


def skew(w: ArrayLike) -> Array:
    """Return the matrix (..., 3, 3) of the cross product w x, for w (..., 3)."""
    v = np.asarray(w, dtype=np.float64)
    W = np.zeros((*v.shape[:-1], 3, 3))
    W[..., 0, 1], W[..., 0, 2], W[..., 1, 2] = -v[..., 2], v[..., 1], -v[..., 0]
    W[..., 1, 0], W[..., 2, 0], W[..., 2, 1] = v[..., 2], -v[..., 1], v[..., 0]
    return W


def exp_so3(rotvec: ArrayLike) -> Array:
    """Return rotations (..., 3, 3) of rotation vectors (..., 3) [rad]."""
    w = np.asarray(rotvec, dtype=np.float64)
    W, t = skew(w), np.linalg.norm(w, axis=-1)[..., None, None]
    A, B = np.sinc(t / np.pi), 0.5 * np.sinc(t / (2.0 * np.pi)) ** 2
    R: Array = np.eye(3) + A * W + B * (W @ W)
    return R


def log_so3(R: ArrayLike) -> Array:
    """
    Return rotation vectors (..., 3) [rad] of length up to pi of rotations (..., 3, 3).

    Exact near 0 and near pi; at pi either axis is correct.
    """
    rotations = np.ascontiguousarray(R, dtype=np.float64)
    rotvecs = np.empty(rotations.shape[:-1])
    _ik.log_so3(rotations.reshape(-1, 3, 3), rotvecs.reshape(-1, 3))
    return rotvecs


def log_se3(T: ArrayLike) -> Array:
    """Return the twists (..., 6) of poses (..., 4, 4), linear part first [m, rad]."""
    poses = np.ascontiguousarray(T, dtype=np.float64)
    twists = np.empty((*poses.shape[:-2], 6))
    _ik.log_se3(poses.reshape(-1, 4, 4), twists.reshape(-1, 6))
    return twists


def body_error(T: Array, T_goal: Array) -> Array:
    """Return position and orientation error (6,) [m, rad] of a pose (4, 4), in its own axes."""
    error = np.empty(6)
    _ik.body_error(np.ascontiguousarray(T), np.ascontiguousarray(T_goal), error)
    return error


def pose_distance(T_a: Array, T_b: Array) -> tuple[float, float]:
    """Return the distance [m] and the angle [rad] between two poses (4, 4)."""
    delta = inverse_transform(T_a) @ T_b
    return float(np.linalg.norm(delta[:3, 3])), float(np.linalg.norm(log_so3(delta[:3, :3])))


def quat_from_matrix(R: ArrayLike) -> Array:
    """Return unit quaternions (..., 4) x, y, z, w with w >= 0 of rotations (..., 3, 3)."""
    matrices = np.ascontiguousarray(R, dtype=np.float64)
    quats = np.empty((*matrices.shape[:-2], 4))
    _ik.quaternions(matrices.reshape(-1, 3, 3), quats.reshape(-1, 4))
    return quats


def matrix_from_quat(quat_xyzw: ArrayLike) -> Array:
    """Return rotations (..., 3, 3) of quaternions (..., 4) x, y, z, w of any length but zero."""
    quats = np.ascontiguousarray(quat_xyzw, dtype=np.float64)
    R = np.empty((*quats.shape[:-1], 3, 3))
    if not _ik.rotations(quats.reshape(-1, 4), R.reshape(-1, 3, 3)):
        raise InvalidInput(f'quaternion {quats.tolist()}: must be finite and other than zero')
    return R


def pose_from_quat(
    position: tuple[float, float, float], quat_xyzw: tuple[float, float, float, float]
) -> Array:
    """Return the pose (4, 4) of a position (3,) [m] and a quaternion as of `matrix_from_quat`."""
    T = np.empty((4, 4))
    if not _ik.pose(*position, *quat_xyzw, T):
        raise InvalidInput(f'quaternion {list(quat_xyzw)}: must be finite and other than zero')
    return T


def matrix_from_rpy(rpy: ArrayLike) -> Array:
    """Return rotations (..., 3, 3) of roll, pitch, yaw (..., 3) [rad]."""
    angles = np.asarray(rpy, dtype=np.float64)
    (sr, sp, sy), (cr, cp, cy) = (np.moveaxis(f(angles), -1, 0) for f in (np.sin, np.cos))
    rows = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def rpy_from_matrix(R: ArrayLike) -> Array:
    """
    Return roll, pitch, yaw (..., 3) [rad] of rotations (..., 3, 3), pitch within ±pi/2.

    Where pitch is ±pi/2, roll and yaw turn about one axis; roll is then 0. Yaw is computed with
    pitch and roll removed, so that the three always reproduce R.
    """
    r = np.asarray(R, dtype=np.float64)
    cp = np.hypot(r[..., 2, 1], r[..., 2, 2])
    pitch = np.arctan2(-r[..., 2, 0], cp)
    roll = np.where(cp < 1e-12, 0.0, np.arctan2(r[..., 2, 1], r[..., 2, 2]))
    sr, cr = np.sin(roll), np.cos(roll)
    yaw = np.arctan2(sr * r[..., 0, 2] - cr * r[..., 0, 1], cr * r[..., 1, 1] - sr * r[..., 1, 2])
    return np.stack([roll, pitch, yaw], axis=-1)
