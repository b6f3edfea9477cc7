# SPDX-License-Identifier: Apache-2.0
"""Whether the arm is at rest, from its measured joints alone."""

from collections import deque

import numpy as np

from ur5_pick_place.kinematics.transforms import Array

_WINDOW = 0.15  # [s] in which no joint may turn by more than _TURN
_BRAKED = 0.7  # share of its speed that a braking arm has in the second half of that window
_LONGEST_BRAKING = 2.0  # [s]
_TURN = 1e-3  # [rad]; an encoder's noise is a hundredth of that


class Stillness:
    """The measured joints of the last 0.15 s, and whether the arm moved in that time."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Array]] = deque()

    def update(self, stamp: float, q: Array) -> None:
        """Record measured joints (6,) [rad] with their stamp [s]."""
        if self._samples and stamp < self._samples[-1][0]:
            self._samples.clear()  # the driver was restarted, or its clock was set back
        elif self._samples and stamp == self._samples[-1][0]:
            self._samples.pop()
        self._samples.append((stamp, q))
        while len(self._samples) > 2 and self._samples[1][0] <= stamp - _WINDOW:
            self._samples.popleft()

    def forget(self) -> None:
        """Drop all samples: the arm is not at rest until it has been observed for 0.15 s again."""
        self._samples.clear()

    @property
    def is_at_rest(self) -> bool:
        """Whether the joints were observed for 0.15 s and did not move."""
        turn = self._turn()
        return turn is not None and turn <= _TURN

    @property
    def is_moving(self) -> bool:
        """Whether the joints were observed for 0.15 s and moved."""
        turn = self._turn()
        return turn is not None and turn > _TURN

    @property
    def is_cruising(self) -> bool:
        """Whether the joints moved, and did not slow down: nothing brakes the arm."""
        samples = list(self._samples)
        if not self.is_moving or len(samples) < 3:  # two cannot show that it slows down
            return False
        middle = len(samples) // 2
        return _rate(samples[middle:]) > _BRAKED * _rate(samples[: middle + 1])

    def moves_on(self, seconds: float) -> bool:
        """Return whether nothing brakes an arm that was to stop `seconds` ago."""
        return self.is_moving if seconds > _LONGEST_BRAKING else self.is_cruising

    def _turn(self) -> float | None:
        """Return the largest joint motion [rad]; None if observed for less than 0.15 s."""
        samples = list(self._samples)  # a copy, as joints may come from another thread meanwhile
        if not samples or samples[-1][0] - samples[0][0] < _WINDOW:
            return None
        return _span([q for _, q in samples])


def _rate(samples: list[tuple[float, Array]]) -> float:
    """Return how fast the joint that turned most turned [rad/s]."""
    return _span([q for _, q in samples]) / max(samples[-1][0] - samples[0][0], 1e-6)


def _span(samples: list[Array]) -> float:
    """Return by how much the joint that turned most turned [rad]."""
    q = np.array(samples)
    return float((q.max(axis=0) - q.min(axis=0)).max()) if len(samples) else 0.0
