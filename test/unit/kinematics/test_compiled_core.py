# SPDX-License-Identifier: Apache-2.0
"""The compiled kinematics do what the plain ones do, and are never of another source."""

import ast
import copy
import os
import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from calibrated_arms import calibrated_arm
from scipy.interpolate import CubicHermiteSpline
from scipy.spatial.transform import Rotation

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import UR_TYPES, forward, inverse, jacobian, load_model, scalar
from ur5_pick_place.kinematics import core as chosen
from ur5_pick_place.kinematics.forward import _steps, link_frames, point_velocity
from ur5_pick_place.kinematics.scalar.joints import angles_of, sines_of
from ur5_pick_place.kinematics.transforms import body_error, error_twist, exp_se3, exp_so3

compiled = pytest.importorskip(
    'ur5_pick_place.kinematics.scalar_compiled', reason='not compiled: make setup'
)
FORMS = (scalar, compiled)
EXACT = 1e-12
UR5 = load_model('ur5')


def arm_of(form: ModuleType, m):
    """Return the arm of a model in one form."""
    ca, sa = np.round(np.cos(m.alpha)), np.round(np.sin(m.alpha))
    rows = np.stack([m.a, m.d, ca, sa, m.offset], axis=1).ravel().tolist()
    return form.Arm(m.lengths, rows, [] if m.mounts is None else m.mounts.ravel().tolist())


def filled(*shape: int, by) -> np.ndarray:
    """Return an array that a function has filled."""
    out = np.full(shape, np.inf)
    by(out)
    return out


def assert_same(*shape: int, by) -> None:
    """Fail unless both forms fill an array alike; `by` takes a form and the array."""
    plain, fast = (filled(*shape, by=lambda out, form=form: by(form, out)) for form in FORMS)
    np.testing.assert_allclose(fast, plain, rtol=0.0, atol=EXACT)


def joints_of_all_kinds(rng: np.random.Generator) -> np.ndarray:
    """Return joints (n, 6): random, multiples of 90 deg, and near and at each singularity."""
    q = rng.uniform(-np.pi, np.pi, (240, 6))
    q[:40] = np.round(q[:40] / (np.pi / 2)) * (np.pi / 2)
    for i, small in enumerate([0.0, 1e-13, 1e-9, 1e-6, 1e-3]):
        q[40 + 8 * i : 48 + 8 * i, 4] = small
        q[80 + 8 * i : 88 + 8 * i, 2] = small
        q[120 + 8 * i : 128 + 8 * i, [2, 4]] = small
    return q


# ---- which form is used


def test_the_compiled_form_is_of_this_very_source():
    assert chosen.source_hash() == compiled.SOURCE_HASH, 'compile it again: make setup'


def test_the_parts_that_become_one_module_have_no_name_in_common():
    names: Counter[str] = Counter()
    for part in Path(scalar.__file__).parent.glob('[a-z]*.py'):
        for node in ast.parse(part.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names[node.name] += 1
            elif isinstance(node, ast.Assign):
                names.update(n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name))
    assert len(names) > 80
    assert [name for name, count in names.items() if count > 1] == []


def test_the_compiled_form_has_its_types():
    """Without them it works too, and is fifty times slower."""
    assert not hasattr(arm_of(compiled, UR5), 'rows')


def test_a_compiled_form_of_another_source_is_not_used_and_named():
    stale = SimpleNamespace(SOURCE_HASH='of yesterday', __file__='yesterday.so')
    wanted = r'yesterday\.so was built from another version .*; run make'
    with pytest.warns(RuntimeWarning, match=wanted):
        assert chosen.choose(stale) is scalar
    assert chosen.choose(None) is scalar
    assert chosen.choose(compiled) is compiled


@pytest.mark.parametrize('plain', ['', '1'])
def test_the_environment_can_switch_it_off(plain):
    code = 'from ur5_pick_place.kinematics.core import IS_COMPILED; print(IS_COMPILED)'
    env = {**os.environ, chosen.PLAIN: plain}
    said = subprocess.check_output([sys.executable, '-c', code], text=True, env=env)
    assert said.strip() == str(not plain)


# ---- both do the same


