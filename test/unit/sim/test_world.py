# SPDX-License-Identifier: Apache-2.0
"""
The simulated cell's physics.

The servos track and trail as stated, and the gripper holds the cube by friction alone.
"""

import math

import numpy as np
import pytest
from closeness import assert_transforms_close
from hand import GRASP_HEIGHT, TOOL_DOWN, Hand, hand_over, quintic

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.sim.physics.cell import MAX_PARTS, PART_SIZE, load_cell, part_name, upright
from ur5_pick_place.sim.physics.world import CellSettings, World

TORQUE_LIMIT = np.array([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])


def test_without_lag_the_servos_follow_a_fast_quintic_within_half_a_milliradian() -> None:
    """Two seconds, all joints peak at pi/2 rad/s, as a whole-arm swing would."""
    world = World(CellSettings(servo_lag=0.0))
    swing = np.array([1.0, -0.3, 0.5, 1.0, 1.0, 1.0]) * np.pi / 1.875
    for q in HOME + quintic(250) * swing:
        world.step(q)
        np.testing.assert_allclose(world.q, q, atol=5e-4)
    assert world.time == pytest.approx(2.0)


@pytest.mark.parametrize('lag', [0.0, 0.03, 0.1])
def test_at_constant_speed_the_arm_is_late_by_the_servo_lag(lag: float) -> None:
    world = World(CellSettings(servo_lag=lag))
    speed = 0.3 * np.array([1.0, -1.0, -1.0, 1.0, 1.0, 1.0])  # up and away from the table
    for k in range(1, 201):
        command = HOME + speed * k * CYCLE
        world.step(command)
    np.testing.assert_allclose((command - world.q) / speed, lag, atol=3e-4)
    np.testing.assert_allclose(world.qd, speed, atol=1e-3)


def test_a_jump_in_the_command_saturates_the_motors_and_breaks_nothing() -> None:
    world = World(CellSettings(servo_lag=0.0))
    goal = HOME + np.array([1.0, 0.3, -0.5, 1.0, -1.0, 2.0])
    for _ in range(250):
        world.step(goal)
        assert (np.abs(world.effort) <= TORQUE_LIMIT + 1e-9).all()
        assert np.isfinite(world.q).all()
    np.testing.assert_allclose(world.q, goal, atol=1e-3)


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize('bad', [[0.0] * 5, [0.0] * 7, [0, 0, np.nan, 0, 0, 0], [np.inf] * 6])
def test_a_malformed_setpoint_is_refused_and_moves_nothing(world, bad):
    with pytest.raises(InvalidInput, match='six finite numbers'):
        world.step(bad)
    np.testing.assert_array_equal(world.q, HOME)
    assert world.time == 0.0


def test_in_freedrive_the_arm_floats_coasts_and_is_picked_up_where_it_is(world):
    for _ in range(125):
        world.step(None)
    np.testing.assert_allclose(world.q, HOME, atol=1e-3)

    for k in range(1, 51):
        world.step(HOME + [0.4 * k * CYCLE, 0, 0, 0, 0, 0])
    let_go = world.q
    for _ in range(125):
        world.step(None)
    assert world.q[0] > let_go[0] + 0.05
    assert abs(world.qd[0]) < 0.2

    here = world.q
    world.step(here)
    assert world.external_torque < 10.0
    for _ in range(125):
        world.step(here)
    np.testing.assert_allclose(world.q, here, atol=1e-5)


def test_a_gripped_cube_sits_between_the_pads_with_the_tool_pointing_down(world):
    """The TCP is the middle of the part: placed exactly, it does not move when gripped."""
    world.place_part(0.45, -0.2, 0.3)
    hand = hand_over(world, 0.45, -0.2, 0.3)
    hand.grip(True)
    assert_transforms_close(world.T_world_part, world.T_world_tcp @ TOOL_DOWN, 3e-4, 2e-3)
    assert world.hand.part_present
    assert world.hand.gap == pytest.approx(PART_SIZE, abs=2e-4)


@pytest.mark.parametrize('seed', range(4))
def test_a_displaced_cube_is_gripped_carried_and_stays_where_it_is_put(seed: int) -> None:
    """Up to 5 mm and 10 degrees off; judged against where the grip left it in the hand."""
    rng = np.random.default_rng(seed)
    yaw = rng.uniform(-0.8, 0.8)
    world = World()
    dx, dy = rng.uniform(-0.005, 0.005, 2)
    world.place_part(0.45 + dx, -0.2 + dy, yaw + np.radians(rng.uniform(-10, 10)))
    hand = hand_over(world, 0.45, -0.2, yaw)
    assert not world.hand.part_present
    hand.grip(True)
    assert world.hand.part_present
    T_tcp_part = np.linalg.inv(world.T_world_tcp) @ world.T_world_part

    hand.go(0.45, -0.2, 0.15, yaw)
    assert world.T_world_part[2, 3] == pytest.approx(0.15, abs=1e-3)
    hand.go(0.5, 0.2, 0.15, yaw + 0.7, duration=1.2)
    hand.go(0.5, 0.2, GRASP_HEIGHT, yaw + 0.7)
    hand.wait(0.2)
    assert world.hand.part_present
    assert max(hand.torques) < 2.0
    wanted = world.T_world_tcp @ T_tcp_part

    hand.grip(False)
    assert not world.hand.part_present
    hand.go(0.5, 0.2, 0.15, yaw + 0.7)
    assert_transforms_close(world.T_world_part, wanted, 5e-4, np.radians(0.3))


