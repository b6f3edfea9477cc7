# SPDX-License-Identifier: Apache-2.0
"""The watch over a motion: an arm that is blocked, late, slowed, waiting, settling or braking."""

import numpy as np
import pytest
from motion_planners import planner as planner
from motion_planners import ptp_to_pose, tool_down

from ur5_pick_place.control.motion_monitor import MotionMonitor, StallDetector, TrackingSettings
from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.planning.limits import Scaling

WATCH = TrackingSettings()
SERVO_LAG = 0.03  # [s]
NOTICEABLE = 6e-4  # [rad] that an arm must be due to turn before anybody can say that it does not


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
def test_a_blocked_arm_is_noticed_within_two_seconds(planner, slider, pace, share):
    """Also where it creeps, at the slowest by millimetres a second."""
    start = ptp_to_pose(planner, HOME, tool_down(0.5, -0.25, 0.2, 0.0), branch='left-up-up')
    q_start, goal = start.trajectory.q[-1], tool_down(0.5, 0.25, 0.2, 0.5)
    motion = planner.lin(q_start, [goal], pace).trajectory
    blocked, watch, t, fault = share * motion.duration, MotionMonitor(motion, WATCH, 0.0), 0.0, ''
    while not fault and t < blocked / slider + 60.0:
        t += CYCLE
        q = motion.sample(min(slider * t - SERVO_LAG, blocked))[0]
        fault = watch.tick(t, q, slider)
    assert 'the arm does not follow' in fault
    later = np.linspace(blocked, motion.duration, 4000)
    q = motion.sample(later)[0]
    due = later[np.argmax(np.abs(q - q[0]).max(axis=1) > NOTICEABLE)] - blocked
    assert 0.0 < t - blocked / slider < max(2.0, due / slider + 0.1)


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
