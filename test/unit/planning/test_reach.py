# SPDX-License-Identifier: Apache-2.0
"""How far a polyline goes is found before it is planned, and what ends it is told."""

import numpy as np
import pytest
from motion_planners import planner as planner
from motion_planners import ptp_to_pose, tool_down

from ur5_pick_place.errors import BlockedPath, IncompletePath, InvalidInput
from ur5_pick_place.kinematics import HOME, forward, load_model
from ur5_pick_place.planning.limits import Scaling
from ur5_pick_place.planning.paths.moves import JumpThresholds, find_followable_path

MODEL = load_model('ur5')
STEP = 0.002


@pytest.fixture(scope='module')
def q_start(planner):
    T = tool_down(0.5, 0.0, 0.1, 0.0)
    return ptp_to_pose(planner, HOME, T, branch='left-up-up').trajectory.q[-1]


def look(planner, q_start, *waypoints, T_tool_link=np.eye(4), **jumps):
    thresholds = JumpThresholds(**jumps)
    args = (MODEL, planner.collision, q_start, waypoints, STEP, T_tool_link, thresholds)
    return find_followable_path(*args)


def test_a_good_path_is_followed_whole(planner, q_start):
    goal = tool_down(0.4, 0.2, 0.2, 1.0)
    reach = look(planner, q_start, goal, revolute=0.1, relative=3.0)
    assert reach.end is None and reach.T_waypoints == [goal]


def test_out_of_reach_it_ends_on_the_line_where_every_line_counts_alike(planner, q_start):
    first = tool_down(0.5, 0.0, 0.2, 0.0)
    reach = look(planner, q_start, first, tool_down(1.5, 0.0, 0.2, 0.0))
    assert isinstance(reach.end, IncompletePath) and not isinstance(reach.end, BlockedPath)
    assert 'on line 2 of 2' in str(reach.end) and 'too far' in str(reach.end)
    T_end = reach.T_waypoints[-1]
    assert len(reach.T_waypoints) == 2
    x = -T_end[0, 3]  # in base, which is turned by half
    assert reach.end.fraction == pytest.approx(0.5 + 0.5 * (x - 0.5), abs=1e-9)
    np.testing.assert_allclose(T_end[1:3, 3], [0.0, 0.345], atol=1e-12)
    assert planner.lin(q_start, reach.T_waypoints).trajectory.duration > 0.2
    farther = tool_down(x + 0.02, 0.0, 0.2, 0.0)
    with pytest.raises(IncompletePath):
        planner.lin(q_start, [first, farther])


def test_before_the_table_it_ends_free_of_it_within_two_steps(planner, q_start):
    reach = look(planner, q_start, tool_down(0.5, 0.0, -0.1, 0.0))
    assert isinstance(reach.end, BlockedPath) and 'table' in str(reach.end)
    motion = planner.lin(q_start, reach.T_waypoints)
    height = forward(MODEL, motion.trajectory.q[-1])[2, 3] - 0.145
    # The fingers reach 13 mm below the TCP, and the margin is 5 mm.
    assert 0.018 <= height <= 0.018 + 2 * STEP
    assert reach.end.fraction == pytest.approx((0.1 - height) / 0.2, abs=1e-9)


def test_another_frame_than_the_tool_may_go_straight(planner, q_start):
    T_tool_tcp = planner.scene.tool.T_tool_tcp
    goal = tool_down(1.2, 0.0, 0.1, 2.0)
    reach = look(planner, q_start, goal, T_tool_link=T_tool_tcp)
    tcp = (reach.T_waypoints[-1] @ T_tool_tcp)[:3, 3]
    np.testing.assert_allclose(tcp[1:], [0.0, 0.1], atol=1e-12)


class TestJumps:
    """Near its singularity the wrist turns quickly: a jump, if a user calls it so."""

    GOAL = tool_down(0.2, 0.0, 0.45, 0.0)

    @pytest.fixture
    def steps(self, planner, q_start):
        """Joint motion between equal steps of 2 mm, (n, 6) [rad]."""
        n = int(np.ceil(np.linalg.norm((self.GOAL - forward(MODEL, q_start))[:3, 3]) / STEP))
        way = np.linspace(forward(MODEL, q_start), self.GOAL, n + 1)
        return np.abs(np.diff([planner.joint_goals(T, q_start)[0] for T in way], axis=0))

    def test_an_absolute_threshold_bounds_the_step_of_every_joint(self, planner, q_start, steps):
        limit = 0.9 * steps.max()
        reach = look(planner, q_start, self.GOAL, revolute=limit)
        first = int((steps.max(axis=1) > limit).argmax())
        assert reach.end.fraction == pytest.approx(first / len(steps), abs=1.5 / len(steps))
        assert f'{limit:g} rad' in str(reach.end)
        assert look(planner, q_start, self.GOAL, revolute=1.1 * steps.max()).end is None

    def test_a_relative_threshold_bounds_the_sum_of_a_step(self, planner, q_start, steps):
        shares = steps.sum(axis=1) / steps.sum(axis=1).mean()
        limit = 0.9 * shares.max()
        reach = look(planner, q_start, self.GOAL, relative=limit)
        first = int((shares > limit).argmax())
        assert reach.end.fraction == pytest.approx(first / len(steps), abs=1.5 / len(steps))
        assert look(planner, q_start, self.GOAL, relative=1.1 * shares.max()).end is None

    def test_short_lines_and_lines_of_no_length_make_no_others_jump(self, planner, q_start):
        """A quarter of a small circle, as a client draws it, before a straight line."""
        turn = np.linspace(0.0, np.pi / 2, 20)
        arc = [tool_down(0.5 - 0.02 * np.sin(a), 0.02 * (1 - np.cos(a)), 0.1, 0.0) for a in turn]
        line = tool_down(0.48, 0.25, 0.1, 0.0)
        assert look(planner, q_start, *arc, line, relative=2.0).end is None
        assert look(planner, q_start, forward(MODEL, q_start), line, relative=1.5).end is None

    def test_sliding_joints_there_are_none(self, planner, q_start):
        assert look(planner, q_start, self.GOAL, prismatic=1e-9).end is None

    @pytest.mark.parametrize('name', ['relative', 'revolute', 'prismatic'])
    @pytest.mark.parametrize('value', [-0.1, float('nan'), float('inf')])
    def test_a_threshold_is_not_negative_and_finite(self, name, value):
        with pytest.raises(InvalidInput, match=f'{name} jump threshold = {value}'):
            JumpThresholds(**{name: value})


@pytest.mark.parametrize('p_tool_point', [None, np.zeros(3), np.array([0.0, 0.1, 0.145])])
def test_the_speed_of_the_tcp_or_of_another_point_is_bounded(
    planner, q_start, p_tool_point
):
    """The tool turns by 2 rad while it goes: its points move at different speeds."""
    pace = Scaling(speed=0.05, p_tool_point=p_tool_point)
    goal = tool_down(0.45, 0.1, 0.15, 2.0)
    for trajectory in (
        planner.lin(q_start, [goal], pace).trajectory,
        ptp_to_pose(planner, q_start, goal, pace).trajectory,
    ):
        t = np.linspace(0.0, trajectory.duration, 4000)
        p = planner.scene.tool.p_tool_tcp if p_tool_point is None else p_tool_point
        way = forward(MODEL, trajectory.sample(t)[0]) @ [*p, 1.0]
        speed = np.linalg.norm(np.diff(way, axis=0), axis=1).max() / t[1]
        assert 0.048 < speed <= 0.0501
