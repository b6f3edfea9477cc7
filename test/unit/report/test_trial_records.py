# SPDX-License-Identifier: Apache-2.0
"""What trials and recordings tell is kept, is whole, and is of what really took place."""

import json
from pathlib import Path

import numpy as np
import pytest
from recordings import ARM, EVENTS, log_time, nodding, reported, write_recording
from std_msgs.msg import String

from ur5_pick_place.demo import compare
from ur5_pick_place.demo.compare import keep_record
from ur5_pick_place.demo.outputs import publish
from ur5_pick_place.report import recording
from ur5_pick_place.report.motion import RecordedJoints
from ur5_pick_place.report.topics import MOTION_STATE

# ---- files


def test_two_measurements_that_end_in_one_second_are_both_kept(tmp_path: Path) -> None:
    paths = [keep_record(tmp_path, 'soak', {'n': n}) for n in range(5)]
    assert [json.loads(path.read_text())['n'] for path in paths] == [0, 1, 2, 3, 4]


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys):
    (tmp_path / 'file').write_text('mine')
    assert compare.main(['--out', str(tmp_path / 'file')]) == 2
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


# ---- recordings


def event(t: float, name: str) -> dict:
    """Return an event of a run, with the fields of each kind."""
    fields = {'number': 1, 'of': 2, 'stage': 'lift', 'reason': 'lost'}
    return {'time': t, 'event': name, 'job': 'run', **fields}


@pytest.mark.parametrize(
    ('events', 'cycle'),
    [
        ([event(100.1, 'started'), event(100.6, 'cycle_done'), event(100.6, 'done')], 0.5),
        ([event(100.5, 'done'), event(100.8, 'started'), event(101.0, 'stopped')], None),
        ([event(100.1, 'started'), *(event(t, 'cycle_done') for t in (100.5, 100.9)),
          event(100.9, 'done')], None),
    ],
)
def test_a_cycle_time_is_that_of_one_whole_cycle(events, cycle, tmp_path, capsys):
    write_recording(tmp_path / 'run.mcap', nodding(150), events)
    ((run,), _) = reported(tmp_path / 'run.mcap', capsys)
    assert run['cycle_time_s'] == (cycle and pytest.approx(cycle))


def test_a_stop_in_a_gap_of_the_joints_keeps_its_time(tmp_path, capsys) -> None:
    whole, gap = nodding(1500), np.r_[0:500, 1000:1500]
    joints = RecordedJoints(*(values[gap] for values in vars(whole).values()))
    states = [(t, String(data=s)) for t, s in ((100.1, 'ready'), (106.0, 'stopped: silent'))]
    others = [(MOTION_STATE, state, log_time(joints, t)) for t, state in states]
    write_recording(tmp_path / 'record.mcap', joints, [], others=others)
    ((run,), _) = reported(tmp_path / 'record.mcap', capsys)
    assert run['remarks'][-1]['time_s'] == pytest.approx(6.0, abs=1e-3)


def test_a_recording_that_is_too_long_is_not_called_damaged(tmp_path, monkeypatch, capsys):
    path = tmp_path / 'long.mcap'
    write_recording(path, nodding(1200), EVENTS, [{'arm': ARM}])
    monkeypatch.setattr(recording, '_MOST', 500)
    _, complaint = reported(path, capsys)
    assert 'long.mcap has more than 500 messages of the robot: only these were read' in complaint
    assert 'damaged' not in complaint
