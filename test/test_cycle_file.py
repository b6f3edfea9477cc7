# SPDX-License-Identifier: Apache-2.0
"""Cycle files: places and stages are read, and what is wrong is told with file and line."""

import re
from pathlib import Path

import pytest

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.planning.scene_file import load_scene
from ur5_pick_place.task.cycle import Stage, load_cycle
from ur5_pick_place.task.cycle_check import first_grip
from ur5_pick_place.task.pattern import Transfer, others, transfers

CONFIG = Path(__file__).parents[1] / 'config'
EXAMPLES = sorted(CONFIG.glob('cycle*.yaml'))
GRIPPER = (16,)

GOOD = """\
places: [home, start, target, tray]
stages:
  - {name: open, do: open}
  - {name: start, do: lin, to: start}
  - {name: grip, do: close}
  - {name: verify, do: expect_part}
  - {name: payload, do: payload_part}
  - {name: up, do: lin, to: above_start}
  - {name: tray, do: lin, to: tray}
  - {name: release, do: open}
  - {name: reset, do: payload_tool}
  - {name: lamp, do: set_output, pin: 3, value: true}
  - {name: button, do: wait_input, pin: 0, value: true, timeout: 5}
  - {do: wait, seconds: 0.5}
  - {name: home, do: ptp, to: home}
"""

