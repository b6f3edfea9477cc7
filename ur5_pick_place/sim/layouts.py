# SPDX-License-Identifier: Apache-2.0
"""Where things are on the table of the cell, for every UR type; home is the same for all."""

import math
from collections.abc import Mapping
from typing import NamedTuple

SpotPose = tuple[float, float, float]
"""x and y of the cube's centre in `base_link` [m], its rotation about z [rad]."""


class Layout(NamedTuple):
    """
    The spots of one type.

    Attributes
    ----------
    start, target : SpotPose
        Of the demo.
    radius : tuple of float
        Least and largest distance from the arm's axis at which a spot can be used at any bearing
        [m]; on the way to a nearer one the tool would hit the arm.
    ahead : tuple of float
        The same for spots within 60 degrees of +x, any two of which can be start and target.

    """

    start: SpotPose
    target: SpotPose
    radius: tuple[float, float]
    ahead: tuple[float, float]


_TURN = math.radians(30.0)
_SHORT = Layout((0.30, -0.15, 0.0), (0.27, 0.18, _TURN), (0.22, 0.36), (0.26, 0.34))
_USUAL = Layout((0.45, -0.20, 0.0), (0.40, 0.25, _TURN), (0.25, 0.70), (0.35, 0.55))
_LONG = Layout((0.60, -0.25, 0.0), (0.55, 0.30, _TURN), (0.35, 0.80), (0.45, 0.62))

LAYOUTS: Mapping[str, Layout] = {
    'ur3': _SHORT,
    'ur5': _USUAL,
    'ur10': _LONG,
    'ur3e': _SHORT,
    'ur5e': _USUAL,
    'ur10e': _LONG,
    # It has the wrist of the larger arm, which at a nearer spot hits the folded forearm.
    'ur16e': _USUAL._replace(radius=(0.35, 0.70), ahead=(0.44, 0.60)),
}
"""By robot type."""
