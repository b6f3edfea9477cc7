# SPDX-License-Identifier: Apache-2.0
"""What a demo shows and keeps of its runs."""

import io
import json
import math

import numpy as np
import pytest

from ur5_pick_place.demo import command as demo_report
from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.demo.progress import ProgressDisplay
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.report.evaluation import FIGURES
from ur5_pick_place.report.runs import RecordedRun

# -- what is kept --------------------------------------------------------------------------------


def result(**fields: object) -> dict[str, object]:
    return {'method': 'ik', 'success': True, **dict.fromkeys(FIGURES), **fields}


def test_result_file_is_strict_json_with_a_list_of_runs(tmp_path):
    runs = [RecordedRun(result(grip_offset_m=[0.0, 0.0, 0.002]), {'stages': []})]
    demo_report.write_result(tmp_path, runs, {'seed': None})
    content = json.loads((tmp_path / 'result.json').read_text())
    assert content == {'seed': None, 'runs': [runs[0].result]}
    with pytest.raises(ValueError, match='not JSON compliant'):
        demo_report.write_result(tmp_path, [RecordedRun(result(cycle_time_s=math.nan), {})], {})


def test_publishing_twice_in_a_second_keeps_both_and_links_the_last(tmp_path):
    work, out = tmp_path / 'work', tmp_path / 'out'
    work.mkdir()
    folders = []
    for text in ('first', 'second'):
        (work / 'result.json').write_text(text)
        (work / 'poses.yaml').write_text('not for keeps')
        folders.append(demo_report.publish(work, out))
    assert [(f / 'result.json').read_text() for f in folders] == ['first', 'second']
    assert (out / 'latest').resolve() == folders[1]
    assert sorted(p.name for p in out.iterdir()) == sorted([*(f.name for f in folders), 'latest'])
    assert [p.name for p in folders[0].iterdir()] == ['result.json']


def test_an_interrupted_publishing_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / 'result.json').write_text('{}')
    monkeypatch.setattr(demo_report.shutil, 'copyfile', interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo_report.publish(tmp_path, tmp_path / 'out')
    assert not list((tmp_path / 'out').iterdir())


def test_a_demo_leaves_alone_what_another_command_has_not_finished(tmp_path):
    work, out = tmp_path / 'work', tmp_path / 'out'
    half = out / '.record.html.unfinished'
    dead = out / '.2026-01-02T03-04-05Z.unfinished'
    dead.mkdir(parents=True)
    work.mkdir()
    half.write_text('half a page')
    (work / 'result.json').write_text('{}')
    assert (demo_report.publish(work, out) / 'result.json').exists()
    assert half.exists() and not dead.exists()


class Arm:
    """Stands at home, and moves one joint at 1 rad/s from then on."""

    def __init__(self) -> None:
        self.t = 0.0

    def __call__(self) -> tuple[float, np.ndarray, np.ndarray]:
        self.t += 0.01
        return self.t, HOME + self.t * np.eye(6)[5], np.zeros(2)


def test_progress_has_a_line_for_every_stage_and_ends_with_the_run():
    stream, arm = io.StringIO(), Arm()
    progress = ProgressDisplay(CellSetup(), stream)
    progress.on_event({'event': 'started', 'job': 'run'}, arm)
    progress.refresh(arm)
    for name in ('grip', 'verify', 'lift'):
        progress.on_event({'event': 'stage', 'stage': name}, arm)
    progress.refresh(arm)
    progress.on_event({'event': 'done', 'job': 'run'}, arm)
    ended = arm.t
    for _ in range(5):
        progress.refresh(arm)
    progress.end_stage()
    _, heading, *lines = stream.getvalue().splitlines()
    assert heading.startswith('stage ends ')
    assert [line.split()[2] for line in lines] == ['grip', 'verify', 'lift']
    assert float(lines[-1].split()[0]) == pytest.approx(ended, abs=0.005)
    assert '1.00 rad/s' in lines[1] and '0.287 m' in lines[1] and '70.0 mm' in lines[1]


@pytest.mark.parametrize(('columns', 'refreshed'), [('40', False), ('80', True)])
def test_a_line_that_does_not_fit_the_terminal_is_not_refreshed(monkeypatch, columns, refreshed):
    monkeypatch.setenv('COLUMNS', columns)
    stream, arm = io.StringIO(), Arm()
    monkeypatch.setattr(stream, 'isatty', lambda: True, raising=False)
    progress = ProgressDisplay(CellSetup(), stream)
    progress.on_event({'event': 'stage', 'stage': 'grip'}, arm)
    progress.refresh(arm)
    assert ('\r' in stream.getvalue()) == refreshed
