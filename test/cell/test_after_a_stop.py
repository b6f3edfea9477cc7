# SPDX-License-Identifier: Apache-2.0
"""What the task knows after a stop, at a place too: payload, part, and the cells filled."""

from dataclasses import replace

import numpy as np
import pytest
from cycle_poses import ORIGIN, POSES
from lab.in_process import InProcessCell
from obedient_robot import TICK, ObedientPort, Robot, make_run
from obedient_robot import cycle_planner as cycle_planner

from ur5_pick_place.demo.spots import Spot
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.task.cycle.pattern import PatternProgress, PatternSettings
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.grippers.digital import DigitalSettings as GripperSettings
from ur5_pick_place.task.job import Carry, Job, RunMotion, SetOutput, SetPayload
from ur5_pick_place.task.machine import Machine
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.plan import CyclePlanner


def payloads(robot):
    return [command.mass for command in robot.commands if isinstance(command, SetPayload)]


TOOL, TOOL_AND_PART = 0.5, 0.58  # [kg]


def moving_with_the_part(cycle_planner, settings=GripperSettings()):
    """Return robot, run, port and machine on the way to target."""
    robot, run = Robot(), make_run(cycle_planner, settings)
    port = ObedientPort(robot)
    machine = Machine(cycle_planner, run, port, lambda event, **data: None)
    machine.make_plan(POSES)
    machine.start_run(POSES)
    tick_until(machine, robot, lambda: run.stage in ('lift', 'transfer'))
    return robot, run, port, machine


def stopped_with_the_part(cycle_planner, settings=GripperSettings()):
    """Return robot, run and machine after a stop on the way to target."""
    robot, run, _, machine = moving_with_the_part(cycle_planner, settings)
    machine.stop('stop requested')
    machine.rearmed()
    robot.commands.clear()
    return robot, run, machine


def tick_until(machine, robot, is_so=lambda: False):
    for _ in range(2000):
        if is_so() or not machine.job_name:
            return
        machine.tick()
        robot.t += TICK
    raise AssertionError(machine.state)


def test_the_arm_is_guided_by_hand_with_the_payload_of_what_it_holds(cycle_planner):
    robot, run, machine = stopped_with_the_part(cycle_planner)
    machine.start('confirm_payload', run.confirm_payload())
    tick_until(machine, robot)
    machine.start('open_gripper', run.open())
    tick_until(machine, robot)
    machine.start('confirm_payload', run.confirm_payload())
    tick_until(machine, robot)
    assert payloads(robot) == pytest.approx([TOOL_AND_PART, TOOL, TOOL])


@pytest.mark.parametrize('is_part_there', [True, False])
def test_the_motion_home_has_the_payload_of_what_the_gripper_holds(cycle_planner, is_part_there):
    robot, run, machine = stopped_with_the_part(cycle_planner)
    robot.is_part_there = is_part_there
    machine.go_home(POSES)
    tick_until(machine, robot)
    assert machine.stop_reason == ''
    assert payloads(robot) == pytest.approx([] if is_part_there else [TOOL])
    (carry,) = (command for command in robot.commands if isinstance(command, Carry))
    assert (carry.load is not None) == run.is_carrying == is_part_there


@pytest.mark.parametrize('is_running', [True, False])
def test_a_program_that_starts_again_is_sent_the_payload_of_the_part(cycle_planner, is_running):
    """Not only if it ended in a run: a program that starts has its installation's payload."""
    robot, _, port, machine = moving_with_the_part(cycle_planner)
    if not is_running:
        machine.stop('stop requested')
        machine.rearmed()
    port.stop_reason = 'External Control program not running'
    for _ in range(10):
        machine.tick()
    assert not machine.job_name
    port.stop_reason = ''
    machine.rearmed()
    robot.commands.clear()
    machine.go_home(POSES)
    tick_until(machine, robot)
    assert payloads(robot) == pytest.approx([TOOL_AND_PART])
    sent = [type(command) for command in robot.commands]
    assert sent.index(SetPayload) < sent.index(RunMotion)


