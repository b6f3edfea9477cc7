# SPDX-License-Identifier: Apache-2.0
"""
What is streamed as segments of a reference, closed loops and jogs, and its execution.

A stream ticks on joint_states, and compares the arm with its reference.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.reference import Reference
from ur5_pick_place.control.motion_monitor import AT_REST, StallDetector
from ur5_pick_place.control.path_position import path_from
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import OnOutcome, Outcome
from ur5_pick_place.planning.paths.trajectory import Trajectory

WAITING_BELOW = 0.005  # speed scaling below which the robot waits; the slider's minimum is 0.01


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
        if max(map(abs, qd.tolist())) < AT_REST:
            self.outcome = self._ended(reference.is_still, is_waiting, q)
        return None if is_waiting else TrajectorySegment(
            *reference.segment(), stamp, speed_scaling
        )

    def _off_reference(self, q: Array) -> str:
        """Return that the measured joints (6,) [rad] do not follow; empty if they do."""
        reason = self._beyond('loop_gap', np.abs(q - self.q_planned), 'its reference')
        return reason and f'{reason}: the arm is held, or its controller is not active'

    def _beyond(self, setting: str, distance: Array, what: str) -> str:
        """Return which joint's distance (6,) [rad] exceeds a setting; empty if none does."""
        joint, limit = int(distance.argmax()), getattr(self._settings, setting)
        if distance[joint] > limit:
            return (
                f'{JOINT_NAMES[joint]} is {distance[joint]:.3f} rad from {what} '
                f'(limit {limit} rad, {setting})'
            )
        return ''

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


_SET_AHEAD = 10.0  # [s] between two stamps; a larger gap would be caught up cycle by cycle
_STOPPING = 2.0  # [s] of scaled time in which a stopped loop comes to rest
_CREEPING = 0.05  # speed scaling below which `_STOPPING` is real time
_SET_BACK = 0.1  # [s]; stamps that decrease by more mean that the clock was set back


@dataclass(eq=False)
class Stream:
    """A running closed loop or jog."""

    loop: StreamedLoop
    trajectory: Trajectory | None  # a roll-out; a jog, which has none, checks its path itself
    on_end: OnOutcome  # called at the end: done if the joints have reached the goal
    stall: StallDetector
    is_wanted_stop: bool = False  # a stop was requested: what the loop says is then not latched
    ended: Outcome | None = None  # while the arm is not at rest yet; nothing more is sent
    _stopping: float = 0.0  # [s] of scaled time since the stop
    _stamp: float | None = None
    within = (0.0, math.inf)  # the times of the trajectory [s] between which the arm is

    @property
    def stop_reason(self) -> str:
        """Why it stops; empty while it goes on."""
        return self.loop.stop_reason

    def path_ahead(self, q: Array) -> Array | None:
        """Return the joints (n, 6) [rad] that it will pass from `q` (6,) on; None if unknown."""
        if self.trajectory is not None:
            return path_from(q, self.trajectory, self.within)
        return self.loop.braking.path if self.loop.braking else None

    def stop(self, reason: str) -> Trajectory | None:
        """Stop as requested; returns the motion to rest, None if nothing was sent yet."""
        self.is_wanted_stop = True
        self.loop.stop(reason)
        return self.loop.braking

    def tick(self, status: RobotStatus) -> tuple[TrajectorySegment | None, str]:
        """
        Return the segment to send for the latest joints, and the fault that ends the loop.

        Either may be missing: None, and '' without a fault.
        """
        assert status.q is not None and status.qd is not None  # else it would not have begun
        passed = 0.0 if self._stamp is None else status.stamp - self._stamp
        if passed < -_SET_BACK:
            return None, (
                'the clock of joint_states was set back: check whether the driver restarted'
            )
        if passed > _SET_AHEAD:
            return None, (
                f'the clock of joint_states was set ahead by {passed:.0f} s: check its publishers '
                'and use_sim_time'
            )
        self._stamp = status.stamp
        if self.ended:
            return None, self._not_stopping(max(passed, 0.0), status.speed_scaling)
        segment = self.loop.tick(status.stamp, status.q, status.qd, status.speed_scaling)
        if self.loop.outcome is not None:
            return segment, ''
        if reason := self._not_stopping(max(passed, 0.0), status.speed_scaling):
            return segment, reason
        return segment, self.stall.tick(status.stamp, status.q, self.loop.q_planned) or ''

    def _not_stopping(self, passed: float, scaling: float) -> str:
        """Return the fault of a loop that has stopped while something else moves the arm."""
        if not (self.loop.stop_reason or self.ended):
            return ''
        self._stopping += passed * (scaling if scaling >= _CREEPING else 1.0)
        if self._stopping <= _STOPPING:
            return ''
        reason = self.loop.stop_reason or 'the end of its jog'
        return f'the arm does not come to rest after: {reason}'
