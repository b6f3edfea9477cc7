# SPDX-License-Identifier: Apache-2.0
"""A driver over an ideal arm, with its faults."""

import numpy as np
from ideal_driver import HERE, IdealArm, move

from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.faults import FaultInjector

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
