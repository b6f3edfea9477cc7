# SPDX-License-Identifier: Apache-2.0
"""Of a damaged recording `report` reads what is left, and says in one line what is not."""

import contextlib
import json
import os
import re
import sqlite3
import threading

import numpy as np
import pytest
from recordings import (
    ARM,
    BEGIN,
    EVENTS,
    demo_facts,
    nodding,
    reported,
    write_bag,
    write_recording,
)
from std_msgs.msg import String

from ur5_pick_place.report import command as report
from ur5_pick_place.report import page as report_page
from ur5_pick_place.report.recording import read_recording
from ur5_pick_place.report.topics import is_wanted
from ur5_pick_place.task.plan_report import COLUMNS

JOINTS = nodding(150)
ZSTD = b'\x28\xb5\x2f\xfd'
HUGE = 10**400  # beyond the range of a float


def test_of_a_truncated_file_one_line_says_what_could_be_read(tmp_path, capsys):
    path = tmp_path / 'cut.mcap'
    long = nodding(1200)
    write_recording(path, long, EVENTS, [{'arm': ARM}])
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    (_, complaint) = reported(path, capsys)
    (line,) = complaint.splitlines()
    read = int(re.search(r'(\d+) messages could be read', line)[1])
    assert 'cut.mcap is damaged or incomplete' in line and 600 < read < 2400


@pytest.mark.parametrize('size', [3, 12, 20, 30, 60, -1, -5, -9, -20, -30])
def test_a_file_cut_anywhere_is_said_to_end_early(size, tmp_path):
    path = tmp_path / 'cut.mcap'
    write_recording(path, JOINTS, EVENTS, [{'arm': ARM}])
    path.write_bytes(path.read_bytes()[:size])
    (problem,) = read_recording(path, is_wanted).problems
    assert '(it ends early)' in problem


