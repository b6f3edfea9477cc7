# SPDX-License-Identifier: Apache-2.0
"""What is wrong in a cycle file is reported with file, line, value and what to write."""

import pytest
from cycle_texts import GOOD, GRIPPER

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.cycle import load_cycle

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
