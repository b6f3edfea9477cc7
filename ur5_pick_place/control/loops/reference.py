# SPDX-License-Identifier: Apache-2.0
"""
The joint reference of a closed loop, one cycle at a time, with its stopping ramp.

A change from velocity v0 and acceleration a0 to velocity v and zero acceleration is the cubic that
meets them, over the fewest whole cycles within every joint's acceleration and jerk limits. All
joints share its duration, so that from a steady motion the velocity vector moves straight to the
new one. The positions are a quartic, which the robot's controller, joining points by quintics,
follows exactly: limits kept here are kept there.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ur5_pick_place.kinematics._ik import fewest_cycles, fill_change, keeps_chord
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.gate import GateReport
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.trajectory import Trajectory

STOP_TIME = 1.0  # [s] within which a steady motion can stop; bounds the velocity
# Fraction of acceleration and jerk that a motion uses; the rest lets its ramp begin anywhere.
_GENTLE = 0.7
_MARGIN = 0.97  # share of the velocity and speed bounds, likewise
_MOST_CYCLES = 300  # of a change of velocity
_LEAST = 0.01  # fraction of the joint velocity limits, and m/s, that a motion may always use
_HISTORY = 30  # cycles kept of the past
_STILL = 1e-9  # [rad/s]
_STRAIGHT = 1e-4  # [rad]; a change that leaves its chord by more is swept piece by piece
_BETWEEN = 4  # cycles between two ends of a piece
_RECENT = 25  # advances; the longest of them is expected next
_LONGEST_ADVANCE = 13  # cycles; joint_states further apart count as silent


def gentle_limits(limits: Limits) -> Limits:
    """Return the limits of a motion whose stopping ramp can keep `limits`."""
    stoppable = np.minimum(limits.qdd * STOP_TIME / 1.5, limits.qddd * STOP_TIME**2 / 6.0)
    return replace(
        limits,
        qd=_MARGIN * np.minimum(limits.qd, stoppable),
        qdd=_GENTLE * limits.qdd,
        qddd=_GENTLE * limits.qddd,
        speed=_MARGIN * limits.speed,
    )


def limits_used(report: GateReport, limits: Limits) -> Limits:
    """Return the limits that a motion with this gate report has used, within `limits`."""
    speed = max(report.tcp_speed, report.elbow_speed)
    qd = limits.qd * max(report.joint_velocity, _LEAST) / _MARGIN
    # Always enough to stop from the velocity.
    qdd = np.maximum(limits.qdd * report.joint_acceleration / _GENTLE, 1.5 * qd / STOP_TIME)
    qddd = np.maximum(limits.qddd * report.joint_jerk / _GENTLE, 6.0 * qd / STOP_TIME**2)
    return replace(
        limits,
        qd=np.minimum(qd, limits.qd),
        qdd=np.minimum(qdd, limits.qdd),
        qddd=np.minimum(qddd, limits.qddd),
        speed=min(max(speed, _LEAST) / _MARGIN, limits.speed),
    )


State = Array
"""Joint positions, velocities and accelerations: rows q, qd and qdd of (3, 6) [rad, s]."""


def at_rest(q: Array) -> State:
    """Return the state of an arm at rest at joints (6,) [rad]."""
    return np.array([q, np.zeros(6), np.zeros(6)])


def is_still(state: State) -> bool:
    """Return whether velocity and acceleration are zero."""
    return bool(max(map(abs, state[1:].ravel().tolist())) < _STILL)


class Change:
    """A change of velocity: from `start` to `velocity` (6,) [rad/s] in whole `cycles`."""

    def __init__(self, start: State, velocity: Array, cycles: int) -> None:
        self.velocity, self.cycles = velocity, cycles
        self._states = np.empty((cycles + 1, 3, 6))
        fill_change(start, velocity, CYCLE, self._states)

    @property
    def end(self) -> State:
        """The first state at the new velocity."""
        return self.at(self.cycles)

    def at(self, cycle: int) -> State:
        """Return the state some cycles after the start; from the end on the velocity is kept."""
        state: State = self._states[min(cycle, self.cycles)]
        if cycle <= self.cycles:
            return state
        return np.array([state[0] + (cycle - self.cycles) * CYCLE * self.velocity, *state[1:]])

    @property
    def path(self) -> Array:
        """Joints (n, 6) [rad] from start to end, whose chords are within 0.3 mrad of it."""
        if keeps_chord(self._states, _STRAIGHT):
            return self._states[[0, -1], 0]
        return self._states[[*range(0, self.cycles, _BETWEEN), self.cycles], 0]


def shortest_change(start: State, velocity: Array, limits: Limits) -> Change:
    """Return the change to `velocity` (6,) [rad/s] in the fewest cycles within the limits."""
    target = np.array(velocity, dtype=float)
    cycles = fewest_cycles(start, target, limits.qdd, limits.qddd, CYCLE, _MOST_CYCLES)
    return Change(start, target, cycles)


class Reference:
    """
    Committed states at whole cycles, past and future, and the stopping ramp after the last.

    - `q` (6,): joints at which the arm rests [rad]
    - `limits`: kept by the ramp

    - `limits`: kept by the motion before the ramp
    - `time`: time of the robot's controller, in scaled time [s]
    - `q` (6,): joints at that time [rad]
    """

    def __init__(self, q: Array, limits: Limits) -> None:
        self._ramp_limits, self.limits = limits, gentle_limits(limits)
        self._first = 0  # cycle of the first state that is kept
        self._states = [at_rest(q)]
        self._ramp = self._stop(self._states[0])
        self._advances = deque([1], maxlen=_RECENT)  # cycles of each
        self.time = 0.0
        self.q: Array = self._states[0][0]

    def advance(self, seconds: float, committed: int) -> None:
        """Advance the time and commit `committed` cycles from now, of the ramp if need be."""
        before = int(self.time / CYCLE + 1e-6)
        self.time += seconds
        now = int(self.time / CYCLE + 1e-6)
        self._advances.append(min(now - before, _LONGEST_ADVANCE))
        last = self._first + len(self._states) - 1
        for cycle in range(last + 1, now + committed + 1):
            self._states.append(self._ramp.at(cycle - last))
        if now + committed > last:
            self._ramp = self._stop(self._states[-1])
        surplus = now - _HISTORY - self._first
        if surplus > 0:
            del self._states[:surplus]
            self._first += surplus
        self.q = self.motion_at(self.time)[0]

    @property
    def tail(self) -> State:
        """The last committed state."""
        return self._states[-1]

    def missing(self, committed: int) -> int:
        """
        Return how many cycles to extend by, so that the next advance needs none of the ramp.

        Its length is not known yet; the longest of the recent ones is taken. Below 1 = none.
        """
        ahead = self._first + len(self._states) - 1 - int(self.time / CYCLE + 1e-6)
        return committed + max(1, *self._advances) - ahead

    @property
    def is_still(self) -> bool:
        """Whether all committed states from now on are at rest."""
        now = int(self.time / CYCLE + 1e-6)
        return all(map(is_still, self._states[max(0, now - self._first) :]))

    def motion_at(self, time: float) -> State:
        """Return the state at a scaled time [s] within the kept history."""
        x = min(max(time / CYCLE - self._first, 0.0), len(self._states) - 1.0)
        i = min(int(x), len(self._states) - 2) if len(self._states) > 1 else 0
        a, b = self._states[i], self._states[min(i + 1, len(self._states) - 1)]
        return np.asarray(a + (x - i) * (b - a))

    def propose(self, velocity: Array) -> tuple[State, Change]:
        """Return the next state towards `velocity` (6,) [rad/s], and the ramp after it."""
        state = shortest_change(self.tail, velocity, self.limits).at(1)
        return state, self._stop(state)

    def extend(self, state: State, ramp: Change) -> None:
        """Commit a state and ramp from `propose`."""
        self._states.append(state)
        self._ramp = ramp

    def segment(self) -> tuple[Trajectory, float]:
        """
        Return the committed states from now on with the ramp, and the age of the first one [s].

        The last point is at rest.
        """
        now = int(self.time / CYCLE + 1e-6)
        states = self._states[max(0, now - self._first) :]
        cycles = list(range(len(states)))
        if not is_still(states[-1]):
            states = [*states, self._ramp.end]
            cycles.append(cycles[-1] + self._ramp.cycles)
        return trajectory_of(states, cycles), self.time - now * CYCLE

    def _stop(self, state: State) -> Change:
        return shortest_change(state, np.zeros(6), self._ramp_limits)


def trajectory_of(states: Sequence[State], cycles: Sequence[int]) -> Trajectory:
    """Return the trajectory through states at given cycles, the first 0, ending at rest."""
    q, qd, qdd = np.concatenate(states).reshape(-1, 3, 6).swapaxes(0, 1)
    qd[-1] = qdd[-1] = 0.0
    return Trajectory(CYCLE * np.array(cycles), q, qd, qdd)
