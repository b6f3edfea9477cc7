# SPDX-License-Identifier: Apache-2.0
"""How far the arm is from the path it was planned to take, wherever on it it is."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_REACH = 100  # samples in which the nearest is looked for, ahead of the last one


class Corridor:
    """
    The surroundings of a joint path that is followed in one direction.

    Parameters
    ----------
    path : ndarray, shape (n, 6)
        Joint positions [rad], close to one another.

    """

    def __init__(self, path: Array) -> None:
        self._path = path
        self._at = 0

    def away(self, q: Array) -> Array:
        """Return how far each joint of `q` (6,) is from the path's nearest point [rad]."""
        ahead = self._path[self._at : self._at + _REACH]
        nearest = int(np.abs(ahead - q).max(axis=1).argmin())
        self._at += nearest
        return np.abs(ahead[nearest] - q)
