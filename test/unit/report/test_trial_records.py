# SPDX-License-Identifier: Apache-2.0
"""What trials and recordings tell is kept, is whole, and is of what really took place."""

import json
from pathlib import Path

import numpy as np
import pytest
from recordings import ARM, BEGIN, EVENTS, nodding, reported, write_recording

from ur5_pick_place.demo import compare
from ur5_pick_place.demo.compare import keep_record
from ur5_pick_place.demo.outputs import publish
from ur5_pick_place.report import recording
from ur5_pick_place.report.motion import RecordedJoints
from ur5_pick_place.report.runs import _cycle_time, _planner_stops
from ur5_pick_place.report.topics import RobotTopics

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
