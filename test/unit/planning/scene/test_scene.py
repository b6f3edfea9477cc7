# SPDX-License-Identifier: Apache-2.0
"""The scene: built and read with clear refusals, never changed, recognised by its fingerprint."""

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from scenes import crate, pose, scene, with_boxes

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.mounting import Mounting
from ur5_pick_place.planning.scene.scene import MAX_BOXES, Box, Part, Tool
from ur5_pick_place.planning.scene.scene_file import load_scene, scene_from_dict

SCENE_FILE = Path(__file__).parents[4] / 'config' / 'scene_sim.yaml'


def described() -> dict:
    """Give the contents of a complete scene file."""
    return yaml.safe_load(SCENE_FILE.read_text())


def test_the_simulated_cells_scene_file_says_what_stands_there():
    loaded = load_scene(SCENE_FILE)
    assert loaded.table_height == 0.0
    assert loaded.margin == 0.005
    np.testing.assert_allclose(loaded.tool.p_tool_tcp, [0.0, 0.0, 0.145])
    assert [shape.name for shape in loaded.tool.shapes] == ['gripper', 'fingers']
    np.testing.assert_allclose(loaded.part.size, 0.045)
    assert not loaded.carried
    assert loaded.boxes == ()


def test_a_box_is_read_with_its_angles_in_degrees():
    data = described()
    data['boxes'] = [
        {'name': 'ramp', 'position': [0.5, 0.1, 0.2], 'rpy': [0, 0, 90], 'size': [0.1, 0.2, 0.3]}
    ]
    (box,) = scene_from_dict(data).boxes
    np.testing.assert_allclose(box.T_base_link_box @ [1, 0, 0, 1], [0.5, 1.1, 0.2, 1], atol=1e-12)
    np.testing.assert_array_equal(box.size, [0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ('edit', 'message'),
    [
        (lambda d: d.pop('table_height'), r"scene lacks the key 'table_height'"),
        (lambda d: d['tool'].pop('tcp'), r"tool lacks the key 'tcp'"),
        (lambda d: d.update(tabel_height=0), r"unknown key 'tabel_height'; known are: table_heig"),
        (lambda d: d.update(table_height='low'), r"table_height = 'low': must be a finite number"),
        (lambda d: d.update(table_height=9), r'table_height = 9 m: must lie in -2 to 2 m'),
        (lambda d: d.update(margin=float('nan')), r'margin = nan: must be a finite number'),
        (lambda d: d.update(margin=-0.01), r'margin = -0.01 m: must lie in 0 to 0.02 m'),
        (lambda d: d.update(boxes={'name': 'x'}), r'boxes = .*: must be a list'),
        (lambda d: d.update(boxes=[3]), r'boxes\[0\] = 3: must be a mapping with .*name, size'),
        (
            lambda d: d.update(boxes=[{'name': 'x', 'position': [0, 1], 'size': [1, 1, 1]}]),
            r'boxes\[0\].position = \[0, 1\]: must have 3 entries',
        ),
        (
            lambda d: d.update(boxes=[{'name': 'x', 'position': [0, 0, 99], 'size': [1, 1, 1]}]),
            r"box 'x': z = 99 m: must lie in -10 to 10 m",
        ),
        (lambda d: d['part'].update(size=[1, 0, 1]), r'part: size\[1\] = 0 m: must lie in 0.001'),
        (
            lambda d: d['part'].update(size=[1, True, 1]),
            r'part.size\[1\] = True: must be a finite',
        ),
    ],
)
def test_a_wrong_scene_is_refused_with_key_value_and_bounds(edit, message):
    data = described()
    edit(data)
    with pytest.raises(InvalidInput, match=message):
        scene_from_dict(data)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidInput, match='nowhere.yaml cannot be read'):
        load_scene(tmp_path / 'nowhere.yaml')
    torn = tmp_path / 'torn.yaml'
    torn.write_text('boxes: [')
    with pytest.raises(InvalidInput, match='torn.yaml:1: cannot be read'):
        load_scene(torn)
    hostile = tmp_path / 'hostile.yaml'
    hostile.write_text('!!python/object/apply:os.system ["true"]')
    with pytest.raises(InvalidInput, match='hostile.yaml:1: cannot be read'):
        load_scene(hostile)
    empty = tmp_path / 'empty.yaml'
    empty.write_text('')
    with pytest.raises(InvalidInput, match=r'empty.yaml:1: scene = None: must be a mapping'):
        load_scene(empty)


