# SPDX-License-Identifier: Apache-2.0
"""What the task makes of gripper and part signals: grips, losses, retries and their reasons."""

import re
from dataclasses import replace
from typing import ClassVar

import numpy as np
import obedient_robot
import pytest
from cycle_poses import MODEL
from obedient_robot import TICK, ObedientPort, Robot, Task, opened, planner_of
from obedient_robot import cycle_planner as cycle_planner

from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.outcome import DONE
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.grippers.outputs import DigitalGripper as Gripper
from ur5_pick_place.task.grippers.outputs import DigitalSettings as GripperSettings
from ur5_pick_place.task.job import (
    Compute,
    Job,
    Observation,
    RunMotion,
    SetOutput,
    SetPayload,
    SetToolVoltage,
    perform,
)


@pytest.fixture
def task(cycle_planner):
    return Task(cycle_planner)


@pytest.mark.parametrize(
    ('fault', 'reason'),
    [
        ({'is_output_stuck': True}, 'output 16 was set on but io_states has not shown it'),
        ({'voltage': 0}, 'tool voltage is 0 V, not 24 V: call ~/init_gripper'),
        ({'is_driver_refusing': True}, 'refused by the driver'),
    ],
)
def test_each_gripper_fault_ends_the_cycle_with_its_own_reason(cycle_planner, fault, reason):
    task = Task(cycle_planner, **fault)
    assert reason in task.do().error
    after = len(task.robot.commands)
    assert task.job.tick(task.robot.seen()) is None and len(task.robot.commands) == after


LIFTS = [
    Stage('down', 'lin', 'start'),
    Stage('grip', 'close'),
    Stage('lift', 'lin', 'above_start'),
]


def under_way(task, motions=2):
    """Do the cycle until so many motions were commanded; return the job."""
    return task.do(lambda: len(task.commands(RunMotion)) == motions)


@pytest.mark.parametrize(
    ('command', 'said'),
    [
        (SetOutput(16, True), 'output 16'),
        (SetToolVoltage(24), 'tool voltage 24 V'),
        (SetPayload(0.58, (0.0, 0.0, 0.0631034482758)), 'set_payload 0.580 kg'),
    ],
)
def test_a_driver_that_does_not_answer_is_told_by_what_it_was_asked(command, said):
    job, seen = Job('asks', perform(command, 2.0)), Robot().seen()
    for t in (0.0, 1.0, 4.0):
        job.tick(replace(seen, t=t))
    assert job.error == f'{said} was not answered within 2 s: check the driver and its log'


def test_a_part_that_no_stage_expects_is_watched_and_replanned_with_all_the_same(cycle_planner):
    task = Task(planner_of(cycle_planner, LIFTS))
    under_way(task)
    assert task.run.is_carrying
    task.robot.is_part_there = False
    task.robot.follow(task.job, [task.robot.q] * 5)
    assert "the part was lost at stage 'lift'" in task.job.error


def test_a_gripper_with_a_part_is_not_opened_in_the_air(cycle_planner):
    task = Task(planner_of(cycle_planner, [*LIFTS, Stage('drop', 'open')]))
    assert "the part in the gripper would fall at stage 'drop': hold it and" in task.do().error
    assert task.robot.outputs[16], 'it is held'


def test_a_part_is_not_released_where_another_client_moved_the_arm(task):
    robot, run = task.robot, task.run
    task.do(lambda: run.stage in ('lift', 'transfer'))
    run.pause()
    task.do(lambda: task.count('paused'))
    assert robot.outputs[16] and not task.job.is_done
    robot.q = robot.q + [0.015, 0, 0, 0, 0, 0]
    run.resume()
    said = "stage 'target': another client moved the arm by 0.015 rad"
    assert said in task.do().error
    assert robot.outputs[16], 'the part is held'
    assert not task.count('placed')


def test_an_empty_gripper_is_opened_in_the_air(cycle_planner):
    stages = [*LIFTS, Stage('open', 'open')]
    task = Task(planner_of(cycle_planner, stages), is_part_there=False)
    assert task.do().error == '' and not task.robot.outputs[16]


def test_each_part_that_is_released_at_a_place_is_told_once_also_before_a_stop(cycle_planner):
    stages = list(cycle_planner.cycle)
    verify = next(i for i, stage in enumerate(stages) if stage.do == 'expect_part')
    stages.insert(verify, stages[verify])
    task = Task(planner_of(cycle_planner, stages))
    task.do(lambda: task.events[-1:] and task.events[-1][1].get('stage') == 'retreat')
    task.job.tick(replace(task.robot.seen(), stop_reason='protective stop'))
    told = [(e, d.get('place')) for e, d in task.events if e in ('grasp_verified', 'placed')]
    assert told == [('grasp_verified', None)] * 2 + [('placed', 'target')]
    assert not task.count('cycle_done')


