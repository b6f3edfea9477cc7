# SPDX-License-Identifier: Apache-2.0
"""Branches, whole turns, reasons and singularities: what is chosen among solutions, and why."""

import itertools

import numpy as np
import pytest
from calibration_files import calibrated_arm

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import (
    BRANCHES,
    HOME,
    all_solutions,
    all_variants,
    branch_index,
    classify,
    explain,
    forward,
    inverse,
    jacobian,
    load_model,
    singularity,
    solutions_near,
)

UR5 = load_model('ur5')


def phi_of(q: np.ndarray) -> np.ndarray:
    """The contract's own formula: psi from frame 5 in base, phi = wrap(theta1 - psi - pi/2)."""
    T = forward(UR5, q)
    p = T[..., :3, 3] - UR5.d[5] * T[..., :3, 2]
    return np.angle(np.exp(1j * (q[..., 0] - np.arctan2(p[..., 1], p[..., 0]) - np.pi / 2)))


def test_branches_are_named_in_the_order_of_the_contract():
    names = itertools.product(('left', 'right'), ('up', 'down'), ('down', 'up'))
    assert tuple('-'.join(n) for n in names) == BRANCHES
    assert BRANCHES[branch_index('right-up-down')] == 'right-up-down'
    with pytest.raises(InvalidInput, match="branch 'up': must be one of left-up-down, "):
        branch_index('up')


def test_classify_follows_the_contract(rng):
    q = rng.uniform(-np.pi, np.pi, (20_000, 6))
    phi = phi_of(q)
    right = ~(phi >= 0)
    down = ~(q[:, 2] * np.sign(phi) >= 0)
    wrist_up = ~(np.sin(q[:, 4]) >= 0)
    assert np.array_equal(classify(UR5, q), 4 * right + 2 * down + wrist_up)


def test_classify_does_not_see_whole_turns(rng):
    q = rng.uniform(-np.pi, np.pi, (1_000, 6))
    turned = q + 2 * np.pi * rng.integers(-1, 2, q.shape)
    assert np.array_equal(classify(UR5, turned), classify(UR5, q))


def test_the_branch_changes_only_where_a_singularity_is_crossed(rng):
    """Along random joint lines a label changes just where its factor of det J changes sign."""
    start, end = rng.uniform(-np.pi, np.pi, (2, 50, 1, 6))
    q = start + (end - start) * np.linspace(0, 1, 400)[:, None]
    branch = classify(UR5, q)
    J = np.linalg.det(jacobian(UR5, q))
    shoulder, elbow, wrist = branch >> 2, (branch >> 1) & 1, branch & 1
    # det J = ±a2 a3 s3 s5 x1; x1 < 0 on the left, s3 has the sign of elbow times shoulder
    sign = (1 - 2 * shoulder) * (1 - 2 * wrist) * (1 - 2 * (elbow ^ shoulder))
    assert len(np.unique(sign * np.sign(J))) == 1
    assert len(np.unique(branch)) == 8


def test_home_has_the_tool_down_elbow_up():
    assert BRANCHES[classify(UR5, HOME)] == 'left-up-up'
    assert np.abs(forward(UR5, HOME)[:3, 2] - [0, 0, -1]).max() < 1e-15


def test_the_variants_are_every_whole_turn_within_the_limits(rng):
    for _ in range(50):
        q = rng.uniform(-np.pi, np.pi, 6)
        fitting = all_variants(UR5, q)
        assert ((fitting >= UR5.q_min) & (fitting <= UR5.q_max)).all()
        assert len(np.unique(fitting.round(9), axis=0)) == len(fitting) == 2**5
        assert np.abs(np.angle(np.exp(1j * (fitting - q)))).max() < 1e-12
    with pytest.raises(InvalidInput, match='one solution at a time'):
        all_variants(UR5, np.zeros((2, 6)))


def test_limits_themselves_are_within():
    q, seed = np.array([0, 0, np.pi, 0, 0, 0]), np.array([0, 0, -3, 0, 0, 2 * np.pi])
    assert [0, 0, -np.pi, 0, 0, 2 * np.pi] in all_variants(UR5, q).tolist()
    assert solutions_near(UR5, forward(UR5, q), seed, (UR5.q_min, UR5.q_max))[0].distance < 3.5


def nearest_variant(q: np.ndarray, seed: np.ndarray, limits) -> np.ndarray:
    """Return a solution with each joint turned to be nearest to a seed within limits, or NaN."""
    turned = q + 2 * np.pi * np.array([0, -1, 1, -2, 2])[:, None]
    turned[~((limits[0] <= turned) & (turned <= limits[1]))] = np.nan
    if np.isnan(turned).all(axis=0).any():
        return np.full(6, np.nan)
    best = np.nanargmin(np.abs(turned - seed), axis=0)
    return turned[best, np.arange(6)]


