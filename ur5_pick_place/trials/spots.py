# SPDX-License-Identifier: Apache-2.0
"""Spots on the table: where the cube may lie, and what the arm can reach. Needs no ROS."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import explain, inverse, load_model
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    Array,
    inverse_transform,
    tool_down,
)
from ur5_pick_place.planning.scene_file import load_scene
from ur5_pick_place.sim.cell import PART_SIZE, TABLE_X, TABLE_Y, upright

_GOOD_RADIUS = (0.25, 0.70)  # [m] from the arm's axis; closer, the tool hits the arm on its path
_DRAWS = 1000


class Spot(NamedTuple):
    """
    Pose of the cube on the table in `base_link`; its text is in metres and degrees.

    Attributes
    ----------
    x, y : float
        Centre of the cube [m].
    yaw : float
        Rotation about z [rad].

    """

    x: float
    y: float
    yaw: float

    def __str__(self) -> str:
        return f'({self.x:.3f}, {self.y:.3f}) m, {math.degrees(self.yaw):.0f} deg'

    @property
    def T_part(self) -> Array:
        """Pose of the cube's centre in `base_link`, shape (4, 4)."""
        return upright(self.x, self.y, PART_SIZE / 2, self.yaw)

    @property
    def T_tcp(self) -> Array:
        """Pose of the TCP that grips the cube in `base_link`: its centre, z down, (4, 4)."""
        return tool_down(self.x, self.y, PART_SIZE / 2, self.yaw)

    def moved(self, displacement: 'Displacement') -> 'Spot':
        """Return this spot plus a displacement."""
        return Spot(
            self.x + displacement.dx, self.y + displacement.dy, self.yaw + displacement.dyaw
        )


class Displacement(NamedTuple):
    """Displacement of the cube after teaching, in `base_link`: dx, dy [m], dyaw [rad]."""

    dx: float
    dy: float
    dyaw: float


DEFAULT_START = Spot(0.45, -0.20, 0.0)
DEFAULT_TARGET = Spot(0.40, 0.25, math.radians(30.0))


class SpotChecker:
    """
    Checks by kinematics alone whether the simulated arm can carry a cube from spot to spot.

    Parameters
    ----------
    config : Path
        Folder with the parameters of cell and task.

    """

    def __init__(self, config: Path) -> None:
        self._height = float(read_parameters(config / 'pick_place.yaml')['approach_height'])
        self._model = load_model('ur5')
        self._T_tcp_tool = inverse_transform(load_scene(config / 'scene_sim.yaml').tool.T_tool_tcp)

    def check_pair(self, start: Spot, target: Spot) -> None:
        """
        Check that the arm can carry the cube from start to target.

        Raises
        ------
        InvalidInput
            A spot is off the table or out of reach, the spots overlap, or no branch reaches both.

        """
        branches = self.check_spot('start', start) & self.check_spot('target', target)
        apart = math.hypot(start.x - target.x, start.y - target.y)
        if apart < PART_SIZE:
            raise InvalidInput(
                f'start {start} and target {target} are {1e3 * apart:.0f} mm apart: must be at '
                f'least {1e3 * PART_SIZE:.0f} mm apart, the size of the cube; move one of them'
            )
        if not branches.any():
            raise InvalidInput(
                f'start {start} and target {target} cannot be reached with the same branch '
                '(shoulder, elbow, wrist): move them closer together'
            )

    def check_spot(self, name: str, spot: Spot) -> NDArray[np.bool_]:
        """
        Return which branches reach a spot and the point above it, shape (8,).

        Raises
        ------
        InvalidInput
            The cube would not be on the table, or no branch reaches it.

        """
        half = PART_SIZE / 2 * (abs(math.cos(spot.yaw)) + abs(math.sin(spot.yaw)))
        for axis, value, (low, high) in (('x', spot.x, TABLE_X), ('y', spot.y, TABLE_Y)):
            if not low + half <= value <= high - half:
                raise InvalidInput(
                    f'{name}: the cube at {spot} is off the table: {axis} must be within '
                    f'{low + half:.3f} to {high - half:.3f} m'
                )
        T_base_tcp = T_BASE_BASE_LINK @ spot.T_tcp
        reached = np.ones(8, dtype=bool)
        for height in (0.0, self._height):
            T = T_base_tcp @ self._T_tcp_tool
            T[2, 3] += height
            reached &= inverse(self._model, T)[1]
            if not reached.any():
                nearest = min(explain(self._model, T), key=lambda missing: missing.amount)
                raise InvalidInput(
                    f'{name}: the cube at {spot} is out of reach: {nearest.text}; choose '
                    f'a spot {_GOOD_RADIUS[0]} to {_GOOD_RADIUS[1]} m from the arm at (0, 0)'
                )
        return reached

    def random_pair(
        self, rng: np.random.Generator, start: Spot | None = None, target: Spot | None = None
    ) -> tuple[Spot, Spot]:
        """
        Return start and target; a spot that is None is drawn at random.

        Raises
        ------
        InvalidInput
            No drawn pair passes `check_pair`.

        """
        for _ in range(_DRAWS):
            pair = start or _draw(rng), target or _draw(rng)
            try:
                self.check_pair(*pair)
            except InvalidInput:
                continue
            return pair
        raise InvalidInput(
            f'no reachable pair among {_DRAWS} random ones with start {start or "random"} and '
            f'target {target or "random"}: choose another spot'
        )


def _draw(rng: np.random.Generator) -> Spot:
    radius, bearing = rng.uniform(*_GOOD_RADIUS), rng.uniform(-math.pi, math.pi)
    x, y = radius * math.cos(bearing), radius * math.sin(bearing)
    return Spot(x, y, math.radians(rng.uniform(-180.0, 180.0)))
