# SPDX-License-Identifier: Apache-2.0
"""Whether joints near one another, tick after tick, are free of obstacles."""

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.collision import CollisionModel
from ur5_pick_place.planning.planner import MotionPlanner

_HALVINGS = 3  # of a step that is not proved as a whole
_NEAR = 0.2  # [rad]; pairs that may come too near within such turns are measured at once


class ObstacleWatch:
    """
    `MotionPlanner.why_blocked` for one closed loop: the same verdict, mostly without measuring.

    Turning joint j by dq_j brings two bodies nearer by at most |dq_j| r_j, with r_j the pair's
    largest lever. So a distance measured once proves all joints around to be free for that pair.
    A pair is measured again only where its last distance does not suffice, which spreads the
    measurements over the ticks. Where a new one does not suffice either, the planner's own check
    decides. Not to be shared between threads.

    Attributes
    ----------
    count : int
        How many distances were measured so far.

    """

    def __init__(self, planner: MotionPlanner) -> None:
        self._planner = planner
        self._collision: CollisionModel | None = None  # of the distances
        self.count = 0

    def __call__(self, q: Array) -> str:
        """Return why a path of joints (n, 6) [rad] is not free; empty if it is."""
        planner, q = self._planner, np.ascontiguousarray(q)
        limits, refusal = planner.limits, planner.scene.world.refusal
        if np.all((limits.q_min <= q) & (q <= limits.q_max)) and not refusal:
            if planner.collision is not self._collision:
                self._begin(planner.collision, q[0])
            if self._proves_all(q):
                return ''
        return planner.why_blocked(q)

    def _begin(self, collision: CollisionModel, q: Array) -> None:
        """Measure the distances at joints (6,) [rad], of far pairs lower bounds."""
        self._collision, self._levers = collision, collision.pair_levers
        self._spare = collision.least_spare(q, _NEAR)
        self._at = np.tile(q, (len(self._spare), 1))  # where each distance was measured

    def _proves_all(self, q: Array) -> bool:
        """Return whether a path of joints (n, 6) is free by distances."""
        a = q[0]
        for b in q[-1:] if len(q) == 1 else q[1:]:
            if not self._proves(a, b, _HALVINGS):
                return False
            a = b
        return True

    def _proves(self, q_a: Array, q_b: Array, halvings: int) -> bool:
        """Return whether the joints on a step from q_a to q_b (6,) are free by distances."""
        pairs = self._unproved(q_a, q_b)
        if not len(pairs):
            return True
        assert self._collision is not None
        middle = (q_a + q_b) / 2.0
        self._spare[pairs], self._at[pairs] = self._collision.spare(middle, pairs), middle
        self.count += len(pairs)
        if not len(self._unproved(q_a, q_b)):
            return True
        if not halvings or (self._spare[pairs] < 0.0).any():
            return False
        return all(self._proves(*half, halvings - 1) for half in ((q_a, middle), (middle, q_b)))

    def _unproved(self, q_a: Array, q_b: Array) -> NDArray[np.intp]:
        """Return the pairs that may come too near on a step from q_a to q_b."""
        turn = np.maximum(np.abs(q_a - self._at), np.abs(q_b - self._at))
        return np.flatnonzero(~((self._levers * turn).sum(axis=1) <= self._spare))
