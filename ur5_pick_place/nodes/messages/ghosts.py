# SPDX-License-Identifier: Apache-2.0
"""Solutions drawn as thin arms, one colour each, for RViz."""

from collections.abc import Sequence

from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.kinematics import Model, Solution, arm_corners


def ghosts(model: Model, solutions: Sequence[Solution]) -> MarkerArray:
    """
    Return each solution as a line through the joints, and delete earlier ones.

    The first solution is opaque.

    """
    array = MarkerArray(markers=[Marker(ns='ik', action=Marker.DELETEALL)])
    for i, solution in enumerate(solutions):
        line = Marker(ns='ik', id=i, type=Marker.LINE_STRIP, action=Marker.ADD)
        line.header.frame_id = 'base_link'
        line.pose.orientation.w = 1.0
        line.scale.x = 0.02
        red, blue = float(i) / max(1, len(solutions) - 1), float(solution.branch.startswith('l'))
        line.color = ColorRGBA(r=red, g=0.6, b=blue, a=0.35 if i else 1.0)
        line.points = [Point(x=x, y=y, z=z) for x, y, z in arm_corners(model, solution.q)]
        array.markers.append(line)
    return array
