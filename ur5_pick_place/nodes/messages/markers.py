# SPDX-License-Identifier: Apache-2.0
"""RViz markers of the scene and of a plan."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise, product

import numpy as np
from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.kinematics import Model, forward, link_frames
from ur5_pick_place.kinematics.arm_shapes import arm_bodies
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array, make_transform
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose
from ur5_pick_place.nodes.messages.lines import Colour, as_colour, as_points, line
from ur5_pick_place.planning.collision.solids import hull_around
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.shapes import Cone, Cuboid, Cylinder, Mesh, Plane, Shape, Sphere
from ur5_pick_place.task.places.names import is_part_place
from ur5_pick_place.task.places.poses import TaughtPose
from ur5_pick_place.task.plan import CyclePlan

GHOSTS = 'plan_ghosts'
"""Namespace of the arm's postures along a plan: solids, whose text has the joints [rad]."""

SWEPT = 'swept_tool'
"""Namespace of the space that the tool passes through."""

_SAMPLES = 120
_OUTLINE_SPACING = 0.05  # [m] along the TCP's path
_GHOST_SPACING = 0.7  # [rad] of the joint that turns most
_FIRST_GHOST = 2  # link; before it, ghosts would only cover the arm and each other
_OUTWARDS = np.vstack([np.eye(3), -np.eye(3), list(product((-1.0, 1.0), repeat=3))])
_DRAWN_TRIANGLES = 1000  # of one mesh
_BLUE = (0.1, 0.6, 1.0)
_TABLE = (1.8, 1.8, 0.01)  # as far as the arm reaches [m]
_PLACE_COLOURS = (
    (0.0, 1.0, 0.2),
    (1.0, 0.0, 0.2),
    (0.1, 0.4, 1.0),
    (1.0, 0.7, 0.0),
    (0.7, 0.2, 1.0),
    (0.0, 0.8, 0.9),
)
_Z_TO_X = np.array(
    [[0.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
)


def tool_path(planner: MotionPlanner, trajectory: Trajectory) -> MarkerArray:
    """Return the path of the TCP as one line in `base_link`."""
    q = trajectory.sample(np.linspace(0.0, trajectory.duration, _SAMPLES))[0]
    T_base_tcp = forward(planner.model, q) @ planner.scene.tool.T_tool_tcp
    points = (T_BASE_LINK_BASE @ T_base_tcp)[:, :3, 3]
    return MarkerArray(markers=[line('planned_path', 0, points, 0.004, (*_BLUE, 1.0))])


def cycle(planner: MotionPlanner, plan: CyclePlan, poses: Mapping[str, TaughtPose]) -> MarkerArray:
    """Return path and swept tool of each motion, ghosts, and an arrow at each place."""
    array = MarkerArray()
    distinct = {id(motion): motion for motion in plan.motions}.values()  # equal cycles share them
    for i, motion in enumerate(distinct):
        path = tool_path(planner, motion.trajectory).markers[0]
        path.ns, path.id = 'cycle', i
        array.markers += [path, swept_tool(planner, motion.trajectory, i)]
    postures = distinct_postures([motion.trajectory for motion in distinct])
    links = _coarse_arm(planner.model)
    for i, q in enumerate(postures):
        frames = T_BASE_LINK_BASE @ link_frames(planner.model, q)
        corners = np.concatenate([_moved(frames[link], solid) for link, solid in links])
        ghost = _triangles(GHOSTS, i, corners, (*_BLUE, 0.3))
        ghost.text = json.dumps(q.tolist())
        array.markers.append(ghost)
    for number, name in enumerate(filter(is_part_place, poses)):
        arrow = place_arrow(number, T_BASE_LINK_BASE @ poses[name].T_base_tcp)
        arrow.header.frame_id = 'base_link'
        array.markers.append(arrow)
    return array


def posture_of(ghost: Marker) -> list[Array]:
    """Return the joints (6,) [rad] of a ghost; nothing if its text is no joints."""
    try:
        q = np.array(json.loads(ghost.text), dtype=np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return []
    return [q] if q.shape == (6,) and np.isfinite(q).all() else []


def distinct_postures(trajectories: Iterable[Trajectory]) -> list[Array]:
    """Return joints (6,) [rad] along motions, ends included, no two of them nearly alike."""
    found: list[Array] = []
    for trajectory in trajectories:
        turned = float(np.abs(np.diff(trajectory.q, axis=0)).sum(axis=0).max())
        times = np.linspace(0.0, trajectory.duration, 2 + int(turned / _GHOST_SPACING))
        for q in trajectory.sample(times)[0]:
            if all(np.abs(q - other).max() > _GHOST_SPACING / 2 for other in found):
                found.append(q)
    return found


def swept_tool(planner: MotionPlanner, trajectory: Trajectory, number: int) -> Marker:
    """Return the tool's boxes at points of a motion, in `base_link`."""
    q = trajectory.sample(np.linspace(0.0, trajectory.duration, _SAMPLES))[0]
    tool = planner.scene.tool
    T_base_link_tool = T_BASE_LINK_BASE @ forward(planner.model, q)
    p = (T_base_link_tool @ tool.T_tool_tcp)[:, :3, 3]
    distance = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(p, axis=0), axis=1)))
    wanted = np.append(np.arange(0.0, distance[-1], _OUTLINE_SPACING), distance[-1])
    shown = np.unique(np.searchsorted(distance, wanted))
    corners = [
        _moved(box.T_tool_box, _box_triangles(-box.size / 2, box.size / 2).reshape(-1, 3))
        for box in tool.shapes
    ]
    whole = np.concatenate([np.empty((0, 3)), *corners])
    points = np.concatenate([_moved(T, whole) for T in T_base_link_tool[shown]])
    return _triangles(SWEPT, number, points, (*_BLUE, 0.15))


