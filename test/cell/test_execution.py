# SPDX-License-Identifier: Apache-2.0
"""
A planned line on the simulated arm: at any slider it arrives on its path, and a block is noticed.

The driver and the watch run without ROS, in simulated time; `test_planner_execution.py` does some
of it through DDS.
"""

import numpy as np
import pytest
from motion_planners import make_planner, ptp_to_pose, tool_down

from ur5_pick_place.control.motion_monitor import (
    MotionMonitor,
    StallDetector,
    TrackingSettings,
)
from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.kinematics import HOME, forward, load_model
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.planning.limits import Scaling
from ur5_pick_place.sim.controllers.controller_manager import SCALED
from ur5_pick_place.sim.controllers.goals import JointTolerance
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.physics.world import CellSettings, World

MODEL = load_model('ur5')
WATCH = TrackingSettings()
SERVO_LAG = 0.03  # [s]
OFF_LINE = 1e-3  # [m] of the measured tool from its line, at full speed of 1.5 m/s
NOTICEABLE = 6e-4  # [rad] that an arm must be due to turn before anybody can say that it does not


class Blockable:
    """The simulated arm; blocked, its joints hold whatever they are told."""

    def __init__(self, world):
        self._world, self._held = world, None

    def __getattr__(self, name):
        return getattr(self._world, name)

    def block(self):
        self._held = self._world.q.copy()

    def step(self, q_command):
        self._world.step(q_command if self._held is None else self._held)


class Cell:
    """An arm in the middle of the cell, its driver, and a watch over one motion."""

    def __init__(self, planner):
        T = tool_down(0.5, -0.25, 0.2, 0.0)
        q = ptp_to_pose(planner, HOME, T, branch='left-up-up').trajectory.q[-1]
        self.arm = Blockable(World(CellSettings(servo_lag=SERVO_LAG), q))
        self.driver = Driver(self.arm)
        for _ in range(50):
            self.driver.cycle()
        self.q = [self.driver.q]

    def send(self, motion):
        d = self.driver
        values = zip(motion.t, motion.q, motion.qd, motion.qdd, strict=True)
        points = [Waypoint(float(t), *(tuple(v) for v in rest)) for t, *rest in values]
        path, goal = (
            [JointTolerance(name, tolerance) for name in d.joint_names]
            for tolerance in (WATCH.path_tolerance, WATCH.goal_tolerance)
        )
        command = TrajectoryCommand(d.joint_names, points)
        self.goal = d.trajectory[SCALED].start_goal(command, d.time, path, goal, WATCH.goal_time)
        self.monitor, self.begin, self.q = MotionMonitor(motion, WATCH, d.time), d.time, [d.q]

    def run(self, seconds):
        """Let time pass; returns what the watch has to say, at once when it says something."""
        end = self.driver.time + seconds
        while self.driver.time < end and not self.has_arrived:
            self.driver.cycle()
            self.q.append(self.driver.q)
            fault = self.monitor.tick(
                self.driver.time, self.driver.q, self.driver.robot.scaling
            )
            if fault or self.monitor.is_overdue:
                return fault or 'overdue'
        return None

    @property
    def has_arrived(self):
        d = self.driver
        outcome = self.goal.outcome
        succeeded = outcome is not None and outcome.status == 'succeeded'
        return succeeded and self.monitor.arrived(d.q, d.qd)


@pytest.fixture(scope='module')
def planner():
    return make_planner()


@pytest.fixture
def cell(planner):
    return Cell(planner)


@pytest.fixture
def line(planner, cell):
    return planner.lin(cell.driver.q, [tool_down(0.5, 0.25, 0.2, 0.5)]).trajectory


def off_line(cell, motion):
    """Largest distance of the measured tool from its line [m]."""
    p = forward(MODEL, np.array(cell.q))[:, :3, 3]
    start, goal = forward(MODEL, motion.q[[0, -1]])[:, :3, 3]
    way = (goal - start) / np.linalg.norm(goal - start)
    return np.linalg.norm(np.cross(p - start, way), axis=1).max()


@pytest.mark.parametrize(('slider', 'off'), [(0.1, 0.05e-3), (0.5, 0.3e-3), (1.0, OFF_LINE)])
def test_at_any_slider_the_arm_arrives_in_scaled_time_on_its_line(cell, line, slider, off):
    cell.driver.robot.slider = slider
    cell.send(line)
    assert cell.run(20.0 * line.duration) is None
    assert cell.has_arrived
    assert cell.driver.time - cell.begin == pytest.approx(line.duration / slider, abs=0.7)
    assert off_line(cell, line) < off


