# SPDX-License-Identifier: Apache-2.0
"""Health, supervision in scaled time, and braking on the path."""

import re
from dataclasses import replace

import numpy as np
import pytest
import ruckig
from motion_planners import FAST, MODEL, peaks

from ur5_pick_place.control.motion_monitor import MotionMonitor, TrackingSettings
from ur5_pick_place.control.path_position import path_from
from ur5_pick_place.control.robot_status import HealthSettings, RobotStatus, find_fault
from ur5_pick_place.control.stop_trajectory import SpeedProfile, brake, rest_of, resume_on_path
from ur5_pick_place.errors import PlanningError
from ur5_pick_place.kinematics import HOME, forward, load_model
from ur5_pick_place.nodes.ros.diagnostics import Jitter
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import MotionSettings, motion_limits
from ur5_pick_place.planning.paths.moves import PathSegment
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Scene, Tool
from ur5_pick_place.planning.timing.ptp import concatenate, time_ptp

MOTION = replace(FAST, max_speed=1.0)
LIMITS = motion_limits(MODEL, MOTION)
TRAJECTORY = time_ptp(
    HOME, HOME + [1.0, 0.3, -0.3, 0.5, 0.0, 2.0], LIMITS, lambda q, qd: np.zeros(1)
)
GOOD = {
    'silent_since': 10.0,
    'q': HOME,
    'qd': np.zeros(6),
    'robot_mode': 7,
    'safety_mode': 1,
    'program_running': True,
}
CYCLE = 0.008  # [s]


@pytest.mark.parametrize('mode', [1, 2])
def test_a_robot_that_runs_normally_or_reduced_may_move(mode):
    status = RobotStatus(**{**GOOD, 'safety_mode': mode})
    assert find_fault(status, 10.05, HealthSettings()) is None


@pytest.mark.parametrize(
    ('change', 'reason'),
    [
        ({'q': None}, 'no joint_states yet'),
        ({'bad_joints': 'elbow_joint = nan'}, 'impossible joint_states: elbow_joint = nan'),
        ({'silent_since': 9.8}, r'joint_states silent for 0\.25 s'),
        ({'safety_mode': None}, 'not received: is the driver there'),
        ({'safety_mode': 3}, 'protective stop; .*unlock'),
        ({'safety_mode': 5}, 'safeguard stop'),
        ({'safety_mode': 6}, 'emergency stop'),
        ({'safety_mode': 7}, 'emergency stop'),
        ({'safety_mode': 99}, 'safety mode 99'),
        ({'robot_mode': 5}, 'idle, brakes not released'),
        ({'program_running': False}, 'External Control program not running.*press Play'),
    ],
)
def test_each_fault_is_named_with_its_cure(change, reason):
    fault = find_fault(RobotStatus(**{**GOOD, **change}), 10.05, HealthSettings())
    assert fault is not None
    assert re.search(reason, fault)


@pytest.mark.parametrize(
    ('modes', 'reason'),
    [
        ({}, None),  # drivers 6.0 and 7.0, and those before 3.9
        ({'robot_mode': 7}, None),
        ({'robot_mode': 7, 'safety_mode': 1, 'program_running': True}, None),
        ({'robot_mode': 3}, 'powered off'),
        ({'safety_mode': 3}, 'protective stop'),
        ({'program_running': False}, 'program not running'),
    ],
)
def test_mock_hardware_is_judged_by_its_joints_and_by_the_modes_that_it_publishes(modes, reason):
    status = RobotStatus(silent_since=10.0, q=HOME, qd=np.zeros(6), **modes)
    fault = find_fault(status, 10.05, HealthSettings(check_modes=False))
    assert reason in fault if reason else fault is None


def follow(position_at, scaling_at=lambda t: 1.0, ticks=2000):
    """Run a monitor over made-up joints; return (monitor, fault, time of the fault)."""
    monitor = MotionMonitor(TRAJECTORY, TrackingSettings(), 0.0)
    for k in range(1, ticks):
        t = k * CYCLE
        fault = monitor.tick(t, position_at(t), scaling_at(t))
        if fault:
            return monitor, fault, t
    return monitor, None, ticks * CYCLE


