# SPDX-License-Identifier: Apache-2.0
"""What the task makes of gripper and part signals: grips, losses, retries and their reasons."""

import re
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from cycle_poses import MODEL, ORIGIN, POSES
from obedient_robot import TICK, ObedientPort, Robot, make_run, opened
from obedient_robot import cycle_planner as cycle_planner

from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.outcome import DONE
from ur5_pick_place.task.cycle.file import Stage
from ur5_pick_place.task.grippers.digital import DigitalGripper as Gripper
from ur5_pick_place.task.grippers.digital import DigitalSettings as GripperSettings
from ur5_pick_place.task.job import (
    Carry,
    Compute,
    Job,
    Observation,
    RunMotion,
    SetPayload,
    perform,
)
from ur5_pick_place.task.machine import Machine
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.plan import CyclePlanner


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


LIFTS = [
    Stage('down', 'lin', 'start'),
    Stage('grip', 'close'),
    Stage('lift', 'lin', 'above_start'),
]


def job_of(cycle_planner, stages, events=None):
    planner = CyclePlanner(cycle_planner.planner, TaskSettings(), stages, ORIGIN)
    run = make_run(planner, events=events)
    return run, Job('run', run.cycle(planner.plan(POSES, HOME)))


def test_a_part_that_no_stage_expects_is_watched_and_replanned_with_all_the_same(cycle_planner):
    robot, (run, job) = Robot(), job_of(cycle_planner, LIFTS)
    robot.do(job, until=lambda r: sum(isinstance(c, RunMotion) for c in r.commands) == 2)
    assert run.is_carrying
    robot.is_part_there = False
    robot.follow(job, [robot.q] * 5)
    assert "the part was lost at stage 'lift'" in job.error


def test_a_gripper_with_a_part_is_not_opened_in_the_air(cycle_planner):
    robot, (_, job) = Robot(), job_of(cycle_planner, [*LIFTS, Stage('drop', 'open')])
    robot.do(job)
    assert "the part in the gripper would fall at stage 'drop': hold it and" in job.error
    assert robot.outputs[16], 'it is held'


def test_a_part_is_not_released_where_another_client_moved_the_arm(cycle_planner):
    events: list = []
    stages = list(cycle_planner.cycle)
    robot, (run, job) = Robot(), job_of(cycle_planner, stages, events)
    robot.do(job, until=lambda _: run.stage in ('lift', 'transfer'))
    run.pause()
    robot.do(job, until=lambda _: any(event == 'paused' for event, _ in events))
    assert robot.outputs[16] and not job.is_done
    robot.q = robot.q + [0.015, 0, 0, 0, 0, 0]
    run.resume()
    robot.do(job)
    assert "stage 'target': another client moved the arm by 0.015 rad" in job.error
    assert robot.outputs[16], 'the part is held'
    assert not any(event == 'placed' for event, _ in events)


def test_an_empty_gripper_is_opened_in_the_air(cycle_planner):
    robot = Robot(is_part_there=False)
    _, job = job_of(cycle_planner, [*LIFTS, Stage('open', 'open')])
    robot.do(job)
    assert job.error == '' and not robot.outputs[16]


def test_each_part_that_is_released_at_a_place_is_told_once_also_before_a_stop(cycle_planner):
    stages, events = list(cycle_planner.cycle), []
    verify = next(i for i, stage in enumerate(stages) if stage.do == 'expect_part')
    stages.insert(verify, stages[verify])
    home, (_, job) = len(stages) - 1, job_of(cycle_planner, stages, events)
    robot = Robot()
    robot.do(job, until=lambda r: events[-1:] and events[-1][1].get('stage') == 'retreat')
    job.tick(replace(robot.seen(), stop_reason='protective stop'))
    told = [(e, d.get('place')) for e, d in events if e in ('grasp_verified', 'placed')]
    assert told == [('grasp_verified', None)] * 2 + [('placed', 'target')]
    assert stages[home].name == 'home' and 'cycle_done' not in dict(events)


