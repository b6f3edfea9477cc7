# SPDX-License-Identifier: Apache-2.0
"""What is streamed as segments of a reference: closed loops and jogs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.reference import Reference
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import Outcome
from ur5_pick_place.planning.paths.trajectory import Trajectory

WAITING_BELOW = 0.005  # speed scaling below which the robot waits; the slider's minimum is 0.01
NOT_FOLLOWED = ': the arm is held, or its controller is not active'
AT_REST = 0.01  # [rad/s]; measured joints below this speed count as at rest


@dataclass(frozen=True)
class TrajectorySegment:
    """The part of a reference that comes next, for the controller to join at its speed scaling."""

    trajectory: Trajectory  # in scaled time, as the controller slows it down
    age: float  # time in the trajectory at the stamp [s]
    stamp: float  # of the joints that it continues [s]
    speed_scaling: float


class StreamedLoop(ABC):
    """
    A reference that grows with each message of the joints.

    - `stop_reason`: why it stops; empty while it goes on
    - `outcome`: None while moving

    """

    def __init__(self, settings: LoopSettings) -> None:
        self._settings = settings
        self._committed = round(settings.loop_ahead / CYCLE)
        self._reference: Reference | None = None
        self._stamp = 0.0
        self.stop_reason = ''
        self.outcome: Outcome | None = None

    @property
    def q_planned(self) -> Array:
        """The reference joints (6,) [rad] of now; the arm follows them with servo lag."""
        assert self._reference is not None
        return self._reference.q

    @property
    def braking(self) -> Trajectory | None:
        """The motion to rest that was sent last; None before the first one."""
        return self._reference.segment()[0] if self._reference else None

    @property
    def is_ending(self) -> bool:
        """Whether the arm is to come to rest."""
        return bool(self.stop_reason)

    def stop(self, reason: str) -> None:
        """Stop on the ramp that was sent; the outcome will be the reason."""
        self.stop_reason = self.stop_reason or reason

    def tick(
        self, stamp: float, q: Array, qd: Array, speed_scaling: float
    ) -> TrajectorySegment | None:
        """
        Return the segment to send for measured joints (6,) [rad, rad/s] with a stamp [s].

        None for a stamp that is not new, or while the robot's speed slider is at zero.

        """
        reference = self._reference
        if reference is None:
            self._stamp, reference = stamp, self._begin(q)
            self._reference = reference
        elif stamp <= self._stamp:
            return None
        reference.advance((stamp - self._stamp) * speed_scaling, self._committed)
        self._stamp = stamp
        is_waiting = speed_scaling < WAITING_BELOW
        self._look(reference, q, is_waiting)
        for _ in range(0 if is_waiting else reference.missing(self._committed)):
            if not self.is_ending:
                self._extend(reference, q)
        if np.abs(qd).max() < AT_REST:
            self.outcome = self._ended(reference.is_still, is_waiting, q)
        return None if is_waiting else TrajectorySegment(
            *reference.segment(), stamp, speed_scaling
        )

    @abstractmethod
    def _begin(self, q: Array) -> Reference:
        """Return the reference of an arm at rest at joints (6,) [rad]."""

    @abstractmethod
    def _look(self, reference: Reference, q: Array, is_waiting: bool) -> None:
        """Stop if the measured joints (6,) [rad] say so; `is_waiting` = the slider is at 0."""

    @abstractmethod
    def _extend(self, reference: Reference, q: Array) -> None:
        """Commit one more cycle of the reference, unless it or its stopping ramp must not be."""

    @abstractmethod
    def _ended(self, is_still: bool, is_waiting: bool, q: Array) -> Outcome | None:
        """Return how it ended, now that the arm is at rest; None if it goes on."""
