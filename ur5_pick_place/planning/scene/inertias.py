# SPDX-License-Identifier: Apache-2.0
"""The load of the flange."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array


@dataclass(frozen=True, eq=False)
class Load:
    """
    The load of the flange: a tool, a part, or both as one body.

    Raises `InvalidInput`: the mass is negative or not finite.
    """

    mass: float  # [kg]
    centre: Array  # (3,) centre of gravity in tool0 [m]
    # (3, 3) about the centre, along the axes of tool0 [kg m2]; zero = a point mass, as the robot
    # itself assumes
    inertia: Array = field(default_factory=lambda: np.zeros((3, 3)))
    # (4, 4) how a part is held; None = as the scene says, or it is no part
    T_tcp_part: Array | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.mass < np.inf:
            raise InvalidInput(f'load of {self.mass} kg: must be a finite mass, 0 or more')
        for name in ('centre', 'inertia'):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)


def joined(loads: Sequence[Load]) -> Load:
    """Return several loads joined to one rigid body."""
    mass = sum(load.mass for load in loads)
    if mass == 0.0:
        return loads[0]
    centre = sum((load.mass * load.centre for load in loads), np.zeros(3)) / mass
    inertia = np.zeros((3, 3))
    for load in loads:
        off = load.centre - centre
        inertia += load.inertia + load.mass * (off @ off * np.eye(3) - np.outer(off, off))
    return Load(mass, centre, inertia)


def boxes_load(mass: float, centre: Array, boxes: Sequence[tuple[Array, Array]]) -> Load:
    """
    Return a load of known mass and centre with the inertia of uniformly filled boxes.

    Only the inertia about the boxes' common centre is used. Without boxes it is a point mass.

    `mass` [kg]. `centre` (3,): in tool0 [m]. `boxes`: poses (4, 4) and full edge lengths (3,) [m].
    """
    volumes = [float(np.prod(size)) for _, size in boxes]
    if not sum(volumes):
        return Load(mass, centre)
    parts = []
    for (T, size), volume in zip(boxes, volumes, strict=True):
        share, squares = mass * volume / sum(volumes), np.square(size)
        moments = np.diag(share / 12.0 * (squares.sum() - squares))
        inertia = T[:3, :3] @ moments @ T[:3, :3].T
        parts.append(Load(share, T[:3, 3], (inertia + inertia.T) / 2.0))
    return Load(mass, centre, joined(parts).inertia)
