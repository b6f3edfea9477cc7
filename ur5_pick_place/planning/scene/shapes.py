# SPDX-License-Identifier: Apache-2.0
"""
Shapes of objects, each about its own origin; lengths in metres. Does not need coal.

The axis of a cylinder or cone is z, with the origin at half height; a cone's tip is at the top.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.settings import is_finite_number

SHAPE_RANGE = (1e-4, 100.0)  # an edge, a radius, a height or the extent of a mesh [m]
POSITION_RANGE = 100.0  # a coordinate of an object [m], either way
MAX_TRIANGLES = 5_000  # of one mesh; computing its hull blocks for 25 ms
_MIN_NORMAL = 1e-6  # smallest length of a plane's normal before normalisation


class Shape:
    """Base of all shapes."""

    half: Array  # (3,) half extents of the bounding box about the origin [m]
    radius: float  # radius of the bounding sphere about the origin [m]

    @property
    def middle(self) -> Array:
        """A point (3,) [m] that lies in its convex hull: its origin, unless it is a mesh."""
        return np.zeros(3)


@dataclass(frozen=True, eq=False)
class Cuboid(Shape):
    """A box by its full edge lengths (3,)."""

    size: Array

    def __post_init__(self) -> None:
        size = np.array(self.size, dtype=np.float64)
        for axis, edge in zip('xyz', size, strict=True):
            _length(f'edge of the box along {axis}', edge)
        _keep(self, size=size, half=size / 2, radius=float(np.linalg.norm(size / 2)))


@dataclass(frozen=True, eq=False)
class Sphere(Shape):
    radius: float

    def __post_init__(self) -> None:
        r = _length('radius of the sphere', self.radius)
        _keep(self, half=np.full(3, r), radius=r)


@dataclass(frozen=True, eq=False)
class _Round(Shape):
    r: float
    height: float

    def __post_init__(self) -> None:
        kind = type(self).__name__.lower()
        r = _length(f'radius of the {kind}', self.r)
        h = _length(f'height of the {kind}', self.height)
        _keep(self, half=np.array([r, r, h / 2]), radius=float(np.hypot(r, h / 2)))


class Cylinder(_Round):
    """A cylinder by its radius and height."""


class Cone(_Round):
    """A cone by the radius of its base and its height."""


@dataclass(frozen=True, eq=False)
class Mesh(Shape):
    """A mesh of triangles."""

    vertices: Array  # (n, 3) [m]; vertices that no triangle uses are dropped
    # (m, 3) rows of `vertices`; the order of the corners does not count
    triangles: NDArray[np.int64]

    def __post_init__(self) -> None:
        vertices = np.array(self.vertices, dtype=np.float64).reshape(-1, 3)
        triangles = np.array(self.triangles, dtype=np.int64).reshape(-1, 3)
        if not 1 <= len(triangles) <= MAX_TRIANGLES:
            raise InvalidInput(
                f'mesh of {len(triangles)} triangles: must have 1 to {MAX_TRIANGLES}; decimate it'
            )
        least, most = triangles.min(), triangles.max()
        if least < 0 or most >= len(vertices):
            raise InvalidInput(
                f'mesh of {len(vertices)} vertices has a triangle with vertex '
                f'{least if least < 0 else most}: must be 0 to {len(vertices) - 1}'
            )
        used, triangles = np.unique(triangles, return_inverse=True)
        vertices, triangles = vertices[used], triangles.reshape(-1, 3)
        if not np.isfinite(vertices).all():
            raise InvalidInput('mesh has a vertex that is not finite')
        _length('largest extent of the mesh', float(np.ptp(vertices, axis=0).max()))
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        _keep(
            self,
            vertices=vertices,
            triangles=triangles,
            half=np.maximum(np.abs(low), np.abs(high)),
            radius=float(np.linalg.norm(vertices, axis=1).max()),
        )

    @property
    def middle(self) -> Array:
        """The mean of its vertices, (3,) [m]; lies in its convex hull."""
        return np.asarray(self.vertices.mean(axis=0))


@dataclass(frozen=True, eq=False)
class Plane(Shape):
    """The half space behind a plane, as seen from the arm's shoulder."""

    normal: Array  # (3,) unit vector, to either side
    offset: float  # `normal @ x` of the points x of the plane [m]

    def __post_init__(self) -> None:
        normal = np.array(self.normal, dtype=np.float64)
        with np.errstate(over='ignore'):
            length = float(np.linalg.norm(normal))
        if not (is_finite_number(length) and is_finite_number(self.offset)):
            raise InvalidInput(
                f'plane {normal.tolist()}, {self.offset}: must be finite numbers, the normal of '
                'length 1'
            )
        if not length > _MIN_NORMAL:
            raise InvalidInput(f'plane with normal {normal.tolist()}: must not be zero')
        offset = float(self.offset) / length
        if not is_finite_number(offset):
            raise InvalidInput(
                f'plane {normal.tolist()}, {self.offset}: its distance {offset:g} m must be '
                'finite; give a normal of length 1'
            )
        _keep(
            self,
            normal=normal / length,
            offset=offset,
            half=np.full(3, np.inf),
            radius=np.inf,
        )


def _length(what: str, value: float) -> float:
    low, high = SHAPE_RANGE
    if not (is_finite_number(value) and low <= value <= high):
        raise InvalidInput(f'{what} = {value} m: must lie in {low:g} to {high:g} m')
    return float(value)


def _keep(shape: Shape, **values: object) -> None:
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(shape, name, value)