@pytest.mark.parametrize(
    ('feedback', 'change', 'why'),
    [
        ('tool_input', {'is_part_there': False}, 'the part-present input went off'),
        ('none', {'outputs': {16: False}}, 'someone else has opened the gripper'),
    ],
)
def test_a_part_lost_on_the_way_ends_the_cycle_and_is_named(cycle_planner, feedback, change, why):
    plan, robot = cycle_planner.plan(POSES, HOME), Robot()
    settings = GripperSettings(grip_feedback=feedback)
    job = Job('run', make_run(cycle_planner, settings).cycle(plan))
    robot.do(job, until=lambda r: sum(isinstance(c, RunMotion) for c in r.commands) == 2)
    way = robot.commands[-1].trajectory
    robot.follow(job, way.sample(np.arange(0.0, 0.5 * way.duration, TICK))[0])
    vars(robot).update(change)
    robot.follow(job, [robot.q] * 5)
    assert f"the part was lost at stage 'transfer': {why}" in job.error


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
    robot.is_part_there, port.stop_reason = is_part_there, 'protective stop'
    machine.tick()
    assert machine.stop_reason == events[-1]['reason']
    assert machine.stop_reason.startswith(f'protective stop{told}')
    assert run.is_carrying == is_part_there


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


def test_a_pause_holds_the_retry_of_a_missed_grasp(cycle_planner):
    robot, events = Robot(is_part_there=False), []
    run = make_run(cycle_planner, events=events)
    job = Job('run', run.cycle(cycle_planner.plan(POSES, HOME)))
    robot.do(job, until=lambda r: run.stage == 'verify grip')
    run.pause()
    robot.do(job, until=lambda r: any(e == 'paused' for e, _ in events))
    robot.follow(job, [robot.q] * 50)  # no command
    assert robot.outputs[16], 'the gripper has opened in the pause'
    run.resume()
    robot.is_part_there = True
    robot.do(job)
    assert job.error == '' and run.progress.done == 0


def test_a_part_gripped_at_the_second_try_is_carried_with_its_payload(cycle_planner):
    """The stage that sets the payload comes before the check, and is not repeated."""
    robot, events = Robot(is_part_there=False), []
    stages = list(cycle_planner.cycle)
    i = [s.do for s in stages].index('expect_part')
    stages[i : i + 2] = stages[i + 1], stages[i]
    run, job = job_of(cycle_planner, stages, events)
    robot.do(job, until=lambda r: any(e == 'grasp_missed' for e, _ in events))
    robot.is_part_there = True
    robot.do(job, until=lambda r: run.stage == 'lift')
    masses = [c.mass for c in robot.commands if isinstance(c, SetPayload)]
    assert masses == pytest.approx([0.58, 0.5, 0.58])
    robot.do(job)
    assert job.error == ''


def test_a_grasp_is_not_tried_more_often_than_told(cycle_planner):
    robot, events = Robot(is_part_there=False), []
    job = Job('run', make_run(cycle_planner, events=events).cycle(cycle_planner.plan(POSES, HOME)))
    robot.do(job)
    assert 'closed on nothing' in job.error
    assert [d['tries_left'] for e, d in events if e == 'grasp_missed'] == [1, 0]


@pytest.mark.parametrize('is_part_there', [True, False])
def test_what_the_gripper_closes_on_is_carried_from_then_on(cycle_planner, is_part_there):
    robot, run = Robot(is_part_there=is_part_there), make_run(cycle_planner)
    robot.do(Job('close_gripper', run.close()))
    told = [command.load is not None for command in robot.commands if isinstance(command, Carry)]
    assert told == [True] * is_part_there and run.is_carrying == is_part_there


def idle(cycle_planner, robot, settings=GripperSettings()):
    """Return port, run and machine of a robot that was observed for a while without a job."""
    run, port = make_run(cycle_planner, settings), ObedientPort(robot)
    machine = Machine(cycle_planner, run, port, lambda event, **data: None)
    tick(machine, robot)
    return port, run, machine


def tick(machine, robot, seconds=1.0):
    end = robot.t + seconds
    while robot.t < end or machine.job_name:
        machine.tick()
        robot.t += TICK


def carried(robot):
    """What was sent to the planner last: whether a part is carried; None if nothing was."""
    sent = [command.load is not None for command in robot.commands if isinstance(command, Carry)]
    return sent[-1] if sent else None


def test_a_part_that_is_shown_after_close_gripper_has_ended_is_carried(cycle_planner):
    """As a cup that seals after vacuum_time, but within part_timeout."""
    robot = Robot(is_part_there=False)
    _, run, machine = idle(cycle_planner, robot)
    machine.start('close_gripper', run.close())
    tick(machine, robot)
    assert machine.job_name == '' and carried(robot) is False
    robot.is_part_there = True
    tick(machine, robot, 0.5)
    assert carried(robot) is True and run.is_carrying
    robot.is_part_there = False  # taken out by hand
    tick(machine, robot, 0.5)
    assert carried(robot) is False and not run.is_carrying


