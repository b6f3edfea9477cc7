# SPDX-License-Identifier: Apache-2.0
"""
The driver's passthrough trajectory controller: the robot has the whole trajectory.

It takes action goals alone, one at a time. There is no path tolerance; goal tolerances, for all
joints or none, are judged once, when the robot has finished; 0 means 0, not the default. A
cancel lets the robot stop as `stopj` does. Here the points reach the robot at once; the real
driver needs a cycle for each.
"""

from collections.abc import Sequence

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.controllers.goals import (
    GOAL_TOLERANCE_VIOLATED,
    SUCCESSFUL,
    AcceptedGoal,
    JointTolerance,
    Tolerances,
)
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.controllers.trajectory_controller import TrajectoryController
from ur5_pick_place.sim.physics.arm import CYCLE

_STOP_ACCELERATION = 4.0  # [rad/s2] of stopj in the driver's program


class PassthroughController(TrajectoryController):
    """
    Passes whole trajectories to the robot.

    `joint_names`: the joints in controller order. `period`: update period [s].
    """

    def __init__(self, joint_names: Sequence[str], period: float = CYCLE) -> None:
        super().__init__(joint_names, period)
        self._stopping: Array | None = None  # joint velocity (6,) [rad/s] of a stop
        self.defaults = Tolerances(np.full(6, np.inf), np.full(6, np.inf))
        self._tolerances: Sequence[JointTolerance] = ()  # of the goal
        self._names, self._last = self.joint_names, Waypoint(0.0, ())  # its joints, and its end
        self._qd = self._output

    def check_goal(
        self,
        command: TrajectoryCommand,
        now: float,
        goal_tolerances: Sequence[JointTolerance] = (),
    ) -> None:
        """Raise `InvalidInput` with the reason if a goal is rejected."""
        if self.goal is not None:
            raise InvalidInput('a trajectory is running: cancel it first')
        super().check_goal(command, now, goal_tolerances)
        if set(command.joint_names) != set(self.joint_names):  # the real driver fails to map them
            raise InvalidInput(f'joint names {", ".join(command.joint_names)}: must be all, once')
        for kind in ('velocities', 'accelerations'):
            if len({len(getattr(point, kind)) for point in command.points}) > 1:
                raise InvalidInput(f'some points have {kind}: must be all points, or none')
        for tolerance in goal_tolerances:
            if tolerance.name not in self.joint_names:
                raise InvalidInput(f'goal tolerance of the unknown joint {tolerance.name!r}')
        given = len(goal_tolerances)
        if given not in (0, len(self.joint_names)):
            raise InvalidInput(f'goal tolerances of {given} joints: must be all, or none')

    def start_goal(
        self,
        command: TrajectoryCommand,
        now: float,
        path_tolerances: Sequence[JointTolerance] = (),
        goal_tolerances: Sequence[JointTolerance] = (),
        goal_time: float = 0.0,
    ) -> AcceptedGoal:
        """Pass a trajectory to the robot; the path tolerance has no effect."""
        self.check_goal(command, now, goal_tolerances)
        accepted = super().start_goal(command, now)
        self._names, self._last = tuple(command.joint_names), command.points[-1]
        self._stopping, self._tolerances = None, goal_tolerances
        return accepted

    def follow(self, command: TrajectoryCommand, now: float) -> None:
        """Refuse: there is no topic."""
        raise InvalidInput('takes action goals alone')

    def cancel(self, goal: AcceptedGoal) -> None:
        """Cancel a goal; the robot brakes on a straight line in joint space."""
        if goal is self.goal:
            velocity = np.zeros(6) if self.tracking is None else self.tracking.reference.qd
            self._finish('canceled', SUCCESSFUL, '')
            self._stopping = np.array(velocity)

    def activate(self, q: Array) -> None:
        """Activate and hold the measured joints (6,) [rad]."""
        self._stopping = None
        super().activate(q)

    def update(self, now: float, q: Array, qd: Array, scaling: float) -> Array:
        """Run one cycle; see `TrajectoryController.update`."""
        self._qd = qd
        if self._stopping is None:
            return super().update(now, q, qd, scaling)
        fastest = float(np.abs(self._stopping).max())
        slower = max(fastest - _STOP_ACCELERATION * self._period, 0.0)
        if slower == 0.0:
            self._stopping = None
            self._hold(self._output)
            return super().update(now, q, qd, scaling)
        self._stopping = self._stopping * (slower / fastest)
        self._output = self._output + self._stopping * self._period * scaling
        return self._output

    def _finish(self, status: str, code: int, message: str) -> None:
        if status == 'succeeded' and not self._is_within_tolerances():
            status, code = 'aborted', GOAL_TOLERANCE_VIOLATED
            message = 'Robot not within tolerances at end of trajectory.'
        super()._finish(status, code, message)

    def _is_within_tolerances(self) -> bool:
        names, last = self._names, self._last
        for given in self._tolerances:
            j, k = self.joint_names.index(given.name), names.index(given.name)
            if abs(self._q[j] - last.positions[k]) > given.position:
                return False
            if len(last.velocities) and abs(self._qd[j] - last.velocities[k]) > given.velocity:
                return False
        return True
