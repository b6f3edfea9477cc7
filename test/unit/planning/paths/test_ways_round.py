# SPDX-License-Identifier: Apache-2.0
"""
Joint motions round obstacles.

Motions are judged by points on the bodies against the boxes in closed form, see
`obstacle_scenes`; the quick test for contact by the collision model.
"""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from motion_planners import FAST, PICK, auto_to_pose, ptp_to_pose, tool_down
from obstacle_scenes import FAMILIES, clearance, problem
from scenes import box_at
from solids import SCENE, UR5

from ur5_pick_place.errors import GateRefusal, PlanningCanceled, PlanningError
from ur5_pick_place.kinematics import BRANCHES, HOME, classify, forward, inverse
from ur5_pick_place.planning.cancellation import cancelable
from ur5_pick_place.planning.detours import RoundedPolyline
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.inertias import Load

SAMPLES = 200


def planner_in(scene):
    return MotionPlanner(UR5, FAST, scene)


def dense(motion, n=SAMPLES):
    return motion.trajectory.sample(np.linspace(0.0, motion.trajectory.duration, n))[0]


@pytest.mark.parametrize('family', FAMILIES)
def test_a_way_round_is_found_that_points_on_the_arm_find_free(family, rng):
    task = problem(family, 0)
    planner = planner_in(task.scene)
    with pytest.raises(PlanningError):
        planner.ptp(task.q_start, task.q_goal)
    motion = planner.auto(task.q_start, [task.q_goal], allowed=1.5)
    q = dense(motion)
    np.testing.assert_allclose(q[[0, -1]], [task.q_start, task.q_goal], atol=1e-9)
    assert clearance(task.scene, q, rng) > task.scene.margin - 2e-3
    assert motion.detour is not None
    assert str(motion.detour).startswith('way round ')
    assert motion.detour.ratio < 4.0


@pytest.mark.drill
def test_the_arm_reaches_through_a_window_into_a_closed_cage(rng):
    """Most samples pull the tree at the goal through the bars; it must grow all the same."""
    y, z, width = -0.76, -0.05, 0.7  # the base's cable socket is in the way of other azimuths
    walls = {
        'floor': ([0.0, y, z - 0.36], [width, width, 0.04]),
        'roof': ([0.0, y, z + 0.36], [width, width, 0.04]),
        'back': ([0.0, y - 0.35, z], [width, 0.04, width]),
        'left': ([0.35, y, z], [0.04, width, width]),
        'right': ([-0.35, y, z], [0.04, width, width]),
        'lower bar': ([0.0, y + 0.35, z - 0.2], [width, 0.04, 0.04]),
        'upper bar': ([0.0, y + 0.35, z + 0.1], [width, 0.04, 0.04]),
    }
    boxes = tuple(box_at(name, *where) for name, where in walls.items())
    scene = replace(SCENE, table_height=-0.9, boxes=boxes)
    planner, q_start = planner_in(scene), np.array([0.0, -1.57, 0.0, -1.57, -1.57, 0.0])
    solutions = planner.joint_goals(tool_down(0.05, -0.70, -0.30), HOME)
    goals = [q for q in solutions if planner.collision.check(q) is None][:2]
    motion = planner.auto(q_start, goals, allowed=30.0)  # found in a third of that here
    assert clearance(scene, dense(motion), rng) > scene.margin - 2e-3


def test_equal_requests_have_equal_motions():
    task = problem('wall', 3)
    first, second = (
        planner_in(task.scene).auto(task.q_start, [task.q_goal]).trajectory for _ in range(2)
    )
    for name in ('t', 'q', 'qd', 'qdd'):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize('k', [3, 7])
def test_the_noise_of_the_encoders_changes_no_way(k, rng):
    task = problem('wall', k)
    ways = []
    for _ in range(3):
        q_start = task.q_start + rng.uniform(-1e-5, 1e-5, 6)
        ways.append(planner_in(task.scene).auto(q_start, [task.q_goal]).trajectory)
    assert all(way.duration == pytest.approx(ways[0].duration, rel=0.01) for way in ways)
    shares = np.linspace(0.0, 1.0, 50)
    paths = np.array([way.sample(shares * way.duration)[0] for way in ways])
    assert np.ptp(paths, axis=0).max() < 0.02


def test_where_the_straight_motion_is_free_it_is_taken_as_it_is():
    planner = planner_in(SCENE)
    goal = PICK + [0.5, 0.1, -0.1, 0.0, 0.0, 0.4]
    auto, ptp = planner.auto(PICK, [goal]), planner.ptp(PICK, goal)
    np.testing.assert_array_equal(auto.trajectory.t, ptp.trajectory.t)
    np.testing.assert_array_equal(auto.trajectory.q, ptp.trajectory.q)
    assert auto.detour is None
    T = tool_down(0.4, 0.2, 0.1)
    auto, ptp = auto_to_pose(planner, PICK, T), ptp_to_pose(planner, PICK, T)
    np.testing.assert_array_equal(auto.trajectory.q, ptp.trajectory.q)


