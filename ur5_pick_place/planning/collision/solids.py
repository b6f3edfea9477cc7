# SPDX-License-Identifier: Apache-2.0
"""
Shapes as coal geometries, exact or enclosing.

A convex mesh becomes its convex hull, so that its inside is solid. Any other mesh stays a surface
of triangles, so that a bin remains open. Each closed part of it has an inside, found by an odd
number of ray crossings; a surface with a rim is a sheet. Bodies that move with the arm are always
convex: a mesh in the gripper becomes its hull.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import coal
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, QhullError

from ur5_pick_place.kinematics.transforms import Array, exp_so3
from ur5_pick_place.planning.scene.shapes import Cone, Cuboid, Cylinder, Mesh, Plane, Shape, Sphere

Index = NDArray[np.int64]

_AREA = 1e-12  # least ratio of twice a triangle's area to the square of its longest edge
_CONVEX = 1e-6  # fraction of its hull's volume that a convex mesh may lack
_FLAT = 1e-6  # thickness over extent below which a mesh is flat
_POINT = 1e-6  # [m] beyond a surface
_SKIN = 5e-5  # thickness added to a flat mesh in the gripper, either way [m]
_WELD = 9  # decimals [m] to which two vertices count as one
# Rotations that take a ray along z to directions that are not parallel to edges of real meshes.
_RAYS = [exp_so3(np.array(turn)) for turn in ([0.9317, -0.5108, 0.2], [-0.6122, 2.2588, 0.7])]


class Solid(NamedTuple):
    """A shape as coal geometry."""

    geometry: coal.CollisionGeometry
    # the insides of a surface's closed parts; empty if coal's distance is negative inside, or if
    # there is no inside
    cavities: 'tuple[Cavity, ...]' = ()


_solids: 'WeakKeyDictionary[Shape, Solid]' = WeakKeyDictionary()
_hulls: 'WeakKeyDictionary[Mesh, Mesh]' = WeakKeyDictionary()


def solid_of(shape: Shape) -> Solid:
    """Return the coal geometry of a shape; cached."""
    found = _solids.get(shape)
    if found is None:
        found = _solids[shape] = _make(shape)
    return found


def hull_of(mesh: Mesh) -> Mesh:
    """Return the convex hull of a mesh about its middle; a flat mesh is thickened. Cached."""
    found = _hulls.get(mesh)
    if found is None:
        found = _hulls[mesh] = hull_around(mesh.vertices - mesh.middle)
    return found


def _make(shape: Shape) -> Solid:
    if isinstance(shape, Cuboid):
        return Solid(coal.Box(*map(float, shape.size)))
    if isinstance(shape, Sphere):
        return Solid(coal.Sphere(shape.radius))
    if isinstance(shape, Cylinder):
        return Solid(coal.Cylinder(shape.r, shape.height))
    if isinstance(shape, Cone):
        return Solid(coal.Cone(shape.r, shape.height))
    if isinstance(shape, Plane):
        return Solid(coal.Halfspace(shape.normal, shape.offset))
    assert isinstance(shape, Mesh)
    if not _is_flat(shape.vertices):
        hull = hull_of(shape)
        if _volume(shape) >= (1.0 - _CONVEX) * _volume(hull):
            vertices = hull.vertices + shape.middle
            return Solid(coal.Convex(_points(vertices), _triangles(hull.triangles)))
    triangles = _with_area(shape)
    surface = coal.BVHModelOBBRSS()
    # A corner of no triangle: the broad phase passes over bodies whose box has no volume.
    vertices = np.vstack([shape.vertices, shape.vertices.max(axis=0) + _POINT])
    surface.beginModel(len(triangles), len(vertices))
    surface.addVertices(vertices)
    surface.addTriangles(triangles)
    surface.endModel()
    return Solid(surface, _cavities(shape))


def _with_area(mesh: Mesh) -> Index:
    """
    Return the triangles of a mesh that have an area; all if none has.

    To coal a sphere is in contact with one without area, wherever it is, in a fifth of its poses.
    """
    a, b, c = (mesh.vertices[mesh.triangles[:, i]] for i in range(3))
    longest = np.max([((b - a) ** 2).sum(1), ((c - b) ** 2).sum(1), ((a - c) ** 2).sum(1)], axis=0)
    kept = np.linalg.norm(np.cross(b - a, c - a), axis=1) > _AREA * longest
    return mesh.triangles[kept] if kept.any() else mesh.triangles


def _is_flat(vertices: Array) -> bool:
    spread = np.linalg.svd(vertices - vertices.mean(axis=0), compute_uv=False)
    return len(spread) < 3 or bool(spread[2] <= _FLAT * spread[0])


def _thickened(vertices: Array) -> Array:
    corners = np.array(np.meshgrid(*[[-_SKIN, _SKIN]] * 3)).reshape(3, -1).T
    return np.asarray((vertices[:, None] + corners).reshape(-1, 3))


def hull_around(vertices: Array) -> Mesh:
    """Return the convex hull of points (n, 3); that of flat ones is thickened."""
    try:
        hull = ConvexHull(vertices)
    except QhullError:  # flat, or almost
        vertices = _thickened(vertices)
        hull = ConvexHull(vertices)
    triangles = np.array(hull.simplices, dtype=np.int64)
    a, b, c = (vertices[triangles[:, i]] for i in range(3))
    inward = np.einsum('ij,ij->i', np.cross(b - a, c - a), hull.equations[:, :3]) < 0.0
    triangles[inward] = triangles[inward][:, ::-1]
    return Mesh(vertices, triangles)


def _volume(mesh: Mesh) -> float:
    """Return the volume of a closed surface [m3]; meaningless for open ones."""
    a, b, c = (mesh.vertices[mesh.triangles[:, i]] for i in range(3))
    return abs(float(np.einsum('ij,ij->', a, np.cross(b, c)))) / 6.0


def _points(vertices: Array) -> coal.StdVec_Vec3s:
    found = coal.StdVec_Vec3s()
    for vertex in vertices:
        found.append(np.array(vertex))
    return found


def _triangles(triangles: Index) -> coal.StdVec_Triangle:
    found = coal.StdVec_Triangle()
    for triangle in triangles:
        found.append(coal.Triangle(*map(int, triangle)))
    return found


class Cavity:
    """
    The inside of one closed surface of triangles.

    A point is inside if a ray from it crosses the surface an odd number of times, and so if one of
    two rays does: a ray may pass through an edge.

    `corners` (n, 3, 3): of its triangles [m]. `low`, `high` (3,): its bounding box [m].
    """

    def __init__(self, corners: Array) -> None:
        self.low, self.high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
        self._box = self.low.tolist(), self.high.tolist()  # floats compare faster than arrays
        self._views = [_View(corners @ turn) for turn in _RAYS]

    def contains(self, point: Array) -> bool:
        """Return whether a point (3,) in the shape's frame is inside."""
        (x, y, z), (low_x, low_y, low_z), (high_x, high_y, high_z) = point, *self._box
        if not (low_x <= x <= high_x and low_y <= y <= high_y and low_z <= z <= high_z):
            return False
        rays = zip(self._views, _RAYS, strict=True)
        return any(view.is_crossed(point @ turn) for view, turn in rays)