def test_without_tool_power_the_input_does_not_show_that_the_part_fell(cycle_planner):
    robot, run, machine = stopped_with_the_part(cycle_planner)
    robot.voltage, robot.is_part_there = 0, False
    machine.go_home(POSES)
    tick_until(machine, robot)
    (carry,) = (command for command in robot.commands if isinstance(command, Carry))
    assert carry.load is not None and run.is_carrying


def test_a_run_after_a_lost_part_begins_with_the_payload_of_the_tool(cycle_planner):
    robot, _, machine = stopped_with_the_part(cycle_planner)
    robot.outputs[16] = robot.is_part_there = False  # the tool lost its power for a while
    machine.make_plan(POSES)
    machine.start_run(POSES)
    tick_until(machine, robot, lambda: any(isinstance(c, RunMotion) for c in robot.commands))
    assert payloads(robot) == [TOOL]


@pytest.mark.parametrize('stage', ['grip', 'release'])
def test_a_stop_while_the_payload_is_set_leaves_none_that_is_wrong(cycle_planner, stage):
    """Without feedback it is set as soon as the fingers move, and not confirmed by then."""
    robot = Robot()
    run = make_run(cycle_planner, GripperSettings(grip_feedback='none'))
    machine = Machine(cycle_planner, run, ObedientPort(robot), lambda event, **data: None)
    machine.make_plan(POSES)
    machine.start_run(POSES)
    n = 1 if stage == 'grip' else 2
    tick_until(machine, robot, lambda: len(payloads(robot)) == n)
    assert run.stage == stage
    machine.stop('stop requested')
    machine.rearmed()
    robot.commands.clear()
    machine.start('confirm_payload', run.confirm_payload())  # as freedrive does
    tick_until(machine, robot)
    assert payloads(robot) == pytest.approx([TOOL_AND_PART if stage == 'grip' else TOOL])
    robot.commands.clear()
    machine.go_home(POSES)
    tick_until(machine, robot)
    assert machine.stop_reason == '' and payloads(robot) == []


def test_without_feedback_a_closed_gripper_may_hold_a_part_and_is_carried_as_if(cycle_planner):
    settings = GripperSettings(grip_feedback='none')
    robot = Robot(outputs={16: True, 17: False})
    run = make_run(cycle_planner, settings)
    machine = Machine(cycle_planner, run, ObedientPort(robot), lambda event, **data: None)
    machine.go_home(POSES)
    tick_until(machine, robot)
    assert run.is_carrying and any(isinstance(c, Carry) and c.load for c in robot.commands)
    assert payloads(robot) == [], 'nothing tells whether the part is there'
    machine.start('confirm_payload', run.confirm_payload())
    tick_until(machine, robot)
    assert payloads(robot) == [TOOL]


PALLET = PatternSettings(target_grid=(2, 1, 1), target_pitch=(0.08, 0.0, 0.0))


def on_a_pallet(cycle_planner, stages=None, pattern=PALLET, poses=POSES):
    """Return robot, run and machine with a pattern; the run has begun."""
    stages = stages or cycle_planner.cycle
    planner = CyclePlanner(cycle_planner.planner, TaskSettings(), stages, ORIGIN, pattern)
    robot, run = Robot(), make_run(planner)
    machine = Machine(planner, run, ObedientPort(robot), lambda event, **data: None)
    machine.make_plan(poses)
    machine.start_run(poses)
    return robot, run, machine


def is_released(robot):
    """Whether the latest output that was switched is that of the open gripper."""
    switched = [c.state for c in robot.commands if isinstance(c, SetOutput)]
    return switched[-1:] == [False]


def test_a_stop_during_the_release_leaves_the_position_filled(cycle_planner):
    robot, run, machine = on_a_pallet(cycle_planner)
    tick_until(machine, robot, lambda: is_released(robot))
    assert run.stage == 'release'
    machine.stop('stop requested')
    machine.rearmed()
    assert '1 of 2 cycles were done before the stop' in machine.make_plan(POSES)