def test_solutions_come_nearest_first(rng):
    seed = rng.uniform(-np.pi, np.pi, 6)
    T = forward(UR5, seed + 0.01)
    found = solutions_near(UR5, T, seed)
    assert found[0].distance < 0.011
    assert found[0].branch == BRANCHES[classify(UR5, found[0].q)]
    assert len(found) == inverse(UR5, T)[1].sum()
    distances = [s.distance for s in found]
    assert distances == sorted(distances)
    assert all(np.isclose(s.distance, np.abs(s.q - seed).max()) for s in found)


@pytest.mark.parametrize('is_calibrated', [False, True])
def test_the_nearest_solutions_are_those_of_every_branch_turned_and_sorted(is_calibrated, rng):
    m = calibrated_arm('ur5', rng) if is_calibrated else UR5
    joints = rng.uniform(-6.0, 6.0, (60, 6))
    joints[::3] = np.round(joints[::3] / (np.pi / 2)) * (np.pi / 2)  # where distances are equal
    limits = np.full(6, -2.5), np.full(6, 3.0)
    for q, wanted in zip(joints, itertools.cycle([None, limits]), strict=False):
        T, seed = forward(m, q), q + rng.choice([0.0, 1.0], 6)
        low, high = wanted or (m.q_min, m.q_max)
        every, branch = all_solutions(m, T, float(np.clip(seed[5], low[5], high[5])), seed)
        turned = np.array([nearest_variant(q, seed, (low, high)) for q in every])
        away = np.abs(turned - seed).max(axis=1)
        order = [k for k in np.lexsort((branch, away)) if np.isfinite(away[k])]
        found = solutions_near(m, T, seed, wanted)
        assert [s.branch for s in found] == [BRANCHES[branch[k]] for k in order]
        for solution, k in zip(found, order, strict=True):
            np.testing.assert_array_equal(solution.q, turned[k])
        np.testing.assert_array_equal([s.distance for s in found], away[order])


def test_all_solutions_are_the_rows_of_the_inverse(rng):
    for q in rng.uniform(-3.0, 3.0, (20, 6)):
        T = forward(UR5, q)
        rows, ok = inverse(UR5, T, q[5])
        found, branch = all_solutions(UR5, T, q[5], seed=q)
        np.testing.assert_array_equal(found, rows[ok])
        np.testing.assert_array_equal(branch, np.flatnonzero(ok))


@pytest.mark.parametrize('is_calibrated', [False, True])
def test_of_what_is_no_pose_there_are_no_solutions(is_calibrated, rng):
    m, T = calibrated_arm('ur5', rng) if is_calibrated else UR5, forward(UR5, HOME)
    with pytest.raises(InvalidInput, match=r'\(4, 4\), one pose at a time'):
        all_solutions(m, np.stack([T, T]))
    with pytest.raises(InvalidInput, match='T: not a rotation'):
        all_solutions(m, T * [[0.9], [1.0], [1.0], [1.0]])
    with pytest.raises(InvalidInput, match='q6 = nan: must be finite'):
        all_solutions(m, T, np.nan)


def test_a_pose_that_is_none_has_no_nearest_solutions():
    T = forward(UR5, HOME)
    for bad, said in (
        (np.stack([T, T]), r'T has shape \(2, 4, 4\)'),
        (2.0 * T, 'T: entry'),
        (T * np.nan, 'T: entry .* = nan'),
    ):
        with pytest.raises(InvalidInput, match=said):
            solutions_near(UR5, bad, HOME)
    with pytest.raises(InvalidInput, match=r'limits have shapes \(6,\), \(3,\)'):
        solutions_near(UR5, T, HOME, (UR5.q_min, UR5.q_max[:3]))
    with pytest.raises(InvalidInput, match=r'seed \(2, 6\)'):
        solutions_near(UR5, T, np.zeros((2, 6)))
    with pytest.raises(InvalidInput, match=r'seed\[0\] = nan \(shoulder_pan_joint\): must be fin'):
        solutions_near(UR5, T, np.full(6, np.nan))


def test_at_a_wrist_singularity_the_last_joint_is_the_nearest_to_the_seed_within_limits():
    aligned = np.array([0.3, -1.2, 1.4, -0.5, 0.0, 0.2])
    seed, (low, high) = aligned + [0, 0, 0, 0, 0, 2.0], (UR5.q_min.copy(), UR5.q_max.copy())
    low[5], high[5] = 0.4, 0.6
    found = solutions_near(UR5, forward(UR5, aligned), seed, (low, high))
    assert found and np.isclose(found[0].q[5], 0.6)
    assert np.abs(forward(UR5, found[0].q) - forward(UR5, aligned)).max() < 1e-9