@pytest.mark.parametrize('scaling', [(0.0, 1.0), (1.0, 0.0)], ids=['raised', 'lowered'])
def test_a_slider_that_is_moved_in_a_gap_of_the_joints_is_no_fault(scaling):
    before, after = scaling
    monitor = MotionMonitor(TRAJECTORY, TrackingSettings(), 0.0)
    for k in range(1, 50):
        assert monitor.tick(k * CYCLE, TRAJECTORY.sample(k * CYCLE)[0], 1.0) is None
    at, now = 49 * CYCLE, 50 * CYCLE
    assert monitor.tick(now, TRAJECTORY.sample(at)[0], before) is None
    for later in (0.3, 0.308):  # the arm went on in the gap
        there = TRAJECTORY.sample(at + (0.3 if after == 0.0 else later))[0]
        assert monitor.tick(now + later, there, after) is None


def test_a_stall_is_not_discounted_from_a_silence_that_has_ended():
    status = RobotStatus(**GOOD, arrived=10.0)
    status.discount_stall(0.3, 10.001)
    assert status.silent_since == 10.001
    status.discount_stall(0.3, 10.3)
    assert 10.2 < status.silent_since < 10.3


@pytest.mark.parametrize(
    ('stamp', 'said'), [(7.008, 'this PC was 2.00 s late'), (9.0, 'were silent'), (0.1, 'silent')]
)
def test_a_gap_is_the_pcs_only_if_no_stamp_is_missing_or_goes_back(stamp, said):
    status = RobotStatus()
    for t, arrived in ((7.0, 50.0), (stamp, 52.0)):
        status.update_joints(t, HOME, np.zeros(6), [''] * 6, arrived)
    assert said in status.gap


def test_an_arm_that_follows_with_servo_lag_is_never_lost():
    monitor, fault, _ = follow(lambda t: TRAJECTORY.sample(t - 0.05)[0])
    assert fault is None
    assert monitor.arrived(TRAJECTORY.q[-1], np.zeros(6))


@pytest.mark.parametrize('scaling', [0.01, 0.1, 0.5])
def test_a_slowed_arm_is_not_late(scaling):
    monitor, fault, _ = follow(lambda t: TRAJECTORY.sample(t * scaling)[0], lambda t: scaling)
    assert fault is None
    assert monitor.is_overdue == (2000 * CYCLE * scaling > TRAJECTORY.duration + 3.0)


def test_a_slider_at_zero_is_a_wait():
    _, fault, _ = follow(
        lambda t: TRAJECTORY.sample(min(t, 0.4))[0], lambda t: 1.0 if t <= 0.4 else 0.0
    )
    assert fault is None


def test_an_arm_that_leaves_the_path_is_noticed_at_once():
    _, fault, t = follow(lambda t: TRAJECTORY.sample(t)[0] + (0.2 if t > 0.5 else 0.0))
    assert fault is not None
    assert 0.5 < t < 0.55


@pytest.mark.parametrize('lag', [0.0, 0.03, 0.1])
def test_the_rest_of_a_motion_there_and_back_holds_the_far_end_until_the_arm_was_there(lag):
    """Also where the way back passes nearer to the arm than the way out."""
    far = TRAJECTORY.q[-1]
    back = time_ptp(far, HOME, LIMITS, lambda q, qd: np.zeros(1))
    motion, turn = concatenate([TRAJECTORY, back]), TRAJECTORY.duration
    monitor = MotionMonitor(motion, TrackingSettings(), 0.0)
    for t in np.arange(CYCLE, motion.duration, CYCLE):
        q = motion.sample(t - lag)[0] + [0.0, 0.002, -0.002, 0.0, 0.001, 0.0]
        assert monitor.tick(t, q, 1.0) is None
        rest = path_from(q, motion, monitor.within)
        np.testing.assert_allclose(rest[[0, -1]], [q, HOME], atol=1e-12)
        holds_far_end = np.abs(rest - far).max(axis=1).min() < 0.02
        if t - lag <= turn:
            assert holds_far_end, f'at {t:.3f} s of {turn:.3f} s'
        elif t > turn + 1.1:
            assert not holds_far_end, 'what has been passed cannot stop the motion'