def test_of_a_truncated_bag_of_sqlite_what_is_left_is_read(tmp_path):
    (path,) = write_bag(tmp_path / 'bag', nodding(600), EVENTS, 'SQLITE3').glob('*.db3')
    os.truncate(path, path.stat().st_size * 6 // 10)
    recording = read_recording(path, is_wanted)
    (problem,) = recording.problems
    assert 'is damaged or incomplete' in problem and 600 < recording.count < 1203


def test_messages_that_the_metadata_of_a_bag_count_are_missed(tmp_path):
    folder = write_bag(tmp_path / 'bag', JOINTS, EVENTS, 'SQLITE3')
    with contextlib.closing(sqlite3.connect(folder / 'bag.db3')) as database, database:
        database.execute('DELETE FROM messages WHERE id BETWEEN 60 AND 120')
    (problem,) = read_recording(folder, is_wanted).problems
    assert problem.startswith(f'{folder}: 61 messages that metadata.yaml counts are missing')


@pytest.mark.parametrize('content', [b'', b'time', b'\x89MCAP0\r\n', b'SQLite format 3\0' * 9])
@pytest.mark.parametrize('suffix', ['.mcap', '.db3'])
def test_a_file_with_nothing_in_it_is_refused_in_one_line(content, suffix, tmp_path, capsys):
    path = tmp_path / f'nothing{suffix}'
    path.write_bytes(content)
    assert report.main([str(path)]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith(f'report: {path}: nothing to report could be read: ') and not said.out


@pytest.mark.parametrize('name', ['pipe.mcap', 'pipe.db3'])
def test_a_pipe_is_refused_and_not_waited_for(name, tmp_path, capsys):
    path = tmp_path / name
    os.mkfifo(path)
    writer = threading.Timer(5.0, path.write_bytes, [b''])  # ends what would wait for ever
    writer.daemon = True
    writer.start()
    assert report.main([str(path)]) == 2
    writer.cancel()
    assert capsys.readouterr().err == (
        f'report: {path}: is a pipe or a device: must be a folder or a file\n'
    )


@pytest.mark.parametrize('storage', ['mcap', pytest.param('db3', marks=pytest.mark.drill)])
def test_a_damaged_file_never_ends_in_a_traceback(storage, tmp_path, capsys, monkeypatch, rng):
    """Truncations and flipped bytes, seeded, as page and as strict JSON."""
    plugin = {'mcap': 'MCAP', 'db3': 'SQLITE3'}[storage]
    folder = write_bag(tmp_path / 'bag', JOINTS, EVENTS, plugin)
    (whole,) = folder.glob(f'*.{storage}')
    data = whole.read_bytes()
    path = tmp_path / f'damaged.{storage}'
    codes = []
    for trial in range(15):
        damaged = bytearray(data[: rng.integers(1, len(data))] if trial % 3 == 0 else data)
        for where in rng.integers(0, len(damaged), trial % 3 * 4):
            damaged[where] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        if trial >= 5:  # they take the most time
            monkeypatch.setattr(report_page, 'plots', lambda *_: ())
        code = report.main([str(path)])
        assert len(capsys.readouterr().err.splitlines()) <= 1
        assert path.with_suffix('.html').exists() == (code == 0)
        path.with_suffix('.html').unlink(missing_ok=True)
        codes.append(report.main([str(path), '--json']))
        assert codes[-1] == code
        said = capsys.readouterr()
        assert len(said.err.splitlines()) <= 1
        if codes[-1] == 0:
            json.loads(said.out, parse_constant=pytest.fail)
    assert set(codes) == {0, 2}


@pytest.mark.parametrize('name', ['torque', 'duration', 'joint_margin'])
def test_a_plan_with_a_number_beyond_a_float_is_left_out(name, tmp_path, capsys):
    row = {key: 0.5 for key, _, _ in COLUMNS}
    reports = [
        {'time': 100.4, 'event': 'plan_report', 'rows': rows}
        for rows in ([row], [{**row, name: HUGE}], [{**row, name: float('nan')}])
    ]
    path = tmp_path / 'record.mcap'
    write_recording(path, JOINTS, [*EVENTS[:2], *reports, EVENTS[2]])
    ((run,), _) = reported(path, capsys)
    assert run['plan'] == [row]
    assert report.main([str(path)]) == 0


@pytest.mark.parametrize(
    ('name', 'value'),
    [('planning_time_s', HUGE), ('T_tool_grip', [[HUGE] * 4] * 4), ('ends', [1]), ('ends', HUGE),
     ('limits', {'max_speed': HUGE}), ('limits', 'none'), ('start', [0.4, 0.1, 0]),
     ('start', {'x': 0.4}), ('displacement', 'x'), ('method', 7), ('log_times', [0])],
)  # fmt: skip
def test_facts_that_no_demo_writes_are_damage(name, value, tmp_path, capsys):
    run = {**demo_facts('ik', JOINTS), name: value}
    write_recording(tmp_path / 'run.mcap', JOINTS, EVENTS, [{'arm': ARM}, {'run': run}])
    _, complaint = reported(tmp_path / 'run.mcap', capsys)
    assert 'the facts of its runs are damaged' in complaint


@pytest.mark.parametrize('name', ['T_tool_tcp', 'max_velocity', 'max_speed'])
def test_an_arm_with_a_number_beyond_a_float_is_unknown(name, tmp_path):
    arm = {**ARM, name: np.full(np.shape(ARM[name]), HUGE, dtype=object).tolist()}
    write_recording(tmp_path / 'record.mcap', JOINTS, EVENTS, [{'arm': arm}])
    (run,) = report.read_report(tmp_path / 'record.mcap').runs
    assert not run.motion.has_tcp


def test_a_damaged_chunk_costs_no_other(tmp_path):
    path = tmp_path / 'flipped.mcap'
    write_recording(path, nodding(1200), EVENTS)
    data = bytearray(path.read_bytes())
    data[2000] ^= 0xFF
    path.write_bytes(data)
    recording = read_recording(path, is_wanted)
    (problem,) = recording.problems
    assert '1 of ' in problem and recording.count > 1500


def test_a_chunk_that_is_not_there_is_missed(tmp_path):
    path = tmp_path / 'hole.mcap'
    write_recording(path, nodding(1200), EVENTS)
    data = bytearray(path.read_bytes())
    chunk = 17 + int.from_bytes(data[9:17], 'little')  # after the magic and the header
    assert data[chunk] == 6
    data[chunk] = 0x7F  # a kind of record that readers skip
    path.write_bytes(data)
    recording = read_recording(path, is_wanted)
    (problem,) = recording.problems
    assert f'{2403 - recording.count} messages that its summary counts are missing' in problem


@pytest.mark.parametrize('pack', [lambda _data: ZSTD, lambda _data: ZSTD + bytes(9)])
def test_compressed_messages_that_are_damaged_are_counted(pack, tmp_path, capsys):
    folder = write_bag(tmp_path / 'bag', JOINTS, EVENTS, 'SQLITE3', pack=pack)
    assert report.main([str(folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f'{JOINTS.t.size} of {JOINTS.t.size} messages are malformed' in line


@pytest.mark.parametrize('seconds', [-3600, 3600, 601, 599])
def test_a_clock_that_was_set_is_told_with_its_step(seconds, tmp_path, capsys):
    before = [('/chatter', String(data=''), BEGIN - seconds * 10**9)]
    write_recording(tmp_path / 'set.mcap', JOINTS, EVENTS, [{'arm': ARM}], others=before)
    _, complaint = reported(tmp_path / 'set.mcap', capsys)
    told = f'set.mcap: the times of its messages jump by {seconds} s, as after a pause'
    assert (told in complaint) == (abs(seconds) > 600)