def test_every_missing_branch_has_a_reason_with_its_measure(rng):
    """Links longer by the amount named bring the branch back; a nanometre less does not."""
    joints = rng.uniform(-np.pi, np.pi, (300, 6))
    causes = set()
    for T in forward(UR5, joints):
        _, ok = inverse(UR5, T)
        missing = explain(UR5, T)
        assert [m.branch for m in missing] == [BRANCHES[k] for k in np.flatnonzero(~ok)]
        for m in missing:
            assert f'{m.amount:.6g} m' in m.text
            causes.add(m.cause)
            for slack, reached in ((1e-9, True), (-1e-9, False)):
                longer = m.amount + slack  # of a2 + a3 if too far, of their difference if too near
                change = [0, -longer] if m.cause == 'far' else [longer / 2, -longer / 2]
                table = load_model({'a': UR5.a + [0, *change, 0, 0, 0], 'd': UR5.d})
                assert inverse(table, T)[1][BRANCHES.index(m.branch)] == reached
    assert causes == {'far', 'near'}


def test_inside_the_cylinder_all_eight_are_missing_by_the_same():
    T = forward(UR5, HOME)
    T[:2, 3] = 0.03, 0.04
    missing = explain(UR5, T)
    assert [m.branch for m in missing] == list(BRANCHES)
    assert {m.cause for m in missing} == {'cylinder'}
    assert np.allclose([m.amount for m in missing], UR5.d[3] - 0.05)
    assert 'inside the shoulder cylinder' in missing[0].text


def test_twins_of_double_roots_name_the_row_that_holds_them():
    for row, joints in (
        ('left-up-down', [0, -90, 0, -90, 0, 0]),
        ('left-up-up', [10, -45, 0, 20, -30, 40]),
    ):
        missing = explain(UR5, forward(UR5, np.deg2rad(joints)))
        twins = [m for m in missing if m.cause == 'double']
        assert twins and all(m.amount == 0.0 and m.text.endswith(row) for m in twins)


def test_a_branch_on_which_the_arm_stands_at_a_wrist_singularity_is_never_a_double_root(rng):
    joints = rng.uniform(-np.pi, np.pi, (600, 6))
    joints[0] = -2.06, -2.00, 0.65, -2.43, 0.0, 2.09
    joints[:, 4] = np.pi * rng.integers(0, 2, len(joints))
    for standing in joints:
        T = forward(UR5, standing)
        missing = {m.branch: m for m in explain(UR5, T)}
        assert BRANCHES[classify(UR5, standing)] not in missing
        assert all(name.endswith('up') for name, m in missing.items() if m.cause == 'double')


def test_a_double_root_of_one_last_joint_alone_names_that_joint():
    """At a wrist singularity another last joint may bend the elbow."""
    stretched = np.array([0.3, -1.0, 0.0, 0.4, 0.0, 0.5])
    T = forward(UR5, stretched)
    missing = {m.branch: m.text for m in explain(UR5, T, 0.5)}
    assert BRANCHES[classify(UR5, stretched)] == 'left-up-down'
    assert missing['left-down-down'] == (
        'double root with wrist_3_joint at 0.5 rad: the only solution is the one of left-up-down'
    )
    assert inverse(UR5, T, 0.2)[1][[0, 2]].all() or inverse(UR5, T, 0.8)[1][[0, 2]].all()


def test_the_twin_across_the_shoulder_has_the_other_elbow_name():
    q = np.deg2rad([0, -120, 60, 0, 40, 0])
    arm = UR5.a[1] * np.cos(q[1]) + UR5.a[2] * np.cos(q[1] + q[2])
    q[3] = np.arcsin(-arm / UR5.d[4]) - q[1] - q[2]  # frame 5 above axis 1
    missing = {m.branch: m.text for m in explain(UR5, forward(UR5, q))}
    assert missing['right-down-down'].endswith('the one of left-up-down')


def test_explain_takes_one_rigid_pose():
    assert explain(UR5, forward(UR5, np.ones(6))) == ()
    with pytest.raises(InvalidInput, match=r'\(4, 4\), one pose at a time'):
        explain(UR5, np.tile(np.eye(4), (2, 1, 1)))
    with pytest.raises(InvalidInput, match='must be finite'):
        explain(UR5, np.full((4, 4), np.nan))


def test_the_distances_to_singularities_multiply_to_the_determinant(rng):
    q = rng.uniform(-np.pi, np.pi, (2, 500, 6))
    s = singularity(UR5, q)
    a2, a3, *_ = UR5.lengths
    product = abs(a2 * a3) * np.sin(s.elbow) * np.sin(s.wrist) * s.shoulder
    assert np.abs(np.abs(np.linalg.det(jacobian(UR5, q))) - product).max() < 1e-15
    assert np.abs(s.manipulability - product).max() < 1e-15
    assert np.abs(s.condition / np.linalg.cond(jacobian(UR5, q)) - 1).max() < 1e-9
    assert s.shoulder.shape == (2, 500)


def test_each_distance_vanishes_at_its_singularity():
    upright = singularity(UR5, np.deg2rad([0, -90, 0, -90, 0, 0]))
    assert upright.shoulder < 1e-15 and upright.elbow == 0.0 and upright.wrist == 0.0
    folded = singularity(UR5, np.deg2rad([0, 0, -180, 0, 175, 0]))
    assert folded.elbow < 1e-15 and np.isclose(folded.wrist, np.deg2rad(5))
    assert folded.condition > 1e12
