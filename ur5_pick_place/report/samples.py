# SPDX-License-Identifier: Apache-2.0
"""What a recording holds of one run on the simulated cell, over the cell's clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.report.motion import RecordedJoints

_SLACK = 1e-3  # [s] to which the time of an event is rounded


@dataclass(frozen=True)
class Samples:
    joints: RecordedJoints  # as the controller published them
    # time [s], and poses of the cubes in `base_link` in order of feeding; NaN before one came
    parts: tuple[Array, Array]
    fingers: tuple[Array, Array]  # time [s], and closing travel of both fingers [m]
    events: Sequence[Mapping[str, Any]]  # events of the task node
    # when trajectories were sent [s], and their numbers of points
    goals: Sequence[tuple[float, int]] = ()

    @property
    def is_complete(self) -> bool:
        """Whether there are joints, cubes and fingers."""
        return all(t.size for t in (self.joints.t, self.parts[0], self.fingers[0]))

    def times_of(self, *names: str) -> list[float]:
        """Return the times of the events of these names [s]."""
        return [event['time'] for event in self.events if event['event'] in names]

    def joints_at(self, t: float | Array) -> Array:
        """Return the last measured joints up to time `t`, (..., 6) [rad]."""
        return self.joints.q[_last(self.joints.t, t)]

    def parts_at(self, t: float | Array) -> Array:
        """Return the cubes' last poses up to time `t`, (..., k, 4, 4)."""
        return self.parts[1][_last(self.parts[0], t)]

    def fingers_at(self, t: float | Array) -> Array:
        """Return the last travel of the fingers up to time `t`, (..., 2) [m]."""
        return self.fingers[1][_last(self.fingers[0], t)]


def _last(times: Array, t: float | Array) -> NDArray[np.intp]:
    return np.maximum(np.searchsorted(times, np.asarray(t) + _SLACK, side='right') - 1, 0)