def test_the_rest_of_a_path_passed_once_begins_at_the_arm_whatever_the_time():
    for t in np.linspace(0.0, TRAJECTORY.duration, 50):
        rest = path_from(TRAJECTORY.sample(t)[0], TRAJECTORY)
        assert np.abs(rest[1] - rest[0]).max() < 0.1 and (rest[-1] == TRAJECTORY.q[-1]).all()


@pytest.mark.parametrize('share', [0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 0.9, 0.95])
def test_braking_stays_on_the_path_within_the_limits_and_ends_at_rest(share):
    t = share * TRAJECTORY.duration
    stop = brake(TRAJECTORY, t, LIMITS)
    q, qd, _, _ = TRAJECTORY.sample(t)
    np.testing.assert_allclose(stop.q[0], q, atol=1e-12)
    np.testing.assert_allclose(stop.qd[0], qd, atol=1e-9)
    assert not stop.qd[-1].any() and not stop.qdd[-1].any()
    path = TRAJECTORY.sample(np.linspace(0.0, TRAJECTORY.duration, 4000))[0]
    samples = stop.sample(np.linspace(0.0, stop.duration, 100))[0]
    away = np.abs(samples[:, None] - path[None]).max(axis=2).min(axis=1)
    assert away.max() < 2e-3
    assert stop.duration <= TRAJECTORY.duration - t + 1e-9
    velocity, acceleration, jerk, _ = peaks(stop, LIMITS)
    assert max(velocity, acceleration) <= 1.01 and jerk <= 1.05


def test_a_braking_motion_has_no_points_that_coincide():
    """As a point of the plan within a nanosecond of one of the ramp's would be."""
    times = [*np.linspace(0.123, 0.124, 200), 0.12332293324]
    assert min(np.diff(brake(TRAJECTORY, t, LIMITS).t).min() for t in times) > 1e-3


def test_braking_early_in_a_long_motion_stops_long_before_its_end():
    motion = time_ptp(HOME, HOME + [4.0, 0, 0, 0, 0, 0], LIMITS, lambda q, qd: np.zeros(1))
    stop = brake(motion, 0.5, LIMITS)
    assert stop.duration < 1.0 < motion.duration - 0.5


@pytest.mark.parametrize('acceleration', [0.05, 0.2, 0.5, 1.0, 5.0, 10.0, 40.0])
def test_a_stop_is_as_short_as_the_limits_allow_however_gentle_they_are(acceleration, rng):
    """The plan goes on to speed up for seconds at gentle limits: it is no stop."""
    limits = replace(LIMITS, qdd=np.full(6, acceleration), qddd=np.full(6, 10 * acceleration))
    for _ in range(20):
        end = HOME + rng.uniform(-1.0, 1.0, 6) * [1.2, 0.3, 0.3, 1.0, 1.0, 3.0]
        motion = time_ptp(HOME, end, limits, lambda q, qd: np.zeros(1))
        for t in np.array([0.05, 0.15, 0.3, 0.45, 0.6]) * motion.duration:
            speed = np.abs(motion.sample(t)[1]).max()
            stop = brake(motion, t, limits)
            assert stop.duration < 2.0 * (0.3 + speed / acceleration)
            _, _, qdd, qddd = stop.sample(stop.dense_times(1e-3 * stop.duration))
            assert np.abs(qdd / limits.qdd).max() < 1.01
            assert np.abs(qddd / limits.qddd).max() <= 1.05


def stops_of_lines(rng):
    """Yield planner, line, stop and its time, of lines at 0.25 m/s, and slow ones near the end."""
    settings = MotionSettings(velocity_scaling=1.0, acceleration_scaling=1.0)
    planner = MotionPlanner(MODEL, settings, Scene(-1.0, Tool(np.eye(4))))
    q_start = np.array([0.4, -1.4, 2.0, -2.2, -1.57, 0.0])
    for k in range(8):
        T = forward(MODEL, q_start)
        T[:3, 3] += np.array([0.1, 0.25, -0.15]) * rng.uniform(-1.0, 1.0, 3)
        slow = {'speed': 0.1, 'slow_last': 0.021} if k % 2 else {}
        line = planner.chain(q_start, [PathSegment(T, **slow)]).trajectory
        for t in np.round(rng.uniform(0.02, 0.95, 12) * line.duration, 9):
            yield planner, line, brake(line, t, planner.limits, dynamics=planner.dynamics), t


