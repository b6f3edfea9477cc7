# SPDX-License-Identifier: Apache-2.0
"""The poses and joints within the tolerances of a goal, as samples that are always the same."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from ur5_pick_place.kinematics.transforms import Array, make_transform

_SAMPLES = 256  # besides the middles of the faces
_BASES = (2, 3, 5, 7, 11, 13)
# Tolerances below which another goal is no other way: [m], [rad].
_SMALL, _SMALL_TURN = 2e-3, 0.02
_EXACT = 1e-5  # [rad] between bounds that leave no room
_FAR = 10.0  # [m] from the base, where no arm reaches


def _spread(is_free: NDArray[np.bool_]) -> Array:
    """
    Return points (n, d) of the unit cube: the middle of each face, then a Halton sequence.

    Coordinates that are not free (d,) are 0.5; without a free one there are no points.
    """
    free = np.flatnonzero(is_free)
    if not len(free):
        return np.empty((0, len(is_free)))
    points = np.full((2 * len(free) + _SAMPLES, len(is_free)), 0.5)
    for axis, base in zip(free, _BASES, strict=False):
        k = int((free < axis).sum())
        points[2 * k : 2 * k + 2, axis] = 0.0, 1.0
        points[2 * len(free) :, axis] = _radical_inverse(base)
    return points


def _radical_inverse(base: int) -> Array:
    """Return the first numbers of the van der Corput sequence (n,) in (0, 1)."""
    index, found, place = np.arange(1, _SAMPLES + 1), np.zeros(_SAMPLES), 1.0
    while index.any():
        place /= base
        found += place * (index % base)
        index //= base
    return found


@dataclass(frozen=True)
class PoseRegion:
    """The poses of a link that a goal allows, as MoveIt defines them."""

    # (4, 4) the position constraint's region, in whose middle the nominal pose is
    T_base_region: Array
    kind: str  # `box`, `sphere`, `cylinder` or `cone`
    # edges of a box, radius of a sphere, height and radius of the others [m]; empty for a point
    size: tuple[float, ...]
    R_base_point: Array  # (3, 3) the nominal orientation
    turns: Array  # (3,) tolerances about the axes of the nominal orientation [rad]
    # whether `turns` bound a rotation vector, instead of angles about x, then y, then z
    is_vector: bool
    T_point_tool: Array  # (4, 4) pose of tool0 in the point that has to be in the region

    @property
    def nominal(self) -> Array:
        """T_base_tool (4, 4) in the middle of the region."""
        T = make_transform(self.R_base_point, self.T_base_region[:3, 3])
        return np.asarray(T @ self.T_point_tool)

    @property
    def is_wide(self) -> bool:
        """Whether another pose may be reached on another way."""
        return max(self.size, default=0.0) > _SMALL or float(self.turns.max()) > _SMALL_TURN

    def samples(self) -> Array:
        """Return poses T_base_tool (n, 4, 4) of the region, without the nominal one."""
        is_region = any(self.size)
        u = _spread(np.array([is_region] * 3 + [*(self.turns > 0.0)]))
        turned = Rotation.from_rotvec if self.is_vector else partial(Rotation.from_euler, 'XYZ')
        # An angle about y beyond a right angle is another one within it.
        most = np.array([np.pi, np.pi if self.is_vector else np.pi / 2, np.pi])
        turns = turned((2.0 * u[:, 3:] - 1.0) * np.minimum(self.turns, most))
        R = self.R_base_point @ turns.as_matrix()
        p = np.zeros((len(u), 3))
        if is_region:
            p = _points(self.kind, self.size, u[:, :3])
        p = p @ self.T_base_region[:3, :3].T + self.T_base_region[:3, 3]
        T = make_transform(R, p) @ self.T_point_tool
        return np.asarray(T[(np.abs(T[:, :3, 3]) < _FAR).all(axis=1)])


def _points(kind: str, size: tuple[float, ...], u: Array) -> Array:
    """Map points (n, 3) of the unit cube evenly to the points of a shape [m]."""
    if kind == 'box':
        return np.asarray((u - 0.5) * size)
    angle = 2.0 * np.pi * u[:, 2]
    if kind == 'sphere':
        z = 2.0 * u[:, 1] - 1.0
        across = np.sqrt(np.maximum(0.0, 1.0 - z * z))
        on_unit = np.stack([across * np.cos(angle), across * np.sin(angle), z], axis=1)
        return np.asarray(size[0] * np.cbrt(u[:, :1]) * on_unit)
    height, radius = size
    across = radius * np.sqrt(u[:, 1])
    z = height * (u[:, 0] - 0.5)
    if kind == 'cone':  # its tip is up
        from_tip = np.cbrt(u[:, 0])
        across, z = across * from_tip, height * (0.5 - from_tip)
    return np.stack([across * np.cos(angle), across * np.sin(angle), z], axis=1)


def joints_within(low: Array, high: Array) -> Array:
    """Return joints (n, 6) [rad] between bounds (6,); none if there is no room between them."""
    u = _spread(high - low > _EXACT)
    return np.asarray(low + u * (high - low))


def is_wide(low: Array, high: Array) -> bool:
    """Return whether other joints between bounds (6,) [rad] may be reached on another way."""
    return bool((high - low).max() > 2.0 * _SMALL_TURN)
