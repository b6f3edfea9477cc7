# SPDX-License-Identifier: Apache-2.0
"""
Every joint solution of poses, in the row of its branch.

A calibrated arm is solved by Newton's method from the solutions of the nominal arm. Real joints
are slightly displaced and tilted against the DH table, so that the closed form only gives seeds.
Near a singularity this has two effects. Solutions exist where the nominal arm has none: the
arguments of its square root and arccosine are clipped, which gives seeds there too. And theta_6,
free at the nominal arm's wrist singularity, has several isolated values: there the seeds cover the
circle. Finally the nominal arm's pose at each solution differs from the given pose by the effect
of the calibration: the closed-form solutions of that pose are better seeds. They are used unless
eight solutions are known and no wrist singularity is near.

Where two singularities are near, a solution may yet be missed. Joints at which the arm is, or is
to be near, are a seed too, so that an arm always finds the joints at which it stands.

"""

from math import isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput, quoted
from ur5_pick_place.kinematics import _ik
from ur5_pick_place.kinematics.forward import check_joints
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.transforms import Array, as_floats, as_poses, check_rigid


def inverse(
    m: Model, T: ArrayLike, q6: ArrayLike = 0.0, seed: ArrayLike | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """
    Return all joint solutions of poses of the tool.

    `T` (..., 4, 4): T_base_tool [m]. `q6` () or (...): desired last joint where a wrist
    singularity leaves it free [rad]. It is used where the elbow can reach the pose with it.
    Elsewhere the nearest value is used with which theta_3 is 0.01 rad away from 0 and pi, or as
    far away as the pose allows, so that either elbow has a solution. `seed` (6,) or (..., 6):
    joints from which the solutions of a calibrated arm are searched too [rad]; not looked at for
    an ideal arm, which has them all in closed form.

    Returns joints (..., 8, 6), row k the solution on `BRANCHES[k]` in (-pi, pi], NaN where there
    is none; and which rows (..., 8) hold a solution. A double root is in the row with shoulder
    `left`, elbow `up` or wrist `down`; its twin is NaN.

    Raises `InvalidInput`: a pose has a wrong shape, is not finite or not rigid; or `q6`, or the
    `seed` of a calibrated arm, is not finite or of a wrong shape.

    """
    poses = as_poses(T, 'T')
    stack = poses.shape[:-2]
    stacked = np.ascontiguousarray(poses).reshape(-1, 4, 4)
    q, ok = np.empty((len(stacked), 8, 6)), np.empty((len(stacked), 8), dtype=np.bool_)
    near = None if m.mounts is None else seed
    seeds = None if near is None else _seeds(near, stack).reshape(-1, 6)
    if not _ik.inverse(m.arm, stacked, _wishes(q6, stack), seeds, q, ok):
        check_rigid(poses, 'T')
    return (q.reshape(*stack, 8, 6), ok.reshape(*stack, 8)) if stack else (q[0], ok[0])


def _wishes(q6: ArrayLike, stack: tuple[int, ...]) -> float | Array:
    """Return the desired last joint [rad] of a stack of poses, one for all or (n,)."""
    if isinstance(q6, float) and isfinite(q6):
        return q6
    wishes = as_floats(q6, 'q6')
    if not np.isfinite(wishes).all():
        raise InvalidInput(f'q6 = {quoted(q6)}: must be finite')
    try:
        return np.ascontiguousarray(np.broadcast_to(wishes, stack)).reshape(-1)
    except ValueError as error:
        raise InvalidInput(f'q6 has shape {wishes.shape}: must fit the poses, {stack}') from error


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
