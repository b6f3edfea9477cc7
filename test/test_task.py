# SPDX-License-Identifier: Apache-2.0
"""
The task's steps, driven by made-up observations: what is commanded, and what ends it.

`Robot` answers as a robot would; each spoilt answer must end the job with its own reason.

"""

import re
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from cycle_poses import CONFIG, MODEL, ORIGIN, POSES, SCENE, taught
from optimum_on_grid import grid_optimum

from ur5_pick_place.errors import ExecutionError, InvalidInput, PlanningError
from ur5_pick_place.kinematics import BRANCHES, HOME, classify, forward
from ur5_pick_place.kinematics.transforms import inverse_transform
from ur5_pick_place.planning.curves import Line
from ur5_pick_place.planning.limits import MotionSettings, tcp_and_elbow_speed
from ur5_pick_place.planning.paths import JointPath, follow
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene import Box
from ur5_pick_place.task.cycle import Stage, load_cycle
from ur5_pick_place.task.gripper import Gripper, GripperSettings
from ur5_pick_place.task.job import (
    Carry,
    Compute,
    Job,
    Observation,
    RunMotion,
    SetOutput,
    SetPayload,
    SetToolVoltage,
)
from ur5_pick_place.task.machine import Machine
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.pattern import PatternSettings, cells, others
from ur5_pick_place.task.pending_motion import LOST, PendingMotion
from ur5_pick_place.task.plan import CyclePlanner
from ur5_pick_place.task.run import CycleRun

TICK = 0.032  # [s]


@pytest.fixture(scope='module')
def cycle_planner():
    motion = MotionSettings(
        max_acceleration=10.0,
        max_jerk=100.0,
        max_speed=1.0,
        velocity_scaling=1.0,
        acceleration_scaling=1.0,
    )
    planner = MotionPlanner(MODEL, motion, SCENE)
    return CyclePlanner(planner, TaskSettings(), load_cycle(CONFIG / 'cycle.yaml'), ORIGIN)


@dataclass
class Robot:
    """A robot that does at once what it is told, unless told to misbehave."""

    t: float = 0.0
    q: np.ndarray = field(default_factory=lambda: HOME.copy())
    voltage: int = 24
    is_part_there: bool = True
    is_output_stuck: bool = False
    is_driver_refusing: bool = False
    outputs: dict = field(default_factory=lambda: {16: False, 17: False})
    commands: list = field(default_factory=list)
    reply: str | None = None

    def seen(self):
        part = self.outputs[16] and self.is_part_there
        return Observation(
            self.t, self.q, {16: part, 17: False}, dict(self.outputs), self.voltage, '', self.reply
        )

    def obey(self, command):
        self.reply = None
        if command is None:
            return
        if isinstance(command, Compute):
            self.reply = command.attempt()
            return
        self.commands.append(command)
        self.reply = 'refused by the driver' if self.is_driver_refusing else ''
        if isinstance(command, RunMotion):
            self.q = command.trajectory.q[-1]
        elif isinstance(command, SetOutput) and not self.is_output_stuck:
            self.outputs[command.pin] = command.state
        elif isinstance(command, SetToolVoltage):
            self.voltage = command.voltage

    def follow(self, job, joints):
        """Be seen on the way, a motion not yet at its end."""
        self.reply = None
        for q in joints:
            self.q = q
            assert job.tick(self.seen()) is None
            self.t += TICK

    def do(self, job, until=lambda robot: False, ticks=2000):
        for _ in range(ticks):
            if job.is_done or until(self):
                return
            self.obey(job.tick(self.seen()))
            self.t += TICK
        raise AssertionError(f'{job.name} did not end within {ticks} ticks')


@dataclass
class ObedientPort:
    """A machine's way to such a robot."""

    robot: Robot
    stopped: str = ''
    missing: str = ''

    def observe(self):
        return replace(self.robot.seen(), stopped=self.stopped)

    def send(self, command, on_reply):
        self.robot.obey(command)
        on_reply('')

    def cancel_motion(self):
        pass


