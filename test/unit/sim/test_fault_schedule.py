# SPDX-License-Identifier: Apache-2.0
"""Which faults are there, from when to when: by schedule, on demand, and read from a file."""

import pytest
from faulty_cell import FaultyCell
from ideal_driver import HERE, move

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.sim.fault_schedule import Planned, load_schedule
from ur5_pick_place.sim.world import World

THERE = HERE + 0.5


@pytest.fixture
def cell():
    return FaultyCell()


def test_a_schedule_runs_at_simulated_times():
    cell = FaultyCell([Planned('joint_states_dropped', at=1.0, duration=0.8)])
    cell.run(3.0)
    silent = [CYCLE * (i + 1) for i, report in enumerate(cell.reports) if report is None]
    assert silent[0] == pytest.approx(1.0 + CYCLE) and silent[-1] == pytest.approx(1.8)


def test_a_scheduled_fault_can_wait_for_a_motion():
    cell = FaultyCell([Planned('program_paused', at=0.2, motion=2)])
    for begin in (1.0, 3.0):
        cell.run(begin - cell.driver.time)
        move(cell.driver, THERE if begin == 1.0 else HERE)
        assert cell.faults.active == ()
    cell.run(0.18)
    assert cell.faults.active == ()
    cell.run(0.03)
    assert cell.faults.active == ('program_paused',)
    cell.run(20.0)
    assert cell.faults.active == ('program_paused',)


def test_a_scheduled_end_waits_for_the_robot_to_allow_it():
    cell = FaultyCell([Planned('protective_stop', at=0.5, duration=1.0)])
    cell.run(5.0)
    assert cell.faults.active == ('protective_stop',)
    cell.run(1.0)
    assert cell.faults.active == () and cell.driver.robot.safe


def test_a_scheduled_fault_that_cannot_come_about_is_told_and_the_rest_goes_on(caplog):
    cell = FaultyCell(
        [
            Planned('program_stopped', at=0.5),
            Planned('controller_inactive', at=1.0),
            Planned('io_states_silent', at=1.5),
        ]
    )
    cell.run(2.0)
    assert 'controller_inactive was not injected' in caplog.text
    assert cell.faults.active == ('program_stopped', 'io_states_silent')


def test_all_faults_are_cleared_at_once_but_for_those_that_the_robot_holds(cell):
    for name in ('io_states_silent', 'protective_stop', 'part_present_late'):
        cell.inject(name)
    with pytest.raises(InvalidInput, match='protective_stop: Cannot unlock'):
        cell.faults.clear_all()
    assert cell.faults.active == ('protective_stop',)
    cell.run(5.1)
    assert cell.faults.clear_all() == 'all faults cleared'
    assert 'not injected' in cell.faults.clear('protective_stop')


def test_injecting_twice_happens_twice_and_is_cleared_together():
    cell = FaultyCell(arm=World())
    before = cell.arm.T_world_part[:3, 3]
    cell.inject('part_shifted')
    cell.inject('part_shifted')
    assert cell.arm.T_world_part[0, 3] == pytest.approx(before[0] + 0.02)
    cell.clear('part_shifted')
    assert cell.arm.T_world_part[:3, 3] == pytest.approx(before, abs=1e-4)


def test_a_schedule_file_is_read_with_its_defaults(tmp_path):
    path = tmp_path / 'faults.yaml'
    path.write_text(
        '- {fault: protective_stop, at: 12, for: 6.5}\n- {fault: part_slips, motion: 3}\n'
    )
    assert load_schedule(path) == (
        Planned('protective_stop', at=12.0, duration=6.5),
        Planned('part_slips', at=0.0, motion=3),
    )


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('fault: protective_stop', 'must be a list'),
        ('', 'must be a list'),
        ('- [', 'cannot be read'),
        ('- protective_stop', r'faults\[0\] .* must be a mapping with fault, at, for, motion'),
        ('- {at: 1.0}', r"faults\[0\] lacks the key 'fault'"),
        ('- {fault: protectiv_stop}', 'did you mean protective_stop'),
        ('- {fault: 7}', 'fault = 7: must be text'),
        ('- {fault: }', 'fault = None: must be text'),
        (
            '- {fault: part_slips}\n- {fault: part_slips, until: 3}',
            r"faults\[1\] has the unknown key 'until'; known are: fault, at, for, motion",
        ),
        ('- {fault: part_slips, at: -1}', r'faults\[0\]\.at = -1 s: must lie in 0'),
        ('- {fault: part_slips, at: .nan}', 'at = nan: must be a finite number'),
        ('- {fault: part_slips, at: soon}', "at = 'soon': must be a finite number"),
        ('- {fault: part_slips, for: 0}', 'for = 0 s: must lie in 0.008'),
        ('- {fault: part_slips, for: .inf}', 'for = inf: must be a finite number'),
        ('- {fault: part_slips, motion: 0}', 'motion = 0: must lie in 1'),
        ('- {fault: part_slips, motion: 1.5}', 'motion = 1.5: must be a whole number'),
    ],
)
def test_a_bad_schedule_file_is_refused_with_the_reason(tmp_path, text, words):
    path = tmp_path / 'faults.yaml'
    path.write_text(text)
    with pytest.raises(InvalidInput, match=f'faults file {path}.*{words}'):
        load_schedule(path)


def test_a_schedule_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidInput, match='nowhere.yaml cannot be read'):
        load_schedule(tmp_path / 'nowhere.yaml')


def test_an_unknown_fault_is_refused_with_the_nearest_name(cell):
    with pytest.raises(InvalidInput, match='did you mean link_loss'):
        cell.inject('link_los')
    with pytest.raises(InvalidInput, match='known are: protective_stop'):
        cell.clear('xyz')
