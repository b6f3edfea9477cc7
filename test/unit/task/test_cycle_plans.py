# SPDX-License-Identifier: Apache-2.0
"""Cycles as they are planned: optimal times, patterns, the way home; and what is refused."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from cycle_poses import MODEL, ORIGIN, POSES, SCENE, taught
from obedient_robot import Task, plan_of, planner_of
from obedient_robot import cycle_planner as cycle_planner
from optimum_on_grid import grid_optimum
from scenes import box_at, with_boxes

from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.rollout import loop_of
from ur5_pick_place.errors import InvalidInput, PlanningError
from ur5_pick_place.kinematics import BRANCHES, HOME, classify, forward
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, inverse_transform
from ur5_pick_place.planning.limits import tcp_and_elbow_speed
from ur5_pick_place.planning.paths.curves import Line
from ur5_pick_place.planning.paths.follow import JointPath, follow
from ur5_pick_place.planning.scene.scene import Part, Tool
from ur5_pick_place.task.cycle.pattern import PatternSettings, others, poses_by_cycle
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.cycle.steps import Transfer
from ur5_pick_place.task.job import Carry
from ur5_pick_place.task.motions import TaskSettings, retract_from_place
from ur5_pick_place.task.places.poses import numbers_from_matrix
from ur5_pick_place.task.plan import CyclePlanner


def test_a_cycle_without_stops_is_sooner_done_and_reaches_the_same_places(cycle_planner):
    stages = [replace(stage, blend=0.0) for stage in cycle_planner.cycle]
    stopping = planner_of(cycle_planner, stages)
    with_stops, without = stopping.plan(POSES, HOME), cycle_planner.plan(POSES, HOME)
    assert without.motion_time < 0.96 * with_stops.motion_time
    motions = [motion.trajectory for motion in without.motions]
    T = forward(MODEL, np.array([m.q[-1] for m in motions])) @ SCENE.tool.T_tool_tcp
    for place, pose in zip(('start', 'target', 'home'), T, strict=True):
        np.testing.assert_allclose(pose, POSES[place].T_base_tcp, atol=1e-9)


def test_a_cycle_takes_no_longer_than_the_optima_of_its_moves(cycle_planner):
    """By a grid of their own; with a stop at each place within 8 %."""
    stages = [replace(stage, blend=0.0) for stage in cycle_planner.cycle]
    stopping = planner_of(cycle_planner, stages)
    planner, optimum = cycle_planner.planner, 0.0
    with_stops = stopping.plan(POSES, HOME)
    for planned in (s for s in with_stops.cycles[0] if s.motion):
        (stage,), ends = planned.stages, planned.motion.trajectory.q[[0, -1]]
        if stage.do == 'ptp':
            path = JointPath(np.linspace(*ends, 50))
        else:
            path = follow(MODEL, Line(*forward(MODEL, ends)), ends[0])
        speed = 0.1 if stage.pace == 'approach' else planner.limits.speed
        limits = replace(planner.limits, speed=speed)
        optimum += grid_optimum(path, limits, n=100, speed_of=tcp_speed)
    assert cycle_planner.plan(POSES, HOME).motion_time <= 1.0 * optimum
    assert with_stops.motion_time <= 1.08 * optimum


@pytest.mark.parametrize(
    ('without', 'ptp'),
    [('retreat', 'home'), ('above start', 'start'), ('lift transfer', 'target')],
)
def test_a_joint_motion_leaves_and_reaches_a_part_straight_up_and_down(
    cycle_planner, without, ptp
):
    """Aslant it would push the part, which no check can tell from a grasp."""
    stages = [
        replace(stage, do='ptp') if stage.name == ptp else stage
        for stage in cycle_planner.cycle
        if stage.name not in (without, *without.split())
    ]
    (planned,) = planner_of(cycle_planner, stages).plan(POSES, HOME).cycles
    for motion in (s.motion for s in planned if s.motion):
        q = motion.trajectory.sample(motion.trajectory.dense_times(0.005))[0]
        p = (forward(MODEL, q) @ SCENE.tool.T_tool_tcp)[:, :3, 3]
        for place in ('start', 'target'):
            off = p - POSES[place].T_base_tcp[:3, 3]
            aside = np.linalg.norm(off[:, :2], axis=1)
            low = (off[:, 2] < 0.03) & (aside < 0.1)
            assert (aside[low] < 1e-3).all(), (place, aside[low].max())


def test_a_grasp_is_retried_only_where_the_gripper_was_closed(cycle_planner):
    """After the lift it would open in the air, on a part that its sensor may only not see."""
    stages = list(cycle_planner.cycle)
    names = [stage.name for stage in stages]
    late = stages.copy()
    late.insert(names.index('lift'), late.pop(names.index('verify grip')))
    retries = {}
    for name, order in (('at once', stages), ('after the lift', late)):
        planner = planner_of(cycle_planner, order)
        (planned,) = planner.plan(POSES, HOME).cycles
        (verified,) = (s for s in planned if s.stages[0].name == 'verify grip')
        retries[name] = len(verified.retry)
    assert retries == {'at once': 2, 'after the lift': 0}


def tcp_speed(q, qd):
    return tcp_and_elbow_speed(MODEL, q, qd, SCENE.tool.p_tool_tcp)


LATERAL = np.array([[1, 0, 0, 0.15], [0, 1, 0, 0], [0, 0, 1, 0.12], [0, 0, 0, 1.0]])
LINE = [Stage('start', 'ptp', 'above_start'), Stage('transfer', 'lin', 'above_target')]


@pytest.mark.parametrize('method', ['ik', *METHODS])
def test_the_tcp_of_a_lateral_tool_follows_the_line_by_every_method(cycle_planner, method):
    planner = copy(cycle_planner.planner)
    planner.set_scene(replace(SCENE, tool=Tool(LATERAL)))
    origin = replace(ORIGIN, tool=numbers_from_matrix(LATERAL))
    poses = {name: replace(pose, provenance=origin) for name, pose in POSES.items()}
    T_home = numbers_from_matrix(forward(MODEL, HOME) @ LATERAL)
    poses['home'] = replace(poses['home'], pose=T_home)
    cycle = CyclePlanner(planner, TaskSettings(method=method), LINE, origin)
    _, line = cycle.plan(poses, HOME).motions
    q = line.trajectory.sample(line.trajectory.dense_times(0.01))[0]
    T = forward(MODEL, q)
    assert farthest_off_line((T @ LATERAL)[:, :3, 3]) < 1e-3
    assert farthest_off_line(T[:, :3, 3]) > 0.01, 'tool0 turns about the TCP'
    if method != 'ik':
        assert loop_of(planner, method, line.trajectory, LoopSettings(), line.report)


def farthest_off_line(p):
    along = (p[-1] - p[0]) / np.linalg.norm(p[-1] - p[0])
    return np.linalg.norm(np.cross(p - p[0], along), axis=1).max()


PALLET = {'target_grid': (2, 3, 2), 'target_pitch': (0.08, 0.09, 0.046)}
PAIR = {'target_grid': (2, 1, 1), 'target_pitch': (0.09, 0.0, 0.0)}


@pytest.mark.drill
def test_a_pallet_is_filled_from_below_row_by_row_on_one_branch(cycle_planner):
    planner = planner_of(cycle_planner, **PALLET)
    plan = planner.plan(POSES, HOME)
    assert len(plan.cycles) == 12
    laid = []
    for stages in plan.cycles:
        motions = {s.name: s.motion.trajectory for s in stages if s.motion}
        q = motions['lift, transfer, target'].q[-1]
        assert BRANCHES[classify(MODEL, q)] == plan.branch
        T = inverse_transform(POSES['target'].T_base_tcp) @ forward(MODEL, q)
        laid.append((T @ SCENE.tool.T_tool_tcp)[:3, 3])
        np.testing.assert_allclose(motions['retreat, home'].q[-1], HOME)
    cells = [(r, c, n) for n in range(2) for c in range(3) for r in range(2)]
    np.testing.assert_allclose(laid, np.array(cells) * [0.08, 0.09, -0.046], atol=1e-9)


def test_a_box_of_the_scene_may_have_the_name_of_a_part_that_was_placed(cycle_planner):
    planner = copy(cycle_planner.planner)
    planner.set_scene(with_boxes(SCENE, box_at('part 1', (-0.5, 0.0, 0.1), (0.1, 0.1, 0.1))))
    row = {'target_grid': (3, 1, 1), 'target_pitch': (0.09, 0.0, 0.0)}
    cycle = planner_of(cycle_planner, arm=planner, **row)
    placed = cycle.plan(POSES, HOME).cycles[-1][0].placed_parts
    assert [box.name for box in placed] == ['part 2', 'part 3']


def test_a_pattern_at_start_is_emptied_from_above(cycle_planner):
    settings = PatternSettings(start_grid=(1, 1, 3), start_pitch=(0.0, 0.0, 0.046))
    heights = [poses['start'].pose[2] for poses in poses_by_cycle(settings, POSES)]
    assert heights == pytest.approx([0.0225 + 0.046 * n for n in (2, 1, 0)])


def test_an_open_gripper_that_would_hit_the_part_beside_is_refused(cycle_planner):
    narrow = {'start_grid': (1, 2, 1), 'start_pitch': (0.0, 0.07, 0.0)}
    planner = planner_of(cycle_planner, **narrow)
    where = 'of 2, start: fingers is .* part 1'
    with pytest.raises(PlanningError, match=where):
        planner.plan(POSES, HOME)


def test_parts_lie_where_cycles_before_left_them_and_later_ones_will_take_them():
    grids = {'start_grid': (1, 1, 3), 'target_grid': (3, 1, 1)}
    pitches = {'start_pitch': (0.0, 0.0, 0.046), 'target_pitch': (0.06, 0.0, 0.0)}
    cycle_poses = poses_by_cycle(PatternSettings(**grids, **pitches), POSES)
    moved = (Transfer('start', 'target'),)
    found = [part.pose for part in others(cycle_poses, 1, moved)]
    assert found == [cycle_poses[0]['target'], cycle_poses[2]['start']]
    fed = poses_by_cycle(PatternSettings(cycles=3), POSES)
    assert others(fed, 1, moved) == ()


def regrasping(down, up):
    """Return stages that put a part down at one place and grip it again at another."""
    return [
        Stage('1', 'ptp', 'above_start'),
        Stage('2', 'lin', 'start'),
        Stage('grip', 'close'),
        Stage('3', 'lin', 'above_start'),
        Stage('4', 'ptp', f'above_{down}'),
        Stage('put down', 'lin', down),
        Stage('release', 'open'),
        Stage('5', 'lin', f'above_{down}'),
        Stage('6', 'ptp', f'above_{up}'),
        Stage('7', 'lin', up),
        Stage('grip again', 'close'),
        Stage('8', 'lin', f'above_{up}'),
        Stage('9', 'ptp', 'above_target'),
        Stage('10', 'lin', 'target'),
        Stage('release again', 'open'),
        Stage('11', 'lin', 'above_target'),
        Stage('12', 'ptp', 'home'),
    ]


@pytest.mark.parametrize(('shift', 'turn'), [(0.0, np.pi / 2), (0.004, 0.0), (0.004, 0.5)])
def test_a_part_may_be_gripped_again_where_it_was_put_with_the_hand_elsewhere(
    cycle_planner, shift, turn
):
    poses = {
        **POSES,
        'spot': taught(0.42, 0.03, 0.3),
        'again': taught(0.42 + shift, 0.03, 0.3 + turn),
    }
    planner = planner_of(cycle_planner, regrasping('spot', 'again'), **PAIR)
    first, second = planner.plan(poses, HOME).cycles
    waiting = {tuple(box.T_base_link_box[:2, 3]) for s in first for box in s.placed_parts}
    assert waiting == {(0.45, -0.2)}, 'the next part at start, and nothing where this one is put'
    (placed,) = second[0].placed_parts
    T_spot, T_again, T_target = (poses[k].T_base_tcp for k in ('spot', 'again', 'target'))
    there = T_BASE_LINK_BASE @ T_target @ np.linalg.inv(T_again) @ T_spot @ SCENE.part.T_tcp_part
    np.testing.assert_allclose(placed.T_base_link_box, there, atol=1e-9)


def test_a_part_that_is_gripped_again_with_the_hand_turned_is_carried_as_it_lies(cycle_planner):
    poses = {**POSES, 'spot': taught(0.42, 0.03), 'again': taught(0.42, 0.03, np.pi / 2)}
    arm = copy(cycle_planner.planner)
    part = Part(SCENE.part.T_tcp_part, (0.03, 0.045, 0.03))
    arm.set_scene(replace(SCENE, part=part))
    planner = planner_of(cycle_planner, regrasping('spot', 'again'), arm=arm)
    task = Task(planner)
    task.begin(poses)
    task.tick()
    loads = [c.load for c in task.commands(Carry) if c.load]
    assert loads[0].T_tcp_part is None
    held = arm.carrying(loads[1]).scene.part.T_tcp_part
    T_there = poses['again'].T_base_tcp @ held
    np.testing.assert_allclose(T_there, poses['spot'].T_base_tcp @ part.T_tcp_part, atol=1e-9)
    np.testing.assert_allclose(np.abs(held[:2, :2]), [[0, 1], [1, 0]], atol=1e-9)


def test_the_same_pose_twice_is_still_one_place(cycle_planner):
    poses = {**POSES, 'spot': taught(0.42, 0.03, 0.3), 'again': taught(0.4202, 0.03, 0.301)}
    planner = planner_of(cycle_planner, regrasping('spot', 'again'))
    with pytest.raises(InvalidInput, match='again and spot are the same place'):
        planner.plan(poses, HOME)


def test_a_part_that_waits_beside_the_place_of_another_is_still_an_obstacle(cycle_planner):
    poses = {**POSES, 'spot': taught(0.42, 0.03), 'again': taught(0.42, 0.03 + 0.047)}
    planner = planner_of(cycle_planner, regrasping('spot', 'again'))
    with pytest.raises(PlanningError, match='part 1'):
        planner.plan(poses, HOME)


def test_the_way_home_keeps_clear_of_parts_that_lie_about(cycle_planner):
    plan = cycle_planner.plan(POSES, HOME)
    q = next(s.motion.trajectory.q[0] for s in plan.cycles[0] if s.name == 'retreat, home')
    up, _ = cycle_planner.motions_home(POSES, q)
    assert len(cycle_planner.motions_home(POSES, up.trajectory.q[-1])) == 1
    on_another = 0.35 + 0.09, 0.25, 0.07  # beside the target
    beside = box_at('part 1', on_another, np.full(3, 0.045), is_part=True)
    _, home = cycle_planner.motions_home(POSES, q, None, [beside])
    assert cycle_planner.planner.among([beside]).why_blocked(home.trajectory.q) == ''


@pytest.mark.parametrize('place', ['start', 'target'])
def test_an_arm_at_a_place_first_moves_straight_up_and_slowly_from_it(cycle_planner, place):
    moves = [s for s in cycle_planner.plan(POSES, HOME).cycles[0] if s.motion]
    q = next(s.motion.trajectory.q[-1] for s in moves if s.stages[-1].to == place)
    planned = [s for s in cycle_planner.plan(POSES, q).cycles[0] if s.motion]
    names = [stage.name for s in planned for stage in s.stages]
    assert names == [f'leave {place}', *(stage.name for s in moves for stage in s.stages)]
    for up in planned[0].motion, cycle_planner.motions_home(POSES, q)[0]:
        t = up.trajectory.dense_times(0.005)
        tcp = (forward(MODEL, up.trajectory.sample(t)[0]) @ SCENE.tool.T_tool_tcp)[:, :3, 3]
        np.testing.assert_allclose(tcp[-1] - tcp[0], (0.0, 0.0, 0.1), atol=1e-6)
        assert np.abs(tcp[:, :2] - tcp[0, :2]).max() < 1e-4, 'straight up'
        near = tcp[:-1, 2] < tcp[0, 2] + 0.015
        assert (np.diff(tcp[:, 2]) / np.diff(t))[near].max() <= 0.1 * (1 + 1e-3)


def test_an_arm_above_a_place_or_away_from_it_has_nothing_to_leave(cycle_planner):
    q = cycle_planner.plan(POSES, HOME).cycles[0][-1].motion.trajectory.q[0]
    q_above = cycle_planner.plan(POSES, q).motions[0].trajectory.q[-1]
    for joints in HOME, q_above:
        assert 'leave' not in ' '.join(s.name for s in cycle_planner.plan(POSES, joints).cycles[0])


def test_an_arm_that_cannot_leave_a_place_straight_up_is_told_to_be_jogged_away(cycle_planner):
    q = cycle_planner.plan(POSES, HOME).cycles[0][-1].motion.trajectory.q[0]
    x, y = (T_BASE_LINK_BASE @ POSES['target'].T_base_tcp)[:2, 3]
    arm = cycle_planner.planner.among([box_at('lid', (x, y, 0.35), (0.1, 0.1, 0.02))])
    with pytest.raises(PlanningError, match='the arm is at target .* lid.*; jog it away first'):
        places = [(name, pose.T_base_tcp[:3, 3]) for name, pose in POSES.items()]
        retract_from_place(arm, q, places, TaskSettings())
    planner = planner_of(cycle_planner, arm=arm)
    with pytest.raises(PlanningError, match='the arm is at target .* lid.*; jog it away first'):
        planner.motions_home(POSES, q)
    others = {'home': POSES['home'], 'start': POSES['start'], 'shelf': POSES['target']}
    assert planner.motions_home(others, q), 'no place of this cycle'


def test_the_way_home_begins_at_the_places_of_the_present_arm(cycle_planner):
    q = cycle_planner.plan(POSES, HOME).cycles[0][-1].motion.trajectory.q[0]
    wrong = (*np.add(POSES['target'].pose[:3], (0.2, 0.0, 0.0)), *POSES['target'].pose[3:])
    before = replace(ORIGIN, calibration='calib_of_another_arm')
    branch = BRANCHES[int(classify(MODEL, q))]
    target = replace(
        POSES['target'], pose=wrong, provenance=before, joints=tuple(map(float, q)), branch=branch
    )
    motions = cycle_planner.motions_home({**POSES, 'target': target}, q)
    tcp = forward(MODEL, motions[0].trajectory.q[[0, -1]])[:, :3, 3]
    np.testing.assert_allclose(tcp[1] - tcp[0], (0.0, 0.0, 0.1), atol=1e-6)


def test_no_contact_is_quicker_than_the_approach_speed_whatever_the_pace(cycle_planner):
    """A joint motion to or from a place included; elsewhere the limits of the robot hold."""
    stages = [replace(stage, pace='travel', blend=0.0) for stage in cycle_planner.cycle]
    by_joints = ('start', 'lift')
    stages = [replace(s, do='ptp' if s.name in by_joints else s.do) for s in stages]
    planner = planner_of(cycle_planner, stages)
    places = [POSES[name].T_base_tcp[:3, 3] for name in ('start', 'target')]
    quickest = 0.0
    for motion in planner.plan(POSES, HOME).motions:
        t = motion.trajectory.dense_times(0.002)
        tcp = (forward(MODEL, motion.trajectory.sample(t)[0]) @ SCENE.tool.T_tool_tcp)[:, :3, 3]
        speed = np.linalg.norm(np.diff(tcp, axis=0), axis=1) / np.diff(t)
        distance = np.linalg.norm(tcp[:-1, None] - places, axis=2).min(axis=1)
        near = distance < 0.015
        assert speed[near].max(initial=0.0) <= 0.1 * (1 + 1e-3)
        quickest = max(quickest, speed[~near].max(initial=0.0))
    assert quickest > 0.8


def test_a_run_keeps_in_mind_which_parts_lie_about(cycle_planner):
    task = Task(planner_of(cycle_planner, **PAIR))
    assert [len(s[0].placed_parts) for s in plan_of(task.planner).cycles] == [0, 1]
    task.do()
    (part,) = task.run.placed_parts
    assert part.T_base_link_box[:3, 3] == pytest.approx([0.35, 0.25, 0.0225])


def test_a_run_of_equal_cycles_is_planned_once_and_told_cycle_by_cycle(cycle_planner):
    task = Task(planner_of(cycle_planner, cycles=3))
    cycles = plan_of(task.planner).cycles
    assert cycles[1] is cycles[2]
    assert task.do().error == ''
    done = [(d['number'], d['of']) for e, d in task.events if e == 'cycle_done']
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_with_a_pattern_and_nothing_but_home_taught_the_arm_goes_home(cycle_planner):
    planner = planner_of(cycle_planner, **PALLET)
    away = HOME + [0.4, 0.1, 0.0, 0.0, 0.0, 0.0]
    (motion,) = planner.motions_home({'home': POSES['home']}, away)
    np.testing.assert_allclose(motion.trajectory.q[-1], HOME, atol=1e-9)
    with pytest.raises(InvalidInput, match='not taught: start, target'):
        planner.plan({'home': POSES['home']}, away)


def test_a_cell_out_of_reach_refuses_the_whole_run_and_is_named(cycle_planner):
    row = {'target_grid': (1, 9, 1), 'target_pitch': (0.0, 0.1, 0.0)}
    planner = planner_of(cycle_planner, **row)
    with pytest.raises(PlanningError, match='target cannot be reached|cycle . of 9'):
        planner.plan(POSES, HOME)


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'target_grid': (2, 1, 1)}, 'positions would coincide'),
        ({'target_grid': (0, 1, 1)}, r'target_grid\[0\] = 0: must lie in 1 to 50'),
        ({'target_grid': (1.5, 1, 1)}, r'target_grid\[0\] = 1.5: must be a whole number'),
        (
            {'start_grid': (3, 1, 1), 'start_pitch': (0.1, 0, 0)}
            | {'target_grid': (2, 1, 1), 'target_pitch': (0.1, 0, 0)},
            '3 positions at start and 2 at target',
        ),
        (
            {'start_grid': (50, 50, 1), 'start_pitch': (0.01, 0.01, 0)},
            r'start_grid = \[50, 50, 1\]: 2500 positions: must be at most 1000; use a smaller',
        ),
        (
            {'target_grid': (2, 1, 1), 'target_pitch': (0.1, 0, 0), 'cycles': 3},
            'cycles = 3 with 2 positions: must be at most 2; 0 = one cycle per position',
        ),
        ({'cycles': 1001}, 'must lie in 0 to 1000'),
    ],
)
def test_a_pattern_that_cannot_be_is_refused(fields, message):
    with pytest.raises(InvalidInput, match=message):
        PatternSettings(**fields)


def test_where_moves_are_too_short_to_blend_the_arm_stops_and_the_plan_says_so(cycle_planner):
    arm = copy(cycle_planner.planner)
    arm.set_scene(replace(SCENE, part=None))
    planner = planner_of(cycle_planner, arm=arm, settings=TaskSettings(approach_height=0.01))
    plan = planner.plan(POSES, HOME)
    stages = {planned.name: planned for planned in plan.cycles[0]}
    assert 'transfer' in stages and 'stops between moves: move 1 is 0.01' in stages['lift'].remark


@pytest.mark.parametrize(
    ('change', 'error', 'message'),
    [
        ({'home': None}, InvalidInput, 'not taught: home; call ~/teach_home first'),
        ({'target': POSES['start']}, InvalidInput, 'start and target are the same place'),
        ({'start': taught(1.5, 0.0)}, PlanningError, 'start: out of reach by 593 mm'),
        (
            {'start': replace(POSES['start'], provenance=replace(ORIGIN, robot='ur10'))},
            InvalidInput,
            'start was taught with a ur10, this is a ur5: teach it again',
        ),
    ],
)
def test_a_cycle_that_cannot_be_is_refused_with_place_and_reason(
    cycle_planner, change, error, message
):
    poses = {k: v for k, v in {**POSES, **change}.items() if v is not None}
    with pytest.raises(error, match=message):
        cycle_planner.plan(poses, HOME)


def test_places_taught_with_another_payload_are_planned_as_they_are(cycle_planner):
    heavier = {
        name: replace(pose, provenance=replace(ORIGIN, payload=1.5))
        for name, pose in POSES.items()
    }
    assert cycle_planner.converted(heavier) == POSES
    assert cycle_planner.fingerprint(heavier) == cycle_planner.fingerprint(POSES)


def test_the_way_home_does_not_lead_to_another_robots_home(cycle_planner):
    home = replace(POSES['home'], provenance=replace(ORIGIN, robot='ur10'))
    with pytest.raises(InvalidInput, match='home was taught with a ur10'):
        cycle_planner.motions_home({'home': home}, HOME)


def test_the_way_home_from_home_is_no_motion(cycle_planner):
    (motion,) = cycle_planner.motions_home(POSES, HOME)
    assert motion.trajectory.duration == 0.0