def test_no_stop_of_a_line_is_faster_than_the_line_was_at_the_same_place(rng):
    """And with the motion before it passes the gate."""
    for planner, line, stop, t in stops_of_lines(rng):
        before = line.t[line.t < t - 1e-4]
        q, qd, qdd, _ = line.sample(before)
        rows = zip((before, q, qd, qdd), (t + stop.t, stop.q, stop.qd, stop.qdd), strict=True)
        planner.check_running_motion(Trajectory(*map(np.concatenate, rows)))
        times = np.linspace(t, line.duration, 2000)
        places = forward(MODEL, line.sample(times)[0])[:, :3, 3]
        planned = np.linalg.norm(np.gradient(places, times, axis=0), axis=1)
        now = np.linspace(0.0, stop.duration, 400)
        p = forward(MODEL, stop.sample(now)[0])[:, :3, 3]
        speed = np.linalg.norm(np.gradient(p, now, axis=0), axis=1)
        at = np.linalg.norm(p[:, None] - places[None], axis=2).argmin(axis=1)
        allowed = np.max([planned[(at + k).clip(0, 1999)] for k in range(-4, 5)], axis=0)
        assert (speed <= 1.002 * allowed + 1e-3).all()


def test_any_motion_can_be_stopped_and_what_is_left_passes_the_gate_again(rng):
    planner = MotionPlanner(MODEL, MOTION, Scene(-1.0, Tool(np.eye(4))))
    for _ in range(30):
        q_start, q_goal = HOME + rng.uniform(-0.8, 0.8, (2, 6)) * [2.0, 0.3, 0.5, 1.0, 1.0, 3.0]
        motion = planner.ptp(q_start, q_goal).trajectory
        for t in rng.uniform(0.0, motion.duration, 4):
            stop = brake(motion, t, planner.limits, dynamics=planner.dynamics)
            assert (stop.jerk_peaks()[1] / planner.limits.qddd).max() <= 1.05
            rest = resume_on_path(motion, stop.q[-1], planner.limits, (t, t + stop.duration))
            planner.check(rest, rest.q[0])
            # As a step of one cycle it would be hidden to the gate.
            assert np.abs(rest.q[0] - stop.q[-1]).max() < 1e-5


def test_a_load_that_no_stop_can_carry_does_not_let_the_motion_run_on():
    slow = replace(LIMITS, qd=np.full(6, 0.1))
    motion = time_ptp(HOME, HOME + [2.0, 0, 0, 0, 0, 0], slow, lambda q, qd: np.zeros(1))
    stop = brake(motion, 1.0, LIMITS, dynamics=Dynamics(MODEL, [Load(40.0, (0.0, 0.0, 0.15))]))
    assert stop is None or stop.duration < 2.5 < motion.duration - 1.0


def test_what_is_left_of_a_motion_keeps_its_jerk_wherever_it_begins(rng):
    """Also just before a point of the plan, at which the jerk switches."""
    limits = replace(LIMITS, qdd=np.full(6, 40.0), qddd=np.full(6, 400.0))
    for _ in range(10):
        end = HOME + rng.uniform(-0.02, 0.02, 6)
        motion = time_ptp(HOME, end, limits, lambda q, qd: np.zeros(1))
        for before in (2e-4, 5e-4, 9e-4, 2e-3):
            for t in motion.t[2:-1] - before:
                rest = rest_of(motion, t)
                received = Trajectory(np.round(rest.t, 9), rest.q, rest.qd, rest.qdd)
                assert (received.jerk_peaks()[1] / limits.qddd).max() < 1.01