def test_a_release_that_does_not_begin_leaves_the_position_free(cycle_planner):
    robot, run, machine = on_a_pallet(cycle_planner)
    tick_until(machine, robot, lambda: run.stage in ('lift', 'transfer'))
    robot.is_output_stuck = True
    tick_until(machine, robot)
    assert 'output 16 was set off but io_states has not shown it' in machine.stop_reason
    machine.rearmed()
    assert run.is_carrying and 'were done' not in machine.make_plan(POSES)


def test_a_position_counts_where_the_last_part_of_a_cycle_is_released(cycle_planner):
    """The place of cycle_hand_over.yaml is called hand; the pattern is that at start."""
    stages = [replace(s, to=s.to.replace('target', 'hand')) for s in cycle_planner.cycle]
    pattern = PatternSettings(start_grid=(2, 1, 1), start_pitch=(0.08, 0.0, 0.0))
    poses = {name.replace('target', 'hand'): pose for name, pose in POSES.items()}
    robot, _, machine = on_a_pallet(cycle_planner, stages, pattern, poses)
    tick_until(machine, robot, lambda: is_released(robot))
    machine.stop('stop requested')
    machine.rearmed()
    assert '1 of 2 cycles were done before the stop' in machine.make_plan(poses)


def test_a_pallet_that_a_stop_left_full_is_not_begun_again_without_a_remark(cycle_planner):
    robot, run, machine = on_a_pallet(cycle_planner)
    tick_until(machine, robot, lambda: run.progress.done == 2 and run.stage == 'retreat')
    machine.stop('stop requested')
    machine.rearmed()
    with pytest.raises(InvalidInput, match='all 2 cycles .* teach start or target again to'):
        machine.make_plan(POSES)
    machine.forget_plan('target')
    assert 'were done' not in machine.make_plan(POSES)
    for place in ('start', 'target', 'of another cycle'):  # the first one dropped the plan
        machine.forget_plan(place)
    with pytest.raises(ExecutionError, match='no plan, as start was taught elsewhere since: call'):
        machine.start_run(POSES)


@pytest.mark.parametrize(('place', 'is_begun_anew'), [('target', True), ('home', False)])
def test_a_pallet_that_is_taught_during_a_paused_run_is_begun_anew_after_it(
    cycle_planner, place, is_begun_anew
):
    robot, run, machine = on_a_pallet(cycle_planner)
    tick_until(machine, robot, lambda: run.progress.done == 1 and run.stage == 'above start')
    machine.pause()
    machine.forget_plan(place)
    assert run.progress.done == 1, 'the run that may be resumed fills the old pallet'
    machine.stop('stop requested')
    machine.rearmed()
    assert ('1 of 2 cycles were done' not in machine.make_plan(POSES)) == is_begun_anew


@pytest.mark.drill
def test_a_pattern_goes_on_after_a_stop_with_the_cell_that_comes_next(cycle_planner):
    pattern = PatternSettings(target_grid=(3, 1, 1), target_pitch=(0.08, 0.0, 0.0))
    planner = CyclePlanner(
        cycle_planner.planner, TaskSettings(), cycle_planner.cycle, ORIGIN, pattern
    )
    robot, events = Robot(), []
    run = make_run(planner, events=events)
    machine = Machine(planner, run, ObedientPort(robot), lambda event, **data: None)

    def run_on(until=lambda: False):
        said = machine.make_plan(POSES)
        machine.start_run(POSES)
        tick_until(machine, robot, until)
        return said

    def count(kind):
        return sum(event == kind for event, _ in events)

    assert 'were done' not in run_on(lambda: count('placed') == 2)
    machine.stop('stop requested')
    machine.rearmed()
    robot.q = HOME.copy()
    assert '2 of 3 cycles were done before the stop' in run_on()
    assert count('placed') == 3
    assert [d for e, d in events if e == 'cycle_done'][-1] == {'number': 3, 'of': 3}
    assert machine.plan is None, 'the pallet is full: the next plan begins with the first cell'
    assert 'were done' not in run_on()
    assert count('placed') == 6


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
