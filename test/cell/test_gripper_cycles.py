# SPDX-License-Identifier: Apache-2.0
"""
Every kind of gripper in a cycle of the simulated cell, with its faults.

Fingers, cup and parts are those of the cell, judged by where the part is.
"""

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from lab.in_process import InProcessCell

from ur5_pick_place.demo.spots import Spot
from ur5_pick_place.sim.faults import GRIPPER_FAULTS
from ur5_pick_place.task.job import Carry, Job

CONTRIBUTING = Path(__file__).parents[2] / 'CONTRIBUTING.md'
START, TARGET = Spot(0.45, -0.20, 0.0), Spot(0.40, 0.25, math.radians(30.0))


def grip(gripper):
    yield from gripper.close()
    yield from gripper.expect_part()


def prepared(gripper, **overrides):
    cell = InProcessCell({'gripper': gripper, 'grasp_retries': 0, **overrides})
    cell.teach(START, TARGET)
    return cell


@pytest.fixture(scope='module', params=['vacuum', 'action'])
def cell(request):
    """A cell with either gripper; each test leaves it rearmed, at home, with an open gripper."""
    return prepared(request.param)


def begin(cell, stage=''):
    """Run a cycle into a stage, or to its end."""
    cell.put_part(START)
    cell.reset_measurements()
    cell.run()
    if stage:
        cell.until(lambda: cell.station.run.stage == stage, 20.0, stage)
    else:
        cell.until(lambda: not cell.is_busy, 20.0, 'the end')


def stopped_by(cell):
    """Wait for the stop; return its reason."""
    cell.until(lambda: not cell.is_busy, 20.0, 'the stop')
    assert cell.stop_reason
    return cell.stop_reason


def recover(cell, *jobs):
    cell.clear()
    cell.settle()
    cell.until(lambda: cell.rearm().ok, 5.0, 'rearming')
    for job in jobs:
        cell.start(job)
        cell.until(lambda: not cell.is_busy, 20.0, job)
        assert not cell.stop_reason, (job, cell.stop_reason)


def names(cell):
    return [e['event'] for e in cell.events]


def test_the_cube_is_placed_within_half_a_millimetre(cell):
    begin(cell)
    assert cell.stop_reason == '' and 'grasp_verified' in names(cell)
    cell.wait(0.3)
    assert np.linalg.norm(cell.T_world_part[:2, 3] - [TARGET.x, TARGET.y]) < 0.5e-3
    error, turn = cell.placement(TARGET)
    assert error < 0.5e-3 and turn < math.radians(0.5)


def test_a_part_that_is_lost_is_the_same_fault_with_any_gripper(cell):
    begin(cell, 'transfer')
    cell.inject('part_missing')
    reason = stopped_by(cell)
    assert re.match("the part was lost at stage '(transfer|target)': .* find the part", reason)
    recover(cell, 'open_gripper', 'go_home')


@pytest.mark.drill
def test_neither_a_stop_nor_a_restart_of_the_task_lets_the_part_go(cell):
    begin(cell, 'transfer')
    sent = cell.port.gripper_commands
    cell.stop()
    cell.settle()
    cell.wait(0.5)
    assert cell.holds_part and cell.port.gripper_commands == sent
    machine, run = cell.station.machine, cell.station.run
    run.is_carrying, machine._is_part_known = False, False  # what a new node knows
    cell.port._gripper_goal = None
    cell.reset_measurements()
    cell.wait(0.5)
    assert names(cell) == ['part_in_hand'] and cell.port.gripper_commands == sent
    recover(cell, 'go_home')
    assert cell.holds_part, 'what is carried goes home with the arm'
    recover(cell, 'open_gripper')
    assert not cell.holds_part


EXPECTED = {
    'cup_leaks': 'no vacuum: the cup does not seal: no part at this place',
    'gripper_jammed': 'closed on nothing: .*joint is at 0',
    'gripper_gone': 'gripper_cmd .* is not there',
    'gripper_silent': 'did not answer a goal within 2.0 s',
    'gripper_rejects': 'rejected the goal of position 0.8',
    'gripper_aborts': 'has aborted the goal of position 0.8',
    'gripper_never_ends': 'has not ended the goal of position 0.8 within gripper_timeout = 5 s',
    'gripper_nan': 'reports position nan at the end of the goal',
    'gripper_wrong_object': 'reports no part, but its joint shows one',
    'gripper_joint_silent': 'knuckle_joint is silent: cannot see whether the part is held',
}
CASES = [(kind, fault) for kind, faults in GRIPPER_FAULTS.items() for fault in faults]


def test_the_matrix_has_every_fault_of_every_gripper():
    assert {fault for _, fault in CASES} == set(EXPECTED)


