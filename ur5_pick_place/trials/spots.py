# SPDX-License-Identifier: Apache-2.0
"""Spots on the table: where the cube may lie, and what the arm can reach."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import explain, inverse, load_model
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, Array, inverse_transform
from ur5_pick_place.planning.scene_file import load_scene
from ur5_pick_place.sim.cell import PART_SIZE, TABLE_X, TABLE_Y, upright

_GOOD_RADIUS = (0.25, 0.70)  # [m] from the arm; nearer, the tool meets it on the way
_DRAWS = 1000
TOOL_DOWN = np.diag([1.0, -1.0, -1.0, 1.0])  # half a turn about x: z down, x as the cube's


@dataclass(frozen=True)
class Spot:
    """
    Where the cube lies on the table, in `base_link`.

    Attributes
    ----------
    x, y : float
        Its centre [m].
    yaw : float
        How it is turned about z [deg].

    """

    x: float
    y: float
    yaw: float

    def __str__(self) -> str:
        return f'({self.x:.3f}, {self.y:.3f}) m, {self.yaw:.0f} deg'

    @property
    def T_part(self) -> Array:
        """Pose of the cube's centre in `base_link`, shape (4, 4)."""
        return upright(self.x, self.y, PART_SIZE / 2, math.radians(self.yaw))

    @property
    def T_tcp(self) -> Array:
        """Pose of the TCP that grips the cube there: at its centre, z down, shape (4, 4)."""
        return self.T_part @ TOOL_DOWN

    def moved(self, displacement: 'Displacement') -> 'Spot':
        """Return the spot to which a displacement takes the cube."""
        return Spot(
            self.x + displacement.dx * 1e-3,
            self.y + displacement.dy * 1e-3,
            self.yaw + displacement.dyaw,
        )


@dataclass(frozen=True)
class Displacement:
    """How far the cube is moved after its place was taught: dx, dy [mm], dyaw [deg]."""

    dx: float
    dy: float
    dyaw: float


DEFAULT_START = Spot(0.45, -0.20, 0.0)
DEFAULT_TARGET = Spot(0.40, 0.25, 30.0)


class Reach:
    """
    Knows from where to where the simulated arm can carry a cube, by its kinematics alone.

    Parameters
    ----------
    config : Path
        The folder with the cell's and the task's parameters.

    """

    def __init__(self, config: Path) -> None:
        self._height = float(read_parameters(config / 'pick_place.yaml')['approach_height'])
        self._model = load_model('ur5')
        self._T_tcp_tool = inverse_transform(load_scene(config / 'scene_sim.yaml').tool.T_tool_tcp)

    def check_way(self, start: Spot, target: Spot) -> None:
        """
        Refuse what the arm cannot do.

        Raises
        ------
        InvalidInput
            A spot off the table or out of reach, two spots that overlap, or no branch for both.

        """
        branches = self.check_spot('start', start) & self.check_spot('target', target)
        apart = math.hypot(start.x - target.x, start.y - target.y)
        if apart < PART_SIZE:
            raise InvalidInput(
                f'start {start} and target {target} are {1e3 * apart:.0f} mm apart: must be at '
                f'least the {1e3 * PART_SIZE:.0f} mm of the cube; move one of them'
            )
        if not branches.any():
            raise InvalidInput(
                f'start {start} and target {target} are not reached with the same shoulder, elbow '
                'and wrist: move them towards each other'
            )

    def check_spot(self, name: str, spot: Spot) -> NDArray[np.bool_]:
        """
        Return the branches, shape (8,), that reach a spot and the point above it.

        Raises
        ------
        InvalidInput
            The cube would not lie on the table, or no branch reaches it.

        """
        yaw = math.radians(spot.yaw)
        half = PART_SIZE / 2 * (abs(math.cos(yaw)) + abs(math.sin(yaw)))
        for axis, value, (low, high) in (('x', spot.x, TABLE_X), ('y', spot.y, TABLE_Y)):
            if not low + half <= value <= high - half:
                raise InvalidInput(
                    f'{name}: the cube at {spot} is off the table: {axis} must lie in '
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
                    f'{name}: the cube at {spot} is out of reach: {nearest.text}; a good place '
                    f'is {_GOOD_RADIUS[0]} to {_GOOD_RADIUS[1]} m from the arm, which is at (0, 0)'
                )
        return reached

    def random_way(
        self, rng: np.random.Generator, start: Spot | None = None, target: Spot | None = None
    ) -> tuple[Spot, Spot]:
        """Return start and target, drawn from the table where they are not given."""
        for _ in range(_DRAWS):
            way = start or _draw(rng), target or _draw(rng)
            try:
                self.check_way(*way)
            except InvalidInput:
                continue
            return way
        raise InvalidInput(
            f'none of {_DRAWS} ways drawn can be done with start {start or "free"} and target '
            f'{target or "free"}: choose another place'
        )


def _draw(rng: np.random.Generator) -> Spot:
    radius, bearing = rng.uniform(*_GOOD_RADIUS), rng.uniform(-math.pi, math.pi)
    x, y = radius * math.cos(bearing), radius * math.sin(bearing)
    return Spot(x, y, float(rng.uniform(-180.0, 180.0)))
