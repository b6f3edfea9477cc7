# SPDX-License-Identifier: Apache-2.0
"""
The stop latch: refuses motion, and commands the arm to hold until it is at rest.

A stop concerns the arm, not only our own goals: it may be moved by an unknown client, or by a goal
whose sender has died.

"""

from collections.abc import Callable

import numpy as np

from ur5_pick_place.control.controller import Controller, StopProgress
from ur5_pick_place.control.loops.streamed_loop import AT_REST
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.kinematics.transforms import Array

_HOLDS = 5  # hold commands after a closed loop: they are not confirmed and may be lost
_HOLDS_AT_REST = 2
_ELSEWHERE = 1e-3  # [rad] from the joints that the controller holds
# Escalation against an arm that moves on without a goal [s since that was noticed, steady clock]:
_HOLD_AFTER = 0.25  # send hold commands
_DEACTIVATE_AFTER = 0.75  # deactivate all other motion controllers
_HOLD_PERIOD, _DEACTIVATE_PERIOD = 0.1, 0.3  # [s] between repetitions
_CANCEL_PERIOD = 0.1  # [s] between two cancel requests while no joint_states are received


class StopLatch:
    """
    Refuses motion while it is set, and sends the hold commands of a stop.

    Parameters
    ----------
    clock : callable
        Returns the steady time [s].
    stop_progress : callable
        Returns how far a stop that began so many seconds ago has come, see `StopProgress`.

    Attributes
    ----------
    reason : str
        Why it is set; empty while it is reset.
    has_never_been_ready : bool
        Whether the robot has not been ready yet since the start.
    was_moving : bool
        Whether a motion of ours was running when the fault occurred.

    """

    def __init__(
        self,
        controller: Controller,
        status: RobotStatus,
        clock: Callable[[], float],
        stop_progress: Callable[[float], StopProgress],
    ) -> None:
        self._controller, self._status, self._clock = controller, status, clock
        self._stop_progress = stop_progress
        self.reason = ''
        self.has_never_been_ready = True
        self.was_moving = False
        self._q_hold: Array | None = None  # the joints of the hold command
        self._holds = 0  # hold commands still to be sent
        self._moving_since: float | None = None
        self._held = self._last_deactivation = self._last_cancel = -np.inf  # steady times

    def set(self, reason: str) -> None:
        """Refuse all motion from now on; the first reason is kept."""
        self.reason = self.reason or reason

    def reset(self) -> None:
        """Accept motions again."""
        self.reason, self.has_never_been_ready, self.was_moving = '', False, False
        self._q_hold, self._holds, self._moving_since = None, 0, None

    def stop_holding(self) -> None:
        """Send no more hold commands: a new motion begins."""
        self._holds = 0

    def hold(self, q: Array) -> None:
        """Command the arm to hold joints (6,) [rad]; `update` repeats it."""
        self._q_hold, self._holds = q, _HOLDS
        self._hold()

    def update(self, knows_joints: bool, has_goals: bool) -> None:
        """
        Send pending hold commands; to be called periodically.

        Parameters
        ----------
        knows_joints : bool
            Whether the joints are valid and recent.
        has_goals : bool
            Whether the controller has a goal or may still receive one.

        """
        if knows_joints and not has_goals:
            self._hold_interrupted_arm()
        self._hold()

    def cancel(self, is_moving: bool, has_goals: bool, knows_joints: bool) -> None:
        """
        Cancel every goal, and stop an arm that moves without one.

        Parameters
        ----------
        is_moving : bool
            Whether the arm moves, as far as is known.
        has_goals : bool
            Whether the controller has a goal or may still receive one.
        knows_joints : bool
            Whether the joints are valid and recent.

        """
        if has_goals or (is_moving and self._is_cancel_due(knows_joints)):
            self._controller.cancel()
        self.end_motion(is_moving and not has_goals, knows_joints)

    def end_motion(self, is_moving: bool, may_hold: bool = False) -> None:
        """
        Stop an arm that a topic or another controller moves, without a goal.

        Parameters
        ----------
        is_moving : bool
            Whether the arm moves, as far as is known.
        may_hold : bool
            Whether the joints are recent; holding older ones would pull the arm back.

        """
        now = self._clock()
        if not is_moving:
            self._moving_since = None
            return
        self._moving_since = now if self._moving_since is None else self._moving_since
        duration = now - self._moving_since
        if may_hold and duration > _HOLD_AFTER and now - self._held > _HOLD_PERIOD:
            self._held = now
            assert self._status.q is not None
            self._controller.hold(self._status.q)
        if duration > _DEACTIVATE_AFTER and now - self._last_deactivation > _DEACTIVATE_PERIOD:
            self._last_deactivation = now
            began = self._moving_since
            self._controller.stop_other_motion(lambda: self._stop_progress(self._clock() - began))

    def _is_cancel_due(self, knows_joints: bool) -> bool:
        """Return whether to cancel now: once per `_CANCEL_PERIOD` without joints, else always."""
        now = self._clock()
        if knows_joints or now - self._last_cancel <= _CANCEL_PERIOD:
            return knows_joints
        self._last_cancel = now
        return True

    def _hold_interrupted_arm(self) -> None:
        """
        Once the robot itself has stopped the arm, command it to hold where it came to rest.

        After a cancel the controller holds the joints measured at that moment. By then the arm has
        moved on by servo lag and braking distance, up to 0.1 rad at full speed, and it would jump
        back by that as soon as somebody unlocks it or presses Play.

        """
        status = self._status
        if not (self.was_moving and status.is_held_by_robot) or self._holds:
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
