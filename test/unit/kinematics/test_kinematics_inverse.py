# SPDX-License-Identifier: Apache-2.0
"""
The inverse is complete, exact and rightly labelled, at singularities too.

For joints q drawn at random: every row of inverse(forward(q)) leads back to the pose, q is among
them in the row that classify(q) names, and no row comes twice. Where a root is double the row that
holds it is the one the contract names, and at a wrist singularity the wish for q6 is kept where
the elbow can reach with it.
"""


import numpy as np
import pytest

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import (
    BRANCHES,
    UR_TYPES,
    Model,
    classify,
    forward,
    inverse,
    load_model,
    singularity,
)
from ur5_pick_place.kinematics.transforms import log_se3

UR5 = load_model('ur5')
UPRIGHT = np.deg2rad([0, -90, 0, -90, 0, 0])
ONES_DH = {
    'a': [0, -0.425, -0.39225, 0, 0, 0],
    'd': [0.089459, 0, 0, 0.10915, 0.09465, 0.0823],
}

# What the worked example of the IK note lists, in its order, with the names of its rows.
EXAMPLE = {
    'left-up-down': (1.0000, 1.0000, 1.0000, 1.0000, 1.0000, 1.0000),
    'left-down-down': (1.0000, 1.9562, -1.0000, 2.0438, 1.0000, 1.0000),
    'left-up-up': (1.0000, 0.6743, 1.7374, -2.5533, -1.0000, -2.1416),
    'left-down-up': (1.0000, 2.3170, -1.7374, -0.7212, -1.0000, -2.1416),
    'right-down-down': (0.0954, 1.1462, 1.0086, 0.8611, 1.8976, 0.8826),
    'right-up-down': (0.0954, 2.1106, -1.0086, 1.9139, 1.8976, 0.8826),
    'right-down-up': (0.0954, 0.8754, 1.7300, -2.7311, -1.8976, -2.2590),
    'right-up-up': (0.0954, 2.5114, -1.7300, -0.9071, -1.8976, -2.2590),
}


