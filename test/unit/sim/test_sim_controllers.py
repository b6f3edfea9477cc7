# SPDX-License-Identifier: Apache-2.0
"""The driver's controllers without ROS: which may be active, and how each moves an ideal arm."""

import numpy as np
import pytest
from ideal_driver import HERE, move, run, switch
from ideal_driver import arm as arm
from ideal_driver import driver as driver

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.controllers.controller_manager import (
    FREEDRIVE,
    POSITION,
    SCALED,
    UNSCALED,
    VELOCITY,
)

BEST_EFFORT = 1


def test_exactly_one_motion_controller_is_active(driver):
    assert driver.controllers.motion == SCALED
    ok, message = switch(driver, on=[VELOCITY])
    assert not ok and 'claimed' in message
    assert switch(driver, on=[VELOCITY], off=[SCALED])[0]
    assert driver.controllers.motion == VELOCITY
    assert [c.name for c in driver.controllers.controllers.values() if c.moves and c.active] == [
        VELOCITY
    ]


@pytest.mark.parametrize(
    ('on', 'off'),
    [([SCALED], []), ([], [UNSCALED]), (['nonsense'], []), ([], ['nonsense'])],
)
def test_strict_refuses_what_best_effort_leaves_out(driver, on, off):
    ok, message = switch(driver, on, off)
    assert not ok and message
    assert switch(driver, on, off, BEST_EFFORT)[0]
    assert driver.controllers.motion == SCALED


def test_a_refused_switch_changes_nothing(driver):
    goal = move(driver, HERE + 0.2)
    run(driver, 0.1)
    assert not switch(driver, on=[VELOCITY, UNSCALED], off=[SCALED])[0]
    run(driver, 1.5)
    assert goal.outcome.status == 'succeeded'


def test_one_request_restarts_an_active_controller_and_aborts_its_goal(driver):
    goal = move(driver, HERE + 0.2)
    run(driver, 0.1)
    assert switch(driver, on=[SCALED], off=[SCALED])[0]
    assert (goal.outcome.status, goal.outcome.code) == ('aborted', -1)
    assert goal.outcome.message == 'Current goal cancelled during deactivate transition.'
    assert driver.controllers.motion == SCALED


def test_both_names_follow_trajectories_the_inactive_one_refuses(driver, arm):
    with pytest.raises(InvalidInput, match='not running'):
        move(driver, HERE + 0.1, controller=UNSCALED)
    switch(driver, on=[UNSCALED], off=[SCALED])
    goal = move(driver, HERE + 0.1, controller=UNSCALED)
    run(driver, 1.5)
    assert goal.outcome.status == 'succeeded' and arm.q == pytest.approx(HERE + 0.1)


def test_a_velocity_holds_until_another_or_deactivation(driver, arm):
    switch(driver, on=[VELOCITY], off=[SCALED])
    driver.velocity.receive([0.1, 0, 0, 0, 0, -0.2])
    run(driver, 2.0)
    assert arm.q - HERE == pytest.approx([0.2, 0, 0, 0, 0, -0.4], abs=0.01)
    for bad in ([0.5] * 5, [float('nan')] * 6, [float('inf')] * 6):
        with pytest.raises(InvalidInput):
            driver.velocity.receive(bad)
    run(driver, 1.0)
    assert arm.qd == pytest.approx([0.1, 0, 0, 0, 0, -0.2])
    switch(driver, on=[SCALED], off=[VELOCITY])
    run(driver, 0.5)
    assert arm.qd == pytest.approx(np.zeros(6))
    switch(driver, on=[VELOCITY], off=[SCALED])
    run(driver, 0.5)
    assert arm.qd == pytest.approx(np.zeros(6))


def test_a_velocity_is_approached_at_40_rad_per_second_squared(driver, arm):
    switch(driver, on=[VELOCITY], off=[SCALED])
    driver.velocity.receive([2.0] + [0.0] * 5)
    speeds = []
    for _ in range(10):
        driver.cycle()
        speeds.append(arm.qd[0])
    assert max(np.diff(speeds)) == pytest.approx(0.32)
    assert speeds[-1] == pytest.approx(2.0)


def test_a_protective_stop_ends_velocity_motion(driver, arm):
    switch(driver, on=[VELOCITY], off=[SCALED])
    driver.velocity.receive([0.5] * 6)
    run(driver, 0.5)
    driver.robot.protective_stop()
    run(driver, 0.1)
    assert arm.qd == pytest.approx(np.zeros(6))


def test_a_position_beyond_20_rad_per_second_is_ignored(driver, arm):
    switch(driver, on=[POSITION], off=[SCALED])
    driver.position.receive(HERE + 0.15)
    run(driver, 0.1)
    assert arm.q == pytest.approx(HERE + 0.15)
    driver.position.receive(HERE + 0.35)
    run(driver, 0.1)
    assert arm.q == pytest.approx(HERE + 0.15)
    assert 'ignoring' in driver.robot.popup


def test_a_trajectory_that_jumps_is_ignored_and_then_breaks_the_path_tolerance(driver, arm):
    goal = move(driver, HERE + 1.0, duration=0.02)
    run(driver, 0.1)
    assert goal.outcome.code == -4
    assert abs(arm.q - HERE).max() < 0.7


def test_freedrive_lets_go_while_it_is_asked_for(driver, arm):
    switch(driver, on=[FREEDRIVE], off=[SCALED])
    run(driver, 0.1)
    assert not arm.free
    for _ in range(4):
        driver.freedrive.enable(True, driver.time)
        run(driver, 0.5)
        assert arm.free
    run(driver, 0.6)
    assert not arm.free
    held = arm.q.copy()
    run(driver, 1.0)
    assert arm.q == pytest.approx(held) and (held < HERE).all()
    driver.freedrive.enable(True, driver.time)
    driver.freedrive.enable(False, driver.time)
    driver.cycle()
    driver.cycle()
    assert not arm.free


def test_freedrive_must_be_active_first(driver, arm):
    driver.freedrive.enable(True, driver.time)
    run(driver, 0.1)
    assert not arm.free


def test_after_freedrive_the_trajectory_controller_holds_where_the_arm_was_left(driver, arm):
    switch(driver, on=[FREEDRIVE], off=[SCALED])
    driver.freedrive.enable(True, driver.time)
    run(driver, 0.5)
    switch(driver, on=[SCALED], off=[FREEDRIVE])
    run(driver, 0.05)
    left = arm.q.copy()
    run(driver, 1.0)
    assert arm.q == pytest.approx(left) and not arm.free
