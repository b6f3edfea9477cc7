# SPDX-License-Identifier: Apache-2.0
"""Solutions drawn as thin arms, one colour each, for RViz."""

from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.kinematics import Model, Solution, link_frames
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE


def ghosts(model: Model, solutions: Sequence[Solution]) -> MarkerArray:
    """
    Return each solution as a line through the joints, and delete earlier ones.

    A line bends where a DH frame's offset d and length a meet, so that shoulder and elbow can be
    distinguished. The first solution is opaque.

    """
    array = MarkerArray(markers=[Marker(ns='ik', action=Marker.DELETEALL)])
    for i, solution in enumerate(solutions):
        line = Marker(ns='ik', id=i, type=Marker.LINE_STRIP, action=Marker.ADD)
        line.header.frame_id = 'base_link'
        line.pose.orientation.w = 1.0
        line.scale.x = 0.02
        red, blue = float(i) / max(1, len(solutions) - 1), float(solution.branch.startswith('l'))
        line.color = ColorRGBA(r=red, g=0.6, b=blue, a=0.35 if i else 1.0)
        line.points = [Point(x=x, y=y, z=z) for x, y, z in _joints(model, solution).tolist()]
        array.markers.append(line)
    return array


def _joints(model: Model, solution: Solution) -> np.ndarray:
    """Return the corners of the arm in `base_link`, (13, 3) [m]: each frame, moved d, moved a."""
    frames = T_BASE_LINK_BASE @ link_frames(model, solution.q)
    along_axis = frames[:6, :3, 3] + model.d[:, None] * frames[:6, :3, 2]
    corners = np.stack([frames[:6, :3, 3], along_axis], axis=1).reshape(-1, 3)
    return np.vstack([corners, frames[6, :3, 3]])