def random_joints(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(-np.pi, np.pi, (n, 6))


def turned_apart(q: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Largest joint difference modulo whole turns, NaN where a row is missing."""
    return np.abs(np.angle(np.exp(1j * (q - other)))).max(axis=-1)


def assert_rows_right(
    m: Model, T: np.ndarray, q: np.ndarray, ok: np.ndarray, labels: bool = True
) -> None:
    """Every row that is offered is exact, in range, alone, and on its branch; the rest is NaN."""
    assert np.array_equal(ok, np.isfinite(q).all(axis=-1))
    assert np.isnan(q[~ok]).all()
    rows, poses = q[ok], np.broadcast_to(T[..., None, :, :], (*ok.shape, 4, 4))[ok]
    assert ((rows > -np.pi) & (rows <= np.pi)).all()
    miss = log_se3(np.linalg.inv(poses) @ forward(m, rows))
    assert np.abs(miss[..., :3]).max(initial=0.0) < 1e-12
    assert np.abs(miss[..., 3:]).max(initial=0.0) < 1e-11
    if labels:
        assert np.array_equal(classify(m, rows), np.nonzero(ok)[-1])
    apart = turned_apart(q[..., :, None, :], q[..., None, :, :])
    apart[..., range(8), range(8)] = np.nan
    assert not (apart < 1e-8).any()


def own_rows(m: Model, joints: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the rows (n, 6) of solutions (n, 8, 6) on the branches of joints (n, 6)."""
    return np.take_along_axis(q, classify(m, joints)[:, None, None], axis=1)[:, 0]


def with_shoulder_at(rng: np.random.Generator, n: int, x1: float) -> np.ndarray:
    """Joints whose frame 5 lies x1 [m] from axis 1 in the arm's plane; 0 is singular."""
    q = random_joints(rng, 8 * n)
    arm = UR5.a[1] * np.cos(q[:, 1]) + UR5.a[2] * np.cos(q[:, 1] + q[:, 2])
    sine = (x1 - arm) / UR5.d[4]
    q, sine = q[np.abs(sine) < 0.999][:n], sine[np.abs(sine) < 0.999][:n]
    q[:, 3] = np.arcsin(sine) - q[:, 1] - q[:, 2]
    return q


def test_the_worked_example_has_its_eight_solutions_in_their_rows():
    m = load_model(ONES_DH)
    T = forward(m, np.ones(6))
    printed = [
        [0.1623, -0.3938, 0.9047, 0.1376508],
        [-0.5888, 0.6972, 0.4091, -0.0699381],
        [-0.7919, -0.5991, -0.1187, -0.5409083],
    ]
    assert np.abs(T[:3] - printed).max() < 5.1e-5
    assert np.abs(T[:3, 3] - np.array(printed)[:, 3]).max() < 5.1e-8
    q, ok = inverse(m, T)
    assert ok.all()
    for branch, row in EXAMPLE.items():
        assert np.abs(q[BRANCHES.index(branch)] - row).max() < 5.1e-5, branch


@pytest.mark.drill
def test_a_hundred_thousand_random_poses_are_all_solved(rng):
    joints = random_joints(rng, 100_000)
    T = forward(UR5, joints)
    q, ok = inverse(UR5, T)
    assert_rows_right(UR5, T, q, ok)
    assert turned_apart(own_rows(UR5, joints, q), joints).max() < 1e-6
    shares = [float(np.mean(ok.sum(axis=1) == n)) for n in (2, 4, 6, 8)]
    assert np.abs(np.array(shares) - [0.029, 0.151, 0.053, 0.768]).max() < 0.01


@pytest.mark.parametrize('name', UR_TYPES)
def test_every_preset_is_solved(name, rng):
    m = load_model(name)
    joints = random_joints(rng, 2_000)
    T = forward(m, joints)
    q, ok = inverse(m, T)
    assert_rows_right(m, T, q, ok)
    assert np.nanmin(turned_apart(q, joints[:, None]), axis=1).max() < 1e-6


@pytest.mark.parametrize(
    'signs', [(1, 1, -1, 1), (-1, 1, 1, 1), (1, -1, 1, -1), (1, 1, 1, -1)]
)
def test_tables_with_other_signs_are_solved_too(signs, rng):
    a2, a3, d4, d5 = np.array([-0.425, -0.39225, 0.10915, 0.09]) * signs
    m = load_model({'a': [0, a2, a3, 0, 0, 0], 'd': [0.1, 0, 0, d4, d5, 0.08]})
    joints = random_joints(rng, 2_000)
    joints[1_000:, 4] = 0.0
    joints = joints[singularity(m, joints).shoulder > 1e-3]  # there, theta_5 = 0 is lost in noise
    T = forward(m, joints)
    q, ok = inverse(m, T, joints[:, 5])
    assert_rows_right(m, T, q, ok)
    assert turned_apart(own_rows(m, joints, q), joints).max() < 1e-6
    _, ok = inverse(m, T, 0.0)
    assert ok.any(axis=1).all()


@pytest.mark.parametrize('q5', [1e-12, 1e-11, 1e-9, 1e-6, 1e-4, 1e-3])
@pytest.mark.parametrize('around', [0.0, np.pi])
def test_near_a_wrist_singularity_every_pose_is_answered(q5, around, rng):
    joints = random_joints(rng, 1_000)
    joints[:, 4] = around + q5
    T = forward(UR5, joints)
    q, ok = inverse(UR5, T)
    assert_rows_right(UR5, T, q, ok)
    assert ok.any(axis=1).all()
    if q5 >= 1e-6:  # nearer, rounding of the pose alone moves theta_6 by 1e-16 / q5
        assert np.nanmin(turned_apart(q, joints[:, None]), axis=1).max() < 1e-5


@pytest.mark.parametrize('q5', [0.0, np.pi, 1e-14])
def test_at_a_wrist_singularity_the_wish_is_kept_or_the_nearest_taken(q5, rng):
    joints = random_joints(rng, 1_000)
    joints[:, 4] = q5
    T = forward(UR5, joints)
    q, ok = inverse(UR5, T, joints[:, 5])
    assert_rows_right(UR5, T, q, ok)
    assert turned_apart(own_rows(UR5, joints, q), joints).max() < 1e-5, 'the wish is kept'
    q, ok = inverse(UR5, T, 0.0)
    assert_rows_right(UR5, T, q, ok)
    assert ok.any(axis=1).all(), 'fixing q6 at 0 would lose 2 to 4 percent of these'
    singular = np.isin(np.sin(q[..., 4]).round(9), 0.0) & ok
    kept = np.abs(q[singular][:, 5]) < 1e-12
    assert 0.5 < kept.mean() < 0.99


@pytest.mark.parametrize('name', UR_TYPES)
@pytest.mark.parametrize('q5', [0.0, np.pi])
def test_at_a_wrist_singularity_no_wish_loses_the_branch_of_an_arm_that_stands_there(
    name, q5, rng
):
    m = load_model(name)
    joints = random_joints(rng, 1_000)
    joints[:, 4] = q5
    joints = joints[singularity(m, joints).shoulder > 1e-3]  # there, q5 is lost in noise
    wish = rng.uniform(-np.pi, np.pi, len(joints))
    T = forward(m, joints)
    q, ok = inverse(m, T, wish)
    assert_rows_right(m, T, q, ok)
    assert np.take_along_axis(ok, classify(m, joints)[:, None], axis=1).all()
    turned = ok & (np.abs(np.angle(np.exp(1j * (q[..., 5] - wish[:, None])))) > 1e-9)
    turned &= np.abs(np.sin(q[..., 4])) < 1e-9
    pose, row = np.nonzero(turned)
    assert len(pose) > 20
    assert ok[pose, row ^ 2].all(), 'the other elbow, with the same last joint'
    assert np.array_equal(q[pose, row, 5], q[pose, row ^ 2, 5])
    bend = np.abs(np.sin(q[pose, row, 2]))
    assert bend.max() < np.sin(0.01) + 1e-9
    assert np.median(bend) > 0.0099


@pytest.mark.parametrize('name', UR_TYPES)
def test_a_stretched_elbow_at_a_wrist_singularity_stays_as_it_is_wished(name, rng):
    m = load_model(name)
    joints = random_joints(rng, 500)
    joints[:, 2], joints[:, 4] = 0.0, 0.0
    joints = joints[singularity(m, joints).shoulder > 1e-2]
    q, ok = inverse(m, forward(m, joints), joints[:, 5])
    row = classify(m, joints)
    assert ok[range(len(row)), row].all()
    assert turned_apart(q[range(len(row)), row], joints).max() < 1e-5


def test_no_nearer_choice_at_a_wrist_singularity_would_have_reached(rng):
    """
    Against a search over the whole circle of theta_6, 0.1 degree apart.

    Nearer to the wish there are only elbows less than 0.01 rad from stretched or folded.
    """
    joints = random_joints(rng, 200)
    joints[:, 4] = 0.0
    moved = 0
    for T in forward(UR5, joints):
        q, ok = inverse(UR5, T, 0.5)
        for row in np.flatnonzero(ok & (np.abs(np.sin(q[:, 4])) < 1e-9)):
            offset = abs(np.angle(np.exp(1j * (q[row, 5] - 0.5))))
            if offset < 1e-9:
                continue
            moved += 1
            for nearer in np.arange(0.0, offset - 1e-5, np.deg2rad(0.1)):
                for wish in (0.5 + nearer, 0.5 - nearer):
                    there, _ = inverse(UR5, T, wish)
                    kept = abs(np.angle(np.exp(1j * (there[row, 5] - wish)))) < 1e-9
                    assert not kept or abs(np.sin(there[row, 2])) < np.sin(0.01)
    assert moved > 5


def with_elbow_at(rng: np.random.Generator, n: int, q3: float) -> np.ndarray:
    joints = random_joints(rng, n)
    joints[:, 2] = q3
    return joints


@pytest.mark.parametrize(
    ('joints_with', 'value'),
    [
        *((with_elbow_at, q3) for q3 in (0.0, np.pi, -np.pi, 1e-12, 1e-6, -1e-6, 1e-4)),
        (with_elbow_at, np.pi - 1e-6),
        *((with_shoulder_at, x1) for x1 in (0.0, 1e-12, 1e-9, 1e-7, 1e-6, -1e-6, 1e-4)),
    ],
)
def test_a_stretched_or_folded_elbow_and_the_shoulder_cylinder_are_solved(joints_with, value, rng):
    joints = joints_with(rng, 1_000, value)
    T = forward(UR5, joints)
    q, ok = inverse(UR5, T)
    assert_rows_right(UR5, T, q, ok)
    apart = turned_apart(own_rows(UR5, joints, q), joints)
    # A second singularity at random is as near as 1e-3, where digits are fewer.
    assert np.mean(apart < 1e-5) > 0.995
    assert apart.max() < 1e-3


@pytest.mark.parametrize('step', [15, 45, 90])
def test_round_angles_are_solved(step, rng):
    joints = np.deg2rad(step * rng.integers(-180 // step + 1, 180 // step + 1, (2_000, 6)))
    T = forward(UR5, joints)
    q, ok = inverse(UR5, T, joints[:, 5])
    assert_rows_right(UR5, T, q, ok)
    assert turned_apart(own_rows(UR5, joints, q), joints).max() < 1e-6


@pytest.mark.parametrize('name', UR_TYPES)
def test_the_upright_home_has_one_solution(name):
    """All three singularities meet there; most solvers offer nothing, or a wrong row."""
    m = load_model(name)
    T = forward(m, UPRIGHT)
    q, ok = inverse(m, T)
    assert_rows_right(m, T[None], q[None], ok[None])
    assert ok.tolist() == [True] + [False] * 7
    assert np.abs(q[0] - UPRIGHT).max() < 1e-7


def test_shapes_follow_the_stack():
    T = np.tile(forward(UR5, np.ones(6)), (2, 3, 1, 1))
    q, ok = inverse(UR5, T, np.zeros(3))
    assert (q.shape, ok.shape) == ((2, 3, 8, 6), (2, 3, 8))
    assert ok.dtype == np.bool_
    assert q[1, 2].tolist() == q[0, 0].tolist()
    q, ok = inverse(UR5, T[0, 0].tolist())
    assert (q.shape, ok.shape) == ((8, 6), (8,))
    q, ok = inverse(UR5, np.empty((0, 4, 4)))
    assert (q.shape, ok.shape) == ((0, 8, 6), (0, 8))


def test_the_answer_belongs_to_the_caller():
    T = forward(UR5, np.ones(6))
    q, ok = inverse(UR5, T)
    q[0], ok[0] = 0.0, False
    again, ok_again = inverse(UR5, T)
    assert ok_again.all() and np.abs(again[0] - 1.0).max() < 1e-12


def test_unreachable_poses_have_no_rows_and_raise_nothing():
    T = forward(UR5, np.ones(6))
    far, inside = T.copy(), T.copy()
    far[0, 3] = 2.0
    inside[:2, 3] = 0.02 + UR5.d[5] * inside[:2, 2]
    for pose in (far, inside):
        q, ok = inverse(UR5, pose)
        assert not ok.any() and np.isnan(q).all()
    q, ok = inverse(UR5, np.stack([far, T, inside]))
    assert ok.sum(axis=1).tolist() == [0, 8, 0]


def test_a_nanometre_beyond_reach_is_beyond_reach():
    T = forward(UR5, np.deg2rad([20, -50, 0, 30, 60, 10]))
    outward = T[:3, 3] - UR5.d[5] * T[:3, 2] - [0, 0, UR5.d[0]]
    _, at = inverse(UR5, T)
    beyond = T.copy()
    beyond[:3, 3] += 1e-9 * outward / np.linalg.norm(outward)
    _, ok = inverse(UR5, beyond)
    assert at[0] and not ok[[0, 2]].any()


@pytest.mark.parametrize('many', [False, True])
@pytest.mark.parametrize(
    ('entry', 'value', 'message'),
    [
        ((0, 0), np.nan, r'entry \[0, 0\] = nan: must be finite'),
        ((1, 3), np.inf, r'entry \[1, 3\] = inf: must be finite'),
        ((3, 3), 0.5, r'entry \[3, 3\] = 0.5: must be 1'),
        ((3, 0), 1e-3, r'entry \[3, 0\] = 0.001: must be 0'),
        ((2, 2), 0.3, r'entry \[\d, \d\] of R\^T R is .* within 1e-06'),
    ],
)
def test_what_is_not_a_pose_is_refused_with_the_entry(many, entry, value, message):
    T = forward(UR5, np.ones(6))
    T[entry] = value
    poses = np.stack([np.eye(4), T]) if many else T
    with pytest.raises(ValueError, match=(r'T\[1\]: ' if many else 'T: ') + '.*' + message):
        inverse(UR5, poses)


def test_scaled_and_mirrored_rotations_are_refused():
    T = np.diag([1.01, 1.01, 1.01, 1.0])
    with pytest.raises(InvalidInput, match=r'entry \[0, 0\] of R\^T R is 1.0201'):
        inverse(UR5, T)
    with pytest.raises(InvalidInput, match='det R = -1, must be 1; its axes are left-handed'):
        inverse(UR5, np.diag([1.0, 1.0, -1.0, 1.0]))


def test_other_misuse_is_refused():
    with pytest.raises(InvalidInput, match=r'T has shape \(3, 4\): must be \(..., 4, 4\)'):
        inverse(UR5, np.eye(4)[:3])
    with pytest.raises(InvalidInput, match='T: not an array of numbers'):
        inverse(UR5, [['a'] * 4] * 4)
    with pytest.raises(InvalidInput, match='T: not an array of numbers: .*too large'):
        inverse(UR5, [[10**400] * 4] * 4)
    with pytest.raises(InvalidInput, match='T: not an array of numbers: complex'):
        inverse(UR5, np.eye(4) + 1j)
    with pytest.raises(InvalidInput, match='q6: not an array of numbers: .*too large'):
        inverse(UR5, np.eye(4), 10**400)
    with pytest.raises(InvalidInput, match='q6 = nan: must be finite'):
        inverse(UR5, np.eye(4), np.nan)
    with pytest.raises(InvalidInput, match='q6 = inf: must be finite'):
        inverse(UR5, np.eye(4), float('inf'))
    with pytest.raises(InvalidInput, match=r'q6 has shape \(2,\): must fit the poses, \(3,\)'):
        inverse(UR5, np.tile(np.eye(4), (3, 1, 1)), np.zeros(2))
