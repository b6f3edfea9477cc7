# SPDX-License-Identifier: Apache-2.0
"""What RViz shows of the scene and of a plan."""

from collections.abc import Mapping

import numpy as np
from geometry_msgs.msg import Point
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.transforms import make_transform
from ur5_pick_place.nodes.conversions import matrix_to_pose
from ur5_pick_place.nodes.frames import T_BASE_BASE_LINK
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene import Scene
from ur5_pick_place.planning.trajectory import Trajectory
from ur5_pick_place.task.plan import CyclePlan
from ur5_pick_place.task.poses import TaughtPose

_SAMPLES = 120
_TABLE = (1.8, 1.8, 0.01)  # as far as the arm reaches [m]
_Z_TO_X = np.array(
    [[0.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
)


def tool_path(planner: MotionPlanner, trajectory: Trajectory) -> MarkerArray:
    """Return the path of the TCP as one line in `base_link`."""
    q = trajectory.sample(np.linspace(0.0, trajectory.duration, _SAMPLES))[0]
    T_base_tcp = forward(planner.model, q) @ planner.scene.tool.T_tool_tcp
    points = (np.linalg.inv(T_BASE_BASE_LINK) @ T_base_tcp)[:, :3, 3]
    line = Marker(ns='planned_path', id=0, type=Marker.LINE_STRIP, action=Marker.ADD)
    line.header.frame_id = 'base_link'
    line.pose.orientation.w = 1.0
    line.scale.x = 0.004
    line.color = ColorRGBA(r=0.1, g=0.6, b=1.0, a=1.0)
    line.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in points]
    return MarkerArray(markers=[line])


def cycle(planner: MotionPlanner, plan: CyclePlan, poses: Mapping[str, TaughtPose]) -> MarkerArray:
    """Return the scene, the paths of all motions, and an arrow at start and target."""
    array = surroundings(planner.scene)
    for i, motion in enumerate(plan.motions):
        line = tool_path(planner, motion.trajectory).markers[0]
        line.ns, line.id = 'cycle', i
        array.markers.append(line)
    for name in ('start', 'target'):
        arrow = place_arrow(name, np.linalg.inv(T_BASE_BASE_LINK) @ poses[name].T_base_tcp)
        arrow.header.frame_id = 'base_link'
        array.markers.append(arrow)
    return array


def surroundings(scene: Scene) -> MarkerArray:
    """Return table, boxes and gripper; what was drawn before goes."""
    middle = make_transform(np.eye(3), [0.0, 0.0, scene.table_height - _TABLE[2] / 2])
    solids = [
        ('base_link', middle, _TABLE),
        *(('base_link', box.T_base_link_box, box.size) for box in scene.boxes),
        *(('tool0', box.T_tool_box, box.size) for box in scene.tool.shapes),
    ]
    array = MarkerArray(markers=[Marker(action=Marker.DELETEALL)])
    for i, (frame, T, size) in enumerate(solids):
        solid = Marker(ns='scene', id=i, type=Marker.CUBE, action=Marker.ADD)
        solid.header.frame_id, solid.pose = frame, matrix_to_pose(T)
        solid.frame_locked = frame == 'tool0'
        solid.scale.x, solid.scale.y, solid.scale.z = (float(edge) for edge in size)
        solid.color = ColorRGBA(r=0.6, g=0.6, b=0.6, a=0.5)
        array.markers.append(solid)
    return array


def place_arrow(place: str, T: NDArray[np.float64]) -> Marker:
    """Return an arrow along the tool's approach, for a TCP at `T` (4, 4); green is the start."""
    is_start = place == 'start'
    arrow = Marker(ns='places', id=int(not is_start), type=Marker.ARROW, action=Marker.ADD)
    arrow.pose = matrix_to_pose(T @ _Z_TO_X)  # an arrow points along x, the tool along z
    arrow.scale.x, arrow.scale.y, arrow.scale.z = 0.08, 0.01, 0.01
    arrow.color = ColorRGBA(r=float(not is_start), g=float(is_start), b=0.2, a=1.0)
    return arrow
