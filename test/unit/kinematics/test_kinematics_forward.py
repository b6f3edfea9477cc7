# SPDX-License-Identifier: Apache-2.0
"""
Forward kinematics and Jacobians agree with derivations that share nothing with them.

Poses: with a product of exponentials whose screw axes are read off the drawing of the arm at zero,
and with the poses of the robot's own URDF. Jacobians: with differences of poses.
"""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from calibration_files import calibrated_arm
from closeness import assert_transforms_close
from independent_arm import URDF_POSES
from twists import exp_se3

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import (
    UR_TYPES,
    Model,
    classify,
    forward,
    inverse,
    jacobian,
    link_frames,
    load_model,
)
from ur5_pick_place.kinematics.transforms import (
    inverse_transform,
    log_se3,
    make_transform,
    matrix_from_quat,
)
from ur5_pick_place.planning.limits import tcp_and_elbow_speed

UR5 = load_model('ur5')


def forward_by_screws(m: Model, q: np.ndarray) -> np.ndarray:
    """Give the pose as exp(xi_1 q_1) ... exp(xi_6 q_6) M, with the arm lying along -x at zero."""
    a2, a3, d1, d4, d5, d6 = m.lengths
    elbow, wrist = (a2, 0, d1), (a2 + a3, 0, d1)
    screws = [  # axis and a point on it
        ((0, 0, 1), (0, 0, 0)),
        ((0, -1, 0), (0, 0, d1)),
        ((0, -1, 0), elbow),
        ((0, -1, 0), wrist),
        ((0, 0, -1), (a2 + a3, -d4, d1)),
        ((0, -1, 0), (a2 + a3, -d4, d1 - d5)),
    ]
    T = np.eye(4)
    for (axis, point), angle in zip(screws, q + m.offset, strict=True):
        T = T @ exp_se3(np.concatenate([-np.cross(axis, point), axis]) * angle)
    zero = make_transform([[1, 0, 0], [0, 0, -1], [0, 1, 0]], [a2 + a3, -d4 - d6, d1 - d5])
    return np.asarray(T @ zero)


@pytest.mark.parametrize('name', [*UR_TYPES, 'ur3_lab'])
def test_forward_equals_the_product_of_exponentials(name, rng):
    m = load_model(name)
    for q in rng.uniform(-2 * np.pi, 2 * np.pi, (50, 6)):
        assert np.abs(forward(m, q) - forward_by_screws(m, q)).max() < 1e-14


@pytest.mark.parametrize(('q', 'position', 'quat_xyzw'), URDF_POSES)
def test_forward_equals_the_urdf(q, position, quat_xyzw):
    """`base_link` is `base` turned by pi about z."""
    T_base_link_tool = np.diag([-1.0, -1.0, 1.0, 1.0]) @ forward(UR5, q)
    expected = make_transform(matrix_from_quat(quat_xyzw), position)
    assert_transforms_close(T_base_link_tool, expected, position=1e-6, angle=2e-6)


def test_link_frames_run_from_base_to_tool(rng):
    q = rng.uniform(-np.pi, np.pi, (3, 4, 6))
    frames = link_frames(UR5, q)
    assert frames.shape == (3, 4, 7, 4, 4)
    assert np.array_equal(frames[..., 0, :, :], np.broadcast_to(np.eye(4), (3, 4, 4, 4)))
    assert np.abs(frames[..., 6, :, :] - forward(UR5, q)).max() < 1e-14
    lengths = np.linalg.norm(np.diff(frames[..., :3, 3], axis=-2), axis=-1)
    assert np.abs(lengths - np.hypot(UR5.a, UR5.d)).max() < 1e-14


@pytest.mark.parametrize('name', ['ur5', 'ur3_lab', 'calibrated'])
def test_the_body_jacobian_equals_differences_of_poses(name, rng):
    m = calibrated_arm('ur5', rng) if name == 'calibrated' else load_model(name)
    h = 1e-5
    q = rng.uniform(-np.pi, np.pi, (100, 1, 6))
    ahead, behind = forward(m, q + h * np.eye(6)), forward(m, q - h * np.eye(6))
    differences = log_se3(inverse_transform(behind) @ ahead) / (2 * h)
    assert np.abs(np.swapaxes(differences, -1, -2) - jacobian(m, q[:, 0])).max() < 1e-9


def test_the_base_jacobian_is_the_body_jacobian_in_axes_of_the_base(rng):
    q = rng.uniform(-np.pi, np.pi, (20, 6))
    R = forward(UR5, q)[:, :3, :3]
    turned = np.zeros((20, 6, 6))
    turned[:, :3, :3] = turned[:, 3:, 3:] = R
    assert np.abs(turned @ jacobian(UR5, q) - jacobian(UR5, q, frame='base')).max() < 1e-14
    h = 1e-6
    moved = forward(UR5, q[:, None] + h * np.eye(6)) - forward(UR5, q[:, None] - h * np.eye(6))
    velocity = np.swapaxes(moved[..., :3, 3], -1, -2) / (2 * h)
    assert np.abs(velocity - jacobian(UR5, q, frame='base')[:, :3]).max() < 1e-9


