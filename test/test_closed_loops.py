# SPDX-License-Identifier: Apache-2.0
"""
The two closed-loop methods on the simulated driver, without ROS.

Both reach their goal near the straight line and keep every limit, alike at 0, 50 and 100 ms of
servo lag, whatever the slider says and however late or lossy the messages are; each stop names its
reason and leaves the arm at rest.

"""

import re
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ur5_pick_place.control import rollout
from ur5_pick_place.control.closed_loop import ClosedLoop
from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.laws import Gradient, ResolvedRate
from ur5_pick_place.control.loop_settings import PICK_AND_PLACE_PROJECT, LoopSettings
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.reference import Reference, State, shortest_change
from ur5_pick_place.control.robot_status import HealthSettings, RobotStatus
from ur5_pick_place.control.rollout import loop_of, plan_roll_out, roll_out
from ur5_pick_place.errors import GateRefusal, IncompletePath, InvalidInput
from ur5_pick_place.kinematics import HOME, forward, jacobian, load_model
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import exp_se3, exp_so3, inverse_transform, log_se3
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scaling import Scaling
from ur5_pick_place.planning.scene_file import load_scene
from ur5_pick_place.sim.controller_manager import SCALED
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.world import CellSettings, World

MODEL = load_model('ur5')
PLANNER = MotionPlanner(
    MODEL,
    MotionSettings(max_acceleration=10.0, max_jerk=100.0, max_speed=0.5),
    load_scene(Path(__file__).parents[1] / 'config' / 'scene_sim.yaml'),
)
TCP = PLANNER.scene.tool.p_tool_tcp
METHODS = ('resolved_rate', 'gradient')
START = np.array([0.2, -1.5, 1.7, -1.77, -1.57, 0.3])
LIFT = np.array([0.05, 0.1, -0.04])  # [m] from the start to the goal


def goal_of(q, way=LIFT, turn=(0.0, 0.0, 0.2)):
    """A pose some way [m] off the tool at `q`, turned about its own axes [rad]."""
    T = forward(MODEL, q)
    T[:3, 3] += way
    T[:3, :3] = T[:3, :3] @ exp_so3(turn)
    return T


@cache
def usual(method):
    """The roll-out from the start to the usual goal."""
    return roll_out(method, MODEL, PLANNER.limits, TCP, START, goal_of(START), LoopSettings())


def plan(method, q=START, T_goal=None, settings=LoopSettings()):
    if T_goal is None:
        return usual(method)
    return roll_out(method, MODEL, PLANNER.limits, TCP, q, T_goal, settings)


def free(q):
    return ''


class Cell:
    """A driver on the simulated cell that hears windows, late or not at all, and a record."""

    def __init__(self, q, lag, late=1, lost=0.0, slider=1.0):
        self.driver = Driver(World(CellSettings(servo_lag=lag), q))
        self.driver.robot.slider = slider
        self._late, self._lost = late, lost
        self._rng = np.random.default_rng(5)
        self._queue = []
        self.q, self.sent = [], 0
        for _ in range(25):
            self.cycle()

    def cycle(self):
        self.driver.cycle()
        self.q.append(self.driver.q.copy())
        self._queue = [(cycles - 1, command) for cycles, command in self._queue]
        while self._queue and self._queue[0][0] <= 0:
            with suppress(InvalidInput):  # a window of the past; the driver logs and drops it
                self.driver.trajectory[SCALED].follow(self._queue.pop(0)[1], self.driver.time)

    def send(self, segment):
        self.sent += 1
        if self._rng.random() < self._lost:
            return
        points = [
            Waypoint(round(float(t), 9), *state)
            for t, *state in zip(*vars(segment.trajectory).values(), strict=False)
        ]
        command = TrajectoryCommand(self.driver.joint_names, points, round(segment.begin, 9))
        self._queue.append((self._late, command))

    def hold(self, q):
        command = TrajectoryCommand(self.driver.joint_names, [Waypoint(0.0, q)])
        self._queue.append((self._late, command))

    def run(self, loop, seconds=30.0, at=()):
        """Run the loop to its outcome; `at` maps a cycle to what happens then."""
        events = dict(at)
        for k in range(round(seconds / CYCLE)):
            self.cycle()
            if k in events:
                events[k]()
            driver = self.driver
            segment = loop.tick(driver.time, driver.q, driver.qd, driver.robot.scaling)
            if loop.outcome is not None:
                return loop.outcome
            if segment is not None:
                self.send(segment)
        return None

    @property
    def rates(self):
        """Velocity and acceleration of the measured joints by differences (n, 6)."""
        qd = np.diff(self.q, axis=0) / CYCLE
        return qd, np.diff(qd, axis=0) / CYCLE


