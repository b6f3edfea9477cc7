# SPDX-License-Identifier: Apache-2.0
"""How evenly a control loop is ticked."""

from collections import deque

import numpy as np

_TICKS = 2000  # 16 s of a CB3 robot's joint_states


class Jitter:
    """The times between the latest ticks."""

    def __init__(self) -> None:
        self._gaps: deque[float] = deque(maxlen=_TICKS)
        self._last: float | None = None

    def tick(self, now: float) -> None:
        """Take the steady time of a tick [s]."""
        if self._last is not None:
            self._gaps.append(now - self._last)
        self._last = now

    def summary(self) -> dict[str, str]:
        """Return median, 99th percentile and worst time between two ticks, in ms, as text."""
        if not self._gaps:
            return {}
        gaps = 1e3 * np.array(self._gaps)
        values = (np.median(gaps), np.percentile(gaps, 99), gaps.max())
        names = ('tick p50 [ms]', 'tick p99 [ms]', 'tick worst [ms]')
        return {name: f'{value:.1f}' for name, value in zip(names, values, strict=True)}