@pytest.mark.parametrize('name', UR_TYPES)
def test_both_forms_find_the_same_solutions_of_any_pose(name, rng):
    m = load_model(name)
    arms = [arm_of(form, m) for form in FORMS]
    poses = forward(m, joints_of_all_kinds(rng))
    poses[-20:, :3, 3] *= rng.uniform(0.0, 3.0, (20, 1))  # some of them out of reach
    poses[-1, :3, 3] = 1e300
    found = []
    for form, arm in zip(FORMS, arms, strict=True):
        q, ok = np.empty((len(poses), 8, 6)), np.empty((len(poses), 8), dtype=np.uint8)
        assert form.inverse_all(arm, poses, np.zeros(len(poses)), None, q, ok)
        found.append((q, ok))
    (q, ok), (fast, fast_ok) = found
    np.testing.assert_array_equal(fast_ok, ok)
    np.testing.assert_array_equal(fast, q)


def test_angles_are_those_of_arctan2_to_the_last_digits(rng):
    """Beside NumPy's in 64 digits of mantissa; at the joints of the polynomial too."""
    sines, cosines = rng.normal(size=(2, 50_000)) * 10.0 ** rng.uniform(-9.0, 9.0, (2, 50_000))
    near = np.arange(-16, 17)[:, None] * np.pi / 8 + rng.normal(0.0, 1e-9, 30)
    sines = np.concatenate([sines, rng.normal(size=2_000), np.sin(near).ravel()])
    cosines = np.concatenate([cosines, rng.normal(size=2_000), np.cos(near).ravel()])
    angles = [0.0] * len(sines)
    angles_of(sines.tolist(), cosines.tolist(), len(sines), angles)
    exact = np.arctan2(sines.astype(np.longdouble), cosines.astype(np.longdouble))
    off = np.abs(angles - exact)
    assert off.max() < 4e-16
    assert (off / np.spacing(np.abs(exact).astype(float))).max() < 3.2


@pytest.mark.parametrize('y', [0.0, -0.0, 1.0, -1.0, 1e-200])
@pytest.mark.parametrize('x', [0.0, 1.0, -1.0, 1e200, -1e200])
def test_angles_along_the_axes_are_those_of_arctan2(y, x):
    angles = [np.nan]
    angles_of([y], [x], 1, angles)
    assert angles[0] == np.arctan2(y, x)
    assert np.signbit(angles[0]) == np.signbit(y)


def test_sines_are_exact_to_the_last_digit(rng):
    """Beside those of 64 digits of mantissa; near multiples of 45 degrees and far away too."""
    near = np.arange(-16, 17)[:, None] * np.pi / 4 + rng.normal(0.0, 1e-9, 30)
    far = rng.normal(size=5_000) * 10.0 ** rng.uniform(-9.0, 9.0, 5_000)
    angles = np.concatenate([rng.uniform(-7.0, 7.0, 50_000), near.ravel(), far, [0.0, 1e6, 1e300]])
    sines, cosines = [0.0] * len(angles), [0.0] * len(angles)
    sines_of(angles.tolist(), len(angles), sines, cosines)
    for found, exact in ((sines, np.sin), (cosines, np.cos)):
        expected = exact(angles.astype(np.longdouble))
        off = np.abs(found - expected)
        assert off.max() < 1.2e-16
        assert (off / np.spacing(np.abs(expected).astype(float)))[:50_000].max() < 1.2


@pytest.mark.parametrize('is_calibrated', [False, True])
def test_both_forms_move_alike(is_calibrated, rng):
    m = calibrated_arm('ur5', rng) if is_calibrated else UR5
    arms = {form: arm_of(form, m) for form in FORMS}
    for q in joints_of_all_kinds(rng)[::3]:
        qd, p = rng.normal(size=6), rng.normal(size=3)
        assert_same(4, 4, by=lambda form, T, q=q: arms[form].forward(q, T))
        for in_tool in (True, False):
            assert_same(6, 6, by=lambda f, J, q=q, t=in_tool: arms[f].jacobian(q, t, J))
        speeds = [arm.tcp_and_elbow_speed(q, qd, p) for arm in arms.values()]
        assert speeds[0] == pytest.approx(speeds[1], abs=EXACT)


