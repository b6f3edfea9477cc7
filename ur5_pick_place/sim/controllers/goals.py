# SPDX-License-Identifier: Apache-2.0
"""
Goals of the driver's trajectory controller: acceptance, tolerances and results.

Joint limits, finite values and the distance to the first point are not checked, as the real
controller does not check them either.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.controllers.spline import Sample, TrajectoryCommand, Waypoint

PATH_TOLERANCE = 0.2  # [rad], UR's constraints.<joint>.trajectory
GOAL_TOLERANCE = 0.1  # [rad], UR's constraints.<joint>.goal
REST_VELOCITY = 1.2e-7  # [rad/s], float epsilon: what a last point may carry

SUCCESSFUL = 0
INVALID_GOAL = -1
PATH_TOLERANCE_VIOLATED = -4
GOAL_TOLERANCE_VIOLATED = -5

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JointTolerance:
    """
    A client's tolerance of one joint: > 0 replaces, 0 keeps the default, -1 switches it off.

    A message of the type of this name is taken as well.
    """

    name: str
    position: float = 0.0  # [rad]
    velocity: float = 0.0  # has no effect on a position interface, but is checked
    acceleration: float = 0.0


@dataclass(frozen=True)
class Tolerances:
    """Tolerances of a goal; infinite where switched off."""

    path: Array  # (6,) [rad]
    goal: Array  # (6,) [rad]
    goal_time: float = 0.0  # [s]; 0 waits without limit

    @classmethod
    def default(cls, joints: int) -> 'Tolerances':
        """Return the defaults of UR."""
        return cls(np.full(joints, PATH_TOLERANCE), np.full(joints, GOAL_TOLERANCE))

    def overridden(
        self,
        joint_names: Sequence[str],
        path: Sequence[JointTolerance],
        goal: Sequence[JointTolerance],
        goal_time: float,
    ) -> 'Tolerances':
        """Return these with a client's tolerances; an invalid one drops all, with a log entry."""
        limits = {'path': self.path.copy(), 'goal': self.goal.copy()}
        for kind, tolerances in (('path', path), ('goal', goal)):
            for given in tolerances:
                values = (given.position, given.velocity, given.acceleration)
                if given.name not in joint_names or any(v < 0.0 and v != -1.0 for v in values):
                    _log.error('%s tolerance %s: using the defaults for all', kind, given)
                    return self
                if given.position != 0.0:
                    joint = joint_names.index(given.name)
                    limits[kind][joint] = math.inf if given.position < 0.0 else given.position
        return Tolerances(limits['path'], limits['goal'], max(goal_time, 0.0))


@dataclass(frozen=True)
class GoalResult:
    """Result of a goal; the code alone does not imply success."""

    status: str  # 'succeeded', 'aborted' or 'canceled'
    code: int
    message: str


@dataclass(frozen=True)
class Tracking:
    """State of the controller in one cycle; joint arrays are (6,) in controller order."""

    time: float  # [s]
    reference: Sample
    reference_time: float  # scaled trajectory time [s]
    q: Array  # measured
    qd: Array
    elapsed: float  # unscaled time since the trajectory's start [s]
    error: Array  # reference - measured [rad]
    output: Array  # command [rad]
    scaling: float


class AcceptedGoal:
    """An accepted action goal: `tracking` is its latest cycle, `outcome` is None until it ends."""

    def __init__(self, tolerances: Tolerances) -> None:
        self.tolerances = tolerances
        self.tracking: Tracking | None = None
        self.outcome: GoalResult | None = None

    @property
    def ended(self) -> str:
        """How it ended: 'succeeded', 'aborted' or 'canceled'; '' while it runs."""
        return self.outcome.status if self.outcome else ''


def check_command(command: TrajectoryCommand, joint_names: Sequence[str], now: float) -> None:
    """
    Check a command as the driver does, in the same order.

    Raises `InvalidInput`: the command is refused; gives the first reason.
    """
    names, points = command.joint_names, command.points
    n = len(joint_names)
    if len(names) != n:
        raise InvalidInput(f'{len(names)} joint names: all {n} joints are needed')
    if not points:
        raise InvalidInput('no points: an empty trajectory is not a stop command')
    for name in names:
        if name not in joint_names:
            raise InvalidInput(f'unknown joint {name!r}; known: {", ".join(joint_names)}')
    if any(abs(v) > REST_VELOCITY for v in points[-1].velocities):
        raise InvalidInput('the last point has a velocity other than zero')
    end = command.stamp + points[-1].time
    if command.stamp != 0.0 and end < now:
        raise InvalidInput(f'trajectory ends at {end:.3f} s, {now - end:.3f} s ago')
    previous = -math.inf
    for i, point in enumerate(points):
        _check_point(i, point, n, previous)
        previous = point.time


def _check_point(i: int, point: Waypoint, n: int, previous: float) -> None:
    if point.time <= previous:
        raise InvalidInput(f'point {i} at {point.time} s: must be later than {previous} s')
    if len(point.positions) != n:
        raise InvalidInput(f'point {i} has {len(point.positions)} positions: must be {n}')
    for name in ('velocities', 'accelerations'):
        given = len(getattr(point, name))
        if given not in (0, n):
            raise InvalidInput(f'point {i} has {given} {name}: must be 0 or {n}')
    if len(point.effort):
        raise InvalidInput(f'point {i} has efforts: there is no effort interface')
