# SPDX-License-Identifier: Apache-2.0
"""
Motions along a path are as fast as the limits allow and never faster.

How fast a line can be is known from direct collocation (A, B, C) or found here by linear
programming on a grid.
"""

import numpy as np
import pytest
from motion_planners import MODEL, PICK, peaks, speed_of
from optimum_on_grid import grid_optimum
from scipy.spatial.transform import Rotation

from ur5_pick_place.control.loops.splicing import has_gap
from ur5_pick_place.control.stop_trajectory import resume_on_path
from ur5_pick_place.errors import IncompletePath, PlanningError
from ur5_pick_place.kinematics import forward
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.curves import Line
from ur5_pick_place.planning.paths.follow import JointPath, follow
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.timing.path_timing import time_path
from ur5_pick_place.planning.timing.ptp import time_ptp
from ur5_pick_place.planning.timing.time_optimal import ProfileSearch


def limits(velocity=np.pi, acceleration=10.0, jerk=100.0, speed=100.0):
    bounds = (np.full(6, bound) for bound in (velocity, acceleration, jerk))
    return Limits(MODEL.q_min, MODEL.q_max, *bounds, speed)


def line(q, way=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0)):
    """Joint path from `q` straight by `way` [m] in base, turning by `turn` [rad] in the tool."""
    T = forward(MODEL, q)
    goal = T.copy()
    goal[:3, 3] += way
    goal[:3, :3] = T[:3, :3] @ Rotation.from_rotvec(turn).as_matrix()
    return follow(MODEL, Line(T, goal), q)


def random_line(rng):
    while True:
        way = rng.normal(size=3)
        way *= rng.uniform(0.02, 0.5) / np.linalg.norm(way)
        try:
            return line(
                rng.uniform(-2.5, 2.5, 6), way, rng.normal(size=3) * rng.choice([0.0, 0.5])
            )
        except IncompletePath:
            continue


def assert_within(trajectory, bounds):
    velocity, acceleration, jerk, speed = peaks(trajectory, bounds)
    assert max(velocity, acceleration, speed) <= 1.001
    assert jerk <= 1.001
    for end in (0, -1):
        assert np.abs(trajectory.qd[end]).max() < 1e-12
        assert np.abs(trajectory.qdd[end]).max() < 1e-9


LINES = {
    'A': (PICK, [0.3, 0.0, 0.0], 0.652),
    'B': (PICK + [0, -0.35, -0.1, 0.45, 0, 0], [0.0, 0.0, -0.3], 0.707),
    'C': (np.array([0.2, -1.5, 1.7, -1.2, -0.07, 0.3]), [-0.2121, 0.2121, 0.0], 0.938),
}


@pytest.mark.parametrize('name', LINES)
def test_known_lines_take_their_optimum_to_a_percent(name):
    """C starts 4 degrees from the wrist singularity."""
    q, way, optimum = LINES[name]
    trajectory = time_path(line(q, way), limits(), speed_of)
    assert trajectory.duration == pytest.approx(optimum, rel=0.01)
    assert_within(trajectory, limits())


def test_random_lines_take_their_optimum_on_a_grid_to_two_percent(rng):
    for _ in range(4):
        path = random_line(rng)
        bounds = limits(speed=rng.choice([0.5, 100.0]))
        duration = time_path(path, bounds, speed_of).duration
        assert duration == pytest.approx(grid_optimum(path, bounds), rel=0.02)


def random_joint_motion(rng):
    low, high = np.array([[-3, -2.5, -2.5, -3, -3, -3], [3, -0.5, 2.5, 3, 3, 3]])
    start = rng.uniform(low, high)
    return start, rng.choice([start + rng.normal(0.0, 0.3, 6), rng.uniform(low, high)])