def _triangles(ns: str, number: int, corners: Array, colour: Colour) -> Marker:
    """Return triangles with corners (3 n, 3) in `base_link`."""
    solid = line(ns, number, corners, 1.0, colour, Marker.TRIANGLE_LIST)
    solid.scale.y = solid.scale.z = 1.0
    return solid


@lru_cache(maxsize=4)
def _coarse_arm(model: Model) -> list[tuple[int, Array]]:
    """Return the bodies of an arm with few triangles: link, and corners (3 n, 3) in its frame."""
    found = []
    for body in (body for body in arm_bodies(model) if body.link >= _FIRST_GHOST):
        farthest = np.unique((body.vertices @ _OUTWARDS.T).argmax(axis=0))
        hull = hull_around(body.vertices[farthest])
        found.append((body.link, hull.vertices[hull.triangles].reshape(-1, 3)))
    return found


def _moved(T: Array, points: Array) -> Array:
    return np.asarray(points @ T[:3, :3].T + T[:3, 3])


def surroundings(scene: Scene) -> MarkerArray:
    """Return table, boxes, gripper and clients' objects, and delete earlier markers."""
    middle = scene.mounting.T_base_link_level(scene.table_height - _TABLE[2] / 2)
    world = scene.world
    solids: list[tuple[str, Array, Shape]] = [
        ('base_link', middle, Cuboid(np.array(_TABLE))),
        *(('base_link', box.T_base_link_box, Cuboid(box.size)) for box in scene.boxes),
        *(('tool0', box.T_tool_box, Cuboid(box.size)) for box in scene.tool.shapes),
        *(
            ('base_link', T, placed.shape)
            for thing in world.objects.values()
            for T, placed in zip(thing.poses(), thing.shapes, strict=True)
        ),
        *(
            ('tool0', held.T_tool_object @ placed.T_object_shape, placed.shape)
            for held in world.attached.values()
            for placed in held.shapes
        ),
    ]
    array = MarkerArray(markers=[Marker(action=Marker.DELETEALL)])
    for i, (frame, T, shape) in enumerate(solids):
        if isinstance(shape, Plane):
            turned = make_transform(_turned_to(shape.normal), shape.normal * shape.offset)
            T, shape = T @ turned, Cuboid(np.array(_TABLE))
        solid = _solid(shape)
        solid.ns, solid.id, solid.action = 'scene', i, Marker.ADD
        solid.header.frame_id, solid.pose = frame, matrix_to_pose(T)
        solid.frame_locked = frame == 'tool0'
        solid.color = as_colour((0.6, 0.6, 0.6, 0.5))
        array.markers.append(solid)
    return array


def _solid(shape: Shape) -> Marker:
    """Return a marker of a shape about its origin; RViz has no cone, so it gets triangles."""
    if isinstance(shape, Mesh | Cone):
        corners = _cone_triangles(shape) if isinstance(shape, Cone) else _mesh_triangles(shape)
        marker = Marker(type=Marker.TRIANGLE_LIST)
        marker.scale.x = marker.scale.y = marker.scale.z = 1.0
        marker.points = as_points(corners.reshape(-1, 3))
        return marker
    kind = Marker.CUBE
    if isinstance(shape, Sphere | Cylinder):
        kind = Marker.SPHERE if isinstance(shape, Sphere) else Marker.CYLINDER
    marker = Marker(type=kind)
    marker.scale.x, marker.scale.y, marker.scale.z = (2.0 * float(edge) for edge in shape.half)
    return marker


def _mesh_triangles(mesh: Mesh) -> Array:
    """Return triangles (m, 3, 3) of a mesh, or of its bounding box if they are too many."""
    if len(mesh.triangles) <= _DRAWN_TRIANGLES:
        return np.asarray(mesh.vertices[mesh.triangles])
    return _box_triangles(mesh.vertices.min(axis=0), mesh.vertices.max(axis=0))


def _box_triangles(low: Array, high: Array) -> Array:
    """Return triangles (12, 3, 3) of a box between two corners (3,), outside in front."""
    corners = np.array(list(product(*np.transpose([low, high]))))
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    halves = [t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]
    return np.asarray(corners[np.array(halves)])


def _cone_triangles(cone: Cone) -> Array:
    angle = np.linspace(0.0, 2.0 * np.pi, 25)
    half = np.full(angle.shape, cone.height / 2)
    rim = np.stack([cone.r * np.cos(angle), cone.r * np.sin(angle), -half], axis=1)
    tip, foot = np.array([0.0, 0.0, half[0]]), np.array([0.0, 0.0, -half[0]])
    return np.array([(a, b, end) for a, b in pairwise(rim) for end in (tip, foot)])


def _turned_to(normal: Array) -> Array:
    """Return a rotation (3, 3) whose z is `normal`."""
    across = np.cross(normal, np.eye(3)[np.abs(normal).argmin()])
    across /= np.linalg.norm(across)
    return np.stack([across, np.cross(normal, across), normal], axis=1)


def place_arrow(number: int, T: Array) -> Marker:
    """Return an arrow along the tool's approach, for a TCP at `T` (4, 4); the first is green."""
    arrow = Marker(ns='places', id=number, type=Marker.ARROW, action=Marker.ADD)
    arrow.pose = matrix_to_pose(T @ _Z_TO_X)  # an arrow points along x, the tool along z
    arrow.scale.x, arrow.scale.y, arrow.scale.z = 0.08, 0.01, 0.01
    arrow.color = as_colour((*_PLACE_COLOURS[number % len(_PLACE_COLOURS)], 1.0))
    return arrow
