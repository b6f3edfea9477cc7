# SPDX-License-Identifier: Apache-2.0
"""
The gate: checks every motion from any source before it begins.

Of all this the robot's driver checks only that a trajectory ends at rest: it accepts NaN,
duplicate joints, any speed and any distance from the present joints. A braking motion stays on the
path of a checked motion, nowhere faster, within its limits by construction; it is not checked
again.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import BlockedPath, GateRefusal
from ur5_pick_place.kinematics import JOINT_NAMES, Model, forward
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.collision import CollisionModel, Contact
from ur5_pick_place.planning.dynamics import Dynamics, check_torque
from ur5_pick_place.planning.limits import (
    Limits,
    in_degrees,
    range_from,
    tcp_and_elbow_speed,
)
from ur5_pick_place.planning.paths.follow import tool_text
from ur5_pick_place.planning.paths.trajectory import Trajectory

SLACK, JERK_SLACK = 1.001, 1.05
"""What rounding to nanoseconds and quintic interpolation may add to an exact optimum."""
_REST_VELOCITY = 1e-6  # [rad/s]; the driver refuses a last point faster than 1.2e-7
_DENSE_STEP = 2e-3  # [s]
_TORQUE_STEP = 0.01  # [s]
_SWEEP_STEP = 0.01  # [rad] of joint motion between two collision samples
_STILL = 1e-9  # [rad] between two samples; a joint that turns less does not turn
_TURN_SHARE = 1e-6  # [m/rad]; joint motion counts only on a path on which the tool turns in place


@dataclass(frozen=True)
class GateReport:
    """What the gate measured on an admitted motion: peaks and smallest margins."""

    duration: float  # [s]
    # peak as a fraction of the limit, 0 to 1
    joint_velocity: float
    joint_acceleration: float
    joint_jerk: float
    # peak [m/s]
    tcp_speed: float
    elbow_speed: float
    joint_margin: float  # smallest distance to a joint limit [rad]
    torque: float  # peak as a fraction of the torque limit, 0 to 1; 0 without dynamics


@dataclass(frozen=True)
class Gate:
    """One arm with its load in its scene, and what it may do there."""

    model: Model
    limits: Limits
    collision: CollisionModel
    p_tool_tcp: Array  # (3,) the TCP in tool0 [m]
    start_tolerance: float  # largest distance of the first point from the arm, any joint [rad]
    dynamics: Dynamics | None = None  # the arm with its load; torques are not checked if not given

    def check(self, trajectory: Trajectory, q_now: ArrayLike) -> GateReport:
        """
        Return a report on a motion from joints (6,) [rad], or raise what is wrong with it.

        It is checked as the controller will interpolate it.

        Raises `GateRefusal`: names time, joint or bodies, value and bound.
        """
        away = np.abs(trajectory.q[0] - np.asarray(q_now))
        joint = int(away.argmax())
        if not away[joint] <= self.start_tolerance:
            raise GateRefusal(
                f'motion starts {away[joint]:.4f} rad from the arm at {JOINT_NAMES[joint]} '
                f'(allowed {self.start_tolerance} rad): plan again from the present joints'
                f'{in_degrees(trajectory.q)}',
                'start',
            )
        _check_rest(trajectory, 0)
        return self.check_running(trajectory)

    def check_running(self, trajectory: Trajectory) -> GateReport:
        """Return the report on what remains of a motion that may have begun; raises as `check`."""
        _check_rest(trajectory, -1)
        t = trajectory.dense_times(_DENSE_STEP)
        # Finite points far apart may overflow between them; each check refuses NaN.
        with np.errstate(divide='ignore', over='ignore', invalid='ignore'):
            q, qd, qdd, _ = trajectory.sample(t)
            t_jerk, jerk_peaks = trajectory.jerk_peaks()
        margin, limits = _check_position(t, q, self.limits), self.limits
        velocity = _check_rate('velocity', 'rad/s', t[:, None], qd, limits.qd)
        acceleration = _check_rate('acceleration', 'rad/s^2', t[:, None], qdd, limits.qdd)
        jerk = _check_rate('jerk', 'rad/s^3', t_jerk, jerk_peaks, limits.qddd, JERK_SLACK)
        tcp, elbow = self._check_speed(t, q, qd)
        if found := self._first_contact(t, q):
            raise GateRefusal(f'at {found[0]:.3f} s {found[1]}', 'collision')
        torque = 0.0
        if self.dynamics is not None:
            t = trajectory.dense_times(_TORQUE_STEP)
            torque = check_torque(t, *trajectory.sample(t)[:3], self.dynamics)
        return GateReport(
            trajectory.duration, velocity, acceleration, jerk, tcp, elbow, margin, torque
        )

    def blocked_path(self, trajectory: Trajectory) -> BlockedPath:
        """Return the first bad pose of a motion that `check` refused for it, and how far it is."""
        t = trajectory.dense_times(_DENSE_STEP)
        q = trajectory.sample(t)[0]
        found = self._first_contact(t, q)
        assert found is not None
        T = forward(self.model, q)
        steps = np.linalg.norm(np.diff(T[:, :3, 3], axis=0), axis=1)
        turns = np.abs(np.diff(q, axis=0)).max(axis=1)
        way = np.cumsum(np.append(0.0, steps + _TURN_SHARE * turns))
        fraction = float(np.interp(found[0], t, way) / max(way[-1], _TURN_SHARE))
        where = tool_text(T[int(np.searchsorted(t, found[0]))])
        return BlockedPath(
            f'path can be followed to {100 * fraction:.0f} %: with the {where}, {found[1]}',
            fraction,
        )

    def _check_speed(self, t: Array, q: Array, qd: Array) -> tuple[float, float]:
        limit, name = self.limits.speed, self.limits.speed_name
        speed = tcp_and_elbow_speed(self.model, q, qd, self.p_tool_tcp)
        i, which = np.unravel_index(speed.argmax(), speed.shape)
        if not speed[i, which] <= limit * SLACK:
            raise GateRefusal(
                f'{("TCP", "elbow")[which]} moves at {speed[i, which]:.3f} m/s at {t[i]:.3f} s, '
                f'limit {limit:.3f} m/s ({name}): slow the motion down',
                'speed',
            )
        return float(speed[:, 0].max()), float(speed[:, 1].max())

    def _first_contact(self, t: Array, q: Array) -> tuple[float, Contact] | None:
        """Return the first contact of joints (n, 6) [rad] at times (n,) [s], and its time."""
        kept = _spread(q)
        found = self.collision.check_path(q[kept])
        if found is None:
            return None
        return float(np.interp(found.sample, np.arange(len(kept)), t[kept])), found.contact


def _check_rest(trajectory: Trajectory, point: int) -> None:
    """Refuse a motion that is not at rest at its first point, 0, or its last one, -1."""
    speed = np.abs(trajectory.qd[point])
    joint = int(speed.argmax())
    if not speed[joint] <= _REST_VELOCITY:
        raise GateRefusal(
            f'motion {"ends" if point else "starts"} with {JOINT_NAMES[joint]} at '
            f'{speed[joint]:.4g} rad/s: it must start and end at rest',
            'rest',
        )


def _check_position(t: Array, q: Array, limits: Limits) -> float:
    margin = np.minimum(q - limits.q_min, limits.q_max - q)
    low, high = range_from(limits.q_min, limits.q_max, q[0])
    spare = np.minimum(q - low, high - q)
    i, joint = np.unravel_index(spare.argmin(), spare.shape)
    if not spare[i, joint] >= 0.0:
        raise GateRefusal(
            f'{JOINT_NAMES[joint]} = {math.degrees(q[i, joint]):.5f} deg at {t[i]:.3f} s '
            f'leaves its range {math.degrees(limits.q_min[joint]):.0f} to '
            f'{math.degrees(limits.q_max[joint]):.0f} deg{in_degrees(q)}',
            'position',
        )
    return float(margin.min())


def _check_rate(
    name: str, unit: str, t: Array, rate: Array, bound: Array, slack: float = SLACK
) -> float:
    used = np.abs(rate) / bound
    i, joint = np.unravel_index(used.argmax(), used.shape)
    if not used[i, joint] <= slack:
        at = np.broadcast_to(t, rate.shape)[i, joint]
        raise GateRefusal(
            f'{name} of {JOINT_NAMES[joint]} is {abs(rate[i, joint]):.3f} {unit} at '
            f'{at:.3f} s, limit {bound[joint]:.3f} {unit}: slow the motion down',
            name,
        )
    return float(used[i, joint])


def _spread(q: Array) -> NDArray[np.intp]:
    """
    Return indices of samples about `_SWEEP_STEP` apart; the checker sweeps between them.

    Samples at which a joint reverses are among them, as a sweep would miss the turning point.
    """
    steps = np.diff(q, axis=0)
    travel = np.concatenate([[0.0], np.cumsum(np.abs(steps).max(axis=1))])
    marks = np.arange(0.0, travel[-1], _SWEEP_STEP)
    way = np.where(np.abs(steps) > _STILL, np.sign(steps), 0.0)
    turns = 1 + np.flatnonzero(((way[1:] != way[:-1]) & (way[1:] * way[:-1] <= 0.0)).any(axis=1))
    return np.unique(np.concatenate([np.searchsorted(travel, marks), turns, [len(q) - 1]]))
