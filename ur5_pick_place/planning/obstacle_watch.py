# SPDX-License-Identifier: Apache-2.0
"""Whether joints near one another, tick after tick, are free of obstacles."""

from collections import deque

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision import CollisionModel
from ur5_pick_place.planning.planner import MotionPlanner

_KEPT = 3  # boxes: the measured joints come later through those of the planned ones
_AHEAD = 4.0  # distances are exact for turns of this many times those needed now
_LEAST = 0.01  # [rad] added to these turns, for joints that hardly move


class ObstacleWatch:
    """
    `MotionPlanner.why_blocked` for one closed loop: the same verdict, mostly without measuring.

    Turning joint j by dq_j brings no two bodies nearer by more than |dq_j| r_j, with r_j the
    largest lever of the pair. So distances measured once can prove a box of joints to be free,
    and with it every path inside. Where they do not, the planner's own check decides. Not to be
    shared between threads.

    Attributes
    ----------
    count : int
        How often distances were measured so far.

    """

    def __init__(self, planner: MotionPlanner) -> None:
        self._planner, self._collision = planner, planner.collision
        self._boxes: deque[tuple[Array, Array]] = deque(maxlen=_KEPT)  # centre, spare distances
        self.count = 0

    def __call__(self, q: Array) -> str:
        """Return why a path of joints (n, 6) [rad] is not free; empty if it is."""
        planner = self._planner
        low, high = (q[0], q[0]) if len(q) == 1 else (q.min(axis=0), q.max(axis=0))
        limits, refusal = planner.limits, planner.scene.world.refusal
        is_within = (low >= limits.q_min).all() and (high <= limits.q_max).all()
        if is_within and not refusal and self._proves(planner.collision, low, high):
            return ''
        return planner.why_blocked(q)

    def _proves(self, collision: CollisionModel, low: Array, high: Array) -> bool:
        """Return whether all joints between two corners (6,) are free by measured distances."""
        if collision is not self._collision:
            self._boxes.clear()
            self._collision = collision
        if any(self._is_in(box, low, high) for box in self._boxes):
            return True
        centre = (low + high) / 2.0
        box = centre, collision.spare_distances(centre, _AHEAD * (high - centre) + _LEAST)
        self._boxes.appendleft(box)
        self.count += 1
        return self._is_in(box, low, high)

    def _is_in(self, box: tuple[Array, Array], low: Array, high: Array) -> bool:
        centre, spare = box
        turned = np.maximum(high - centre, centre - low)
        return bool((self._collision.largest_change(turned) <= spare).all())
