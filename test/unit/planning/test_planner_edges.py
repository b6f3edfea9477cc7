# SPDX-License-Identifier: Apache-2.0
"""Motions at the edges: ends of ranges, small reversals, odd limits, heavy loads."""

from dataclasses import replace

import numpy as np
import pytest
from cycle_poses import MODEL, SCENE
from motion_planners import FAST, PICK, auto_to_pose
from obstacle_scenes import problem

from ur5_pick_place.errors import GateRefusal, PlanningError
from ur5_pick_place.kinematics import forward
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import tcp_and_elbow_speed
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Box, Scene
from ur5_pick_place.planning.timing.ptp import concatenate, time_ptp

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


def speed_of(q, qd):
    return tcp_and_elbow_speed(MODEL, q, qd, SCENE.tool.T_tool_tcp[:3, 3])


def test_a_dip_of_a_few_milliradians_into_an_object_is_seen():
    q, dq = np.array([0.0, -0.5, 0.6, -0.1 - np.pi / 2, -np.pi / 2, 0.0]), np.zeros(6)
    dq[1:4] = 0.0049
    tcp = (np.diag([-1.0, -1.0, 1.0, 1.0]) @ forward(MODEL, q) @ SCENE.tool.T_tool_tcp)[:3, 3]

    def planner(top: float) -> MotionPlanner:
        T = np.eye(4)
        T[:3, 3] = *tcp[:2], top - 0.05
        shelf = Box('shelf', T, np.array((0.3, 0.3, 0.1)))
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
