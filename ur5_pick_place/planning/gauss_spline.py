# SPDX-License-Identifier: Apache-2.0
"""Cubic splines whose sums over Gauss points are minimised by Newton's method."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.linalg import solveh_banded

Array = NDArray[np.float64]

# Four points in each interval, on [0, 1].
_POINTS, _SHARES = np.polynomial.legendre.leggauss(4)
ABSCISSAE, WEIGHTS = 0.5 * (_POINTS + 1.0), 0.5 * _SHARES


class GaussSpline:
    """
    Cubic splines over [0, 1] with their values, first and second derivatives at Gauss points.

    Parameters
    ----------
    intervals : int
        Equal ones.

    Attributes
    ----------
    knots : ndarray, shape (intervals + 7,)
    x, weight : ndarray, shape (n,)
        Gauss points, four in each interval, and what each counts for in an integral.
    size : int
        Number of coefficients.

    """

    def __init__(self, intervals: int) -> None:
        grid = np.linspace(0.0, 1.0, intervals + 1)
        self.knots = np.concatenate([np.zeros(3), grid, np.ones(3)])
        self.x = (grid[:-1, None] + grid[1] * ABSCISSAE).ravel()
        self.weight = np.tile(grid[1] * WEIGHTS, intervals)
        self.intervals, self.size = intervals, intervals + 3
        # Which four coefficients each point feels, and how: (points, 4) and (points, 3, 4).
        self._active = np.arange(intervals).repeat(len(WEIGHTS))[:, None] + np.arange(4)
        bases = BSpline(self.knots, np.eye(self.size), 3)
        points = np.arange(self.x.size)[:, None]
        self._basis = np.stack([bases(self.x, nu=k)[points, self._active] for k in range(3)], 1)

    def values(self, coefficients: Array) -> Array:
        """Return (points, 3): the spline and its first two derivatives."""
        return (self._basis @ coefficients[self._active][:, :, None])[:, :, 0]

    def newton_step(self, gradient: Array, hessian: Array) -> tuple[Array, float]:
        """
        Return the Newton step and the decrease it promises.

        Parameters
        ----------
        gradient, hessian : ndarray, shapes (points, 3) and (points, 3, 3)
            Of a sum over the points, by the values there.

        """
        per_interval = (self.intervals, len(WEIGHTS), 4)
        local = (gradient[:, None, :] @ self._basis)[:, 0]
        local = local.reshape(per_interval).sum(axis=1)
        block = self._basis.transpose(0, 2, 1) @ hessian @ self._basis
        block = block.reshape(*per_interval, 4).sum(axis=1)
        total, band = np.zeros(self.size), np.zeros((4, self.size))
        for i in range(4):
            total[i : i + self.intervals] += local[:, i]
            for j in range(i + 1):
                band[i - j, j : j + self.intervals] += block[:, i, j]
        step = -solveh_banded(band, total, lower=True)
        return step, -float(total @ step)


@lru_cache(maxsize=4)
def gauss_spline(intervals: int) -> GaussSpline:
    """Return the spline with so many equal intervals; the last few are remembered."""
    return GaussSpline(intervals)
