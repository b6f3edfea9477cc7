# SPDX-License-Identifier: Apache-2.0
"""Models load from names and tables, refuse what is no UR, and need NumPy alone."""

import dataclasses

import numpy as np
import pytest
from closeness import assert_transforms_close

from ur5_pick_place import kinematics
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import BRANCHES, JOINT_NAMES, classify, forward, inverse, load_model
from ur5_pick_place.kinematics.transforms import inverse_transform, make_transform, matrix_from_rpy

UR5_TABLE = {
    'a': [0, -0.425, -0.39225, 0, 0, 0],
    'd': [0.089159, 0, 0, 0.10915, 0.09465, 0.0823],
}

# The UR3 laboratory exercise commands the gripper's point in the world frame, which is offset on
# the table, aims 8 mm lower than its z says, and a yaw; the tool always points down.
T_BASE_WORLD = make_transform(np.eye(3), [0.15, -0.15, -0.008])
# The gripper's point: 59 mm beyond the flange and 53.5 mm to the side, along the yaw direction.
T_TOOL_GRIP = make_transform(np.diag([-1.0, 1.0, -1.0]), [-0.0535, 0.0, 0.059])
LAB_BRANCH = 'left-up-up'  # elbow up, theta_5 = -pi/2

# x, y, z [m], yaw [deg] in the world, and the joints that the exercise prints [rad].
LAB_RUNS = [
    (
        (0.15, -0.10, 0.25, -45),
        (-1.0126054438827126, -1.4757474144855514, 1.5316386943854468)
        + (-0.055891279899895618, -1.5707963267948966, 1.3435890463096323),
    ),
    (
        (0.20, 0.40, 0.05, 45),
        (0.30122178852359965, -0.93802148856998335, 1.8298344688830865)
        + (-0.89181298031310341, -1.5707963267948966, 1.086619951921048),
    ),
]


def test_the_shop_window_holds_what_it_lists() -> None:
    assert len(set(kinematics.__all__)) == len(kinematics.__all__)
    for name in kinematics.__all__:
        assert getattr(kinematics, name) is not None


def test_ur5_is_the_parameter_sheet() -> None:
    m = load_model('ur5')
    assert m.a.tolist() == UR5_TABLE['a'] and m.d.tolist() == UR5_TABLE['d']
    assert np.array_equal(m.alpha, np.array([1, 0, 0, 1, -1, 0]) * np.pi / 2)
    assert m.offset.tolist() == [0.0] * 6
    assert np.degrees(m.q_max).tolist() == [360, 360, 180, 360, 360, 360]
    assert np.array_equal(m.q_min, -m.q_max)
    assert np.array_equal(m.qd_max, [np.pi] * 6)
    assert m.effort_max.tolist() == [150, 150, 150, 28, 28, 28]
    assert (m.mounts, m.calibration) == (None, '')
    reach = np.linalg.norm(forward(m, np.zeros(6))[:2, 3] - [0, -m.d[3] - m.d[5]])
    assert abs(reach - 0.81725) < 1e-12


def test_a_table_is_the_same_arm_as_its_preset() -> None:
    m = load_model(UR5_TABLE)
    assert m.name == 'dh'
    assert np.array_equal(forward(m, np.ones(6)), forward(load_model('ur5'), np.ones(6)))
    assert load_model(m) is m


def test_offsets_are_added_to_the_joints(rng: np.random.Generator) -> None:
    offset = np.array([0.1, -0.2, 0.3, 2.0, -3.0, 1.0])
    m, plain = load_model({**UR5_TABLE, 'offset': offset}), load_model(UR5_TABLE)
    q = rng.uniform(-3, 3, (100, 6))
    T = forward(m, q)
    assert np.array_equal(T, forward(plain, q + offset))
    assert np.array_equal(classify(m, q), classify(plain, q + offset))
    found, ok = inverse(m, T)
    assert ((found[ok] > -np.pi) & (found[ok] <= np.pi)).all()
    assert np.abs(np.nanmin(np.abs(found - q[:, None]).max(axis=-1), axis=1)).max() < 1e-6
    one, _ = inverse(m, T[0])
    assert np.allclose(one, found[0], atol=1e-9, equal_nan=True)


def test_a_wish_at_a_wrist_singularity_is_a_joint_not_a_dh_angle() -> None:
    m = load_model({**UR5_TABLE, 'offset': [0, 0, 0, 0, 0, 0.5]})
    T = forward(m, [0.3, -1.2, 1.4, -1.0, 0.0, 0.2])
    for poses in (T, T[None]):
        q, ok = inverse(m, poses, 0.25)
        assert np.abs(q[ok][:2, 5] - 0.25).max() < 1e-14


def test_models_do_not_change() -> None:
    m = load_model('ur5')
    with pytest.raises(ValueError, match='read-only'):
        m.d[0] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.name = 'other'  # type: ignore[misc]


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'a': [0, -0.4, -0.3, 0, 0]}, r'DH table: a = .*: must be six finite numbers'),
        ({'d': 'none'}, "DH table: d = 'none': must be six numbers"),
        ({'d': [10**400, 0, 0, 0, 0, 0]}, 'must be six numbers'),
        ({'a': [0, -0.4, np.nan, 0, 0, 0]}, 'must be six finite numbers'),
        ({'a': [0.1, -0.4, -0.3, 0, 0, 0]}, r'a\[0\] = 0.1: a UR has 0 there'),
        ({'d': [0.1, 0.02, 0, 0.1, 0.1, 0.1]}, r'd\[1\] = 0.02: a UR has 0 there'),
        ({'alpha': [1.5, 0, 0, 1.5, -1.5, 0]}, r'alpha\[0\] = 1.5: a UR has 1.5708 there'),
        ({'d': [0.1, 0, 0, 0.0, 0.1, 0.1]}, r'd\[3\] = 0: must be a length other than zero'),
        ({'q_min': [7] * 6}, 'q_min = 7.0 is not below q_max'),
        ({'reach': 1}, "unknown key 'reach'; known are: a, d, alpha"),
    ],
)
def test_a_table_that_is_no_ur_is_refused(change: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_model({**UR5_TABLE, **change})


def test_an_unknown_robot_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="robot model 'ur6': must be one of ur3, ur5, ur10, "):
        load_model('ur6')
    for no_robot in (None, 5, np.zeros((6, 4))):
        with pytest.raises(InvalidInput, match='robot model of type .*: must be the name'):
            load_model(no_robot)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="DH table: 'd' is missing"):
        load_model({'a': [0] * 6})


@pytest.mark.parametrize(('command', 'printed'), LAB_RUNS)
def test_the_lab_exercise_gives_its_printed_joints(command: tuple, printed: tuple) -> None:
    x, y, z, yaw = command
    m = load_model('ur3_lab')
    T_world_grip = make_transform(matrix_from_rpy([0, 0, np.deg2rad(yaw)]), (x, y, z))
    q, _ = inverse(m, T_BASE_WORLD @ T_world_grip @ inverse_transform(T_TOOL_GRIP))
    assert np.abs(q[BRANCHES.index(LAB_BRANCH)] - printed).max() < 1e-9
    reached = forward(m, printed) @ T_TOOL_GRIP
    assert_transforms_close(reached, T_BASE_WORLD @ T_world_grip, position=1e-9, angle=1e-9)


def test_joint_names_are_the_drivers() -> None:
    assert len(set(JOINT_NAMES)) == 6
    assert all(name.endswith('_joint') for name in JOINT_NAMES)
