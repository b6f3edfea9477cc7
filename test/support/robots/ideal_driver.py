# SPDX-License-Identifier: Apache-2.0
"""The simulated driver over an ideal arm, with and without faults; no ROS."""

import numpy as np
import pytest

from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.sim.controllers.controller_manager import SCALED, STRICT
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.faults import FaultInjector
from ur5_pick_place.sim.physics.world import CellSettings

HERE = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
REST = (0.0,) * 6


class IdealArm:
    """Stands where it was told; sinks slowly in freedrive; grips at once if a part is there."""

    cycle, settings = CYCLE, CellSettings()

    def __init__(self):
        self.hand = self
        self.cycles, self.q, self.qd, self.effort = 0, HERE.copy(), np.zeros(6), np.zeros(6)
        self.part_between_fingers, self.closed, self.free = False, False, False
        self.external_torque = 0.0

    @property
    def time(self):
        return self.cycles * CYCLE

    @property
    def part_present(self):
        return self.closed and self.part_between_fingers

    def step(self, q_command):
        self.free = q_command is None
        target = self.q - 1e-3 if self.free else np.array(q_command)
        self.qd, self.q = (target - self.q) / CYCLE, target
        self.cycles += 1

    def close(self, closed):
        self.closed = closed


@pytest.fixture
def arm():
    return IdealArm()


@pytest.fixture
def driver(arm):
    driver = Driver(arm)
    driver.cycle()
    return driver


def run(driver, seconds):
    for _ in range(round(seconds / CYCLE)):
        driver.cycle()


def answer(driver, request, at_most=0.3):
    """Run until a request is answered; returns the answer and how long it took [s]."""
    start = driver.time
    while request.reply is None:
        assert driver.time - start < at_most, 'no answer'
        driver.cycle()
    return request.reply, driver.time - start


def move(driver, q, duration=1.0, controller=SCALED):
    command = TrajectoryCommand(driver.joint_names, [Waypoint(duration, tuple(q), REST, REST)])
    return driver.trajectory[controller].start_goal(command, driver.time)


def switch(driver, on=(), off=(), strictness=STRICT):
    return driver.controllers.switch(on, off, strictness)


THERE = HERE + 0.5


class FaultyCell:
    """A driver over an ideal arm, powered, with its faults; everything it tells is kept."""

    def __init__(self, arm=None):
        self.arm = arm or IdealArm()
        self.driver = Driver(self.arm)
        self.faults = FaultInjector(self.driver)
        self.reports, self.inputs = [], []
        self.driver.robot.tool_voltage = 24
        self.run(CYCLE)

    def cycle(self):
        self.driver.cycle()
        self.reports.append(self.driver.report)
        self.inputs.append(self.driver.io.pins.digital_in[16])

    def run(self, seconds):
        for _ in range(round(seconds / CYCLE)):
            self.cycle()

    def inject(self, name):
        self.faults.inject(name)

    def clear(self, name):
        self.faults.clear(name)

    def moving(self):
        """Begin a motion of a second; returns its goal, 0.4 s later."""
        goal = move(self.driver, THERE)
        self.run(0.4)
        return goal

    def stands(self, seconds=1.0):
        """Whether the arm stays where it is, once it has had a moment to stop."""
        self.run(0.1)
        before = self.arm.q.copy()
        self.run(seconds)
        return np.array_equal(self.arm.q, before)
