# SPDX-License-Identifier: Apache-2.0
"""
Planned motions keep their path, their branch and every limit, or are refused with the reason.

Motions are judged on samples of the trajectory as the controller interpolates it, with speeds by
finite differences of forward kinematics.
"""

from dataclasses import replace

import numpy as np
import pytest
from calibration_files import calibrated_arm
from motion_planners import (
    CONFIG,
    FAST,
    MODEL,
    PICK,
    auto_to_pose,
    make_planner,
    ptp_to_pose,
    speed_of,
    tool_down,
)
from motion_planners import planner as planner
from numpy.polynomial import Polynomial
from obstacle_scenes import problem
from scenes import box_at

from ur5_pick_place.errors import (
    BlockedPath,
    GateRefusal,
    IncompletePath,
    InvalidInput,
    NoSolution,
    PlanningError,
)
from ur5_pick_place.kinematics import BRANCHES, HOME, classify, forward, link_frames
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import MotionSettings, tcp_and_elbow_speed
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.planning.timing.ptp import concatenate, stretch, time_ptp

SCENE = load_scene(CONFIG / 'scene_sim.yaml')


@pytest.mark.parametrize('settings', [MotionSettings(), FAST], ids=['slow', 'fast'])
def test_of_all_joint_goals_of_a_pose_the_one_reached_soonest_comes_first(settings, rng):
    """By joint speeds alone, half a turn of the shoulder would win over one of the wrist."""
    planner = make_planner(settings)

    def duration(goal):
        return time_ptp(PICK, goal, planner.limits, speeds).duration

    def speeds(q, qd):
        return tcp_and_elbow_speed(MODEL, q, qd, planner.scene.tool.p_tool_tcp)

    near_half_a_turn = [(0.35, 0.25, 2.6), (0.45, 0.25, 2.2), (0.55, 0.25, 2.2)]
    for x, y, yaw in [*near_half_a_turn, *rng.uniform((0.3, -0.3, -3.1), (0.6, 0.3, 3.1), (3, 3))]:
        first, *others = planner.joint_goals(tool_down(x, y, 0.3, yaw), PICK)
        assert duration(first) < 1.1 * min(map(duration, others[:10]))


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


def test_a_motion_into_the_table_is_refused_with_the_bodies(planner):
    q = ptp_to_pose(planner, HOME, tool_down(0.5, 0, 0.05, 0)).trajectory.q[-1]
    with pytest.raises(BlockedPath, match=r'to \d\d %: with the tool at .* table') as refusal:
        planner.lin(q, [tool_down(0.5, 0, -0.05, 0)])
    assert 0.3 < refusal.value.fraction < 0.34  # at 18 mm of 50 to -50 mm


def test_an_unreachable_pose_has_no_solution(planner):
    with pytest.raises(NoSolution, match=r'\(1\.500, 0\.000, 0\.245\) m in base_link'):
        ptp_to_pose(planner, HOME, tool_down(1.5, 0, 0.1, 0))


def test_a_branch_is_kept_on_request_and_an_unknown_one_refused(planner):
    goal = tool_down(0.45, 0.1, 0.4, 0)
    motion = ptp_to_pose(planner, HOME, goal, branch='left-down-up').trajectory
    assert BRANCHES[int(classify(MODEL, motion.q[-1]))] == 'left-down-up'
    with pytest.raises(InvalidInput, match="'upside-down' is unknown: must be one of left"):
        ptp_to_pose(planner, HOME, goal, branch='upside-down')


def test_a_load_that_cannot_be_held_is_refused_with_joint_and_torque():
    dynamics = Dynamics(MODEL, [Load(25.0, [0.0, 0.0, 0.1])])
    planner = MotionPlanner(MODEL, FAST, load_scene(CONFIG / 'scene_sim.yaml'), dynamics)
    with pytest.raises(GateRefusal, match=r'would need .* N m at .* limit') as refusal:
        planner.ptp(PICK, np.array([0.0, -0.3, 0.1, 0.2, -np.pi / 2, 0.0]))
    assert refusal.value.check == 'torque'


def test_auto_takes_a_longer_straight_motion_where_the_shorter_one_is_free_but_overloaded():
    dynamics = Dynamics(MODEL, [Load(22.0, [0.0, 0.0, 0.1])])
    planner = MotionPlanner(MODEL, FAST, load_scene(CONFIG / 'scene_sim.yaml'), dynamics)
    stretched, turned = PICK + [0.0, 0.35, 0.0, -0.35, 0.0, 0.0], PICK + [1.0, 0, 0, 0, 0, 0]
    with pytest.raises(GateRefusal, match='would need'):
        planner.auto(PICK, [stretched])
    motion = planner.auto(PICK, [stretched, turned])
    np.testing.assert_array_equal(motion.trajectory.q[-1], turned)
    assert motion.detour is None


