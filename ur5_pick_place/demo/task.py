# SPDX-License-Identifier: Apache-2.0
"""What a run does with the cubes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ur5_pick_place.demo.spots import Displacement, Spot
from ur5_pick_place.kinematics.transforms import Array


@dataclass(frozen=True)
class Task:
    """What a run does with the cubes."""

    spots: Mapping[str, Spot]  # where the places of the cycle are taught, by name
    # by cube of one cycle: the place where it lies at first, and where it ends
    moves: tuple[tuple[str, str], ...]
    # (4, 4) where each cube of the run must lie at the end, in `base_link`, in order of feeding
    ends: tuple[Array, ...] = field(compare=False)
    displacement: Displacement | None = None  # how the only cube is moved after teaching

    @property
    def start(self) -> Spot | None:
        """Where the first cube lies; None without a cube."""
        return self.spots[self.moves[0][0]] if self.moves else None

    @property
    def target(self) -> Spot | None:
        """Where the first cube is put down; None without a cube."""
        return self.spots[self.moves[0][1]] if self.moves else None

    @property
    def cycles(self) -> int:
        """Number of cycles of the run."""
        return len(self.ends) // len(self.moves) if self.moves else 1

    def facts(self) -> dict[str, Any]:
        """Return as JSON values what `report.evaluation` needs; spots in metres and degrees."""
        spots = {'start': self.start, 'target': self.target}
        moved = self.displacement
        return {
            'ends': [T.tolist() for T in self.ends],
            **{
                name: {'x': spot.x, 'y': spot.y, 'yaw': round(math.degrees(spot.yaw), 6)}
                for name, spot in spots.items()
                if spot
            },
            'displacement': moved
            and {
                'dx': round(1e3 * moved.dx, 6),
                'dy': round(1e3 * moved.dy, 6),
                'dyaw': round(math.degrees(moved.dyaw), 6),
            },
        }


def transfer(start: Spot, target: Spot, displacement: Displacement | None = None) -> Task:
    """Return the task of moving one cube from start to target."""
    spots = {'start': start, 'target': target}
    return Task(spots, (('start', 'target'),), (target.T_base_link_part,), displacement)
