# SPDX-License-Identifier: Apache-2.0
"""What a cycle file says, and what of a malformed one is named, with its line."""

import re
from pathlib import Path

import pytest
from taught_poses import by_pose

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.cycle.pattern import others
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.cycle.steps import Transfer, annotate, first_grip, transfers

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


CONFIG = Path(__file__).parents[3] / 'config'
EXAMPLES = sorted(CONFIG.glob('cycle*.yaml'))


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'cycle.yaml'


@pytest.fixture
def load(path):
    """Return what reads a cycle from text."""

    def read(*lines, outputs=()):
        path.write_text('\n'.join(lines))
        return load_cycle(path, outputs)

    return read


def named(*stages):
    """Return the lines of a file with stages that are called a, b, c, …"""
    pairs = zip('abcdefgh', stages, strict=False)
    return ['stages:', *(f'  - {{name: {n}, do: {stage}}}' for n, stage in pairs)]


@pytest.mark.parametrize('proof', ['expect_part', 'payload_part'])
@pytest.mark.parametrize(
    ('before', 'after', 'end'),
    [
        ('above_start', 'above_target', 'such as {do: lin, to: target}'),
        ('home', 'home', 'must come after a move to a place'),
    ],
)
def test_a_part_that_was_gripped_away_from_a_place_is_not_released_in_the_air(
    path, load, proof, before, after, end
):
    stages = [f'ptp, to: {before}', 'close', proof, f'ptp, to: {after}', 'open']
    with pytest.raises(InvalidInput) as refusal:
        load(*named(*stages))
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


def test_a_cycle_that_leaves_the_gripper_closed_for_the_next_one_is_refused(load):
    assert first_grip(annotate(load(UNOPENED))) == 'start'
    shut = '  - {name: shut, do: close}\n'
    with pytest.raises(InvalidInput, match="yaml:3: stages.1..do = .* stage 'shut' already"):
        load(UNOPENED + shut)
    opened = UNOPENED.replace('stages:\n', 'stages:\n  - {name: open, do: open}\n')
    assert first_grip(annotate(load(opened + shut))) == ''


def test_a_closed_gripper_may_visit_a_place_to_release_or_to_look(load):
    """A suction cup is switched on above the part, and a camera sees empty fingers."""
    stages = named('close', 'lin, to: start', 'expect_part', 'lin, to: target', 'open', 'close',
                   'ptp, to: camera', 'open')  # fmt: skip
    assert first_grip(annotate(load('places: [home, start, target, camera]', *stages))) == ''


def test_a_part_that_is_handed_to_the_gripper_may_be_carried_to_a_place(load):
    stages = named('close', 'expect_part', 'lin, to: target', 'open', 'ptp, to: home')
    assert first_grip(annotate(load(*stages))) == ''


def test_an_empty_file_is_refused_with_its_line(path, load):
    with pytest.raises(InvalidInput, match=re.escape(f'cycle file {path}:1: cycle = None')):
        load('')


def test_places_and_stages_are_read_in_order(load):
    cycle = load(GOOD, outputs=GRIPPER)
    assert list(cycle.places) == ['home', 'start', 'target', 'tray']
    assert cycle[9] == Stage('lamp', 'set_output', pin=3, value=True)
    assert cycle[10] == Stage('button', 'wait_input', pin=0, value=True, timeout=5.0)
    assert [stage.name for stage in cycle[10:13]] == ['button', 'wait 0.5 s', 'home']


def test_without_names_the_places_are_home_start_and_target(load):
    assert list(load(*named('ptp, to: above_target')).places) == ['home', 'start', 'target']
    with pytest.raises(InvalidInput, match="to = 'tray': must be one of home, start, target"):
        load(*named('ptp, to: tray'))


def test_a_place_may_be_read_from_a_frame_with_bounds_of_its_own(load):
    places = 'places: {home: , part: {from_frame: tag_3, max_jump: 0.005}}'
    part = load(places, *named('ptp, to: above_part')).places['part']
    assert (part.from_frame, part.max_age, part.max_jump) == ('tag_3', 0.5, 0.005)