def test_a_stretched_motion_has_the_times_of_messages_and_stays_smooth(planner):
    motion = planner.ptp(PICK, PICK + [0.3, 0.1, -0.2, 0, 0, 0]).trajectory
    for factor in (1.0000317, 1.2345678):
        slower = stretch(motion, factor)
        np.testing.assert_array_equal(slower.t, slower.t.round(9))
        assert slower.duration == pytest.approx(factor * motion.duration, abs=1e-9)
        np.testing.assert_array_equal(slower.q[-1], motion.q[-1])
        assert (np.abs(slower.jerk_peaks()[1]) <= 1.05 * planner.limits.qddd).all()


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

    def test_jerky_at_the_ends_of_its_segments_alone(self, planner):
        h, limit = 0.008, planner.limits.qddd[5]
        u = Polynomial([-1.0, 2.0 / (7 / 8 * h)])  # from -1 to 1 over seven eighths of a segment
        rates = [0.98 * limit * (2.0 * u**2 - 1.0)]
        for _ in range(3):
            rates.insert(0, rates[0].integ())
        implied = np.array([[1.0, h, 0.5 * h**2], [0.0, 1.0, h], [0.0, 0.0, 1.0]])
        wrist = [np.zeros(3)]
        for sign in (1, -1, -1, 1, 0):  # at rest at last, where sampling would do
            wrist.append(implied @ wrist[-1] + [sign * rate(h) for rate in rates[:3]])
        points = np.zeros((3, 6, 6))
        points[0] = HOME
        points[:, :, 5] += np.transpose(wrist)
        check, text = self.refused(planner, Trajectory(h * np.arange(6), *points))
        assert check == 'jerk'
        assert f'jerk of wrist_3_joint is {abs(rates[3](h)):.3f} rad/s^3 at 0.0' in text

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


def test_a_line_leaves_a_joint_limit_that_the_arm_has_overshot(planner):
    q = HOME.copy()
    q[5] = MODEL.q_max[5] + 0.003
    T_up = forward(MODEL, q)
    T_up[2, 3] += 0.05
    assert planner.lin(q, [T_up]).report.joint_margin == pytest.approx(-0.003, abs=1e-6)
    q[5] = MODEL.q_max[5] + 0.02
    with pytest.raises(IncompletePath, match='wrist_3_joint = .* leaves its range'):
        planner.lin(q, [T_up])


QUICK = replace(FAST, max_speed=1.0)
TURN = 2.0 * np.pi


def test_no_pose_ends_with_a_joint_at_the_end_of_its_range_if_others_do():
    start = PICK + [0.3, 0.0, 0.0, 0.0, 0.0, 5.0]
    motion = auto_to_pose(MotionPlanner(MODEL, QUICK, SCENE), start, forward(MODEL, PICK))
    assert motion.report.joint_margin > 0.009


@pytest.mark.parametrize('beyond', [1e-9, 1e-4, 9e-3])
def test_an_arm_that_came_to_rest_beyond_its_range_can_leave_it_but_go_no_further(beyond):
    planner = MotionPlanner(MODEL, QUICK, SCENE)
    q = PICK + [0.0, 0.0, 0.0, 0.0, 0.0, TURN + beyond]
    q_back = q - [0.0, 0.0, 0.0, 0.0, 0.0, 0.5]
    assert planner.ptp(q, q_back).report.joint_margin == pytest.approx(-beyond, abs=1e-12)
    assert planner.auto(q, [q_back]).trajectory.q[-1] == pytest.approx(q_back)
    further = time_ptp(q, q + [0, 0, 0, 0, 0, 1e-3], planner.limits, speed_of)
    with pytest.raises(GateRefusal, match='wrist_3_joint = 360.* leaves its range'):
        planner.check(further, q)


def test_a_dip_of_a_few_milliradians_into_an_object_is_seen():
    q, dq = np.array([0.0, -0.5, 0.6, -0.1 - np.pi / 2, -np.pi / 2, 0.0]), np.zeros(6)
    dq[1:4] = 0.0049
    tcp = (np.diag([-1.0, -1.0, 1.0, 1.0]) @ forward(MODEL, q) @ SCENE.tool.T_tool_tcp)[:3, 3]

    def planner(top: float) -> MotionPlanner:
        shelf = box_at('shelf', (*tcp[:2], top - 0.05), (0.3, 0.3, 0.1))
        return MotionPlanner(MODEL, QUICK, Scene(-1.0, SCENE.tool, boxes=(shelf,)))

    tops = np.arange(tcp[2] - 0.02, tcp[2] + 0.1, 2e-4)
    top = next(z for z in tops[::-1] if not planner(z).why_blocked(q[None]))
    arm = planner(top)
    assert arm.why_blocked((q + dq)[None])
    down = time_ptp(q, q + dq, arm.limits, speed_of)
    up = time_ptp(q + dq, q, arm.limits, speed_of)
    with pytest.raises(GateRefusal, match='fingers'):
        arm.check(concatenate([down, up]), q)


@pytest.mark.parametrize('limits', [(1.0, 1000.0), (0.5, 600.0), (0.1, 100.0), (0.05, 1000.0)])
def test_joint_motions_pass_at_any_ratio_of_jerk_to_acceleration(limits, rng):
    acceleration, jerk = limits
    settings = replace(QUICK, max_acceleration=acceleration, max_jerk=jerk)
    planner = MotionPlanner(MODEL, settings, SCENE)
    for _ in range(10):
        dq = rng.uniform(-1, 1, 6) * 10 ** rng.uniform(-2, -0.3) * [1, 0.3, 0.3, 1, 1, 1]
        assert planner.ptp(PICK, PICK + dq).report.joint_acceleration <= 1.001


def test_a_way_round_that_is_too_heavy_is_refused_for_the_load_not_for_the_wall():
    wall = problem('wall', 0)
    heavy = Dynamics(MODEL, [Load(40.0, np.array([0.0, 0.0, 0.1]))])
    planner = MotionPlanner(MODEL, QUICK, wall.scene, heavy)
    with pytest.raises(PlanningError, match='N m .*limit .* N m: .*carry less'):
        planner.auto(wall.q_start, [wall.q_goal], allowed=0.3)


def test_joints_outside_their_limits_are_named_on_a_path():
    planner = MotionPlanner(MODEL, QUICK, SCENE)
    found = planner.why_blocked(np.stack([PICK, PICK + [0.0, 0.0, 1.9, 0.0, 0.0, 0.0]]))
    assert 'elbow_joint is at 198.9 deg: must lie in -180 to 180 deg' in found