@pytest.mark.parametrize('is_calibrated', [False, True])
def test_both_forms_find_the_speeds_of_the_points(is_calibrated, rng):
    m = calibrated_arm('ur5', rng) if is_calibrated else UR5
    q, qd, p = rng.normal(size=(20, 6)), rng.normal(size=(20, 6)), rng.normal(size=3)
    h = 1e-6 * qd
    moved = _point(m, q + h, p) - _point(m, q - h, p)
    expected = np.linalg.norm(moved / 2e-6, axis=-1)
    for form in FORMS:
        arm = arm_of(form, m)
        found = filled(20, 2, by=lambda out, arm=arm: arm.all_speeds(q, qd, p, out))
        np.testing.assert_allclose(found, expected, atol=1e-8)
        one = [arm.tcp_and_elbow_speed(q[k], qd[k], p) for k in range(20)]
        np.testing.assert_allclose(one, found.max(axis=1), rtol=0.0, atol=EXACT)


def _point(m, q, p):
    """Return where TCP and elbow are (n, 2, 3) at joints (n, 6)."""
    frames = link_frames(m, q)
    return np.stack([(frames[:, 6, :3, :3] @ p) + frames[:, 6, :3, 3], frames[:, 2, :3, 3]], 1)


@pytest.mark.parametrize('is_calibrated', [False, True])
def test_both_forms_place_the_frames_as_the_stacked_ones_do(is_calibrated, rng):
    m = calibrated_arm('ur5', rng) if is_calibrated else UR5
    joints = joints_of_all_kinds(rng)[::9].copy()
    stacked = [np.eye(4)[None].repeat(len(joints), axis=0)]
    for i in range(6):
        stacked.append(stacked[-1] @ _steps(m, joints)[:, i])
    stacked = np.stack(stacked, axis=1)
    for form in FORMS:
        arm = arm_of(form, m)
        found = filled(len(joints), 7, 4, 4, by=lambda T, arm=arm: arm.link_frames(joints, T))
        np.testing.assert_allclose(found, stacked, rtol=0.0, atol=EXACT)


def test_both_forms_find_the_pairs_that_may_come_too_near(rng):
    levers, q = rng.uniform(0.0, 1.0, (40, 6)), rng.normal(size=(40, 6))
    spare = rng.uniform(2.0, 5.0, 40)
    spare[7] = np.nan  # an unknown distance proves nothing
    a, b = rng.normal(size=(2, 6))
    turn = np.maximum(np.abs(a - q), np.abs(b - q))
    expected = np.flatnonzero(~((levers * turn).sum(axis=1) <= spare))
    assert 0 < len(expected) < 40
    for form in FORMS:
        pairs = np.full(40, -1, dtype=np.intp)
        count = form.unproved(levers, q, spare, a, b, pairs)
        np.testing.assert_array_equal(pairs[:count], expected)


def test_both_forms_of_resolved_rate_solve_the_jacobian(rng):
    weight = np.array([1.0, 1.0, 1.0, 0.3, 0.3, 0.3])
    refused = 0
    for q in joints_of_all_kinds(rng)[::5]:
        T_goal = forward(UR5, q + rng.normal(0.0, 0.2, 6))
        J = jacobian(UR5, q)
        expected = -2.0 * np.linalg.pinv(J) @ error_twist(forward(UR5, q), T_goal)
        weakest = np.linalg.svd(weight[:, None] * J)[1][-1]
        for form in FORMS:
            qd = np.full(6, np.inf)
            is_free = form.resolved_rate(arm_of(form, UR5), q, T_goal, 2.0, 0.3, 0.02, qd)
            if is_free:
                assert weakest >= 0.02
                np.testing.assert_allclose(qd, expected, rtol=1e-9, atol=1e-10)
            else:
                assert weakest < 0.02 * np.sqrt(6.0) and np.isinf(qd).all()
                refused += 1
    assert refused


