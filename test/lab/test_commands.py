# SPDX-License-Identifier: Apache-2.0
"""What soak and faults keep of an interrupted or impossible run, and what counts as passed."""

import json
import math

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


def problem(kind, fault='safeguard_stop', stage='start'):
    cell = kind({})
    cell.teach(START, TARGET)
    return Case(cell, fault, START, TARGET, 0.16, stage).run().problem


@pytest.mark.parametrize(
    ('kind', 'stage', 'said'),
    [
        (Refusing, 'start', 'not injected; it was placed'),
        (InProcessCell, 'no such stage', 'the stage of the fault did not come'),
    ],
)
def test_a_fault_that_never_came_is_no_passed_case(kind, stage, said):
    assert problem(kind, 'protective_stop', stage) == said


class Restless(InProcessCell):
    """Sends the controller something at every look."""

    looks, motions, holds = 0, 1, 0

    @property
    def commands(self):
        self.looks += 1
        return self.looks * self.motions, self.looks * self.holds, 0


class Insistent(Restless):
    """Tells the arm more than often enough to stay."""

    motions, holds = 0, 8


class Drifting(InProcessCell):
    """Goes on after a stop."""

    @property
    def q(self):
        return super().q + (0.1 * self.time if self.stop_reason else 0.0)


class Late(InProcessCell):
    """Is held to a stop at once."""

    reaction_limit = 0.0


class Faltering(InProcessCell):
    """Stops before anything was done to it."""

    def run(self):
        super().run()
        self.stop()


@pytest.mark.parametrize(
    ('kind', 'words'),
    [
        (Restless, '1 motion and 0 gripper commands after the stop'),
        (Insistent, '8 hold commands after the stop'),
        (Drifting, 'rad of motion after the stop'),
        (Late, 'detected after 0.0'),
        (Faltering, 'stopped without a fault'),
    ],
)
def test_a_cell_that_does_wrong_is_told_so(kind, words):
    assert words in problem(kind)


def test_a_part_that_was_turned_by_a_right_angle_is_misplaced():
    cell = InProcessCell({})
    cell.teach(START, TARGET)
    cell.put_part(START)
    cell.run()
    cell.until(lambda: not cell.is_busy, 60.0, 'the end of the cycle')
    away, turn = cell.placement(TARGET)
    assert away < 1e-3 and turn < 0.01
    cell.put_part(TARGET._replace(yaw=TARGET.yaw + math.pi / 2))
    assert cell.placement(TARGET)[1] == pytest.approx(math.pi / 2, abs=0.01)
