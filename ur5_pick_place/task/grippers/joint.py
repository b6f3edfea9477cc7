# SPDX-License-Identifier: Apache-2.0
"""The joint of a gripper, as it is published: where it is, and whether it rests."""

import math

_FRESH = 0.5  # [s] for which a position counts
_LATE = 1.5  # intervals for which a position of a slow joint counts
_REST = 0.15  # [s] without motion
_SLOWEST = 1.5  # [s] longest interval that is expected
_MISSED = 3.0  # intervals without a position after which the joint is silent
_FADING = 0.9  # factor on the longest interval at each new position
_STEP = 0.2  # of the position tolerance: more is motion


class GripperJoint:
    """
    Follows a gripper's joint; times are of any one clock [s].

    - `tolerance`: `position_tolerance` of the gripper
    - `timeout`: shortest time without a position after which the joint is silent [s]; longer for a
      slow joint, and never below 0.5 s
    """

    def __init__(self, tolerance: float, timeout: float = _FRESH) -> None:
        self._step, self._timeout = _STEP * tolerance, timeout
        self._position, self._at = math.nan, -math.inf
        self._interval = 0.0  # [s] the longest between positions, fading slowly
        self._rest, self._since = math.nan, -math.inf

    def update(self, t: float, position: float) -> None:
        """Take a position at time `t`; one that is not finite is ignored."""
        if not math.isfinite(position):
            return
        if t - self._at > self._lasting or not abs(position - self._rest) <= self._step:
            self._rest, self._since = position, t
        if math.isfinite(self._at):
            self._interval = max(t - self._at, _FADING * self._interval)
        self._position, self._at = position, t

    def forget(self) -> None:
        """Judge a slow joint anew: its latest position is from before a goal began or ended."""
        if self._is_slow:
            self._rest, self._since = math.nan, self._at

    def position(self, now: float) -> float | None:
        """Return the position; None if too old, or if the joint is slow and has not rested."""
        is_known = now - self._at <= self._lasting and (self._has_rested or not self._is_slow)
        return self._position if is_known else None

    def is_still(self, now: float) -> bool:
        """Return whether the joint has rested for a while."""
        return self.position(now) is not None and self._has_rested

    @property
    def _has_rested(self) -> bool:
        return self._at - self._since >= _REST

    @property
    def _is_slow(self) -> bool:
        """Whether it is published so seldom, as once a second, that two positions must agree."""
        return self._interval > _FRESH

    @property
    def _lasting(self) -> float:
        """For how long a position counts [s]."""
        return _LATE * min(self._interval, _SLOWEST) if self._is_slow else _FRESH

    def is_silent(self, now: float) -> bool:
        """
        Return whether positions were received before, but none lately.

        Lately is within `timeout`, 0.5 s or three usual intervals, whichever is longest.
        """
        usual = min(self._interval, _SLOWEST)
        timeout = max(self._timeout, _FRESH, _MISSED * usual)
        return now - self._at > timeout and math.isfinite(self._at)
