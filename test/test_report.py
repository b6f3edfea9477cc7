# SPDX-License-Identifier: Apache-2.0
"""`report` tells of a recorded run what took how long and what did not go by itself."""

import json
from pathlib import Path

import pytest

from ur5_pick_place.commands import report

EVENTS = [
    {'time': 1.0, 'event': 'taught', 'place': 'home', 'pose': [], 'joints': []},
    {'time': 1.1, 'event': 'started', 'job': 'init_gripper'},
    {'time': 1.2, 'event': 'done', 'job': 'init_gripper'},
    {'time': 3.0, 'event': 'started', 'job': 'run'},
    {'time': 3.0, 'event': 'stage', 'stage': 'above start', 'remark': 'stops there: no blend'},
    {'time': 4.5, 'event': 'stage', 'stage': 'verify grip', 'remark': ''},
    {'time': 4.6, 'event': 'grasp_missed', 'reason': 'closed on nothing', 'tries_left': 0},
    {'time': 8.0, 'event': 'stage', 'stage': 'lift', 'remark': ''},
    {'time': 8.25, 'event': 'paused', 'stage': 'lift'},
    {'time': 10.75, 'event': 'resumed', 'stage': 'lift'},
    {'time': 11.0, 'event': 'waiting', 'stage': 'lift', 'reason': 'the speed slider is at 0'},
]
DONE = [{'time': 12.5, 'event': 'cycle_done'}, {'time': 12.6, 'event': 'done', 'job': 'run'}]
STOPPED = [
    {'time': 12.0, 'event': 'stopped', 'job': 'run', 'stage': 'lift', 'reason': 'part lost'}
]
RESULT = {
    'method': 'ik',
    'success': True,
    'reason': '',
    'placement_error_m': 0.00123,
    'placement_error_rad': 0.0,
    'in_hand_error_m': 0.0001,
    'in_hand_error_rad': 0.01,
    'cycle_time_s': 9.6,
    'planning_time_s': 0.5,
    'max_tcp_speed_m_s': 0.75,
}
NOTHING = dict.fromkeys(
    ('placement_error_m', 'placement_error_rad', 'in_hand_error_m', 'in_hand_error_rad')
    + ('cycle_time_s', 'planning_time_s', 'max_tcp_speed_m_s')
)
FAILED = {'method': 'gradient', 'success': False, 'reason': 'the part was lost', **NOTHING}


def record(folder: Path, runs: list[dict], events: list[dict]) -> Path:
    (folder / 'result.json').write_text(json.dumps({'runs': runs}))
    (folder / 'events.jsonl').write_text(''.join(json.dumps(e) + '\n' for e in events))
    return folder


def test_stages_have_the_time_until_the_next_one_or_the_end(tmp_path):
    (run,) = report.read_runs(record(tmp_path, [RESULT], EVENTS + DONE))
    assert [(s['stage'], s['begin_s'], s['duration_s']) for s in run['stages']] == [
        ('above start', 3.0, 1.5),
        ('verify grip', 4.5, 3.5),
        ('lift', 8.0, 4.5),
    ]
    assert run['stages'][0]['remark'] == 'stops there: no blend'


def test_the_text_tells_retries_pauses_waits_placement_and_speed(tmp_path, capsys):
    assert report.main([str(record(tmp_path, [RESULT], EVENTS + DONE))]) == 0
    said = capsys.readouterr().out
    assert said.startswith('ik: placed\n')
    for words in (
        '1.23 mm and 0.00 deg off its target, 0.10 mm and 0.57 deg off',
        'cycle 9.60 s, planning 0.50 s, top TCP speed 0.75 m/s',
        '4.60 s: grasp missed: closed on nothing',
        "8.25 s: paused at stage 'lift': 2.50 s",
        "11.00 s: waiting at stage 'lift': the speed slider is at 0",
    ):
        assert words in said


def test_several_methods_are_told_apart_by_the_clock_of_each_cell(tmp_path, capsys):
    folder = record(tmp_path, [RESULT, FAILED], EVENTS + DONE + EVENTS + STOPPED)
    first, second = report.read_runs(folder)
    assert len(first['stages']) == len(second['stages']) == 3
    assert second['stages'][-1]['duration_s'] == 4.0
    assert second['remarks'][-1] == {
        'time_s': 12.0,
        'what': 'stopped',
        'stage': 'lift',
        'text': 'part lost',
    }
    assert report.main([str(folder)]) == 0
    said = capsys.readouterr().out
    assert 'gradient: FAILED: the part was lost' in said and 'cycle unknown' in said


def test_json_is_what_was_read(tmp_path, capsys):
    folder = record(tmp_path, [RESULT], EVENTS + DONE)
    assert report.main([str(folder), '--json']) == 0
    assert json.loads(capsys.readouterr().out) == report.read_runs(folder)


@pytest.mark.parametrize(
    ('name', 'content', 'words'),
    [
        ('result.json', None, 'result.json: '),
        ('result.json', '{', 'result.json: no JSON'),
        ('result.json', '{"runs": [{"method": "ik"}]}', 'needs "runs"'),
        ('result.json', '[]', 'needs "runs"'),
        ('result.json', '{"runs": []}', 'needs "runs"'),
        ('events.jsonl', None, 'events.jsonl: '),
        ('events.jsonl', b'\xff', 'events.jsonl: '),
        ('events.jsonl', '', 'has events of 0 runs'),
        ('events.jsonl', '{"time": 1, "event": "done"}\n{"ti', 'line 2: no JSON'),
        ('events.jsonl', '{"time": "1", "event": "done"}', 'line 1: is no event'),
        ('events.jsonl', '{"time": 1, "event": "stage", "stage": []}', 'line 1: is no event'),
        pytest.param('result.json', '[' * 100_000, 'result.json: no JSON', id='deep'),
        ('result.json', json.dumps({'runs': [{**RESULT, 'cycle_time_s': '9'}]}), 'needs "runs"'),
        ('events.jsonl', '{"time": 1, "event": "stage"}', "an event lacks 'stage'"),
    ],
)
def test_a_missing_or_broken_file_is_named(name, content, words, tmp_path, capsys):
    record(tmp_path, [RESULT], EVENTS + DONE)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert report.main([str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith('report: ') and words in told and str(tmp_path / name) in told


def test_what_a_demo_writes_is_what_is_read(tmp_path):
    pytest.importorskip('rclpy')
    from ur5_pick_place.nodes.demo_record import RunResult, Task
    from ur5_pick_place.nodes.demo_report import write_events, write_result
    from ur5_pick_place.nodes.demo_spots import DEFAULT_START, DEFAULT_TARGET

    result = RunResult('ik', False, 'why', Task(DEFAULT_START, DEFAULT_TARGET), cycle_time_s=3.5)
    write_result(tmp_path, [result], {'seed': None})
    write_events(tmp_path, EVENTS + STOPPED)
    (run,) = report.read_runs(tmp_path)
    assert (run['method'], run['reason'], run['cycle_time_s']) == ('ik', 'why', 3.5)
