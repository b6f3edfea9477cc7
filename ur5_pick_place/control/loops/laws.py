# SPDX-License-Identifier: Apache-2.0
"""
The two control laws of a closed loop: joint velocity from the remaining pose error.

Resolved rate
-------------
The joint velocity that reduces the pose error along its own twist.

With exp(xi^) = T_goal^-1 T the law is q' = -K J_b^-1 xi, so that xi' = -K xi: the error falls as
exp(-K t) and keeps its direction.

References: Whitney, Resolved motion rate control (1969), doi:10.1109/TMMS.1969.299896; Maciejewski
and Klein, Numerical filtering for the operation of robotic manipulators (1988),
doi:10.1002/rob.4620050603.

Gradient
--------
The joint velocity down the gradient of the weighted pose error, q' = -K a J_b^T W e.

e = (R^T (p - p_goal), log(R_goal^T R)) is the error in the tool's axes; W = diag(1, 1, 1, l^2,
l^2, l^2) = W_0 counts one radian as l metres; V = e^T W e / 2. Since |p - p_goal|' and
|log(R_goal^T R)|' are the components of the body twist along e, V' = e^T W J_b q' exactly:
d = J_b^T W e is the gradient of V. (With the linear part of the SE(3) logarithm that would hold
near the goal only.)

The weight. V falls as unevenly as the singular values of J_b differ: with W_0 an error in the
weakest direction takes tens of seconds. Near the goal `adapt_weight` chooses another W, constant
until the next call: with U S V^T = W_0^(1/2) J_b there, it is W_0^(1/2) U (S^2 + s^2)^-1 U^T
W_0^(1/2), for which all directions stronger than s fall alike. It mixes position and orientation,
so that d then differs from the gradient of V, by a fraction of the order of |e|. The step below is
right for any W.

The step. Along -d the linearised error gives V(a) = V - a |d|^2 + a^2 |J_b d|_W^2 / 2 with its
minimum at a* = |d|^2 / |J_b d|_W^2. For every a <= a* and every share f in (0, 1] of the step
V falls by at least f a |d|^2 / 2: in every iteration, whatever share f is taken. a* itself
grows to 1 / sigma_min^2 once only weak directions are left; it is bounded to `_LARGEST_STEP` times
1 / sigma_max^2, which limits the amplification of noise in strong directions. Because the error is
not linear, a is halved until the true V falls by a |d|^2 / 4 (Armijo); V is smooth
off the 180-degree saddle, so the halving ends.

The saddle. At an orientation error of 180 degrees V has a ridge: both directions of rotation are
downhill and equally long, and a law in other coordinates has a stationary point there. Such a goal
is refused with a message.
"""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics import Model, forward, jacobian
from ur5_pick_place.kinematics.transforms import Array, body_error

# Smallest singular value of the Jacobian, angles weighted by the length, below which the weakest
# direction is damped [m]: about 5 deg from a wrist singularity. Above it the law is undamped.
DAMPED_BELOW = 0.02
_DAMPING = 0.05  # [m] at the singularity itself; its square falls linearly with that of the value


@dataclass(frozen=True)
class ResolvedRate:
    """Damped least squares on the SE(3) logarithm, undamped away from singularities."""

    name = 'resolved_rate'
    model: Model
    gain: float  # K [1/s]
    length: float  # how many metres one radian counts when directions are compared

    def rate(self, q: Array, T_goal: Array) -> Array:
        """Return the joint velocity (6,) [rad/s] from joints `q` (6,) to T_base_tool (4, 4)."""
        step = np.empty(6)
        self.model.arm.resolve(q, T_goal, self.length, DAMPED_BELOW, _DAMPING, step)
        return self.gain * step

    def why_unreachable(self, _q: Array, _T_goal: Array) -> str:
        """Return '': this law can start from any joints."""
        return ''


SADDLE_MARGIN = np.radians(1.0)
"""Orientation errors this close to 180 degrees count as the saddle [rad]."""
_LARGEST_STEP = 8.0
_WEAKEST = 0.05  # [m] per radian of the joints; weaker directions are not scaled up fully
_HALVINGS = 30


class Gradient:
    """
    Steepest descent on the weighted pose error; see the module's docstring.

    - `gain`: K [1/s], at most 1 / T where a rate is held for T
    - `length`: l, how many metres one radian counts
    """

    name = 'gradient'

    def __init__(self, model: Model, gain: float, length: float) -> None:
        self._model, self._gain = model, gain
        self._plain = np.diag([1.0, 1.0, 1.0, length, length, length])
        self._root = self._plain  # W = root^T root

    def adapt_weight(self, q: Array) -> None:
        """Choose W so that all directions are about equally strong at joints `q` (6,) [rad]."""
        J = self._plain @ jacobian(self._model, q)
        # Of all roots of W the cheapest: L^-1 W_0^(1/2), with L L^T = J J^T + s^2.
        L = np.linalg.cholesky(J @ J.T + _WEAKEST**2 * np.eye(6))
        self._root = np.linalg.solve(L, self._plain)

    def step(self, q: Array, T_goal: Array) -> Array:
        """Return one whole step (6,) [rad] of the joints; zero at a stationary point."""
        step = np.empty(6)
        self._model.arm.descend(q, T_goal, self._root, _LARGEST_STEP, _HALVINGS, step)
        return step

    def rate(self, q: Array, T_goal: Array) -> Array:
        """Return the joint velocity (6,) [rad/s] from joints `q` (6,) to T_base_tool (4, 4)."""
        return self._gain * self.step(q, T_goal)

    def why_unreachable(self, q: Array, T_goal: Array) -> str:
        """Return why the law cannot reach the goal (4, 4) from joints (6,); empty if it can."""
        angle = np.linalg.norm(body_error(forward(self._model, q), T_goal)[3:])
        if angle < np.pi - SADDLE_MARGIN:
            return ''
        return (
            f'the tool is turned {np.degrees(angle):.1f} deg from the goal, the 180-degree saddle '
            'of the gradient: both directions of rotation are equally long; turn the tool a few '
            'degrees first or use another method'
        )