@pytest.mark.parametrize(
    ('feedback', 'change', 'why'),
    [
        ('tool_input', {'is_part_there': False}, 'the part-present input went off'),
        ('none', {'outputs': {16: False}}, 'someone else has opened the gripper'),
    ],
)
def test_a_part_lost_on_the_way_ends_the_cycle_and_is_named(cycle_planner, feedback, change, why):
    task = Task(cycle_planner, GripperSettings(grip_feedback=feedback))
    robot, job = task.robot, under_way(task)
    way = robot.commands[-1].trajectory
    robot.follow(job, way.sample(np.arange(0.0, 0.5 * way.duration, TICK))[0])
    vars(robot).update(change)
    robot.follow(job, [robot.q] * 5)
    assert f"the part was lost at stage 'transfer': {why}" in job.error


@pytest.mark.parametrize(
    ('is_part_there', 'told'),
    [(False, "; the part was lost at stage 'verify grip': the part-present input"), (True, '')],
)
def test_a_stop_tells_that_the_part_had_just_left_the_hand(task, is_part_there, told):
    task.begin()
    task.tick(lambda: task.run.is_carrying)
    task.robot.is_part_there, task.port.stop_reason = is_part_there, 'protective stop'
    task.machine.tick()
    reason = task.machine.stop_reason
    assert reason == task.events[-1][1]['reason']
    assert reason.startswith(f'protective stop{told}')
    assert task.run.is_carrying == is_part_there


@pytest.mark.parametrize('after', range(4))
@pytest.mark.parametrize('seconds', [0.05, 9.0])
def test_an_input_that_is_on_for_a_moment_shows_no_part_in_an_open_gripper(task, after, seconds):
    robot = task.robot
    task.do(lambda: task.run.stage == 'check empty')
    seen, begin = robot.seen, robot.t + after * TICK
    robot.seen = lambda: (
        replace(seen(), inputs={16: True}) if begin <= robot.t < begin + seconds else seen()
    )
    job = task.do(lambda: task.run.stage == 'above start')
    robot.follow(job, [robot.q] * 5)
    robot.reply = DONE
    task.do()
    assert bool(job.error) == (seconds > 1.0)
    assert re.search('^$|shows a part .*although the gripper is open|would fall at', job.error)


@pytest.mark.parametrize('stage', ['above start', 'retreat'])
def test_nobody_else_may_close_the_open_gripper_on_the_way(task, stage):
    """It would push its fingers onto the part, or take the one that it has placed."""
    robot, job = task.robot, task.do(lambda: task.run.stage == stage)
    robot.is_part_there = False
    for robot.outputs[16] in (False, True, False, True):  # for a moment it may be a wrong view
        robot.follow(job, [robot.q] * 2)
    assert not job.is_done
    assert 'someone else has closed the gripper; open it with ~/open_gripper' in task.do().error


def test_a_part_is_seen_by_joint_states_of_9_hz_too(task, monkeypatch):
    """On which each tick depends; a cycle waited for ever for a stable signal."""
    monkeypatch.setattr(obedient_robot, 'TICK', 0.11)
    task.begin()
    task.tick()
    assert task.count('grasp_verified') == 1 and task.events[-1] == ('done', {'job': 'run'})


def test_a_contact_that_flickers_while_carrying_is_not_a_loss_but_a_bounce(task):
    robot, job = task.robot, under_way(task)
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
        job.tick(Observation(t, HOME, {16: t < 0.3}, {16: False}, 24))
    assert job.is_done and job.error == ''


def test_an_input_that_is_off_with_a_part_shows_none_without_supply(cycle_planner):
    task = Task(cycle_planner, GripperSettings(part_when_on=False))
    robot, seen = task.robot, task.robot.seen
    robot.seen = lambda: replace(seen(), inputs={16: robot.voltage > 0 and not seen().inputs[16]})
    robot.voltage = 0
    said = 'tool voltage is 0 V, not 24 V: call ~/init_gripper first'
    robot.do(empty := Job('verify', task.run.gripper.expect_no_part()))
    assert empty.error == said
    robot.voltage = 24
    job = under_way(task)
    robot.voltage, robot.outputs[16] = 0, False  # as a robot without tool supply
    robot.follow(job, [robot.q] * 5)
    assert job.error == f"stage 'lift': {said}"


