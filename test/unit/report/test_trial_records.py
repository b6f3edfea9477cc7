# SPDX-License-Identifier: Apache-2.0
"""What trials and recordings tell is kept, is whole, and is of what really took place."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('mcap')
pytest.importorskip('mcap_ros2')

from recordings import ARM, BEGIN, EVENTS, nodding, reported, write_recording

from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.trials import compare, faults, recording, soak
from ur5_pick_place.trials.demo_report import publish
from ur5_pick_place.trials.fault_matrix import START, TARGET, Case
from ur5_pick_place.trials.in_process import InProcessCell, open_in_process
from ur5_pick_place.trials.recorded_runs import _cycle_time, _planner_stops
from ur5_pick_place.trials.records import keep_record
from ur5_pick_place.trials.report_motion import RecordedJoints
from ur5_pick_place.trials.robot_topics import RobotTopics

# ---- files


def test_two_measurements_that_end_in_one_second_are_both_kept(tmp_path: Path) -> None:
    paths = [keep_record(tmp_path, 'soak', {'n': n}) for n in range(5)]
    assert [json.loads(path.read_text())['n'] for path in paths] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize('main', [soak.main, faults.main, compare.main])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(main, tmp_path, capsys):
    (tmp_path / 'file').write_text('mine')
    assert main(['--out', str(tmp_path / 'file')]) == 2
    assert 'file is not a writable folder' in capsys.readouterr().err


def test_a_demo_leaves_alone_what_another_command_has_not_finished(tmp_path: Path) -> None:
    work, out = tmp_path / 'work', tmp_path / 'out'
    half = out / '.record.html.unfinished'
    dead = out / '.2026-01-02T03-04-05Z.unfinished'
    dead.mkdir(parents=True)
    work.mkdir()
    half.write_text('half a page')
    (work / 'result.json').write_text('{}')
    assert (publish(work, out) / 'result.json').exists()
    assert half.exists() and not dead.exists()


# ---- soak and faults


def test_a_soak_that_is_interrupted_keeps_its_cycles(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        yield soak._lost(soak.draw(1, 1, ())[0], 'of no importance')
        raise KeyboardInterrupt

    monkeypatch.setattr('ur5_pick_place.trials.soak.soak', interrupted)
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


# ---- recordings


def event(t: float, name: str) -> dict:
    """Return an event of a run."""
    return {'time': t, 'event': name, 'job': 'run'}


@pytest.mark.parametrize(
    ('events', 'cycle'),
    [
        ([event(1.0, 'started'), event(6.0, 'cycle_done'), event(6.0, 'done')], 5.0),
        ([event(5.0, 'done'), event(8.0, 'started'), event(12.0, 'stopped')], None),
        (
            [
                event(1.0, 'started'),
                *(event(t, 'cycle_done') for t in (6.0, 11.0)),
                event(11.0, 'done'),
            ],
            None,
        ),
    ],
)
def test_a_cycle_time_is_that_of_one_whole_cycle(events, cycle):
    assert _cycle_time(events) == cycle


def test_a_stop_in_a_gap_of_the_joints_keeps_its_time() -> None:
    t = np.r_[np.arange(0.0, 5.0, 0.01), np.arange(15.0, 20.0, 0.01)]
    rows = [(BEGIN + round(1e9 * stamp), stamp) for stamp in t.tolist()]
    stop = BEGIN + round(1e9 * 5.2), 'joint_states silent'
    joints = RecordedJoints(t, *(np.zeros((len(t), 6)) for _ in range(3)))
    (told,) = _planner_stops(RobotTopics(rows, [], [], [stop]), [], joints)
    assert told['time_s'] == pytest.approx(5.2)


def test_a_recording_that_is_too_long_is_not_called_damaged(tmp_path, monkeypatch, capsys):
    path = tmp_path / 'long.mcap'
    write_recording(path, nodding(1200), EVENTS, [{'arm': ARM}])
    monkeypatch.setattr(recording, '_MOST', 500)
    _, complaint = reported(path, capsys)
    assert 'long.mcap has more than 500 messages of the robot: only these were read' in complaint
    assert 'damaged' not in complaint
