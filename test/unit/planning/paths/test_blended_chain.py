# SPDX-License-Identifier: Apache-2.0
"""Lift, transfer and descent in a chain: without a stop where they blend, within every limit."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from motion_planners import (
    CONFIG,
    FAST,
    MODEL,
    make_planner,
    peaks,
    ptp_to_pose,
    speed_of,
    tool_down,
)
from motion_planners import planner as planner
from scenes import box_at

from ur5_pick_place.errors import BlockedPath
from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.paths.moves import PathSegment, path_of
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.planning.timing.path_timing import time_path

SCENE = load_scene(CONFIG / 'scene_sim.yaml')
POST = [0.02, 0.02, 0.04]  # [m]


class TestChain:
    """Lift, transfer and descent: without a stop where they blend, and within every limit."""

    @pytest.fixture
    def q_start(self, planner):
        T = tool_down(0.45, -0.2, 0.03, 0)
        return ptp_to_pose(planner, HOME, T, branch='left-up-up').trajectory.q[-1]

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
        assert max(peaks(blended, planner.limits)) <= 1.001

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
        # Along the transfer, the longer leg of both corners, a blend is twice as long.
        is_outside = (p[:, 2] < corners[1][2] - 0.02) | (to_corner > 0.04)
        assert np.min(away, axis=0)[is_outside].max() < 5e-5
        assert 1e-3 < np.min(away, axis=0).max() < 0.01

    @pytest.mark.parametrize('blend', [0.01, 0.02, 0.04])
    def test_its_sharpest_corner_does_not_slow_down_the_rest(self, planner, q_start, blend):
        """Beside a search that is ten times as fine, and has nothing to slow down."""
        path = path_of(MODEL, self.moves(blend), q_start, np.eye(4), 1e-3)
        bounds = path, planner.limits, speed_of
        trajectory = time_path(*bounds)
        assert trajectory.duration <= 1.003 * time_path(*bounds, min_intervals=480).duration
        assert max(peaks(trajectory, planner.limits)) <= 1.001

    def test_an_arc_can_be_part_of_it(self, planner, q_start):
        over = tool_down(0.45, 0.0, 0.32, 0)[:3, 3]
        moves = self.moves(0.02)
        moves[1] = PathSegment(moves[1].T_goal, 0.02, over)
        trajectory = planner.chain(q_start, moves, T_tool_link=np.eye(4)).trajectory
        p = forward(MODEL, trajectory.sample(np.linspace(0, trajectory.duration, 2000))[0])
        assert np.linalg.norm(p[:, :3, 3] - over, axis=1).min() < 1e-3

    def test_each_move_keeps_its_own_speed(self, planner, q_start):
        moves = self.moves(0.02)
        slow = [replace(moves[0], speed=0.1), moves[1], replace(moves[2], speed=0.1)]
        free = planner.chain(q_start, moves)
        trajectory = planner.chain(q_start, slow).trajectory
        t = trajectory.dense_times(1e-3)
        q, qd, *_ = trajectory.sample(t)
        speed = speed_of(q, qd).max(axis=1)
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
        post = box_at('post', (0.45, -0.2, 0.02), POST)
        for each in (planner, with_part):
            each.set_scene(replace(SCENE, boxes=(post,)))
        planner.chain(q_high, [low])
        with pytest.raises(BlockedPath, match='tool at .* part is .* mm from post'):
            with_part.chain(q_high, [low])

    def test_a_part_may_be_lifted_off_the_table_and_laid_down(self, q_start):
        with_part = make_planner().carrying(Load(0.1, np.zeros(3)))
        down = PathSegment(tool_down(0.45, -0.2, 0.021, 0))
        q = with_part.chain(q_start, [down]).trajectory.q[-1]
        with pytest.raises(BlockedPath, match='part is .* mm inside table'):
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
