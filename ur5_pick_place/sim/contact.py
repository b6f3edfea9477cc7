# SPDX-License-Identifier: Apache-2.0
"""Collision detection of the simulated robot: joint torque that its model does not explain."""

from dataclasses import dataclass

from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.settings import Settings, setting


@dataclass(frozen=True)
class ContactSettings(Settings):
    """Thresholds of the protective stop after a contact."""

    contact_torque: float = setting(
        10.0,
        'unexplained torque of any joint that causes a protective stop; 0.6 is normal with the '
        'cube, a collision exceeds 100',
        unit='N m',
        low=2.0,
        high=150.0,
    )
    contact_time: float = setting(
        0.016,
        'how long the torque must last; one cycle may be noise, three cause damage',
        unit='s',
        low=CYCLE,
        high=0.5,
    )


class ContactWatch:
    """
    Detects a contact from the unexplained torque of each cycle.

    Parameters
    ----------
    period : float
        Cycle time [s].

    """

    def __init__(self, settings: ContactSettings, period: float) -> None:
        self._torque = settings.contact_torque
        self._cycles_needed = max(1, round(settings.contact_time / period))
        self._cycles = 0

    def update(self, torque: float) -> bool:
        """Take a cycle's torque [N m]; return whether a contact is detected."""
        self._cycles = self._cycles + 1 if torque > self._torque else 0
        return self._cycles >= self._cycles_needed

    def reset(self) -> None:
        """Reset the count of cycles."""
        self._cycles = 0
