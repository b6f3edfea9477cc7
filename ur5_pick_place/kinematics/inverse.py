# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: every joint solution of a pose, each in the row of its branch."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.inverse_batch import inverse_batch
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import check_transform


def inverse(
    m: Model, T: ArrayLike, q6: ArrayLike = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """
    Give all joint solutions of poses of the tool.

    Parameters
    ----------
    m : Model
    T : array_like, shape (..., 4, 4)
        T_base_tool [m].
    q6 : array_like, shape () or (...)
        Wish for the last joint where a wrist singularity leaves it free [rad]. It is kept if the
        elbow can reach with it, else the nearest one that it can reach with is taken.

    Returns
    -------
    q : ndarray, shape (..., 8, 6)
        Row k is the solution on `BRANCHES[k]`, in (-pi, pi]; NaN where there is none. At a double
        root the `left`, `up` or `down` row holds it and its twin is NaN.
    ok : ndarray of bool, shape (..., 8)
        Which rows hold a solution.

    Raises
    ------
    InvalidInput
        A pose that is misshapen, not finite or not rigid, or a wish that is not finite.

    """
    poses = check_transform(T, 'T')
    stack = poses.shape[:-2]
    wish = np.asarray(q6, dtype=np.float64)
    if not np.isfinite(wish).all():
        raise InvalidInput(f'q6 = {q6!r}: must be finite')
    try:
        wishes = np.broadcast_to(wish, stack).reshape(-1)
    except ValueError as error:
        raise InvalidInput(f'q6 has shape {wish.shape}: must fit the poses, {stack}') from error
    q, ok = inverse_batch(m, poses.reshape(-1, 4, 4), wishes)
    return q.reshape(*stack, 8, 6), ok.reshape(*stack, 8)
