# SPDX-License-Identifier: Apache-2.0
"""Waits and outputs of a cycle, driven by made-up observations."""

from types import MappingProxyType

import numpy as np
import pytest
from obedient_robot import Task, planner_of
from obedient_robot import cycle_planner as cycle_planner

from ur5_pick_place.task.cycle.stages import SET_OUTPUT, WAITS, WAITS_AND_PINS, Stage
from ur5_pick_place.task.grippers.outputs import DigitalSettings
from ur5_pick_place.task.job import Job, Observation, SetOutput


def test_each_wait_of_a_cycle_file_is_awaited():
    assert {*WAITS, SET_OUTPUT} == {*WAITS_AND_PINS}, 'AWAITED has all but `wait`'


@pytest.fixture
def task_of(cycle_planner):
    """Return what makes a task of one stage, whose robot has an input 0 and an output 3."""

    def make(stage, inputs=MappingProxyType({0: False}), **settings):
        planner = planner_of(cycle_planner, [stage])
        outputs = {16: False, 17: False, 3: False}
        given = {'inputs': dict(inputs), 'outputs': outputs}
        return Task(planner, DigitalSettings(**settings), **given)

    return make


def wait(task, seconds):
    """Let the task run for some time; return its job."""
    end = task.robot.t + seconds
    return task.do(lambda: task.robot.t >= end)


def button(timeout=5.0):
    return Stage('button', 'wait_input', pin=0, value=True, timeout=timeout)


def test_a_wait_passes_in_robot_time_and_is_named(task_of):
    task = task_of(Stage('cool', 'wait', seconds=0.5))
    assert not wait(task, 0.45).is_done and task.run.waits_for == 'wait 0.5 s'
    job = wait(task, 0.2)
    assert job.is_done and not job.error and task.run.waits_for == ''
    assert ('waiting', {'stage': 'cool', 'reason': 'wait 0.5 s'}) in task.events


@pytest.mark.parametrize('stage', [Stage('cool', 'wait', seconds=0.5), button(0.5)])
def test_no_time_passes_during_a_pause(task_of, stage):
    task = task_of(stage)
    wait(task, 0.3)
    task.run.pause()
    assert not wait(task, 5.0).is_done
    assert task.count('paused') == 1
    task.run.resume()
    assert not wait(task, 0.1).is_done
    assert wait(task, 0.2).is_done


def test_an_input_is_awaited_and_named(task_of):
    task = task_of(button())
    wait(task, 1.0)
    assert task.run.waits_for == 'wait for input 0 on, at most 5 s'
    task.robot.inputs[0] = True
    job = wait(task, 0.2)
    assert job.is_done and not job.error


def test_an_input_that_bounces_is_not_taken_before_it_is_stable(task_of):
    task = task_of(button())
    for level in [True, False] * 5:
        task.robot.inputs[0] = level
        assert not wait(task, 0.03).is_done
    task.robot.inputs[0] = True
    assert not wait(task, 0.05).is_done
    assert wait(task, 0.1).is_done


def test_an_input_that_is_pressed_during_a_pause_is_not_taken_before_it_ends(task_of):
    task = task_of(button())
    wait(task, 0.1)
    task.run.pause()
    task.robot.inputs[0] = True
    assert not wait(task, 1.0).is_done
    task.run.resume()
    job = wait(task, 0.2)
    assert job.is_done and not job.error


@pytest.mark.parametrize(
    ('inputs', 'reason'),
    [
        ({0: False}, "stage 'button': input 0 was not on within timeout = 1 s: check what"),
        ({}, "stage 'button': input 0 is not in io_states: check `pin`"),
    ],
)
def test_an_input_that_does_not_come_ends_the_run_by_name(task_of, inputs, reason):
    assert wait(task_of(button(1.0), inputs), 1.2).error.startswith(reason)


def test_an_output_is_done_when_io_states_shows_it(task_of):
    task = task_of(Stage('lamp', 'set_output', pin=3, value=True))
    job = wait(task, 0.2)
    assert job.is_done and not job.error
    assert task.commands(SetOutput) == [SetOutput(3, True)]


@pytest.mark.parametrize('are_confirmed', [True, False])
def test_an_output_that_is_not_shown_ends_the_run_unless_none_is(task_of, are_confirmed):
    stage = Stage('lamp', 'set_output', pin=3, value=True)
    task = task_of(stage, pin_timeout=1.0, confirm_pins=are_confirmed)
    task.robot.is_output_stuck = True
    job = wait(task, 1.2)
    assert job.is_done
    why = "stage 'lamp': output 3 was set on but io_states has not shown it"
    assert job.error.startswith(why) if are_confirmed else not job.error


def test_an_error_of_a_grippers_own_driver_ends_the_job_and_not_the_node():
    def steps():
        yield None
        raise OSError(5, 'Input/output error')

    job = Job('close_gripper', steps())
    seen = Observation(0.0, np.zeros(6))
    assert job.tick(seen) is None
    assert job.tick(seen) is None
    assert job.is_done
    assert job.error == 'OSError: [Errno 5] Input/output error'
