# SPDX-License-Identifier: Apache-2.0
"""A calibrated arm is the chain of its file, and its inverse meets it to the last digit."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from calibration_files import SHIPPED, calibrated_arm, write
from closeness import assert_transforms_close
from scipy.spatial.transform import Rotation
from solids import SCENE

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import (
    BRANCHES,
    LINK_NAMES,
    Model,
    all_solutions,
    classify,
    explain,
    forward,
    inverse,
    link_pose,
    load_model,
    singularity,
    solutions_near,
)
from ur5_pick_place.kinematics.loading import calibration_offset
from ur5_pick_place.kinematics.model import MOVING_LINKS
from ur5_pick_place.kinematics.transforms import inverse_transform, log_se3
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.paths.follow import follow_poses
from ur5_pick_place.planning.planner import MotionPlanner


@pytest.fixture
def calibrated(tmp_path: Path, rng: np.random.Generator) -> tuple[Path, dict]:
    """An arm whose joints are off by about half a millimetre and a milliradian each."""
    off = rng.normal(0, [5e-4] * 3 + [1e-3] * 3, (6, 6))
    links = {link: np.add(SHIPPED[link], off[i]) for i, link in enumerate(MOVING_LINKS)}
    return write(tmp_path / 'calibration.yaml', links), links


def chain_of(links: dict, q: np.ndarray) -> list[np.ndarray]:
    """Give each link's pose in `base`: the joints' poses of the file, each turned about z."""
    chain = [np.eye(4)]
    for link, angle in zip(MOVING_LINKS, q, strict=True):
        joint = np.eye(4)
        joint[:3, :3] = Rotation.from_euler('xyz', links[link][3:]).as_matrix()
        joint[:3, 3] = links[link][:3]
        turn = np.eye(4)
        turn[:3, :3] = Rotation.from_rotvec([0, 0, angle]).as_matrix()
        chain.append(chain[-1] @ joint @ turn)
    return chain[1:]


def test_forward_is_the_chain_of_the_file(calibrated, rng):
    path, links = calibrated
    m = load_model(path)
    assert (m.name, m.calibration) == ('ur5', 'calib_1234')
    for q in rng.uniform(-np.pi, np.pi, (50, 6)):
        chain = chain_of(links, q)
        assert_transforms_close(forward(m, q), chain[-1], 1e-14, 1e-14)
        for link, T in zip(LINK_NAMES, chain, strict=True):
            assert_transforms_close(link_pose(m, q, link), T, 1e-14, 1e-14)


# ---- all solutions


def every_solution(m: Model, T: np.ndarray, q6: np.ndarray) -> list[np.ndarray]:
    return [all_solutions(m, one, wish)[0] for one, wish in zip(T, q6.tolist(), strict=True)]


def share_found(q: Sequence[np.ndarray], joints: np.ndarray) -> float:
    """How many joints, (n, 6), are among the solutions of their poses, (k, 6) each."""
    apart = [
        np.nanmin(np.abs(np.angle(np.exp(1j * (rows - at)))).max(axis=-1))
        for rows, at in zip(q, joints, strict=True)
    ]
    return float(np.mean(np.array(apart) < 1e-5))


NEAR = {
    'anywhere': lambda q, rng: q,
    'near the wrist singularity': lambda q, rng: _at(q, 4, rng.normal(0.0, 0.01, len(q))),
    'at the wrist singularity': lambda q, rng: _at(q, 4, 0.0),
    'with the elbow folded': lambda q, rng: _at(q, 2, np.pi + rng.normal(0.0, 0.03, len(q))),
    'with the elbow stretched': lambda q, rng: _at(q, 2, rng.normal(0.0, 0.01, len(q))),
}


def _at(q: np.ndarray, joint: int, angle: np.ndarray | float) -> np.ndarray:
    q[:, joint] = angle
    return q


@pytest.mark.parametrize('where', NEAR)
@pytest.mark.parametrize('name', ['ur3e', 'ur5'])
def test_the_joints_of_a_pose_are_among_its_solutions(name, where, rng):
    """
    An arm off by 1 mm and 2 mrad has its own singularities, and they part its branches.

    Where two solutions share a label, the row has the one whose last joint is as desired.
    """
    m = calibrated_arm(name, rng)
    joints = NEAR[where](rng.uniform(-np.pi, np.pi, (100, 6)), rng)
    T = forward(m, joints)
    every = every_solution(m, T, np.zeros(len(T)))
    assert min(map(len, every)) > 0
    assert share_found(every, joints) >= (1.0 if where == 'anywhere' else 0.97)
    q, ok = inverse(m, T, q6=joints[:, 5])
    assert share_found(q, joints) >= (0.99 if where == 'anywhere' else 0.95)
    poses = np.repeat(T, ok.sum(axis=1), axis=0)
    assert np.abs(log_se3(inverse_transform(poses) @ forward(m, q[ok]))).max() < 1e-10
    assert np.array_equal(classify(m, q[ok]), np.nonzero(ok)[1])


def test_solutions_that_share_a_branch_are_all_found_from_a_seed(rng):
    m = calibrated_arm('ur5', rng)
    shared = 0
    for joints in _at(rng.uniform(-3.0, 3.0, (40, 6)), 4, 0.0):
        T = forward(m, joints)
        q, branches = all_solutions(m, T)
        assert np.array_equal(classify(m, q), branches)
        if len(set(branches.tolist())) < len(branches):
            shared += 1
            for solution in q:
                first = solutions_near(m, T, solution)[0]
                assert np.abs(first.q - solution).max() < 1e-6
                assert first.branch == BRANCHES[int(classify(m, solution))]
    assert shared > 0


def near_two_singularities(m: Model, rng: np.random.Generator) -> np.ndarray:
    """Return joints (300, 6) near the shoulder's and the elbow's, half also near the wrist's."""
    q = rng.uniform(-np.pi, np.pi, (40_000, 6))
    q[:, 2] = rng.normal(0.0, 0.03, len(q))
    q[::2, 4] = rng.normal(0.0, 0.01, len(q) // 2)
    return q[singularity(m, q).shoulder < 0.01][:300]


@pytest.mark.parametrize('name', ['ur3e', 'ur5', 'ur10'])
def test_an_arm_near_two_singularities_finds_the_joints_at_which_it_stands(name, rng):
    m = calibrated_arm(name, rng)
    planner = MotionPlanner(m, MotionSettings(), SCENE)
    for joints in near_two_singularities(m, rng)[:150]:
        T = forward(m, joints)
        assert solutions_near(m, T, joints)[0].distance < 1e-9
        assert np.abs(planner.joint_goals(T, joints)[0] - joints).max() < 1e-9
        assert np.abs(follow_poses(m, T[None], joints)[0] - joints).max() < 1e-9


def test_near_two_singularities_few_solutions_are_missed_without_a_seed(rng):
    missed = poses = 0
    for name in 3 * ('ur3e', 'ur5', 'ur10'):
        m = calibrated_arm(name, rng)
        joints = near_two_singularities(m, rng)
        q = every_solution(m, forward(m, joints), joints[:, 5])
        missed += len(joints) * (1.0 - share_found(q, joints))
        poses += len(joints)
    assert poses > 2_000
    assert missed < 0.02 * poses


@pytest.mark.parametrize('turns', [-1e6, -16, -3, 2, 3, 16])
def test_a_seed_many_turns_away_gives_each_solution_once_and_within_a_turn(turns, rng):
    m = calibrated_arm('ur5', rng)
    for joints in rng.uniform(-np.pi, np.pi, (20, 6)):
        T, far = forward(m, joints), joints + 2.0 * np.pi * turns
        q, branches = all_solutions(m, T, seed=far)
        near, expected = all_solutions(m, T, seed=joints)
        assert ((q > -np.pi) & (q <= np.pi)).all()
        assert np.array_equal(branches, expected)
        np.testing.assert_allclose(q, near, rtol=0.0, atol=1e-8)


def test_a_seed_that_does_not_fit_the_poses_is_refused(rng):
    m = calibrated_arm('ur5', rng)
    poses = np.tile(forward(m, np.ones(6)), (2, 1, 1))
    one, one_ok = inverse(m, poses, seed=np.ones(6))
    each, each_ok = inverse(m, poses, seed=np.ones((2, 6)))
    assert np.array_equal(one, each, equal_nan=True) and np.array_equal(one_ok, each_ok)
    with pytest.raises(InvalidInput, match=r'seed has shape \(3, 6\): must fit the poses, \(2,\)'):
        inverse(m, poses, seed=np.ones((3, 6)))
    with pytest.raises(InvalidInput, match=r'seed\[0\] = nan \(shoulder_pan_joint\)'):
        inverse(m, poses, seed=np.full(6, np.nan))


def test_a_branch_that_a_calibrated_arm_lacks_where_an_ideal_one_has_it_is_no_double_root(rng):
    m, causes = calibrated_arm('ur5', rng), set()
    for joints in _at(rng.uniform(-3.0, 3.0, (150, 6)), 4, 1e-3):
        for missing in explain(m, forward(m, joints), joints[5]):
            causes.add(missing.cause)
            assert 'double' not in missing.text
            assert missing.amount > 0.0 or 'a calibrated arm has fewer' in missing.text
    assert 'double' in causes


def test_one_pose_and_the_nominal_arm_say_how_far_they_differ(calibrated):
    m = load_model(calibrated[0])
    q, ok = inverse(m, forward(m, np.ones(6)))
    assert ok[BRANCHES.index('left-up-down')]
    assert np.abs(q[0] - 1).max() < 1e-9
    metres, radians = calibration_offset(m, np.ones((3, 6)))
    delta = inverse_transform(forward(load_model('ur5'), np.ones(6))) @ forward(m, np.ones(6))
    assert np.allclose(metres, np.linalg.norm(delta[:3, 3]))
    assert np.allclose(radians, np.linalg.norm(log_se3(delta)[3:]))


def test_out_of_reach_is_out_of_reach(calibrated):
    m = load_model(calibrated[0])
    T = forward(m, np.ones(6))
    T[0, 3] = 2.0
    assert not inverse(m, T)[1].any()


def test_the_shipped_file_is_the_nominal_arm(tmp_path):
    """Its ten digits of pi/2 must not make a calibrated arm of it."""
    m = load_model(write(tmp_path / 'default_kinematics.yaml', SHIPPED))
    assert (m.name, m.mounts, m.calibration) == ('ur5', None, 'calib_1234')
    assert np.array_equal(forward(m, np.ones(6)), forward(load_model('ur5'), np.ones(6)))


@pytest.mark.parametrize('hash_', [None, '', "''", '" "', '~'])
def test_a_file_without_a_hash_is_told_from_other_arms_by_its_numbers(tmp_path, hash_):
    def calibration(z: float) -> str:
        links = {**SHIPPED, 'shoulder': (0, 0, z, 0, 0, 0)}
        path = write(tmp_path / 'calibration.yaml', links)
        line = '' if hash_ is None else f'hash: {hash_}'
        path.write_text(path.read_text().replace('hash: calib_1234', line))
        return load_model(path).calibration

    assert calibration(SHIPPED['shoulder'][2]) == '', 'the nominal arm'
    one, other = calibration(0.0895), calibration(0.0896)
    assert one.startswith('sha256_') and other.startswith('sha256_') and one != other
    assert calibration(0.0895) == one


def test_flipped_angles_are_the_same_joint(tmp_path):
    """A file may turn the forearm by pi about all three axes, which is no turn at all."""
    flipped = {**SHIPPED, 'forearm': (-0.425, 0, 0, np.pi, np.pi, np.pi)}
    assert load_model(write(tmp_path / 'flipped.yaml', flipped)).mounts is None


ZERO = dict.fromkeys(('x', 'y', 'z', 'roll', 'pitch', 'yaw'), 0)


def damaged(shoulder: object) -> str:
    """Return a calibration file with this in the place of the shoulder's pose."""
    links = {**dict.fromkeys(SHIPPED, ZERO), 'shoulder': shoulder}
    return str({'kinematics': links}).replace("'", '')


def test_a_number_may_be_written_without_a_point(tmp_path):
    near = {**SHIPPED, 'upper_arm': (1e-5, 0, 0, 1.570796327, 0, 0)}
    path = write(tmp_path / 'calibration.yaml', near)
    path.write_text(path.read_text().replace('1.0e-05', '1e-5'))
    assert '1e-5' in path.read_text()
    metres, _ = calibration_offset(load_model(path), np.zeros(6))
    assert metres == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ('{', 'calibration file .* cannot be read'),
        ('[1, 2]', "has no 'kinematics'"),
        ('kinematics: {shoulder: 3}', "kinematics has no 'upper_arm'; it needs shoulder, upper"),
        (damaged(3), 'kinematics.shoulder = 3: must be a mapping with x, y, z, roll'),
        (damaged({'x': 0}), "kinematics.shoulder lacks the key 'y'"),
        (damaged({**ZERO, 'x': '.nan'}), 'shoulder.x = nan: must be a finite number'),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content, message):
    path = tmp_path / 'calibration.yaml'
    path.write_text(content)
    with pytest.raises(InvalidInput, match=message):
        load_model(path)


def test_a_missing_file_and_another_robot_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match='nowhere.yaml cannot be read'):
        load_model(tmp_path / 'nowhere.yaml')
    longer = {**SHIPPED, 'forearm': (-0.5, 0, 0, 0, 0, 0)}
    with pytest.raises(InvalidInput, match='the nearest arm is ur5, but a length differs by 0.07'):
        load_model(write(tmp_path / 'longer.yaml', longer))
