# SPDX-License-Identifier: Apache-2.0
"""The part in the gripper while no job runs: one that comes late, is taken out, or falls."""

import math

from ur5_pick_place.task.grippers.base import SETTLING, Gripper
from ur5_pick_place.task.job import Observation

_GAP = 0.3  # [s] without an observation; the level may have changed in between


class PartWatch:
    """Whether the gripper holds a part, debounced."""

    def __init__(self, gripper: Gripper) -> None:
        self._gripper = gripper
        self._level: bool | None = None
        self._since = self._latest = -math.inf

    def update(self, seen: Observation) -> bool | None:
        """Return whether a part is held, once that is stable; None if it is not known."""
        level, t = self._proved(seen), seen.t
        if level != self._level or not 0.0 <= t - self._latest <= _GAP:
            self._level, self._since = level, t
        self._latest = t
        return level if t - self._since >= SETTLING else None

    def _proved(self, seen: Observation) -> bool | None:
        """Return whether a part is held; False only if nothing about the gripper is in doubt."""
        gripper = self._gripper
        holds = gripper.part_signal(seen)
        if holds:
            return True if gripper.is_closed(seen) else None
        # Pins may be out of date during a stop, and an input without supply shows no part.
        is_sure = not seen.stop_reason and gripper.is_known(seen) and gripper.is_supplied(seen)
        return False if holds is False and is_sure else None
