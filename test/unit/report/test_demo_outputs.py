# SPDX-License-Identifier: Apache-2.0
"""What a demo shows and keeps of its runs."""

import json
import math

import pytest

from ur5_pick_place.demo import outputs as demo_report
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
