# SPDX-License-Identifier: Apache-2.0
"""What soak and faults keep of an interrupted or impossible run, and what counts as passed."""

import json

import pytest

from lab import faults, soak
from lab.fault_matrix import START, TARGET, Case
from lab.in_process import InProcessCell, open_in_process
from ur5_pick_place.errors import ExecutionError, InvalidInput


@pytest.mark.parametrize('main', [soak.main, faults.main])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(main, tmp_path, capsys):
    (tmp_path / 'file').write_text('mine')
    assert main(['--out', str(tmp_path / 'file')]) == 2
    assert 'file is not a writable folder' in capsys.readouterr().err


def test_a_soak_that_is_interrupted_keeps_its_cycles(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        yield soak.lost(soak.draw(1, 1, ())[0], 'of no importance')
        raise KeyboardInterrupt

    monkeypatch.setattr('lab.soak.soak', interrupted)
    assert soak.main(['-n', '9', '--out', str(tmp_path)]) == 130
    (kept,) = tmp_path.glob('soak-*.json')
    assert len(json.loads(kept.read_text())['rows']) == 1
    assert 'interrupted after 1 of 9 cycles' in capsys.readouterr().err


def test_a_cell_that_does_not_start_costs_a_soak_one_cycle(monkeypatch) -> None:
    teach, failures = InProcessCell.teach, iter([True])

    def failing(self, *spots):
        if next(failures, False):
            raise ExecutionError('init_gripper timed out')
        teach(self, *spots)

    monkeypatch.setattr(InProcessCell, 'teach', failing)
    first, second = soak.soak(2, 1, open_cell=open_in_process)
    assert (first.end, first.problem) == ('lost', 'init_gripper timed out')
    assert (second.end, second.problem) == ('placed', '')


class Refusing(InProcessCell):
    """Takes no fault."""

    def inject(self, _name):
        raise InvalidInput('refused')


@pytest.mark.parametrize(
    ('kind', 'stage', 'said'),
    [
        (Refusing, 'start', 'not injected; it was placed'),
        (InProcessCell, 'no such stage', 'the stage of the fault did not come'),
    ],
)
def test_a_fault_that_never_came_is_no_passed_case(kind, stage, said):
    cell = kind({})
    cell.teach(START, TARGET)
    assert Case(cell, 'protective_stop', START, TARGET, 0.16, stage).run().problem == said