def loop_on(path, method, settings=LoopSettings(), obstacle=free):
    return ClosedLoop(method, MODEL, PLANNER.limits, TCP, path.q, settings, obstacle)


def off_line(q, T_goal):
    """Largest distance [m] of the tool from the line to its goal, over joints (n, 6)."""
    p = forward(MODEL, np.asarray(q))[:, :3, 3]
    way = T_goal[:3, 3] - p[0]
    return np.linalg.norm(np.cross(p - p[0], way / np.linalg.norm(way)), axis=1).max()


def miss(q, T_goal):
    """Position [mm] and angle [deg] by which the tool misses."""
    xi = log_se3(inverse_transform(T_goal) @ forward(MODEL, q))
    return 1e3 * np.linalg.norm(xi[:3]), np.degrees(np.linalg.norm(xi[3:]))


# -- the laws --------------------------------------------------------------------------------


def test_resolved_rate_shrinks_the_error_along_its_own_twist(rng):
    law = ResolvedRate(MODEL, 2.0, 0.3)
    for _ in range(20):
        q = START + rng.uniform(-0.3, 0.3, 6)
        xi = rng.uniform(-0.3, 0.3, 6)
        T_goal = forward(MODEL, q) @ exp_se3(-xi)
        twist = jacobian(MODEL, q) @ law.rate(q, T_goal)
        np.testing.assert_allclose(twist, -2.0 * xi, atol=1e-12)


def test_the_project_step_halves_the_twist_error_in_each_iteration():
    """K = 1 and T_step = 0.5; for small errors, where the twist commutes with its change."""
    settings = PICK_AND_PLACE_PROJECT
    assert (settings.loop_gain, settings.loop_hold) == (1.0, 0.5)
    law = ResolvedRate(MODEL, settings.loop_gain, settings.loop_length)
    q, T_goal = START, goal_of(START, 0.05 * LIFT, (0.0, 0.0, 0.01))
    for k in range(1, 9):
        q = q + settings.loop_hold * law.rate(q, T_goal)
        assert miss(q, T_goal)[0] == pytest.approx(0.5**k * 1e3 * 0.05 * 0.1187, rel=0.02)


@pytest.mark.parametrize('method', METHODS)
def test_the_project_settings_reach_the_goal_too(method):
    T_goal = goal_of(START, 0.3 * LIFT, (0, 0, 0))
    end = plan(method, START, T_goal, PICK_AND_PLACE_PROJECT).q[-1]
    assert miss(end, T_goal)[0] <= 5.0


def test_damping_is_zero_but_near_a_singularity():
    law = ResolvedRate(MODEL, 1.0, 0.3)
    ratio = {}
    for theta_5 in (0.6, 0.02):
        q = np.array([0.2, -1.4, 1.6, -1.2, theta_5, 0.3])
        T_goal = forward(MODEL, q) @ exp_se3([0.0, 0.0, 0.0, 0.05, 0.05, 0.0])
        J = jacobian(MODEL, q)
        undamped = np.linalg.norm(np.linalg.solve(J, log_se3(exp_se3([0, 0, 0, 0.05, 0.05, 0]))))
        ratio[theta_5] = np.linalg.norm(law.rate(q, T_goal)) / undamped
    assert ratio[0.6] == pytest.approx(1.0, abs=1e-9)
    assert ratio[0.02] < 0.2


