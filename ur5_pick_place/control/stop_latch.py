# SPDX-License-Identifier: Apache-2.0
"""
The stop latch: refuses motion, and commands the arm to hold until it is at rest.

A stop concerns the arm, not only our own goals: it may be moved by an unknown client, or by a goal
whose sender has died.
"""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.control.conditions import Conditions
from ur5_pick_place.control.controller import StopProgress
from ur5_pick_place.control.loops.stream import AT_REST
from ur5_pick_place.kinematics.transforms import Array

_HOLDS = 5  # hold commands after a closed loop: they are not confirmed and may be lost
_HOLDS_AT_REST = 2
_ELSEWHERE = 1e-3  # [rad] from the joints that the controller holds
# Escalation against an arm that moves on without a goal [s since that was noticed, steady clock]:
_HOLD_AFTER = 0.25  # send hold commands
_DEACTIVATE_AFTER = 0.75  # deactivate all other motion controllers
_HOLD_PERIOD, _DEACTIVATE_PERIOD = 0.1, 0.3  # [s] between repetitions
_CANCEL_PERIOD = 0.1  # [s] between two cancel requests while no joint_states are received


@dataclass(eq=False)
class StopLatch:
    """Refuses motion while it is set, and sends the hold commands of a stop."""

    seen: Conditions
    reason: str = ''  # why it is set; empty while it is reset
    has_never_been_ready: bool = True  # whether the robot has not been ready since the start
    was_moving: bool = False  # whether a motion of ours was running when the fault occurred
    _q_hold: Array | None = None  # the joints of the hold command
    _holds: int = 0  # hold commands still to be sent
    _moving_since: float | None = None
    # steady times [s]
    _held: float = -np.inf
    _last_deactivation: float = -np.inf
    _last_cancel: float = -np.inf

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

    def update(self) -> None:
        """Send pending hold commands; to be called periodically."""
        if self.seen.knows_joints and not self.seen.has_goals:
            self._hold_interrupted_arm()
        self._hold()

    def cancel(self) -> None:
        """Cancel every goal, and stop an arm that moves without one."""
        seen = self.seen
        has_goals, is_moving = seen.has_goals, seen.is_possibly_moving
        if has_goals or (is_moving and self._is_cancel_due()):
            seen.controller.cancel()
        if has_goals or not is_moving:
            self._moving_since = None
        else:
            self._end_motion_without_goal()

    def leave_to_brake(self) -> None:
        """Take no measure: a motion of ours brakes the arm."""
        self._moving_since = None

    def progress(self, seconds: float) -> StopProgress:
        """Return how far a stop that began `seconds` ago has come, by the measured joints."""
        if not self.reason:
            return StopProgress.OVER
        if not self.seen.knows_joints:
            return StopProgress.UNSEEN
        moves_on = self.seen.foreign_motion.stillness.moves_on(seconds)
        return StopProgress.MOVING_ON if moves_on else StopProgress.BRAKING

    def _end_motion_without_goal(self) -> None:
        """Stop an arm that a topic or another controller moves, by ever stronger measures."""
        seen, now = self.seen, self.seen.clock()
        self._moving_since = began = now if self._moving_since is None else self._moving_since
        duration = now - began
        # Holding old joints would pull the arm back.
        if seen.knows_joints and duration > _HOLD_AFTER and now - self._held > _HOLD_PERIOD:
            self._held = now
            assert seen.status.q is not None
            seen.controller.hold(seen.status.q)
        if duration > _DEACTIVATE_AFTER and now - self._last_deactivation > _DEACTIVATE_PERIOD:
            self._last_deactivation = now
            seen.controller.stop_other_motion(lambda: self.progress(seen.clock() - began))

    def _is_cancel_due(self) -> bool:
        """Return whether to cancel now: once per `_CANCEL_PERIOD` without joints, else always."""
        now = self.seen.clock()
        if self.seen.knows_joints:
            return True
        if now - self._last_cancel <= _CANCEL_PERIOD:
            return False
        self._last_cancel = now
        return True

    def _hold_interrupted_arm(self) -> None:
        """
        Once the robot itself has stopped the arm, command it to hold where it came to rest.

        After a cancel the controller holds the joints measured at that moment. By then the arm has
        moved on by servo lag and braking distance, up to 0.1 rad at full speed, and it would jump
        back by that as soon as somebody unlocks it or presses Play.
        """
        status = self.seen.status
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
            self.seen.controller.hold(self._q_hold)
