# SPDX-License-Identifier: Apache-2.0
"""How late the joint servos follow, found from a motion while it runs."""

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.control.reference import Reference

_MEMORY = 0.97  # kept of what was seen, per message
_SLOW = 1e-4  # [rad^2/s^2]; below this speed there is nothing to see
_MOST = 0.2  # [s]


class ServoLag:
    """Least squares of (reference - measured) = lag times velocity, with a fading memory."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """The lag, in scaled time [s]."""
        self._gap_times_speed, self._speed_squared = 0.0, 1e-6

    def hear(self, reference: Reference, q: NDArray[np.float64]) -> None:
        """Take the joints (6,) [rad] that were measured at the reference's time."""
        qd = reference.qd_at(reference.time - self.seconds / 2)  # in the middle of the gap
        if qd @ qd > _SLOW:
            gap = reference.q_at(reference.time) - q
            self._gap_times_speed = _MEMORY * self._gap_times_speed + float(gap @ qd)
            self._speed_squared = _MEMORY * self._speed_squared + float(qd @ qd)
            lag = self._gap_times_speed / self._speed_squared
            self.seconds = float(np.clip(lag, 0.0, _MOST))