def test_the_gradient_is_that_of_the_weighted_error(rng):
    law = Gradient(MODEL, 1.0, 0.3)
    for _ in range(20):
        q = START + rng.uniform(-0.5, 0.5, 6)
        T_goal = goal_of(START, rng.uniform(-0.2, 0.2, 3), rng.uniform(-1, 1, 3))
        slope = [
            (law.value(q + h, T_goal) - law.value(q - h, T_goal)) / 2e-6 for h in 1e-6 * np.eye(6)
        ]
        step = law.step(q, T_goal)
        cosine = -step @ slope / np.linalg.norm(step) / np.linalg.norm(slope)
        assert cosine == pytest.approx(1.0, abs=1e-6)


def test_the_gradient_follows_lines_of_every_length_within_seconds(rng):
    """With one weight for all directions it took 40 s, and left the lines by as much."""
    for length in (0.02, 0.06, 0.2):
        way = rng.normal(size=3) * [1.0, 1.0, 0.3]
        way *= length / np.linalg.norm(way)
        path = plan('gradient', T_goal=goal_of(START, way, rng.normal(0.0, 0.2, 3)))
        assert path.duration < 4.0 + length / 0.04
        p = forward(MODEL, path.q)[:, :3, 3] - forward(MODEL, START)[:3, 3]
        away = p - np.outer(p @ way, way) / (way @ way)
        assert np.linalg.norm(away, axis=1).max() < 4e-3


def test_a_suited_weight_makes_all_directions_alike_and_its_value_falls(rng):
    law = Gradient(MODEL, 1.0, 0.3)
    law.adapt_weight(START)
    for _ in range(20):
        T_goal = goal_of(START, rng.uniform(-0.006, 0.006, 3), rng.uniform(-0.02, 0.02, 3))
        q = START
        for _ in range(3):
            before, q = law.value(q, T_goal), q + law.step(q, T_goal)
            assert law.value(q, T_goal) < 0.1 * before


def test_a_loop_that_takes_too_long_says_how_far_it_gets(monkeypatch):
    monkeypatch.setattr(rollout, '_LONGEST', 5.0)
    limits = replace(PLANNER.limits, speed=0.005)
    with pytest.raises(IncompletePath, match=r'to \d\d %, 9\d[.\d]* mm .* within 5 s') as error:
        roll_out('gradient', MODEL, limits, TCP, START, goal_of(START), LoopSettings())
    assert 0.1 < error.value.fraction < 0.25


@pytest.mark.parametrize('share', [1.0, 0.5, 0.04])
def test_the_error_falls_in_every_iteration_whatever_share_of_the_step_is_taken(rng, share):
    """From anywhere, the half turn but for some degrees included, wild postures too."""
    law = Gradient(MODEL, 1.0, 0.3)
    for _ in range(60):
        q, other = rng.uniform(-np.pi, np.pi, (2, 6))
        T_goal = forward(MODEL, other)
        for _ in range(8):
            before, q = law.value(q, T_goal), q + share * law.step(q, T_goal)
            assert law.value(q, T_goal) < before


# -- the reference ---------------------------------------------------------------------------


def test_changes_of_velocity_keep_acceleration_and_jerk(rng):
    limits = PLANNER.limits
    for _ in range(30):
        start = State(HOME, rng.uniform(-1, 1, 6), rng.uniform(-5, 5, 6))
        change = shortest_change(start, rng.uniform(-1, 1, 6), limits)
        states = [change.at(k) for k in range(change.cycles + 3)]
        qdd = np.array([s.qdd for s in states])
        assert np.abs(qdd / limits.qdd).max() <= 1.002
        assert np.abs(np.diff(qdd, axis=0) / CYCLE / limits.qddd).max() <= 1.002
        np.testing.assert_allclose(states[-1].qd, change.velocity, atol=1e-12)
        # positions are the integral of the velocities (trapezoid, error of second order)
        qd = np.array([s.qd for s in states])
        way = ((qd[1:] + qd[:-1]) / 2 * CYCLE).sum(axis=0)
        np.testing.assert_allclose(states[-1].q - HOME, way, atol=1e-4)


def test_a_change_from_a_steady_motion_keeps_the_direction(rng):
    qd = rng.uniform(-0.5, 0.5, 6)
    change = shortest_change(State(HOME, qd, np.zeros(6)), np.zeros(6), PLANNER.limits)
    for k in range(change.cycles):
        now = change.at(k).qd
        np.testing.assert_allclose(now, qd * (now[0] / qd[0]), atol=1e-12)


