# SPDX-License-Identifier: Apache-2.0
"""What is wrong in a cycle file is reported with file, line and value."""

import pytest
from cycle_texts import GOOD, GRIPPER

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.cycle.file import load_cycle

# What is replaced in GOOD by what, a text in the line of the error where that is another one than
# the first that was changed, and what the error names: a row for each kind.
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


@pytest.mark.parametrize(('old', 'new', 'at', 'named'), MALFORMED)
def test_a_malformed_file_gets_one_line_with_file_line_and_what(tmp_path, old, new, at, named):
    path = tmp_path / 'cycle.yaml'
    malformed = GOOD.replace(old, new, 1)
    path.write_text(malformed)
    line = 1 + malformed[: malformed.index(at) if at else GOOD.index(old)].count('\n')
    with pytest.raises(InvalidInput) as refusal:
        load_cycle(path, GRIPPER)
    text = str(refusal.value)
    assert text.startswith(f'cycle file {path}:{line}: '), text
    assert named in text and '\n' not in text, text
