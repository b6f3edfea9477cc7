# SPDX-License-Identifier: Apache-2.0
"""TCP and table by touch: found where they were made up, and judged by how well they agree."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.touch import table_from_touches, tcp_from_touches
from ur5_pick_place.planning.scene.scene_file import load_scene, write_table_height, write_tcp

CONFIG = Path(__file__).parents[3] / 'config'
TCP, POINT = np.array([0.012, -0.007, 0.163]), np.array([-0.41, 0.18, 0.035])


def touches(rng, n, tilt=0.6, noise=0.0, axis=None):
    """Return poses of tool0 (n, 4, 4) whose TCP is at one point, within some noise [m]."""
    poses = np.tile(np.eye(4), (n, 1, 1))
    for T in poses:
        about = rng.normal(size=3) if axis is None else np.array(axis)
        turn = rng.uniform(0.5, 1.0) * tilt * about / np.linalg.norm(about)
        T[:3, :3] = (Rotation.from_euler('x', np.pi) * Rotation.from_rotvec(turn)).as_matrix()
        T[:3, 3] = POINT + noise * rng.normal(size=3) - T[:3, :3] @ TCP
    return poses


def test_the_tcp_of_exact_touches_is_found_exactly(rng):
    found = tcp_from_touches(touches(rng, 6))
    assert np.abs(found.position - TCP).max() < 1e-12
    assert np.abs(found.point - POINT).max() < 1e-12
    assert found.is_good and found.residual < 1e-12


def test_the_tcp_of_noisy_touches_is_that_of_a_general_optimiser(rng):
    poses = touches(rng, 8, noise=3e-4)
    R, t = poses[:, :3, :3], poses[:, :3, 3]
    best = least_squares(lambda x: (R @ x[:3] + t - x[3:]).ravel(), np.zeros(6), xtol=1e-15)
    found = tcp_from_touches(poses)
    assert np.abs(found.position - best.x[:3]).max() < 1e-8
    assert np.abs(found.point - best.x[3:]).max() < 1e-8
    assert found.residual == pytest.approx(np.sqrt(2.0 * best.cost / len(poses)), rel=1e-6)
    assert np.abs(found.position - TCP).max() < 1e-3 and found.is_good


def test_the_error_of_the_tcp_stays_within_the_amplification(rng):
    for _ in range(50):
        poses = touches(rng, 4, tilt=0.9)
        exact = tcp_from_touches(poses)
        shift = 1e-4 * rng.normal(size=(4, 3))
        poses[:, :3, 3] += shift
        error = np.linalg.norm(tcp_from_touches(poses).position - exact.position)
        assert error <= exact.amplification * np.linalg.norm(shift) * (1.0 + 1e-9)


def test_touches_that_do_not_turn_the_tool_enough_are_not_good(rng):
    found = tcp_from_touches(touches(rng, 5, axis=[0.0, 0.0, 1.0]))
    assert not found.is_good and 'about different axes' in found.advice
    assert 'turn the tool by 30 deg' in tcp_from_touches(touches(rng, 5, tilt=0.1)).advice


def test_the_touch_that_slipped_is_named(rng):
    poses = touches(rng, 8)
    poses[4, :3, 3] += [0.0, 0.006, 0.0]
    found = tcp_from_touches(poses)
    assert not found.is_good and found.worst_touch == 5
    assert re.search(r'worst \d\.\d\d mm \(touch 5\): allowed 1 mm: repeat touch 5', str(found))


def test_too_few_touches_and_no_numbers_are_refused(rng):
    with pytest.raises(InvalidInput, match='3 touches: at least 4'):
        tcp_from_touches(touches(rng, 3))
    with pytest.raises(InvalidInput, match='must be finite'):
        tcp_from_touches(np.full((4, 4, 4), np.nan))
    with pytest.raises(InvalidInput, match='at least 3 touches'):
        table_from_touches([[0.0, 0.0, 0.0]] * 2)
    with pytest.raises(InvalidInput, match='3 finite numbers'):
        table_from_touches(np.full((3, 3), np.inf))


def test_the_table_is_the_mean_height_and_its_tilt_that_of_the_plane():
    points = [[0.3, -0.2, 0.011], [0.3, 0.2, 0.012], [0.6, 0.0, 0.013]]
    found = table_from_touches(points)
    assert found.height == pytest.approx(0.012)
    normal = np.cross(np.subtract(points[1], points[0]), np.subtract(points[2], points[0]))
    assert found.tilt == pytest.approx(np.arccos(abs(normal[2]) / np.linalg.norm(normal)))
    assert found.is_good and found.worst == pytest.approx(0.001)


def test_a_tilted_table_and_touches_on_a_line_are_not_good():
    tilted = table_from_touches([[0.3, -0.2, 0.0], [0.3, 0.2, 0.0], [0.6, 0.0, 0.02]])
    assert 'levelled' in tilted.advice and tilted.worst_touch == 3
    line = table_from_touches([[0.3, -0.2, 0.0], [0.3, 0.0, 0.0], [0.31, 0.2, 0.0]])
    assert 'touch the corners' in line.advice


# ---- the scene file


def test_only_the_measured_numbers_of_a_scene_file_change(tmp_path):
    file = tmp_path / 'scene.yaml'
    before = (CONFIG / 'scene_sim.yaml').read_text()
    file.write_text(before)
    file.chmod(0o640)
    write_table_height(file, -0.0123)
    write_tcp(file, (0.001, 0.002, 0.1503))
    scene = load_scene(file)
    assert scene.table_height == -0.0123
    assert scene.tool.T_tool_tcp[:3, 3].tolist() == [0.001, 0.002, 0.1503]
    changed = file.read_text().splitlines()
    differ = [new for old, new in zip(before.splitlines(), changed, strict=True) if old != new]
    assert [line.split(':')[0].strip() for line in differ] == ['table_height', 'tcp']
    assert '# top of the table' in differ[0]
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ['scene.yaml']


def test_a_position_in_lines_of_its_own_is_replaced_and_its_rotation_kept(tmp_path):
    file = tmp_path / 'scene.yaml'
    file.write_text(
        'table_height: 0.0\n'
        'tool:\n  tcp:\n    position:\n    - 0.0\n    - 0.0\n    - 0.1\n'
        '    rpy: [0, 0, 90]  # deg\nboxes: []\n'
    )
    write_tcp(file, (0.0, 0.01, 0.2))
    T = load_scene(file).tool.T_tool_tcp
    assert T[:3, 3].tolist() == [0.0, 0.01, 0.2]
    assert T[1, 0] == pytest.approx(1.0)
    assert 'rpy: [0, 0, 90]  # deg\nboxes' in file.read_text()


@pytest.mark.parametrize(
    'was', ['-  0.0  # x\n{0}- 0.0\n{0}# z\n{0}- 0.1', '[0.0, 0.0,\n{0} 0.1]']
)
def test_the_comments_around_a_measured_position_stay(tmp_path, was):
    text = (
        'table_height: 0.0\ntool:\n  tcp:  # touched\n    position:\n      {}   # last\n'
        '    # the rotation\n    rpy: [0, 0, 90]\n  # no boxes\nboxes: []\n'
    )
    file, was = tmp_path / 'scene.yaml', was.format('      ')
    file.write_text(text.format(was))
    write_tcp(file, (0.0, 0.0, 0.2))
    now = was.replace('0.0', '0.000000').replace('0.1', '0.200000')
    assert file.read_text() == text.format(now)


def test_a_file_that_is_no_scene_and_a_value_out_of_bounds_change_nothing(tmp_path):
    file = tmp_path / 'scene.yaml'
    for text in ('', 'table_height: 0.0\n', 'a: &a 1\nb: *a\n'):
        file.write_text(text)
        with pytest.raises(InvalidInput, match='not changed'):
            write_table_height(file, 0.1)
        assert file.read_text() == text
    file.write_text((CONFIG / 'scene_sim.yaml').read_text())
    with pytest.raises(InvalidInput, match='must lie in'):
        write_table_height(file, 1000.0)
    with pytest.raises(InvalidInput, match='not changed'):
        write_table_height(tmp_path / 'missing.yaml', 0.0)