def test_windows_agree_on_what_is_settled(rng):
    """So that the controller may pass from one to the next whenever it hears it."""
    reference, ahead = Reference(HOME, PLANNER.limits), 10
    before = None
    for k in range(80):
        reference.advance(CYCLE if k else 0.0, ahead)
        reference.extend(*reference.propose(rng.uniform(-0.5, 0.5, 6)))
        segment, ago = reference.segment()
        assert ago == pytest.approx(0.0, abs=1e-9)
        if before is not None:
            t = CYCLE * np.arange(ahead)
            expected = before.sample(t + CYCLE)[0]
            np.testing.assert_allclose(segment.sample(t)[0], expected, atol=1e-9)
        assert not segment.qd[-1].any() and not segment.qdd[-1].any()
        before = segment


# -- roll-outs -------------------------------------------------------------------------------


@pytest.mark.parametrize('method', METHODS)
def test_a_roll_out_passes_the_gate_and_ends_at_the_goal(method):
    path = plan(method)
    PLANNER.check(path, START)
    mm, deg = miss(path.q[-1], goal_of(START))
    assert mm <= 0.1 and deg <= 0.05


@pytest.mark.parametrize('method', METHODS)
def test_a_goal_out_of_reach_is_refused_with_the_singularity(method):
    with pytest.raises(IncompletePath, match='elbow singularity') as refusal:
        plan(method, START, goal_of(START, (-0.9, 0.0, 0.0)))
    assert 0.1 < refusal.value.fraction < 0.9


@pytest.mark.parametrize('x', [1e3, 1e160, 1e308])
def test_a_goal_beyond_all_measure_is_refused(x):
    T_goal = goal_of(START)
    T_goal[0, 3] = x
    with np.errstate(all='ignore'), pytest.raises(IncompletePath, match='line to 0 %'):
        plan('resolved_rate', START, T_goal)


def test_a_line_across_the_wrist_singularity_is_refused():
    q = np.array([0.2, -1.4, 1.6, -1.2, 0.3, 0.3])
    with pytest.raises(IncompletePath, match='wrist singularity'):
        plan('resolved_rate', q, forward(MODEL, q + [0.1, 0.05, -0.05, 0.1, -0.6, 0.1]))


def test_the_saddle_of_the_gradient_is_named_instead_of_looping():
    T_goal = goal_of(START, LIFT, (0.0, 0.0, np.pi - 0.005))
    with pytest.raises(IncompletePath, match='179.7 deg from the goal, the 180-degree saddle'):
        plan('gradient', START, T_goal)


def test_a_roll_out_keeps_the_speed_of_tcp_and_elbow():
    limits = PLANNER.limits_at(Scaling(1.0, 1.0, 0.05))
    path = roll_out('resolved_rate', MODEL, limits, TCP, START, goal_of(START), LoopSettings())
    report = PLANNER.check(path, START)
    assert 0.045 < max(report.tcp_speed, report.elbow_speed) <= 0.05


def test_a_loop_is_made_of_its_own_roll_out_only():
    own = plan_roll_out(
        PLANNER, 'gradient', START, goal_of(START), Scaling(0.3, 0.3), LoopSettings()
    )
    assert made_of(own, 'gradient').method == 'gradient'
    other = PLANNER.ptp(START, START + [0.8, 0.2, -0.4, 0.0, 0.0, 0.3])
    with pytest.raises(GateRefusal, match='no roll-out of gradient'):
        made_of(other, 'gradient')


def made_of(planned, method, settings=LoopSettings()):
    return loop_of(PLANNER, method, planned.trajectory, settings, planned.report)


@pytest.mark.parametrize('settings', [LoopSettings(), PICK_AND_PLACE_PROJECT])
@pytest.mark.parametrize('method', METHODS)
def test_every_roll_out_is_known_for_its_own(method, settings, rng):
    for _ in range(3):
        T = goal_of(START, rng.uniform(-0.08, 0.08, 3), (0.0, 0.0, rng.uniform(-0.8, 0.8)))
        own = plan_roll_out(PLANNER, method, START, T, Scaling(), settings)
        assert made_of(own, method, settings).method == method


# -- the loop on the robot -------------------------------------------------------------------


