# SPDX-License-Identifier: Apache-2.0
"""What a client of the cell has received so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ur5_pick_place.kinematics.transforms import Array

_Six = Sequence[float] | Array
JointSample = tuple[float, _Six, _Six, _Six]
"""Simulated time [s], measured joints [rad] and their velocities [rad/s], reference [rad]."""


@dataclass
class Record:
    """
    Samples over simulated time [s].

    Attributes
    ----------
    joints : list of (t, q, qd, q_planned)
        Measured positions [rad] and velocities [rad/s], and the controller's reference [rad].
    parts : list of (t, T_world_parts)
        Poses of the cubes in the simulator, (k, 4, 4) in `base_link`, in order of feeding.
    fingers : list of (t, travel)
        Closing travel of both fingers, two numbers [m].
    events : list of dict
        Events of the task node.

    """

    joints: list[JointSample] = field(default_factory=list)
    parts: list[tuple[float, Array]] = field(default_factory=list)
    fingers: list[tuple[float, Sequence[float]]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the record holds samples of joints, cube and fingers."""
        return bool(self.joints and self.parts and self.fingers)

    def time_of(self, event: str) -> float | None:
        """Return the time of the first event of that name [s], or None."""
        return next((e['time'] for e in self.events if e['event'] == event), None)
