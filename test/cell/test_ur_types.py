# SPDX-License-Identifier: Apache-2.0
"""The simulated cell with any UR type: its geometry, torques, rate and places."""

from pathlib import Path

import numpy as np
import pytest
from closeness import assert_transforms_close

from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.demo.spots import SpotChecker, default_spots
from ur5_pick_place.kinematics import HOME, UR_TYPES, forward, load_model
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, make_transform
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.physics.world import CellSettings, World

CONFIG = Path(__file__).parents[2] / 'config'
TCP = make_transform(np.eye(3), [0.0, 0.0, 0.145])
def world_of(ur_type: str, **settings: float) -> World:
    return World(CellSettings(ur_type=ur_type, **settings))


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_the_arm_is_where_its_dh_table_says(ur_type: str, rng: np.random.Generator) -> None:
    model = load_model(ur_type)
    for q in rng.uniform(-np.pi, np.pi, (5, 6)):
        world = World(CellSettings(ur_type=ur_type), q)
        expected = T_BASE_BASE_LINK @ forward(model, q) @ TCP
        assert_transforms_close(world.T_world_tcp, expected, 1e-8, 1e-7)


@pytest.mark.parametrize('ur_type', ['ur3', 'ur16e'])
def test_motors_keep_the_torque_limits_of_their_type(ur_type: str) -> None:
    world, most = world_of(ur_type, servo_lag=0.0), load_model(ur_type).effort_max
    highest = np.zeros(6)
    for _ in range(round(0.1 / world.cycle)):
        world.step(HOME + 0.8)
        highest = np.maximum(highest, np.abs(world.effort))
    assert (highest <= most + 1e-9).all() and (highest[3:] == most[3:]).any()


@pytest.mark.parametrize(('ur_type', 'rate'), [('ur10', 125.0), ('ur3e', 500.0)])
def test_joints_come_at_the_rate_of_the_series(ur_type: str, rate: float) -> None:
    world = world_of(ur_type)
    driver = Driver(world)
    stamps = []
    for _ in range(10):
        driver.cycle()
        assert driver.report is not None
        stamps.append(driver.report.stamp)
    np.testing.assert_allclose(np.diff(stamps), 1.0 / rate)


def test_effort_is_the_current_of_the_motors() -> None:
    """A UR5 at home holds its shoulder with an ampere or two, not with the torque of the joint."""
    world = world_of('ur5')
    driver = Driver(world)
    for _ in range(25):
        driver.cycle()
    report = driver.report
    assert report is not None
    np.testing.assert_allclose(report.current[:3], world.effort[:3] / 12.625)
    np.testing.assert_allclose(report.current[3:], world.effort[3:] / 9.3122)
    assert 0.3 < abs(report.current[1]) < 5.0


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_the_places_of_the_demo_suit_the_reach(ur_type: str) -> None:
    start, target = default_spots(CellSetup(ur_type))
    checker = SpotChecker(CellSetup(ur_type))
    checker.check_pair(start, target)
    rng = np.random.default_rng(5)
    for _ in range(5):
        checker.check_pair(*checker.random_pair(rng))
    np.testing.assert_allclose(world_of(ur_type).T_world_part[:2, 3], start[:2])
