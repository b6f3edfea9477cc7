# SPDX-License-Identifier: Apache-2.0
"""
Taught poses: what becomes of them under another tool or robot, and how their file is kept.

A place is converted where that is exact, refused with the reason otherwise, never half-read.
"""

import errno
import fcntl
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import yaml
from calibration_files import calibrated_arm
from closeness import assert_transforms_close
from taught_poses import MODEL, NOW, POSES, TOOL, Q, by_joints, by_pose
from twists import exp_se3

from ur5_pick_place.config_files import locked, write_atomically
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import BRANCHES, classify, forward, load_model
from ur5_pick_place.kinematics.transforms import make_transform, tool_down
from ur5_pick_place.task.places.file import PosesFile
from ur5_pick_place.task.places.poses import changes, converted, is_same, numbers_from_matrix

LONG_TOOL = make_transform(np.diag([-1.0, -1.0, 1.0]), [0.01, 0.0, 0.2])


@pytest.fixture
def calibrated(rng):
    """An arm whose joints sit a little beside and askew of where the DH table has them."""
    return replace(calibrated_arm(MODEL.name, rng), calibration='calib_1')


def test_a_pose_of_a_camera_is_the_same_whatever_the_sign_of_its_quaternion(rng):
    """Of a tool that points down w is 0, whose sign is rounding."""
    for yaw in rng.uniform(-3.0, 3.0, 20):
        T = tool_down(0.4, 0.2, 0.1, yaw)
        T_again = T @ exp_se3(np.array([0.0, 0.0, 0.0, *rng.uniform(-1e-9, 1e-9, 3)]))
        given = [replace(by_pose(0.5), pose=numbers_from_matrix(seen)) for seen in (T, T_again)]
        assert is_same(*given)


def test_a_place_taught_again_is_the_same_up_to_noise_and_rounding():
    kept = by_joints()
    noise = replace(kept, joints=tuple(np.add(kept.joints, 2e-5)))
    assert is_same(kept, replace(noise, time='later'))
    assert not is_same(kept, replace(kept, joints=tuple(np.add(kept.joints, 2e-4))))
    assert is_same(kept, replace(kept, joints=(), branch='')), 'its pose, published'
    given = by_pose(0.5)
    assert is_same(given, by_pose(0.5 + 1e-9)) and not is_same(given, by_pose(0.5 + 1e-5))
    assert not is_same(replace(kept, joints=(), branch=''), kept), 'joints are more'
    assert not is_same(kept, replace(kept, provenance=replace(NOW, payload=9.0)))


# ---- under another tool or robot


def test_nothing_changed_changes_nothing():
    for name, pose in POSES.items():
        assert converted(name, pose, NOW, MODEL) == pose


def test_another_payload_leaves_a_place_where_it_is():
    now = replace(NOW, payload=1.4)
    for name, pose in POSES.items():
        assert converted(name, pose, now, MODEL) == replace(pose, provenance=now)
    assert changes(NOW, now) == {'payload': [0.9, 1.4]}


@pytest.mark.parametrize('place', ['start', 'target'])
def test_under_another_tool_the_tcp_goes_to_the_same_place_and_the_joints_are_dropped(place):
    now = replace(NOW, tool=numbers_from_matrix(LONG_TOOL))
    found = converted(place, by_joints(), now, MODEL)
    np.testing.assert_allclose(found.pose, by_joints().pose, atol=1e-12)
    assert (found.joints, found.branch, found.provenance) == ((), '', now)


def test_under_another_tool_home_keeps_its_joints():
    now = replace(NOW, tool=numbers_from_matrix(LONG_TOOL))
    found = converted('home', by_joints(), now, MODEL)
    assert found.joints == tuple(Q.tolist())
    assert_transforms_close(found.T_base_tcp, forward(MODEL, Q) @ LONG_TOOL)


@pytest.mark.parametrize('place', ['home', 'start'])
def test_under_another_calibration_measured_joints_say_where_the_arm_was(place, calibrated):
    now = replace(NOW, calibration='calib_1')
    found = converted(place, by_joints(), now, calibrated)
    assert found.joints == tuple(Q.tolist())
    assert_transforms_close(found.T_base_tcp, forward(calibrated, Q) @ TOOL)
    assert np.abs(np.subtract(found.pose, by_joints().pose)).max() > 1e-4
    assert converted(place, found, now, calibrated) == found, 'converted once and for all'


def test_another_calibration_and_tool_together_keep_where_the_old_tcp_really_was(calibrated):
    now = replace(NOW, calibration='calib_1', tool=numbers_from_matrix(LONG_TOOL))
    found = converted('start', by_joints(), now, calibrated)
    assert found.joints == ()
    assert_transforms_close(found.T_base_tcp, forward(calibrated, Q) @ TOOL)


