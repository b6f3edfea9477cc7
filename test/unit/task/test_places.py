# SPDX-License-Identifier: Apache-2.0
"""Tasks that cannot be are refused by place and reason before any motion is timed."""

import re
from dataclasses import replace

import numpy as np
import pytest
from cycle_poses import MODEL, POSES, SCENE, taught
from impossible_tasks import CYCLE, TASKS, TCP, at, impossible_task, planner_among
from motion_planners import FAST, ptp_to_pose
from obedient_robot import Task
from scenes import box_at

from ur5_pick_place.errors import ExecutionError, GateRefusal, PlanningCanceled, PlanningError
from ur5_pick_place.kinematics import BRANCHES, HOME, all_solutions
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK
from ur5_pick_place.planning import planner as planner_module
from ur5_pick_place.planning.joint_goals import check_pose
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.task.cycle.steps import annotate
from ur5_pick_place.task.places.check import visits


@pytest.fixture
def untimed(monkeypatch):
    """Fail where a motion is timed."""
    def fail(*_args, **_keywords):
        raise AssertionError('a motion was timed')

    for name in ('time_ptp', 'time_path', 'path_of'):
        monkeypatch.setattr(planner_module, name, fail)


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('kind', TASKS)
def test_an_impossible_task_is_named_before_any_motion_is_timed(untimed, kind, seed):
    planner, poses, is_named = impossible_task(kind, seed)
    with pytest.raises(PlanningError) as refusal:
        planner.plan(poses, HOME)
    assert is_named(str(refusal.value)), refusal.value


def test_the_joints_of_home_and_the_present_ones_are_checked_too(untimed):
    into_table = HOME + [0.0, 1.2, 0.0, 0.0, 0.0, 0.0]
    with pytest.raises(PlanningError, match='^the arm cannot start where it is: .* inside table'):
        planner_among().plan(POSES, into_table)
    home = replace(POSES['home'], joints=tuple(into_table))
    with pytest.raises(PlanningError, match='^home: .* inside table'):
        planner_among().places.common_branches([{**POSES, 'home': home}], [()], HOME)


def test_places_without_a_common_branch_are_listed_with_theirs(untimed):
    # An elbow that bends one way only: the shoulder must then be the left one at one place.
    narrow = np.array(MODEL.q_max)
    low, high = -narrow, narrow.copy()
    low[0], high[0] = -1.2, 1.2
    planner = planner_among(model=replace(MODEL, q_min=low, q_max=high))
    poses = {**POSES, 'start': taught(-0.45, 0.1), 'target': taught(0.45, 0.1)}
    with pytest.raises(PlanningError, match='no single branch reaches every place ') as error:
        planner.plan(poses, HOME)
    sides = dict(re.findall(r'(\w+) on (left|right)', str(error.value)))
    assert sides['start'] != sides['target'], error.value


def test_the_places_of_a_cycle_are_seen_with_the_hand_that_is_there():
    assert [visit[:2] for visit in visits(annotate(CYCLE))] == [
        ('start', False), ('target', False), ('home', False), ('start', True), ('target', True),
        ('above_start', False), ('above_target', False), ('above_start', True),
        ('above_target', True),
    ]


def test_the_carried_part_counts_where_it_is_carried(untimed):
    # Beside the closed fingers, 8 mm from the cube that hangs between them: free when empty.
    low = at([0.4, 0.25, 0.002], [0.2, 0.2, 0.004])
    planner = planner_among(low)
    with pytest.raises(PlanningError, match="^target: part is 4.0 mm inside object 'block'"):
        planner.plan({**POSES, 'target': taught(0.4, 0.25)}, HOME)


def test_branches_that_are_called_possible_are_so_and_no_others():
    rng = np.random.default_rng(5)
    block = box_at('block', (0.3, -0.3, 0.3), (0.2, 0.2, 0.6))
    planner = MotionPlanner(MODEL, FAST, replace(SCENE, boxes=(block,)))
    kinds = {True: 0, False: 0}
    for _ in range(60):
        T = T_BASE_BASE_LINK @ np.diag([1.0, -1.0, -1.0, 1.0])
        T[:3, 3] = rng.uniform([-0.7, -0.7, 0.1], [0.7, 0.7, 0.5])
        report = check_pose(planner.limits, planner.collision, T)
        q, rows = all_solutions(MODEL, T)
        solutions = zip(q, rows, strict=True)
        free = {BRANCHES[k] for x, k in solutions if not planner.why_blocked(x[None])}
        assert set(report.branches) == free
        assert bool(report.reason) == (not free)
        kinds[bool(free)] += 1
    assert min(kinds.values()) > 5


