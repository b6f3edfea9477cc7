# SPDX-License-Identifier: Apache-2.0
"""The demo's command line and the spots it accepts: everything is checked before it starts."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from ur5_pick_place.demo.options import read_options
from ur5_pick_place.demo.spots import Displacement, Spot, SpotChecker
from ur5_pick_place.errors import InvalidInput


@pytest.fixture(scope='module')
def checker() -> SpotChecker:
    return SpotChecker()


def test_tcp_grips_the_cube_at_its_centre_pointing_down():
    spot = Spot(0.4, -0.1, math.radians(30.0))
    wanted = Rotation.from_euler('z', 30, degrees=True) * Rotation.from_euler('x', math.pi)
    np.testing.assert_allclose(spot.T_base_link_grip[:3, :3], wanted.as_matrix(), atol=1e-12)
    np.testing.assert_allclose(spot.T_base_link_grip[:3, 3], [0.4, -0.1, 0.0225])


def test_a_spot_is_typed_and_read_in_metres_and_degrees_and_kept_in_radians():
    task = read_options(['--start', '0.4 -0.1 30', '--displace', '5 -2 10']).task
    assert str(task.start) == '(0.400, -0.100) m, 30 deg'
    assert task.start is not None
    assert task.start[:3] == pytest.approx((0.4, -0.1, math.radians(30.0)))
    assert task.displacement == pytest.approx((0.005, -0.002, math.radians(10.0)))


def test_a_displacement_is_added_to_a_spot():
    moved = Spot(0.4, -0.1, 0.5).moved(Displacement(0.005, -0.002, 0.1))
    assert moved[:3] == pytest.approx((0.405, -0.102, 0.6))


@pytest.mark.parametrize(
    ('start', 'target', 'message'),
    [
        ('0.9 0 0', '0.4 0.2 0', 'start.*off the table.*x must be within -0.327 to 0.828'),
        ('0.825 0 45', '0.4 0.2 0', 'off the table'),  # lies there with 0 deg, not with 45
        ('0.4 0.2 0', '0.4 -0.59 0', 'target.*off the table.*y'),
        ('0.8 0.55 0', '0.4 0.2 0', 'start.*out of reach.*too far.*0.25 to 0.7 m'),
        ('0 0 0', '0.4 0.2 0', 'start.*out of reach.*cylinder'),
        ('0.4 0.2 0', '0.4 0.2 0', '0 mm apart.*45 mm'),
        ('0.4 0.2 0', '0.43 0.23 90', '42 mm apart.*45 mm'),
    ],
)
def test_refuses_a_pair_that_cannot_be_done(start, target, message):
    with pytest.raises(InvalidInput, match=message):
        read_options(['--start', start, '--target', target])


def test_a_yaw_that_only_turns_the_cube_off_the_edge_is_refused(checker):
    assert checker.check_spot('start', Spot(0.825, 0.0, 0.0)).any()


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--method', 'magic'], 'invalid choice'),
        (['--start', '0.4 0.2'], 'three finite numbers: x y yaw'),
        (['--target', '0.4 nan 0'], 'three finite numbers'),
        (['--displace', '30 0 0'], 'within 10 mm'),
        (['--rtf', '0'], '0.05 to 5'),
        (['--rtf', 'fast'], '0.05 to 5'),
        (['--rtf', 'inf'], '0.05 to 5'),
        (['--seed', '-1'], 'whole number'),
        (['--wall', '3'], '0.05 to 0.6'),
        (['--grid', '2 1'], 'must be three whole numbers, 1 to 9'),
    ],
)
def test_refuses_a_malformed_argument(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        read_options(arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_bad_input_starts_nothing_and_makes_no_folder(tmp_path):
    demo = Path(sys.executable).with_name('demo')
    run = subprocess.run(
        [demo, '--start', '2 0 0'], cwd=tmp_path, capture_output=True, text=True, env=os.environ
    )
    assert run.returncode == 2
    assert run.stderr.startswith('demo: start: the cube at (2.000, 0.000) m')
    assert run.stdout == ''
    assert not list(tmp_path.iterdir())


def test_an_output_folder_that_is_none_is_refused(tmp_path, monkeypatch):
    (tmp_path / 'file').write_text('')
    with pytest.raises(InvalidInput, match='file is not a writable folder'):
        read_options(['--out', str(tmp_path / 'file')])
    (tmp_path / 'link').symlink_to(tmp_path / 'nothing')
    with pytest.raises(InvalidInput, match='link is not a writable folder'):
        read_options(['--out', str(tmp_path / 'link')])
    with pytest.raises(InvalidInput, match='/proc is not a writable folder: '):
        read_options(['--out', '/proc/out'])  # where access rights allow root to write
    (tmp_path / 'latest').mkdir()
    with pytest.raises(InvalidInput, match='is not a symlink'):
        read_options(['--out', str(tmp_path)])
    (tmp_path / 'gone').mkdir()
    monkeypatch.chdir(tmp_path / 'gone')
    (tmp_path / 'gone').rmdir()
    with pytest.raises(InvalidInput, match='out is not a writable folder: No such'):
        read_options(['--out', 'out'])


def test_same_seed_gives_same_spots_and_another_gives_others():
    tasks = [read_options(['--seed', seed]).task for seed in ('1', '1', '2')]
    assert tasks[0] == tasks[1] != tasks[2]


def test_seed_leaves_alone_what_is_given():
    task = read_options(['--seed', '4', '--start', '0.5 0.1 20']).task
    assert task.start == Spot(0.5, 0.1, math.radians(20.0))
    assert task.target != read_options([]).task.target


def test_random_pairs_differ_and_can_all_be_done(checker, rng):
    pairs = [checker.random_pair(rng) for _ in range(50)]
    for start, target in pairs:
        checker.check_pair(start, target)
    x = [spot.x for pair in pairs for spot in pair]
    assert min(x) < -0.1
    assert max(x) > 0.5
