# SPDX-License-Identifier: Apache-2.0
"""How the speed along a path falls to zero."""

from dataclasses import dataclass, field

import numpy as np
from scipy.interpolate import PPoly


@dataclass(frozen=True)
class Ramp:
    """
    A time scaling `sigma` that falls from 1 to 0 within a unit of time.

    `sigma` is the speed at which the plan's time advances: 1 is the planned speed, 0 is rest. Its
    derivative `rate` is a negative trapezoid.

    Parameters
    ----------
    rise, fall : float
        Fractions of the time in which the magnitude of `rate` grows to its largest value, and
        falls back to zero.

    Attributes
    ----------
    curvature, rate, sigma, advanced : PPoly
        Second and first derivative of the scaling, the scaling, and its integral, by time.

    """

    rise: float
    fall: float
    curvature: PPoly = field(init=False)
    rate: PPoly = field(init=False)
    sigma: PPoly = field(init=False)
    advanced: PPoly = field(init=False)

    def __post_init__(self) -> None:
        peak = 1.0 / (1.0 - self.rise / 2 - self.fall / 2)
        slopes = [-peak / self.rise, 0.0, peak / self.fall]
        rate = PPoly([slopes, [0.0, -peak, -peak]], [0.0, self.rise, 1.0 - self.fall, 1.0])
        sigma = rate.antiderivative()
        sigma.c[-1] += 1.0
        for name, curve in (
            ('curvature', rate.derivative()),
            ('rate', rate),
            ('sigma', sigma),
            ('advanced', sigma.antiderivative()),
        ):
            object.__setattr__(self, name, curve)

    @property
    def knots(self) -> tuple[float, float]:
        """Times at which the curvature jumps."""
        return self.rise, 1.0 - self.fall


class SpeedProfile:
    """
    A speed that falls to zero within limits on its first two derivatives.

    Parameters
    ----------
    speed, rate : float
        Initial values. `speed` must be positive; if `rate` is negative, at least
        rate^2 / (2 max_jerk), the speed that is lost until the rate is back at 0.
    max_rate, max_jerk : float
        Limits on the magnitude of the first and second derivative.

    Attributes
    ----------
    rate, speed, distance : PPoly
        First derivative of the speed, the speed, and its integral, by time.
    knots : tuple of float
        Times at which the second derivative jumps.
    duration : float

    """

    def __init__(self, speed: float, rate: float, max_rate: float, max_jerk: float) -> None:
        lost = speed + rate**2 / (2 * max_jerk)
        peak = max(min(max_rate, (max_jerk * lost) ** 0.5), -rate)
        held = max(0.0, lost / peak - peak / max_jerk)
        lengths = np.array([(rate + peak) / max_jerk, held, peak / max_jerk])
        slopes = np.array([-max_jerk, 0.0, max_jerk])[lengths > 0.0]
        ends = np.append(0.0, np.cumsum(lengths[lengths > 0.0]))
        starts = rate + np.append(0.0, np.cumsum(slopes * np.diff(ends)))[:-1]
        self.rate = PPoly([slopes, starts], ends)
        self.speed = self.rate.antiderivative()
        self.speed.c[-1] += speed
        self.distance = self.speed.antiderivative()
        self.knots, self.duration = tuple(ends[1:-1]), float(ends[-1])
