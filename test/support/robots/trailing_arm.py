# SPDX-License-Identifier: Apache-2.0
"""A trajectory controller over an arm that is ideal, or trails by a first-order lag."""

import math

import numpy as np

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.sim.controllers.goals import GoalResult
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.controllers.trajectory_controller import TrajectoryController

CYCLE = 0.008
HERE = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
THERE = HERE + 0.4
REACHED = GoalResult('succeeded', 0, 'Goal successfully reached!')
OFF_PATH = GoalResult('aborted', -4, 'Aborted due to path tolerance violation')


class Cell:
    """A controller and an arm that trails its setpoint by `lag` seconds."""

    def __init__(self, lag=0.0, scaling=1.0):
        self.now, self.q, self.qd = 10.0, HERE.copy(), np.zeros(6)
        self.lag, self.scaling = lag, scaling
        self.stuck = False
        self.controller = TrajectoryController(JOINT_NAMES, CYCLE)
        self.controller.activate(self.q)
        self.history = []
        self.run(0.04)

    def cycle(self):
        self.now = round(self.now + CYCLE, 9)
        target = self.controller.update(self.now, self.q, self.qd, self.scaling)
        share = 1.0 if self.lag == 0.0 else 1.0 - math.exp(-CYCLE / self.lag)
        step = np.nan_to_num((target - self.q) * share, posinf=0.0)
        if self.stuck:
            step = np.zeros(6)
        self.history.append(self.controller.tracking)
        self.q, self.qd = self.q + step, step / CYCLE

    def run(self, seconds):
        for _ in range(round(seconds / CYCLE)):
            self.cycle()

    def send(self, *points, **tolerances):
        return self.controller.start_goal(command(*points), self.now, **tolerances)

    def run_to_end(self, goal, at_most=10.0):
        """Run until the goal has ended; returns the time that took [s]."""
        start = self.now
        while goal.outcome is None:
            assert self.now - start < at_most, 'goal does not end'
            self.cycle()
        return self.now - start


def command(*points, names=JOINT_NAMES, stamp=0.0):
    return TrajectoryCommand(names, points, stamp)


def point(time, q=THERE, **derivatives):
    return Waypoint(time, tuple(q), **{k: tuple(v) for k, v in derivatives.items()})


def rest(time, q=THERE):
    return point(time, q, velocities=np.zeros(6), accelerations=np.zeros(6))
