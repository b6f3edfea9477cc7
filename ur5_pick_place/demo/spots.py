# SPDX-License-Identifier: Apache-2.0
"""Spots on the table: where the cube may lie, and what the arm can reach. Needs no ROS."""

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.demo.configuration import CellSetup, Configuration
from ur5_pick_place.errors import InvalidInput, fixed
from ur5_pick_place.kinematics import explain, inverse
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    Array,
    inverse_transform,
    tool_down,
)
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.sim.layouts import LAYOUTS
from ur5_pick_place.sim.physics.cell import PART_SIZE, TABLE_X, TABLE_Y, upright

_DRAWS = 1000


class Spot(NamedTuple):
    """Pose of the cube on the table; its text is in metres and degrees."""

    # centre of the cube [m]
    x: float
    y: float
    yaw: float  # rotation about z [rad]
    setup: CellSetup = CellSetup()

    def __str__(self) -> str:
        yaw = fixed(math.degrees(self.yaw), 0)
        return f'({fixed(self.x, 3)}, {fixed(self.y, 3)}) m, {yaw} deg'

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the simulator by which the first cube lies here."""
        return {'part_x': self.x, 'part_y': self.y, 'part_yaw': math.degrees(self.yaw)}

    @property
    def T_base_link_part(self) -> Array:
        """Pose of the cube's centre in `base_link`, shape (4, 4)."""
        return self.setup.T_base_link_table @ upright(self.x, self.y, PART_SIZE / 2, self.yaw)

    @property
    def T_base_link_grip(self) -> Array:
        """Pose of fingers that grip the cube in `base_link`: its centre, z down, (4, 4)."""
        T_table_grip = tool_down(self.x, self.y, PART_SIZE / 2, self.yaw)
        return self.setup.T_base_link_table @ T_table_grip

    def T_base_link_tcp(self, scene: Scene) -> Array:
        """
        Return the pose of the TCP that grips the cube in `base_link`, (4, 4).

        A scene file says where its tool grips the part: fingers at its centre, a cup on its top.
        """
        T = self.T_base_link_grip
        return T @ inverse_transform(scene.part.T_tcp_part) if scene.part else T

    def moved(self, displacement: 'Displacement') -> 'Spot':
        return Spot(
            self.x + displacement.dx,
            self.y + displacement.dy,
            self.yaw + displacement.dyaw,
            self.setup,
        )


class Displacement(NamedTuple):
    """Displacement of the cube after teaching, in `base_link`: dx, dy [m], dyaw [rad]."""

    dx: float
    dy: float
    dyaw: float


def default_spots(setup: CellSetup = CellSetup()) -> tuple[Spot, Spot]:
    """Return start and target of the demo."""
    layout = LAYOUTS[setup.ur_type]
    return Spot(*layout.start, setup), Spot(*layout.target, setup)


def spot_of(T_base_link_part: Array, setup: CellSetup = CellSetup()) -> tuple[Spot, float]:
    """
    Return the spot above or below which something lies, and its height over the table [m].

    `T_base_link_part`: its pose (4, 4) in `base_link`.
    """
    T = inverse_transform(setup.T_base_link_table) @ T_base_link_part
    spot = Spot(float(T[0, 3]), float(T[1, 3]), math.atan2(T[1, 0], T[0, 0]), setup)
    return spot, float(T[2, 3])


def check_apart(spots: Mapping[str, Spot]) -> None:
    """Raise `InvalidInput` if cubes at two of the spots would overlap."""
    for (a, one), (b, other) in itertools.combinations(spots.items(), 2):
        apart = math.hypot(one.x - other.x, one.y - other.y)
        if apart < PART_SIZE:
            raise InvalidInput(
                f'{a} {one} and {b} {other} are {1e3 * apart:.0f} mm apart: must be at '
                f'least {1e3 * PART_SIZE:.0f} mm apart, the size of the cube; move one of them'
            )


def T_tool_grip(scene: Scene) -> Array:
    """Return where a scene's tool holds the centre of the cube, tool down, (4, 4)."""
    T_tool_tcp = scene.tool.T_tool_tcp
    return T_tool_tcp @ scene.part.T_tcp_part if scene.part else T_tool_tcp


class SpotChecker:
    """Checks by kinematics alone whether the simulated arm can carry a cube from spot to spot."""

    def __init__(self, setup: CellSetup = CellSetup()) -> None:
        self._setup, self._model = setup, setup.model
        self._height = float(Configuration({})['approach_height'])
        self._radius = LAYOUTS[setup.ur_type].radius
        self._T_grip_tool = inverse_transform(T_tool_grip(setup.scene))

    def check_pair(
        self, start: Spot, target: Spot, names: tuple[str, str] = ('start', 'target')
    ) -> None:
        """
        Check that the arm can carry the cube from start to target.

        Raises `InvalidInput`: a spot is off the table or out of reach, the spots overlap, or no
        branch reaches both.
        """
        pick, release = names
        branches = self.check_spot(pick, start) & self.check_spot(release, target)
        check_apart({pick: start, release: target})
        if not branches.any():
            raise InvalidInput(
                f'{pick} {start} and {release} {target} cannot be reached with the same branch '
                '(shoulder, elbow, wrist): move them closer together'
            )

    def check_spot(self, name: str, spot: Spot, z: float = 0.0) -> NDArray[np.bool_]:
        """
        Return which branches reach a spot, `z` [m] higher, and the point above it, shape (8,).

        Raises `InvalidInput`: the cube would not be on the table, or no branch reaches it.
        """
        half = PART_SIZE / 2 * (abs(math.cos(spot.yaw)) + abs(math.sin(spot.yaw)))
        for axis, value, (low, high) in (('x', spot.x, TABLE_X), ('y', spot.y, TABLE_Y)):
            if not low + half <= value <= high - half:
                raise InvalidInput(
                    f'{name}: the cube at {spot} is off the table: {axis} must be within '
                    f'{low + half:.3f} to {high - half:.3f} m'
                )
        T_base_grip = T_BASE_BASE_LINK @ spot.T_base_link_grip
        reached = np.ones(8, dtype=bool)
        for height in (z, z + self._height):
            T = T_base_grip @ self._T_grip_tool
            T[:3, 3] += height * self._setup.mounting.up_base
            reached &= inverse(self._model, T)[1]
            if not reached.any():
                nearest = min(explain(self._model, T), key=lambda missing: missing.amount)
                raise InvalidInput(
                    f'{name}: the cube at {spot} is out of reach: {nearest.text}; choose '
                    f'a spot {self._radius[0]} to {self._radius[1]} m from the arm at (0, 0)'
                )
        return reached

    def random_pair(
        self, rng: np.random.Generator, start: Spot | None = None, target: Spot | None = None
    ) -> tuple[Spot, Spot]:
        """
        Return start and target; a spot that is None is drawn at random.

        Raises `InvalidInput`: no drawn pair passes `check_pair`.
        """
        for _ in range(_DRAWS):
            pair = start or self._draw(rng), target or self._draw(rng)
            try:
                self.check_pair(*pair)
            except InvalidInput:
                continue
            return pair
        raise InvalidInput(
            f'no reachable pair among {_DRAWS} random ones with start {start or "random"} and '
            f'target {target or "random"}: choose another spot'
        )

    def _draw(self, rng: np.random.Generator) -> Spot:
        radius, bearing = rng.uniform(*self._radius), rng.uniform(-math.pi, math.pi)
        x, y = radius * math.cos(bearing), radius * math.sin(bearing)
        return Spot(x, y, math.radians(rng.uniform(-180.0, 180.0)), self._setup)
