# SPDX-License-Identifier: Apache-2.0
"""A motion whose end is awaited, even if the planner's reply is lost in transit."""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.control.motion_state import MotionState, parse_motion_state
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import DONE, OnOutcome, Outcome

_IDLE = 2.0  # [s] for which the planner is ready again without having replied
_BEGIN = 30.0  # [s] until the planner reports motion; a closed loop is rolled out again first
_ARRIVED = 0.01  # [rad]
LOST = "the planner's reply to a motion was lost: check the planner, then ~/rearm"
_LOST = Outcome.failed(LOST)


@dataclass(eq=False)
class PendingMotion:
    """Awaits one reply, which may be lost: a server can miss a client that has matched it."""

    q_goal: Array  # (6,) where the motion ends [rad]
    on_reply: OnOutcome  # called once, with how the motion ended
    sent: float  # steady time [s]
    is_over: bool = False
    _has_moved: bool = False
    _idle_since: float | None = None  # steady time [s]

    def reply(self, outcome: Outcome) -> None:
        """Forward the reply, unless the motion has already ended."""
        if not self.is_over:
            self.is_over = True
            self.on_reply(outcome)

    def on_planner_state(self, text: str, now: float) -> None:
        """Take the planner's motion state, as published, at a steady time [s]."""
        state, _ = parse_motion_state(text)
        self._has_moved |= state is MotionState.MOVING
        is_idle = state is MotionState.READY and self._has_moved
        self._idle_since = now if is_idle else None

    def on_joints(self, q: Array, now: float) -> None:
        """Decide by the joints (6,) [rad] whether the motion is done if no reply has arrived."""
        if self._idle_since is not None and now - self._idle_since > _IDLE:
            self.reply(DONE if np.abs(q - self.q_goal).max() <= _ARRIVED else _LOST)
        elif not self._has_moved and now - self.sent > _BEGIN:
            self.reply(_LOST)
