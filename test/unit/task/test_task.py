# SPDX-License-Identifier: Apache-2.0
"""
The task's steps, driven by made-up observations: what is commanded, and what ends it.

`Robot` answers as a robot would; each spoilt answer must end the job with its own reason.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
from cycle_poses import MODEL, ORIGIN, POSES, SCENE
from obedient_robot import TICK, Task, plan_of, planner_of
from obedient_robot import cycle_planner as cycle_planner
from scenes import thing_at

from ur5_pick_place.errors import ExecutionError, PlanningError
from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.outcome import Outcome
from ur5_pick_place.planning.scene.shapes import Cuboid
from ur5_pick_place.planning.scene.world import World
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.job import Carry, Compute, Job, RunMotion, SetPayload
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.plan import CyclePlanner

CANCELED = Outcome.failed('canceled by the client')
CRATE = Cuboid(np.full(3, 0.1))


@pytest.fixture
def task(cycle_planner):
    return Task(cycle_planner)


def test_a_cycle_moves_grips_carries_and_releases_in_order(task):
    assert task.do().error == ''
    kinds = [(type(c).__name__, getattr(c, 'state', None)) for c in task.robot.commands]
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
    carried = [c.load for c in task.commands(Carry)]
    assert [load and load.mass for load in carried] == [None, 0.08, None]
    np.testing.assert_allclose(task.robot.q, HOME)
    stages = [s.name for s in task.planner.cycle]
    assert [d['stage'] for e, d in task.events if e == 'stage'] == stages


def test_the_same_pose_taught_again_leaves_a_plan_as_it_is(cycle_planner):
    """A client on a busy PC repeats its request, and the second is served during the plan."""
    again = {name: replace(pose, time='later') for name, pose in POSES.items()}
    before = cycle_planner.fingerprint(POSES)
    assert cycle_planner.fingerprint(again) == before
    elsewhere = replace(POSES['start'], pose=(*POSES['start'].pose[:2], 0.1, 0.0, 1.0, 0.0, 0.0))
    assert cycle_planner.fingerprint({**POSES, 'start': elsewhere}) != before


@pytest.mark.parametrize('stopped', ['', 'planner', 'task'])
def test_a_rearm_without_a_stop_leaves_a_plan_as_it_is(cycle_planner, stopped):
    task = Task(cycle_planner)
    task.machine.make_plan(POSES)
    if stopped == 'task':
        task.machine.stop('stop requested')
    task.port.stop_reason = 'protective stop' if stopped == 'planner' else ''
    task.idle(0.2)
    task.port.stop_reason = ''
    task.machine.rearmed()
    assert task.machine.state == ('idle' if stopped else 'planned')
    assert task.count('rearmed') == bool(stopped)


def test_a_run_is_refused_only_for_what_its_plan_meets(cycle_planner):
    planner = copy.copy(cycle_planner.planner)
    own = planner_of(cycle_planner, arm=planner)
    machine = Task(own).machine

    def show(**objects):
        world = World({name: thing_at(name, CRATE, p) for name, p in objects.items()})
        planner.set_scene(replace(SCENE, world=world))

    show(lamp=(-1.2, 1.3, 0.2))
    machine.make_plan(POSES)
    show(lamp=(-1.2, 1.301, 0.2))
    own.check_unchanged(machine.plan, POSES)
    show(lamp=(-1.2, 1.3, 0.2), wall=(0.45, 0.02, 0.15))
    with pytest.raises(PlanningError, match="'above start, start' since ~/plan: .*'wall'"):
        machine.start_run(POSES)
    planner.set_scene(replace(SCENE, world=World(refused={'x': 'object x was refused'})))
    with pytest.raises(PlanningError, match='object x was refused'):
        machine.start_run(POSES)
    x, *rest = POSES['start'].pose
    moved = {**POSES, 'start': replace(POSES['start'], pose=(x + 0.01, *rest), joints=())}
    show()
    with pytest.raises(ExecutionError, match='start changed since ~/plan: plan again'):
        machine.start_run(moved)
    assert machine.start_run(POSES) == 'run started'


def test_an_object_that_moved_while_a_plan_was_made_is_looked_at_before_the_run(cycle_planner):
    planner = copy.copy(cycle_planner.planner)
    own = planner_of(cycle_planner, arm=planner)
    walled = replace(SCENE, world=World({'wall': thing_at('wall', CRATE, (0.45, 0.02, 0.15))}))
    planner.set_scene(walled)

    def blink(_branch, stage, _share):
        planner.set_scene(walled if stage == 'retreat' else SCENE)

    plan = own.plan(POSES, HOME, blink)
    with pytest.raises(PlanningError, match="object 'wall'"):
        own.check_unchanged(plan, POSES)


def test_a_run_does_not_begin_after_a_stop_that_came_while_its_plan_was_checked(cycle_planner):
    class Interrupted(CyclePlanner):
        def check_unchanged(self, plan, poses):
            super().check_unchanged(plan, poses)
            machine.stop('stop requested')
            machine.rearmed()

    own = Interrupted(cycle_planner.planner, TaskSettings(), cycle_planner.cycle, ORIGIN)
    machine = Task(own).machine
    machine.make_plan(POSES)
    with pytest.raises(ExecutionError, match='dropped while it was checked: call ~/plan again'):
        machine.start_run(POSES)
    assert machine.job_name == ''


def test_a_job_begins_with_a_stage_of_its_own_or_none(task):
    machine, first = task.machine, task.planner.cycle[0].name
    for _ in range(2):
        task.begin()
        assert machine.state == f'running: {first}'
        task.tick()
    machine.start('close_gripper', task.run.close())
    machine.stop('stop requested')
    stopped = {'job': 'close_gripper', 'stage': '', 'reason': 'stop requested'}
    assert task.events[-1] == ('stopped', stopped)


def test_the_grip_pose_reached_is_the_taught_one(task):
    task.do(lambda: task.robot.outputs[16])
    T = forward(MODEL, task.robot.q) @ SCENE.tool.T_tool_tcp
    np.testing.assert_allclose(T, POSES['start'].T_base_tcp, atol=1e-9)


def test_the_payload_is_the_tool_and_then_tool_and_part(task):
    task.do()
    loaded, empty = task.commands(SetPayload)
    assert np.all(np.array(loaded.inertia[:3]) > empty.inertia[:3])
    assert min(empty.inertia[:3]) > 0.0
    assert loaded.mass == pytest.approx(0.58)
    assert loaded.centre[2] == pytest.approx((0.5 * 0.05 + 0.08 * 0.145) / 0.58)
    assert (empty.mass, empty.centre) == (0.5, (0.0, 0.0, 0.05))


def test_a_run_that_would_push_closed_fingers_onto_the_part_does_not_begin(cycle_planner):
    stages = [
        Stage('start', 'lin', 'start'),
        Stage('grip', 'close'),
        Stage('target', 'lin', 'target'),
        Stage('release', 'open'),
    ]
    task = Task(planner_of(cycle_planner, stages), is_part_there=False)
    machine, robot = task.machine, task.robot
    machine.make_plan(POSES)
    robot.outputs[16] = True
    with pytest.raises(ExecutionError, match='closed, and the cycle grips at start .*~/open_grip'):
        machine.start_run(POSES)
    assert machine.job_name == '' and not robot.commands
    robot.outputs[16] = False
    assert machine.start_run(POSES) == 'run started'


def test_a_gripper_without_supply_is_told_in_a_refusal_that_latches_no_stop(cycle_planner):
    task = Task(cycle_planner, voltage=0)
    machine, run = task.machine, task.run
    machine.make_plan(POSES)
    requests = [
        lambda: machine.start_run(POSES),
        lambda: machine.start('close_gripper', run.close(), closes=True),
    ]
    for request in requests:
        with pytest.raises(ExecutionError, match='tool voltage is 0 V, not 24 V: call ~/init_gr'):
            request()
        assert not machine.stop_reason and not machine.job_name and not task.robot.commands
    machine.start('open_gripper', run.open(), closes=False)  # an output that goes off
    task.tick()
    machine.start('init_gripper', run.gripper.initialise())
    task.tick()
    assert 'started' in machine.start_run(POSES), 'the plan is still there'


def test_a_closed_gripper_does_not_keep_a_cycle_from_running_that_opens_it(cycle_planner):
    task = Task(cycle_planner, is_part_there=False, outputs={16: True, 17: False})
    task.begin()
    assert task.machine.job_name == 'run'


def test_a_run_during_a_run_is_refused_as_busy_wherever_the_arm_is(task):
    task.begin()
    task.robot.q = HOME + 0.1
    for ask in (task.machine.start_run, task.machine.go_home, task.machine.make_plan):
        with pytest.raises(ExecutionError, match='busy with run: wait or call ~/stop'):
            ask(POSES)


def test_nothing_is_planned_in_freedrive(task):
    machine = task.machine
    machine.is_in_freedrive = True
    for ask in (machine.make_plan, machine.go_home):
        with pytest.raises(ExecutionError, match='the arm is in freedrive: call ~/freedrive'):
            ask(POSES)
    assert not task.events and machine.plan is None and machine.state == 'freedrive'


def test_freedrive_that_begins_during_planning_is_the_state_at_once(task):
    """The planner knows of freedrive by this state alone."""
    states, machine = [], task.machine

    def begin_freedrive(event, **_data):
        machine.is_in_freedrive = True
        states.append((event, machine.state))

    machine.emit = begin_freedrive
    machine.make_plan(POSES)
    assert states[0] == ('planning', 'freedrive')
    with pytest.raises(ExecutionError, match='the arm is in freedrive'):
        machine.start_run(POSES)


def test_a_fault_without_a_job_is_an_event_too_and_bars_every_job(task):
    task.machine.stop('the planner node has gone', is_fault=True)
    task.machine.stop('stop requested')
    assert task.events == [
        ('stopped', {'job': '', 'stage': '', 'reason': 'the planner node has gone'})
    ]
    with pytest.raises(ExecutionError, match='stopped: the planner node has gone; call ~/rearm'):
        task.machine.go_home(POSES)


def test_moves_without_a_stop_tell_which_of_them_the_arm_is_on(task):
    stages = plan_of(task.planner).cycles[0]
    (planned,) = (s for s in stages if s.name == 'lift, transfer, target')
    job = task.do(lambda: len(task.commands(RunMotion)) == 2)
    way, told = planned.motion.trajectory, []
    for t in np.arange(0.0, way.duration, TICK):
        task.robot.follow(job, way.sample(np.array([t]))[0])
        told.append((t, task.run.stage))
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
    assert 1e-3 < np.linalg.norm(p - T_above[:3, 3]) < 0.36 * planned.stages[1].blend


def test_a_stopped_planner_ends_any_job_at_once(task):
    job = task.do(lambda: task.robot.outputs[16])
    assert job.tick(replace(task.robot.seen(), stop_reason='protective stop')) is None
    assert job.error == 'protective stop'
    assert task.robot.outputs[16], 'the gripper keeps its part'


def moving(task):
    """Begin the first motion of the cycle; return robot, run, job and that motion."""
    job = task.do(lambda: task.commands(RunMotion))
    return task.robot, task.run, job, task.robot.commands[-1].trajectory


def test_a_paused_motion_goes_on_from_where_the_arm_came_to_rest(task):
    robot, run, job, first = moving(task)
    assert first.duration > 1.0
    run.pause()
    robot.q = first.sample(first.duration / 2)[0]
    robot.reply = CANCELED
    for _ in range(20):
        assert job.tick(robot.seen()) is None
    run.resume()
    task.do(lambda: robot.commands[-1].trajectory is not first)
    again = robot.commands[-1].trajectory
    np.testing.assert_allclose(again.q[0], first.sample(first.duration / 2)[0], atol=3e-3)
    np.testing.assert_allclose(again.q[-1], first.q[-1], atol=1e-9)
    assert task.do().error == ''


@pytest.mark.parametrize('job', ['make_plan', 'go_home'])
def test_without_joint_states_nothing_is_planned_and_the_driver_is_named(cycle_planner, job):
    machine = Task(cycle_planner, q=np.full(6, np.nan)).machine
    with pytest.raises(ExecutionError, match='no joint_states yet: check that the driver is run'):
        getattr(machine, job)(POSES)
    assert machine.state == 'idle'


def test_a_second_pause_while_the_rest_is_planned_holds_too(task):
    robot, run, job, first = moving(task)
    run.pause()
    run.resume()
    robot.q, robot.reply = first.sample(first.duration / 2)[0], CANCELED
    while not isinstance(command := job.tick(robot.seen()), Compute):
        robot.reply = None
    run.pause()
    robot.reply = command.attempt()
    for _ in range(20):
        assert job.tick(robot.seen()) is None, 'it waits'
        robot.reply = None
    run.resume()
    assert task.do().error == ''


def test_an_error_says_that_the_rest_of_a_motion_was_not_planned_in_time(task):
    robot, run, job, _ = moving(task)
    run.pause()
    run.resume()
    robot.reply = CANCELED
    while not isinstance(job.tick(robot.seen()), Compute):
        robot.reply = None
    begun = replace(robot.seen(), reply=None)
    for late in (0.0, 119.0, 121.0):
        assert job.error == ''
        job.tick(replace(begun, t=begun.t + late))
    assert job.error == 'planning the remaining motion was not answered within 120 s'


def test_the_way_home_is_free_of_the_checks_of_a_run_that_was_stopped(task):
    robot, run, *_ = moving(task)
    robot.do(Job('close', run.close()))
    assert run.is_carrying
    home = Job('home', run.home((plan_of(task.planner).motions[0],)))
    robot.do(home)
    assert home.error == ''


def test_a_part_that_was_released_is_not_taken_for_the_next_one_in_the_gripper(task):
    task.do(lambda: task.count('placed'))
    task.run.progress.settle(is_held=True)
    assert task.run.progress.done == 1
