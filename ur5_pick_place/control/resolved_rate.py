# SPDX-License-Identifier: Apache-2.0
"""
The resolved-rate law: the joint velocity that shrinks the pose error along its own twist.

With exp(xi^) = T_goal^-1 T the law is q' = -K J_b^-1 xi, so that xi' = -K xi: the error falls as
exp(-K t) and keeps its direction.

References
----------
Whitney, Resolved motion rate control (1969), doi:10.1109/TMMS.1969.299896; Maciejewski and Klein,
Numerical filtering for the operation of robotic manipulators (1988), doi:10.1002/rob.4620050603.

"""

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics import Model, forward, jacobian
from ur5_pick_place.kinematics.transforms import inverse_transform, log_se3

Array = NDArray[np.float64]

# Smallest singular value of the Jacobian, angles weighted by the length, below which the weakest
# direction is damped [m]: about 5 deg from a wrist singularity. Above it the law is undamped.
DAMPED_BELOW = 0.02
_DAMPING = 0.05  # [m] at the singularity itself


class ResolvedRate:
    """
    Damped least squares on the SE(3) logarithm, undamped away from singularities.

    Parameters
    ----------
    model : Model
    gain : float
        K [1/s].
    length : float
        By how many metres one radian counts where directions are told weak or strong.

    """

    name = 'resolved_rate'

    def __init__(self, model: Model, gain: float, length: float) -> None:
        self._model, self._gain = model, gain
        self._weight = np.array([1.0, 1.0, 1.0, length, length, length])

    def rate(self, q: Array, T_goal: Array) -> Array:
        """Return the joint velocity (6,) [rad/s] from joints `q` (6,) to T_base_tool (4, 4)."""
        xi = log_se3(inverse_transform(T_goal) @ forward(self._model, q))
        J = self._weight[:, None] * jacobian(self._model, q)
        u, sigma, vt = np.linalg.svd(J)
        inverse = sigma / (sigma**2 + _damping(sigma) ** 2)
        return -self._gain * (vt.T @ (inverse * (u.T @ (self._weight * xi))))

    def obstacle(self, _q: Array, _T_goal: Array) -> str:
        """Return why the law cannot lead from `q` to the goal; it always can set out."""
        return ''


def _damping(sigma: Array) -> Array:
    """Return the damping (6,) of each direction; it grows from zero at `DAMPED_BELOW`."""
    near = np.clip(1.0 - (sigma / DAMPED_BELOW) ** 2, 0.0, None)
    return _DAMPING * np.sqrt(near)
