# SPDX-License-Identifier: Apache-2.0
"""The goals that this node has sent to the controller, and which of them have not ended."""

from collections import deque
from collections.abc import Set

from ur5_pick_place.control.controller import REPLY_TIMEOUT

_KEPT = 64  # ids kept: the controller reports a goal for a while after its end
_FOREIGN = (
    'foreign motion: the controller has a goal that this node did not send; end the client that '
    'sent it'
)


class OwnGoals:
    """The ids of the goals that this node has sent."""

    def __init__(self) -> None:
        self._sent: deque[bytes] = deque(maxlen=_KEPT)
        self._open: dict[bytes, float] = {}  # when they were sent [s, steady clock]

    @property
    def are_open(self) -> bool:
        """Whether the controller may still have, or receive, a goal of this node."""
        return bool(self._open)

    def record_sent(self, goal: bytes, now: float) -> None:
        """Record the id of a goal that is sent at time `now` [s, steady clock]."""
        self._sent.append(goal)
        self._open[goal] = now

    def record_ended(self, goal: bytes) -> None:
        """Record that a goal has ended or was rejected."""
        self._open.pop(goal, None)

    def record_all_ended(self) -> None:
        """Record that the controller has ended, and all its goals."""
        self._open.clear()

    def forget_lost(self, reported: Set[bytes], current: bytes | None, now: float) -> None:
        """
        Drop goals whose end was not reported.

        A goal is delivered within `REPLY_TIMEOUT`; one that the controller does not report at
        twice that time has ended, unless it is the `current` one. `now` as in `record_sent`.

        """
        last = now - 2.0 * REPLY_TIMEOUT
        for goal, sent in list(self._open.items()):
            if sent < last and goal not in reported and goal != current:
                del self._open[goal]

    def foreign(self, reported: Set[bytes]) -> str:
        """Return a fault if one of the controller's goals is not ours; empty if all are."""
        return _FOREIGN if reported and not reported <= set(self._sent) else ''
