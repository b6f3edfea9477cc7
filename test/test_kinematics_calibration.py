# SPDX-License-Identifier: Apache-2.0
"""A calibrated arm is the chain of its file, and its inverse meets it to the last digit."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import assert_transforms_close
from scipy.spatial.transform import Rotation

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import (
    BRANCHES,
    classify,
    forward,
    inverse,
    jacobian,
    link_frames,
    load_model,
)
from ur5_pick_place.kinematics.calibration import LINKS, calibration_offset
from ur5_pick_place.kinematics.transforms import inverse_transform, log_se3

# What the driver ships for the UR5: x, y, z [m], roll, pitch, yaw [rad] of each joint.
SHIPPED = {
    'shoulder': (0, 0, 0.089159, 0, 0, 0),
    'upper_arm': (0, 0, 0, 1.570796327, 0, 0),
    'forearm': (-0.425, 0, 0, 0, 0, 0),
    'wrist_1': (-0.39225, 0, 0.10915, 0, 0, 0),
    'wrist_2': (0, -0.09465, -1.941303950897609e-11, 1.570796327, 0, 0),
    'wrist_3': (
        0,
        0.0823,
        -1.688001216681175e-11,
        1.570796326589793,
        3.141592653589793,
        3.141592653589793,
    ),
}


def write(path: Path, links: dict) -> Path:
    entries = {
        link: dict(zip(('x', 'y', 'z', 'roll', 'pitch', 'yaw'), map(float, pose), strict=True))
        for link, pose in links.items()
    }
    path.write_text(yaml.safe_dump({'kinematics': {**entries, 'hash': 'calib_1234'}}))
    return path


@pytest.fixture
def calibrated(tmp_path: Path, rng: np.random.Generator) -> tuple[Path, dict]:
    """An arm whose joints are off by about half a millimetre and a milliradian each."""
    off = rng.normal(0, [5e-4] * 3 + [1e-3] * 3, (6, 6))
    links = {link: np.add(SHIPPED[link], off[i]) for i, link in enumerate(LINKS)}
    return write(tmp_path / 'calibration.yaml', links), links


def forward_as_urdf(links: dict, q: np.ndarray) -> np.ndarray:
    """Give the last link's pose in `base`: the joints' poses of the file, each turned about z."""
    T = np.eye(4)
    for link, angle in zip(LINKS, q, strict=True):
        joint = np.eye(4)
        joint[:3, :3] = Rotation.from_euler('xyz', links[link][3:]).as_matrix()
        joint[:3, 3] = links[link][:3]
        turn = np.eye(4)
        turn[:3, :3] = Rotation.from_rotvec([0, 0, angle]).as_matrix()
        T = T @ joint @ turn
    return T


def test_forward_is_the_chain_of_the_file(
    calibrated: tuple[Path, dict], rng: np.random.Generator
) -> None:
    path, links = calibrated
    m = load_model(path)
    assert (m.name, m.calibration) == ('ur5', 'calib_1234')
    for q in rng.uniform(-np.pi, np.pi, (50, 6)):
        assert_transforms_close(forward(m, q), forward_as_urdf(links, q), 1e-14, 1e-14)


def test_link_frames_are_the_ideal_ones_moved_a_little(calibrated: tuple[Path, dict]) -> None:
    m, ideal = load_model(str(calibrated[0])), load_model('ur5')
    moved = link_frames(m, np.ones(6)) - link_frames(ideal, np.ones(6))
    assert np.abs(moved[0]).max() == 0.0
    assert 1e-5 < np.abs(moved[1:]).max() < 0.02


def test_the_jacobian_of_a_calibrated_arm_equals_differences(
    calibrated: tuple[Path, dict], rng: np.random.Generator
) -> None:
    m, h = load_model(calibrated[0]), 1e-5
    q = rng.uniform(-np.pi, np.pi, (50, 1, 6))
    ahead, behind = forward(m, q + h * np.eye(6)), forward(m, q - h * np.eye(6))
    differences = log_se3(inverse_transform(behind) @ ahead) / (2 * h)
    assert np.abs(np.swapaxes(differences, -1, -2) - jacobian(m, q[:, 0])).max() < 1e-9


def test_every_random_pose_of_a_calibrated_arm_is_solved(
    calibrated: tuple[Path, dict], rng: np.random.Generator
) -> None:
    m = load_model(calibrated[0])
    joints = rng.uniform(-np.pi, np.pi, (500, 6))
    T = forward(m, joints)
    q, ok = inverse(m, T)
    assert ok.any(axis=1).all()
    rows, poses = q[ok], np.repeat(T, ok.sum(axis=1), axis=0)
    assert np.abs(log_se3(inverse_transform(poses) @ forward(m, rows))).max() < 1e-10
    assert np.array_equal(classify(m, rows), np.nonzero(ok)[1])
    assert ((rows > -np.pi) & (rows <= np.pi)).all()
    assert share_found(q, joints) > 0.99


def share_found(q: np.ndarray, joints: np.ndarray) -> float:
    """How many joints, (n, 6), are among the solutions of their poses, (n, 8, 6)."""
    apart = np.abs(np.angle(np.exp(1j * (q - joints[:, None])))).max(axis=-1)
    return float(np.mean(np.nanmin(apart, axis=1) < 1e-5))


@pytest.mark.parametrize(
    ('joint', 'angle', 'share'),
    [(2, 0.0, 0.95), (2, np.pi, 0.85), (4, 0.0, 0.85), (4, 0.01, 0.95)],
)
def test_where_the_ideal_arm_is_singular_a_calibrated_one_is_still_answered(
    joint: int, angle: float, share: float, calibrated: tuple[Path, dict], rng: np.random.Generator
) -> None:
    """
    Its own singularities lie beside those of the ideal arm, and part its branches.

    What is still lost is too near to a singularity of its own for Newton's method, or shares its
    label with another solution.

    """
    m = load_model(calibrated[0])
    joints = rng.uniform(-np.pi, np.pi, (200, 6))
    joints[:, joint] = angle
    T = forward(m, joints)
    q, ok = inverse(m, T)
    assert ok.any(axis=1).all()
    poses = np.repeat(T, ok.sum(axis=1), axis=0)
    assert np.abs(log_se3(inverse_transform(poses) @ forward(m, q[ok]))).max() < 1e-10
    assert np.array_equal(classify(m, q[ok]), np.nonzero(ok)[1])
    assert share_found(q, joints) > share


def test_one_pose_and_the_ideal_arm_say_how_far_they_differ(
    calibrated: tuple[Path, dict],
) -> None:
    m = load_model(calibrated[0])
    q, ok = inverse(m, forward(m, np.ones(6)))
    assert ok[BRANCHES.index('left-up-down')]
    assert np.abs(q[0] - 1).max() < 1e-9
    metres, radians = calibration_offset(m, np.ones((3, 6)))
    delta = inverse_transform(forward(load_model('ur5'), np.ones(6))) @ forward(m, np.ones(6))
    assert np.allclose(metres, np.linalg.norm(delta[:3, 3]))
    assert np.allclose(radians, np.linalg.norm(log_se3(delta)[3:]))


def test_out_of_reach_is_out_of_reach(calibrated: tuple[Path, dict]) -> None:
    m = load_model(calibrated[0])
    T = forward(m, np.ones(6))
    T[0, 3] = 2.0
    assert not inverse(m, T)[1].any()


def test_the_shipped_file_is_the_ideal_arm(tmp_path: Path) -> None:
    """Its ten digits of pi/2 must not make a calibrated arm of it."""
    m = load_model(write(tmp_path / 'default_kinematics.yaml', SHIPPED))
    assert (m.name, m.mounts, m.calibration) == ('ur5', None, 'calib_1234')
    assert np.array_equal(forward(m, np.ones(6)), forward(load_model('ur5'), np.ones(6)))


def test_flipped_angles_are_the_same_joint(tmp_path: Path) -> None:
    """A file may turn the forearm by pi about all three axes, which is no turn at all."""
    flipped = {**SHIPPED, 'forearm': (-0.425, 0, 0, np.pi, np.pi, np.pi)}
    assert load_model(write(tmp_path / 'flipped.yaml', flipped)).mounts is None


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ('{', 'calibration file .* cannot be read'),
        ('[1, 2]', "has no 'kinematics'"),
        ('kinematics: {shoulder: 3}', "kinematics has no 'shoulder'; it needs shoulder, upper"),
        ('kinematics: {shoulder: {x: 0}}', 'shoulder.y = None: must be a finite number'),
        ('kinematics: {shoulder: {x: .nan}}', 'shoulder.x = nan: must be a finite number'),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / 'calibration.yaml'
    path.write_text(content)
    with pytest.raises(InvalidInput, match=message):
        load_model(path)


def test_a_missing_file_and_another_robot_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match='nowhere.yaml cannot be read'):
        load_model(tmp_path / 'nowhere.yaml')
    longer = {**SHIPPED, 'forearm': (-0.5, 0, 0, 0, 0, 0)}
    with pytest.raises(InvalidInput, match='the nearest arm is ur5, but a length differs by 0.07'):
        load_model(write(tmp_path / 'longer.yaml', longer))