def test_both_forms_step_down_the_gradient(rng):
    """By the formulas of `laws`, in arrays."""
    for _ in range(20):
        q, root = rng.uniform(-2.0, 2.0, 6), rng.normal(size=(6, 6))
        T_goal = forward(UR5, q + rng.normal(0.0, 0.02, 6))

        def weighted(q, root=root, T_goal=T_goal):
            return root @ body_error(forward(UR5, q), T_goal)

        J = root @ jacobian(UR5, q)
        d = J.T @ weighted(q)
        a = (d @ d) / (J @ d @ (J @ d))
        V = weighted(q) @ weighted(q) / 2.0
        for longest in (np.inf, a / 3.0):
            b = min(a, longest)
            while weighted(q - b * d) @ weighted(q - b * d) / 2.0 > V - b * (d @ d) / 4.0:
                b /= 2.0
            for form in FORMS:
                dq = np.empty(6)
                squares = form.descent(arm_of(form, UR5), q, T_goal, root, longest, 30, dq)
                np.testing.assert_allclose(dq, -b * d, rtol=1e-7, atol=1e-12)
                assert squares == pytest.approx(a * (J**2).sum(), rel=1e-7)


def test_both_forms_limit_a_rate_as_a_whole(rng):
    p, limit = rng.normal(size=3), rng.uniform(0.5, 1.0, 6)
    for scale in (0.01, 1.0, 10.0):
        q, qd = rng.normal(size=6), scale * rng.normal(size=6)
        points = point_velocity(UR5, q, qd, ((6, p), (2, np.zeros(3))))
        used = max(1.0, np.linalg.norm(points, axis=1).max() / 0.8, np.abs(qd / limit).max())
        for form in FORMS:
            limited = qd.copy()
            form.limit_rate(arm_of(form, UR5), q, limited, limit, 0.8, p)
            np.testing.assert_allclose(limited, qd / used, rtol=1e-12)


def test_both_forms_handle_joints_alike(rng):
    path, q = rng.normal(size=(30, 6)), rng.normal(size=6)
    T, p = forward(UR5, q), rng.normal(size=3)
    quat_xyzw = Rotation.random(random_state=1).as_quat()
    T_p = np.eye(4)
    T_p[:3, 3] = -0.5 * p
    gaps = np.abs(path[4:20] - q)
    best = int(gaps.max(axis=1).argmin())
    for form in FORMS:
        away = np.empty(6)
        assert form.nearest(path, 4, 20, q, away) == 4 + best
        np.testing.assert_array_equal(away, gaps[best])
        assert form.largest_gap(path[0], q) == np.abs(path[0] - q).max()
        middle = filled(6, by=lambda out, f=form: f.between(path[0], path[1], 0.25, out))
        np.testing.assert_allclose(middle, 0.75 * path[0] + 0.25 * path[1], atol=EXACT)
        moved = filled(4, 4, by=lambda out, f=form: f.moved(T, p, -0.5, out))
        np.testing.assert_allclose(moved, T @ T_p, atol=EXACT)
        product = filled(4, 4, by=lambda out, f=form: f.compose(T, T_p, out))
        np.testing.assert_allclose(product, T @ T_p, atol=EXACT)
        turned = filled(4, 4, by=lambda out, f=form: f.fill_pose(*p, *quat_xyzw, out))
        np.testing.assert_allclose(turned[:3, :3], Rotation.from_quat(quat_xyzw).as_matrix())
        np.testing.assert_array_equal(turned[:, 3], [*p, 1.0])


@pytest.mark.parametrize('at', [0, 3, 10, 13])
def test_both_forms_change_the_velocity_by_the_cubic_that_meets_both_ends(at, rng):
    q, qd, qdd, velocity = rng.normal(size=(4, 6))
    end = 10 * 0.008
    cubic = CubicHermiteSpline([0.0, end], [qd, velocity], [qdd, np.zeros(6)])
    t = min(at * 0.008, end)
    travelled = cubic.antiderivative()(t) + (at * 0.008 - t) * velocity
    expected = np.array([q + travelled, cubic(t), cubic(t, 1)])
    for form in FORMS:
        state = filled(
            3, 6, by=lambda out, f=form: f.changed(q, qd, qdd, velocity, 10, at, 0.008, out)
        )
        np.testing.assert_allclose(state, expected, rtol=1e-12, atol=1e-11)