def test_a_branch_is_that_of_the_present_arm(calibrated):
    now = replace(NOW, calibration='calib_1')
    found = converted('home', replace(by_joints(), branch='right-up-up'), now, calibrated)
    assert found.branch == 'left-up-up' == BRANCHES[classify(calibrated, Q)]


def test_a_pose_given_under_another_calibration_is_refused(calibrated):
    now = replace(NOW, calibration='calib_1')
    words = 'start was given .* with no calibration, and the robot has'
    with pytest.raises(InvalidInput, match=words):
        converted('start', by_pose(), now, calibrated)


@pytest.mark.parametrize('place', ['home', 'start'])
def test_another_robot_model_is_refused(place):
    ur10 = load_model('ur10')
    with pytest.raises(InvalidInput, match=f'{place} was taught with a ur5, this is a ur10'):
        converted(place, by_joints(), replace(NOW, robot='ur10'), ur10)


@pytest.mark.parametrize(
    ('place', 'cure'),
    [('home', 'correct the joints'), ('start', 'empty joints and branch keep the pose')],
)
def test_joints_that_contradict_their_pose_are_refused(place, cure):
    pose = list(by_joints().pose)
    pose[0] += 0.01
    said = f'its joints put the TCP 0.0100 m from its pose, .* orientation; {cure}, or teach'
    with pytest.raises(InvalidInput, match=said):
        converted(place, replace(by_joints(), pose=tuple(pose)), NOW, MODEL)
    turned = tuple(np.degrees(by_joints().joints).tolist())
    with pytest.raises(InvalidInput, match=f'orientation; radians, not degrees.; {cure}'):
        converted(place, replace(by_joints(), joints=turned), NOW, MODEL)


# ---- the file


@pytest.fixture
def path(tmp_path):
    """A file that holds `POSES`."""
    path = tmp_path / 'deep' / 'poses.yaml'
    file = PosesFile(path)
    for name, pose in POSES.items():
        file.keep(name, pose)
    return path


def contents(path):
    return {p.name: p.read_bytes() for p in path.parent.iterdir()}


def test_what_was_kept_is_read(path):
    assert PosesFile(path).poses == POSES
    assert PosesFile(path).warning == ''
    assert contents(path).keys() == {'poses.yaml', 'poses.yaml.last'}


def test_no_file_holds_no_poses(path):
    path.unlink()
    assert PosesFile(path).poses == {}


def test_a_file_cut_short_anywhere_is_recovered_whole_from_its_copy(path):
    content = path.read_bytes()
    at_line_ends = [n for n in range(len(content) - 1) if content[n : n + 1] == b'\n']
    for n in (0, len(content) - 2, *at_line_ends):  # at a line's end the rest is whole YAML
        path.write_bytes(content[:n])
        file = PosesFile(path)
        assert file.poses == POSES
        assert 'cut short' in file.warning and 'poses.yaml.last' in file.warning
        assert path.read_bytes() == content[:n], 'reading writes nothing'


def test_a_file_of_rubbish_is_recovered_from_its_copy(path, rng):
    path.write_bytes(b'\xff' + rng.bytes(300))
    file = PosesFile(path)
    assert file.poses == POSES and 'no text' in file.warning


def test_after_a_recovery_teaching_mends_the_file(path):
    path.write_bytes(path.read_bytes()[:50])
    PosesFile(path).keep('start', by_pose(0.5))
    assert PosesFile(path).poses == {**POSES, 'start': by_pose(0.5)}
    assert PosesFile(path).warning == ''


@pytest.mark.parametrize('copy', [None, b'', b'format: 1\nposes: {}'])
def test_a_damaged_file_without_a_whole_copy_is_refused(path, copy):
    path.write_bytes(path.read_bytes()[:-5])
    last = path.with_name('poses.yaml.last')
    last.unlink() if copy is None else last.write_bytes(copy)
    with pytest.raises(InvalidInput, match='cut short or no .*backup .* or damaged; set another'):
        PosesFile(path)


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        ('format: 1', 'format: 9', 'format 9 is unknown'),
        ('  home:', '  2nd:', "poses: key = '2nd': must be a name"),
        ('frame: base', 'frame: world', "poses.home.frame = 'world': must be one of base"),
        ('robot: ur5', 'rowboat: ur5', "provenance has the unknown key 'rowboat'; known"),
        ('- 0.145', '- .nan', r'tool\[2\] = nan: must be a finite number'),
        ('payload: 0.9', 'payload: heavy', 'heavy'),
        ('payload: 0.9', f'payload: {10**400}', 'exceeds 64 bits'),
        ('branch: left-up-up', 'branch: left-up', "branch = 'left-up': must be one of left-up"),
        ('joints:', 'unjoints:', "home has the unknown key 'unjoints'"),
        ('- 0.145\n', '- 0.145\n      - 1.0\n', 'tool = .* must have 7 entries'),
        ('poses:', 'poses: [1', 'ParserError'),
        ('poses:', 'poses: ' + 700 * '[', 'nested brackets'),
    ],
)
def test_an_edited_file_is_refused_with_what_is_wrong_and_left_alone(path, old, new, message):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    before = contents(path)
    with pytest.raises(InvalidInput, match=f'(?s){message}.*correct it, or delete it'):
        PosesFile(path)
    assert contents(path) == before


