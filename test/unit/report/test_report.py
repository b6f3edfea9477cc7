# SPDX-License-Identifier: Apache-2.0
"""`report` tells of a recorded run what took how long and what did not go by itself."""

import base64
import io
import json
import math
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import HOME, forward, load_model
from ur5_pick_place.report import command as report
from ur5_pick_place.report.events import story
from ur5_pick_place.report.motion import Motion, RecordedJoints, motion_of
from ur5_pick_place.report.page import remark_text
from ur5_pick_place.report.runs import RecordedRun
from ur5_pick_place.task.statistics import Tally, save_statistics

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
SHARES = {
    'time_floor_s': 3.5,
    'time_free_motions_s': 3.0,
    'time_fingers_s': 0.5,
    'time_approach_s': 4.0,
    'time_waiting_s': 2.0,
    'time_other_s': 0.1,
}
NOTHING = dict.fromkeys(
    ('placement_error_m', 'placement_error_rad', 'in_hand_error_m', 'in_hand_error_rad')
    + ('cycle_time_s', 'planning_time_s', 'max_tcp_speed_m_s')
)
ROW = {
    'cycle': 1, 'motion': 'lift', 'method': 'ik', 'duration': 1.0, 'tcp_speed': 0.9,
    'elbow_speed': 0.3, 'joint_velocity': 0.5, 'joint_acceleration': 0.6, 'joint_jerk': 1.0,
    'torque': 0.2, 'joint_margin': 1.25, 'remark': '',
}
ARM = {
    'ur_type': 'ur5',
    'T_tool_tcp': np.diag([1.0, 1.0, 1.0, 1.0]).tolist(),
    'max_velocity': [math.pi] * 6,
    'max_speed': 1.0,
}
FAILED = {'method': 'gradient', 'success': False, 'reason': 'the part was lost', **NOTHING}


def run_of(result: dict, events: list[dict], motion: Motion | None = None) -> RecordedRun:
    return RecordedRun(result, story(events), motion, events)


def test_stages_have_the_time_until_the_next_one_or_the_end():
    stages = story(EVENTS + DONE)['stages']
    assert [(s['stage'], s['begin_s'], s['duration_s']) for s in stages] == [
        ('above start', 3.0, 1.5),
        ('verify grip', 4.5, 3.5),
        ('lift', 8.0, 4.5),
    ]
    assert stages[0]['remark'] == 'stops there: no blend'
    stopped = story(EVENTS + STOPPED)
    assert stopped['stages'][-1]['duration_s'] == 4.0
    last = {'time_s': 12.0, 'what': 'stopped', 'stage': 'lift', 'text': 'part lost'}
    assert stopped['remarks'][-1] == last


def test_the_text_tells_retries_pauses_waits_placement_and_speed():
    said = report.run_text(run_of(RESULT, EVENTS + DONE))
    assert said.startswith('ik: placed\n')
    for words in (
        'placement error: 1.23 mm and 0.00 deg',
        'without grip offset (caused by the arm): 0.10 mm and 0.57 deg',
        'cycle time: 9.60 s',
        'max TCP speed: 0.75 m/s',
        '4.60 s: grasp missed: closed on nothing',
        "8.25 s: paused at stage 'lift': 2.50 s",
        "11.00 s: waiting at stage 'lift': the speed slider is at 0",
    ):
        assert words in said


def test_a_remark_names_its_stage_once():
    lost = {'what': 'stopped', 'stage': 'lift', 'text': "the part was lost at stage 'lift': look"}
    assert remark_text(lost) == "stopped: the part was lost at stage 'lift': look"


# -- the history of a line -----------------------------------------------------------------------


def line_statistics(path: Path) -> Path:
    tally = Tally(cycles=3, placed=2, missed=1)
    for seconds in (5.0, 6.0, 7.0):
        tally.add_time(seconds)
    for reason in ('protective stop; unlock it', 'protective stop: unlock it', 'part lost'):
        tally.add_stop(reason)
    save_statistics(path, tally)
    return path