def make_run(cycle_planner, settings=GripperSettings(), events=None):
    record = [] if events is None else events
    return CycleRun(
        cycle_planner,
        Gripper(settings, 24),
        TaskSettings(),
        (0.5, (0.0, 0.0, 0.05)),
        lambda event, **data: record.append((event, data)),
    )


def test_a_cycle_moves_grips_carries_and_releases_in_order(cycle_planner):
    plan, robot, events = cycle_planner.plan(POSES, HOME), Robot(), []
    job = Job('run', make_run(cycle_planner, events=events).cycle(plan))
    robot.do(job)
    assert job.error == ''
    kinds = [(type(c).__name__, getattr(c, 'state', None)) for c in robot.commands]
    move = ('RunMotion', None)
    assert kinds == [
        ('Carry', None),  # and no output: the gripper is open
        move,
        ('SetOutput', True),
        ('Carry', None),
        ('SetPayload', None),
        move,
        ('SetOutput', False),
        ('Carry', None),
        ('SetPayload', None),
        move,
    ]
    carried = [c.load for c in robot.commands if isinstance(c, Carry)]
    assert [load and load.mass for load in carried] == [None, 0.08, None]
    np.testing.assert_allclose(robot.q, HOME)
    assert [d['stage'] for e, d in events if e == 'stage'] == [s.name for s in cycle_planner.cycle]


def test_the_grip_pose_reached_is_the_taught_one(cycle_planner):
    plan, robot = cycle_planner.plan(POSES, HOME), Robot()
    robot.do(Job('run', make_run(cycle_planner).cycle(plan)), until=lambda r: r.outputs[16])
    T = forward(MODEL, robot.q) @ SCENE.tool.T_tool_tcp
    np.testing.assert_allclose(T, POSES['start'].T_base_tcp, atol=1e-9)


def test_the_payload_is_the_tool_and_then_tool_and_part(cycle_planner):
    plan, robot = cycle_planner.plan(POSES, HOME), Robot()
    robot.do(Job('run', make_run(cycle_planner).cycle(plan)))
    loaded, empty = (c for c in robot.commands if isinstance(c, SetPayload))
    assert np.all(np.array(loaded.inertia[:3]) > empty.inertia[:3])
    assert min(empty.inertia[:3]) > 0.0
    assert loaded.mass == pytest.approx(0.58)
    assert loaded.centre[2] == pytest.approx((0.5 * 0.05 + 0.08 * 0.145) / 0.58)
    assert (empty.mass, empty.centre) == (0.5, (0.0, 0.0, 0.05))


@pytest.mark.parametrize(
    ('fault', 'reason'),
    [
        ({'is_part_there': False}, 'closed on nothing'),
        ({'is_output_stuck': True}, 'output 16 was set on but io_states has not shown it'),
        ({'voltage': 0}, 'tool voltage is 0 V, not 24 V: call ~/init_gripper'),
        ({'is_driver_refusing': True}, 'refused by the driver'),
    ],
)
def test_each_gripper_fault_ends_the_cycle_with_its_own_reason(cycle_planner, fault, reason):
    plan, robot = cycle_planner.plan(POSES, HOME), Robot(**fault)
    job = Job('run', make_run(cycle_planner).cycle(plan))
    robot.do(job)
    assert reason in job.error
    after = len(robot.commands)
    assert job.tick(robot.seen()) is None and len(robot.commands) == after


def test_a_part_lost_on_the_way_ends_the_cycle_and_is_named(cycle_planner):
    plan, robot = cycle_planner.plan(POSES, HOME), Robot()
    job = Job('run', make_run(cycle_planner).cycle(plan))
    robot.do(job, until=lambda r: sum(isinstance(c, RunMotion) for c in r.commands) == 2)
    way = robot.commands[-1].trajectory
    robot.follow(job, way.sample(np.arange(0.0, 0.5 * way.duration, TICK))[0])
    robot.is_part_there = False
    robot.follow(job, [robot.q] * 5)
    assert "the part was lost at stage 'transfer'" in job.error


