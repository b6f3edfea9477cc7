# SPDX-License-Identifier: Apache-2.0
"""How the speed along a path falls to zero."""

from dataclasses import dataclass, field

import numpy as np
from scipy.interpolate import PPoly


@dataclass(frozen=True)
class Ramp:
    """
    A time scaling that falls from 1 to 0 within a unit of time; its rate is a trapezoid.

    A path runs through the times of its plan at the speed `sigma` of the scaling.

    Parameters
    ----------
    rise, fall : float
        Shares of the time in which the rate grows to its largest value, and falls to zero again.

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
        most = 1.0 / (1.0 - self.rise / 2 - self.fall / 2)
        slopes = [-most / self.rise, 0.0, most / self.fall]
        rate = PPoly([slopes, [0.0, -most, -most]], [0.0, self.rise, 1.0 - self.fall, 1.0])
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
        At first; the speed is positive, and no less than the rate takes away while it rises to 0.
    most_rate, most_jerk : float
        Limits on the magnitude of the first and second derivative.

    Attributes
    ----------
    rate, speed, way : PPoly
        First derivative of the speed, the speed, and its integral, by time.
    knots : tuple of float
        Times at which the second derivative jumps.
    duration : float

    """

    def __init__(self, speed: float, rate: float, most_rate: float, most_jerk: float) -> None:
        lost = speed + rate**2 / (2 * most_jerk)
        peak = max(min(most_rate, (most_jerk * lost) ** 0.5), -rate)
        held = max(0.0, lost / peak - peak / most_jerk)
        lengths = np.array([(rate + peak) / most_jerk, held, peak / most_jerk])
        slopes = np.array([-most_jerk, 0.0, most_jerk])[lengths > 0.0]
        ends = np.append(0.0, np.cumsum(lengths[lengths > 0.0]))
        starts = rate + np.append(0.0, np.cumsum(slopes * np.diff(ends)))[:-1]
        self.rate = PPoly([slopes, starts], ends)
        self.speed = self.rate.antiderivative()
        self.speed.c[-1] += speed
        self.way = self.speed.antiderivative()
        self.knots, self.duration = tuple(ends[1:-1]), float(ends[-1])
