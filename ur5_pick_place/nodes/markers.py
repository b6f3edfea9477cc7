# SPDX-License-Identifier: Apache-2.0
"""What RViz shows of the scene and of a plan."""

from collections.abc import Mapping
from itertools import combinations, product

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
_OUTLINE_SPACING = 0.05  # [m] of the TCP's way
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
    """Return the scene, what each motion does with the tool, and an arrow at start and target."""
    array = surroundings(planner.scene)
    distinct = {id(motion): motion for motion in plan.motions}.values()  # a feeder's are all alike
    for i, motion in enumerate(distinct):
        line = tool_path(planner, motion.trajectory).markers[0]
        line.ns, line.id = 'cycle', i
        array.markers += [line, swept_tool(planner, motion.trajectory, i)]
    for name in ('start', 'target'):
        arrow = place_arrow(name, np.linalg.inv(T_BASE_BASE_LINK) @ poses[name].T_base_tcp)
        arrow.header.frame_id = 'base_link'
        array.markers.append(arrow)
    return array


def swept_tool(planner: MotionPlanner, trajectory: Trajectory, number: int) -> Marker:
    """Return outlines of the tool along a motion, in `base_link`."""
    q = trajectory.sample(np.linspace(0.0, trajectory.duration, _SAMPLES))[0]
    tool = planner.scene.tool
    T_base_link_tool = np.linalg.inv(T_BASE_BASE_LINK) @ forward(planner.model, q)
    p = (T_base_link_tool @ tool.T_tool_tcp)[:, :3, 3]
    way = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(p, axis=0), axis=1)))
    shown = np.unique(np.searchsorted(way, np.arange(0.0, way[-1], _OUTLINE_SPACING)))
    edges = [
        T @ box.T_tool_box @ _edges(box.size).T
        for T in T_base_link_tool[shown]
        for box in tool.shapes
    ]
    outlines = Marker(ns='swept_tool', id=number, type=Marker.LINE_LIST, action=Marker.ADD)
    outlines.header.frame_id = 'base_link'
    outlines.pose.orientation.w = 1.0
    outlines.scale.x = 0.001
    outlines.color = ColorRGBA(r=0.1, g=0.6, b=1.0, a=0.4)
    outlines.points = [
        Point(x=float(x), y=float(y), z=float(z)) for ends in edges for x, y, z, _ in ends.T
    ]
    return outlines


def _edges(size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ends of the 12 edges of a box about the origin, shape (24, 4), homogeneous."""
    corners = np.array(list(product((-0.5, 0.5), repeat=3))) * size
    pairs = [(a, b) for a, b in combinations(corners, 2) if np.count_nonzero(a != b) == 1]
    return np.insert(np.reshape(pairs, (24, 3)), 3, 1.0, axis=1)


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
