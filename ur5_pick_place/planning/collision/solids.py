# SPDX-License-Identifier: Apache-2.0
"""
Shapes as coal geometries, exact or enclosing.

A convex mesh becomes its convex hull, so that its inside is solid. Any other mesh stays a surface
of triangles, so that a bin remains open. Each closed part of it has an inside, found by an odd
number of ray crossings; a surface with a rim is a sheet. Bodies that move with the arm are always
convex: a mesh in the gripper becomes its hull.

"""

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import coal
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, QhullError

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.scene.shapes import Cone, Cuboid, Cylinder, Mesh, Shape, Sphere

Index = NDArray[np.int64]

_AREA = 1e-12  # least ratio of twice a triangle's area to the square of its longest edge
_CONVEX = 1e-6  # fraction of its hull's volume that a convex mesh may lack
_FLAT = 1e-6  # thickness over extent below which a mesh is flat
_SKIN = 5e-5  # thickness added to a flat mesh in the gripper, either way [m]
_WELD = 9  # decimals [m] to which two vertices count as one
# Ray directions that are not parallel to edges of real meshes.
_RAYS = np.array([[0.5377, 0.8339, -0.1234], [-0.2588, 0.6122, 0.7471]])


class Solid(NamedTuple):
    """
    A shape as coal geometry.

    Attributes
    ----------
    geometry : coal.CollisionGeometry
    is_inside : callable or None
        Returns whether a point (3,) in the shape's frame is inside; None if coal's distance is
        negative inside, or if it has no inside.

    """

    geometry: coal.CollisionGeometry
    is_inside: Callable[[Array], bool] | None = None


_solids: 'WeakKeyDictionary[Shape, Solid]' = WeakKeyDictionary()
_hulls: 'WeakKeyDictionary[Mesh, Mesh]' = WeakKeyDictionary()


def solid_of(shape: Shape) -> Solid:
    """Return the coal geometry of a finite shape; cached."""
    found = _solids.get(shape)
    if found is None:
        found = _solids[shape] = _make(shape)
    return found


def hull_of(mesh: Mesh) -> Mesh:
    """Return the convex hull of a mesh; a flat mesh is thickened. Cached."""
    found = _hulls.get(mesh)
    if found is None:
        found = _hulls[mesh] = _hull(mesh.vertices)
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
    assert isinstance(shape, Mesh)
    if not _is_flat(shape.vertices):
        hull = hull_of(shape)
        if _volume(shape) >= (1.0 - _CONVEX) * _volume(hull):
            return Solid(coal.Convex(_points(hull.vertices), _triangles(hull.triangles)))
    triangles = _with_area(shape)
    surface = coal.BVHModelOBBRSS()
    surface.beginModel(len(triangles), len(shape.vertices))
    surface.addVertices(shape.vertices)
    surface.addTriangles(triangles)
    surface.endModel()
    return Solid(surface, _inside(shape))


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


def _hull(vertices: Array) -> Mesh:
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


def _inside(mesh: Mesh) -> Callable[[Array], bool] | None:
    """Return the inside test of the closed parts of a surface; None if there are none."""
    welded, index = np.unique(mesh.vertices.round(_WELD), axis=0, return_inverse=True)
    triangles = index.reshape(-1)[mesh.triangles]
    a, b, c = triangles.T
    triangles = triangles[(a != b) & (b != c) & (a != c)]
    if not len(triangles):
        return None
    edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    ends = coo_matrix((np.ones(len(edges)), edges.T), shape=(len(welded),) * 2)
    part = connected_components(ends, directed=False)[1]
    distinct, uses = np.unique(edges, axis=0, return_counts=True)
    is_open = np.bincount(part[distinct[:, 0]], weights=uses % 2, minlength=part.max() + 1) > 0
    part_of = part[triangles[:, 0]]
    closed = ~is_open[part_of]
    if not closed.any():
        return None
    origin, corner_b, corner_c = (welded[triangles[closed, i]] for i in range(3))
    u, v, part_of = corner_b - origin, corner_c - origin, part_of[closed]

    def is_inside(point: Array) -> bool:
        return any(_crossings_are_odd(point, ray, origin, u, v, part_of) for ray in _RAYS)

    return is_inside


def _crossings_are_odd(
    point: Array, ray: Array, origin: Array, u: Array, v: Array, part_of: Index
) -> bool:
    """Return whether a ray from `point` crosses any closed part an odd number of times."""
    normal = np.cross(ray, v)
    scale = np.einsum('ij,ij->i', u, normal)
    with np.errstate(divide='ignore', invalid='ignore'):
        away = point - origin
        s = np.einsum('ij,ij->i', away, normal) / scale
        turned = np.cross(away, u)
        t = turned @ ray / scale
        along = np.einsum('ij,ij->i', v, turned) / scale
        hit = (s >= 0.0) & (t >= 0.0) & (s + t <= 1.0) & (along > 0.0)
    return bool((np.bincount(part_of[hit]) % 2).any())
