# SPDX-License-Identifier: Apache-2.0
"""Where things are on the table of the cell, for every UR type; home is the same for all."""

import math
from collections.abc import Mapping
from typing import NamedTuple

SpotPose = tuple[float, float, float]
"""x and y of the cube's centre in `base_link` [m], its rotation about z [rad]."""


class Layout(NamedTuple):
    """The spots of one type."""

    # where parts lie at first, and where they are put down; the first of each are start and target
    # of the demo. The open gripper fits between any two.
    picks: tuple[SpotPose, ...]
    releases: tuple[SpotPose, ...]
    # least and largest distance from the arm's axis at which a spot can be used at any bearing
    # [m]; on the way to a nearer one the tool would hit the arm
    radius: tuple[float, float]
    # the same for spots within 60 degrees of +x, any two of which can be start and target
    ahead: tuple[float, float]

    @property
    def start(self) -> SpotPose:
        """The start of the demo."""
        return self.picks[0]

    @property
    def target(self) -> SpotPose:
        """The target of the demo."""
        return self.releases[0]


_TURN = math.radians(30.0)
_SHORT = Layout(
    ((0.30, -0.15, 0.0), (0.19, -0.27, 0.0), (0.32, -0.03, 0.0)),
    ((0.27, 0.18, _TURN), (0.15, 0.29, 0.0), (0.32, 0.08, _TURN)),
    (0.22, 0.36),
    (0.26, 0.34),
)
_USUAL = Layout(
    ((0.45, -0.20, 0.0), (0.30, -0.30, 0.0), (0.55, -0.05, 0.0)),
    ((0.40, 0.25, _TURN), (0.28, 0.38, 0.0), (0.55, 0.10, _TURN)),
    (0.25, 0.70),
    (0.35, 0.55),
)
_LONG = Layout(
    ((0.60, -0.25, 0.0), (0.42, -0.38, 0.0), (0.60, -0.05, 0.0)),
    ((0.55, 0.30, _TURN), (0.38, 0.46, 0.0), (0.60, 0.12, _TURN)),
    (0.35, 0.80),
    (0.45, 0.62),
)
_NOT_NEAR = _USUAL._replace(radius=(0.35, 0.70), ahead=(0.44, 0.60))

LAYOUTS: Mapping[str, Layout] = {
    'ur3': _SHORT,
    'ur5': _USUAL,
    'ur10': _LONG,
    'ur3e': _SHORT,
    'ur5e': _USUAL,
    'ur7e': _USUAL,
    'ur10e': _LONG,
    'ur12e': _LONG,
    # These have the wrist of a larger arm, which at a nearer spot hits the folded forearm.
    'ur16e': _NOT_NEAR,
    'ur18': _NOT_NEAR,
    'ur8long': _LONG,
    'ur15': _LONG,
    'ur20': _LONG,
    'ur30': _LONG,
}
"""By robot type."""
