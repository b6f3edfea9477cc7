# SPDX-License-Identifier: Apache-2.0
"""Curves joined into one that a motion can run through without stopping at the corners."""

from collections.abc import Sequence

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.planning.curves import Array, Curve


class Rounded:
    """
    Curves one after another, with rounded corners.

    Within the blend radius of a corner, counted along the curves, the pace of the first one fades
    out while that of the second fades in: their displacements from the corner are added up. With
    a fade that is twice continuously differentiable the whole is so three times, which keeps the
    jerk of a motion finite. The tool leaves each curve and meets the next exactly at the radius.

    Parameters
    ----------
    legs : sequence of Curve
        Each starts where the one before ends.
    radii : sequence of float
        Blend radius at each inner corner [m], positive.

    Raises
    ------
    InvalidInput
        A leg is shorter than the blends at its ends.

    """

    def __init__(self, legs: Sequence[Curve], radii: Sequence[float]) -> None:
        ends = [0.0, *radii, 0.0]
        for i, leg in enumerate(legs):
            if leg.length < (ends[i] + ends[i + 1]) * (1.0 - 1e-9):
                raise InvalidInput(
                    f'move {i + 1} is {leg.length:.4f} m long, the blends at its ends take '
                    f'{ends[i]:.4f} and {ends[i + 1]:.4f} m of it: give smaller blend radii'
                )
        self._legs, self._radii = list(legs), list(radii)
        self._corners = np.cumsum([leg.length for leg in legs])[:-1]  # [m] from the start
        self.length = sum(leg.length for leg in legs)
        self.turn = sum(leg.turn for leg in legs)

    def __call__(self, s: Array) -> Array:
        """Return T_base_tool (n, 4, 4) at shares `s` (n,) of the length, 0 to 1."""
        way = np.asarray(s) * self.length
        poses = np.empty((way.size, 4, 4))
        which = np.searchsorted(self._corners, way)
        starts = np.concatenate([[0.0], self._corners])
        for i, leg in enumerate(self._legs):
            on = which == i
            share = (way[on] - starts[i]) / leg.length
            poses[on] = leg(np.where(way[on] == self.length, 1.0, share))
        for i, (corner, radius) in enumerate(zip(self._corners, self._radii, strict=True)):
            on = np.abs(way - corner) < radius
            poses[on] = self._corner(i, (way[on] - corner) / radius)
        return poses

    def _corner(self, i: int, u: Array) -> Array:
        """Return the poses where `u` (n,), -1 to 1, is the way from corner `i` over its radius."""
        before, after, radius = self._legs[i], self._legs[i + 1], self._radii[i]
        sigma = 0.5 * (u + 1.0)
        gone = 2.0 * sigma**4 * (2.5 - 3.0 * sigma + sigma**2)  # on the second leg, over radius
        left = 1.0 - 2.0 * sigma + gone  # on the first leg, likewise
        first = before(1.0 - left * radius / before.length)
        second = after(gone * radius / after.length)
        corner = after(np.zeros(1))[0]
        poses = first.copy()
        poses[:, :3, 3] += second[:, :3, 3] - corner[:3, 3]
        poses[:, :3, :3] = first[:, :3, :3] @ corner[:3, :3].T @ second[:, :3, :3]
        return poses