@pytest.mark.parametrize(
    ('acceleration', 'speed'),
    [(10.0, 1.0), pytest.param(5.0, 0.25, marks=pytest.mark.drill)],
)
def test_joint_motions_take_the_optimum_of_their_line(acceleration, speed, rng):
    """Where TCP or elbow are too fast for it, the double S as a whole is not slowed down."""
    bounds = limits(acceleration=acceleration, jerk=10 * acceleration, speed=speed)
    gained = []
    for k in range(12):
        start, goal = random_joint_motion(rng)
        trajectory = time_ptp(start, goal, bounds, speed_of)
        assert_within(trajectory, bounds)
        line = JointPath(start + np.linspace(0, 1, 24)[:, None] * (goal - start))
        finest = time_path(line, bounds, speed_of, min_intervals=480)
        assert trajectory.duration <= 1.002 * finest.duration
        if k < 2:
            assert trajectory.duration <= 1.01 * grid_optimum(line, bounds)
        bare = time_ptp(start, goal, bounds, lambda q, qd: np.zeros(1))
        excess = max(1.0, speed_of(*bare.sample(bare.dense_times(2e-3))[:2]).max() / speed)
        gained.append(bare.duration * excess / trajectory.duration)
    assert min(gained) >= 1.0
    assert np.median(gained) > 1.05


def test_tiny_joint_motions_keep_the_limits(rng):
    """Below 4 ms the jerk switches faster than points may follow one another."""
    for way in 10.0 ** np.arange(-9.0, -4.0, 0.25):
        goal = PICK + way * rng.uniform(0.5, 1.0, 6) * rng.choice([-1.0, 1.0], 6)
        for share in (1.0, 0.1):
            bounds = limits(acceleration=10 * share, jerk=100 * share, speed=0.25 * share)
            trajectory = time_ptp(PICK, goal, bounds, speed_of)
            _, qd, qdd, qddd = trajectory.sample(trajectory.dense_times(1e-3))
            assert np.abs(qd).max() <= np.pi
            assert np.abs(qdd).max() <= 1.001 * bounds.qdd[0]
            assert np.abs(qddd).max() <= 1.01 * bounds.qddd[0]
            assert trajectory.duration <= 1.3 * (32.0 * way / bounds.qddd[0]) ** (1 / 3)


def test_one_joint_alone_takes_the_double_s_time():
    """1 rad at 3.1 rad/s, 10 rad/s^2, 100 rad/s^3 never cruises: t = 2 t_a, t_a from distance."""
    q = PICK + np.linspace(0, 1, 50)[:, None] * np.array([1.0, 0, 0, 0, 0, 0])
    ramp = 10.0 / 100.0  # [s] of jerk
    expected = ramp + np.sqrt(ramp**2 + 4 * 1.0 / 10.0)
    trajectory = time_path(JointPath(q), limits(), speed_of)
    assert trajectory.duration == pytest.approx(expected, rel=4e-3)


@pytest.mark.parametrize('speed', [0.25, 1.0])
def test_points_leave_gaps_between_which_a_stop_may_begin(speed, rng):
    """On a controller that splices, within the three cycles of 8 ms that a stop waits."""
    bounds = limits(speed=speed)
    start, goal = random_joint_motion(rng)
    trajectories = [time_path(line(*LINES[name][:2]), bounds, speed_of) for name in LINES]
    for motion in [*trajectories, time_ptp(start, goal, bounds, speed_of)]:
        rest = resume_on_path(motion, motion.sample(0.4 * motion.duration)[0], bounds)
        for t in (motion.t, rest.t):
            arrivals = np.arange(0.05, t[-1] - 0.05, 1.3e-3)
            ready = [has_gap(t, a + k * 8e-3, 8e-3) for a in arrivals for k in range(4)]
            assert np.reshape(ready, (-1, 4)).any(axis=1).mean() > 0.93