def test_the_history_of_each_robot_is_a_table_with_its_file(tmp_path, capsys):
    files = [line_statistics(tmp_path / f'poses_{robot}_statistics.json') for robot in 'ab']
    assert report.main(['--history', str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert not said.err
    tables = said.out.strip().split('\n\n')
    for file, table in zip(files, tables, strict=True):
        head, *rows = table.splitlines()
        assert head.startswith(f'{file}, last written 2')
        assert len({len(row) for row in rows}) == 1, 'the figures stand below each other'
        assert [tuple(row.rsplit(maxsplit=1)) for row in rows] == [
            ('  cycles', '3'), ('  placed', '2'), ('  missed', '1'), ('  stops', '3'),
            ('  cycle time mean [s]', '6.00'), ('  cycle time p95 [s]', '7.03'),
            ('  stopped: protective stop', '2'), ('  stopped: part lost', '1'),
        ]  # fmt: skip


def test_the_history_in_json_has_seconds_and_causes(tmp_path, capsys):
    file = line_statistics(tmp_path / 'poses_statistics.json')
    save_statistics(tmp_path / 'new_statistics.json', Tally())
    assert report.main(['--history', '--json', str(tmp_path)]) == 0
    new, line = json.loads(capsys.readouterr().out)
    assert new['cycle_time_mean_s'] is None and line['file'] == str(file)
    assert (line['cycle_time_mean_s'], line['cycle_time_p95_s']) == pytest.approx((6, 7), rel=0.01)
    assert line['stops'] == {'protective stop': 2, 'part lost': 1}


@pytest.mark.parametrize('content', [None, '{"format": 1'])
def test_without_a_history_one_line_says_what_is_missing(content, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(report, 'FOLDER', tmp_path)
    if content:
        (tmp_path / 'poses_statistics.json').write_text(content)
    assert report.main(['--history']) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith('report: ') and 'statistics' in line and str(tmp_path) in line
    line_statistics(tmp_path / 'other_statistics.json')
    assert report.main(['--history']) == 0, 'a broken file costs no other'
    assert bool(capsys.readouterr().err) == bool(content)


# -- the page ------------------------------------------------------------------------------------


def swing(lag: int = 5, off: float = 0.0) -> RecordedJoints:
    """Turn the shoulder by 1 rad from 2 s to 12 s; the arm is behind, and lifted by `off`."""
    t = np.arange(0.5, 13.0, 0.05)
    pan = np.clip((t - 2.0) / 10.0, 0.0, 1.0)
    reference = HOME + np.outer(pan, np.eye(6)[0])
    behind = np.concatenate([np.tile(reference[0], (lag, 1)), reference[: t.size - lag]])
    q = behind + off * np.eye(6)[1]
    return RecordedJoints(t, q, np.gradient(q, t, axis=0), reference)


class Page(HTMLParser):
    """Reads a page strictly: what is opened is closed, and nothing is fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._open: list[str] = []
        self.words, self.pictures, self.plots = '', [], []
        self.feed(text)
        self.close()
        assert not self._open
        assert 'http' not in text.replace('http-equiv', '') and 'url(' not in text

    def handle_starttag(self, tag: str, attrs: list) -> None:
        assert tag not in ('script', 'link', 'iframe', 'object', 'a')
        if tag not in ('meta', 'img'):
            self._open.append(tag)
        for name, value in attrs:
            assert name not in ('href', 'srcset') and not name.startswith('on')
            if name == 'src':
                head, _, data = value.partition(',')
                assert head in ('data:image/png;base64', 'data:image/gif;base64')
                self.pictures.append(Image.open(io.BytesIO(base64.b64decode(data))))
            if name == 'alt' and tag == 'img':
                self.plots.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != 'style':
            self.words += f' {data}'


def page_of(folder: Path, runs: list[RecordedRun]) -> Page:
    path = folder / 'report.html'
    report.write_page(path, 'a demo', report.Report(runs, [], 'run.mcap: 9.0 s'))
    return Page(path.read_text(encoding='utf-8'))


def test_the_page_tells_figures_stages_margins_and_what_went_wrong(tmp_path):
    planned = {'time': 2.5, 'event': 'plan_report', 'rows': [ROW, {**ROW, 'joint_jerk': 0.4}]}
    spots = {'start': {'x': 0.4, 'y': 0.1, 'yaw': 0.0}, 'target': {'x': 0.3, 'y': 0.2, 'yaw': 9}}
    events = [*EVENTS[:3], planned, *EVENTS[3:]]
    failed = {**FAILED, 'reason': 'lost <b>&amp;'}
    Image.new('RGB', (9, 9)).save(tmp_path / 'cell.png')
    runs = [
        run_of({**RESULT, **SHARES, **spots}, events + DONE, motion_of(swing(), ARM)),
        run_of(failed, EVENTS + STOPPED),
    ]
    page = page_of(tmp_path, runs)
    for words in (
        'ik: placed',
        '1.23 mm and 0.00 deg',
        '0.75 m/s of 1.00 m/s',
        'without grip offset (caused by the arm) 0.10 mm and 0.57 deg',
        'lower bound of the cycle time 3.50 s',
        'further motion: lines, slow near places 4.00',
        'The parts of the cycle time are unknown.',
        'shoulder_pan_joint: 0.10 of 3.14 rad/s',
        'above start 3.00 1.50',
        'stops there: no blend',
        'grasp missed: closed on nothing',
        "waiting at stage 'lift': the speed slider is at 0",
        '50% 60% 100% 20% 1.25',
        'gradient: failed lost <b>&amp;',
        "stopped at stage 'lift': part lost",
        'The recording has no plan report.',
        'No joints were recorded in this run, or all with one stamp: no plots.',
    ):
        assert words in ' '.join(page.words.split()), words
    plots = ['Joints', 'Joint speeds', 'TCP speed', 'Errors', 'Path of the TCP']
    assert [alt for alt in page.plots if not alt.startswith('the cell')] == plots
    for alt, picture in zip(page.plots, page.pictures, strict=True):
        if alt in plots:
            assert picture.width == 1100 and np.asarray(picture.convert('L')).std() > 10.0


def test_a_page_without_joints_and_without_a_stage_says_so(tmp_path):
    page = page_of(tmp_path, [run_of(FAILED, EVENTS[:3])])
    assert not page.pictures
    for words in ('No joints were recorded', 'No stage was started', 'no pictures', 'unknown'):
        assert words in page.words


@pytest.mark.parametrize(
    ('arm', 'words'),
    [
        ({}, 'must have "arm"'),
        ({**ARM, 'ur_type': '/etc/passwd'}, 'must have "arm"'),
        ({**ARM, 'max_speed': None}, 'max_speed = None: must be a finite number'),
        ({**ARM, 'max_velocity': [1, 2]}, 'max_velocity = [1, 2]: must be 6 finite numbers'),
        ({**ARM, 'T_tool_tcp': [[math.nan] * 4] * 4}, 'must be 4 x 4 finite numbers'),
    ],
)
def test_joints_of_an_unknown_arm_are_refused(arm, words):
    with pytest.raises(InvalidInput) as refused:
        motion_of(swing(), arm)
    assert words in str(refused.value)


def test_an_arm_that_is_late_is_on_its_way_and_one_that_is_lifted_is_not():
    late = motion_of(swing(lag=5), ARM)
    assert np.abs(late.error).max() == pytest.approx(0.025, abs=1e-3)
    assert late.deviation.max() < 1e-9
    lifted = motion_of(swing(off=0.01), ARM)
    p = forward(load_model('ur5'), np.array([HOME, HOME + 0.01 * np.eye(6)[1]]))[:, :3, 3]
    assert lifted.deviation == pytest.approx(np.linalg.norm(p[1] - p[0]), rel=0.02)


def test_too_few_joints_are_none():
    one = RecordedJoints(*(array[:2] for array in vars(swing()).values()))
    assert motion_of(one, ARM) is None


def test_a_path_of_a_variable_that_is_not_set_is_refused_with_the_reason(capsys):
    with pytest.raises(SystemExit):
        report.main(['$NOT_SET_HERE/out'])
    assert 'path: $NOT_SET_HERE/out: its first folder is no variable' in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_named_with_what_to_do(tmp_path, capsys):
    assert report.main([str(tmp_path / 'latest')]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'latest: no such folder; run `demo` first' in line and 'Errno' not in line


def test_the_backend_and_the_style_of_a_users_matplotlib_are_not_used(tmp_path):
    (tmp_path / 'matplotlibrc').write_text('text.usetex: True')
    script = (
        "import sys; from ur5_pick_place.terminal import run_main; sys.argv[1:] = ['none']\n"
        "run_main('report.command'); import ur5_pick_place.report.plots, matplotlib\n"
        "print(matplotlib.get_backend(), matplotlib.rcParams['text.usetex'])"
    )
    env = {**os.environ, 'MPLBACKEND': 'module://not.installed', 'MPLCONFIGDIR': str(tmp_path)}
    done = subprocess.run(
        [sys.executable, '-c', script], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == 'agg False\n', done.stderr