@pytest.mark.drill
def test_a_cube_held_for_half_a_minute_does_not_creep(world):
    """MuJoCo's friction is soft; with a low impratio the part sinks by tenths of a millimetre."""
    hand = hand_over(world, 0.45, -0.2, 0.0)
    hand.grip(True)
    hand.go(0.45, -0.2, 0.15, 0.0)
    before = np.linalg.inv(world.T_world_tcp) @ world.T_world_part
    hand.wait(30.0)
    after = np.linalg.inv(world.T_world_tcp) @ world.T_world_part
    assert_transforms_close(after, before, 1e-4, 1e-3)


def test_closing_on_nothing_never_signals_a_part(world):
    world.place_part(0.3, 0.4, 0.0)
    world.hand.close(True)
    for _ in range(150):
        world.step(HOME)
        assert not world.hand.part_present
    assert 0.0 < world.hand.gap < 0.004


def test_a_part_taken_out_of_the_hand_is_noticed(world):
    hand = hand_over(world, 0.45, -0.2, 0.0)
    hand.grip(True)
    assert world.hand.part_present
    world.place_part(0.3, 0.4, 0.0)
    world.step(hand.q)
    world.step(hand.q)
    assert not world.hand.part_present


def test_a_finger_that_lands_on_the_cube_shows_as_external_torque(world):
    """Above the 10 N m at which the cell's robot stops itself; 1 N m is normal."""
    hand = Hand(world)
    hand.go(0.45, -0.245, 0.15, 0.0, duration=1.2)
    assert max(hand.torques) < 2.0
    hand.go(0.45, -0.245, GRASP_HEIGHT, 0.0)
    assert max(hand.torques) > 10.0


def test_the_cube_lies_where_the_settings_say() -> None:
    world = World(CellSettings(part_x=0.3, part_y=0.25, part_yaw=30.0))
    for _ in range(25):
        world.step(HOME)
    expected = upright(0.3, 0.25, PART_SIZE / 2, math.radians(30.0))
    assert_transforms_close(world.T_world_part, expected, 1e-4, 1e-3)


def test_the_cube_cannot_start_off_the_table() -> None:
    with pytest.raises(InvalidInput, match='part_x'):
        CellSettings(part_x=2.0)


def test_cubes_are_fed_one_by_one_and_rest_on_each_other() -> None:
    world = World(CellSettings(part_x=0.4, part_y=0.1, parts=3))
    for layer in range(3):
        world.place_part(0.4, -0.2, 0.0, PART_SIZE * (layer + 0.5) + 0.001)
        for _ in range(40):
            world.step(HOME)
        if layer < 2:
            assert world.feed_part() == f'part {layer + 2} of 3'
            expected = upright(0.4, 0.1, PART_SIZE / 2, 0.0)
            np.testing.assert_allclose(world.T_world_part, expected, atol=1e-9)
    for layer, T in enumerate(world.T_world_parts):
        expected = upright(0.4, -0.2, PART_SIZE * (layer + 0.5), 0.0)
        assert_transforms_close(T, expected, 5e-4, 1e-2)
    with pytest.raises(InvalidInput, match='all 3 parts were fed'):
        world.feed_part()


def test_no_cube_is_fed_onto_another() -> None:
    world = World(CellSettings(parts=2))
    with pytest.raises(InvalidInput, match='part 1 is 0 mm from the feeder'):
        world.feed_part()
    assert len(world.T_world_parts) == 1


def test_waiting_cubes_change_nothing_for_the_arm() -> None:
    """Not its motion, nor what its joints feel; all of them wait beyond its reach."""
    alone, many = World(), World(CellSettings(parts=MAX_PARTS))
    for q in HOME + 0.3 * quintic(100):
        alone.step(q)
        many.step(q)
    np.testing.assert_allclose(many.q, alone.q, atol=1e-7)
    np.testing.assert_allclose(many.effort, alone.effort, atol=1e-3)
    for body in map(part_name, range(1, MAX_PARTS)):
        x, y, _ = load_cell(MAX_PARTS).body(body).pos
        assert math.hypot(x, y) > 1.15


@pytest.mark.parametrize('x', [1e11, -11.0, float('nan')])
def test_a_part_far_away_is_refused_and_moves_no_arm(world, x):
    """MuJoCo begins anew where a position is beyond 1e10."""
    before = world.q.copy()
    with pytest.raises(InvalidInput, match='must lie within 10 m of the base'):
        world.place_part(x, 0.2, 0.0)
    np.testing.assert_array_equal(world.q, before)
