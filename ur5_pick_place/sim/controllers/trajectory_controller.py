# SPDX-License-Identifier: Apache-2.0
"""
The driver's joint trajectory controller: tracking, tolerances and results.

It behaves as UR's scaled trajectory controller 4.8 with joint_trajectory_controller 5.17 and the
UR configuration, including their quirks: a goal without goal time never times out, and
cancelling holds the measured position without braking. With `deceleration` each joint brakes by
itself instead, as with `decelerate_on_cancel`: the arm leaves its path.

With `splices` it replaces trajectories as joint_trajectory_controller does after 6.9 with
`allow_trajectory_replacement`: the points of the running trajectory up to the new stamp are kept,
one period late, before the new points; a stamp that is not in the future counts as now.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.controllers.goals import (
    GOAL_TOLERANCE_VIOLATED,
    INVALID_GOAL,
    PATH_TOLERANCE_VIOLATED,
    SUCCESSFUL,
    AcceptedGoal,
    GoalResult,
    JointTolerance,
    Tolerances,
    Tracking,
    check_command,
)
from ur5_pick_place.sim.controllers.spline import Knot, Sample, Spline, TrajectoryCommand, Waypoint
from ur5_pick_place.sim.physics.arm import CYCLE


class TrajectoryController:
    """
    Joint trajectory controller with a position command interface.

    `joint_names`: the joints in controller order. `period`: update period [s]. `splices`: whether
    a new trajectory is spliced onto the running one, instead of starting from the measured state.
    """

    def __init__(
        self, joint_names: Sequence[str], period: float = CYCLE, splices: bool = False
    ) -> None:
        self.splices = splices
        # of each joint after a cancel [rad/s2]; 0: the measured position is held at once
        self.deceleration = 0.0
        self.joint_names = tuple(joint_names)
        self.active = False
        self.rejecting = False  # rejects every goal, as when another controller claims the robot
        self.goal: AcceptedGoal | None = None
        self.tracking: Tracking | None = None
        self._period = period
        self.defaults = Tolerances.default(len(self.joint_names))
        self._next: TrajectoryCommand | None = None
        self._spline: Spline | None = None
        self._holding = True
        self._start = self._time = self._updated = 0.0
        self._prefix = 0  # waypoints before those of the last command
        self._output = np.zeros(len(self.joint_names))
        self._q, self._qd = self._output, np.zeros(len(self.joint_names))

    def activate(self, q: Array) -> None:
        """Activate and hold the measured joints (6,) [rad]."""
        self.active = True
        self._q = self._output = np.array(q, dtype=float)
        self._hold(self._q)

    def deactivate(self) -> None:
        """Deactivate; a running goal is aborted."""
        self.active = False
        reason = 'Current goal cancelled during deactivate transition.'
        self._finish('aborted', INVALID_GOAL, reason)
        self.tracking = self._spline = None

    def check_goal(
        self,
        command: TrajectoryCommand,
        now: float,
        goal_tolerances: Sequence[JointTolerance] = (),
    ) -> None:
        """
        Raise `InvalidInput` with the reason if a goal is rejected.

        Invalid goal tolerances do not cause a rejection: the defaults are used instead.
        """
        if self.rejecting:
            raise InvalidInput('every goal is being rejected')
        self._check(command, now)

    def start_goal(
        self,
        command: TrajectoryCommand,
        now: float,
        path_tolerances: Sequence[JointTolerance] = (),
        goal_tolerances: Sequence[JointTolerance] = (),
        goal_time: float = 0.0,
    ) -> AcceptedGoal:
        """Follow a trajectory as an action goal, which preempts a running one; return the goal."""
        self.check_goal(command, now, goal_tolerances)
        self._finish('aborted', INVALID_GOAL, 'Current goal preempted by new incoming action.')
        tolerances = self.defaults.overridden(
            self.joint_names, path_tolerances, goal_tolerances, goal_time
        )
        self.goal = AcceptedGoal(tolerances)
        self._next, self._holding = command, False
        return self.goal

    def follow(self, command: TrajectoryCommand, now: float) -> None:
        """Follow a trajectory from the topic; a running goal is then checked against it."""
        self._check(command, now)
        self._next, self._holding = command, False

    def _check(self, command: TrajectoryCommand, now: float) -> None:
        if not self.active:
            raise InvalidInput('controller is not running')
        check_command(command, self.joint_names, now)

    def cancel(self, goal: AcceptedGoal) -> None:
        """Cancel a goal and stop the joints; no effect if it has ended already."""
        if goal is self.goal:
            self._finish('canceled', SUCCESSFUL, '')
            self._stop()

    def update(self, now: float, q: Array, qd: Array, scaling: float) -> Array:
        """
        Run one cycle.

        `now`: time of the measurement [s]. `q` and `qd` (6,): measured joints [rad, rad/s].
        `scaling`: speed scaling, 0 to 1; trajectory time advances by the period times this.

        Returns (6,): joint command for the end of this cycle [rad].
        """
        self._q, self._qd = q, qd
        first = self._next is not None
        if first:
            self._enter(now, Knot(q, qd), scaling)
        else:
            # ROS keeps whole nanoseconds; floats added up would drift past the waypoints.
            self._time = round(self._time + (now - self._updated) * scaling, 9)
        self._updated = now
        assert self._spline is not None
        reference = self._spline.sample(self._time)
        ahead = self._spline.sample(self._time + self._period)
        error = reference.q - q
        goal = self.goal
        self._judge(error, ahead, first)
        # The waypoint reported is that of the command, one period ahead of the reference.
        reference = replace(reference, index=max(ahead.index - self._prefix, 0))
        self.tracking = Tracking(
            now, reference, self._time, q, qd, now - self._start, error, self._output, scaling
        )
        if goal is not None:
            goal.tracking = self.tracking
        return self._output

    def query(self, time: float) -> Sample | None:
        """Return the state of the running trajectory at a ROS time [s], None outside of it."""
        if self._spline is None:
            return None
        elapsed = time - self._start
        if elapsed < self._spline.entry_time or elapsed >= self._spline.end_time:
            return None
        return self._spline.sample(elapsed)

    def _enter(self, now: float, measured: Knot, scaling: float) -> None:
        """Build the spline of the pending command, from the measured state or by splicing."""
        command, self._next = self._next, None
        assert command is not None
        times, knots = [p.time for p in command.points], self._knots(command, measured)
        running, self._prefix = self._spline, 0
        if self.splices and not self._holding and running and len(running.times) > 1:
            wait = max(command.stamp - now, 0.0) * scaling
            times, knots = self._spliced(running, wait, times, knots)
            self._start, self._time = now, 0.0
        else:
            self._start = command.stamp or now
            self._time = round(now - self._start, 9)
        self._spline = Spline(times, knots, self._time, measured)

    def _spliced(
        self, running: Spline, wait: float, times: list[float], knots: list[Knot]
    ) -> tuple[list[float], list[Knot]]:
        """Return waypoints that begin now, and leave the running spline after `wait` [s]."""
        begin = self._time
        before = [
            (round(t - begin, 9), knot)
            for t, knot in running.waypoints
            if begin < t < begin + wait
        ]
        if times[0] > 0.0:
            leave = running.sample(begin + wait)
            before.append((wait, Knot(leave.q, leave.qd, leave.qdd)))
        self._prefix = len(before)
        new = [(round(wait + t, 9), knot) for t, knot in zip(times, knots, strict=True)]
        all_times, all_knots = zip(*before, *new, strict=True)
        return list(all_times), list(all_knots)

    def _knots(self, command: TrajectoryCommand, measured: Knot) -> list[Knot]:
        """Return the joint states at the waypoints of a command."""
        column = [self.joint_names.index(name) for name in command.joint_names]

        def arranged(values: Sequence[float], absent: Array) -> Array | None:
            if not len(values):
                return None
            row = absent.copy()
            row[column] = values
            return row

        zero = np.zeros_like(measured.q)
        knots = []
        for point in command.points:
            q = arranged(point.positions, measured.q)
            assert q is not None
            knots.append(
                Knot(q, arranged(point.velocities, zero), arranged(point.accelerations, zero))
            )
        return knots

    def _judge(self, error: Array, ahead: Sample, first: bool) -> None:
        """Check tolerances, take over the next command or hold, and end the goal if it is due."""
        assert self._spline is not None
        tolerances = self.defaults if self.goal is None else self.goal.tolerances
        past_end = ahead.index == len(self._spline.times)
        overtime = self._time - self._spline.end_time
        off_path = off_goal = False
        if not self._holding:
            # The first sample is always checked: it may be the last point.
            off_path = (first or not past_end) and bool(np.any(abs(error) > tolerances.path))
            off_goal = past_end and bool(np.any(abs(error) > tolerances.goal))
        too_late = off_goal and 0.0 < tolerances.goal_time < overtime
        if off_path:
            self._finish(
                'aborted', PATH_TOLERANCE_VIOLATED, 'Aborted due to path tolerance violation'
            )
        elif too_late:
            self._finish(
                'aborted',
                GOAL_TOLERANCE_VIOLATED,
                f'Aborted due to goal_time_tolerance exceeding by {overtime:.6f} seconds',
            )
        if off_path or too_late:
            self._hold(self._q)
            return
        self._output = ahead.q
        if past_end and not off_goal and self.goal is not None:
            self._finish('succeeded', SUCCESSFUL, 'Goal successfully reached!')
            self._hold(ahead.q)

    def _finish(self, status: str, code: int, message: str) -> None:
        if self.goal is not None:
            self.goal.outcome = GoalResult(status, code, message)
            self.goal = None

    def _hold(self, q: Array) -> None:
        self._next = TrajectoryCommand(self.joint_names, (Waypoint(0.0, tuple(q)),))
        self._holding = True

    def _stop(self) -> None:
        if not self.deceleration:
            self._hold(self._q)
            return
        ends = np.abs(self._qd) / self.deceleration
        q_end = self._q + self._qd * ends / 2
        points = []
        for t in np.unique([0.0, *ends]):
            left = np.maximum(ends - t, 0.0)
            qd = np.sign(self._qd) * self.deceleration * left
            points.append(Waypoint(float(t), tuple(q_end - qd * left / 2), tuple(qd)))
        self._next, self._holding = TrajectoryCommand(self.joint_names, points), True