def test_a_pose_goal_in_collision_is_refused_before_any_motion_is_timed(untimed):
    planner = planner_among().planner
    T = T_BASE_BASE_LINK @ np.diag([1.0, -1.0, -1.0, 1.0])
    T[:3, 3] = [-0.4, -0.2, TCP - 0.2]
    with pytest.raises(GateRefusal, match='the TCP is 200 mm below the table') as refusal:
        ptp_to_pose(planner, HOME, T)
    assert refusal.value.check == 'collision'


class TestTeaching:
    def test_a_good_place_is_taught_without_a_word(self):
        for name, pose in POSES.items():
            assert planner_among().places.check_taught(name, pose) == ''

    @pytest.mark.parametrize(
        ('pose', 'reason'),
        [
            (taught(0.4, 0.25, z=-0.2), 'target not taught: the TCP is 200 mm below the table'),
            (taught(1.5, 0.0), 'target not taught: out of reach by 593 mm'),
            (taught(0.4, 0.25, z=0.0), 'target not taught: fingers is 13.0 mm inside table'),
        ],
    )
    def test_what_can_never_be_is_refused_whatever_else_is_in_the_way(self, pose, reason):
        for objects in ([], [at([0.4, 0.25, 0.2], [0.3, 0.3, 0.1])]):
            with pytest.raises(PlanningError, match=reason):
                planner_among(*objects).places.check_taught('target', pose)

    def test_what_may_be_removed_is_warned_of(self):
        planner = planner_among(at([0.4, 0.25, 0.02], [0.1, 0.1, 0.04]))
        warning = planner.places.check_taught('target', taught(0.4, 0.25))
        assert warning.startswith('target: ') and "inside object 'block'" in warning

    def test_the_point_above_is_warned_of(self):
        planner = planner_among(approach_height=0.3)
        warning = planner.places.check_taught('target', taught(0.0, 0.87))
        assert warning.startswith('above_target: out of reach by')

    def test_the_open_fingers_must_clear_the_part_from_the_point_above(self):
        """They come and go sideways there, and the part is no obstacle to these moves."""
        low, clear = planner_among(approach_height=0.02), planner_among(approach_height=0.041)
        with pytest.raises(PlanningError, match='above_start: fingers is .* mm inside the part '):
            low.plan(POSES, HOME)
        warning = low.places.check_taught('target', POSES['target'])
        assert warning.endswith('raise approach_height = 0.02 m')
        assert clear.plan(POSES, HOME).cycles
        assert not clear.places.check_taught('target', POSES['target'])

    def test_home_is_checked_by_its_joints(self):
        home = replace(POSES['home'], joints=tuple(HOME + [0.0, 1.2, 0.0, 0.0, 0.0, 0.0]))
        with pytest.raises(PlanningError, match='home not taught: .* inside table'):
            planner_among().places.check_taught('home', home)


def machine_with(on_planning):
    """Return a machine that hands itself to `on_planning` at each stage being planned."""
    def emit(event, **data):
        if event == 'planning':
            on_planning(machine, **data)

    machine = Task(planner_among()).machine
    machine.emit = emit
    return machine


def test_the_state_is_planning_with_the_stage_in_work_and_other_requests_wait():
    seen = []

    def on_planning(machine, branch, stage, share):
        seen.append((branch, stage, share, machine.state))
        for request in (machine.make_plan, machine.start_run):
            with pytest.raises(ExecutionError, match='busy planning: wait or call ~/stop'):
                request(POSES)

    machine = machine_with(on_planning)
    machine.make_plan(POSES)
    assert seen[0] == ('', 'places', 0.0, 'planning')
    branches, stages, shares, states = zip(*seen[1:], strict=True)
    assert set(branches) == {machine.plan.branch} and set(states) == {'planning'}
    assert {'above start', 'lift', 'retreat'} <= set(stages)
    assert list(shares) == sorted(set(shares)) and shares[-1] < 1.0
    assert machine.state == 'planned'


@pytest.mark.parametrize('stage', ['places', 'above start', 'lift'])
def test_a_stop_ends_the_planning_within_the_stage_in_work(stage):
    stages = []

    def on_planning(machine, branch, stage, share):
        stages.append(stage)
        if stage == last:
            machine.stop('stop requested')

    last, machine = stage, machine_with(on_planning)
    with pytest.raises(PlanningCanceled, match='a stop was requested while this was planned'):
        machine.make_plan(POSES)
    assert stages[-1] == stage
    assert machine.plan is None
    assert machine.state == 'stopped: stop requested'
    machine.rearmed()
    assert machine.state == 'idle'