@pytest.mark.parametrize(
    ('old', 'new', 'line', 'said'),
    [
        ('size: [0.2, 0.02, 0.2]', 'size: [200, 20, 20]', 8, 'size[0] = 200 m'),
        ('name: post', 'name: wall', 7, "'wall'"),
        ('position: [0.0, 0.0, 0.145]', 'position: [0.0, 0.0, 145.0]', 2, 'TCP: z = 145 m'),
        ('size: [0.045, 0.045, 0.045]', 'size: [45.0, 45.0, 45.0]', 10, '45'),
    ],
)
def test_an_error_of_a_file_names_the_line_of_the_thing(tmp_path, old, new, line, said):
    text = (
        'table_height: -0.01\n'
        'tool:\n'
        '  tcp: {position: [0.0, 0.0, 0.145]}\n'
        '  boxes:\n'
        '    - {name: body, position: [0.0, 0.0, 0.05], size: [0.07, 0.07, 0.1]}\n'
        '\n'
        'boxes:\n'
        '  - {name: wall, position: [0.0, 0.6, 0.1], size: [0.2, 0.02, 0.2]}\n'
        '  - {name: post, position: [0.6, 0.0, 0.1], size: [0.1, 0.1, 0.3]}\n'
        'part: {size: [0.045, 0.045, 0.045]}\n'
    )
    path = tmp_path / 'scene.yaml'
    path.write_text(text)
    load_scene(path)
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(InvalidInput, match=rf'scene.yaml:{line}: ') as refusal:
        load_scene(path)
    assert said in str(refusal.value)


def test_a_scene_cannot_be_changed():
    made = scene()
    with pytest.raises(FrozenInstanceError):
        made.table_height = 1.0
    with pytest.raises(ValueError, match='read-only'):
        made.tool.T_tool_tcp[0, 0] = 2.0


def test_a_box_keeps_its_own_copy_of_what_it_was_given():
    T = pose(0.5)
    box = Box('crate', T, (0.1, 0.1, 0.1))
    T[0, 3] = 0.9
    assert box.T_base_link_box[0, 3] == 0.5


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        *(
            (lambda name=name: Box(name, np.eye(4), (0.1, 0.1, 0.1)), '1 to 64 printable char')
            for name in ('', 'x' * 65, 'line\nbreak')
        ),
        *((lambda n=n: crate(n), 'is taken') for n in ('table', 'part', 'forearm')),
        (lambda: with_boxes(scene(), crate('gripper')), "two pieces are called 'gripper'"),
    ],
)
def test_a_box_without_a_name_of_its_own_is_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_more_boxes_than_a_check_can_afford_are_refused():
    full = replace(scene(), boxes=tuple(crate(f'box {i}') for i in range(MAX_BOXES)))
    with pytest.raises(InvalidInput, match=f'{MAX_BOXES + 1} boxes: at most {MAX_BOXES}'):
        with_boxes(full, crate('one more'))


def test_nothing_can_be_carried_where_no_part_is_known():
    with pytest.raises(InvalidInput, match='the scene file has no part'):
        replace(scene(), part=None, carried=True)


def test_equal_scenes_have_equal_fingerprints_whatever_the_order_of_their_boxes():
    a, b = crate('a'), crate('b', x=-0.0)
    assert (
        with_boxes(scene(), a, b).fingerprint()
        == with_boxes(scene(), crate('b', x=0.0), a).fingerprint()
    )


def test_the_fingerprint_outlives_the_process():
    """A plan kept on disk is judged by it; a change of its recipe must be meant."""
    assert with_boxes(scene(), crate()).fingerprint() == '55462ecfe768cf80'


def test_picking_the_part_up_keeps_the_fingerprint():
    assert replace(scene(), carried=True).fingerprint() == scene().fingerprint()


@pytest.mark.parametrize(
    'change',
    [
        lambda s: replace(s, table_height=0.001),
        lambda s: replace(s, mounting=Mounting.read('wall')),
        lambda s: replace(s, margin=0.006),
        lambda s: replace(s, part=None),
        lambda s: replace(s, part=Part(pose(z=0.001), s.part.size)),
        lambda s: replace(s, tool=Tool(pose(z=0.146), s.tool.shapes)),
        lambda s: replace(s, tool=Tool(s.tool.T_tool_tcp)),
        lambda s: with_boxes(s, crate('other')),
        lambda s: replace(s, boxes=[crate(x=0.501)]),
        lambda s: replace(s, boxes=[crate(size=0.101)]),
        lambda s: replace(s, boxes=()),
    ],
)
def test_any_change_that_a_plan_relies_on_changes_the_fingerprint(change):
    before = with_boxes(scene(), crate())
    assert change(before).fingerprint() != before.fingerprint()