def test_a_job_that_begins_at_once_sends_the_part_in_the_hand_too(cycle_planner):
    robot = Robot()
    _, run, machine = idle(cycle_planner, robot)
    robot.outputs[16] = True  # by another client
    machine.start('confirm_payload', run.confirm_payload())
    assert carried(robot) is True


@pytest.mark.parametrize('stage', ['verify grip', 'transfer'])
def test_a_part_that_was_missed_or_lost_is_carried_no_more(cycle_planner, stage):
    robot = Robot(is_part_there=stage == 'transfer')
    _, run, machine = idle(cycle_planner, robot)
    machine.make_plan(POSES)
    machine.start_run(POSES)
    while machine.job_name and run.stage not in ('lift', 'transfer'):
        machine.tick()
        robot.t += TICK
    if stage == 'transfer':
        assert carried(robot) is True
        robot.is_part_there = False
        machine.stop('the part was lost')
        tick(machine, robot)
    assert machine.stop_reason and carried(robot) is False


@pytest.mark.parametrize('doubt', ['no pins', 'tool power off', 'planner stopped', 'flickers'])
def test_a_part_is_not_forgotten_where_its_input_is_in_doubt(cycle_planner, doubt):
    robot = Robot(outputs={16: True, 17: False})
    port, _, machine = idle(cycle_planner, robot)
    assert carried(robot) is True
    robot.is_part_there = False
    if doubt == 'no pins':
        seen = robot.seen
        robot.seen = lambda: replace(seen(), inputs={})
    elif doubt == 'tool power off':
        robot.voltage = 0
    elif doubt == 'planner stopped':
        port.stop_reason = 'io_states silent'
    for i in range(100):
        if doubt == 'flickers':
            robot.is_part_there = i % 8 < 4
        tick(machine, robot, TICK)
    assert carried(robot) is True
    if doubt == 'tool power off':
        robot.voltage = 24
        tick(machine, robot)
        assert carried(robot) is False


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


def test_a_part_that_sticks_to_the_gripper_is_not_placed_and_stays_carried(cycle_planner):
    class Sticky(Robot):
        def seen(self):
            seen = super().seen()
            return replace(seen, inputs={**seen.inputs, 16: self.sticks or seen.inputs[16]})

        sticks = False

    stages = [s for s in cycle_planner.cycle if s.name != 'verify release']
    events: list = []
    robot, (run, job) = Sticky(), job_of(cycle_planner, stages, events)
    robot.do(job, until=lambda _: run.is_carrying)
    robot.sticks = True
    robot.do(job)
    assert 'shows a part after 2.0 s although the gripper is open' in job.error
    assert run.is_carrying and not any(event == 'placed' for event, _ in events)
    *_, told = (command for command in robot.commands if isinstance(command, Carry))
    assert told.load is not None, 'the planner knows that it hangs there'


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
def test_no_steps_of_a_gripper_can_catch_what_ends_their_job(cycle_planner, reason):
    robot, told, run = Robot(), [], make_run(cycle_planner)
    run.gripper, port = Stubborn(GripperSettings(), 24), ObedientPort(robot)
    machine = Machine(cycle_planner, run, port, lambda event, **data: told.append(event))
    machine.make_plan(POSES)
    machine.start_run(POSES)
    while run.stage != 'grip':
        machine.tick()
        robot.t += TICK
    if 'moved' in reason:
        robot.q = robot.q + 0.02
    else:
        port.stop_reason = reason
    machine.tick()
    assert machine.job_name == '' and told[-1] == 'stopped', 'at once, and not "done"'
    assert reason in machine.stop_reason


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


def test_a_gripper_may_ask_its_device_during_a_motion_and_each_gets_its_own_answer(cycle_planner):
    robot, run = Robot(), make_run(cycle_planner)
    run.gripper, port = Polled(GripperSettings(), 24), SlowPort(robot)
    Polled.answers.clear()
    machine = Machine(cycle_planner, run, port, lambda event, **data: None)
    machine.make_plan(POSES)
    machine.start_run(POSES)
    for _ in range(100):
        machine.tick()
        robot.t += TICK
    assert [type(c) for c in port.order[-2:]] == [RunMotion, Compute] and Polled.answers == [True]
    stage = run.stage
    assert machine.job_name and run.gripper.answers, 'the motion waits for its own answer'
    port.answer()
    machine.tick()
    robot.t += TICK
    machine.tick()
    assert run.stage != stage