def ruckig_stop(speed, rate, max_rate, max_jerk):
    """Return in how long ruckig brings a speed to zero [s]."""
    state = ruckig.InputParameter(1)
    state.control_interface = ruckig.ControlInterface.Velocity
    state.current_velocity, state.current_acceleration = [speed], [rate]
    state.max_acceleration, state.max_jerk = [max_rate], [max_jerk]
    stop = ruckig.Trajectory(1)
    assert ruckig.Ruckig(1).calculate(state, stop) >= 0
    return stop.duration


def test_speeds_fall_to_zero_within_their_limits_as_early_as_they_allow(rng):
    max_rate, max_jerk = rng.uniform(0.5, 5.0, 200), rng.uniform(1.0, 50.0, 200)
    rate = rng.uniform(-1.0, 1.0, 200) * max_rate
    lost = np.maximum(0.0, -rate) * np.abs(rate) / (2 * max_jerk)
    speed = rng.uniform(0.01, 3.0, 200) + lost
    profile = SpeedProfile(speed, rate, max_rate, max_jerk, max_jerk)
    assert profile.is_possible.all()
    t = profile.duration[:, None] * np.linspace(0.0, 1.0, 20001)
    way, v, a, _ = profile.at(t)
    np.testing.assert_allclose(v[:, 0], speed, atol=1e-12)
    np.testing.assert_allclose(a[:, 0], rate, atol=1e-12)
    np.testing.assert_allclose([v[:, -1], a[:, -1]], 0.0, atol=1e-9)
    assert (np.abs(a).max(axis=1) <= max_rate + 1e-9).all()
    step = t[:, 1:2]
    np.testing.assert_allclose(np.diff(way) / step, (v[:, 1:] + v[:, :-1]) / 2, atol=1e-5)
    np.testing.assert_allclose(np.diff(v) / step, (a[:, 1:] + a[:, :-1]) / 2, atol=2e-3)
    assert (np.abs(np.diff(a) / step).max(axis=1) <= max_jerk * (1 + 1e-6)).all()
    optimal = [ruckig_stop(*row) for row in zip(speed, rate, max_rate, max_jerk, strict=True)]
    np.testing.assert_allclose(profile.duration, optimal, atol=1e-6)


def test_the_jerk_at_the_end_of_a_stop_may_be_another_one():
    profile = SpeedProfile(*np.array([[1.0], [0.3], [2.0], [40.0], [5.0]]))
    _, v, a, jerk = profile.at(np.linspace(0.0, profile.duration[0], 1001))
    assert a.min() >= -2.0 - 1e-9 and abs(v[-1]) < 1e-9 and abs(a[-1]) < 1e-9
    assert jerk.min() == -40.0 and jerk.max() == 5.0