@pytest.mark.parametrize(
    ('is_part_there', 'told'),
    [(False, "; the part was lost at stage 'verify grip': the part-present input"), (True, '')],
)
def test_a_stop_tells_that_the_part_had_just_left_the_hand(cycle_planner, is_part_there, told):
    robot, events = Robot(), []
    run = make_run(cycle_planner)
    port = ObedientPort(robot)
    machine = Machine(cycle_planner, run, port, lambda event, **data: events.append(data))
    machine.make_plan(POSES)
    machine.start_run(POSES)
    while not run.is_carrying:
        machine.tick()
        robot.t += TICK
    robot.is_part_there, port.stopped = is_part_there, 'protective stop'
    machine.tick()
    assert machine.stopped == events[-1]['reason']
    assert machine.stopped.startswith(f'protective stop{told}')
    assert run.is_carrying == is_part_there


def test_a_run_during_a_run_is_refused_as_busy_wherever_the_arm_is(cycle_planner):
    robot = Robot()
    port = ObedientPort(robot)
    machine = Machine(cycle_planner, make_run(cycle_planner), port, lambda event, **data: None)
    machine.make_plan(POSES)
    machine.start_run(POSES)
    robot.q = HOME + 0.1
    for ask in (machine.start_run, machine.go_home, machine.make_plan):
        with pytest.raises(ExecutionError, match='busy with run: wait or call ~/stop'):
            ask(POSES)


def test_a_fault_without_a_job_is_an_event_too_and_bars_every_job(cycle_planner):
    events = []
    machine = Machine(
        cycle_planner,
        make_run(cycle_planner),
        ObedientPort(Robot()),
        lambda event, **data: events.append((event, data)),
    )
    machine.stop('the planner node has gone', is_fault=True)
    machine.stop('stop requested')
    assert events == [
        ('stopped', {'job': '', 'stage': '', 'reason': 'the planner node has gone'})
    ]
    with pytest.raises(ExecutionError, match='stopped: the planner node has gone; call ~/rearm'):
        machine.go_home(POSES)


def test_a_part_in_a_closed_hand_is_found_at_the_start_and_told(cycle_planner):
    robot = Robot(outputs={16: True, 17: False})
    machine = Machine(
        cycle_planner, make_run(cycle_planner), ObedientPort(robot), lambda event, **data: None
    )
    machine.tick()
    machine.tick()
    (carry,) = robot.commands
    assert carry.load.mass == TaskSettings().part_mass


def test_a_contact_that_flickers_while_carrying_is_not_a_loss_but_a_bounce(cycle_planner):
    plan, robot = cycle_planner.plan(POSES, HOME), Robot()
    job = Job('run', make_run(cycle_planner).cycle(plan))
    robot.do(job, until=lambda r: sum(isinstance(c, RunMotion) for c in r.commands) == 2)
    robot.follow(job, [robot.q] * 3)
    for robot.is_part_there in (False, True):
        robot.follow(job, [robot.q] * 2)
    assert not job.is_done
    for robot.is_part_there in (False, True):
        robot.follow(job, [robot.q] * 2)
    assert 'input 16 bounces: 4 changes within 1.0 s' in job.error


@pytest.mark.parametrize(
    ('levels', 'error'),
    [
        (lambda t: t > 0.3, ''),
        (lambda t: 0.2 < t < 0.25 or t > 0.3, ''),
        (lambda t: t > 1.4, 'input 16 took 1.[34]. s to show the part, more than part_timeout'),
        (lambda t: False, 'closed on nothing'),
        (lambda t: int(t / 0.07) % 2 == 1, 'input 16 bounces'),
        (lambda t: None, 'input 16 is not in io_states: check part_pin'),
    ],
)
def test_a_part_signal_that_is_late_missing_or_bouncing_is_named(levels, error):
    job = Job('verify', Gripper(GripperSettings(), 24).expect_part())
    t = 0.0
    while not job.is_done and t < 5.0:
        level = levels(t)
        job.tick(Observation(t, HOME, {} if level is None else {16: level}))
        t += TICK
    assert job.is_done and re.search(error, job.error) and bool(job.error) == bool(error)


