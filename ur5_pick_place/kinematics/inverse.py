# SPDX-License-Identifier: Apache-2.0
"""Every joint solution of poses, in the row of its branch; how they are found is in `scalar`."""

from math import isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.core import core
from ur5_pick_place.kinematics.forward import check_joints
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import Array, as_floats, as_poses, check_rigid


def inverse(
    m: Model, T: ArrayLike, q6: ArrayLike = 0.0, seed: ArrayLike | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """
    Return all joint solutions of poses of the tool.

    Parameters
    ----------
    m : Model
    T : array_like, shape (..., 4, 4)
        T_base_tool [m].
    q6 : array_like, shape () or (...)
        Desired last joint where a wrist singularity leaves it free [rad]. It is used where the
        elbow can reach the pose with it. Elsewhere the nearest value is used with which theta_3 is
        `closed_form.BENT` away from 0 and pi, or as far away as the pose allows, so that either
        elbow has a solution.
    seed : array_like, shape (6,) or (..., 6), optional
        Joints from which the solutions of a calibrated arm are searched too [rad]; not looked at
        for an ideal arm, which has them all in closed form.

    Returns
    -------
    q : ndarray, shape (..., 8, 6)
        Row k is the solution on `BRANCHES[k]`, in (-pi, pi]; NaN where there is none. A double
        root is in the row with shoulder `left`, elbow `up` or wrist `down`; its twin is NaN.
    ok : ndarray of bool, shape (..., 8)
        Which rows hold a solution.

    Raises
    ------
    InvalidInput
        A pose has a wrong shape, is not finite or not rigid; or `q6`, or the `seed` of a
        calibrated arm, is not finite or of a wrong shape.

    """
    poses = as_poses(T, 'T')
    near = None if m.mounts is None else seed
    if poses.ndim == 2 and isinstance(q6, float):
        return _inverse_one(m, poses, q6, near)
    stack = poses.shape[:-2]
    desired_theta6 = as_floats(q6, 'q6')
    if not np.isfinite(desired_theta6).all():
        raise InvalidInput(f'q6 = {q6!r}: must be finite')
    try:
        desired = np.broadcast_to(desired_theta6, stack).reshape(-1)
    except ValueError as error:
        raise InvalidInput(
            f'q6 has shape {desired_theta6.shape}: must fit the poses, {stack}'
        ) from error
    stacked = np.ascontiguousarray(poses).reshape(-1, 4, 4)
    q, ok = np.empty((len(stacked), 8, 6)), np.empty((len(stacked), 8), dtype=np.bool_)
    seeds = None if near is None else _seeds(near, stack).reshape(-1, 6)
    if not core.inverse_all(m.arm, stacked, np.ascontiguousarray(desired), seeds, q, ok):
        check_rigid(poses, 'T')
    return q.reshape(*stack, 8, 6), ok.reshape(*stack, 8)


def _seeds(seed: ArrayLike, stack: tuple[int, ...]) -> Array:
    """Return joints (..., 6) [rad] for each of a stack of poses."""
    joints = check_joints(seed, 'seed')
    try:
        if joints.shape != (*stack, 6):
            joints = np.broadcast_to(joints, (*stack, 6))
        return np.ascontiguousarray(joints)
    except ValueError as error:
        raise InvalidInput(
            f'seed has shape {joints.shape}: must fit the poses, {stack}'
        ) from error


def _inverse_one(
    m: Model, T: Array, q6: float, seed: ArrayLike | None
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the solutions of one pose, (4, 4)."""
    q, ok = np.empty((8, 6)), np.empty(8, dtype=np.bool_)
    if not isfinite(q6):
        check_rigid(T, 'T')
        raise InvalidInput(f'q6 = {q6!r}: must be finite')
    near = None if seed is None else _seeds(seed, ())
    if not core.inverse(m.arm, T if T.flags.c_contiguous else T.copy(), q6, near, q, ok):
        check_rigid(T, 'T')
    return q, ok
