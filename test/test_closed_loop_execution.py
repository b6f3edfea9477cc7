# SPDX-License-Identifier: Apache-2.0
"""The executor runs a closed loop to its end, or stops it and leaves the arm at rest."""

import numpy as np
from closed_loop_cell import MODEL, PLANNER, START, Cell, free, loop_on, plan

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.robot_status import HealthSettings, RobotStatus
from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.model import CYCLE


class Port:
    """A controller that is there; it hands windows to a cell and remembers what it was told."""

    missing = conflict = ''

    def __init__(self, cell):
        self.cell, self.windows, self.held, self.canceled = cell, 0, [], 0

    def follow(self, segment):
        self.windows += 1
        self.cell.send(segment)

    def hold(self, q):
        self.held.append(q)

    def cancel(self):
        self.canceled += 1

    goals = frozenset()


class Bench:
    """An executor over a cell, with a steady clock that stands unless told otherwise."""

    def __init__(self, obstacle=free):
        self.cell, self.now, self.ends = Cell(START, 0.03), 10.0, []
        self.port = Port(self.cell)
        self.status = RobotStatus(robot_mode=7, safety_mode=1, program_running=True)
        self.executor = ExecutionManager(
            PLANNER,
            self.port,
            self.status,
            (HealthSettings(), TrackingSettings()),
            '',
            lambda state: None,
            lambda: self.now,
        )
        self.run(0.3)
        self.executor.watch()
        path = plan('resolved_rate')
        loop = loop_on(path, 'resolved_rate', obstacle=obstacle)
        self.executor.start_loop(lambda _: loop, path, self.ends.append)

    def run(self, seconds):
        for _ in range(round(seconds / CYCLE)):
            self.cell.cycle()
            driver = self.cell.driver
            self.status.q, self.status.qd = driver.q, driver.qd
            self.status.stamp = driver.time
            self.status.arrived = self.status.silent_since = self.now
            self.executor.on_joints()


def test_the_executor_runs_a_loop_to_its_end():
    bench = Bench()
    bench.run(0.5)
    assert bench.executor.motion_state == 'moving'
    bench.run(4.0)
    assert bench.ends == ['']
    assert bench.executor.motion_state == 'ready'


def test_a_wanted_stop_needs_no_rearm_and_what_the_loop_finds_does():
    wanted = Bench()
    wanted.run(1.0)
    wanted.executor.stop('enough', latch=False)
    wanted.run(1.5)
    assert wanted.ends == ['enough']
    assert wanted.executor.motion_state == 'ready'

    height = forward(MODEL, START)[2, 3] - 0.02
    found = Bench(lambda q: 'too low' if forward(MODEL, q)[..., 2, 3].min() < height else '')
    found.run(3.0)
    assert found.ends == ['resolved_rate stopped: too low']
    assert found.executor.motion_state == 'stopped: resolved_rate stopped: too low'
    assert found.executor.rearm() == ''
    assert found.executor.motion_state == 'ready'


def test_a_stop_at_slider_zero_ends_at_once_and_nothing_goes_on_when_it_is_opened():
    bench = Bench()
    bench.run(1.0)
    bench.cell.driver.robot.slider = bench.status.speed_scaling = 0.0
    bench.run(0.4)
    there = bench.status.q
    bench.executor.stop('enough', latch=False)
    bench.run(0.1)
    assert bench.ends == ['enough'] and bench.port.held
    bench.cell.hold(bench.port.held[-1])
    bench.cell.driver.robot.slider = bench.status.speed_scaling = 1.0
    bench.run(1.0)
    assert np.abs(bench.status.q - there).max() < 1e-3


def test_a_fault_lets_the_arm_hold_where_it_is_and_sends_no_window():
    bench = Bench()
    bench.run(1.0)
    windows, there = bench.port.windows, bench.status.q
    bench.status.safety_mode = 3
    bench.executor.watch()
    for _ in range(20):
        bench.executor.watch()
    bench.run(0.2)
    assert 'protective stop' in bench.ends[0]
    assert bench.port.windows == windows
    assert 1 < len(bench.port.held) < 10  # more than once: a message may be lost
    assert all((q == there).all() for q in bench.port.held)


def test_an_arm_frozen_at_speed_stays_where_it_came_to_rest_when_it_is_freed():
    bench = Bench()
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


def test_a_frozen_arm_that_is_pushed_stays_where_it_was_pushed():
    bench = Bench()
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


def test_on_silence_nothing_is_sent_and_the_arm_ends_at_rest():
    bench = Bench()
    bench.run(1.0)
    windows = bench.port.windows
    for _ in range(10):
        bench.now += 0.02
        bench.executor.watch()
    assert 'joint_states silent' in bench.ends[0]
    for _ in range(80):
        bench.cell.cycle()
    assert bench.port.windows == windows and not bench.port.held
    assert np.abs(bench.cell.driver.qd).max() < 1e-3


def test_an_arm_that_stands_is_noticed_within_two_seconds_at_any_slider():
    bench = Bench()
    bench.status.speed_scaling = 0.2
    for _ in range(250):
        bench.status.stamp += CYCLE
        bench.executor.on_joints()
        if bench.ends:
            break
    assert 'it has stood still' in bench.ends[0]