@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize('lag', [0.0, 0.05, 0.1])
def test_the_goal_is_reached_alike_at_any_servo_lag(method, lag):
    T_goal, path = goal_of(START), plan(method)
    cell = Cell(START, lag)
    assert cell.run(loop_on(path, method)) == ''
    taken = CYCLE * (len(cell.q) - 25)
    assert abs(taken - path.duration) < 0.1 * path.duration + 0.3
    mm, deg = miss(cell.driver.q, T_goal)
    assert mm <= 0.2 and deg <= 0.1
    allowed = off_line(path.q, T_goal) + 5e-4
    assert off_line(cell.q, T_goal) <= allowed < 0.02
    qd, qdd = cell.rates
    assert np.abs(qd).max() < 1.0
    assert np.abs(qdd).max() < 10.0


@pytest.mark.parametrize(
    'conditions',
    [{'late': 8}, {'late': 2, 'lost': 0.4}, {'slider': 0.5, 'late': 3}],
)
def test_late_and_lost_messages_and_the_slider_change_nothing_but_the_time(conditions):
    T_goal, path = goal_of(START), plan('resolved_rate')
    cell = Cell(START, 0.03, **conditions)
    assert cell.run(loop_on(path, 'resolved_rate')) == ''
    slider = conditions.get('slider', 1.0)
    taken = CYCLE * (len(cell.q) - 25) * slider
    assert abs(taken - path.duration) < 0.1 * path.duration + 0.3
    assert off_line(cell.q, T_goal) <= off_line(path.q, T_goal) + 5e-4
    qd, qdd = cell.rates
    assert np.abs(qd).max() < 1.0 * slider
    assert np.abs(qdd).max() < 10.0


def test_a_pass_near_the_wrist_singularity_keeps_the_limits():
    """Theta 5 comes to 0.09 rad at most, while the tool stays within 4 mm of its line."""
    q_near = np.array([0.2, -1.4, 1.6, -0.2 - np.pi / 2, 0.08, 0.3])
    T = forward(MODEL, q_near)
    T_start, T_goal = T.copy(), T.copy()
    T_start[1, 3] -= 0.15
    T_goal[1, 3] += 0.15
    q = PLANNER.joint_goals(T_start, q_near)[0]
    path = plan('resolved_rate', q, T_goal)
    cell = Cell(q, 0.05)
    assert cell.run(loop_on(path, 'resolved_rate')) == ''
    assert np.abs(np.array(cell.q)[:, 4]).min() < 0.09
    assert off_line(cell.q, T_goal) < 4e-3
    qd, qdd = cell.rates
    assert np.abs(qd).max() <= 1.001
    assert np.abs(qdd).max() < 10.0


def test_a_slider_at_zero_is_a_wait_and_sends_nothing():
    path, cell = plan('resolved_rate'), Cell(START, 0.03)
    loop = loop_on(path, 'resolved_rate')
    counts = []

    def slide(to):
        cell.driver.robot.slider = to
        counts.append(cell.sent)

    outcome = cell.run(loop, at={100: lambda: slide(0.0), 600: lambda: slide(1.0)})
    assert outcome == ''
    assert counts[1] - counts[0] <= 1  # the scaling follows the slider a cycle later


@pytest.mark.parametrize('method', METHODS)
def test_a_wanted_stop_brakes_within_the_limits_and_near_the_line(method):
    T_goal, path = goal_of(START), plan(method)
    cell = Cell(START, 0.05)
    loop = loop_on(path, method)
    assert cell.run(loop, at={110: lambda: loop.stop('enough')}) == 'enough'
    assert np.abs(cell.driver.qd).max() < 0.01
    taken = CYCLE * (len(cell.q) - 25 - 110)
    assert taken < 1.0
    assert miss(cell.driver.q, T_goal)[0] > 10.0
    assert np.abs(cell.rates[1]).max() < 10.0


def test_without_new_messages_the_arm_comes_to_rest_by_itself():
    """What was sent last ends at rest, so that nothing need be said on a dead link."""
    path, cell = plan('resolved_rate'), Cell(START, 0.03)
    loop = loop_on(path, 'resolved_rate')
    cell.run(loop, seconds=1.0)
    assert np.abs(cell.driver.qd).max() > 0.05
    for _ in range(80):
        cell.cycle()
    assert np.abs(cell.driver.qd).max() < 1e-3
    assert np.abs(cell.rates[1]).max() < 10.0


