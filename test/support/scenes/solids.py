# SPDX-License-Identifier: Apache-2.0
"""Shapes with a distance and points of their own, to judge the collision model by; and boxes."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from motion_planners import tool_down
from scipy.spatial import ConvexHull

from ur5_pick_place.kinematics import inverse, load_model
from ur5_pick_place.kinematics.arm_shapes import arm_bodies
from ur5_pick_place.kinematics.transforms import make_transform
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.planning.scene.shapes import Cone, Cuboid, Cylinder, Mesh, Shape, Sphere

SCENE = load_scene(Path(__file__).parents[3] / 'config' / 'scene_sim.yaml')
UR5 = load_model('ur5')
Array = np.ndarray
POINTS = 150  # on each body and shape


@dataclass
class Solid:
    """A shape of the test's own: signed distance (n,) of points (n, 3), points on its surface."""

    shape: Shape
    distance: Callable[[Array], Array]
    surface: Array


def box_distance(points: Array, half: Array) -> Array:
    away = np.abs(points) - half
    return np.linalg.norm(np.maximum(away, 0), axis=1) + np.minimum(away.max(axis=1), 0)


def flat_distance(x: Array, y: Array, corners: list[tuple[float, float]]) -> Array:
    """Signed distance in a plane from a convex polygon, corners anticlockwise."""
    p = np.stack([x, y], axis=1)
    pairs = zip(corners, [*corners[1:], corners[0]], strict=True)
    edges = [(np.array(a), np.array(b)) for a, b in pairs]
    nearest, inside = np.full(len(p), np.inf), np.ones(len(p), dtype=bool)
    for a, b in edges:
        along = np.clip((p - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0)
        nearest = np.minimum(nearest, np.linalg.norm(p - a - along[:, None] * (b - a), axis=1))
        inside &= (b - a)[0] * (p - a)[:, 1] - (b - a)[1] * (p - a)[:, 0] >= 0
    return np.where(inside, -nearest, nearest)


def box_surface(rng, half: Array, n: int = POINTS) -> Array:
    points = rng.uniform(-1, 1, (n, 3))
    points[np.arange(n), rng.integers(3, size=n)] = rng.choice([-1.0, 1.0], n)
    corners = np.array(np.meshgrid(*[[-1, 0, 1]] * 3)).reshape(3, -1).T
    return np.vstack([points, corners[np.abs(corners).any(axis=1)]]) * half


def round_surface(rng, r: float, h: float, tip: float, n: int = POINTS) -> Array:
    """Points on a frustum along z from radius r at -h/2 to radius tip at h/2."""
    angle, s = rng.uniform(0, 2 * np.pi, n), rng.uniform(0, 1, n)
    radius, z = r + s * (tip - r), (s - 0.5) * h
    ends = rng.random(n) < 0.4
    top = rng.random(n) < 0.5
    share = np.sqrt(rng.random(n))
    radius = np.where(ends, share * np.where(top, tip, r), radius)
    z = np.where(ends, np.where(top, h / 2, -h / 2), z)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)


def cuboid(rng, half: Array | None = None) -> Solid:
    half = rng.uniform(0.01, 0.15, 3) if half is None else half
    return Solid(Cuboid(2 * half), lambda p: box_distance(p, half), box_surface(rng, half))


def sphere(rng) -> Solid:
    r = float(rng.uniform(0.01, 0.15))
    u = rng.normal(size=(POINTS, 3))
    surface = r * u / np.linalg.norm(u, axis=1)[:, None]
    return Solid(Sphere(r), lambda p: np.linalg.norm(p, axis=1) - r, surface)


def cylinder(rng, size: tuple[float, float] | None = None) -> Solid:
    r, h = (float(x) for x in size or rng.uniform(0.01, 0.25, 2))

    def distance(p: Array) -> Array:
        away = np.stack([np.hypot(p[:, 0], p[:, 1]) - r, np.abs(p[:, 2]) - h / 2], axis=1)
        return np.linalg.norm(np.maximum(away, 0), axis=1) + np.minimum(away.max(axis=1), 0)

    return Solid(Cylinder(r, h), distance, round_surface(rng, r, h, r))


def cone(rng) -> Solid:
    r, h = (float(x) for x in rng.uniform(0.02, 0.3, 2))

    def distance(p: Array) -> Array:
        corners = [(-r, -h / 2), (r, -h / 2), (0.0, h / 2)]
        return flat_distance(np.hypot(p[:, 0], p[:, 1]), p[:, 2], corners)

    return Solid(Cone(r, h), distance, round_surface(rng, r, h, 0.0))


def polyhedron(rng) -> Solid:
    """A convex mesh, its triangles turned at random."""
    return of_hull(rng, rng.uniform(-0.15, 0.15, (int(rng.integers(4, 12)), 3)))


