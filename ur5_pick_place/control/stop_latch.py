# SPDX-License-Identifier: Apache-2.0
"""The stop latch: refuses motion, and repeats the hold commands of a stop."""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.control.conditions import Conditions
from ur5_pick_place.control.motion_monitor import AT_REST
from ur5_pick_place.kinematics.transforms import Array

_HOLDS = 5  # hold commands after a closed loop: they are not confirmed and may be lost
_HOLDS_AT_REST = 2
_ELSEWHERE = 1e-3  # [rad] from the joints that the controller holds


@dataclass(eq=False)
class StopLatch:
    """Refuses motion while it is set, and sends the hold commands of a stop."""

    seen: Conditions
    reason: str = ''  # why it is set; empty while it is reset
    has_never_been_ready: bool = True  # whether the robot has not been ready since the start
    was_moving: bool = False  # whether a motion of ours was running when the fault occurred
    holds: int = 0  # hold commands still to be sent; none once a new motion begins
    _q_hold: Array | None = None  # the joints of the hold command

    def set(self, reason: str) -> None:
        """Refuse all motion from now on; the first reason is kept."""
        self.reason = self.reason or reason

    def reset(self) -> None:
        """Accept motions again."""
        self.reason, self.has_never_been_ready, self.was_moving = '', False, False
        self._q_hold, self.holds = None, 0

    def hold(self, times: int = _HOLDS) -> None:
        """Command the arm to hold its joints, also while the robot itself holds it."""
        # Old ones would pull the arm back; the last segment of a stream ends at rest by itself.
        if self.seen.knows_joints:
            assert self.seen.status.q is not None
            self._q_hold, self.holds = self.seen.status.q, times - 1
            self.seen.controller.hold(self._q_hold)

    def update(self) -> None:
        """Send pending hold commands; to be called periodically."""
        if self.seen.knows_joints and not self.seen.has_goals:
            self._hold_interrupted_arm()
        if self.holds and self._q_hold is not None:
            self.holds -= 1
            self.seen.controller.hold(self._q_hold)

    def _hold_interrupted_arm(self) -> None:
        """
        Once the robot itself has stopped the arm, command it to hold where it came to rest.

        After a cancel the controller holds the joints measured at that moment. By then the arm has
        moved on by servo lag and braking distance, up to 0.1 rad at full speed, and it would jump
        back by that as soon as somebody unlocks it or presses Play.
        """
        status = self.seen.status
        if not (self.was_moving and status.is_held_by_robot) or self.holds:
            return
        assert status.q is not None and status.qd is not None
        if np.abs(status.qd).max() > AT_REST:
            return
        if self._q_hold is None or np.abs(status.q - self._q_hold).max() > _ELSEWHERE:
            self._q_hold, self.holds = status.q, _HOLDS_AT_REST
