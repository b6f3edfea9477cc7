# SPDX-License-Identifier: Apache-2.0
"""The compiled kinematics do for a stack what they do for one, in arrays of any layout."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from calibration_files import calibrated_arm

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import forward, inverse, jacobian, load_model
from ur5_pick_place.kinematics.forward import link_frames
from ur5_pick_place.planning.limits import tcp_and_elbow_speed

UR5 = load_model('ur5')


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
