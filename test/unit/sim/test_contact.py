# SPDX-License-Identifier: Apache-2.0
"""The simulated robot stops itself when it runs into something, and only then; no ROS."""

import pytest
from hand import Hand
from ideal_driver import FaultyCell, move, run

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.sim.controllers.controller_manager import SCALED
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.physics.world import World
from ur5_pick_place.sim.robot import ContactSettings, SafetyMode


def drive(driver, hand, *where):
    """Go somewhere through the driver in a second; returns the goal and the peak torque."""
    goal = move(driver, hand.joints(*where))
    torques = []
    for _ in range(round(1.3 / CYCLE)):
        driver.cycle()
        torques.append(driver.world.external_torque)
    return goal, max(torques)


def test_running_into_the_table_is_a_protective_stop_and_presses_no_longer():
    world = World()
    driver, hand = Driver(world), Hand(world)
    assert drive(driver, hand, 0.5, 0.2, 0.1, 0.0)[1] < 2.0
    goal, torque = drive(driver, hand, 0.5, 0.2, -0.05, 0.0)
    assert torque > 10.0 and goal.outcome is None
    assert driver.robot.safety is SafetyMode.PROTECTIVE_STOP
    assert 'collision' in driver.robot.popup
    assert world.external_torque < 10.0
    run(driver, 5.0)
    assert driver.dashboard.act('unlock_protective_stop').success
    driver.dashboard.act('stop')
    driver.cycle()
    driver.dashboard.act('play')
    run(driver, 0.07)  # until the controller is active again
    goal, torque = drive(driver, hand, 0.5, 0.2, 0.1, 0.0)
    assert goal.outcome.status == 'succeeded'
    assert driver.robot.safety is SafetyMode.NORMAL


@pytest.mark.parametrize('stop', ['pause', 'cancel'])
def test_the_hardest_stop_is_no_contact(stop):
    """At pi rad/s the motors saturate; the torque is the arm's own."""
    world = World()
    driver = Driver(world)
    goal = move(driver, HOME + [1.6, 0.4, -0.4, 0.8, 0.8, 0.8])
    run(driver, 0.5)
    assert abs(world.qd).max() > 2.5
    if stop == 'pause':
        driver.dashboard.act('pause')
    else:
        driver.trajectory[SCALED].cancel(goal)
    for _ in range(125):
        driver.cycle()
        assert world.external_torque < 1.0
    assert driver.robot.safety is SafetyMode.NORMAL and abs(world.qd).max() < 0.01


def test_a_knock_of_one_cycle_stops_nothing():
    cell = FaultyCell()
    for torques, stopped in (([50.0, 0.0] * 5, False), ([9.9] * 5, False), ([10.1] * 2, True)):
        for cell.arm.external_torque in torques:
            cell.cycle()
        assert (cell.driver.robot.safety is SafetyMode.PROTECTIVE_STOP) == stopped


def test_contact_settings_are_bounded():
    with pytest.raises(InvalidInput, match='contact_torque = 0'):
        ContactSettings(contact_torque=0)
