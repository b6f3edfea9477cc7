# SPDX-License-Identifier: Apache-2.0
"""`make cell` refuses what it cannot be, in one line and before anything starts."""

import contextlib
import re
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('mujoco')

from ur5_pick_place.demo import live_cell
from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.demo.processes import own_domain
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    exp_so3,
    make_transform,
    tool_down,
)
from ur5_pick_place.task.places.poses import Provenance, TaughtPose, numbers_from_matrix


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Start nothing, and use places of its own."""

    def forbidden(*_arguments: object) -> None:
        raise AssertionError('no node may start')

    monkeypatch.setattr(live_cell, 'NodeProcesses', forbidden)
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    monkeypatch.delenv('ROS_DOMAIN_ID', raising=False)
    monkeypatch.delenv('MAKELEVEL', raising=False)


def refusal(monkeypatch: pytest.MonkeyPatch, capsys, *words: str) -> str:
    monkeypatch.setattr(sys, 'argv', ['cell', *words])
    with pytest.raises(SystemExit) as end:
        sys.exit(live_cell.main())
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    'words',
    [
        ('--ur-type', 'ur7'), ('--rtf', '0'), ('--rtf', 'nan'), ('--rtf', 'x'), ('--port', '-1'),
        ('--port', '70000'), ('--gripper', 'hook'),
        ('--parts', '0'), ('--parts', '25'), ('--cycle', 'none.yaml'),
    ],
)
def test_an_option_out_of_range_is_named(monkeypatch, capsys, words) -> None:
    text = refusal(monkeypatch, capsys, *words)
    assert words[1] in text
    assert words[0] in text or words[0] == '--cycle'


def test_a_taken_port_is_named_with_another_one(monkeypatch, capsys) -> None:
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        text = refusal(monkeypatch, capsys, '--port', str(port))
    assert text.count('\n') == 1
    assert f'port {port} is in use' in text


def test_a_second_cell_on_the_same_domain_says_so(monkeypatch, capsys) -> None:
    with own_domain() as domain:
        monkeypatch.setenv('ROS_DOMAIN_ID', str(domain))
        text = refusal(monkeypatch, capsys, '--port', '0')
    assert text.count('\n') == 1
    assert f'another cell runs on ROS_DOMAIN_ID {domain}' in text


@pytest.mark.parametrize(
    ('words', 'domain', 'name'),
    [
        ((), 0, 'poses_sim.yaml'),
        ((), 1, 'poses_sim_domain1.yaml'),
        (('--ur-type', 'ur5e'), 0, 'poses_sim_ur5e.yaml'),
        (('--ur-type', 'ur5e'), 1, 'poses_sim_ur5e_domain1.yaml'),
        (('--ur-type', 'ur3', '--gripper', 'vacuum'), 0, 'poses_sim_ur3_vacuum.yaml'),
    ],
)
def test_each_type_gripper_and_domain_has_its_own_places(
    monkeypatch, capsys, tmp_path, words, domain, name
) -> None:
    monkeypatch.setenv('ROS_DOMAIN_ID', str(domain))
    file = tmp_path / '.ros/ur5_pick_place' / name
    file.parent.mkdir(parents=True)
    file.write_text('format: 1\nposes: [\n...\n')
    assert str(file) in refusal(monkeypatch, capsys, '--port', '0', *words)


# ---- where the cube lies


def taught(*T_base_link_tcp: np.ndarray) -> dict[str, TaughtPose]:
    """Return start and target taught at poses of the TCP."""
    source = Provenance('ur5', '', (0.0,) * 6 + (1.0,), 0.0)
    poses = [TaughtPose(numbers_from_matrix(T_BASE_BASE_LINK @ T), source, '')
             for T in T_base_link_tcp]
    return dict(zip(('start', 'target'), poses, strict=True))


def test_start_and_target_that_are_one_place_are_taught_anew():
    T = tool_down(0.4, 0.1, 0.02, 0.0)
    both = taught(T, T)
    left, remark = live_cell.usable_places({**both, 'home': both['start']})
    assert set(left) == {'home'}
    assert 'start and target were the same place: both are taught anew' in remark
    for other in tool_down(0.4, 0.2, 0.02, 0.0), tool_down(0.4, 0.1, 0.02, 1.0):
        two = taught(T, other)
        assert live_cell.usable_places(two) == (two, '')


@pytest.mark.parametrize(
    ('T', 'lies', 'remark'),
    [
        (tool_down(0.4, 0.1, 0.02, 0.3), (0.4, 0.1), ''),
        (tool_down(0.4, 0.1, 0.20, 0.3), (0.4, 0.1), 'not at start: .*178 mm above'),
        (tool_down(0.4, 0.1, 0.02, 0.3) @ make_transform(exp_so3([0.5, 0, 0]), [0, 0, 0]),
         (0.4, 0.1), 'not at start: .*tilted by 29 deg'),
        (tool_down(3.0, 0.1, 0.02, 0.3), (0.45, -0.2), "demo's start.*off the table"),
    ],
)
def test_a_cube_that_does_not_lie_at_start_is_told(T, lies, remark):
    spot, told = live_cell.spot_of_cube(T_BASE_BASE_LINK @ T, CellSetup())
    assert (spot.x, spot.y) == pytest.approx(lies)
    assert re.search(remark, told) if remark else not told


@pytest.mark.parametrize(
    ('file', 'ur_type', 'gripper', 'places'),
    [
        ('', 'ur5', 'digital', {'home', 'start', 'target'}),
        ('cycle_tag.yaml', 'ur10e', 'vacuum', {'home', 'target'}),
        ('cycle_two_boxes.yaml', 'ur3', 'action', {'home', 'part_1', 'part_2', 'box_1', 'box_2'}),
    ],
)
def test_the_task_gets_the_cycle_file_and_its_places_are_taught(
    monkeypatch, capsys, file, ur_type, gripper, places
) -> None:
    found: dict = {}

    @contextlib.contextmanager
    def keep_nodes(specs, _domain, _folder):
        found.update({spec.executable: spec.parameters for spec in specs})
        yield

    def keep_places(*arguments: object) -> None:
        found['taught'] = set(arguments[-1])
        raise InvalidInput('that was all')

    monkeypatch.setattr(live_cell, 'NodeProcesses', keep_nodes)
    monkeypatch.setattr(live_cell, '_prepare', keep_places)
    with own_domain() as domain:  # free again afterwards
        monkeypatch.setenv('ROS_DOMAIN_ID', str(domain))
    words = ('--cycle', file, '--ur-type', ur_type, '--gripper', gripper)
    refusal(monkeypatch, capsys, '--port', '0', *words)
    assert Path(found['pick_place']['cycle_file']).name == (file or 'cycle.yaml')
    assert found['taught'] == places
    sim = found['sim_driver']
    assert (sim['part_x'], sim['part_y']) == default_spots(CellSetup(ur_type))[0][:2]
    assert sim['gripper'] == found['pick_place']['gripper'] == gripper