def missed(task):
    """Do the cycle until a grasp is missed, and have a part there from then on."""
    task.do(lambda: task.count('grasp_missed'))
    task.robot.is_part_there = True


def test_a_missed_grasp_is_tried_again_from_above(cycle_planner):
    task = Task(cycle_planner, is_part_there=False)
    missed(task)
    before = len(task.robot.commands) - 1
    assert task.do().error == ''
    opened, _, up, down, closed = task.robot.commands[before : before + 5]
    assert (opened.state, closed.state) == (False, True)
    heights = [forward(MODEL, m.trajectory.q[-1])[2, 3] for m in (up, down)]
    assert heights == pytest.approx([0.0225 + 0.145 + 0.1, 0.0225 + 0.145], abs=1e-6)


def test_a_pause_holds_the_retry_of_a_missed_grasp(cycle_planner):
    task = Task(cycle_planner, is_part_there=False)
    robot, run = task.robot, task.run
    task.do(lambda: run.stage == 'verify grip')
    run.pause()
    task.do(lambda: task.count('paused'))
    robot.follow(task.job, [robot.q] * 50)  # no command
    assert robot.outputs[16], 'the gripper has opened in the pause'
    run.resume()
    robot.is_part_there = True
    assert task.do().error == '' and run.progress.done == 0


def test_a_part_gripped_at_the_second_try_is_carried_with_its_payload(cycle_planner):
    """The stage that sets the payload comes before the check, and is not repeated."""
    stages = list(cycle_planner.cycle)
    i = [s.do for s in stages].index('expect_part')
    stages[i : i + 2] = stages[i + 1], stages[i]
    task = Task(planner_of(cycle_planner, stages), is_part_there=False)
    missed(task)
    task.do(lambda: task.run.stage == 'lift')
    masses = [c.mass for c in task.commands(SetPayload)]
    assert masses == pytest.approx([0.58, 0.5, 0.58])
    assert task.do().error == ''


def test_a_grasp_is_not_tried_more_often_than_told(cycle_planner):
    task = Task(cycle_planner, is_part_there=False)
    assert 'closed on nothing' in task.do().error
    assert [d['tries_left'] for e, d in task.events if e == 'grasp_missed'] == [1, 0]


@pytest.mark.parametrize('is_part_there', [True, False])
def test_what_the_gripper_closes_on_is_carried_from_then_on(cycle_planner, is_part_there):
    task = Task(cycle_planner, is_part_there=is_part_there)
    task.robot.do(Job('close_gripper', task.run.close()))
    assert task.carried is (True if is_part_there else None)
    assert task.run.is_carrying == is_part_there


def test_a_part_that_is_shown_after_close_gripper_has_ended_is_carried(cycle_planner):
    """As a cup that seals after vacuum_time, but within part_timeout."""
    task = Task(cycle_planner, is_part_there=False)
    task.idle()
    task.machine.start('close_gripper', task.run.close())
    task.idle()
    assert task.machine.job_name == '' and task.carried is False
    task.robot.is_part_there = True
    task.idle(0.5)
    assert task.carried is True and task.run.is_carrying
    task.robot.is_part_there = False  # taken out by hand
    task.idle(0.5)
    assert task.carried is False and not task.run.is_carrying


def test_a_job_that_begins_at_once_sends_the_part_in_the_hand_too(task):
    task.idle()
    task.robot.outputs[16] = True  # by another client
    task.machine.start('confirm_payload', task.run.confirm_payload())
    assert task.carried is True


@pytest.mark.parametrize('stage', ['verify grip', 'transfer'])
def test_a_part_that_was_missed_or_lost_is_carried_no_more(cycle_planner, stage):
    task = Task(cycle_planner, is_part_there=stage == 'transfer')
    task.idle()
    task.begin()
    task.tick(lambda: task.run.stage in ('lift', 'transfer'))
    if stage == 'transfer':
        assert task.carried is True
        task.robot.is_part_there = False
        task.machine.stop('the part was lost')
        task.idle()
    assert task.machine.stop_reason and task.carried is False


@pytest.mark.parametrize('doubt', ['no pins', 'tool power off', 'planner stopped', 'flickers'])
def test_a_part_is_not_forgotten_where_its_input_is_in_doubt(cycle_planner, doubt):
    task = Task(cycle_planner, outputs={16: True, 17: False})
    robot = task.robot
    task.idle()
    (carry,) = robot.commands
    assert carry.load.mass == 0.08
    robot.is_part_there = False
    if doubt == 'no pins':
        seen = robot.seen
        robot.seen = lambda: replace(seen(), inputs={})
    elif doubt == 'tool power off':
        robot.voltage = 0
    elif doubt == 'planner stopped':
        task.port.stop_reason = 'io_states silent'
    for i in range(100):
        if doubt == 'flickers':
            robot.is_part_there = i % 8 < 4
        task.idle(TICK)
    assert task.carried is True
    if doubt == 'tool power off':
        robot.voltage = 24
        task.idle()
        assert task.carried is False