@pytest.mark.parametrize(
    ('is_closed', 'error'),
    [(True, 'the gripper still holds a part'), (False, 'though the gripper is open')],
)
def test_a_part_that_should_not_be_there_is_told_from_a_stuck_input(is_closed, error):
    job = Job('verify', Gripper(GripperSettings(), 24).expect_no_part())
    for t in np.arange(0.0, 5.0, TICK):
        job.tick(Observation(t, HOME, {16: True}, {16: is_closed}))
    assert error in job.error


def test_an_input_that_is_off_with_a_part_is_understood():
    settings = GripperSettings(part_when_on=False, closes_when_on=False)
    job = Job('verify', Gripper(settings, 24).expect_part())
    for t in np.arange(0.0, 1.0, TICK):
        job.tick(Observation(t, HOME, {16: t < 0.3}, {16: False}))
    assert job.is_done and job.error == ''


def test_moves_without_a_stop_tell_which_of_them_the_arm_is_on(cycle_planner):
    plan, robot, events = cycle_planner.plan(POSES, HOME), Robot(), []
    (planned,) = (s for s in plan.cycles[0] if s.name == 'lift, transfer, target')
    job = Job('run', make_run(cycle_planner, events=events).cycle(plan))
    robot.do(job, until=lambda r: sum(isinstance(c, RunMotion) for c in r.commands) == 2)
    way, told = planned.motion.trajectory, []
    for t in np.arange(0.0, way.duration, TICK):
        robot.follow(job, way.sample(np.array([t]))[0])
        told.append((t, [d['stage'] for e, d in events if e == 'stage'][-1]))
    for stage, (first, last) in {
        'lift': (0.0, planned.passes[0]),
        'transfer': planned.passes,
        'target': (planned.passes[1], way.duration),
    }.items():
        inside = {s for t, s in told if first + 0.1 < t < last - 0.1}
        assert inside == {stage}
    T_above = POSES['target'].T_base_tcp
    T_above[2, 3] += 0.1
    p = (forward(MODEL, way.sample(planned.passes[1])[0]) @ SCENE.tool.T_tool_tcp)[:3, 3]
    assert 1e-3 < np.linalg.norm(p - T_above[:3, 3]) < 0.01


def test_a_cycle_without_stops_is_sooner_done_and_reaches_the_same_places(cycle_planner):
    stages = [replace(stage, blend=0.0) for stage in cycle_planner.cycle]
    stopping = CyclePlanner(cycle_planner.planner, TaskSettings(), stages, ORIGIN)
    with_stops, without = stopping.plan(POSES, HOME), cycle_planner.plan(POSES, HOME)
    assert without.motion_time < 0.96 * with_stops.motion_time
    motions = [motion.trajectory for motion in without.motions]
    T = forward(MODEL, np.array([m.q[-1] for m in motions])) @ SCENE.tool.T_tool_tcp
    for place, pose in zip(('start', 'target', 'home'), T, strict=True):
        np.testing.assert_allclose(pose, POSES[place].T_base_tcp, atol=1e-9)


def test_a_cycle_takes_no_longer_than_the_optima_of_its_moves(cycle_planner):
    """By a grid of their own; with a stop at each place within 8 %."""
    stages = [replace(stage, blend=0.0) for stage in cycle_planner.cycle]
    stopping = CyclePlanner(cycle_planner.planner, TaskSettings(), stages, ORIGIN)
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


def tcp_speed(q, qd):
    return tcp_and_elbow_speed(MODEL, q, qd, SCENE.tool.p_tool_tcp)


def pallet(**fields):
    return PatternSettings(target_grid=(2, 3, 2), target_pitch=(0.08, 0.09, 0.046), **fields)


def test_a_pallet_is_filled_from_below_row_by_row_on_one_branch(cycle_planner):
    planner = CyclePlanner(
        cycle_planner.planner, TaskSettings(), cycle_planner.cycle, ORIGIN, pallet()
    )
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


