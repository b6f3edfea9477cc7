# SPDX-License-Identifier: Apache-2.0
"""
Jogging: the arm follows velocity commands for as long as they keep coming.

The stream is that of a closed loop: with each joint_states message the reference grows by the
cycles that pass until the next one, and the segment that is sent runs to the end of the stopping
ramp. A cycle is added only if it passes the gate together with its ramp; else the arm is already
on a ramp that has passed.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ur5_pick_place.control.loops.jog_velocity import Command, JogVelocity
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.reference import (
    Reference,
    gentle_limits,
    is_still,
    trajectory_of,
)
from ur5_pick_place.control.loops.stream import StreamedLoop
from ur5_pick_place.errors import GateRefusal
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import Outcome
from ur5_pick_place.planning.limits import Limits, Scaling
from ur5_pick_place.planning.planner import MotionPlanner

COMMAND_TIMEOUT = 0.2
"""Time after the last command at which the arm brakes [s, steady clock of its arrival]."""

_HOLD = 4  # cycles between two looks along the way ahead
_LATENESS = 4 * CYCLE  # [s] by which the reference lags behind a velocity that changes steadily
# What the gate refuses although the way ahead is free (torque) is tried again more slowly.
_SLOWER, _FASTER, _SLOWEST = 0.5, 1.05, 1 / 32


class Jog(StreamedLoop):
    """
    One jog, from its first command until the arm is at rest without one.

    - `planner`: its gate checks every cycle; its velocity scaling bounds the motion
    - `settings`: of the closed loops: `loop_velocity`, `loop_ahead` and `loop_gap` hold here too
    - `command`: the first one
    - `is_reduced`: returns whether the robot is in reduced mode
    - `clock`: returns the steady time [s]

    `slowed_by`: what slows the arm or keeps it at rest, and how far away that is; empty if nothing
    does.
    """

    def __init__(
        self,
        planner: MotionPlanner,
        settings: LoopSettings,
        command: Command,
        is_reduced: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(settings)
        self._planner = planner
        self._is_reduced, self._clock = is_reduced, clock
        self._law = JogVelocity(planner, self._limits)
        self._held, self._room, self._share = 0, 1.0, 1.0
        self.slowed_by = ''
        self.command(command)

    def command(self, command: Command) -> None:
        """Follow a command from now on, in place of the one before."""
        self._command, self._arrived = command, self._clock()

    @property
    def is_wanted(self) -> bool:
        """Whether the last command is recent and commands motion."""
        is_recent = self._clock() - self._arrived <= COMMAND_TIMEOUT
        return is_recent and not self._command.is_zero and not self.stop_reason

    @property
    def is_ending(self) -> bool:
        """Whether the arm comes to rest: after a stop, or without a command."""
        return not self.is_wanted

    def _begin(self, q: Array) -> Reference:
        return Reference(q, self._planner.limits)

    def _look(self, reference: Reference, q: Array, is_waiting: bool) -> None:
        if is_waiting:
            self.slowed_by = 'the speed slider is at 0'
        if reason := self._off_reference(q):
            self.stop(f'jog stopped: {reason}')

    def _limits(self) -> Limits:
        """Return the present bounds on joint velocity and speed."""
        slowed = self._planner.limits_at(Scaling())
        gentle = gentle_limits(self._planner.limits_in(self._is_reduced()))
        return replace(
            gentle,
            qd=np.minimum(gentle.qd, np.minimum(slowed.qd, self._settings.loop_velocity)),
            speed=min(gentle.speed, slowed.speed),
        )

    def _extend(self, reference: Reference, q: Array) -> None:
        tail = reference.tail
        q_last, qd_last, _ = tail
        wanted, reason = self._law.velocity(q_last + _LATENESS * qd_last, self._command)
        if not self._held:
            self._room, self.slowed_by = self._law.room(q_last, wanted, self._command)
            self._held = _HOLD
        self._held -= 1
        self.slowed_by = reason or self.slowed_by
        velocity = self._share * self._room * wanted
        if is_still(tail) and not velocity.any():
            return
        state, ramp = reference.propose(velocity)
        states = [tail, state, ramp.end]
        piece = trajectory_of(states, [0, 1, 1 + ramp.cycles])
        try:
            self._planner.check_running_motion(piece, self._is_reduced())
        except GateRefusal as refusal:
            self.slowed_by, self._held = str(refusal), 0
            self._share = max(_SLOWEST, _SLOWER * self._share)
        else:
            reference.extend(state, ramp)
            self._share = min(1.0, _FASTER * self._share)

    def _ended(self, is_still: bool, is_waiting: bool, q: Array) -> Outcome | None:
        if self.is_wanted or not (is_still or is_waiting):
            return None
        if is_still:
            return Outcome.from_reason(self.stop_reason)
        reason = self.stop_reason or 'the jog ended while the speed slider was at 0'
        return Outcome.failed(reason)
