# SPDX-License-Identifier: Apache-2.0
"""Lines for RViz, and solutions drawn as thin arms; needs nothing but NumPy."""

from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import Point
from numpy.typing import ArrayLike
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.kinematics import Model, Solution, arm_corners

Colour = tuple[float, float, float, float]
"""Red, green, blue and opacity, 0 to 1."""


def line(
    ns: str,
    number: int,
    points: ArrayLike,
    width: float,
    colour: Colour,
    kind: int = Marker.LINE_STRIP,
) -> Marker:
    """Return a line of a width [m] through points (n, 3) in `base_link`."""
    marker = Marker(ns=ns, id=number, type=kind, action=Marker.ADD)
    marker.header.frame_id = 'base_link'
    marker.pose.orientation.w = 1.0
    marker.scale.x = width
    marker.color = as_colour(colour)
    marker.points = as_points(points)
    return marker


def as_colour(colour: Colour) -> ColorRGBA:
    r, g, b, a = colour
    return ColorRGBA(r=r, g=g, b=b, a=a)


def as_points(points: ArrayLike) -> list[Point]:
    """Return points (n, 3) as messages."""
    return [Point(x=x, y=y, z=z) for x, y, z in np.asarray(points, dtype=float).tolist()]


def ghosts(model: Model, solutions: Sequence[Solution]) -> MarkerArray:
    """
    Return each solution as a line through the joints, and delete earlier ones.

    The first solution is opaque.
    """
    array = MarkerArray(markers=[Marker(ns='ik', action=Marker.DELETEALL)])
    for i, solution in enumerate(solutions):
        red, blue = float(i) / max(1, len(solutions) - 1), float(solution.branch.startswith('l'))
        colour = (red, 0.6, blue, 0.35 if i else 1.0)
        array.markers.append(line('ik', i, arm_corners(model, solution.q), 0.02, colour))
    return array