@pytest.mark.parametrize('share', [0.01, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_setting_off_again_follows_the_rest_of_the_path_from_rest_within_the_limits(share):
    motion = time_ptp(HOME, HOME + [1.0, 0.4, 0, -0.3, 0, 2.0], LIMITS, lambda q, qd: np.zeros(1))
    stop = brake(motion, share * motion.duration, LIMITS)
    rest = resume_on_path(motion, stop.q[-1], LIMITS)
    np.testing.assert_allclose(rest.q[0], stop.q[-1], atol=1e-5)
    np.testing.assert_allclose(rest.q[-1], motion.q[-1], atol=1e-12)
    assert not rest.qd[[0, -1]].any() and not rest.qdd[-1].any()
    _, qd, qdd, qddd = rest.sample(rest.dense_times(1e-3))
    assert np.abs(qd / LIMITS.qd).max() <= 1.01
    assert np.abs(qdd / LIMITS.qdd).max() <= 1.01
    assert np.abs(qddd / LIMITS.qddd).max() <= 1.06
    path = motion.sample(np.linspace(0.0, motion.duration, 4000))[0]
    samples = rest.sample(np.linspace(0.0, rest.duration, 100))[0]
    assert np.abs(samples[:, None] - path[None]).max(axis=2).min(axis=1).max() < 1e-3


def test_setting_off_from_the_end_of_a_path_is_no_motion():
    assert resume_on_path(TRAJECTORY, TRAJECTORY.q[-1], LIMITS).duration == 0.0


def test_jitter_tells_median_tail_and_worst_of_the_ticks():
    jitter = Jitter()
    assert jitter.summary() == {}
    for now in np.concatenate([np.arange(0.0, 8.0, 0.008), 8.1 + np.arange(0.0, 0.8, 0.008)]):
        jitter.tick(float(now))
    said = {name: float(value) for name, value in jitter.summary().items()}
    assert said == pytest.approx(
        {'tick p50 [ms]': 8.0, 'tick p99 [ms]': 8.0, 'tick worst [ms]': 108.0}, abs=0.1
    )


def time_optimal_chain():
    """Return a motion that is at its limits all the way, and the limits."""
    planner = MotionPlanner(MODEL, MOTION, Scene(-1.0, Tool(np.eye(4))))
    q_start = np.array([0.4, -1.4, 2.0, -2.2, -1.57, 0.0])
    corners = [forward(MODEL, q_start) for _ in range(3)]
    for T, way in zip(corners, ([0, 0, 0.15], [0.3, -0.3, 0.15], [0.3, -0.3, 0.0]), strict=True):
        T[:3, 3] += way
    chain = planner.chain(q_start, [PathSegment(T, blend=0.01) for T in corners])
    return chain.trajectory, planner.limits


def test_braking_a_time_optimal_motion_does_not_wait_for_its_end():
    """Where it brakes by itself it is followed."""
    motion, limits = time_optimal_chain()
    assert motion.duration > 1.2
    durations = []
    for t in np.linspace(0.0, motion.duration, 60):
        stop = brake(motion, t, limits)
        durations.append(stop.duration)
        assert stop.duration < 0.8
        _, _, qdd, qddd = stop.sample(stop.dense_times(1e-3))
        assert np.abs(qdd / limits.qdd).max() <= 1.01
        assert np.abs(qddd / limits.qddd).max() <= 1.05
    assert np.mean(durations) < 0.5


def test_braking_with_a_heavy_load_keeps_the_torque_of_the_joints(rng):
    """At the limits of the simulated cell, with what a UR10e may carry."""
    arm = load_model('ur10e')
    heavy = Dynamics(arm, [Load(12.5, (0.0, 0.0, 0.1))])
    planner = MotionPlanner(arm, MOTION, Scene(-1.5, Tool(np.eye(4))), heavy)

    def most_torque(motion):
        states = motion.sample(motion.dense_times(4e-3))[:3]
        return np.abs(heavy.inverse(*states) / heavy.torque_max).max()

    stops, unaware, refused = [], [], 0
    while len(stops) < 60:
        q_start = rng.uniform(-1.5, 1.5, 6)
        try:
            motion = planner.ptp(q_start, q_start + rng.uniform(-1.5, 1.5, 6)).trajectory
        except PlanningError:
            continue
        for t in np.linspace(0.02, 0.95, 6) * motion.duration:
            unaware.append(most_torque(brake(motion, t, planner.limits)))
            stop = brake(motion, t, planner.limits, dynamics=heavy)
            stops.append(most_torque(stop))
            there = stop.q[-1], planner.limits, (t, t + stop.duration)
            refused += most_torque(resume_on_path(motion, *there)) > 1.0
            planner.check(resume_on_path(motion, *there, heavy), stop.q[-1])
    assert max(unaware) > 1.1 and max(stops) < 1.01 and refused


@pytest.mark.parametrize('takeover_time', [0.02, 0.1, 0.2])
def test_motions_that_brake_and_set_off_keep_their_jerk_in_a_message(rng, takeover_time):
    """Messages carry nanoseconds: rounding points 1 ms apart to them costs up to 40 % of jerk."""
    motion, limits = time_optimal_chain()
    for t in rng.uniform(0.0, motion.duration, 12):
        stop = brake(motion, t, limits, takeover_time)
        for sent in (stop, resume_on_path(motion, stop.q[-1], limits)):
            received = Trajectory(np.round(sent.t, 9), sent.q, sent.qd, sent.qdd)
            jerk, meant = (
                np.abs(one.sample(one.dense_times(1e-3))[3] / limits.qddd).max()
                for one in (received, sent)
            )
            assert jerk <= meant + 0.001