def test_a_pattern_at_start_is_emptied_from_above(cycle_planner):
    settings = PatternSettings(start_grid=(1, 1, 3), start_pitch=(0.0, 0.0, 0.046))
    heights = [run['start'].pose[2] for run in cells(settings, POSES)]
    assert heights == pytest.approx([0.0225 + 0.046 * n for n in (2, 1, 0)])


def test_an_open_gripper_that_would_hit_the_part_beside_is_refused(cycle_planner):
    narrow = PatternSettings(start_grid=(1, 2, 1), start_pitch=(0.0, 0.07, 0.0))
    planner = CyclePlanner(
        cycle_planner.planner, TaskSettings(), cycle_planner.cycle, ORIGIN, narrow
    )
    where = 'of 2, start: fingers is .* part 1'
    with pytest.raises(PlanningError, match=where):
        planner.plan(POSES, HOME)


def test_parts_lie_where_cycles_before_left_them_and_later_ones_will_take_them():
    grids = {'start_grid': (1, 1, 3), 'target_grid': (3, 1, 1)}
    pitches = {'start_pitch': (0.0, 0.0, 0.046), 'target_pitch': (0.06, 0.0, 0.0)}
    runs = cells(PatternSettings(**grids, **pitches), POSES)
    assert others(runs, 1) == (runs[0]['target'], runs[2]['start'])
    fed = cells(PatternSettings(cycles=3), POSES)
    assert others(fed, 1) == ()


def test_the_way_home_keeps_clear_of_parts_that_lie_about(cycle_planner):
    plan = cycle_planner.plan(POSES, HOME)
    q = next(s.motion.trajectory.q[0] for s in plan.cycles[0] if s.name == 'retreat, home')
    assert len(cycle_planner.motions_home(POSES, q, is_carrying=False)) == 1
    T = np.eye(4)
    T[:3, 3] = 0.35 + 0.09, 0.25, 0.07  # on another part beside the target
    beside = Box('part 1', T, np.full(3, 0.045), is_part=True)
    _, home = cycle_planner.motions_home(POSES, q, False, [beside])
    assert cycle_planner.planner.among([beside]).obstacle(home.trajectory.q) == ''


def test_a_run_keeps_in_mind_which_parts_lie_about(cycle_planner):
    settings = PatternSettings(target_grid=(2, 1, 1), target_pitch=(0.09, 0.0, 0.0))
    planner = CyclePlanner(
        cycle_planner.planner, TaskSettings(), cycle_planner.cycle, ORIGIN, settings
    )
    plan, run = planner.plan(POSES, HOME), make_run(planner)
    assert [len(boxes) for boxes in plan.placed_parts] == [0, 1]
    Robot().do(Job('run', run.cycle(plan)))
    (part,) = run.placed_parts
    assert part.T_base_link_box[:3, 3] == pytest.approx([0.35, 0.25, 0.0225])


def test_a_run_of_equal_cycles_is_planned_once_and_told_cycle_by_cycle(cycle_planner):
    three = PatternSettings(cycles=3)
    planner = CyclePlanner(
        cycle_planner.planner, TaskSettings(), cycle_planner.cycle, ORIGIN, three
    )
    plan, events = planner.plan(POSES, HOME), []
    assert plan.cycles[1] is plan.cycles[2]
    job = Job('run', make_run(planner, events=events).cycle(plan))
    Robot().do(job)
    assert job.error == ''
    done = [(d['number'], d['of']) for e, d in events if e == 'cycle_done']
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_a_cell_out_of_reach_refuses_the_whole_run_and_is_named(cycle_planner):
    settings = PatternSettings(target_grid=(1, 9, 1), target_pitch=(0.0, 0.1, 0.0))
    planner = CyclePlanner(
        cycle_planner.planner, TaskSettings(), cycle_planner.cycle, ORIGIN, settings
    )
    with pytest.raises(PlanningError, match='target cannot be reached|cycle . of 9'):
        planner.plan(POSES, HOME)


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'target_grid': (2, 1, 1)}, 'cells would coincide'),
        ({'target_grid': (0, 1, 1)}, r'target_grid\[0\] = 0: must lie in 1 to 50'),
        ({'target_grid': (1.5, 1, 1)}, r'target_grid\[0\] = 1.5: must be a whole number'),
        (
            {'start_grid': (3, 1, 1), 'start_pitch': (0.1, 0, 0)}
            | {'target_grid': (2, 1, 1), 'target_pitch': (0.1, 0, 0)},
            '3 cells at start and 2 at target',
        ),
        ({'target_grid': (2, 1, 1), 'target_pitch': (0.1, 0, 0), 'cycles': 3}, '3 cycles for 2'),
        ({'cycles': 1001}, 'must lie in 0 to 1000'),
    ],
)
def test_a_pattern_that_cannot_be_is_refused(fields, message):
    with pytest.raises(InvalidInput, match=message):
        PatternSettings(**fields)


