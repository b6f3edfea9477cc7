# SPDX-License-Identifier: Apache-2.0
"""What the task knows after a stop, at a place too: payload, part, and the cells filled."""

from dataclasses import replace

import numpy as np
import pytest
from cycle_poses import POSES
from lab.in_process import InProcessCell
from obedient_robot import Robot, Task, planner_of
from obedient_robot import cycle_planner as cycle_planner

from ur5_pick_place.demo.spots import Spot
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.task.cycle.pattern import PatternProgress
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.grippers.outputs import DigitalSettings as GripperSettings
from ur5_pick_place.task.job import Carry, RunMotion, SetOutput, SetPayload
from ur5_pick_place.task.motions import TaskSettings

TOOL, TOOL_AND_PART = 0.5, 0.58  # [kg]
WITHOUT_FEEDBACK = GripperSettings(grip_feedback='none')


def payloads(task):
    return [command.mass for command in task.commands(SetPayload)]


def confirm_payload(task):
    """Set the payload, as freedrive does."""
    task.machine.start('confirm_payload', task.run.confirm_payload())
    task.tick()


def go_home(task):
    task.machine.go_home(POSES)
    task.tick()


@pytest.fixture
def moving(cycle_planner):
    """A task on the way to target with the part."""
    task = Task(cycle_planner)
    task.begin()
    task.tick(lambda: task.run.stage in ('lift', 'transfer'))
    return task


@pytest.fixture
def stopped(moving):
    """A task after a stop on that way."""
    moving.stop()
    return moving


def test_the_arm_is_guided_by_hand_with_the_payload_of_what_it_holds(stopped):
    confirm_payload(stopped)
    stopped.machine.start('open_gripper', stopped.run.open())
    stopped.tick()
    confirm_payload(stopped)
    assert payloads(stopped) == pytest.approx([TOOL_AND_PART, TOOL, TOOL])


@pytest.mark.parametrize(('gone', 'is_part_there'), [(0.0, True), (0.05, True), (0.3, False)])
def test_the_motion_home_has_the_payload_of_what_the_gripper_holds(stopped, gone, is_part_there):
    """An input that is off for a moment before shows no loss."""
    stopped.robot.is_part_there = not gone
    stopped.idle(gone)
    stopped.robot.commands.clear()
    stopped.machine.go_home(POSES)
    stopped.robot.is_part_there = is_part_there
    stopped.tick()
    assert stopped.machine.stop_reason == ''
    assert payloads(stopped) == pytest.approx([] if is_part_there else [TOOL])
    (carry,) = stopped.commands(Carry)
    assert (carry.load is not None) == stopped.run.is_carrying == is_part_there


@pytest.mark.parametrize('job', [confirm_payload, go_home])
def test_a_part_that_is_gone_after_a_stop_is_known_before_the_next_job_acts(stopped, job):
    stopped.robot.is_part_there = False
    job(stopped)
    assert stopped.machine.stop_reason == '' and not stopped.run.is_carrying
    assert payloads(stopped) == pytest.approx([TOOL])


@pytest.mark.parametrize('is_running', [True, False])
def test_a_program_that_starts_again_is_sent_the_payload_of_the_part(moving, is_running):
    """Not only if it ended in a run: a program that starts has its installation's payload."""
    if not is_running:
        moving.stop()
    moving.port.stop_reason = 'External Control program not running'
    for _ in range(10):
        moving.machine.tick()
    assert not moving.machine.job_name
    moving.port.stop_reason = ''
    moving.machine.rearmed()
    moving.robot.commands.clear()
    go_home(moving)
    assert payloads(moving) == pytest.approx([TOOL_AND_PART])
    sent = [type(command) for command in moving.robot.commands]
    assert sent.index(SetPayload) < sent.index(RunMotion)


def test_without_tool_power_the_input_does_not_show_that_the_part_fell(stopped):
    stopped.robot.voltage, stopped.robot.is_part_there = 0, False
    go_home(stopped)
    assert stopped.carried and stopped.run.is_carrying


