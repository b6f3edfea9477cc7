# SPDX-License-Identifier: Apache-2.0
"""What an arm that was stopped at a place does next, and the part that stands there."""

from dataclasses import replace

import numpy as np
import pytest
from cycle_poses import ORIGIN, POSES
from lab.in_process import InProcessCell
from obedient_robot import ObedientPort, Robot, make_run
from obedient_robot import cycle_planner as cycle_planner

from ur5_pick_place.demo.spots import Spot
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.grippers.digital import DigitalSettings as GripperSettings
from ur5_pick_place.task.job import Job, RunMotion
from ur5_pick_place.task.machine import Machine
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.plan import CyclePlanner

START, TARGET = Spot(0.45, -0.2, 0.0), Spot(0.4, 0.25, 30.0)


@pytest.mark.parametrize(
    ('stage', 'then'),
    [
        ('verify release', 'plan'),
        pytest.param('verify release', 'go_home', marks=pytest.mark.drill),
        pytest.param('retreat', 'plan', marks=pytest.mark.drill),
        ('retreat', 'go_home'),
    ],
)
def test_a_part_that_was_placed_before_a_stop_stays_where_it_is(stage, then):
    cell = InProcessCell()
    cell.teach(START, TARGET)
    cell.put_part(START)
    cell.wait(0.2)
    cell.run()
    cell.until(lambda: cell.station.run.stage == stage, 30.0, stage)
    cell.stop()
    cell.wait(1.0)
    placed = cell.world.T_world_part
    assert cell.rearm().ok
    if then == 'plan':
        cell.run()
        cell.until(lambda: cell.station.run.stage == 'grip', 30.0, 'the empty start')
    else:
        cell.start('go_home')
        cell.until(lambda: not cell.is_busy, 30.0, 'home')
    assert cell.stop_reason == ''
    assert np.linalg.norm(cell.world.T_world_part[:3, 3] - placed[:3, 3]) < 1e-3


def test_an_arm_that_somebody_moved_before_its_first_motion_does_nothing_there(cycle_planner):
    stages = (Stage('cool', 'wait', seconds=0.5), *cycle_planner.cycle)
    planner = CyclePlanner(cycle_planner.planner, TaskSettings(), stages, ORIGIN)
    robot = Robot()
    job = Job('run', make_run(planner).cycle(planner.plan(POSES, HOME)))
    robot.do(job, until=lambda robot: robot.t > 0.2)
    robot.q = HOME + 0.1
    robot.do(job)
    assert "stage 'cool': another client moved the arm by 0.100 rad" in job.error
    assert not any(isinstance(command, RunMotion) for command in robot.commands)
    assert robot.outputs == Robot().outputs, 'nor does the gripper'


def test_a_part_that_nothing_can_see_is_placed_unverified(cycle_planner):
    """With no feedback and no stage that looks for it."""
    stages = tuple(s for s in cycle_planner.cycle if not s.do.startswith('expect'))
    planner = CyclePlanner(cycle_planner.planner, TaskSettings(), stages, ORIGIN)
    robot, events = Robot(), []
    run = make_run(planner, GripperSettings(grip_feedback='none'), events)
    robot.do(Job('run', run.cycle(planner.plan(POSES, HOME))))
    names = [event for event, _ in events]
    assert names.count('placed') == names.count('grasp_unverified') == 1
    assert names.index('grasp_unverified') < names.index('placed')


def test_a_plan_says_which_missed_grasp_it_cannot_retry(cycle_planner):
    above = replace(TaskSettings(), approach_height=0.5)
    far = {**POSES, 'start': replace(POSES['start'], pose=(0.0, 0.72, 0.1, 1.0, 0.0, 0.0, 0.0))}
    names = ('start', 'grip', 'verify grip', 'target', 'release', 'home')
    stages = [s for s in cycle_planner.cycle if s.name in names]
    stages = [replace(s, do='ptp') if s.is_move else s for s in stages]
    planner = CyclePlanner(cycle_planner.planner, above, stages, ORIGIN)
    run = make_run(planner)
    machine = Machine(planner, run, ObedientPort(Robot()), lambda event, **data: None)
    said = machine.make_plan(far)
    assert 'verify grip: a missed grasp is not retried: ' in said


@pytest.mark.parametrize(('stage', 'is_low'), [('transfer', False), ('start', True)])
def test_a_run_goes_on_from_beside_its_path_where_the_controller_brakes_each_joint_by_itself(
    monkeypatch, stage, is_low
):
    monkeypatch.setattr('ur5_pick_place.control.execution_manager.braking_motion', no_brake)
    cell = InProcessCell()
    for controller in cell.driver.trajectory.values():
        controller.deceleration = 2.0  # [rad/s2], as with decelerate_on_cancel
    cell.teach(START, TARGET)
    cell.put_part(START)
    cell.wait(0.2)
    cell.run()
    cell.until(lambda: cell.station.run.stage == stage, 30.0, stage)
    cell.wait(0.15)
    cell.station.machine.pause()
    cell.wait(1.5)
    T_rest = cell.world.T_world_tcp.copy()
    cell.station.machine.resume()
    swept = []
    cell.on_step = lambda: swept.append(cell.world.T_world_tcp[:3, 3] - T_rest[:3, 3])
    cell.until(lambda: not cell.is_busy, 30.0, 'the end')
    assert cell.stop_reason == ''
    assert np.linalg.norm(cell.world.T_world_part[:2, 3] - TARGET[:2]) < 1e-3
    if is_low:
        rise = np.array(swept)
        rise = rise[: int((rise[:, 2] > 0.02).argmax())]
        assert len(rise) and np.abs(rise[:, :2]).max() < 5e-4, 'not straight up'


def no_brake(*_args, **_options):
    """Stand in for a search that finds no braking motion, as on a controller that splices."""
