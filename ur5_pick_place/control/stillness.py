# SPDX-License-Identifier: Apache-2.0
"""Whether the arm is at rest, judged by its measured joints alone."""

from collections import deque

import numpy as np

from ur5_pick_place.kinematics.transforms import Array

_WINDOW = 0.15  # [s] in which no joint may turn by more than _TURN
_TURN = 1e-3  # [rad]; an encoder's noise is a hundredth of that


class Stillness:
    """The arm's joints during the last moments."""

    def __init__(self) -> None:
        self._heard: deque[tuple[float, Array]] = deque()

    def hear(self, stamp: float, q: Array) -> None:
        """Take measured joints (6,) [rad] and the time of their measurement [s]."""
        if self._heard and stamp < self._heard[-1][0]:
            self._heard.clear()  # the driver was restarted, or its clock was set back
        elif self._heard and stamp == self._heard[-1][0]:
            self._heard.pop()
        self._heard.append((stamp, q))
        while len(self._heard) > 2 and self._heard[1][0] <= stamp - _WINDOW:
            self._heard.popleft()

    def forget(self) -> None:
        """Forget what was heard: the arm counts as moving until it has been watched again."""
        self._heard.clear()

    @property
    def is_at_rest(self) -> bool:
        """Whether the joints were watched for 0.15 s and stayed where they are."""
        turn = self._turn()
        return turn is not None and turn <= _TURN

    @property
    def is_moving(self) -> bool:
        """Whether the joints were watched for 0.15 s and turned meanwhile."""
        turn = self._turn()
        return turn is not None and turn > _TURN

    def _turn(self) -> float | None:
        """Return how far any joint turned [rad]; None if they were not watched for long enough."""
        heard = list(self._heard)  # a copy, as joints may come from another thread meanwhile
        if not heard or heard[-1][0] - heard[0][0] < _WINDOW:
            return None
        q = np.array([q for _, q in heard])
        return float((q.max(axis=0) - q.min(axis=0)).max())