def of_hull(rng, corners: Array, exact_to: float = np.inf) -> Solid:
    """The hull of points; beyond `exact_to` [m] its distance is a lower bound."""
    hull = ConvexHull(corners)
    triangles = np.array([rng.permutation(t) for t in hull.simplices])
    abc = corners[hull.simplices]
    weights = rng.dirichlet([1, 1, 1], (POINTS // len(abc) + 1, len(abc)))
    surface = np.einsum('ktc,tcx->ktx', weights, abc).reshape(-1, 3)

    def distance(p: Array) -> Array:
        found = np.asarray((p @ hull.equations[:, :3].T + hull.equations[:, 3]).max(axis=1))
        outside = (found > 0) & (found < exact_to)
        if outside.any():
            found[outside] = triangle_distances(p[outside], abc).min(axis=1)
        return found

    everywhere = np.vstack([surface, corners[hull.vertices]])
    return Solid(Mesh(corners, triangles), distance, everywhere)


def triangle_distances(p: Array, corners: Array) -> Array:
    """Distances (n, m) of points from triangles (m, 3, 3): to faces below them, else to edges."""
    a, b, c = corners.transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    over, rims = np.ones((len(p), len(corners)), dtype=bool), []
    for start, end in ((a, b), (b, c), (c, a)):
        away, edge = p[:, None] - start, end - start
        over &= np.einsum('nmi,mi->nm', away, np.cross(normal, edge)) >= 0
        along = np.einsum('nmi,mi->nm', away, edge) / np.einsum('mi,mi->m', edge, edge)
        rims.append(np.linalg.norm(away - np.clip(along, 0, 1)[..., None] * edge, axis=2))
    height = np.abs(np.einsum('nmi,mi->nm', p[:, None] - a, normal))
    return np.where(over, height, np.min(rims, axis=0))


BOX_TRIANGLES = ConvexHull(np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T).simplices


def of_boxes(rng, boxes: list[tuple[Array, Array]]) -> Solid:
    """A mesh of closed boxes by centre and half size."""
    corners = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    vertices = np.vstack([c + corners * h for c, h in boxes])
    triangles = np.vstack([BOX_TRIANGLES + 8 * i for i in range(len(boxes))])
    surface = np.vstack([c + box_surface(rng, h, POINTS // 2) for c, h in boxes])

    def distance(p: Array) -> Array:
        return np.min([box_distance(p - c, h) for c, h in boxes], axis=0)

    return Solid(Mesh(vertices, triangles), distance, surface)


def bin_of_plates(rng) -> Solid:
    """An open bin, hollow within, of five plates that meet at their edges."""
    (x, y, z), t = rng.uniform(0.08, 0.25, 3), float(rng.uniform(0.002, 0.01))
    plates = [((0, 0, -z), (x, y, t))]
    plates += [((s * x, 0, 0), (t, y, z)) for s in (-1, 1)]
    plates += [((0, s * y, 0), (x, t, z)) for s in (-1, 1)]
    return of_boxes(rng, [(np.array(c, float), np.array(h)) for c, h in plates])


def angle_iron(rng) -> Solid:
    """An L as one closed surface of 12 corners; a body fits inside it."""
    w, h, d = rng.uniform(0.1, 0.3, 3)
    corners = np.array([(0, 0), (w, 0), (w, h / 2), (w / 2, h / 2), (w / 2, h), (0, h)])
    vertices = np.vstack([np.insert(corners, 2, s * d / 2, axis=1) for s in (-1, 1)])
    caps = [(0, 1, 2), (0, 2, 3), (0, 3, 5), (3, 4, 5)]
    sides = [(i, (i + 1) % 6) for i in range(6)]
    triangles = [*caps, *(tuple(6 + i for i in t) for t in caps)]
    triangles += [(a, b, b + 6) for a, b in sides] + [(a, a + 6, b + 6) for a, b in sides]
    boxes = [
        (np.array([w / 2, h / 4, 0]), np.array([w / 2, h / 4, d / 2])),
        (np.array([w / 4, h / 2, 0]), np.array([w / 4, h / 2, d / 2])),
    ]
    surface = np.vstack([c + box_surface(rng, half, POINTS // 2) for c, half in boxes])

    def distance(p: Array) -> Array:
        return np.min([box_distance(p - c, half) for c, half in boxes], axis=0)

    return Solid(Mesh(vertices, np.array(triangles)), distance, surface)


FINITE = (cuboid, sphere, cylinder, cone, polyhedron, bin_of_plates, angle_iron)


@dataclass
class Placed:
    """A solid at a pose."""

    solid: Solid
    T: Array

    def distance(self, points: Array) -> Array:
        return self.solid.distance((points - self.T[:3, 3]) @ self.T[:3, :3])

    def far(self, points: Array) -> float:
        """A lower bound of the distance of any of the points."""
        away = np.linalg.norm(points - self.T[:3, 3], axis=1).min()
        return float(away - self.solid.shape.radius)

    @functools.cached_property
    def surface(self) -> Array:
        return self.solid.surface @ self.T[:3, :3].T + self.T[:3, 3]


def own_bodies(rng, scene: Scene) -> list[tuple[int, Placed]]:
    """The moving bodies of arm and tool, and of what is carried, in their link's frame."""
    found = []
    for body in arm_bodies(UR5):
        if body.link:
            middle = body.vertices.mean(axis=0)
            solid = of_hull(rng, body.vertices - middle, exact_to=0.02)
            found.append((body.link, Placed(solid, make_transform(np.eye(3), middle))))
    for piece in scene.tool.shapes:
        found.append((6, Placed(cuboid(rng, piece.size / 2), piece.T_tool_box)))
    if scene.carried:
        T = scene.tool.T_tool_tcp @ scene.part.T_tcp_part
        found.append((6, Placed(cuboid(rng, scene.part.size / 2), T)))
    return found


HALF_CUBE = 0.0225


def elbow_up_at(x, y, z, yaw=0.0):
    """Joints on branch left-up-down."""
    q, ok = inverse(UR5, tool_down(x, y, z, yaw))
    assert ok[0]
    return q[0]