def test_a_run_after_a_lost_part_begins_with_the_payload_of_the_tool(stopped):
    robot = stopped.robot
    robot.outputs[16] = robot.is_part_there = False  # the tool lost its power for a while
    stopped.idle(0.3)
    stopped.begin()
    stopped.tick(lambda: stopped.commands(RunMotion))
    assert payloads(stopped) == [TOOL]


@pytest.mark.parametrize('stage', ['grip', 'release'])
def test_a_stop_while_the_payload_is_set_leaves_none_that_is_wrong(cycle_planner, stage):
    """Without feedback it is set as soon as the fingers move, and not confirmed by then."""
    task = Task(cycle_planner, WITHOUT_FEEDBACK)
    task.begin()
    n = 1 if stage == 'grip' else 2
    task.tick(lambda: len(payloads(task)) == n)
    assert task.run.stage == stage
    task.stop()
    confirm_payload(task)
    assert payloads(task) == pytest.approx([TOOL_AND_PART if stage == 'grip' else TOOL])
    task.robot.commands.clear()
    go_home(task)
    assert task.machine.stop_reason == '' and payloads(task) == []


def test_without_feedback_a_closed_gripper_may_hold_a_part_and_is_carried_as_if(cycle_planner):
    task = Task(cycle_planner, WITHOUT_FEEDBACK, outputs={16: True, 17: False})
    go_home(task)
    assert task.run.is_carrying and task.carried
    assert payloads(task) == [], 'nothing tells whether the part is there'
    confirm_payload(task)
    assert payloads(task) == [TOOL]


PALLET = {'target_grid': (2, 1, 1), 'target_pitch': (0.08, 0.0, 0.0)}
LEFT = '1 of 2 cycles were done before the stop'


@pytest.fixture
def on_a_pallet(cycle_planner):
    """A task that has begun to fill a pallet."""
    task = Task(planner_of(cycle_planner, **PALLET))
    task.begin()
    return task


def is_released(task):
    """Whether the latest output that was switched is that of the open gripper."""
    return [c.state for c in task.commands(SetOutput)][-1:] == [False]


def test_a_stop_during_the_release_leaves_the_position_filled(on_a_pallet):
    task = on_a_pallet
    task.tick(lambda: is_released(task))
    assert task.run.stage == 'release'
    task.stop()
    assert LEFT in task.machine.make_plan(POSES)


def test_a_release_that_does_not_begin_leaves_the_position_free(on_a_pallet):
    task = on_a_pallet
    task.tick(lambda: task.run.stage in ('lift', 'transfer'))
    task.robot.is_output_stuck = True
    task.tick()
    assert 'output 16 was set off but io_states has not shown it' in task.machine.stop_reason
    task.machine.rearmed()
    assert task.run.is_carrying and 'were done' not in task.machine.make_plan(POSES)


def test_a_position_counts_where_the_last_part_of_a_cycle_is_released(cycle_planner):
    """The place of cycle_hand_over.yaml is called hand; the pattern is that at start."""
    stages = [replace(s, to=s.to.replace('target', 'hand')) for s in cycle_planner.cycle]
    pattern = {'start_grid': (2, 1, 1), 'start_pitch': (0.08, 0.0, 0.0)}
    poses = {name.replace('target', 'hand'): pose for name, pose in POSES.items()}
    task = Task(planner_of(cycle_planner, stages, **pattern))
    task.begin(poses)
    task.tick(lambda: is_released(task))
    task.stop()
    assert LEFT in task.machine.make_plan(poses)


def test_a_pallet_that_a_stop_left_full_is_not_begun_again_without_a_remark(on_a_pallet):
    task, machine, run = on_a_pallet, on_a_pallet.machine, on_a_pallet.run
    task.tick(lambda: run.progress.done == 2 and run.stage == 'retreat')
    task.stop()
    with pytest.raises(InvalidInput, match='all 2 cycles .* teach start or target again to'):
        machine.make_plan(POSES)
    machine.forget_plan('target')
    assert 'were done' not in machine.make_plan(POSES)
    for place in ('start', 'target', 'of another cycle'):  # the first one dropped the plan
        machine.forget_plan(place)
    said = 'no plan, as start was taught elsewhere since: call ~/plan first; poses that keep'
    with pytest.raises(ExecutionError, match=said):
        machine.start_run(POSES)


