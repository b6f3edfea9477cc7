# SPDX-License-Identifier: Apache-2.0
"""What is wrong in a cycle file is reported with file, line and value."""

import pytest
from cycle_texts import GOOD, GRIPPER

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.cycle.file import load_cycle

# What is replaced in GOOD by what, the line of the error, and what it names: a row for each kind.
MALFORMED = [
    (
        'to: tray',
        'to: tary',
        9, "stages[6].to = 'tary': must be one of home, start, target, tray, above_home",
    ),
    ('tray]', 'tray-2]', 1, "places[3] = 'tray-2'"),
    ('target,', 'start,', 1, "places[2] = 'start': is listed twice"),
    ('target,', 'markers,', 1, "places[2] = 'markers': is the name of a topic"),
    ('[home, ', '[', 1, "places = ['start', 'target', 'tray']"),
    (
        '[home, start, target, tray]',
        '{home: {from_frame: a}, start: , tray: }',
        1, 'places.home.from_frame: home is defined by its joints',
    ),
    (
        '[home, start, target, tray]',
        '{home: , start: {from_frame: a, max_age: 90}, tray: }',
        1, 'places.start.max_age = 90 s',
    ),
    ('pin: 3', 'pni: 3', 12, "stages[9] has the unknown key 'pni'"),
    (', seconds: 0.5', '', 14, "wait lacks the key 'seconds'"),
    ('pin: 3, value: true', 'pin: 3, value: 1', 12, 'stages[9].value = 1'),
    ('pin: 3', 'pin: 16', 12, 'stages[9].pin = 16: is an output of the gripper'),
    ('do: close', 'do: close, pin: 0', 5, 'stages[2]: stage \'grip\': close takes no "pin"'),
    (
        'seconds: 0.5',
        'seconds: 0.5, pace: travel, blend: 0',
        14, 'wait takes no "pace" and no "blend"',
    ),
    (
        'name: up, do: lin, to: above_start',
        'name: up, do: close',
        8, "the gripper was closed by stage 'grip' already",
    ),
    ('name: grip, do: close', 'name: grip, do: open', 5, 'nothing is held at start'),
    (
        '{name: tray, do: lin, to: tray}',
        '{name: tray, do: lin, to: above_tray}',
        10, "the part of stage 'grip' would fall at above_tray",
    ),
    (
        '{name: reset, do: payload_tool}',
        '{do: wait, seconds: 1}',
        15, 'the payload is still that of',
    ),
    (
        '  - {name: release, do: open}\n  - {name: reset, do: payload_tool}\n',
        '',
        13, "'payload' adds a part",
    ),
    (
        '  - {name: payload, do: payload_part}\n  - {name: up, do: lin, to: above_start}\n'
        '  - {name: tray, do: lin, to: tray}\n  - {name: release, do: open}\n'
        '  - {name: reset, do: payload_tool}\n',
        '  - {name: up, do: lin, to: above_start}\n',
        11, "'grip' gripped a part",
    ),
    ('name: grip, do: close', 'name: grip, do: expect_part', 5, 'the gripper is open'),
    ('value: true, timeout: 5}', 'value: true, timeout: 5', 14, "expected ',' or '}'"),
    ('  - {name: lamp', '\t- {name: lamp', 12, "found character '\\t'"),
    ('name: grip', 'name: off', 5, 'name = False: must be text; put it in quotes'),
    ('pin: 3', 'pin: 3, pin: 4', 12, "'pin' is given twice"),
    ('pin: 3', 'pin: *three', 12, 'alias *three'),
]


@pytest.mark.parametrize(('old', 'new', 'line', 'named'), MALFORMED)
def test_a_malformed_file_gets_one_line_with_file_line_and_what(tmp_path, old, new, line, named):
    assert GOOD.count(old) == 1
    path = tmp_path / 'cycle.yaml'
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InvalidInput) as refusal:
        load_cycle(path, GRIPPER)
    text = str(refusal.value)
    assert text.startswith(f'cycle file {path}:{line}: '), text
    assert named in text and '\n' not in text, text