# What is replaced in GOOD by what, the line of the error, what is wrong and what instead.
MALFORMED = {
    'a place with a typo': (
        'to: tray',
        'to: tary',
        9,
        "stages[6].to = 'tary': must be one of home, start, target, tray, above_home",
        "; did you mean 'tray'?",
    ),
    'a place that is not listed': (
        ', tray]',
        ']',
        9,
        "stages[6].to = 'tray': must be one of home, start, target",
        '',
    ),
    'a point above that has none': (
        'above_start',
        'above_strat',
        8,
        "stages[5].to = 'above_strat'",
        "did you mean 'above_start'?",
    ),
    'a place of a name that ROS refuses': (
        'tray]',
        'tray-2]',
        1,
        "places[3] = 'tray-2'",
        'letters, digits and single underscores',
    ),
    'a place twice': (
        'target,',
        'start,',
        1,
        "places[2] = 'start': is listed twice",
        'must be listed once',
    ),
    'a place that hides a frame': (
        'target,',
        'tool0,',
        1,
        "places[2] = 'tool0': is the name of a frame",
        'must be another one, such as my_tool0',
    ),
    'a point above as a place': (
        'target,',
        'above_start,',
        1,
        "places[2] = 'above_start'",
        'remove it, as the place start has this point above it',
    ),
    'a place of the topic of the handles': (
        'target,',
        'markers,',
        1,
        "places[2] = 'markers': is the name of a topic",
        'my_markers',
    ),
    'no home': (
        '[home, ',
        '[',
        1,
        "places = ['start', 'target', 'tray']",
        'must contain home',
    ),
    'places that are no list': (
        '[home, start, target, tray]',
        'tray',
        1,
        "places = 'tray'",
        'must be a list',
    ),
    'a frame for home': (
        '[home, start, target, tray]',
        '{home: {from_frame: a}, start: , tray: }',
        1,
        'places.home.from_frame: home is defined by its joints',
        'must be taught',
    ),
    'a bound beyond all bounds': (
        '[home, start, target, tray]',
        '{home: , start: {from_frame: a, max_age: 90}, tray: }',
        1,
        'places.start.max_age = 90 s',
        'must lie in 0.02 to 60.0 s',
    ),
    'an unknown stage': (
        'do: lin, to: start',
        'do: line, to: start',
        4,
        "stages[1].do = 'line'",
        'must be one of ptp, lin',
    ),
    'an unknown key': (
        'pin: 3',
        'pni: 3',
        12,
        "stages[9] has the unknown key 'pni'",
        'known are: name, do, to',
    ),
    'a wait without its time': (
        ', seconds: 0.5',
        '',
        14,
        "wait lacks the key 'seconds'",
        'seconds',
    ),
    'a wait without an end': (
        ', timeout: 5',
        '',
        13,
        "wait_input lacks the key 'timeout'",
        'timeout',
    ),
    'a pin that is not there': (
        'pin: 0',
        'pin: 18',
        13,
        'stages[10].pin = 18',
        'must lie in 0 to 17',
    ),
    'a level that is a number': (
        'pin: 3, value: true',
        'pin: 3, value: 1',
        12,
        'stages[9].value = 1',
        'must be true or false',
    ),
    'a pin of the gripper': (
        'pin: 3',
        'pin: 16',
        12,
        'stages[9].pin = 16: is an output of the gripper',
        'by {do: open} and {do: close} alone',
    ),
    'a key of another stage that is 0': (
        'do: close',
        'do: close, pin: 0',
        5,
        'stages[2]: stage \'grip\': close takes no "pin"',
        'it takes none: remove it',
    ),
    'a level of another stage that is off': (
        'name: release, do: open',
        'name: release, do: open, value: false',
        10,
        'open takes no "value"',
        'it takes none: remove it',
    ),
    'a time of a move': (
        'to: above_start',
        'to: above_start, seconds: 0',
        8,
        'lin takes no "seconds"',
        'it takes to, pace, blend',
    ),
    'a pace and a blend of what does not move': (
        'seconds: 0.5',
        'seconds: 0.5, pace: travel, blend: 0',
        14,
        'wait takes no "pace" and no "blend"',
        'it takes seconds',
    ),
    'places that are left empty': (
        '[home, start, target, tray]',
        '',
        1,
        'places = None',
        'must be a list of names, or a mapping of names to settings',
    ),
    'a key of another stage': (
        'seconds: 0.5',
        'seconds: 0.5, pin: 3',
        14,
        'wait takes no "pin"',
        'it takes seconds',
    ),
    'a second grip': (
        'name: up, do: lin, to: above_start',
        'name: up, do: close',
        8,
        "the gripper was closed by stage 'grip' already",
        'must come after a release',
    ),
    'a release of nothing': (
        'name: grip, do: close',
        'name: grip, do: open',
        5,
        'nothing is held at start',
        'must come after {do: close}',
    ),
    'a release in the air': (
        '{name: tray, do: lin, to: tray}',
        '{name: tray, do: lin, to: above_tray}',
        10,
        "the part of stage 'grip' would fall at above_tray",
        'such as {do: lin, to: tray}',
    ),
    'a payload that is not reset': (
        '{name: reset, do: payload_tool}',
        '{do: wait, seconds: 1}',
        15,
        'the payload is still that of',
        'must come after {do: payload_tool}',
    ),
    'a part that is never released': (
        '  - {name: release, do: open}\n  - {name: reset, do: payload_tool}\n',
        '',
        13,
        "'payload' adds a part",
        'release it at a place with {do: open}',
    ),
    'a part that is never released, and not weighed': (
        '  - {name: payload, do: payload_part}\n  - {name: up, do: lin, to: above_start}\n'
        '  - {name: tray, do: lin, to: tray}\n  - {name: release, do: open}\n'
        '  - {name: reset, do: payload_tool}\n',
        '  - {name: up, do: lin, to: above_start}\n',
        11,
        "'grip' gripped a part",
        'release it at a place with {do: open}',
    ),
    'a part expected in an open gripper': (
        'name: grip, do: close',
        'name: grip, do: expect_part',
        5,
        'the gripper is open',
        'must come after {do: close}',
    ),
    'a bracket that is left open': (
        'value: true, timeout: 5}',
        'value: true, timeout: 5',
        14,
        "expected ',' or '}'",
        "expected ',' or '}'",
    ),
    'a tab': (
        '  - {name: lamp',
        '\t- {name: lamp',
        12,
        "found character '\\t'",
        'cannot start any token',
    ),
    'a key twice': (
        'pin: 3',
        'pin: 3, pin: 4',
        12,
        "'pin' is given twice",
        'remove one',
    ),
    'an alias': (
        'pin: 3',
        'pin: *three',
        12,
        'alias *three',
        'write the value',
    ),
}


