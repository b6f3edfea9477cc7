# SPDX-License-Identifier: Apache-2.0
"""Detect motion of the arm that this node did not command."""

import numpy as np

from ur5_pick_place.control.own_goals import OwnGoals
from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array

_DRIFT = 0.01  # [rad] that an idle arm may drift; a settling servo turns a fifth of it
_SETTLING = 1.0  # [s] for the arm to come to rest after a motion or at the start


class ForeignMotion:
    """
    Keeps our own goals, and the joints at which the arm rests between them.

    Parameters
    ----------
    now : float
        Steady-clock time [s].

    Attributes
    ----------
    own : OwnGoals
    stillness : Stillness

    """

    def __init__(self, now: float) -> None:
        self.own, self.stillness = OwnGoals(), Stillness()
        self._q_rest: Array | None = None
        self._moving_since = now

    def begin(self, now: float) -> None:
        """Record that the arm may move at a steady time [s]: by us, by hand or by the robot."""
        self._q_rest, self._moving_since = None, now

    def motion(self, q: Array, now: float) -> str:
        """
        Return a fault if the arm at joints `q` (6,) [rad] moves without a motion of ours.

        Slow motions are detected too, because the arm is compared with where it came to rest.

        """
        if not self.stillness.is_moving:
            self._moving_since = now
        if self._q_rest is None and self.stillness.is_at_rest:
            self._q_rest = q
        if self._q_rest is None:
            what = 'moves' if now - self._moving_since > _SETTLING else ''
        else:
            drift = np.abs(q - self._q_rest)
            joint = int(drift.argmax())
            is_far = drift[joint] > _DRIFT
            what = f'turned {JOINT_NAMES[joint]} by {drift[joint]:.3f} rad' if is_far else ''
        return what and (
            f'foreign motion: the arm {what} without a command of this node; end the client or '
            'controller that moves it'
        )
