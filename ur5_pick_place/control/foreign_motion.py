# SPDX-License-Identifier: Apache-2.0
"""Detect motion of the arm that this node did not command."""

import numpy as np

from ur5_pick_place.control.own_goals import OwnGoals
from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array

_DRIFT = 0.01  # [rad] that an idle arm may drift; a settling servo turns a fifth of it
_SETTLING = 1.0  # [s] of the robot's time to come to rest after a motion or at the start


class ForeignMotion:
    """
    Keeps our own goals, and the joints at which the arm rests between them.

    Times are stamps of joint states [s]: a slow simulation brakes for seconds of wall clock.

    Attributes
    ----------
    own : OwnGoals
    stillness : Stillness

    """

    def __init__(self) -> None:
        self.own, self.stillness = OwnGoals(), Stillness()
        self._q_rest: Array | None = None
        self._moving_since = 0.0

    def begin(self, stamp: float) -> None:
        """Record that the arm may move at `stamp`: by us, by hand or by the robot."""
        self._q_rest, self._moving_since = None, stamp

    def motion(self, q: Array, stamp: float) -> str:
        """
        Return a fault if the arm at joints `q` (6,) [rad] at `stamp` moves without our motion.

        Slow motions are detected too, because the arm is compared with where it came to rest.

        """
        if not self.stillness.is_moving:
            self._moving_since = stamp
        if self._q_rest is None and self.stillness.is_at_rest:
            self._q_rest = q
        if self._q_rest is None:
            what = 'moves' if stamp - self._moving_since > _SETTLING else ''
        else:
            drift = np.abs(q - self._q_rest)
            joint = int(drift.argmax())
            is_far = drift[joint] > _DRIFT
            what = f'turned {JOINT_NAMES[joint]} by {drift[joint]:.3f} rad' if is_far else ''
        return what and (
            f'foreign motion: the arm {what} without a command of this node; end the client or '
            'controller that moves it'
        )