@pytest.mark.parametrize('example', EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_cycle(example):
    assert load_cycle(example, GRIPPER)


def test_every_yaml_file_of_ours_names_the_line_of_an_error(tmp_path):
    text = (CONFIG / 'scene_sim.yaml').read_text()
    path = tmp_path / 'scene.yaml'
    path.write_text(text.replace('table_height: ', 'table_height: x'))
    line = 1 + text[: text.index('table_height: ')].count('\n')
    with pytest.raises(InvalidInput, match=rf'scene.yaml:{line}: table_height = .*: must be'):
        load_scene(path)


def test_the_parts_of_a_cycle_are_found_by_where_it_grips_and_releases():
    two = load_cycle(CONFIG / 'cycle_two_boxes.yaml')
    steps = annotate(two)
    assert transfers(steps) == (Transfer('part_1', 'box_1'), Transfer('part_2', 'box_2'))
    released = [i for i, stage in enumerate(two) if re.match('release', stage.name)]
    assert [i for i, step in enumerate(steps[1:]) if step.released > steps[i].released] == released


POSES = {name: by_pose(0.1 * k) for k, name in enumerate('abcde')} | {'x': by_pose(0.104)}
SPOTS = {name: name for name in 'abcde'} | {'x': 'b'}


@pytest.mark.parametrize(
    ('moved', 'lying'),
    [
        ('ab cd', [('c', -1), ('b', 0)]),
        ('ab cd be', [('c', -1), ('b', 0), ('d', 1)]),  # what is taken up again is gone again
        ('ab ca xd', [('c', -1), ('b', 0), ('a', 1)]),  # what will be gripped as it lies at x
    ],
)
def test_parts_of_one_cycle_lie_where_they_wait_and_then_where_they_were_put(moved, lying):
    transfers = [Transfer(*places) for places in moved.split()]
    for released, (name, by) in enumerate(lying):
        assert others([POSES], 0, transfers, released, (), SPOTS) == ((POSES[name], by),)
    assert others([POSES], 0, transfers[:2], 1, near=['b', 'above_b', 'c']) == ()


# What is replaced in GOOD by what, a text in the line of the error where that is another one than
# the first that was changed, and what the error names: a row for each kind. A stage that
# GOOD lacks replaces one there, as tests count its lines.
MALFORMED = [
    (
        'to: tray',
        'to: tary',
        '', "stages[6].to = 'tary': must be one of home, start, target, tray, above_home",
    ),
    ('tray]', 'tray-2]', '', "places[3] = 'tray-2'"),
    ('target,', 'start,', '', "places[2] = 'start': is listed twice"),
    ('target,', 'markers,', '', "places[2] = 'markers': is the name of a topic"),
    ('[home, ', '[', '', "places = ['start', 'target', 'tray']"),
    (
        '[home, start, target, tray]',
        '{home: {from_frame: a}, start: , tray: }',
        '', 'places.home.from_frame: home is defined by its joints',
    ),
    (
        '[home, start, target, tray]',
        '{home: , start: {from_frame: a, max_age: 90}, tray: }',
        '', 'places.start.max_age = 90 s',
    ),
    ('pin: 3', 'pni: 3', '', "stages[9] has the unknown key 'pni'"),
    (', seconds: 0.5', '', '', "wait lacks the key 'seconds'"),
    ('do: wait,', 'do: wiat,', '', "do = 'wiat': must be one of"),
    ('do: wait,', 'do: [wait],', '', "do = ['wait']: must be text"),
    ('pin: 3, value: true', 'pin: 3, value: 1', '', 'stages[9].value = 1'),
    ('pin: 3', 'pin: 16', '', 'stages[9].pin = 16: is an output of the gripper'),
    ('do: close', 'do: close, pin: 0', '', 'stages[2]: stage \'grip\': close takes no "pin"'),
    (
        'seconds: 0.5',
        'seconds: 0.5, pace: travel, blend: 0',
        '', 'wait takes no "pace" and no "blend"',
    ),
    (
        'name: up, do: lin, to: above_start',
        'name: up, do: close',
        '', "the gripper was closed by stage 'grip' already",
    ),
    ('name: grip, do: close', 'name: grip, do: open', '', 'nothing is held at start'),
    (
        '{name: tray, do: lin, to: tray}',
        '{name: tray, do: lin, to: above_tray}',
        'name: release', "the part of stage 'grip' would fall at above_tray",
    ),
    (
        '{name: reset, do: payload_tool}',
        '{do: wait, seconds: 1}',
        'name: home', 'the payload is still that of',
    ),
    (
        '  - {name: release, do: open}\n  - {name: reset, do: payload_tool}\n',
        '',
        'name: home', "'payload' adds a part",
    ),
    (
        '  - {name: payload, do: payload_part}\n  - {name: up, do: lin, to: above_start}\n'
        '  - {name: tray, do: lin, to: tray}\n  - {name: release, do: open}\n'
        '  - {name: reset, do: payload_tool}\n',
        '  - {name: up, do: lin, to: above_start}\n',
        'name: home', "'grip' gripped a part",
    ),
    ('name: grip, do: close', 'name: grip, do: expect_part', '', 'the gripper is open'),
    ('value: true, timeout: 5}', 'value: true, timeout: 5', '{do: wait,', "expected ',' or '}'"),
    ('  - {name: lamp', '\t- {name: lamp', '', "found character '\\t'"),
    ('name: grip', 'name: off', '', 'name = False: must be text; put it in quotes'),
    ('pin: 3', 'pin: 3, pin: 4', '', "'pin' is given twice"),
    ('pin: 3', 'pin: *three', '', 'alias *three'),
]


@pytest.mark.parametrize(('old', 'new', 'at', 'said'), MALFORMED)
def test_a_malformed_file_gets_one_line_with_file_line_and_what(path, load, old, new, at, said):
    malformed = GOOD.replace(old, new, 1)
    line = 1 + malformed[: malformed.index(at) if at else GOOD.index(old)].count('\n')
    with pytest.raises(InvalidInput) as refusal:
        load(malformed, outputs=GRIPPER)
    text = str(refusal.value)
    assert text.startswith(f'cycle file {path}:{line}: '), text
    assert said in text and '\n' not in text, text
