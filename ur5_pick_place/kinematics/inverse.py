# SPDX-License-Identifier: Apache-2.0
"""Every joint solution of poses, in the row of its branch; the closed form is in `scalar`."""

from math import isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.inverse_calibrated import inverse_calibrated
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import Array, as_floats, as_poses, check_rigid


def inverse(m: Model, T: ArrayLike, q6: ArrayLike = 0.0) -> tuple[Array, NDArray[np.bool_]]:
    """
    Return all joint solutions of poses of the tool.

    Parameters
    ----------
    m : Model
    T : array_like, shape (..., 4, 4)
        T_base_tool [m].
    q6 : array_like, shape () or (...)
        Desired last joint where a wrist singularity leaves it free [rad]. It is used if the elbow
        can reach with it, otherwise the nearest value with which the elbow is `scalar.BENT` from
        stretched and folded, or as far as it gets: both elbows then exist.

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
        A pose has a wrong shape, is not finite or not rigid, or `q6` is not finite.

    """
    poses = as_poses(T, 'T')
    if poses.ndim == 2 and isinstance(q6, float) and m.mounts is None:
        return _inverse_one(m, poses, q6)
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
    if m.mounts is not None:
        check_rigid(poses, 'T')
        q, ok = inverse_calibrated(m, stacked, desired)
    elif not m.arm.inverse_all(stacked, np.ascontiguousarray(desired), q, ok):
        check_rigid(poses, 'T')
    return q.reshape(*stack, 8, 6), ok.reshape(*stack, 8)


def _inverse_one(m: Model, T: Array, q6: float) -> tuple[Array, NDArray[np.bool_]]:
    """Return the solutions of one pose, (4, 4)."""
    q, ok = np.empty((8, 6)), np.empty(8, dtype=np.bool_)
    if not isfinite(q6):
        check_rigid(T, 'T')
        raise InvalidInput(f'q6 = {q6!r}: must be finite')
    if not m.arm.inverse(T if T.flags.c_contiguous else T.copy(), q6, q, ok):
        check_rigid(T, 'T')
    return q, ok
