# SPDX-License-Identifier: Apache-2.0
"""Rigid motions: exp and log undo each other, near 0 and pi too, and formats convert exactly."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation
from twists import exp_se3

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import forward, inverse, load_model
from ur5_pick_place.kinematics.transforms import (
    check_transform,
    exp_so3,
    inverse_transform,
    is_finite,
    log_se3,
    log_so3,
    make_transform,
    matrix_from_quat,
    matrix_from_rpy,
    pose_from_quat,
    quat_from_matrix,
    rpy_from_matrix,
)

ANGLES = [0.0, 1e-200, 1e-12, 1e-8, 1e-5, 0.99e-4, 1.01e-4, 1e-3, 0.1, 1.0, 3.0]
ANGLES += [np.pi - 1e-3, np.pi - 1e-6, np.pi - 1e-9, np.pi]


def random_twists(rng: np.random.Generator, angle: float, n: int = 50) -> np.ndarray:
    axis = rng.normal(size=(n, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    return np.hstack([rng.uniform(-1, 1, (n, 3)), angle * axis])


def twist_matrix(xi: np.ndarray) -> np.ndarray:
    v1, v2, v3, w1, w2, w3 = xi
    return np.array([[0, -w3, w2, v1], [w3, 0, -w1, v2], [-w2, w1, 0, v3], [0, 0, 0, 0]])


@pytest.mark.parametrize('angle', ANGLES)
def test_exp_equals_the_matrix_exponential(angle, rng):
    twists = random_twists(rng, angle)
    expected = np.array([expm(twist_matrix(xi)) for xi in twists])
    assert np.abs(exp_se3(twists) - expected).max() < 1e-14
    assert np.abs(exp_so3(twists[:, 3:]) - expected[:, :3, :3]).max() < 1e-14


@pytest.mark.parametrize('angle', ANGLES)
def test_log_undoes_exp(angle, rng):
    """At pi the twist may come back about the opposite axis: then poses are compared alone."""
    twists = random_twists(rng, angle)
    back = log_se3(exp_se3(twists))
    if angle < np.pi - 1e-8:
        assert np.abs(back - twists).max() < 1e-13
    assert np.abs(exp_se3(back) - exp_se3(twists)).max() < 1e-14
    assert np.linalg.norm(back[:, 3:], axis=1).max() <= np.pi + 1e-15


def test_tiny_rotations_keep_their_digits():
    w = np.array([3e-9, -4e-9, 1e-10])
    assert np.abs(log_so3(exp_so3(w)) / w - 1).max() < 1e-14


def test_inverse_transform_is_the_inverse(rng):
    T = exp_se3(random_twists(rng, 2.5))
    assert np.abs(inverse_transform(T) @ T - np.eye(4)).max() < 1e-14


@pytest.mark.parametrize('angle', ANGLES)
def test_quaternions_convert_as_scipy_does(angle, rng):
    R = exp_so3(random_twists(rng, angle)[:, 3:])
    quat = quat_from_matrix(R)
    assert (quat[:, 3] >= 0.0).all()
    assert np.abs(np.linalg.norm(quat, axis=1) - 1).max() < 1e-14
    assert np.abs(matrix_from_quat(quat) - R).max() < 1e-14
    assert np.abs(Rotation.from_quat(quat).as_matrix() - R).max() < 1e-14
    assert np.abs(matrix_from_quat(-3.0 * quat) - R).max() < 1e-14
    pose = make_transform(matrix_from_quat(quat[0]), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(pose_from_quat((1.0, 2.0, 3.0), tuple(quat[0])), pose)


def test_roll_pitch_yaw_turn_about_fixed_axes(rng):
    rpy = rng.uniform([-np.pi, -np.pi / 2, -np.pi], [np.pi, np.pi / 2, np.pi], (1000, 3))
    R = matrix_from_rpy(rpy)
    assert np.abs(R - Rotation.from_euler('xyz', rpy).as_matrix()).max() < 1e-14
    assert np.abs(matrix_from_rpy(rpy_from_matrix(R)) - R).max() < 1e-14
    steady = np.abs(np.abs(rpy[:, 1]) - np.pi / 2) > 0.01
    assert np.abs(rpy_from_matrix(R) - rpy)[steady].max() < 1e-12


@pytest.mark.parametrize('pitch', [np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-9, np.pi / 2 - 1e-14])
def test_at_gimbal_lock_the_three_angles_still_give_the_rotation(pitch, rng):
    rpy = rng.uniform(-3, 3, (100, 3))
    rpy[:, 1] = pitch
    R = matrix_from_rpy(rpy)
    assert np.abs(matrix_from_rpy(rpy_from_matrix(R)) - R).max() < 1e-11


def test_shapes_are_kept():
    stack = np.zeros((2, 3, 6))
    T = exp_se3(stack)
    assert T.shape == (2, 3, 4, 4)
    assert log_se3(T).shape == (2, 3, 6)
    assert quat_from_matrix(T[..., :3, :3]).shape == (2, 3, 4)
    assert rpy_from_matrix(T[..., :3, :3]).shape == (2, 3, 3)
    assert make_transform(np.eye(3), np.zeros((5, 3))).shape == (5, 4, 4)


def test_a_good_transform_is_returned_as_float64():
    T = check_transform(np.eye(4, dtype=int).tolist())
    assert T.dtype == np.float64 and np.array_equal(T, np.eye(4))


def test_the_tolerance_of_a_transform_is_a_millionth():
    T = np.eye(4)
    T[0, 0] = 1.0 + 0.4e-6
    check_transform(T)
    T[0, 0] = 1.0 + 0.6e-6
    with pytest.raises(InvalidInput, match=r'pose: not a rotation: entry \[0, 0\]'):
        check_transform(T, 'pose')


@pytest.mark.parametrize('solve', ['one pose', 'a stack'])
@pytest.mark.parametrize('column', range(4))
def test_the_last_row_has_the_same_tolerance(column, solve):
    """The product of a few inverted transforms is off by rounding there."""
    model, T = load_model('ur5'), forward(load_model('ur5'), np.ones(6))
    poses = T if solve == 'one pose' else np.array([T, T])
    wanted, ok = inverse(model, poses)
    for off in (1e-12, -0.9e-6):
        poses[..., 3, column] += off
        check_transform(poses)
        q, found = inverse(model, poses)
        assert np.array_equal(found, ok)
        assert np.abs(q - wanted)[ok].max() < 1e-9
        poses[..., 3, column] -= off
    poses[..., 3, column] += 1.1e-6
    with pytest.raises(InvalidInput, match=rf'entry \[3, {column}\] = .*: must be [01]$'):
        inverse(model, poses)


def test_a_third_axis_beside_the_cross_product_is_named():
    """Each product of columns is within the tolerance, the third axis is not."""
    T = np.eye(4)
    T[:3, :3] *= 1.0 + 0.45e-6
    check_transform(T)
    T[0, 0], T[1, 1], T[2, 2] = 1.0 + 0.49e-6, 1.0 + 0.49e-6, 1.0 - 0.49e-6
    with pytest.raises(InvalidInput, match=r'entry \[2, 2\] is 1\.47e-06 from the cross product'):
        check_transform(T)


@pytest.mark.parametrize('quat', [[0, 0, 0, 0], [0, 0, np.nan, 1], [np.inf, 0, 0, 0]])
def test_a_quaternion_without_a_direction_is_refused(quat):
    with pytest.raises(ValueError, match='must be finite and other than zero'):
        matrix_from_quat(quat)
    with pytest.raises(ValueError, match='must be finite and other than zero'):
        pose_from_quat((0.0, 0.0, 0.0), tuple(quat))


@pytest.mark.parametrize('value, expected', [(1e200, True), (np.inf, False), (np.nan, False)])
def test_a_number_is_finite_even_if_its_square_is_not(value, expected):
    assert is_finite(np.array([[0.0, -value], [1.0, 2.0]])) is expected