@pytest.mark.parametrize(
    ('joints', 'branch', 'message'),
    [
        ([], '', 'poses.home: joints are missing'),
        ([], 'left-up-up', "branch = 'left-up-up': must be empty without joints"),
        ([0.0] * 5, 'left-up-up', r'joints = .*: must have 6 entries, or none'),
    ],
)
def test_joints_are_six_with_a_branch_and_home_has_them(path, joints, branch, message):
    content = yaml.safe_load(path.read_text())
    content['poses']['home'].update(joints=joints, branch=branch)
    path.write_text(yaml.safe_dump(content, explicit_end=True))
    with pytest.raises(InvalidInput, match=message):
        PosesFile(path)


def test_what_is_too_large_for_a_file_of_poses_is_refused(path):
    path.write_bytes(200_000 * b'#')
    with pytest.raises(InvalidInput, match='larger than'):
        PosesFile(path)


def test_a_pose_that_would_make_the_file_too_large_is_not_kept(path, monkeypatch):
    monkeypatch.setattr('ur5_pick_place.task.places.file.MAX_BYTES', path.stat().st_size + 100)
    file = PosesFile(path)
    with pytest.raises(ExecutionError, match='tray is not taught; delete those that no cycle'):
        file.keep('tray', by_pose(0.5))
    assert PosesFile(path).poses == file.poses == POSES


def test_a_person_may_move_a_pose_that_has_no_joints(path):
    path.write_text(path.read_text().replace('- -0.4\n', '- -0.41\n'))
    assert PosesFile(path).poses['start'].pose[0] == -0.41


def test_the_second_of_two_writers_is_refused_and_the_first_ones_pose_stays(path):
    first, second = PosesFile(path), PosesFile(path)
    first.keep('start', by_pose(0.5))
    with pytest.raises(ExecutionError, match='by another cell.*of its own; restart this node'):
        second.keep('target', by_pose(0.3))
    assert second.poses == POSES
    assert PosesFile(path).poses == first.poses == {**POSES, 'start': by_pose(0.5)}


def test_a_person_who_edits_the_file_under_a_running_node_is_told_to_restart_it(path):
    file = PosesFile(path)
    file.keep('start', by_pose(0.5))
    file.check_unchanged()
    path.write_text(path.read_text() + '# by hand\n')
    with pytest.raises(ExecutionError, match=r'poses.yaml: changed by someone else.*restart thi'):
        file.check_unchanged()


def test_a_file_removed_meanwhile_is_not_written_again(path):
    file = PosesFile(path)
    path.unlink()
    with pytest.raises(ExecutionError, match='changed by someone else'):
        file.keep('start', by_pose())
    assert not path.exists()


def test_who_writes_at_the_same_moment_is_refused(path):
    file = PosesFile(path)
    with (
        locked(path.parent),
        pytest.raises(ExecutionError, match='cannot be written.*start is not taught'),
    ):
        file.keep('start', by_pose(0.5))
    assert file.poses == PosesFile(path).poses == POSES


def test_a_place_is_kept_where_files_cannot_be_locked(path, monkeypatch):
    """As on NFS without its lock daemon, where the kernel itself locks folders."""
    flock = fcntl.flock

    def lock(handle, how):
        if stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.ENOLCK, 'No locks available')
        flock(handle, how)

    monkeypatch.setattr(fcntl, 'flock', lock)
    PosesFile(path).keep('start', by_pose(0.5))
    assert PosesFile(path).poses['start'] == by_pose(0.5)


def test_two_writers_of_any_file_each_leave_it_whole(path):
    def write(content: bytes) -> set[bytes]:
        found = set()
        for _ in range(60):
            write_atomically(path, content)
            found.add(path.read_bytes())
        return found

    contents = {100_000 * b'a', 100_000 * b'b'}
    with ThreadPoolExecutor() as pool:
        assert set().union(*pool.map(write, contents)) == contents


