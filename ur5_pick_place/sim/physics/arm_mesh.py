# SPDX-License-Identifier: Apache-2.0
"""How an arm looks: its housings as surfaces of revolution, in the colours of a UR."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.physics.arm import Housing, Link

Colour = tuple[int, int, int]

_JOINT: Colour = (88, 93, 100)
_SEAL: Colour = (30, 32, 35)
_LID: Colour = (104, 170, 222)
_TUBE: Colour = (206, 209, 213)
_METAL: Colour = (150, 154, 160)
_ROWS = 6  # of vertices on a rounded surface, from end to end
_SHARES = np.linspace(0.0, 1.0, 65)  # of a line, between which a seam is looked for
# Lengths over the radius of a housing:
_COLLAR = np.array([[1.1, 0.0], [1.1, 0.95], [1.0, 1.05]])  # of a tube: radii, heights
_SEALED = np.array([[1.005, 0.0], [1.005, 0.08]])  # likewise, of the ring at a joint
_DEPTH = 0.3  # least one of a lid's rounding
_SKIRT = 0.25  # straight part of a lid
_CORNER = 1.3  # up to which a housing that ends beside another one has a slanted lid
_SLANTED = 0.3  # from the corner's middle to the plane where that begins


class Mesh(NamedTuple):
    """A surface of one colour; its triangles share vertices where it is smooth."""

    colour: Colour
    vertices: Array  # (n, 3) [m]
    faces: NDArray[np.int64]  # (m, 3)


class _Revolved(NamedTuple):
    """A line of radii and heights (n, 2) that turns about the last of three axes."""

    line: Array
    origin: Array  # (3,)
    axes: Array  # (3, 3), in rows
    sections: int

    def surface(self, colour: Colour, begin: ArrayLike = 0.0, end: ArrayLike = 1.0) -> Mesh:
        """Return the surface between two shares of the line, of each section or of all."""
        rows = _ROWS if len(self.line) > 2 else 2
        rise = np.linspace(0.0, 1.0, rows)[:, None]
        points = self._points(np.asarray(begin) * (1.0 - rise) + np.asarray(end) * rise)
        n = self.sections
        here = np.arange((rows - 1) * n)
        beside = here - here % n + (here + 1) % n
        above, over = here + n, beside + n
        faces = np.stack([here, beside, over, here, over, above], axis=1)
        return Mesh(colour, points.reshape(-1, 3), faces.reshape(-1, 3))

    def seam(self, normal: Array, distance: float) -> Array:
        """Return the share of each section's line where it passes a plane; 1 where it does not."""
        beyond = self._points(_SHARES[:, None]) @ normal - distance
        beyond = np.maximum.accumulate(beyond, axis=0)
        return np.array([np.interp(0.0, column, _SHARES) for column in beyond.T])

    def _points(self, shares: Array) -> Array:
        """Return points (k, sections, 3) at shares (k, sections or 1) of the line."""
        angle = np.linspace(0.0, 2.0 * np.pi, self.sections, endpoint=False)
        steps = np.linalg.norm(np.diff(self.line, axis=0), axis=1)
        at = np.append(0.0, np.cumsum(steps)) / steps.sum()
        r, z = (np.interp(shares, at, column) for column in self.line.T)
        x, y = r * np.cos(angle), r * np.sin(angle)
        return self.origin + np.stack([x, y, np.broadcast_to(z, x.shape)], axis=-1) @ self.axes


def link_meshes(link: Link, sections: int = 28) -> list[Mesh]:
    """
    Return what is seen of a link, in its frame: one mesh for each of its colours.

    `sections`: vertices on each circle.
    """
    by_colour: dict[Colour, list[Mesh]] = {}
    for mesh in _surfaces(link, sections):
        by_colour.setdefault(mesh.colour, []).append(mesh)
    return [_merged(meshes) for meshes in by_colour.values()]


def _merged(meshes: Sequence[Mesh]) -> Mesh:
    firsts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [first + mesh.faces for first, mesh in zip(firsts, meshes, strict=False)]
    vertices = np.concatenate([mesh.vertices for mesh in meshes])
    return Mesh(meshes[0].colour, vertices, np.concatenate(faces))


def _surfaces(link: Link, sections: int) -> Iterator[Mesh]:
    lid = np.zeros(3), 1.0  # nothing is beyond it
    for housing in link.housings:
        r, start, axes = housing.radius, np.array(housing.start), _axes(housing, link)
        length = float(np.linalg.norm(housing.end - start))
        if abs(axes[2, 0]) > 0.5:
            line = np.vstack([r * _COLLAR, ([0.0, length] + [r, -r] * _COLLAR)[::-1]])
            for k in range(len(line) - 1):
                yield _Revolved(line[k : k + 2], start, axes, sections).surface(_TUBE)
            continue
        wall = _wall(housing, length)
        if link.name in ('base', 'wrist_3'):
            yield _Revolved(wall, start, axes, sections).surface(_METAL)
            continue
        if any(start):
            lid = _lid(housing, link, axes)
        else:  # from within the housing before to a joint, where its line begins
            wall, start, axes = wall[:2], start + length * axes[2], axes * [[1], [-1], [-1]]
        yield _Revolved(r * _SEALED, start, axes, sections).surface(_SEAL)
        whole = _Revolved(wall, start, axes, sections)
        seam = whole.seam(*lid)
        yield whole.surface(_JOINT, 0.0, seam)
        if seam.min() < 1.0:
            yield whole.surface(_LID, seam)


def _axes(housing: Housing, link: Link) -> Array:
    """Return x, y, z (3, 3) of a housing: z along it, x away from the others of its link."""
    z = np.subtract(housing.end, housing.start)
    z /= np.linalg.norm(z)
    middle = np.add(housing.start, housing.end)
    away = sum((middle - np.add(h.start, h.end) for h in link.housings), np.zeros(3))
    x = away - away @ z * z
    if np.linalg.norm(x) < 1e-3:
        x = np.cross(z, np.roll(z, 1))
    x /= np.linalg.norm(x)
    return np.array([x, np.cross(z, x), z])


def _wall(housing: Housing, length: float) -> Array:
    """Return the line of a housing: its wall, and its end as an ellipse, a shallow one fuller."""
    r, depth, bend = housing.radius, _depth(housing), np.linspace(0.0, np.pi / 2, 17)
    power = 1.0 if depth > 0.45 * r else 0.7
    height = length + housing.dome - depth * (1.0 - np.sin(bend) ** power)
    return np.array([[r, 0.0], *np.transpose([r * np.cos(bend) ** power, height])])


def _depth(housing: Housing) -> float:
    return max(housing.dome, _DEPTH * housing.radius)


def _lid(housing: Housing, link: Link, axes: Array) -> tuple[Array, float]:
    """Return the plane beyond which a housing is a lid: its normal, and distance from 0 [m]."""
    r, tip = housing.radius, float(axes[2] @ housing.end) + housing.dome
    if link.name == 'forearm' and not housing.start[0]:
        return np.zeros(3), 1.0  # the elbow's lid is at the upper arm
    if len(link.housings) == 2 and tip < _CORNER * r:
        return (axes[0] + axes[2]) / np.sqrt(2.0), _SLANTED * r
    return axes[2], tip - _depth(housing) - _SKIRT * r