@pytest.mark.parametrize('case', MALFORMED)
def test_a_malformed_file_gets_one_line_with_file_line_what_and_what_instead(tmp_path, case):
    old, new, line, what, instead = MALFORMED[case]
    assert GOOD.count(old) == 1
    path = tmp_path / 'cycle.yaml'
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InvalidInput) as refusal:
        load_cycle(path, GRIPPER)
    text = str(refusal.value)
    assert text.startswith(f'cycle file {path}:{line}: '), text
    assert what in text and instead in text and '\n' not in text, text


@pytest.mark.parametrize('proof', ['expect_part', 'payload_part'])
@pytest.mark.parametrize(
    ('before', 'after', 'end'),
    [
        ('above_start', 'above_target', 'such as {do: lin, to: target}'),
        ('home', 'home', 'must come after a move to a place'),
    ],
)
def test_a_part_that_was_gripped_away_from_a_place_is_not_released_in_the_air(
    tmp_path, proof, before, after, end
):
    path = tmp_path / 'cycle.yaml'
    stages = [f'ptp, to: {before}', 'close', proof, f'ptp, to: {after}', 'open']
    lines = [f'  - {{name: {n}, do: {stage}}}' for n, stage in zip('abcde', stages, strict=True)]
    path.write_text('\n'.join(['stages:', *lines]))
    with pytest.raises(InvalidInput) as refusal:
        load_cycle(path)
    text = str(refusal.value)
    assert f"{path}:6: stages[4].do = 'open' at stage 'e': the part of stage 'b' would" in text
    assert text.endswith(end)


UNOPENED = """\
stages:
  - {name: start, do: lin, to: start}
  - {name: grip, do: close}
  - {name: target, do: lin, to: target}
  - {name: release, do: open}
  - {name: home, do: ptp, to: home}
"""


def test_a_cycle_that_leaves_the_gripper_closed_for_the_next_one_is_refused(tmp_path):
    path = tmp_path / 'cycle.yaml'
    path.write_text(UNOPENED)
    cycle = load_cycle(path)
    assert first_grip(cycle) == 'start'
    shut = '  - {name: shut, do: close}\n'
    path.write_text(UNOPENED + shut)
    with pytest.raises(InvalidInput, match="yaml:3: stages.1..do = .* stage 'shut' already"):
        load_cycle(path)
    opened = UNOPENED.replace('stages:\n', 'stages:\n  - {name: open, do: open}\n')
    path.write_text(opened + shut)
    assert first_grip(load_cycle(path)) == ''


def test_a_closed_gripper_may_visit_a_place_to_release_or_to_look(tmp_path):
    """A suction cup is switched on above the part, and a camera sees empty fingers."""
    path = tmp_path / 'cycle.yaml'
    path.write_text(
        'places: [home, start, target, camera]\nstages:\n'
        '  - {name: suction, do: close}\n'
        '  - {name: start, do: lin, to: start}\n'
        '  - {name: grip, do: expect_part}\n'
        '  - {name: target, do: lin, to: target}\n'
        '  - {name: release, do: open}\n'
        '  - {name: shut, do: close}\n'
        '  - {name: look, do: ptp, to: camera}\n'
        '  - {name: open, do: open}\n'
    )
    assert first_grip(load_cycle(path)) == ''


def test_a_part_that_is_handed_to_the_gripper_may_be_carried_to_a_place(tmp_path):
    path = tmp_path / 'cycle.yaml'
    stages = ['close', 'expect_part', 'lin, to: target', 'open', 'ptp, to: home']
    lines = [f'  - {{name: {n}, do: {stage}}}' for n, stage in zip('abcde', stages, strict=True)]
    path.write_text('\n'.join(['stages:', *lines]))
    assert first_grip(load_cycle(path)) == ''


