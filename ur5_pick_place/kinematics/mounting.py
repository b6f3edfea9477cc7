# SPDX-License-Identifier: Apache-2.0
"""How the base of the arm is mounted, which turns what is up and down in its frames."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    Array,
    make_transform,
    matrix_from_rpy,
    tool_down,
)

NAMED = {'floor': (0.0, 0.0), 'wall': (0.0, 90.0), 'ceiling': (180.0, 0.0)}
"""Roll and pitch [deg] by name; z of a wall-mounted `base_link` is level and its x points down."""
_LEVEL = np.cos(np.pi / 4)  # of z upwards; below it the arm stands out from a wall


@dataclass(frozen=True)
class Mounting:
    """
    The roll and pitch of `base_link` [rad], about the fixed axes of a frame whose z is up.

    Nothing else depends on how that frame is turned about its z. Here its x, `ahead`, is level and
    points where z of a wall-mounted `base_link` does, and x of any other.
    """

    roll: float
    pitch: float

    @classmethod
    def read(cls, text: str) -> 'Mounting':
        """Return the mounting of a name or of two numbers; `InvalidInput` for any other text."""
        try:
            roll, pitch = NAMED.get(text) or map(float, text.split())
            if abs(roll) <= 360.0 and abs(pitch) <= 360.0:  # false for NaN
                return cls(*np.deg2rad([roll, pitch]).tolist())
        except ValueError:
            pass
        raise InvalidInput(
            f'mounting = {text!r}: must be {", ".join(NAMED)}, or roll and pitch of the base, '
            'each -360 to 360 deg, such as "0 30"'
        )

    @cached_property
    def R_up_base_link(self) -> Array:
        """The rotation (3, 3) of `base_link` in the frame with z up and x ahead."""
        R = matrix_from_rpy([self.roll, self.pitch, 0.0])
        ahead = R[:, 0] if self.is_upright or self.is_hanging else R[:, 2]
        return np.asarray(matrix_from_rpy([0.0, 0.0, -np.arctan2(ahead[1], ahead[0])]) @ R)

    @cached_property
    def up(self) -> Array:
        """The unit vector (3,) that points up, in `base_link`."""
        return np.asarray(matrix_from_rpy([self.roll, self.pitch, 0.0])[2])

    @cached_property
    def up_base(self) -> Array:
        """The same in `base`."""
        return T_BASE_BASE_LINK[:3, :3] @ self.up

    @property
    def is_upright(self) -> bool:
        """Whether the base stands within 45 degrees of upright."""
        return bool(np.cos(self.roll) * np.cos(self.pitch) >= _LEVEL)

    @property
    def is_hanging(self) -> bool:
        """Whether the base hangs within 45 degrees of upside down."""
        return bool(np.cos(self.roll) * np.cos(self.pitch) <= -_LEVEL)

    def T_base_link_level(self, height: float) -> Array:
        """Return the level frame (4, 4) with x ahead, `height` [m] over `base_link`'s origin."""
        return make_transform(self.R_up_base_link.T, height * self.up)

    def tool_down(self, x: float, y: float, z: float, yaw: float) -> Array:
        """
        Return the pose of a tool that points down, shape (4, 4) in `base_link`.

        `x`, `y`, `z`: position in `base_link` [m]. `yaw`: angle of the tool's x axis about the
        vertical, from ahead [rad].
        """
        R_base_link_tool = self.R_up_base_link.T @ tool_down(0.0, 0.0, 0.0, yaw)[:3, :3]
        return make_transform(R_base_link_tool, [x, y, z])

    def __str__(self) -> str:
        """Return the text that `read` takes."""
        roll, pitch = np.rad2deg([self.roll, self.pitch])
        names = (name for name, angles in NAMED.items() if np.allclose(angles, (roll, pitch)))
        return next(names, f'{roll:g} {pitch:g}')


FLOOR = Mounting(0.0, 0.0)
