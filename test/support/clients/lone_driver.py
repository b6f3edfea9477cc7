# SPDX-License-Identifier: Apache-2.0
"""
One driver process for a module of tests, three times as fast as real time, and its client.

Every test leaves it with the scaled controller active, the program running, the arm at home and
full speed.
"""

import numpy as np
import pace
import pytest
from controller_manager_msgs.srv import ListControllers
from driver_client import SCALED, running_driver

from ur5_pick_place.kinematics import HOME

UNSCALED = 'joint_trajectory_controller'
VELOCITY = 'forward_velocity_controller'
FREEDRIVE = 'freedrive_mode_controller'
THERE = HOME + 0.3 * np.array([1, -1, 1, 0, 0, 1])
REACHED = ('succeeded', 0, 'Goal successfully reached!')


@pytest.fixture(scope='module')
def driver(ros_domain):
    with running_driver('-p', f'real_time_factor:={3.0 * pace.pace()}') as client:
        yield client


@pytest.fixture
def cell(driver):
    """The driver's client, with the arm at home before the test."""
    if abs(driver.q - HOME).max() > 1e-3:
        driver.move(HOME)
    yield driver
    driver.forget()
    active = [name for name in (UNSCALED, VELOCITY, FREEDRIVE) if states(driver)[name] == 'active']
    if active:  # the test has failed half-way: spare the next ones
        driver.switch(on=[SCALED], off=active)


def states(cell):
    found = cell.call(ListControllers, 'controller_manager/list_controllers').controller
    return {c.name: c.state for c in found}
