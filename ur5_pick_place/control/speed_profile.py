# SPDX-License-Identifier: Apache-2.0
"""How the speed along a path falls to zero."""

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics.transforms import Array


class SpeedProfile:
    """
    Speeds that fall to zero within limits on their first two derivatives.

    - `speed`, `rate` (n,): initial values; `speed` is positive
    - `max_rate` (n,): limit on the magnitude of the first derivative
    - `first_jerk`, `last_jerk` (n,): magnitude of the second derivative until that is reached, and
      at the end

    - `is_possible` (n,): False where the rate is so low that the speed would fall below zero
    - `duration` (n,)
    - `knots` (2, n): times at which the second derivative jumps
    """

    def __init__(
        self, speed: Array, rate: Array, max_rate: Array, first_jerk: Array, last_jerk: Array
    ) -> None:
        lost = speed + rate**2 / (2.0 * first_jerk)
        both = 1.0 / first_jerk + 1.0 / last_jerk
        peak = np.maximum(np.minimum(max_rate, np.sqrt(2.0 * lost / both)), -rate)
        held = np.maximum(0.0, lost / peak - peak * both / 2.0)
        self.is_possible = (rate >= 0.0) | (speed >= rate**2 / (2.0 * last_jerk))
        self._parts = np.stack([speed, rate, peak, first_jerk, last_jerk])
        self._lengths = np.stack([(rate + peak) / first_jerk, held, peak / last_jerk])
        ends = np.cumsum(self._lengths, axis=0)
        self.knots, self.duration = ends[:2], ends[2]

    def of(self, which: NDArray[np.intp]) -> 'SpeedProfile':
        """Return some of the profiles."""
        some = SpeedProfile.__new__(SpeedProfile)
        for name in ('is_possible', '_parts', '_lengths', 'knots', 'duration'):
            setattr(some, name, getattr(self, name)[..., which])
        return some

    def at(self, times: Array) -> tuple[Array, Array, Array, Array]:
        """Return way, speed, rate and second derivative at times (n, k) [s], or (k,) of one."""
        speed, rate, peak, first, last = self._parts[..., None]
        rising, held, falling = self._lengths[..., None]
        a = times.clip(0.0, rising)
        b = (times - rising).clip(0.0, held)
        c = (times - rising - held).clip(0.0, falling)
        middle = speed + rising * (rate - first * rising / 2.0)
        end = middle - peak * held
        way = a * (speed + a * (rate / 2.0 - first * a / 6.0)) + b * (middle - peak * b / 2.0)
        way = way + c * (end - c * (peak / 2.0 - last * c / 6.0))
        now = speed + a * (rate - first * a / 2.0) - peak * (b + c) + last * c**2 / 2.0
        jerk = np.where(times < rising, -first, np.where(times < rising + held, 0.0, last))
        values = (way, now, rate - first * a + last * c, jerk)
        return tuple(of[0] if times.ndim == 1 else of for of in values)  # type: ignore[return-value]