@pytest.mark.parametrize('step', ['fsync', 'replace'])
def test_a_disk_that_fills_up_leaves_file_and_copy_as_they_were(path, monkeypatch, step):
    file, before = PosesFile(path), contents(path)

    def fill_up(*_arguments):
        raise OSError('the disk is full')

    monkeypatch.setattr(os, step, fill_up)
    with pytest.raises(ExecutionError, match='the disk is full; start is not taught'):
        file.keep('start', by_pose(0.5))
    monkeypatch.undo()
    assert contents(path) == before and file.poses == PosesFile(path).poses == POSES
    file.keep('start', by_pose(0.5))
    assert PosesFile(path).poses['start'] == by_pose(0.5)


@pytest.mark.parametrize('step', ['fsync', 'replace'])
def test_a_disk_that_fills_up_before_the_copy_leaves_the_copy_before(path, monkeypatch, step):
    file, copy, calls = PosesFile(path), path.with_name('poses.yaml.last'), []

    def fill_up(*arguments, real=getattr(os, step)):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError('the disk is full')
        return real(*arguments)

    before = copy.read_bytes()
    monkeypatch.setattr(os, step, fill_up)
    file.keep('start', by_pose(0.5))
    assert copy.read_bytes() == before
    assert PosesFile(path).poses == {**POSES, 'start': by_pose(0.5)}


def test_a_file_is_not_taken_for_someone_elses_while_a_pose_is_kept(path, monkeypatch):
    file = PosesFile(path)
    with ThreadPoolExecutor() as pool:
        checks = []

        def check_then(source, target, replace=os.replace):
            replace(source, target)
            checks.append(pool.submit(file.check_unchanged))
            time.sleep(0.05)

        monkeypatch.setattr(os, 'replace', check_then)
        file.keep('start', by_pose(0.5))
        for check in checks:
            check.result(5.0)
    assert checks


def test_a_symlink_stays_one_and_the_file_that_it_names_is_written(path, tmp_path):
    link = tmp_path / 'elsewhere' / 'link.yaml'
    link.parent.mkdir()
    link.symlink_to(path)
    PosesFile(link).keep('start', by_pose(0.5))
    assert link.is_symlink()
    assert PosesFile(path).poses['start'] == by_pose(0.5)


@pytest.mark.parametrize('mode', [0o600, 0o644, 0o664])
def test_who_may_read_the_file_stays_as_it_is(path, mode):
    path.chmod(mode)
    PosesFile(path).keep('start', by_pose(0.5))
    assert path.stat().st_mode & 0o777 == mode
    assert path.with_name('poses.yaml.last').stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_mode_that_the_user_gives_new_files(tmp_path):
    before = os.umask(0o027)
    try:
        PosesFile(tmp_path / 'poses.yaml').keep('start', by_pose())
    finally:
        os.umask(before)
    assert (tmp_path / 'poses.yaml').stat().st_mode & 0o777 == 0o640


def test_places_of_another_cycle_are_kept(path):
    file = PosesFile(path)
    file.keep('tray', by_pose(0.5))
    PosesFile(path).keep('start', by_pose(0.3))
    kept = PosesFile(path).poses
    assert kept == {**POSES, 'start': by_pose(0.3), 'tray': by_pose(0.5)}


def test_a_pose_given_twice_is_refused(path):
    text = path.read_text()
    begin = text.index('  start:')
    twice = text[begin:].removesuffix('...\n')
    path.write_text(f'{text[:begin]}{twice}{text[begin:]}')
    with pytest.raises(InvalidInput, match="'start' is given twice.*line"):
        PosesFile(path)


@pytest.mark.parametrize('name', ['poses.yaml', 'poses.yaml.last'])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(path, name):
    path.write_bytes(path.read_bytes()[:50])  # so that the copy is read
    pipe = path.with_name(name)
    pipe.unlink()
    os.mkfifo(pipe)
    with pytest.raises(InvalidInput, match=f'{name} is a pipe or a device'):
        PosesFile(path)


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=f"Is a directory: '{tmp_path}'"):
        PosesFile(tmp_path)


def test_what_cannot_be_written_is_not_taught(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(InvalidInput, match='cannot be read'):
        PosesFile(tmp_path / 'file' / 'poses.yaml')
    path = tmp_path / 'folder' / 'poses.yaml'
    file = PosesFile(path)
    (tmp_path / 'folder').write_text('')
    with pytest.raises(ExecutionError, match='cannot be written.*start is not taught'):
        file.keep('start', by_pose())
    assert file.poses == {}