@pytest.mark.parametrize('branch', ['left-up-down', 'left-up-up'])
def test_a_way_to_a_pose_keeps_the_branch_that_is_asked_for(branch):
    task = problem('wall', 7)
    T = forward(UR5, task.q_goal)
    motion = auto_to_pose(planner_in(task.scene), task.q_start, T, branch=branch)
    end = motion.trajectory.q[-1]
    np.testing.assert_allclose(forward(UR5, end), T, atol=1e-6)
    assert BRANCHES[int(classify(UR5, end))] == branch


def test_what_is_carried_goes_round_too(rng):
    wall = box_at('wall', (0.5, 0.0, 0.15), (0.4, 0.03, 0.3))
    rod = replace(SCENE.part, size=np.array([0.04, 0.04, 0.25]))
    planner = planner_in(replace(SCENE, boxes=(wall,), part=rod))
    poses = np.array([tool_down(0.42, -0.28, 0.18), tool_down(0.42, 0.28, 0.18)])
    here, there = inverse(UR5, poses)[0][:, BRANCHES.index('left-up-up')]
    empty = planner.auto(here, [there])
    planner.carry(Load(0.1, (0.0, 0.0, 0.15)))
    with pytest.raises(GateRefusal, match='part'):
        planner.check(empty.trajectory, here)
    motion = planner.auto(here, [there], allowed=3.0)
    assert motion.detour.obstacle == 'wall'
    assert clearance(planner.scene, dense(motion), rng) > SCENE.margin - 2e-3


def test_a_place_in_a_body_is_refused_at_once_by_its_name():
    goal = problem('wall', 0).q_goal
    T = forward(UR5, goal)
    block = box_at('anvil', tuple(-T[:2, 3]) + (0.1,), (0.1, 0.1, 0.2))
    planner = planner_in(replace(SCENE, boxes=(block,)))
    begin = time.process_time()
    with pytest.raises(GateRefusal, match='goal is in collision.*anvil'):
        planner.auto(HOME, [goal])
    with pytest.raises(GateRefusal, match='at the start.*anvil'):
        planner.auto(goal, [HOME])
    with pytest.raises(GateRefusal, match='goal is in collision.*anvil'):
        auto_to_pose(planner, HOME, T)
    assert time.process_time() - begin < 1.5


def test_where_there_is_no_way_the_refusal_names_what_is_in_the_way_and_keeps_the_time():
    ring = [((0.4, y, 0.6), (2.4, 0.02, 1.2)) for y in (0.12, 0.16)]
    boxes = tuple(box_at(f'partition {i}', *b) for i, b in enumerate(ring))
    lid = box_at('lid', (0.0, 0.0, 1.2), (2.4, 2.4, 0.02))
    planner = planner_in(replace(SCENE, boxes=(*boxes, lid)))
    here = auto_to_pose(planner_in(SCENE), HOME, tool_down(0.45, -0.3, 0.2)).trajectory.q[-1]
    there = here + [1.4, 0, 0, 0, 0, 0]
    begin = time.monotonic()
    with pytest.raises(PlanningError, match='no way round|at the') as refusal:
        planner.auto(here, [there], allowed=0.4)
    assert time.monotonic() - begin < 3.0
    assert 'partition' in str(refusal.value)


def test_a_search_that_is_not_wanted_any_more_ends():
    task = problem('wall', 3)
    planner, asked = planner_in(task.scene), []

    def is_canceled():
        asked.append(True)
        return len(asked) > 200

    with pytest.raises(PlanningCanceled), cancelable(is_canceled):
        planner.auto(task.q_start, [task.q_goal], allowed=60.0)
    assert len(asked) == 201


def test_corners_are_rounded_between_the_legs_and_meet_them_smoothly():
    points = np.zeros((4, 6))
    points[:, 0], points[:, 1] = [0.0, 1.0, 1.0, 2.0], [0.0, 0.0, 1.0, 1.5]
    rounded = RoundedPolyline(points, np.full(6, 2.0))
    (path,) = rounded.paths()
    x = np.linspace(0.0, 1.0, 4001)
    q, slope, bend, third = path.sample(x)
    np.testing.assert_allclose(q[[0, -1]], points[[0, -1]], atol=1e-12)
    assert np.abs(np.diff(bend, axis=0)).max() < 0.02 * np.abs(bend).max()
    assert np.linalg.norm(slope, axis=1).min() > 0.3 * np.linalg.norm(slope, axis=1).max()
    assert np.isfinite(third).all()
    assert rounded.fit(SimpleNamespace(check_path=lambda q: None))
    touched = []

    def near_the_first_corner(q):
        away = np.abs(q - points[1]).max(axis=1)
        touched.append(away.min())
        return None if touched[-1] < 0.02 else SimpleNamespace(sample=float(away.argmin()))

    assert rounded.fit(SimpleNamespace(check_path=near_the_first_corner))
    assert touched[0] > touched[-1]