@pytest.mark.parametrize(('place', 'is_begun_anew'), [('target', True), ('home', False)])
def test_a_pallet_that_is_taught_during_a_paused_run_is_begun_anew_after_it(
    on_a_pallet, place, is_begun_anew
):
    task, machine, run = on_a_pallet, on_a_pallet.machine, on_a_pallet.run
    task.tick(lambda: run.progress.done == 1 and run.stage == 'above start')
    machine.pause()
    machine.forget_plan(place)
    assert run.progress.done == 1, 'the run that may be resumed fills the old pallet'
    task.stop()
    assert (LEFT not in machine.make_plan(POSES)) == is_begun_anew


@pytest.mark.drill
def test_a_pattern_goes_on_after_a_stop_with_the_cell_that_comes_next(cycle_planner):
    task = Task(
        planner_of(cycle_planner, target_grid=(3, 1, 1), target_pitch=(0.08, 0.0, 0.0))
    )
    assert 'were done' not in task.begin()
    task.tick(lambda: task.count('placed') == 2)
    task.stop()
    task.robot.q = HOME.copy()
    assert '2 of 3 cycles were done before the stop' in task.begin()
    task.tick()
    assert task.count('placed') == 3
    assert [d for e, d in task.events if e == 'cycle_done'][-1] == {'number': 3, 'of': 3}
    assert task.machine.plan is None, 'it is full: the next plan begins with the first cell'
    assert 'were done' not in task.begin()
    task.tick()
    assert task.count('placed') == 6


def test_a_position_that_was_filled_counts_although_another_part_is_held_at_the_stop():
    """A cycle with two transfers: the first part lies in the pattern, the second sticks."""
    progress = PatternProgress()
    progress.begin()
    progress.release(1)
    progress.settle(is_held=False)
    progress.release(1)
    progress.settle(is_held=True)
    assert progress.done == 1
    progress.release(2)
    progress.settle(is_held=True)
    assert progress.done == 1


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
    task = Task(planner_of(cycle_planner, stages))
    task.do(lambda: task.robot.t > 0.2)
    task.robot.q = HOME + 0.1
    said = "stage 'cool': another client moved the arm by 0.100 rad"
    assert said in task.do().error
    assert not task.commands(RunMotion)
    assert task.robot.outputs == Robot().outputs, 'nor does the gripper'


def test_a_part_that_nothing_can_see_is_placed_unverified(cycle_planner):
    """With no feedback and no stage that looks for it."""
    stages = tuple(s for s in cycle_planner.cycle if not s.do.startswith('expect'))
    task = Task(planner_of(cycle_planner, stages), WITHOUT_FEEDBACK)
    task.do()
    names = [event for event, _ in task.events]
    assert names.count('placed') == names.count('grasp_unverified') == 1
    assert names.index('grasp_unverified') < names.index('placed')


def test_a_plan_says_which_missed_grasp_it_cannot_retry(cycle_planner):
    above = replace(TaskSettings(), approach_height=0.5)
    far = {**POSES, 'start': replace(POSES['start'], pose=(0.0, 0.72, 0.1, 1.0, 0.0, 0.0, 0.0))}
    names = ('start', 'grip', 'verify grip', 'target', 'release', 'home')
    stages = [s for s in cycle_planner.cycle if s.name in names]
    stages = [replace(s, do='ptp') if s.is_move else s for s in stages]
    said = Task(planner_of(cycle_planner, stages, settings=above)).machine.make_plan(far)
    assert 'verify grip: a missed grasp is not retried: ' in said


@pytest.mark.parametrize(('stage', 'is_low'), [('transfer', False), ('start', True)])
def test_a_run_goes_on_from_beside_its_path_where_the_controller_brakes_each_joint_by_itself(
    monkeypatch, stage, is_low
):
    monkeypatch.setattr('ur5_pick_place.control.controller.Goal.braking', no_brake)
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