def test_where_moves_are_too_short_to_blend_the_arm_stops_and_the_plan_says_so(cycle_planner):
    near = TaskSettings(approach_height=0.01)
    planner = CyclePlanner(cycle_planner.planner, near, cycle_planner.cycle, ORIGIN)
    plan = planner.plan(POSES, HOME)
    stages = {planned.name: planned for planned in plan.cycles[0]}
    assert 'transfer' in stages and 'stops between moves: move 1 is 0.01' in stages['lift'].remark


def test_a_missed_grasp_is_tried_again_from_above(cycle_planner):
    robot, events = Robot(is_part_there=False), []
    job = Job('run', make_run(cycle_planner, events=events).cycle(cycle_planner.plan(POSES, HOME)))
    robot.do(job, until=lambda r: any(e == 'grasp_missed' for e, _ in events))
    robot.is_part_there = True
    before = len(robot.commands) - 1
    robot.do(job)
    assert job.error == ''
    opened, _, up, down, closed = robot.commands[before : before + 5]
    assert (opened.state, closed.state) == (False, True)
    heights = [forward(MODEL, m.trajectory.q[-1])[2, 3] for m in (up, down)]
    assert heights == pytest.approx([0.0225 + 0.145 + 0.1, 0.0225 + 0.145], abs=1e-6)


def test_a_grasp_is_not_tried_more_often_than_told(cycle_planner):
    robot, events = Robot(is_part_there=False), []
    job = Job('run', make_run(cycle_planner, events=events).cycle(cycle_planner.plan(POSES, HOME)))
    robot.do(job)
    assert 'closed on nothing' in job.error
    assert [d['tries_left'] for e, d in events if e == 'grasp_missed'] == [0]


@pytest.mark.parametrize('is_part_there', [True, False])
def test_what_the_gripper_closes_on_is_carried_from_then_on(cycle_planner, is_part_there):
    robot, run = Robot(is_part_there=is_part_there), make_run(cycle_planner)
    robot.do(Job('close_gripper', run.close()))
    told = [command.load is not None for command in robot.commands if isinstance(command, Carry)]
    assert told == [True] * is_part_there and run.is_carrying == is_part_there


def test_pins_that_are_not_to_be_believed_do_not_stop_a_cycle(cycle_planner):
    settings = GripperSettings(confirm_pins=False, grip_feedback='none')
    robot = Robot(outputs={16: True, 17: True}, is_output_stuck=True)  # mock hardware's
    job = Job('run', make_run(cycle_planner, settings).cycle(cycle_planner.plan(POSES, HOME)))
    robot.do(job)
    assert job.error == ''


def test_one_output_cannot_open_and_close():
    with pytest.raises(InvalidInput, match='open_pin = close_pin = 16: must be two outputs'):
        GripperSettings(open_pin=16)


def test_a_cycle_does_not_start_with_a_part_in_the_hand(cycle_planner):
    plan, robot = cycle_planner.plan(POSES, HOME), Robot(outputs={16: True, 17: False})
    job = Job('run', make_run(cycle_planner).cycle(plan))
    robot.do(job)
    assert 'still holds a part' in job.error
    assert robot.commands == []


def test_without_a_part_input_the_event_says_unverified(cycle_planner):
    events = []
    run = make_run(cycle_planner, GripperSettings(grip_feedback='none'), events)
    job = Job('run', run.cycle(cycle_planner.plan(POSES, HOME)))
    Robot(is_part_there=False).do(job)
    assert job.error == ''
    assert ('grasp_unverified', {}) in events


