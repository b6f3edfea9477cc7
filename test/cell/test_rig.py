# SPDX-License-Identifier: Apache-2.0
"""
The whole cell in one process: every fault once, both closed loops stopped, some cycles in a row.

All cases are `make faults`, long runs `make soak`. Here each fault comes in one stage, drawn by
seed, among the stages in which it matters.
"""

import logging

import numpy as np
import pytest
from lab import faults, soak
from lab.fault_matrix import EXPECTED, MUST_STOP, STAGES, START, TARGET, run_matrix
from lab.in_process import InProcessCell

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.sim.faults import FAULTS

BEFORE_RELEASE = STAGES[: STAGES.index('release')]
SILENT = {'joint_states_dropped', 'io_states_silent', 'driver_killed'}
DRAWN = np.random.default_rng(7).choice(BEFORE_RELEASE, len(EXPECTED))
CASES = dict(zip(EXPECTED, map(str, DRAWN), strict=True))


def test_the_matrix_knows_every_fault_of_the_cell():
    assert set(EXPECTED) == set(FAULTS)


@pytest.mark.drill
@pytest.mark.parametrize('fault', EXPECTED)
def test_a_fault_ends_with_the_true_reason_and_is_recovered_from(fault):
    (outcome,) = run_matrix((fault,), (CASES[fault],))
    assert not outcome.problem, outcome
    assert (outcome.motions, outcome.gripper) == (0, 0)
    if fault in MUST_STOP:
        # A trajectory in the controller goes on for 0.5 s of silence, which may be this PC's.
        assert outcome.end == 'stopped' and outcome.reaction < (0.6 if fault in SILENT else 0.5)


@pytest.mark.drill
def test_a_part_that_is_shaken_by_a_sudden_halt_is_still_seen_in_the_gripper():
    """The slider at zero halts a UR3 at full speed: both fingers sway with the part."""
    (outcome,) = run_matrix(('speed_slider_zero',), ('transfer',), {'ur_type': 'ur3'})
    assert (outcome.end, outcome.problem) == ('placed', '')


@pytest.mark.drill
@pytest.mark.parametrize('method', ['resolved_rate', 'gradient'])
def test_a_closed_loop_is_stopped_for_the_same_reasons(method):
    cases = ('protective_stop', 'joint_states_dropped')[: 2 if method == 'resolved_rate' else 1]
    for outcome in run_matrix(cases, ('lift',), {'method': method}):
        assert outcome.end == 'stopped' and not outcome.problem, outcome


@pytest.mark.drill
@pytest.mark.parametrize('method', ['ik', 'resolved_rate'])  # gradient takes its time
def test_cycles_over_random_spots_place_the_part_where_the_grip_left_it(method, tmp_path, capsys):
    n = '4' if method == 'ik' else '1'
    words = ['-n', n, '--seed', '3', '--method', method, '--jobs', '1', '--out', str(tmp_path)]
    assert soak.main(words) == 0
    said = capsys.readouterr().out
    assert "'placed': " + n in said and 'unexplained: 0' in said
    assert len(list(tmp_path.glob('soak-*.json'))) == 1


def test_the_table_of_faults_tells_every_case_and_what_is_wrong(tmp_path, capsys):
    words = ['--method', 'ik', '--fault', 'safeguard_stop', '--stage', 'grip']
    assert faults.main([*words, '--out', str(tmp_path)]) == 0
    assert 'safeguard stop; close the safeguard' in capsys.readouterr().out
    assert logging.getLogger('ur5_pick_place').isEnabledFor(logging.ERROR), 'no longer silent'


@pytest.fixture(scope='module')
def cell():
    """Prepared once; each test leaves it rearmed, at home, with an open gripper."""
    cell = InProcessCell()
    cell.teach(START, TARGET)
    return cell


def begin(cell, stage):
    """Run a cycle into a stage."""
    cell.put_part(START)
    cell.wait(0.2)
    since = len(cell.events)
    cell.run()
    entered = {'event': 'stage', 'stage': stage}
    cell.until(lambda: any(entered.items() <= e.items() for e in cell.events[since:]), 30.0, stage)
    cell.wait(0.1)


def finish(cell):
    cell.until(lambda: not cell.is_busy, 30.0, 'the end')
    assert cell.stop_reason == ''


# The arm brakes on its path, which may lead it past the corner to the next stage.
NEXT = {'lift': 'transfer', 'transfer': 'target', 'retreat': 'home'}


@pytest.mark.drill
def test_a_cycle_paused_in_every_stage_waits_there_and_places_its_part(cell):
    begin(cell, STAGES[0])
    for stage in STAGES:
        cell.until(lambda stage=stage: cell.station.run.stage == stage, 30.0, stage)
        if not stage.endswith('payload'):  # that is set while the fingers move
            cell.wait(0.1)
        cell.station.machine.pause()
        cell.wait(1.5)
        held, commands = cell.world.q, cell.port.gripper_commands
        cell.wait(1.0)
        state = cell.station.machine.state
        assert state in (f'paused: {stage}', f'paused: {NEXT.get(stage, stage)}')
        assert np.abs(cell.world.q - held).max() < 1e-4, stage
        assert cell.port.gripper_commands == commands, stage
        cell.station.machine.resume()
    finish(cell)
    assert np.linalg.norm(cell.world.T_world_part[:2, 3] - TARGET[:2]) < 2e-3


@pytest.mark.drill
@pytest.mark.parametrize('stage', STAGES)
def test_a_stop_in_any_stage_leaves_all_as_it_is_until_rearmed_and_planned_anew(cell, stage):
    begin(cell, stage)
    cell.stop()
    commands = cell.port.gripper_commands
    cell.wait(1.5)
    held, has_part = cell.world.q, cell.world.hand.part_present
    cell.wait(2.0)
    assert cell.station.machine.state == 'stopped: stop requested'
    assert cell.manager.motion_state == 'stopped: stop requested'
    assert np.abs(cell.world.q - held).max() < 1e-4
    assert cell.port.gripper_commands == commands and cell.world.hand.part_present == has_part
    with pytest.raises(ExecutionError, match='rearm'):
        cell.station.machine.go_home(cell.poses)
    assert cell.rearm().ok
    cell.wait(1.0)
    assert np.abs(cell.world.q - held).max() < 1e-4, 'rearming alone moves nothing'
    with pytest.raises(ExecutionError, match='no plan'):
        cell.station.machine.start_run(cell.poses)
    cell.station.machine.go_home(cell.poses)
    finish(cell)
    assert cell.world.hand.part_present == has_part, 'what is in the hand stays there'
    cell.start('open_gripper')
    finish(cell)


@pytest.mark.drill
def test_the_slider_at_zero_is_a_named_wait(cell):
    begin(cell, 'transfer')
    cell.faults.inject('speed_slider_zero')
    cell.wait(5.0)
    assert 'the speed slider is at 0' in cell.station.machine.state
    assert any(e['event'] == 'waiting' for e in cell.events)
    cell.faults.clear('speed_slider_zero')
    finish(cell)
