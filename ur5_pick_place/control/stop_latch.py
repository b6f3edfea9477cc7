# SPDX-License-Identifier: Apache-2.0
"""
The stop: why no motion is taken, and what is done until the arm is at rest.

A stop is about the arm, not about our own goals: what moves it may have been sent by a client that
we know nothing of, or by a process that has died since.

"""

from collections.abc import Callable

import numpy as np

from ur5_pick_place.control.closed_loop import AT_REST
from ur5_pick_place.control.controller import Controller
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.kinematics.transforms import Array

_HOLDS = 5  # times that an ended stream is ended; nobody confirms it, and messages may be lost
_HOLDS_AT_REST = 2
_ELSEWHERE = 1e-3  # [rad] from where the controller holds
# Steady clock [s] for which an arm may move on without a goal, before
_HOLD_AFTER = 0.25  # the controller is told to hold where the arm is,
_TAKE_OVER_AFTER = 0.75  # and any other controller is switched off.
_HOLD_PERIOD, _TAKE_OVER_PERIOD = 0.1, 1.0  # [s]


class StopLatch:
    """
    Refuses motion while it is shut.

    Parameters
    ----------
    controller : Controller
    status : RobotStatus
    clock : callable
        Returns the steady time [s].

    Attributes
    ----------
    reason : str
        Why it is shut; empty while it is open.
    is_first : bool
        Whether the robot has not been there and well yet.
    was_moving : bool
        Whether we moved the arm when the fault came.

    """

    def __init__(
        self, controller: Controller, status: RobotStatus, clock: Callable[[], float]
    ) -> None:
        self._controller, self._status, self._clock = controller, status, clock
        self.reason = ''
        self.is_first = True
        self.was_moving = False
        self._q_hold: Array | None = None  # what we asked the controller to hold
        self._holds = 0  # still to be sent
        self._moving_since: float | None = None
        self._held = self._taken_over = -np.inf  # steady times

    def shut(self, reason: str) -> None:
        """Refuse all motion from now on; the first reason stays."""
        self.reason = self.reason or reason

    def open(self) -> None:
        """Take motions again."""
        self.reason, self.is_first, self.was_moving = '', False, False
        self._q_hold, self._holds, self._moving_since = None, 0, None

    def release(self) -> None:
        """Hold no more: a new motion begins."""
        self._holds = 0

    def hold_where_it_is(self, q: Array) -> None:
        """Let the arm hold joints (6,) [rad], also while it is frozen."""
        self._q_hold, self._holds = q, _HOLDS
        self._hold()

    def settle(self, knows_joints: bool, is_ending: bool) -> None:
        """
        Send what holds the arm; to be called often.

        Parameters
        ----------
        knows_joints : bool
            Whether the joints are true and fresh.
        is_ending : bool
            Whether a canceled goal has not been confirmed to have ended.

        """
        if knows_joints and not is_ending:
            self._hold_where_frozen()
        self._hold()

    def end_motion(self, is_moving: bool, may_hold: bool = False) -> None:
        """
        Stop an arm that moves on without a goal, as on a topic or by another controller.

        Parameters
        ----------
        is_moving : bool
            Whether it moves, as far as can be seen.
        may_hold : bool
            Whether the joints are those of now: older ones would pull the arm back.

        """
        now = self._clock()
        if not is_moving:
            self._moving_since = None
            return
        self._moving_since = now if self._moving_since is None else self._moving_since
        lasts = now - self._moving_since
        if may_hold and lasts > _HOLD_AFTER and now - self._held > _HOLD_PERIOD:
            self._held = now
            assert self._status.q is not None
            self._controller.hold(self._status.q)
        if lasts > _TAKE_OVER_AFTER and now - self._taken_over > _TAKE_OVER_PERIOD:
            self._taken_over = now
            self._controller.take_over()

    def _hold_where_frozen(self) -> None:
        """
        Let an arm that the robot has frozen hold where it came to rest.

        Since the cancel the controller holds where it was measured then: a servo lag and a
        braking distance ago, at full speed up to 0.1 rad, by which the arm would go back, unasked,
        as soon as somebody unlocks it or presses Play.

        """
        status = self._status
        if not (self.was_moving and status.is_frozen) or self._holds:
            return
        assert status.q is not None and status.qd is not None
        if np.abs(status.qd).max() > AT_REST:
            return
        if self._q_hold is None or np.abs(status.q - self._q_hold).max() > _ELSEWHERE:
            self._q_hold, self._holds = status.q, _HOLDS_AT_REST

    def _hold(self) -> None:
        if self._holds and self._q_hold is not None:
            self._holds -= 1
            self._controller.hold(self._q_hold)