def test_a_stopped_planner_ends_any_job_at_once(cycle_planner):
    robot = Robot()
    job = Job('run', make_run(cycle_planner).cycle(cycle_planner.plan(POSES, HOME)))
    robot.do(job, until=lambda r: r.outputs[16])
    assert job.tick(replace(robot.seen(), stopped='protective stop')) is None
    assert job.error == 'protective stop'
    assert robot.outputs[16], 'the gripper keeps its part'


def test_a_paused_motion_goes_on_from_where_the_arm_came_to_rest(cycle_planner):
    robot, run = Robot(), make_run(cycle_planner)
    job = Job('run', run.cycle(cycle_planner.plan(POSES, HOME)))
    robot.do(job, until=lambda r: any(isinstance(c, RunMotion) for c in r.commands))
    first = robot.commands[-1].trajectory
    assert first.duration > 1.0
    run.pause()
    robot.q = first.sample(first.duration / 2)[0]
    robot.reply = 'canceled by the client'
    for _ in range(20):
        assert job.tick(robot.seen()) is None
    run.resume()
    robot.do(job, until=lambda r: r.commands[-1].trajectory is not first)
    again = robot.commands[-1].trajectory
    np.testing.assert_allclose(again.q[0], first.sample(first.duration / 2)[0], atol=3e-3)
    np.testing.assert_allclose(again.q[-1], first.q[-1], atol=1e-9)
    robot.do(job)
    assert job.error == ''


def test_a_second_pause_while_the_rest_is_planned_holds_too(cycle_planner):
    robot, run = Robot(), make_run(cycle_planner)
    job = Job('run', run.cycle(cycle_planner.plan(POSES, HOME)))
    robot.do(job, until=lambda r: any(isinstance(c, RunMotion) for c in r.commands))
    first = robot.commands[-1].trajectory
    run.pause()
    run.resume()
    robot.q, robot.reply = first.sample(first.duration / 2)[0], 'canceled by the client'
    while not isinstance(command := job.tick(robot.seen()), Compute):
        robot.reply = None
    run.pause()
    robot.reply = command.attempt()
    for _ in range(20):
        assert job.tick(robot.seen()) is None, 'it waits'
        robot.reply = None
    run.resume()
    robot.do(job)
    assert job.error == ''


def test_two_outputs_are_never_on_together():
    settings = GripperSettings(close_pin=16, open_pin=17)
    robot = Robot(outputs={16: False, 17: True})
    for steps in (Gripper(settings, 24).close(), Gripper(settings, 24).open()):
        job = Job('gripper', steps)
        robot.do(job, until=lambda r: r.outputs[16] and r.outputs[17])
        assert job.is_done
        assert job.error == ''
    assert robot.outputs == {16: False, 17: True}


def test_the_tool_supply_is_set_and_seen():
    robot = Robot(voltage=0)
    job = Job('init', Gripper(GripperSettings(), 24).initialise())
    robot.do(job)
    assert (job.error, robot.voltage) == ('', 24)


