# SPDX-License-Identifier: Apache-2.0
"""Cubic splines at the Gauss points of their intervals, and Newton steps of sums over these."""

from functools import lru_cache

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpbsv

from ur5_pick_place.kinematics.transforms import Array

# Four points in each interval, on [0, 1].
_POINTS, _SHARES = np.polynomial.legendre.leggauss(4)
ABSCISSAE, WEIGHTS = 0.5 * (_POINTS + 1.0), 0.5 * _SHARES


ENTRIES = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
"""Of a symmetric 3 x 3 matrix."""


class GaussSpline:
    """
    Cubic splines over [0, 1] with their values, first and second derivatives at Gauss points.

    `intervals`: number of equal intervals.

    Attributes
    ----------
    knots : ndarray, shape (intervals + 7,)
    x, weight : ndarray, shape (n,)
        Gauss points, four in each interval, and their quadrature weights.
    size : int
        Number of coefficients.
    """

    def __init__(self, intervals: int) -> None:
        grid = np.linspace(0.0, 1.0, intervals + 1)
        self.knots = np.concatenate([np.zeros(3), grid, np.ones(3)])
        self.x = (grid[:-1, None] + grid[1] * ABSCISSAE).ravel()
        self.weight = np.tile(grid[1] * WEIGHTS, intervals)
        self.intervals, self.size = intervals, intervals + 3
        # The four coefficients that act in each interval, (intervals, 4), and the basis of the
        # values, slopes and bends of its four points, (intervals, 4, 12).
        self._active = np.arange(intervals)[:, None] + np.arange(4)
        bases = BSpline(self.knots, np.eye(self.size), 3)
        at = np.arange(self.x.size)[:, None]
        active = self._active.repeat(len(WEIGHTS), axis=0)
        basis = np.stack([bases(self.x, nu=k)[at, active] for k in range(3)])  # (3, points, 4)
        basis = basis.reshape(3, intervals, 4, 4).transpose(1, 3, 0, 2)
        self._basis = np.ascontiguousarray(basis).reshape(intervals, 4, 12)
        # Its products, for the entries of a symmetric Hessian: (intervals, 24, 16).
        products = [
            basis[:, :, None, i] * basis[:, None, :, j]
            + (basis[:, :, None, j] * basis[:, None, :, i] if i != j else 0.0)
            for i, j in ENTRIES
        ]
        stacked = np.stack(products, axis=3).reshape(intervals, 16, 24)
        self._products = stacked.swapaxes(1, 2).copy()

    def values(self, coefficients: Array) -> Array:
        """Return (3, points): the spline and its first two derivatives."""
        local = (coefficients[self._active][:, None] @ self._basis)[:, 0]
        return np.ascontiguousarray(local.reshape(-1, 3, 4).swapaxes(0, 1)).reshape(3, -1)

    def newton_step(self, gradient: Array, hessian: Array) -> tuple[Array, float]:
        """
        Return the Newton step and the predicted decrease.

        `gradient` and `hessian`: of a sum over the points, with respect to the values there; of
        the symmetric Hessian the `ENTRIES`.
        """
        at = self.intervals, len(WEIGHTS)
        slopes = np.ascontiguousarray(gradient.reshape(3, *at).swapaxes(0, 1)).reshape(-1, 12, 1)
        local = (self._basis @ slopes)[:, :, 0]
        bends = np.ascontiguousarray(hessian.reshape(6, *at).swapaxes(0, 1)).reshape(-1, 1, 24)
        block = (bends @ self._products).reshape(-1, 4, 4)
        total, band = np.zeros(self.size), np.zeros((4, self.size))
        for i in range(4):
            total[i : i + self.intervals] += local[:, i]
            for j in range(i + 1):
                band[i - j, j : j + self.intervals] += block[:, i, j]
        _, step, info = dpbsv(band, -total, lower=1)
        if info:
            raise LinAlgError('the Hessian is not positive definite')
        return step, -float(total @ step)


@lru_cache(maxsize=4)
def gauss_spline(intervals: int) -> GaussSpline:
    """Return the spline with that many equal intervals; the last four are cached."""
    return GaussSpline(intervals)
