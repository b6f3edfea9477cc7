# SPDX-License-Identifier: Apache-2.0
"""Waits and outputs of a cycle, driven by made-up observations."""

import numpy as np
import pytest

from ur5_pick_place.outcome import DONE
from ur5_pick_place.task.cycle.stages import SET_OUTPUT, WAITS_AND_PINS, Stage
from ur5_pick_place.task.cycle.steps import annotate
from ur5_pick_place.task.grippers.digital import DigitalGripper, DigitalSettings
from ur5_pick_place.task.job import Job, Observation, SetOutput
from ur5_pick_place.task.motions import PlannedStage
from ur5_pick_place.task.plan import CyclePlan
from ur5_pick_place.task.run import CycleRun
from ur5_pick_place.task.waits import WAITS

TICK = 0.008  # [s]


def test_each_wait_of_a_cycle_file_is_awaited():
    assert {*WAITS, SET_OUTPUT} == {*WAITS_AND_PINS}, 'AWAITED of task/waits.py has all but `wait`'


class _Idle:
    """What a run without moves and grips needs of planner and settings."""

    planner = scene = tool = None
    T_tool_tcp = np.eye(4)

    def __init__(self):
        self.planner = self.scene = self.tool = self

    def part_load(self, _T):
        return None


class Cell:
    """One stage that runs, and a robot that shows its pins."""

    def __init__(self, stage, **settings):
        self.events, self.t = [], 10.0
        idle = _Idle()
        self.run = CycleRun(
            idle,
            DigitalGripper(DigitalSettings(**settings), None),
            idle,
            (0.0, (0.0, 0.0, 0.0)),
            lambda event, **data: self.events.append((event, data)),
        )
        plan = CyclePlan(((PlannedStage(annotate([stage])),),), 'left-up-up', np.zeros(6), '')
        self.job = Job('run', self.run.cycle(plan))
        self.inputs, self.outputs, self.commands = {0: False}, {3: False}, []
        self.shows, self._reply = True, None

    def tick(self, seconds=TICK):
        for _ in range(round(seconds / TICK)):
            seen = Observation(
                self.t, np.zeros(6), dict(self.inputs), dict(self.outputs), reply=self._reply
            )
            self._reply = None
            command = self.job.tick(seen)
            if isinstance(command, SetOutput):
                self.commands.append(command)
                self._reply = DONE
                if self.shows:
                    self.outputs[command.pin] = command.state
            self.t += TICK


def button(timeout=5.0):
    return Stage('button', 'wait_input', pin=0, value=True, timeout=timeout)


def test_a_wait_passes_in_robot_time_and_is_named():
    cell = Cell(Stage('cool', 'wait', seconds=0.5))
    cell.tick(0.48)
    assert not cell.job.is_done and cell.run.waits_for == 'wait 0.5 s'
    cell.tick(0.04)
    assert cell.job.is_done and not cell.job.error and cell.run.waits_for == ''
    assert ('waiting', {'stage': 'cool', 'reason': 'wait 0.5 s'}) in cell.events


@pytest.mark.parametrize('stage', [Stage('cool', 'wait', seconds=0.5), button(0.5)])
def test_no_time_passes_during_a_pause(stage):
    cell = Cell(stage)
    cell.tick(0.3)
    cell.run.pause()
    cell.tick(5.0)
    assert not cell.job.is_done
    assert [e for e, _ in cell.events if e == 'paused'] == ['paused']
    cell.run.resume()
    cell.tick(0.15)
    assert not cell.job.is_done
    cell.tick(0.1)
    assert cell.job.is_done


def test_an_input_is_awaited_and_named():
    cell = Cell(button())
    cell.tick(1.0)
    assert cell.run.waits_for == 'wait for input 0 on, at most 5 s'
    cell.inputs[0] = True
    cell.tick(3 * TICK)
    assert cell.job.is_done and not cell.job.error


def test_an_input_that_is_pressed_during_a_pause_is_not_taken_before_it_ends():
    cell = Cell(button())
    cell.tick(0.1)
    cell.run.pause()
    cell.inputs[0] = True
    cell.tick(1.0)
    assert cell.job.is_done is False
    cell.run.resume()
    cell.tick(0.1)
    assert cell.job.is_done and not cell.job.error


@pytest.mark.parametrize(
    ('inputs', 'reason'),
    [
        ({0: False}, "stage 'button': input 0 was not on within timeout = 1 s: check what"),
        ({}, "stage 'button': input 0 is not in io_states: check `pin`"),
    ],
)
def test_an_input_that_does_not_come_ends_the_run_by_name(inputs, reason):
    cell = Cell(button(1.0))
    cell.inputs = inputs
    cell.tick(1.1)
    assert cell.job.is_done and cell.job.error.startswith(reason)


def test_an_output_is_done_when_io_states_shows_it():
    cell = Cell(Stage('lamp', 'set_output', pin=3, value=True))
    cell.tick(0.1)
    assert cell.job.is_done and not cell.job.error
    assert cell.commands == [SetOutput(3, True)]


def test_an_output_that_is_not_shown_ends_the_run_unless_none_is():
    stage = Stage('lamp', 'set_output', pin=3, value=True)
    for are_confirmed in (True, False):
        cell = Cell(stage, pin_timeout=1.0, confirm_pins=are_confirmed)
        cell.shows = False
        cell.tick(1.2)
        assert cell.job.is_done
        why = "stage 'lamp': output 3 was set on but io_states has not shown it"
        assert cell.job.error.startswith(why) if are_confirmed else not cell.job.error


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
