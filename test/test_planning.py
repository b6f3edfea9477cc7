# SPDX-License-Identifier: Apache-2.0
"""
Planned motions keep their path, their branch and every limit, or are refused with the reason.

Motions are judged on samples of the trajectory as the controller interpolates it, with speeds by
finite differences of forward kinematics.

"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from calibrated_arms import calibrated_arm
from motion_planners import CONFIG, FAST, MODEL, PICK, make_planner, tool_down

from ur5_pick_place.errors import GateRefusal, IncompletePath, InvalidInput, NoSolution
from ur5_pick_place.kinematics import BRANCHES, HOME, classify, forward, link_frames
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.inertias import Load
from ur5_pick_place.planning.limits import MotionSettings, tcp_and_elbow_speed
from ur5_pick_place.planning.moves import PathSegment
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scaling import Scaling
from ur5_pick_place.planning.scene import Box
from ur5_pick_place.planning.scene_file import load_scene
from ur5_pick_place.planning.timing import stretch, time_ptp
from ur5_pick_place.planning.trajectory import Trajectory

SCENE = load_scene(CONFIG / 'scene_sim.yaml')
POST = [0.02, 0.02, 0.04]  # [m]


@pytest.fixture(scope='module')
def planner():
    return make_planner()


def excess(trajectory, planner):
    """Worst use of velocity, acceleration, jerk and speed limits; 1 is the limit."""
    t = np.arange(0.0, trajectory.duration, 1e-3)
    _, qd, qdd, qddd = trajectory.sample(t)
    limits = planner.limits
    step = 1e-6
    ahead, behind = (trajectory.sample(t[1:-1] + s)[0] for s in (step, -step))
    T_tool_tcp = planner.scene.tool.T_tool_tcp
    tcp = [(forward(MODEL, q) @ T_tool_tcp)[:, :3, 3] for q in (ahead, behind)]
    elbow = [link_frames(MODEL, q)[:, 2, :3, 3] for q in (ahead, behind)]
    speeds = [np.linalg.norm(a - b, axis=1).max() / (2 * step) for a, b in (tcp, elbow)]
    return [
        np.abs(qd / limits.qd).max(),
        np.abs(qdd / limits.qdd).max(),
        np.abs(qddd / limits.qddd).max(),
        max(speeds) / limits.speed,
    ]


def double_s_time(distance, v, a, j):
    """Rest to rest, by the textbook cases of Biagiotti & Melchiorri, section 3.4."""
    t_j, t_a = (a / j, v / a + a / j) if v * j >= a**2 else (np.sqrt(v / j), 2 * np.sqrt(v / j))
    t_v = distance / v - t_a
    if t_v >= 0:
        return 2 * t_a + t_v
    if distance >= 2 * a**3 / j**2:
        return t_j + np.sqrt(t_j**2 + 4 * distance / a)
    return 4 * np.cbrt(distance / (2 * j))


@pytest.mark.parametrize(
    'goal',
    [
        [np.pi / 2, -1.2, 1.8, -2.17, -np.pi / 2, 0.5],
        PICK + [0.1, -0.05, 0.08, -0.03, 0.02, 0.2],
        PICK + [0, 0, 0, 0, 0, 3.0],
    ],
)
def test_ptp_takes_the_double_s_time_of_its_slowest_joint(planner, goal):
    goal = np.array(goal)
    trajectory = time_ptp(PICK, goal, planner.limits, lambda q, qd: np.zeros(1))
    bound = max(double_s_time(d, np.pi, 10.0, 100.0) for d in np.abs(goal - PICK) if d > 0)
    assert trajectory.duration == pytest.approx(bound, abs=1e-6)
    assert max(excess(trajectory, planner)[:3]) <= 1.001


def test_ptp_slows_down_for_the_tcp_and_elbow_speed_limit():
    planner = make_planner(MotionSettings(velocity_scaling=1.0, acceleration_scaling=1.0))
    trajectory = planner.ptp(PICK, PICK + [2.0, 0, 0, 0, 0, 0]).trajectory
    used = excess(trajectory, planner)
    assert 0.98 < used[3] <= 1.001
    assert max(used[:3]) <= 1.001


def test_tiny_joint_motions_pass_the_gate(planner, rng):
    """They were refused with a jerk of 187.5."""
    for way in (1e-9, 3e-9, 1e-8, 5e-8, 2e-7, 1e-6, 1e-5):
        goal = PICK + way * rng.uniform(-1.0, 1.0, 6)
        assert planner.ptp(PICK, goal).trajectory.duration < 0.05


def test_motions_of_a_calibrated_arm_keep_the_speed_limit_of_its_own_tool(rng):
    """By differences of its own frames; the nominal axes are off by up to a percent."""
    model = calibrated_arm('ur5', rng)
    settings = MotionSettings(velocity_scaling=1.0, acceleration_scaling=1.0)
    planner = MotionPlanner(model, settings, SCENE)
    T_tool_tcp, h = SCENE.tool.T_tool_tcp, 1e-6
    goal = PICK + [0.9, -0.3, 0.4, -0.2, 0.1, 0.0]
    line = forward(model, PICK)
    line[:3, 3] += [0.0, 0.25, 0.0]
    for motion in (planner.ptp(PICK, goal), planner.lin(PICK, [line])):
        trajectory = motion.trajectory
        t = np.linspace(0.01, trajectory.duration - 0.01, 2000)
        ahead, behind = (trajectory.sample(t + s)[0] for s in (h, -h))
        tcp = [(forward(model, q) @ T_tool_tcp)[:, :3, 3] for q in (ahead, behind)]
        elbow = [link_frames(model, q)[:, 2, :3, 3] for q in (ahead, behind)]
        used = [np.linalg.norm(a - b, axis=1).max() / (2 * h) for a, b in (tcp, elbow)]
        assert 0.98 * 0.25 < max(used) <= 1.0005 * 0.25
        report = motion.report
        assert [report.tcp_speed, report.elbow_speed] == pytest.approx(used, rel=1e-3)


def test_random_lines_are_straight_keep_their_branch_and_every_limit(planner, rng):
    planned = 0
    for _ in range(40):
        start = tool_down(*rng.uniform([0.25, -0.5, 0.05], [0.65, 0.5, 0.3]), rng.uniform(-3, 3))
        goal = tool_down(*rng.uniform([0.25, -0.5, 0.05], [0.65, 0.5, 0.3]), rng.uniform(-3, 3))
        try:
            q = planner.ptp_to_pose(HOME, start, branch='left-up-up').trajectory.q[-1]
            trajectory = planner.lin(q, [goal]).trajectory
        except (GateRefusal, IncompletePath, NoSolution):
            continue
        planned += 1
        samples = trajectory.sample(np.linspace(0, trajectory.duration, 300))[0]
        p = forward(MODEL, samples)[:, :3, 3]
        way = (goal - start)[:3, 3]
        away = np.cross(p - start[:3, 3], way / np.linalg.norm(way))
        assert np.linalg.norm(away, axis=1).max() < 5e-5
        np.testing.assert_allclose(forward(MODEL, trajectory.q[-1]), goal, atol=1e-9)
        assert set(classify(MODEL, samples)) == {BRANCHES.index('left-up-up')}
        used = excess(trajectory, planner)
        assert max(used[0], used[1], used[3]) <= 1.001
        assert used[2] <= 1.001
    assert planned >= 25


def test_a_line_out_of_reach_is_refused_with_fraction_pose_and_amount(planner):
    q = planner.ptp_to_pose(HOME, tool_down(0.6, 0, 0.1, 0)).trajectory.q[-1]
    with pytest.raises(IncompletePath, match=r'at pose \d+ of \d+.*left-up-up ends') as refusal:
        planner.lin(q, [tool_down(1.2, 0, 0.1, 0)])
    assert 0.2 < refusal.value.fraction < 0.6


def test_a_line_through_the_shoulder_cylinder_is_refused(planner):
    q = planner.ptp_to_pose(HOME, tool_down(0.35, 0.02, 0.3, 0)).trajectory.q[-1]
    with pytest.raises(IncompletePath, match='cylinder|singularity'):
        planner.lin(q, [tool_down(-0.35, 0.02, 0.3, 0)])


def test_random_arcs_are_round_keep_their_branch_and_every_limit(planner, rng):
    """The centre is taken from the request, distances from forward kinematics."""
    planned = 0
    for _ in range(25):
        centre = rng.uniform([0.35, -0.3, 0.2], [0.5, 0.3, 0.35])
        radius, begin, angle = rng.uniform(0.03, 0.15), rng.uniform(-3, 3), rng.uniform(0.3, 2.8)
        tilt = rng.uniform(-0.5, 0.5)  # of the circle's plane about x

        axes = radius * np.array([[1, 0, 0], [0, np.cos(tilt), np.sin(tilt)]])
        angles = begin + np.array([0, angle / 3, angle])
        points = centre + np.column_stack([np.cos(angles), np.sin(angles)]) @ axes
        start, goal = tool_down(*points[0], 0.2), tool_down(*points[2], 0.9)
        kind = ('interim', 'center')[planned % 2]
        p = points[1] if kind == 'interim' else centre
        arc_point = tool_down(*p, 0)[:3, 3]
        try:
            q = planner.ptp_to_pose(HOME, start, branch='left-up-up').trajectory.q[-1]
            arc = PathSegment(goal, arc_point=arc_point, kind=kind)
            trajectory = planner.chain(q, [arc]).trajectory
        except (GateRefusal, IncompletePath, NoSolution):
            continue
        planned += 1
        samples = trajectory.sample(np.linspace(0, trajectory.duration, 300))[0]
        from_centre = forward(MODEL, samples)[:, :3, 3] - tool_down(*centre, 0)[:3, 3]
        assert np.abs(np.linalg.norm(from_centre, axis=1) - radius).max() < 5e-5
        normal = np.diag([-1, -1, 1]) @ [0, -np.sin(tilt), np.cos(tilt)]
        assert np.abs(from_centre @ normal).max() < 5e-5
        np.testing.assert_allclose(forward(MODEL, trajectory.q[-1]), goal, atol=1e-9)
        assert set(classify(MODEL, samples)) == {BRANCHES.index('left-up-up')}
        used = excess(trajectory, planner)
        assert max(used[0], used[1], used[3]) <= 1.001
        assert used[2] <= 1.001
    assert planned >= 15


class TestChain:
    """Lift, transfer and descent: without a stop where they blend, and within every limit."""

    @pytest.fixture
    def q_start(self, planner):
        T = tool_down(0.45, -0.2, 0.03, 0)
        return planner.ptp_to_pose(HOME, T, branch='left-up-up').trajectory.q[-1]

    def moves(self, blend):
        return [
            PathSegment(tool_down(0.45, -0.2, 0.2, 0), blend=blend),
            PathSegment(tool_down(0.45, 0.2, 0.2, 1.0), blend=blend),
            PathSegment(tool_down(0.45, 0.2, 0.03, 1.0)),
        ]

    def test_blended_it_does_not_stop_and_is_sooner_there(self, planner, q_start):
        stopping = planner.chain(q_start, self.moves(0.0)).trajectory
        blended = planner.chain(q_start, self.moves(0.02)).trajectory
        assert blended.duration < 0.92 * stopping.duration
        t = np.linspace(0.1, blended.duration - 0.1, 500)
        assert np.abs(blended.sample(t)[1]).max(axis=1).min() > 0.05
        used = excess(blended, planner)
        assert max(used[0], used[1], used[3]) <= 1.001
        assert used[2] <= 1.001

    def test_it_keeps_to_its_legs_outside_the_blends(self, planner, q_start):
        blended = planner.chain(q_start, self.moves(0.02)).trajectory
        q = blended.sample(np.linspace(0, blended.duration, 2000))[0]
        p = forward(MODEL, q)[:, :3, 3]
        corners = [T[:3, 3] for T in (forward(MODEL, q_start), *(m.T_goal for m in self.moves(0)))]
        away = []
        for a, b in itertools.pairwise(corners):
            along = np.clip((p - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
            away.append(np.linalg.norm(p - a - along[:, None] * (b - a), axis=1))
        to_corner = np.min([np.linalg.norm(p - c, axis=1) for c in corners[1:3]], axis=0)
        assert np.min(away, axis=0)[to_corner > 0.02].max() < 5e-5
        assert 1e-3 < np.min(away, axis=0).max() < 0.01

    def test_an_arc_can_be_part_of_it(self, planner, q_start):
        over = tool_down(0.45, 0.0, 0.32, 0)[:3, 3]
        moves = self.moves(0.02)
        moves[1] = PathSegment(moves[1].T_goal, 0.02, over)
        trajectory = planner.chain(q_start, moves).trajectory
        p = forward(MODEL, trajectory.sample(np.linspace(0, trajectory.duration, 2000))[0])
        assert np.linalg.norm(p[:, :3, 3] - over, axis=1).min() < 1e-3

    def test_each_move_keeps_its_own_speed(self, planner, q_start):
        moves = self.moves(0.02)
        slow = [replace(moves[0], speed=0.1), moves[1], replace(moves[2], speed=0.1)]
        free = planner.chain(q_start, moves)
        trajectory = planner.chain(q_start, slow).trajectory
        t = trajectory.dense_times(1e-3)
        q, qd, *_ = trajectory.sample(t)
        speed = tcp_and_elbow_speed(MODEL, q, qd, planner.scene.tool.p_tool_tcp).max(axis=1)
        height = forward(MODEL, q)[:, 2, 3] - 0.145
        assert speed[height < 0.175].max() <= 0.1 * 1.001
        assert free.report.tcp_speed > 0.3 and speed.max() > 0.3
        assert speed[height < 0.175].max() > 0.098

    def test_a_joint_motion_can_be_part_of_it(self, planner, q_start):
        q_above = planner.chain(q_start, self.moves(0.0)[:1]).trajectory.q[-1]
        joint_motion = PathSegment(forward(MODEL, q_above), blend=0.02, q_goal=q_above)
        line = PathSegment(forward(MODEL, q_start))
        stopping = planner.chain(HOME, [replace(joint_motion, blend=0.0), line])
        blended = planner.chain(HOME, [joint_motion, line])
        assert blended.trajectory.duration < 0.95 * stopping.trajectory.duration
        np.testing.assert_allclose(blended.trajectory.q[-1], q_start, atol=1e-6)
        q = blended.trajectory.sample(np.linspace(0, blended.trajectory.duration, 2000))[0]
        way = q_above - HOME
        along = np.clip((q - HOME) @ way / (way @ way), 0, 1)
        off_joint_line = np.abs(q - HOME - along[:, None] * way).max(axis=1)
        p, corner = forward(MODEL, q)[:, :3, 3], forward(MODEL, q_above)[:3, 3]
        before = along < 0.9
        assert off_joint_line[before].max() < 1e-4
        beyond = ~before & (np.linalg.norm(p - corner, axis=1) > 0.021)
        beyond &= along >= 1.0 - 1e-9
        assert np.linalg.norm(p[beyond, :2] - corner[:2], axis=1).max() < 1e-4

    def test_what_is_carried_is_weighed(self, q_start):
        planner = MotionPlanner(MODEL, FAST, SCENE, Dynamics(MODEL))
        with_part = planner.carrying(Load(2.0, np.array([0.0, 0.0, 0.145])))
        used = [p.chain(q_start, self.moves(0.02)).report.torque for p in (planner, with_part)]
        assert used[1] > 1.05 * used[0]
        with_part.carry(None)
        assert with_part.chain(q_start, self.moves(0.02)).report.torque == used[0]

    def test_what_is_carried_is_kept_clear(self, q_start):
        """A post 40 mm high: the fingers end 52.5 mm above the table, the part 42.5 mm."""
        planner = make_planner()
        with_part = planner.carrying(Load(0.1, np.zeros(3)))
        assert with_part.scene.carried and not planner.scene.carried
        high, low = (PathSegment(tool_down(0.45, -0.2, z, 0)) for z in (0.2, 0.065))
        q_high = planner.chain(q_start, [high]).trajectory.q[-1]
        post = Box('post', np.block([[np.eye(3), np.c_[[0.45, -0.2, 0.02]]], [0, 0, 0, 1]]), POST)
        for each in (planner, with_part):
            each.set_scene(replace(SCENE, boxes=(post,)))
        planner.chain(q_high, [low])
        with pytest.raises(GateRefusal, match='part is .* mm from post'):
            with_part.chain(q_high, [low])

    def test_a_part_may_be_lifted_off_the_table_and_laid_down(self, q_start):
        with_part = make_planner().carrying(Load(0.1, np.zeros(3)))
        down = PathSegment(tool_down(0.45, -0.2, 0.021, 0))
        q = with_part.chain(q_start, [down]).trajectory.q[-1]
        with pytest.raises(GateRefusal, match='part is .* mm inside table'):
            with_part.chain(q, [PathSegment(tool_down(0.45, -0.2, 0.018, 0))])

    def test_another_frame_can_be_the_one_that_goes_straight(self, planner, q_start):
        """The tilting tool goes about the TCP, which goes straight."""
        T_tool_tcp = planner.scene.tool.T_tool_tcp
        T = forward(MODEL, q_start) @ T_tool_tcp
        c, s = np.cos(0.4), np.sin(0.4)
        goal = T @ np.array([[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1.0]])
        goal[2, 3] += 0.2
        move = PathSegment(goal @ np.linalg.inv(T_tool_tcp))
        trajectory = planner.chain(q_start, [move], T_tool_link=T_tool_tcp).trajectory
        q = trajectory.sample(np.linspace(0, trajectory.duration, 200))[0]
        tcp = (forward(MODEL, q) @ T_tool_tcp)[:, :3, 3]
        np.testing.assert_allclose(tcp[:, :2], T[:2, 3] + np.zeros((200, 2)), atol=5e-5)

    def test_legs_too_short_for_their_blends_are_refused(self, planner, q_start):
        with pytest.raises(InvalidInput, match=r'move 1 is 0\.1700 m long.*0\.1800 m of it'):
            planner.chain(q_start, self.moves(0.18))

    @pytest.mark.parametrize('blend', [-0.01, float('nan'), float('inf')])
    def test_a_blend_radius_is_not_negative_and_finite(self, blend):
        with pytest.raises(InvalidInput, match='blend radius = '):
            self.moves(blend)

    def test_no_moves_are_refused(self, planner, q_start):
        with pytest.raises(InvalidInput, match='no moves'):
            planner.chain(q_start, [])


def test_a_motion_into_the_table_is_refused_with_the_bodies(planner):
    q = planner.ptp_to_pose(HOME, tool_down(0.5, 0, 0.05, 0)).trajectory.q[-1]
    with pytest.raises(GateRefusal, match='table') as refusal:
        planner.lin(q, [tool_down(0.5, 0, -0.05, 0)])
    assert refusal.value.check == 'collision'


def test_an_unreachable_pose_has_no_solution(planner):
    with pytest.raises(NoSolution, match=r'\(-1\.500, 0\.000, 0\.245\) m in base'):
        planner.ptp_to_pose(HOME, tool_down(1.5, 0, 0.1, 0))


def test_a_branch_is_kept_on_request_and_an_unknown_one_refused(planner):
    goal = tool_down(0.45, 0.1, 0.4, 0)
    motion = planner.ptp_to_pose(HOME, goal, branch='left-down-up').trajectory
    assert BRANCHES[int(classify(MODEL, motion.q[-1]))] == 'left-down-up'
    with pytest.raises(InvalidInput, match="'upside-down' is unknown: must be one of left"):
        planner.ptp_to_pose(HOME, goal, branch='upside-down')


@pytest.mark.parametrize('pace', [(-0.1, 0), (0, 1.5), (float('nan'), 0), (0, 0, -1)])
def test_a_scaling_out_of_range_is_refused(pace):
    with pytest.raises(InvalidInput, match='must'):
        Scaling(*pace)


def test_a_load_that_cannot_be_held_is_refused_with_joint_and_torque():
    dynamics = Dynamics(MODEL, [Load(25.0, [0.0, 0.0, 0.1])])
    planner = MotionPlanner(MODEL, FAST, load_scene(CONFIG / 'scene_sim.yaml'), dynamics)
    with pytest.raises(GateRefusal, match=r'would need .* N m at .* limit') as refusal:
        planner.ptp(PICK, np.array([0.0, -0.3, 0.1, 0.2, -np.pi / 2, 0.0]))
    assert refusal.value.check == 'torque'


def test_scalings_slow_a_motion_down(planner):
    goal = PICK + [1.0, 0, 0, 0, 0, 0]
    full = planner.ptp(PICK, goal).trajectory
    slow = planner.ptp(PICK, goal, Scaling(0.1, 0.1)).trajectory
    assert slow.duration > 5 * full.duration
    assert np.abs(slow.qd).max() <= 0.1 * np.pi + 1e-9


class TestGate:
    """A good motion passes; each spoilt one is refused by the check that is there for it."""

    @pytest.fixture
    def motion(self, planner):
        return planner.ptp(HOME, HOME + [0.5, 0.1, -0.1, 0, 0, 1.0]).trajectory

    def refused(self, planner, trajectory, q_now=HOME):
        with pytest.raises(GateRefusal) as refusal:
            planner.check(trajectory, q_now)
        return refusal.value.check, str(refusal.value)

    def test_a_planned_motion_passes_and_reports_its_margins(self, planner, motion):
        report = planner.check(motion, HOME)
        assert 0.5 < max(report.joint_velocity, report.joint_acceleration) <= 1.001
        assert 0.0 < report.tcp_speed <= planner.limits.speed
        assert report.joint_margin > 1.0

    def test_the_arm_being_elsewhere(self, planner, motion):
        check, text = self.refused(planner, motion, HOME + [0, 0, 0, 0, 0.02, 0])
        assert check == 'start'
        assert 'wrist_2_joint' in text and '0.0200' in text

    def test_too_fast(self, planner, motion):
        check, text = self.refused(planner, stretch(motion, 0.5))
        assert check in ('velocity', 'acceleration')
        assert 'limit' in text

    def test_jerky(self, planner, motion):
        t = np.array([0.0, motion.duration])
        two = Trajectory(t, motion.q[[0, -1]], np.zeros((2, 6)), np.zeros((2, 6)))
        check, text = self.refused(planner, two)
        assert check in ('acceleration', 'jerk')
        assert 'slow the motion down' in text

    def test_still_moving_at_its_end(self, planner, motion):
        cut = slice(0, len(motion.t) // 2)
        half = Trajectory(motion.t[cut], motion.q[cut], motion.qd[cut], motion.qdd[cut])
        assert self.refused(planner, half)[0] == 'rest'

    def test_beyond_the_elbow_range(self, planner):
        q = np.tile(HOME, (3, 1))
        q[1:, 2] += np.deg2rad([60.0, 100.0])
        slow = Trajectory(np.array([0.0, 10.0, 20.0]), q, np.zeros((3, 6)), np.zeros((3, 6)))
        check, text = self.refused(planner, slow)
        assert check == 'position'
        assert 'elbow_joint' in text and '-180 to 180 deg' in text

    def test_over_the_tcp_speed(self, motion):
        calm = make_planner(MotionSettings(max_acceleration=10.0, max_jerk=100.0, max_speed=0.05))
        check, text = self.refused(calm, motion)
        assert check == 'speed'
        assert 'limit 0.050 m/s' in text

    def test_reduced_mode_has_a_lower_speed(self, planner, motion):
        with pytest.raises(GateRefusal, match=r'limit 0\.100 m/s'):
            planner.check(motion, HOME, is_reduced=True)
