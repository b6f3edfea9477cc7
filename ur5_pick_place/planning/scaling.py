# SPDX-License-Identifier: Apache-2.0
"""Bounds on one motion that a request may set below those of the robot."""

from dataclasses import dataclass, replace

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array

SLOWEST = 1e-3  # smallest scaling; slower motions take too long
SLOWEST_SPEED = 1e-4  # [m/s]


@dataclass(frozen=True)
class Scaling:
    """Bounds on one motion: fractions of the limits (0 = the default) and a speed."""

    # 0 or `SLOWEST` to 1
    velocity: float = 0.0
    acceleration: float = 0.0
    speed: float = 0.0  # bound on the speed of TCP and elbow [m/s]; 0 = `max_speed` alone
    # (3,) the point of the tool, in tool0 [m], to which `speed` applies instead of TCP and elbow
    p_tool_point: Array | None = None

    def __post_init__(self) -> None:
        for name in ('velocity', 'acceleration'):
            value = getattr(self, name)
            if value != 0.0 and not SLOWEST <= value <= 1.0:
                raise InvalidInput(
                    f'{name} scaling = {value}: must be 0 (the default) or lie in '
                    f'{SLOWEST} to 1'
                )
        if self.speed != 0.0 and not SLOWEST_SPEED <= self.speed < np.inf:
            raise InvalidInput(
                f'speed limit = {self.speed} m/s: must be 0 (none) or at least {SLOWEST_SPEED} m/s'
            )

    def at_most(self, speed: float) -> 'Scaling':
        """Return the scaling with a further bound on the speed [m/s]; 0 = none."""
        return replace(self, speed=min(speed or np.inf, self.speed or np.inf)) if speed else self