class _View:
    """Triangles (n, 3, 3), which rays along z cross."""

    def __init__(self, corners: Array) -> None:
        corners = corners[np.argsort(corners[..., 0].min(axis=1))]
        self._low, self._high = corners.min(axis=1).T, corners.max(axis=1).T
        self._width = float((self._high[0] - self._low[0]).max())
        self._origin = corners[:, 0]
        self._u, self._v = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]

    def is_crossed(self, point: Array) -> bool:
        """Return whether the ray from a point (3,) crosses an odd number of triangles."""
        x, y, z = point
        first, last = np.searchsorted(self._low[0], [x - self._width, x])
        low, high = self._low[:, first:last], self._high[:, first:last]
        near = first + np.flatnonzero(
            (x <= high[0]) & (low[1] <= y) & (y <= high[1]) & (z <= high[2])
        )
        if not near.size:
            return False
        away, u, v = (point - self._origin[near]).T, self._u[near].T, self._v[near].T
        with np.errstate(divide='ignore', invalid='ignore'):
            area = u[0] * v[1] - u[1] * v[0]
            s = (away[0] * v[1] - away[1] * v[0]) / area
            t = (u[0] * away[1] - u[1] * away[0]) / area
            above = s * u[2] + t * v[2] > away[2]
            return bool(((s >= 0.0) & (t >= 0.0) & (s + t <= 1.0) & above).sum() % 2)


def _cavities(mesh: Mesh) -> tuple[Cavity, ...]:
    """Return the insides of the closed parts of a surface."""
    welded, index = np.unique(mesh.vertices.round(_WELD), axis=0, return_inverse=True)
    triangles = index.reshape(-1)[mesh.triangles]
    a, b, c = triangles.T
    triangles = triangles[(a != b) & (b != c) & (a != c)]
    if not len(triangles):
        return ()
    edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    ends = coo_matrix((np.ones(len(edges)), edges.T), shape=(len(welded),) * 2)
    part = connected_components(ends, directed=False)[1]
    distinct, uses = np.unique(edges, axis=0, return_counts=True)
    is_open = np.bincount(part[distinct[:, 0]], weights=uses % 2, minlength=part.max() + 1) > 0
    part_of = part[triangles[:, 0]]
    closed = np.unique(part_of[~is_open[part_of]])
    return tuple(Cavity(welded[triangles[part_of == k]]) for k in closed)


def ball_in(shape: Shape) -> float:
    """Return the diameter of a ball that a convex shape holds [m]; 0 of a cone, for simplicity."""
    if isinstance(shape, Mesh):
        a, b, c = (shape.vertices[shape.triangles[:, i]] for i in range(3))
        normal = np.cross(b - a, c - a)
        depth = np.abs(np.einsum('ij,ij->i', normal, shape.middle - a))
        return 2.0 * float((depth / np.linalg.norm(normal, axis=1)).min())
    return 0.0 if isinstance(shape, Cone) else 2.0 * float(shape.half.min())