def test_half_a_second_in_which_nothing_is_heard_is_made_up_for():
    """Our process stood; the arm came to rest on its ramp, and is led on from there."""
    path, cell = plan('resolved_rate'), Cell(START, 0.03)
    loop = loop_on(path, 'resolved_rate')
    assert cell.run(loop, seconds=1.0) is None
    for _ in range(60):
        cell.cycle()
    assert cell.run(loop) == ''
    assert off_line(cell.q, goal_of(START)) <= off_line(path.q, goal_of(START)) + 5e-4
    assert np.abs(cell.rates[1]).max() < 10.0


def test_a_stamp_seen_before_sends_nothing():
    path = plan('resolved_rate')
    loop = loop_on(path, 'resolved_rate')
    assert loop.tick(1.0, START, np.zeros(6), 1.0) is not None
    assert loop.tick(1.0, START, np.zeros(6), 1.0) is None
    assert loop.tick(0.9, START, np.zeros(6), 1.0) is None


def test_joints_that_are_no_numbers_are_refused():
    path = plan('resolved_rate')
    loop = loop_on(path, 'resolved_rate')
    loop.tick(1.0, START, np.zeros(6), 1.0)
    with pytest.raises(InvalidInput, match='must be finite'):
        loop.tick(1.008, np.full(6, np.nan), np.zeros(6), 1.0)


def test_an_arm_that_does_not_follow_is_noticed_within_two_seconds():
    path = plan('resolved_rate', T_goal=goal_of(START, 3 * LIFT))
    loop = loop_on(path, 'resolved_rate')
    for k in range(1, 250):
        loop.tick(k * CYCLE, START, np.zeros(6), 1.0)
        if loop.outcome:
            break
    assert 'from its reference' in loop.outcome


def test_an_arm_pushed_out_of_its_corridor_stops():
    path, cell = plan('resolved_rate'), Cell(START, 0.03)
    loop = loop_on(path, 'resolved_rate', LoopSettings(loop_corridor=0.01))
    cell.run(loop, seconds=1.0)
    driver = cell.driver
    loop.tick(driver.time + CYCLE, driver.q + [0, 0, 0, 0, 0.02, 0], driver.qd, 1.0)
    assert 'wrist_2_joint is 0.0' in loop.stop_reason
    assert 'from its roll-out' in loop.stop_reason


def test_what_is_in_the_way_stops_the_loop_before_its_ramp_reaches_it():
    """A bound on the tool's height that its roll-out did not know."""
    T_goal = goal_of(START, (0.05, 0.1, -0.1))
    path = plan('gradient', T_goal=T_goal)
    floor = forward(MODEL, START)[2, 3] - 0.05

    def below(q):
        low = forward(MODEL, q)[..., 2, 3].min()
        return f'tool at {low:.3f} m, the floor is at {floor:.3f} m' if low < floor else ''

    cell = Cell(START, 0.05)
    assert 'gradient stopped: tool at' in cell.run(loop_on(path, 'gradient', obstacle=below))
    assert forward(MODEL, np.array(cell.q))[:, 2, 3].min() >= floor - 1e-5
    assert np.abs(cell.driver.qd).max() < 0.01


# -- the executor that runs it ---------------------------------------------------------------


@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize(
    ('late', 'says'),
    [(14, 'obstacle, the link and the PC'), (25, r'the arm follows 0\.2. s late')],
)
def test_a_loop_whose_windows_arrive_in_vain_says_so(method, late, says):
    """They are past what they settle when they arrive; the arm stays, or trails too far."""
    cell = Cell(START, 0.03, late=late)
    outcome = cell.run(loop_on(plan(method, T_goal=goal_of(START)), method))
    assert re.search(f'{method} stopped: (no progress|.* from its reference).*{says}', outcome)
    assert np.abs(cell.driver.qd).max() < 0.01


class Port:
    """A controller that is there; it hands windows to a cell and remembers what it was told."""

    missing = ''

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
