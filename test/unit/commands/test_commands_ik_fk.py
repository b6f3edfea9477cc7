# SPDX-License-Identifier: Apache-2.0
"""The commands `ik` and `fk` say what the library finds, in the units and frame asked for."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ur5_pick_place.commands import fk, ik
from ur5_pick_place.kinematics import BRANCHES, HOME, explain, forward, load_model
from ur5_pick_place.kinematics.transforms import log_so3

SCENE = str(Path(__file__).parents[3] / 'config' / 'scene_sim.yaml')
UR5 = load_model('ur5')
DEG = np.pi / 180

# The pose of home in `base_link`, in the three ways to write its orientation.
HOME_XYZ = ['--xyz', '0.4869', '0.10915', '0.431859']
HOME_TURNS = [
    ['--rpy', '180', '0', '-90'],
    ['--quat', '0.5', '-0.5', '0', '0'],
    ['--rotvec', '127.2792206135786', '-127.2792206135786', '0'],
]


def solutions(capsys: pytest.CaptureFixture[str], *argv: str) -> dict:
    assert ik.main([*argv, '--json']) == 0
    found: dict = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize('turn', HOME_TURNS)
def test_home_is_found_from_every_way_to_write_its_pose(turn, capsys):
    best = solutions(capsys, *HOME_XYZ, *turn)['solutions'][0]
    assert best['branch'] == 'left-up-up'
    assert np.allclose(best['joints'], [0, -90, 90, -90, -90, 0], atol=1e-9)
    assert np.isclose(best['distance_to_seed'], 0, atol=1e-9)
    assert np.isclose(best['limit_margin'], 90)
    assert np.isclose(best['shoulder_singularity_m'], 0.4869)
    assert best['collision'] == ''


def test_ik_answers_all_eight_and_each_leads_back(capsys):
    found = solutions(
        capsys, '--xyz', '0.3', '-0.2', '0.4', '--rpy', '3', '0.2', '1', '--radians',
        '--frame', 'base', '--seed', *['0.5'] * 6,
    )  # fmt: skip
    assert found['angle_unit'] == 'rad'
    rows = found['solutions']
    assert sorted(row['branch'] for row in rows) == sorted(BRANCHES)
    distances = [row['distance_to_seed'] for row in rows]
    assert distances == sorted(distances)
    for row in rows:
        assert np.allclose(forward(UR5, row['joints'])[:3, 3], [0.3, -0.2, 0.4], atol=1e-12)


def test_the_table_has_a_line_for_each_branch(capsys):
    assert ik.main([*HOME_XYZ, *HOME_TURNS[0]]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[0] == 'branch' and head.split()[-1] == 'collision'
    assert {line.split()[0] for line in lines} == set(BRANCHES)
    assert lines[0].split()[:7] == [
        'left-up-up', '0.00', '-90.00', '90.00', '-90.00', '-90.00', '0.00'
    ]  # fmt: skip


def test_out_of_reach_says_why_on_each_branch_and_fails(capsys):
    pose = ['--xyz', '1.2', '0', '0.3', '--rpy', '180', '0', '0']
    assert ik.main(pose) == 1
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 8
    assert all('too far: the arm, fully stretched, is 0.' in line for line in lines)
    assert ik.main([*pose, '--json']) == 1
    missing = json.loads(capsys.readouterr().out)['missing']
    T = np.diag([1.0, -1.0, -1.0, 1.0])
    T[:3, 3] = 1.2, 0, 0.3
    expected = explain(UR5, np.diag([-1.0, -1.0, 1.0, 1.0]) @ T)
    assert [m['amount'] for m in missing] == pytest.approx([m.amount for m in expected])


def test_the_table_of_a_scene_is_below_a_base_that_hangs(tmp_path, capsys):
    scene = tmp_path / 'scene.yaml'
    scene.write_text('table_height: -0.5\ntool: {tcp: {position: [0, 0, 0]}}')
    pose = ['--xyz', '0.4', '0.1', '0.48', '--rpy', '180', '0', '0', '--scene', str(scene)]
    for mounting, is_free in (('floor', True), ('ceiling', False), ('wall', True)):
        assert ik.main([*pose, '--json', '--mounting', mounting]) == 0
        contacts = [row['collision'] for row in json.loads(capsys.readouterr().out)['solutions']]
        assert ('' in contacts) is is_free, (mounting, contacts)


def test_a_scene_adds_the_tcp_and_what_is_in_the_way(capsys):
    pose = ['--rpy', '180', '0', '-90', '--scene', SCENE, '--tip', 'tcp']
    above = solutions(capsys, '--xyz', '0.4869', '0.10915', '0.286859', *pose)
    assert np.allclose(above['solutions'][0]['joints'], np.degrees(HOME), atol=1e-9)
    assert above['solutions'][0]['collision'] == ''
    below = solutions(capsys, '--xyz', '0.4869', '0.10915', '0.0', *pose)
    assert all('table' in row['collision'] for row in below['solutions'])


def test_a_calibrated_arm_says_how_far_it_is_from_the_ideal_one(tmp_path, capsys):
    poses = {
        'shoulder': 'z: 0.0893, x: 0.001, y: 0, roll: 0, pitch: 0, yaw: 0.001',
        'upper_arm': 'x: 0, y: 0, z: 0, roll: 1.5707, pitch: 0, yaw: 0',
        'forearm': 'x: -0.4251, y: 0, z: 0, roll: 0, pitch: 0, yaw: 0',
        'wrist_1': 'x: -0.3922, y: 0, z: 0.1092, roll: 0, pitch: 0, yaw: 0',
        'wrist_2': 'x: 0, y: -0.0946, z: 0, roll: 1.5708, pitch: 0, yaw: 0',
        'wrist_3': 'x: 0, y: 0.0824, z: 0, roll: -1.5707, pitch: 0, yaw: 0',
    }
    path = tmp_path / 'calibration.yaml'
    links = ', '.join(f'{link}: {{{pose}}}' for link, pose in poses.items())
    path.write_text(f'kinematics: {{{links}, hash: calib_7}}')
    found = solutions(capsys, *HOME_XYZ, *HOME_TURNS[0], '--robot', str(path))
    assert found['calibration'] == 'calib_7'
    assert 1e-4 < found['solutions'][0]['calibration_offset_m'] < 5e-3
    assert ik.main([*HOME_XYZ, *HOME_TURNS[0], '--robot', str(path)]) == 0
    assert 'Calibration moves the tool by up to ' in capsys.readouterr().out


def test_fk_undoes_ik(capsys):
    assert fk.main(['10', '-80', '100', '-110', '-70', '20', '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    q = DEG * np.array([10, -80, 100, -110, -70, 20])
    T = np.diag([-1.0, -1.0, 1.0, 1.0]) @ forward(UR5, q)
    assert np.allclose(found['xyz'], T[:3, 3], atol=1e-15)
    assert np.allclose(found['rotvec'], log_so3(T[:3, :3]) / DEG, atol=1e-12)
    for key, option in (('rpy', '--rpy'), ('rotvec', '--rotvec'), ('quat_xyzw', '--quat')):
        pose = ['--xyz', *map(str, found['xyz']), option, *map(str, found[key])]
        rows = solutions(capsys, *pose)['solutions']
        row = next(row for row in rows if row['branch'] == found['branch'])
        assert np.allclose(row['joints'], np.degrees(q), atol=1e-9)


def test_fk_prints_the_pose_the_branch_and_what_is_wrong(capsys):
    assert fk.main(['0', '-90', '200', '-90', '-90', '0']) == 0
    text = capsys.readouterr().out
    assert 'branch        right-up-up' in text
    assert 'joints [3] are outside their limits' in text
    assert fk.main(['0', '-90', '90', '-90', '-90', '0', '--tip', 'tcp', '--scene', SCENE]) == 0
    text = capsys.readouterr().out
    assert 'xyz [m]       0.486900 0.109150 0.286859' in text
    assert 'limits        all joints within limits' in text and 'collision     free' in text


@pytest.mark.parametrize(
    ('command', 'argv', 'message'),
    [
        (ik, [*HOME_XYZ, '--quat', '0', '0', '0', '0'], 'must be finite and other than zero'),
        (ik, [*HOME_XYZ, *HOME_TURNS[0], '--robot', 'ur6'], "robot model 'ur6': must be one of"),
        (ik, [*HOME_XYZ, *HOME_TURNS[0], '--tip', 'tcp'], 'give it with --scene'),
        (ik, [*HOME_XYZ, *HOME_TURNS[0], '--scene', 'none.yaml'], 'none.yaml cannot be read'),
        (fk, ['0'] * 6 + ['--robot', 'x.yaml'], 'x.yaml cannot be read'),
    ],
)
def test_wrong_input_is_refused_with_the_reason(command, argv, message, capsys):
    assert command.main(argv) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.out == ''


@pytest.mark.parametrize(
    ('command', 'argv', 'message'),
    [
        (ik, HOME_XYZ, 'one of the arguments --rpy --quat --rotvec is required'),
        (ik, ['--xyz', '0', 'nan', '0', *HOME_TURNS[0]], 'nan: must be a finite number'),
        (fk, ['0', '0', '0', '0', '0', 'inf'], 'inf: must be a finite number'),
        (fk, ['0', '0', '0'], 'the following arguments are required'),
    ],
)
def test_wrong_usage_ends_with_code_2(command, argv, message, capsys):
    with pytest.raises(SystemExit) as exit_info:
        command.main(argv)
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_without_coal_and_ros_the_commands_still_answer():
    script = (
        'import sys\n'
        'for name in ("coal", "rclpy", "yaml", "scipy"): sys.modules[name] = None\n'
        'from ur5_pick_place.commands import ik\n'
        f'sys.exit(ik.main({[*HOME_XYZ, *HOME_TURNS[0]]!r}))\n'
    )
    run = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert 'not checked: coal is not installed' in run.stdout


def test_millimetres_and_degrees_in_place_of_metres_and_radians_are_asked_about(capsys):
    assert ik.main(['--xyz', '450', '100', '300', '--rpy', '180', '0', '0']) == 2
    assert 'ik: --xyz 450 100 300: is 550' in (said := capsys.readouterr().err)
    assert 'metres, not mm?' in said
    assert fk.main(['0', '-90', '90', '-90', '-90', '0', '--radians']) == 2
    assert 'omit --radians for degrees' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('angles', 'refused'),
    [
        (['--rpy', '180', '0', '90'], '--rpy = 180 rad'),
        (['--rotvec', '0', '-180', '0'], '--rotvec = -180 rad'),
        (['--rpy', '3.1', '0', '1.6', '--seed', '0', '-90', *'0000'], '--seed = -90 rad'),
    ],
)
def test_degrees_in_place_of_radians_give_no_solutions_of_a_wrong_pose(angles, refused, capsys):
    assert ik.main(['--xyz', '0.45', '-0.2', '0.3', *angles, '--radians']) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err == f'ik: {refused}: more than two turns; omit --radians for degrees\n'