@pytest.mark.parametrize(
    ('change', 'error', 'message'),
    [
        ({'home': None}, InvalidInput, 'not taught: home; call ~/teach_home first'),
        ({'target': POSES['start']}, InvalidInput, 'start and target are the same place'),
        ({'start': taught(1.5, 0.0)}, PlanningError, 'start: out of reach by 593 mm'),
        ({'start': taught(0.45, -0.2, z=0.0)}, PlanningError, 'start: fingers is 13.0 mm inside'),
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


def test_a_changed_pose_changes_the_fingerprint(cycle_planner):
    moved = {**POSES, 'target': taught(0.35, 0.251, 1.0)}
    assert cycle_planner.fingerprint(POSES) == cycle_planner.fingerprint(dict(POSES))
    assert cycle_planner.fingerprint(POSES) != cycle_planner.fingerprint(moved)


def test_places_taught_with_another_payload_are_planned_as_they_are(cycle_planner):
    heavier = {
        name: replace(pose, provenance=replace(ORIGIN, payload=1.5))
        for name, pose in POSES.items()
    }
    assert cycle_planner.replayed(heavier) == POSES
    assert cycle_planner.fingerprint(heavier) == cycle_planner.fingerprint(POSES)


def test_the_way_home_does_not_lead_to_another_robots_home(cycle_planner):
    home = replace(POSES['home'], provenance=replace(ORIGIN, robot='ur10'))
    with pytest.raises(InvalidInput, match='home was taught with a ur10'):
        cycle_planner.motions_home({'home': home}, HOME, is_carrying=False)


def test_the_way_home_lifts_first_where_the_direct_way_is_barred(cycle_planner):
    q = cycle_planner.plan(POSES, HOME).motions[0].trajectory.q[-1]
    motions = cycle_planner.motions_home(POSES, q, is_carrying=False)
    np.testing.assert_allclose(motions[-1].trajectory.q[-1], HOME)
    np.testing.assert_allclose(motions[0].trajectory.q[0], q, atol=1e-9)


def test_the_way_home_from_home_is_no_motion(cycle_planner):
    (motion,) = cycle_planner.motions_home(POSES, HOME, is_carrying=False)
    assert motion.trajectory.duration == 0.0


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('stages: []', 'a list of 1 to 100'),
        ('[1, 2', 'cycle file'),
        ('stages: [{name: a}]', r"stages\[0\] lacks the key 'do'"),
        ('stages: [{name: a, do: jump}]', "do = 'jump': must be one of ptp"),
        ('stages: [{name: a, do: lin, to: mars}]', "to = 'mars': must be one of home"),
        ('stages: [{name: a, do: lin, to: 3}]', 'to = 3: must be text'),
        ('stages: [{name: a, do: open, to: home}]', 'open takes no "to"'),
        ('stages: [{name: a, do: lin, to: home, blend: x}]', "blend = 'x': must be a finite"),
        ('stages: [{name: a, do: lin, to: home, blend: -1}]', 'blend = -1 m: must lie in 0'),
        ('stages: [{name: a, do: open, hwo: home}]', "unknown key 'hwo'; known are: name, do, to"),
    ],
)
def test_a_malformed_cycle_file_is_refused_with_stage_and_key(tmp_path, text, message):
    path = tmp_path / 'cycle.yaml'
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        load_cycle(path)


def test_a_cycle_may_hold_other_stages(tmp_path):
    path = tmp_path / 'cycle.yaml'
    path.write_text('stages: [{name: go, do: ptp, to: home}, {name: shut, do: close}]')
    assert load_cycle(path) == (Stage('go', 'ptp', 'home'), Stage('shut', 'close'))


class TestPendingMotion:
    """A planner that is done but whose answer never comes."""

    def pending(self):
        replies = []
        return PendingMotion(HOME, replies.append, 0.0), replies

    def test_an_answer_counts_once(self):
        pending, replies = self.pending()
        pending.reply('')
        pending.reply('late')
        pending.look(HOME, 100.0)
        assert replies == ['']

    @pytest.mark.parametrize(('q', 'reply'), [(HOME, ''), (HOME + 0.02, LOST)])
    def test_a_lost_one_is_told_from_where_the_arm_is_once_the_planner_is_ready(self, q, reply):
        pending, replies = self.pending()
        for t, state in ((0.1, 'moving'), (5.0, 'ready')):
            pending.on_planner_state(state, t)
        pending.look(q, 6.9)
        assert replies == []
        pending.look(q, 7.1)
        assert replies == [reply]

    def test_a_planner_that_is_still_moving_is_waited_for(self):
        pending, replies = self.pending()
        pending.on_planner_state('moving', 0.1)
        pending.look(HOME, 1000.0)
        assert replies == []

    def test_a_motion_that_never_begins_is_given_up(self):
        pending, replies = self.pending()
        pending.on_planner_state('ready', 0.1)
        pending.look(HOME, 29.0)
        pending.look(HOME, 31.0)
        assert replies == [LOST]