@pytest.mark.drill
def test_random_lines_at_random_limits_exceed_none_of_them(rng):
    for _ in range(25):
        path = random_line(rng)
        share = rng.uniform(0.05, 1.0, 4)
        bounds = limits(np.pi * share[0], 10 * share[1], 100 * share[2], 1.0 * share[3])
        assert ProfileSearch(path, bounds, speed_of).fastest().is_optimal
        trajectory = time_path(path, bounds, speed_of)
        assert_within(trajectory, bounds)
        assert max(peaks(trajectory, bounds)) > 0.99


@pytest.mark.parametrize(
    ('q', 'way', 'turn'),
    [
        (PICK, (1e-3, 0, 0), (0, 0, 0)),
        (PICK, (1e-5, 0, 0), (0, 0, 0)),
        (PICK, (0, 0, 0), (np.radians(0.1), 0, 0)),
        (PICK, (0, 0, 0), (0.6, 0.2, 0)),
        (PICK, (0, 0, 0), (0, 0, 1.6)),
        # The elbow stretched, where it starts like the root of the way.
        (np.array([0, -1.2, 0, -np.pi / 2, -np.pi / 2, 0]), (0, 0, -0.2), (0, 0, 0)),
        # 1 mrad beside the wrist singularity.
        (np.array([0.2, -1.5, 1.7, -1.2, -1e-3, 0.3]), (0.2, 0, 0), (0, 0, 0)),
    ],
    ids=['1 mm', '10 um', '0.1 deg', 'tilt', 'wrist turn', 'stretched elbow', 'wrist'],
)
def test_extreme_lines_are_timed_within_the_limits(q, way, turn):
    path = line(q, way, turn)
    bounds = limits(speed=1.0)
    trajectory = time_path(path, bounds, speed_of)
    assert_within(trajectory, bounds)
    assert max(peaks(trajectory, bounds)) > 0.99
    np.testing.assert_allclose(trajectory.q[[0, -1]], path.q[[0, -1]], atol=1e-12)


def test_a_slow_line_takes_its_way_over_its_speed():
    """0.3 m at 5 mm/s; the bound holds for the elbow too, which is the faster one in the end."""
    bounds = limits(speed=0.005)
    path = line(PICK, (0.3, 0, 0))
    x = np.linspace(0, 1, 1001)
    q, slope, _, _ = path.sample(x)
    bare = speed_of(q, slope).max(axis=1).mean() / bounds.speed
    trajectory = time_path(path, bounds, speed_of)
    assert bare < trajectory.duration < 1.004 * bare + 0.1
    assert_within(trajectory, bounds)
    assert trajectory.t.size < 400


