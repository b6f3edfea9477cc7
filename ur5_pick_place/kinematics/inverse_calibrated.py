# SPDX-License-Identifier: Apache-2.0
"""
The inverse of a calibrated arm: Newton's method from the solutions of the nominal arm.

Real joints are slightly displaced and tilted against the DH table, so that the closed form only
gives seeds. Near a singularity this has two effects. Solutions exist where the nominal arm has
none: the arguments of its square root and arccosine are clipped, which gives seeds there too. And
theta_6, free at the nominal arm's wrist singularity, has several isolated values: there the seeds
cover the circle. Finally the nominal arm's pose at each solution differs from the given pose by
the effect of the calibration: the closed-form solutions of that pose are better seeds. They are
used unless eight solutions are known and no wrist singularity is near.

Away from singularities each step is corrected to second order, which is Chebyshev's method: two
steps then suffice from most seeds.

Where two singularities are near, a solution may yet be missed. Joints at which the arm is, or is
to be near, are a seed too, so that an arm always finds the joints at which it stands.

The search itself is in `scalar.calibrated`.

"""

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics.core import core
from ur5_pick_place.kinematics.model import Model
from ur5_pick_place.kinematics.scalar import MOST
from ur5_pick_place.kinematics.transforms import Array


def calibrated_solutions(
    m: Model, T: Array, q6: Array, seed: Array | None = None
) -> tuple[Array, NDArray[np.intp]]:
    """
    Return every solution found for n rigid poses, also those that share a branch.

    Parameters
    ----------
    m : Model
    T : ndarray, shape (n, 4, 4)
        T_base_tool [m].
    q6 : ndarray, shape (n,)
        First theta_6 to try at a wrist singularity of the nominal arm [rad].
    seed : ndarray, shape (n, 6), optional
        Joints from which to search too [rad].

    Returns
    -------
    q : ndarray, shape (n, MOST, 6)
        In (-pi, pi]; NaN after the last solution.
    count : ndarray of int, shape (n,)

    """
    q, count = np.full((len(T), MOST, 6), np.nan), np.zeros(len(T), dtype=np.intp)
    seeds = None if seed is None else np.ascontiguousarray(seed)
    for k, pose in enumerate(np.ascontiguousarray(T)):
        count[k] = core.solutions(m.arm, pose, q6[k], None if seeds is None else seeds[k], q[k])
    return q, count
