# SPDX-License-Identifier: Apache-2.0
"""Detect motion of the arm that this node did not command."""

import numpy as np

from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array

_DRIFT = 0.01  # [rad] that an idle arm may drift; a settling servo turns a fifth of it
_SETTLING = 1.0  # [s] of the robot's time to come to rest after a motion or at the start


class ForeignMotion:
    """
    Compares the arm with the joints at which it rests between our motions.

    Times are stamps of joint states [s]: a slow simulation brakes for seconds of wall clock.

    Attributes
    ----------
    stillness : Stillness

    """

    def __init__(self) -> None:
        self.stillness = Stillness()
        self._q_rest: Array | None = None
        self._moving_since = 0.0

    def expect_motion(self, stamp: float) -> None:
        """Expect motion from `stamp` [s] on, by us, by hand or by the robot: it is no fault."""
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