class TestTorque:
    """With a load, torque limits bind too; what gravity takes does not shrink with speed."""

    FAR = np.array([0.0, -0.45, 0.6, -1.7, -np.pi / 2, 0.0])

    def used(self, trajectory, dynamics):
        q, qd, qdd, _ = trajectory.sample(np.linspace(0, trajectory.duration, 3000))
        return np.abs(dynamics.inverse(q, qd, qdd) / dynamics.torque_max).max()

    @pytest.fixture
    def loaded(self):
        return Dynamics(MODEL, [Load(8.0, [0.0, 0.0, 0.1])])

    def test_a_line_is_slowed_down_where_they_bind_and_uses_them(self, loaded):
        path = line(self.FAR, (0, 0, 0.12))
        bare = time_path(path, limits(), speed_of)
        assert self.used(bare, loaded) > 1.05
        trajectory = time_path(path, limits(), speed_of, loaded)
        assert trajectory.duration > bare.duration
        assert_within(trajectory, limits())
        assert 0.98 < self.used(trajectory, loaded) <= 1.001

    def test_a_joint_motion_is_slowed_down_where_they_bind(self, loaded):
        goal = self.FAR + [0.5, -0.6, 0.2, 0, 0, 0]
        bare = time_ptp(self.FAR, goal, limits(), speed_of)
        assert self.used(bare, loaded) > 1.05
        trajectory = time_ptp(self.FAR, goal, limits(), speed_of, loaded)
        assert 0.98 < self.used(trajectory, loaded) <= 1.001

    def test_without_a_binding_load_nothing_changes(self):
        path = line(PICK, (0.1, 0, 0.1))
        bare = time_path(path, limits(), speed_of).duration
        light = time_path(path, limits(), speed_of, Dynamics(MODEL)).duration
        assert light == pytest.approx(bare, rel=2e-3)

    UP = [-1.5, -0.1, -0.4, 1.4, -1.1, -1.2], [0.06, 0.09, 0.01, -0.07, 0.06, -0.08]
    OUT = [1.3, -0.1, 0.1, -0.9, 0.1, -1.4], [0.17, 0.43, -0.06, 0.38, -0.43, 0.3]

    @pytest.mark.parametrize(
        ('q', 'way', 'share', 'speed'), [(*UP, 0.9999, 0.02), (*OUT, 0.999, 0.25)]
    )
    def test_a_load_that_the_arm_can_hardly_hold_is_moved_within_them(self, q, way, share, speed):
        path = JointPath(q + np.linspace(0.0, 1.0, 12)[:, None] * way)
        turned = slice(1, 5)  # joints that gravity can turn; linear in the mass
        bare, kilogram = (
            Dynamics(MODEL, [Load(mass, [0.0, 0.0, 0.1])]).gravity(path.q)[:, turned]
            for mass in (0.0, 1.0)
        )
        per_mass = kilogram - bare
        allowed = share * np.sign(per_mass) * MODEL.effort_max[turned]
        mass = float(((allowed - bare) / per_mass).min())
        dynamics = Dynamics(MODEL, [Load(mass, [0.0, 0.0, 0.1])])
        trajectory = time_path(path, limits(jerk=500.0, speed=speed), speed_of, dynamics)
        assert share < self.used(trajectory, dynamics) <= 1.0001

    def test_what_cannot_even_be_held_is_refused(self):
        heavy = Dynamics(MODEL, [Load(25.0, [0.0, 0.0, 0.1])])
        with pytest.raises(PlanningError, match=r'need \d+\.\d N m only to hold'):
            time_path(line(self.FAR, (0, 0, 0.12)), limits(), speed_of, heavy)


@pytest.mark.parametrize(('turn', 'takes'), [(0.1, 0.4), (0.3, 0.6), (1.5, 1.2)])
def test_a_joint_that_just_reaches_a_limit_takes_the_double_s_time(turn, takes):
    """Where ruckig finds nothing: over 2 a^3 / j^2 = 0.1 rad and v (v / a + a / j) = 1.5 rad."""
    bounds = limits(velocity=2.5, acceleration=5.0, jerk=50.0)
    for joint in range(6):
        goal = np.where(np.arange(6) == joint, PICK + turn, PICK + turn / 7.0)
        trajectory = time_ptp(PICK, goal, bounds, speed_of)
        assert_within(trajectory, bounds)
        assert trajectory.duration == pytest.approx(takes, abs=1e-6)


@pytest.mark.drill
def test_motions_over_round_numbers_are_timed_at_any_limits(rng):
    for scaling in (1.0, 0.5, 0.1):
        bounds = limits(scaling * np.pi, 5.0 * scaling, 50.0 * scaling, speed=1.0)
        for turns in 0.05 * rng.integers(-20, 21, (12, 6)):
            trajectory = time_ptp(PICK, PICK + turns, bounds, speed_of)
            assert_within(trajectory, bounds)
            np.testing.assert_allclose(trajectory.q[-1], PICK + turns, atol=1e-12)


def test_a_path_that_stays_is_a_point_at_rest():
    trajectory = time_path(JointPath(np.tile(PICK, (24, 1))), limits(), speed_of)
    assert trajectory.t.size == 1
    np.testing.assert_array_equal(trajectory.q[0], PICK)


def test_times_are_whole_nanoseconds():
    t = time_path(line(*LINES['A'][:2]), limits(), speed_of).t
    np.testing.assert_array_equal(t, t.round(9))