def test_both_forms_find_joints_outside_their_limits(rng):
    high = rng.uniform(1.0, 2.0, 6)
    for form in FORMS:
        inside = rng.uniform(-high, high, (3, 6))
        assert form.is_within(inside, -high, high)
        for wrong in (-2.1, 2.1, np.nan):
            outside = inside.copy()
            outside[rng.integers(3), rng.integers(6)] = wrong
            assert not form.is_within(outside, -high, high)


def test_both_forms_compare_poses_alike(rng):
    for angle in (0.0, 1e-160, 1e-9, 9.9e-5, 1.01e-4, 1.0, 3.0, np.pi - 1e-9, np.pi):
        axis = rng.normal(size=3)
        w = angle * axis / np.linalg.norm(axis)
        T_goal = exp_se3(rng.normal(size=6))
        T = T_goal.copy()
        T[:3, :3] = T[:3, :3] @ exp_so3(w)
        T[:3, 3] += rng.normal(size=3)
        for name in ('error_twist', 'body_error'):
            assert_same(6, by=lambda f, out, n=name, T=T, G=T_goal: getattr(f, n)(T, G, out))
        assert_same(1, 6, by=lambda f, out, T=T: f.log_se3(T[None], out))
        assert_same(1, 3, by=lambda f, out, T=T: f.log_so3(T[None, :3, :3].copy(), out))
        v = rng.normal(size=3)
        for form in FORMS:
            found = np.empty((4, 4))
            form.on_line(T, v, w, 0.7, found)
            expected = T.copy()
            expected[:3, :3] = T[:3, :3] @ exp_so3(0.7 * w)
            expected[:3, 3] += 0.7 * v
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=EXACT)


@pytest.mark.parametrize('name', ['ur5', 'ur3e'])
def test_both_forms_find_the_same_solutions_of_a_calibrated_arm(name, rng):
    m = calibrated_arm(name, rng)
    joints = joints_of_all_kinds(rng)[::6].copy()
    found = []
    for form in FORMS:
        arm, poses = arm_of(form, m), forward(m, joints)
        q, ok = np.empty((len(poses), 8, 6)), np.empty((len(poses), 8), dtype=np.uint8)
        every = np.full((len(poses), scalar.MOST, 6), np.nan)
        assert form.inverse_all(arm, poses, np.zeros(len(poses)), joints, q, ok)
        for k, T in enumerate(poses):
            count = form.solutions(arm, T, 0.0, None, every[k])
            assert count == np.isfinite(every[k, :, 0]).sum()
        branch = np.empty(len(joints), dtype=np.intp)
        form.classify(arm, joints, branch)
        found.append((q, ok, every, branch))
    for plain, fast in zip(*found, strict=True):
        np.testing.assert_array_equal(fast, plain)


def test_both_forms_count_the_same_cycles(rng):
    limits = np.array([np.full(6, 10.0), np.full(6, 100.0)])
    for _ in range(60):
        change = *rng.uniform(-1.0, 1.0, (2, 6)), rng.uniform(-1.0, 1.0, 6)
        fewest = [form.fewest_cycles(*change, limits, 0.008, 300) for form in FORMS]
        assert fewest[0] == fewest[1]


# ---- and what is done for one is done for many


@pytest.mark.parametrize('is_calibrated', [False, True])
def test_one_configuration_and_a_stack_of_them_agree(is_calibrated, rng):
    m = calibrated_arm('ur5', rng) if is_calibrated else UR5
    q = joints_of_all_kinds(rng)
    np.testing.assert_allclose(forward(m, q), [forward(m, one) for one in q], atol=1e-14)
    for frame in ('tool', 'base'):
        one_by_one = [jacobian(m, one, frame) for one in q]
        np.testing.assert_allclose(jacobian(m, q, frame), one_by_one, atol=1e-14)


def test_one_pose_and_a_stack_of_them_have_the_same_solutions(rng):
    poses = forward(UR5, joints_of_all_kinds(rng))
    q, ok = inverse(UR5, poses, 0.3)
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
    with pytest.raises(InvalidInput):
        inverse(UR5, np.stack([T, 2.0 * T]))


def test_a_used_model_can_be_copied_and_sent_to_another_process(rng):
    q = rng.uniform(-3.0, 3.0, 6)
    m = replace(UR5, name='mine')
    T = forward(m, q)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        np.testing.assert_array_equal(forward(other, q), T)
