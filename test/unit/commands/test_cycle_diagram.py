# SPDX-License-Identifier: Apache-2.0
"""The picture of the cycle is made from the data."""

import re
from pathlib import Path

from ur5_pick_place.commands.cycle_diagram import diagram, main
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.cycle.stages import Stage

REPO = Path(__file__).resolve().parents[3]
CYCLE = REPO / 'config/cycle.yaml'


def test_the_page_shows_the_cycle_of_the_file(capsys):
    assert main([str(CYCLE)]) == 0
    page = REPO / 'docs/howto/cycle.md'
    (shown,) = re.findall(r'```mermaid\n(.*?)```', page.read_text(), re.DOTALL)
    assert shown == capsys.readouterr().out, f'put the output of `cycle_diagram` into {page}'


def test_moves_are_rounded_and_those_without_a_stop_marked():
    cycle = [
        Stage('shut', 'close'),
        Stage('up', 'lin', 'home', blend=0.1),
        Stage('go', 'ptp', 'home'),
    ]
    assert diagram(cycle).splitlines() == [
        'flowchart LR',
        '  s0["shut"]',
        '  s1(["up: lin ↷<br/>go: ptp"])',
        '  s0 --> s1',
    ]


def test_waits_outputs_and_places_from_frames_are_shown():
    hand_over = diagram(load_cycle(REPO / 'config/cycle_hand_over.yaml'))
    assert 'lamp on: output 0 on<br/>' in hand_over
    assert 'button: wait for input 0 on<br/>hands off: wait 0.5 s<br/>release' in hand_over
    tag = diagram(load_cycle(REPO / 'config/cycle_tag.yaml')).splitlines()
    assert tag[-1] == '  part[/"part: TF frame part_0"/] -.-> s1'


def test_a_name_cannot_break_the_diagram():
    text = diagram([Stage('"]-->x <b>#1', 'open')])
    assert '  s0["#34;]--#62;x #60;b#62;#35;1"]' in text


def test_a_file_that_is_no_cycle_is_refused_by_name(tmp_path, capsys):
    assert main([str(tmp_path / 'none.yaml')]) == 2
    assert 'none.yaml' in capsys.readouterr().err
