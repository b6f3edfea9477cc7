# SPDX-License-Identifier: Apache-2.0
"""An arm that is moved slower than any settling arm is not at rest; one that was stopped is."""

import numpy as np
import pytest
from stop_cell import CYCLE, Cell

from ur5_pick_place.control.stillness import Stillness

NOISE = 1e-5  # [rad] of an encoder
TURN = np.array([0.3, 1.0, -0.2, 0.0, 0.5, 0.0])  # how far each joint turns of an angle


def watched(angles, noise=NOISE, begin=10.0):
    """Yield the time [s] and what is seen of an arm that turns by `angles` [rad], one a cycle."""
    rng, stillness = np.random.default_rng(3), Stillness()
    for i, angle in enumerate(angles):
        stillness.update(begin + i * CYCLE, angle * TURN + rng.uniform(-noise, noise, 6))
        yield i * CYCLE, stillness


@pytest.mark.parametrize('speed', [1e-3, 2e-3, 5e-3, 6.5e-3, 7e-3, 9e-3])
def test_a_slow_drift_counts_as_motion_until_it_ends(speed):
    t = np.arange(0.0, 8.0, CYCLE)
    angles = speed * np.clip(t - 2.0, 0.0, 3.0)
    for t, stillness in watched(angles):
        if 0.2 < t < 2.0 or t > 5.2:
            assert stillness.is_at_rest and not stillness.is_moving
        elif 2.06 + 1.1e-3 / speed < t < 5.0:
            assert stillness.is_moving and not stillness.is_at_rest
            assert stillness.moves_on(3.0)


@pytest.mark.parametrize('lag', [0.02, 0.1, 0.2])
@pytest.mark.parametrize('speed', [0.02, 0.2, 2.0])
def test_a_stopped_arm_is_at_rest_as_soon_as_it_turns_less_than_a_milliradian(speed, lag):
    """Its servos settle, by more than it may drift in all."""
    t = np.arange(0.0, 6.0, CYCLE)
    command = np.cumsum(np.clip(speed - 5.0 * np.clip(t - 2.0, 0.0, None), 0.0, None)) * CYCLE
    angles = np.zeros_like(t)
    for i in range(1, len(t)):
        angles[i] = angles[i - 1] + (command[i] - angles[i - 1]) * CYCLE / lag
    window = round(0.15 / CYCLE) + 1
    turned = [np.ptp(angles[i - window : i + 1]) for i in range(window, len(t))]
    at_rest = t[window + np.flatnonzero(np.array(turned) > 0.98e-3)[-1]] + CYCLE
    for now, stillness in watched(angles):
        if now > at_rest:
            assert stillness.is_at_rest, f'at {now:.3f} s, at rest since {at_rest:.3f} s'


def test_noise_is_no_motion():
    for now, stillness in watched(np.zeros(1500), noise=4e-5):
        assert now < 0.2 or stillness.is_at_rest


@pytest.mark.parametrize('step', [2e-3, 16e-3, 50e-3])
def test_an_arm_at_rest_stays_at_rest_whatever_its_stamps_round_to(step):
    """A window of 0.15 s between two stamps of a grid is at times a rounding error shorter."""
    stillness = Stillness()
    for i in range(4000):
        stillness.update(2e-3 * round(i * step / 2e-3), np.zeros(6))
        assert i * step < 0.2 or stillness.is_at_rest, f'at {i * step:.3f} s'


def test_an_arm_that_was_not_watched_for_long_is_not_said_to_move():
    stillness = Stillness()
    assert 'do not show yet' in stillness.why_not_at_rest
    stillness.update(10.0, np.zeros(6))
    assert 'do not show yet' in stillness.why_not_at_rest
    stillness.update(10.2, TURN)
    assert stillness.why_not_at_rest == 'the arm is moving'
    stillness.update(10.4, TURN)
    stillness.update(10.6, TURN)
    assert stillness.why_not_at_rest == ''


def test_a_stop_lasts_until_a_slow_drift_has_ended():
    """A foreign trajectory on the topic that turns a joint by 5 mrad a second."""
    cell = Cell()
    hold, cell.port.hold = cell.port.hold, lambda q: None
    cell.port.drift[0] = 5e-3 * CYCLE
    cell.run(0.5)
    cell.executor.stop('enough', latch=True)
    for _ in range(20):
        cell.run(0.25)
        assert 'the arm is moving' in cell.executor.rearm().reason
    assert cell.port.cancels > 100 and cell.port.deactivations > 5
    cell.port.hold = hold
    cell.run(0.5)
    assert cell.port.holds and not cell.port.drift.any()
    assert cell.executor.rearm().ok
    assert cell.state == 'ready'


def test_a_drift_that_begins_after_the_stop_is_ended_too():
    cell = Cell()
    cell.executor.stop('enough', latch=True)
    cell.run(3.0)
    cell.port.drift[0] = 5e-3 * CYCLE
    cell.run(1.0)
    assert cell.port.holds and not cell.port.drift.any()
    assert cell.executor.rearm().ok
