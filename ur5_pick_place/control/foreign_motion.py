# SPDX-License-Identifier: Apache-2.0
"""Whether somebody else moves the arm: another client, or a goal that outlived its sender."""

from collections import deque
from collections.abc import Set

import numpy as np

from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.kinematics.transforms import Array

_DRIFT = 0.01  # [rad] that an idle arm may turn unasked; a servo that settles turns a fifth of it
_SETTLING = 1.0  # [s] after a motion, or at the start, in which the arm comes to rest
_OWN_GOALS = 64  # whose ids are kept: the controller reports them for a while after their end
_GOAL = (
    'foreign motion: the controller has a goal that this node did not send; end the client that '
    'sent it'
)


class ForeignMotion:
    """
    Knows our own goals, and where the arm rests between them.

    Parameters
    ----------
    now : float
        Steady-clock time [s].

    Attributes
    ----------
    stillness : Stillness

    """

    def __init__(self, now: float) -> None:
        self.stillness = Stillness()
        self._own: deque[bytes] = deque(maxlen=_OWN_GOALS)
        self._q_rest: Array | None = None
        self._moving_since = now

    def send(self, goal: bytes) -> None:
        """Take the id of a goal of ours that is being sent."""
        self._own.append(goal)
        self.stillness.forget()

    def begin(self, now: float) -> None:
        """Take note that the arm may move at a steady time [s]: by us, by hand, by its robot."""
        self._q_rest, self._moving_since = None, now

    def goal(self, goals: Set[bytes]) -> str:
        """Say that one of the controller's goals is not ours; empty if all are."""
        return _GOAL if goals and not goals <= set(self._own) else ''

    def motion(self, q: Array, now: float) -> str:
        """
        Say that an arm at joints `q` (6,) [rad] moves although nothing of ours moves it.

        Slow motions are noticed too, as the arm is compared with where it once rested.

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
            what = f'turned joint {joint + 1} by {drift[joint]:.3f} rad' if is_far else ''
        return what and (
            f'foreign motion: the arm {what} without a motion of ours; end the client or '
            'controller that moves it'
        )
