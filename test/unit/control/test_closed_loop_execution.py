# SPDX-License-Identifier: Apache-2.0
"""The executor runs a closed loop to its end, or stops it and leaves the arm at rest."""

import numpy as np
import pytest
from closed_loop_cell import MODEL, START, Bench

from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.outcome import DONE, Outcome


@pytest.fixture
def bench():
    return Bench()


def test_the_executor_runs_a_loop_to_its_end(bench):
    bench.run(0.5)
    assert bench.executor.motion_state == 'moving'
    bench.run(4.0)
    assert bench.ends == [DONE]
    assert bench.executor.motion_state == 'ready'


@pytest.mark.parametrize(('latch', 'state'), [(False, 'ready'), (True, 'stopped: enough')])
def test_a_stop_brakes_a_loop_and_only_a_latched_one_needs_a_rearm(bench, latch, state):
    bench.run(1.0)
    bench.executor.stop('enough', latch)
    bench.run(1.5)
    assert bench.ends == [Outcome.failed('enough')] and np.abs(bench.status.qd).max() < 1e-3
    assert bench.executor.motion_state == state


def test_what_a_loop_finds_in_its_way_needs_a_rearm():
    height = forward(MODEL, START)[2, 3] - 0.02
    found = Bench(lambda q: 'too low' if forward(MODEL, q)[..., 2, 3].min() < height else '')
    found.run(3.0)
    assert found.ends == [Outcome.failed('resolved_rate stopped: too low')]
    assert found.executor.motion_state == 'stopped: resolved_rate stopped: too low'
    assert found.executor.rearm().ok
    assert found.executor.motion_state == 'ready'


def test_a_stop_at_slider_zero_ends_at_once_and_nothing_goes_on_when_it_is_opened(bench):
    bench.run(1.0)
    bench.cell.driver.robot.slider = bench.status.speed_scaling = 0.0
    bench.run(0.4)
    there = bench.status.q
    bench.executor.stop('enough', latch=False)
    bench.run(0.1)
    assert bench.ends == [Outcome.failed('enough')] and bench.port.held
    bench.cell.hold(bench.port.held[-1])
    bench.cell.driver.robot.slider = bench.status.speed_scaling = 1.0
    bench.run(1.0)
    assert np.abs(bench.status.q - there).max() < 1e-3


def test_a_fault_lets_the_arm_hold_where_it_is_and_sends_no_window(bench):
    bench.run(1.0)
    windows, there = bench.port.windows, bench.status.q
    bench.status.safety_mode = 3
    bench.executor.watch()
    for _ in range(20):
        bench.executor.watch()
    bench.run(0.2)
    assert 'protective stop' in bench.ends[0].reason
    assert bench.port.windows == windows
    assert 1 < len(bench.port.held) < 10  # more than once: a message may be lost
    assert all((q == there).all() for q in bench.port.held)


def test_an_arm_frozen_at_speed_stays_where_it_came_to_rest_when_it_is_freed(bench):
    bench.run(1.0)
    robot, canceled_at = bench.cell.driver.robot, bench.status.q
    robot.protective_stop()
    bench.status.safety_mode = 3
    for _ in range(100):
        bench.executor.watch()
        bench.run(CYCLE)
    there = bench.status.q
    assert np.abs(there - canceled_at).max() > 2e-3, 'it was not at speed'
    assert len(bench.port.held) < 20
    bench.cell.hold(bench.port.held[-1])
    bench.run(5.0)
    assert robot.unlock() and robot.play()
    bench.run(1.0)
    assert robot.moves and np.abs(bench.status.q - there).max() < 1e-3


def test_a_frozen_arm_that_is_pushed_stays_where_it_was_pushed(bench):
    bench.run(1.0)
    bench.status.safety_mode = 3
    bench.executor.watch()
    for turn in (0.0, 0.1):
        bench.status.q, bench.status.qd = START + turn, np.zeros(6)
        for _ in range(10):
            bench.executor.watch()
        np.testing.assert_allclose(bench.port.held[-1], START + turn)
    sent = len(bench.port.held)
    bench.status.program_running = False  # its controllers hold by themselves when they begin anew
    bench.status.q = START
    for _ in range(10):
        bench.executor.watch()
    assert len(bench.port.held) == sent


def test_on_silence_nothing_is_sent_and_the_arm_ends_at_rest(bench):
    bench.run(1.0)
    windows = bench.port.windows
    for _ in range(10):
        bench.now += 0.02
        bench.executor.watch()
    assert 'joint_states silent' in bench.ends[0].reason
    for _ in range(80):
        bench.cell.cycle()
    assert bench.port.windows == windows and not bench.port.held
    assert np.abs(bench.cell.driver.qd).max() < 1e-3


def test_an_arm_that_stands_is_noticed_within_two_seconds_at_any_slider(bench):
    bench.status.speed_scaling = 0.2
    for _ in range(250):
        bench.status.stamp += CYCLE
        bench.executor.on_joints()
        if bench.ends:
            break
    assert 'it has stood still' in bench.ends[0].reason