def test_each_fault_of_the_gripper_at_the_grip_is_named(cell):
    """One descent to the part for all faults; a grip alone needs no cycle."""
    begin(cell, 'start')
    cell.until(lambda: cell.station.run.stage == 'grip', 20.0, 'grip')
    cell.stop()
    recover(cell, 'open_gripper')
    machine, gripper, found = cell.station.machine, cell.station.gripper, {}
    for fault in GRIPPER_FAULTS[cell.world.settings.gripper]:
        cell.inject(fault)
        machine.start('grip', grip(gripper))
        cell.until(lambda: not cell.is_busy, 10.0, f'the end of a grip with {fault}')
        found[fault] = cell.stop_reason
        recover(cell, 'open_gripper')
    for fault, reason in found.items():
        assert re.search(EXPECTED[fault], reason), (fault, reason)
    recover(cell, 'go_home')


@pytest.mark.parametrize(
    ('fault', 'said'),
    [
        ('gripper_joint_silent', "stage '(transfer|target)': robotiq.*joint is silent: cannot"),
        ('gripper_gone', "stage 'transfer': cannot see whether the part is held: action server"),
    ],
)
def test_a_gripper_that_falls_silent_with_the_part_stops_the_arm(fault, said):
    cell = prepared('action')
    begin(cell, 'transfer')
    cell.inject(fault)
    fell_silent = cell.time
    reason = stopped_by(cell)
    assert re.match(said, reason), reason
    assert cell.time - fell_silent < 0.65 and cell.station.run.is_carrying


@pytest.mark.parametrize('fault', ['gripper_aborts', 'gripper_gone'])
def test_a_release_that_fails_after_its_goal_was_accepted_leaves_the_part_carried(fault):
    cell = prepared('action', gripper_joint='')
    sent, send = [], cell.port.send
    cell.port.send = lambda command, on_reply: (sent.append(command), send(command, on_reply))
    begin(cell, 'target')
    n = cell.port.gripper_commands
    cell.until(lambda: cell.port.gripper_commands > n, 20.0, 'the goal to open')
    cell.inject(fault)
    assert re.search('has aborted the goal|has gone during the goal', stopped_by(cell))
    held = [command.load for command in sent if isinstance(command, Carry)][-1]
    assert held is not None and cell.station.run.is_carrying
    recover(cell, 'open_gripper')
    assert sent[-1] == Carry(None) and not cell.station.run.is_carrying


def test_a_damaged_lip_leaks_on_when_the_part_is_no_longer_slippery():
    cell = prepared('vacuum')
    cell.inject('cup_leaks')
    cell.inject('part_slips')
    cell.clear('part_slips')
    begin(cell)
    assert 'no vacuum: the cup does not seal' in cell.stop_reason


def test_a_cup_that_starts_to_leak_drops_the_part_which_is_its_loss():
    cell = prepared('vacuum')
    begin(cell, 'transfer')
    cell.inject('cup_leaks')
    assert 'the vacuum-reached input went off' in stopped_by(cell)
    assert not cell.holds_part and cell.T_world_part[2, 3] < 0.1


def test_a_gripper_from_outside_runs_a_cycle_as_contributing_shows_it(tmp_path, monkeypatch):
    text = CONTRIBUTING.read_text()
    (code,) = re.findall(r'```python\n(# my_gripper.py\n.*?)```', text, re.DOTALL)
    (tmp_path / 'my_gripper.py').write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    device = SimpleNamespace(has_part=lambda: False, is_open=lambda: True)
    monkeypatch.setitem(sys.modules, 'my_device', device)
    monkeypatch.delitem(sys.modules, 'my_gripper', raising=False)  # it keeps its `my_device`
    cell = prepared('my_gripper:SerialGripper', travel_time=0.5)
    pins = cell.driver.io.pins
    device.close = lambda: pins.digital_out.__setitem__(16, True)
    device.open = lambda: pins.digital_out.__setitem__(16, False)
    device.is_open = lambda: not pins.digital_out[16]
    device.has_part = lambda: pins.digital_in[16]
    begin(cell)
    assert cell.stop_reason == '' and {'grasp_verified', 'done'} <= set(names(cell))
    assert cell.port.gripper_commands == 0, 'no pin was set through the driver'
    cell.wait(0.3)
    assert cell.placement(TARGET)[0] < 0.5e-3
    begin(cell, 'transfer')
    cell.inject('part_missing')
    assert 'the gripper reports no part' in stopped_by(cell)
    kind = type(cell.station.gripper)
    blind = kind(kind.settings_type(grip_feedback='none'), None)
    job = Job('verify', blind.expect_part())
    seen = replace(cell.port.observe(), stop_reason='')
    assert job.tick(seen) is job.tick(seen) is None
    assert job.is_done and not job.error, 'nothing is verified without feedback'