def test_an_empty_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / 'cycle.yaml'
    path.write_text('')
    with pytest.raises(InvalidInput, match=re.escape(f'cycle file {path}:1: cycle = None')):
        load_cycle(path)


def test_places_and_stages_are_read_in_order(tmp_path):
    path = tmp_path / 'cycle.yaml'
    path.write_text(GOOD)
    cycle = load_cycle(path, GRIPPER)
    assert list(cycle.places) == ['home', 'start', 'target', 'tray']
    assert cycle[9] == Stage('lamp', 'set_output', pin=3, value=True)
    assert cycle[10] == Stage('button', 'wait_input', pin=0, value=True, timeout=5.0)
    assert [stage.name for stage in cycle[10:13]] == ['button', 'wait 0.5 s', 'home']


def test_without_names_the_places_are_home_start_and_target(tmp_path):
    path = tmp_path / 'cycle.yaml'
    path.write_text('stages: [{name: up, do: ptp, to: above_target}]')
    assert list(load_cycle(path).places) == ['home', 'start', 'target']
    path.write_text('stages: [{name: up, do: ptp, to: tray}]')
    with pytest.raises(InvalidInput, match="to = 'tray': must be one of home, start, target"):
        load_cycle(path)


def test_a_place_may_be_read_from_a_frame_with_bounds_of_its_own(tmp_path):
    path = tmp_path / 'cycle.yaml'
    path.write_text(
        'places: {home: , part: {from_frame: tag_3, max_jump: 0.005}}\n'
        'stages: [{name: up, do: ptp, to: above_part}]'
    )
    part = load_cycle(path).places['part']
    assert (part.from_frame, part.max_age, part.max_jump) == ('tag_3', 0.5, 0.005)


@pytest.mark.parametrize('path', EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_cycle(path):
    assert load_cycle(path, GRIPPER)


def test_every_yaml_file_of_ours_names_the_line_of_an_error(tmp_path):
    text = (CONFIG / 'scene_sim.yaml').read_text()
    path = tmp_path / 'scene.yaml'
    path.write_text(text.replace('table_height: ', 'table_height: x'))
    line = 1 + text[: text.index('table_height: ')].count('\n')
    with pytest.raises(InvalidInput, match=rf'scene.yaml:{line}: table_height = .*: must be'):
        load_scene(path)


def test_the_parts_of_a_cycle_are_found_by_where_it_grips_and_releases():
    two = load_cycle(CONFIG / 'cycle_two_boxes.yaml')
    ends = [i for i, stage in enumerate(two) if re.match('release', stage.name)]
    assert transfers(two) == (
        Transfer('part_1', 'box_1', ends[0]),
        Transfer('part_2', 'box_2', ends[1]),
    )


def test_parts_of_one_cycle_lie_where_they_wait_and_then_where_they_were_laid():
    moved = (Transfer('a', 'b', 3), Transfer('c', 'd', 7))
    poses = {name: object() for name in 'abcd'}
    assert others([poses], 0, moved, 2) == (poses['c'],)
    assert others([poses], 0, moved, 4, near=['b', 'above_b', 'c']) == ()
    assert others([poses], 0, moved, 6) == (poses['b'],)


def test_a_part_that_is_laid_down_and_taken_up_again_is_there_in_between_alone():
    moved = (Transfer('a', 'b', 3), Transfer('c', 'd', 5), Transfer('b', 'e', 7))
    poses = {name: object() for name in 'abcde'}
    assert others([poses], 0, moved, 0) == (poses['c'],)
    assert others([poses], 0, moved, 4) == (poses['b'],)
    assert others([poses], 0, moved, 6) == (poses['d'],)