@pytest.mark.parametrize('share', [0.0, 0.4])
@pytest.mark.parametrize(
    ('pace', 'slider'),
    [
        (Scaling(), 1.0),
        (Scaling(), 0.1),
        (Scaling(0.05, 0.05), 1.0),
        pytest.param(Scaling(0.05, 0.05), 0.1, marks=pytest.mark.drill),
    ],
)
def test_a_blocked_arm_is_noticed_within_two_seconds(planner, cell, slider, pace, share):
    """Also where it creeps, at the slowest by millimetres a second."""
    goal = tool_down(0.5, 0.25, 0.2, 0.5)
    motion = planner.lin(cell.driver.q, [goal], pace).trajectory
    cell.driver.robot.slider = slider
    cell.send(motion)
    assert cell.run(share * motion.duration / slider) is None
    cell.arm.block()
    began = cell.driver.time
    t = np.linspace(share * motion.duration, motion.duration, 4000)
    q = motion.sample(t)[0]
    due = t[np.argmax(np.abs(q - q[0]).max(axis=1) > NOTICEABLE)] - t[0]
    fault = cell.run(60.0)
    assert fault is not None and 'the arm does not follow' in fault
    assert cell.driver.time - began < max(2.0, due / slider + 0.1)


@pytest.mark.parametrize(
    ('stall_time', 'speed', 'due'),
    [(1.0, 3e-4, 1.8), (1.0, 1e-3, 1.8), (1.0, 5e-3, 1.0), (1.0, 0.1, 1.0), (0.3, 0.1, 0.3)],
)
def test_an_arm_that_stands_is_noticed_in_time_however_slow_its_plan(stall_time, speed, due):
    detector, rng, t, fault = StallDetector(stall_time), np.random.default_rng(4), 0.0, None
    while not fault and t < 2.0:
        t += CYCLE
        noise = rng.uniform(-1e-5, 1e-5, 6)
        fault = detector.tick(t, HOME + noise, HOME + [0, speed * t, 0, 0, 0, 0])
    assert fault and due < t < due + 0.05
    assert 'it has stood still for' in fault and 'turned shoulder_lift_joint by 0.' in fault
    assert 'by 0.0000' not in fault


@pytest.mark.parametrize('slider', [0.01, 0.1, 1.0])
@pytest.mark.parametrize(
    ('pace', 'late'), [(Scaling(), 0.4), (Scaling(0.03, 0.03), 0.4), (Scaling(0.03, 0.03), 0.8)]
)
def test_an_arm_that_follows_late_and_slowly_is_not_taken_to_stand(planner, pace, slider, late):
    motion = planner.ptp(HOME, HOME + [0.02, 0, -0.01, 0, 0, 0], pace).trajectory
    watch, rng = MotionMonitor(motion, WATCH, 0.0), np.random.default_rng(5)
    for t in np.arange(0.0, min(motion.duration / slider + 4.0, 15.0), 0.008):
        q = motion.sample(slider * max(t - late, 0.0))[0] + rng.uniform(-1e-5, 1e-5, 6)
        assert watch.tick(t, q, slider) is None, f'at {t:.3f} s'


@pytest.mark.parametrize('waited', [2.0, 5.0, 60.0])
def test_time_at_slider_zero_counts_for_no_stall_when_the_plan_goes_on(waited):
    """The plan goes on first then, and slowly, as before a place; the arm lags behind."""
    detector, t = StallDetector(WATCH.stall_time), 0.0
    for _ in range(round(waited / CYCLE)):
        t += CYCLE
        assert detector.tick(t, HOME, HOME) is None
    for k in range(1, 8):
        t += CYCLE
        planned = HOME + 0.02 * CYCLE * k
        assert detector.tick(t, HOME, planned) is None
    for _ in range(round(2.0 / CYCLE)):
        t, planned = t + CYCLE, planned + 0.02 * CYCLE
        found = detector.tick(t, HOME, planned)
    assert found, 'an arm that does not follow is noticed all the same'


def test_a_trajectory_that_is_handed_over_waits_though_the_motion_before_still_settles(planner):
    """As with passthrough: the robot begins when it has all points, up to `wait` later."""
    motion = planner.ptp(HOME, HOME + [0.6, 0, 0, 0, 0, 0]).trajectory
    watch = MotionMonitor(motion, WATCH, 0.0, wait=2.0)
    for t in np.arange(0.008, 1.9, 0.008):
        settled = HOME + 1.5e-3 * np.exp(-t / 0.1)
        assert watch.tick(t, settled, 1.0) is None
    for t in np.arange(0.0, motion.duration, 0.008):
        assert watch.tick(1.9 + t, motion.sample(t)[0], 1.0) is None
    assert not watch.is_overdue


@pytest.mark.parametrize(
    ('speed', 'brakes', 'is_cruising'),
    [(1.0, 0.0, True), (0.05, 0.0, True), (1.0, 5.0, False), (2.0, 10.0, False), (0.0, 0, False)],
)
def test_an_arm_that_brakes_is_told_from_one_that_moves_on(speed, brakes, is_cruising):
    stillness = Stillness()
    assert not stillness.is_cruising, 'nothing is known'
    for t in np.arange(0.0, 0.2, 0.008):
        left = min(t, speed / brakes) if brakes else t
        stillness.update(10.0 + t, np.full(6, speed * left - brakes * left**2 / 2))
    assert stillness.is_cruising == is_cruising


def test_two_samples_show_a_motion_but_not_whether_it_ends():
    stillness = Stillness()
    stillness.update(10.0, np.zeros(6))
    stillness.update(10.2, np.full(6, 0.1))
    assert stillness.is_moving and not stillness.is_cruising and stillness.moves_on(3.0)