def test_pins_that_are_not_to_be_believed_do_not_stop_a_cycle(cycle_planner):
    settings = GripperSettings(confirm_pins=False, grip_feedback='none')
    mock = {'outputs': {16: True, 17: True}, 'is_output_stuck': True}  # hardware's
    assert Task(cycle_planner, settings, **mock).do().error == ''


def test_one_output_cannot_open_and_close():
    with pytest.raises(InvalidInput, match='open_pin = close_pin = 16: must be two outputs'):
        GripperSettings(open_pin=16)


def test_a_cycle_does_not_start_with_a_part_in_the_hand(cycle_planner):
    task = Task(cycle_planner, outputs={16: True, 17: False})
    assert 'still holds a part' in task.do().error
    assert task.robot.commands == []


def test_without_a_part_input_the_event_says_unverified(cycle_planner):
    task = Task(cycle_planner, GripperSettings(grip_feedback='none'), is_part_there=False)
    assert task.do().error == ''
    assert task.count('grasp_unverified') == 1


def test_two_outputs_are_never_on_together():
    settings = GripperSettings(close_pin=16, open_pin=17)
    robot = Robot(outputs={16: False, 17: True})
    for steps in (Gripper(settings, 24).close(), opened(Gripper(settings, 24))):
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


class Sticky(Robot):
    sticks = False

    def seen(self):
        seen = super().seen()
        return replace(seen, inputs={**seen.inputs, 16: self.sticks or seen.inputs[16]})


def test_a_part_that_sticks_to_the_gripper_is_not_placed_and_stays_carried(cycle_planner):
    stages = [s for s in cycle_planner.cycle if s.name != 'verify release']
    task = Task(planner_of(cycle_planner, stages), robot=Sticky)
    task.do(lambda: task.run.is_carrying)
    task.robot.sticks = True
    assert 'shows a part after 2.0 s although the gripper is open' in task.do().error
    assert task.run.is_carrying and not task.count('placed')
    assert task.carried, 'the planner knows that it hangs there'


class Stubborn(Gripper):
    """A gripper of a user's own that repeats whatever fails."""

    def begin_closing(self):
        for _ in range(2):  # the second time is after the end
            try:
                yield from super().begin_closing()
                while True:
                    yield None
            except (ExecutionError, GeneratorExit):
                continue


@pytest.mark.parametrize('reason', ['protective stop', 'another client moved the arm by 0.020'])
def test_no_steps_of_a_gripper_can_catch_what_ends_their_job(task, reason):
    task.run.gripper = Stubborn(GripperSettings(), 24)
    task.begin()
    task.tick(lambda: task.run.stage == 'grip')
    if 'moved' in reason:
        task.robot.q = task.robot.q + 0.02
    else:
        task.port.stop_reason = reason
    task.machine.tick()
    assert task.machine.job_name == '' and task.events[-1][0] == 'stopped', 'and not "done"'
    assert reason in task.machine.stop_reason


class Polled(Gripper):
    """A gripper of a user's own whose device must be asked whether it is empty."""

    answers: ClassVar[list[bool]] = []

    def await_empty(self):
        while not self.answers:
            yield from perform(Compute(lambda: self.answers.append(True)), 1.0)


class SlowPort(ObedientPort):
    """A port that answers a motion after a while, and other commands meanwhile."""

    def __init__(self, robot):
        super().__init__(robot)
        self.order = []

    def send(self, command, on_reply):
        self.order.append(command)
        self.robot.obey(command)
        if isinstance(command, RunMotion):
            self.answer = lambda: on_reply(DONE)
        else:
            on_reply(DONE)


def test_a_gripper_may_ask_its_device_during_a_motion_and_each_gets_its_own_answer(task):
    machine, run = task.machine, task.run
    run.gripper, machine.port = Polled(GripperSettings(), 24), SlowPort(task.robot)
    Polled.answers.clear()
    task.begin()
    task.tick(lambda: task.robot.t > 3.0)
    order = machine.port.order
    assert [type(c) for c in order[-2:]] == [RunMotion, Compute] and Polled.answers == [True]
    stage = run.stage
    assert machine.job_name and run.gripper.answers, 'the motion waits for its own answer'
    machine.port.answer()
    task.tick(lambda: run.stage != stage)
    assert machine.job_name