def test_bad_joints_are_refused_by_name():
    with pytest.raises(ValueError, match=r'q has shape \(5,\): must be \(..., 6\)'):
        forward(UR5, np.zeros(5))
    with pytest.raises(InvalidInput, match=r'q\[1, 2\] = nan \(elbow_joint\): must be finite'):
        jacobian(UR5, [[0] * 6, [0, 0, np.nan, 0, 0, 0]])
    with pytest.raises(InvalidInput, match='q: not an array of numbers'):
        link_frames(UR5, ['a', 'b', 'c', 'd', 'e', 'f'])
    for call in (forward, classify):
        with pytest.raises(InvalidInput, match='q: not an array of numbers: .*too large'):
            call(UR5, [10**400, 0, 0, 0, 0, 0])
        with pytest.raises(InvalidInput, match='q: not an array of numbers: complex'):
            call(UR5, np.zeros(6, dtype=complex))
    with pytest.raises(InvalidInput, match="Jacobian frame 'world': must be 'tool' or 'base'"):
        jacobian(UR5, np.zeros(6), frame='world')  # type: ignore[arg-type]


def joints_of_all_kinds(rng: np.random.Generator) -> np.ndarray:
    """Return joints (n, 6): random, multiples of 90 deg, and near and at each singularity."""
    q = rng.uniform(-np.pi, np.pi, (240, 6))
    q[:40] = np.round(q[:40] / (np.pi / 2)) * (np.pi / 2)
    for i, small in enumerate([0.0, 1e-13, 1e-9, 1e-6, 1e-3]):
        q[40 + 8 * i : 48 + 8 * i, 4] = small
        q[80 + 8 * i : 88 + 8 * i, 2] = small
        q[120 + 8 * i : 128 + 8 * i, [2, 4]] = small
    return q


@pytest.mark.parametrize('is_calibrated', [False, True])
def test_speeds_of_tcp_and_elbow_are_those_of_finite_differences(is_calibrated, rng):
    m = calibrated_arm('ur5', rng) if is_calibrated else UR5
    q, qd, p = rng.normal(size=(20, 6)), rng.normal(size=(20, 6)), rng.normal(size=3)

    def points(q):
        frames = link_frames(m, q)
        tcp = frames[:, 6, :3, :3] @ p + frames[:, 6, :3, 3]
        return np.stack([tcp, frames[:, 2, :3, 3]], axis=1)

    moved = points(q + 1e-6 * qd) - points(q - 1e-6 * qd)
    expected = np.linalg.norm(moved / 2e-6, axis=-1)
    np.testing.assert_allclose(tcp_and_elbow_speed(m, q, qd, p), expected, atol=1e-8)


@pytest.mark.parametrize('is_calibrated', [False, True])
def test_one_configuration_and_a_stack_of_them_agree(is_calibrated, rng):
    m = calibrated_arm('ur5', rng) if is_calibrated else UR5
    q = joints_of_all_kinds(rng)
    np.testing.assert_array_equal(forward(m, q), [forward(m, one) for one in q])
    np.testing.assert_allclose(forward(m, q), link_frames(m, q)[:, 6], rtol=0.0, atol=1e-15)
    for frame in ('tool', 'base'):
        one_by_one = [jacobian(m, one, frame) for one in q]
        np.testing.assert_array_equal(jacobian(m, q, frame), one_by_one)


def test_one_pose_and_a_stack_of_them_have_the_same_solutions(rng):
    poses = forward(UR5, joints_of_all_kinds(rng))
    q, ok = inverse(UR5, poses, 0.3)
    each, each_ok = inverse(UR5, poses, np.full(len(poses), 0.3))
    np.testing.assert_array_equal(each, q)
    np.testing.assert_array_equal(each_ok, ok)
    for T, rows, exist in zip(poses, q, ok, strict=True):
        one, one_ok = inverse(UR5, T, 0.3)
        np.testing.assert_array_equal(one, rows)
        np.testing.assert_array_equal(one_ok, exist)


def test_arrays_of_any_layout_are_taken(rng):
    q = rng.uniform(-3.0, 3.0, (6, 4))
    T = forward(UR5, q[:, 1])
    np.testing.assert_array_equal(T, forward(UR5, q[:, 1].copy()))
    np.testing.assert_array_equal(inverse(UR5, np.asfortranarray(T))[0], inverse(UR5, T)[0])
    stack = np.moveaxis(np.stack([T, T], axis=-1), -1, 0)
    np.testing.assert_array_equal(inverse(UR5, stack)[0][1], inverse(UR5, T)[0])
    with pytest.raises(InvalidInput, match=r'T\[1\]: entry'):
        inverse(UR5, np.stack([T, 2.0 * T]))


def test_a_used_model_can_be_copied_and_sent_to_another_process(rng):
    q = rng.uniform(-3.0, 3.0, 6)
    m = replace(UR5, name='mine')
    T = forward(m, q)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        np.testing.assert_array_equal(forward(other, q), T)
