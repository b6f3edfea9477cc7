# SPDX-License-Identifier: Apache-2.0
"""How the speed along a path falls to zero."""

from dataclasses import dataclass, field

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
