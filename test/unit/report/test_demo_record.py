# SPDX-License-Identifier: Apache-2.0
"""What a record says of a cycle, and what is kept of it."""

import dataclasses
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from ur5_pick_place.demo import outputs as demo_report
from ur5_pick_place.demo.progress import ProgressDisplay
from ur5_pick_place.demo.record import (
    Record,
    RunResult,
    Task,
    check_placement,
    measure,
    transfer,
)
from ur5_pick_place.demo.spots import Displacement, Spot
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import HOME, load_model

MODEL = load_model('ur5')
T_TOOL_TCP = np.eye(4)
T_TOOL_TCP[2, 3] = 0.145
# At HOME the upper arm is upright and the forearm level, so that the TCP is, by the DH lengths:
HOME_TCP = (0.39225 + 0.09465, 0.10915, 0.089159 + 0.425 - 0.0823 - 0.145)
HOME_YAW = -90.0  # [deg] of a cube that sits straight in the hand there


def pose(x: float, y: float, z: float, yaw: float) -> np.ndarray:
    T = np.eye(4)
    T[:3, :3] = Rotation.from_euler('z', yaw, degrees=True).as_matrix()
    T[:3, 3] = x, y, z
    return T


def record_of(T_gripped: np.ndarray, T_end: np.ndarray) -> Record:
    """The arm stands at home while it grips at 1 s, and the cube is elsewhere at 2 s."""
    record = Record()
    record.joints = [(t, HOME, np.zeros(6), HOME) for t in (0.0, 1.0, 2.0)]
    record.parts = [(0.0, T_gripped[None]), (1.0, T_gripped[None]), (2.0, T_end[None])]
    record.fingers = [(0.0, [0.0, 0.0])]
    record.events = [
        {'time': 0.1, 'event': 'started'},
        {'time': 1.0, 'event': 'grasp_verified'},
        {'time': 1.9, 'event': 'done'},
    ]
    return record


def test_placement_error_is_from_target_to_cube() -> None:
    task = transfer(Spot(0.5, 0.1, 0.0), Spot(0.4, 0.2, math.radians(30.0)))
    record = record_of(pose(*HOME_TCP, HOME_YAW), pose(0.403, 0.204, 0.0225, 32.0))
    found = measure(record, task, MODEL, T_TOOL_TCP)
    assert found['placement_error_m'] == pytest.approx(0.005, abs=1e-9)
    assert found['placement_error_rad'] == pytest.approx(math.radians(2.0), abs=1e-9)
    assert found['cycle_time_s'] == pytest.approx(1.8)
    assert found['max_tcp_speed_m_s'] == pytest.approx(0.0, abs=1e-12)


def test_a_quarter_turn_of_the_cube_is_no_symmetry() -> None:
    task = transfer(Spot(0.5, 0.1, 0.0), Spot(0.4, 0.2, 0.0))
    record = record_of(pose(*HOME_TCP, HOME_YAW), pose(0.4, 0.2, 0.0225, 90.0))
    found = measure(record, task, MODEL, T_TOOL_TCP)
    assert found['placement_error_rad'] == pytest.approx(math.pi / 2)


def test_displaced_cube_is_measured_against_its_place_in_the_hand() -> None:
    """Gripped 3 mm off along its own x and put down so, the arm has made no mistake."""
    task = transfer(Spot(0.5, 0.1, 0.0), Spot(0.4, 0.2, 0.0), Displacement(0.003, 0.0, 0.0))
    straight = pose(*HOME_TCP, HOME_YAW)
    off = pose(0.003, 0.0, 0.0, 0.0)
    record = record_of(straight @ off, pose(0.4, 0.2, 0.0225, 0.0) @ off)
    found = measure(record, task, MODEL, T_TOOL_TCP)
    assert found['placement_error_m'] == pytest.approx(0.003, abs=1e-9)
    assert found['grip_offset_m'] == pytest.approx((0.003, 0.0, 0.0), abs=1e-9)
    assert found['in_hand_error_m'] == pytest.approx(0.0, abs=1e-9)
    assert found['in_hand_error_rad'] == pytest.approx(0.0, abs=1e-9)
    check_placement(RunResult('ik', False, '', task, **found))
    with pytest.raises(ExecutionError, match=r'3\.0 mm and 0\.0 deg.*at most 2 mm and 1 deg'):
        undisplaced = dataclasses.replace(task, displacement=None)
        check_placement(RunResult('ik', False, '', undisplaced, **found))


def test_of_several_cubes_the_worst_counts_and_each_is_kept() -> None:
    ends = tuple(pose(0.4, y, 0.0225, 0.0) for y in (0.1, 0.2))
    spots = {'part_1': Spot(0.5, 0.1, 0.0), 'box': Spot(0.4, 0.1, 0.0)}
    task = Task(spots, (('part_1', 'box'),), ends)
    record = record_of(pose(*HOME_TCP, HOME_YAW), np.eye(4))
    record.parts.append((2.1, np.array([ends[0], ends[1] @ pose(0.003, 0.0, 0.0, 0.0)])))
    found = measure(record, task, MODEL, T_TOOL_TCP)
    assert found['placement_errors_m'] == pytest.approx((0.0, 0.003), abs=1e-9)
    assert found['placement_error_m'] == pytest.approx(0.003, abs=1e-9)
    assert 'grip_offset_m' not in found
    with pytest.raises(ExecutionError, match=r'3\.0 mm'):
        check_placement(RunResult('ik', False, '', task, **found))
    assert np.isnan(record.parts_at(2.0)[1]).all(), 'the second one has not come yet'
    del record.parts[-1]
    assert 'placement_error_m' not in measure(record, task, MODEL, T_TOOL_TCP)


def test_top_speed_comes_from_the_joints() -> None:
    """Joint 1 turning at 1 rad/s moves the TCP at its distance from the axis."""
    record = record_of(np.eye(4), np.eye(4))
    record.joints = [
        (t, (t, *HOME[1:]), np.eye(6)[0], HOME) for t in np.arange(0.0, 1.0, 0.008)
    ]
    found = measure(record, transfer(Spot(0.5, 0, 0), Spot(0.4, 0, 0)), MODEL, T_TOOL_TCP)
    radius = math.hypot(HOME_TCP[0], HOME_TCP[1])
    assert found['max_tcp_speed_m_s'] == pytest.approx(radius, rel=1e-3)


def test_two_samples_of_one_stamp_leave_the_result_finite(tmp_path: Path) -> None:
    record = record_of(pose(*HOME_TCP, HOME_YAW), pose(0.4, 0.2, 0.0225, 0.0))
    record.joints.insert(1, (0.0, HOME + 0.01, np.zeros(6), HOME))
    task = transfer(Spot(0.5, 0.1, 0.0), Spot(0.4, 0.2, 0.0))
    found = measure(record, task, MODEL, T_TOOL_TCP)
    assert math.isfinite(found['max_tcp_speed_m_s'])
    demo_report.write_result(tmp_path, [RunResult('ik', False, '', task, **found)], {})


def test_nothing_heard_is_nothing_measured() -> None:
    task = transfer(Spot(0.5, 0.1, 0.0), Spot(0.4, 0.2, 0.0))
    assert measure(Record(), task, MODEL, T_TOOL_TCP) == {}
    with pytest.raises(ExecutionError, match='published no pose'):
        check_placement(RunResult('ik', False, '', task))


# -- what is kept --------------------------------------------------------------------------------


def result(**fields: object) -> RunResult:
    task = transfer(Spot(0.5, 0.1, 0.0), Spot(0.4, 0.2, 0.0))
    return RunResult('ik', True, '', task, **fields)  # type: ignore[arg-type]


def test_result_file_is_strict_json_with_a_list_of_runs(tmp_path: Path) -> None:
    runs = [result(placement_error_m=0.000123456789, grip_offset_m=(0.0, 1e-9, 0.002))]
    demo_report.write_result(tmp_path, runs, {'seed': None})
    content = json.loads((tmp_path / 'result.json').read_text())
    (run,) = content['runs']
    assert run['placement_error_m'] == 0.000123
    assert run['grip_offset_m'] == [0.0, 0.0, 0.002]
    assert run['start'] == {'x': 0.5, 'y': 0.1, 'yaw': 0.0}
    assert run['cycle_time_s'] is None
    with pytest.raises(ValueError, match='not JSON compliant'):
        demo_report.write_result(tmp_path, [result(cycle_time_s=math.nan)], {})


def test_publishing_twice_in_a_second_keeps_both_and_links_the_last(tmp_path: Path) -> None:
    work, out = tmp_path / 'work', tmp_path / 'out'
    work.mkdir()
    folders = []
    for text in ('first', 'second'):
        (work / 'result.json').write_text(text)
        (work / 'poses.yaml').write_text('not for keeps')
        folders.append(demo_report.publish(work, out))
    assert [(f / 'result.json').read_text() for f in folders] == ['first', 'second']
    assert (out / 'latest').resolve() == folders[1]
    assert sorted(p.name for p in out.iterdir()) == sorted([*(f.name for f in folders), 'latest'])
    assert [p.name for p in folders[0].iterdir()] == ['result.json']


def test_remains_of_a_killed_demo_are_cleared_away(tmp_path: Path) -> None:
    remains = tmp_path / 'out' / '.2026-01-01T00-00-00Z.unfinished'
    remains.mkdir(parents=True)
    (remains / 'cell.png').write_bytes(b'half')
    (tmp_path / 'result.json').write_text('{}')
    demo_report.publish(tmp_path, tmp_path / 'out')
    assert not remains.exists()


def test_an_interrupted_publishing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / 'result.json').write_text('{}')
    monkeypatch.setattr(demo_report.shutil, 'copyfile', interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo_report.publish(tmp_path, tmp_path / 'out')
    assert not list((tmp_path / 'out').iterdir())


def test_table_speaks_in_millimetres_and_degrees() -> None:
    failed = dataclasses.replace(result(), success=False)
    lines = demo_report.table(
        [result(placement_error_m=0.00044, placement_error_rad=0.01), failed]
    ).splitlines()
    assert '0.44 mm 0.57 deg' in lines[1]
    assert 'placed' in lines[1]
    assert 'FAILED' in lines[2]


def test_progress_has_a_line_for_every_stage_even_one_that_passed_unseen() -> None:
    stream = io.StringIO()
    progress = ProgressDisplay(MODEL, T_TOOL_TCP, stream)
    record = record_of(np.eye(4), np.eye(4))
    for names in (['grip'], ['verify', 'lift']):
        record.events += [{'time': 1.0, 'event': 'stage', 'stage': n} for n in names]
        progress.show(record)
    progress.end_stage()
    lines = stream.getvalue().splitlines()
    assert [line.split()[2] for line in lines[2:]] == ['grip', 'verify', 'lift']
    assert '0.287 m' in lines[2]
    assert '70.0 mm' in lines[2]


def test_the_last_stage_ends_with_the_run_not_with_the_recording() -> None:
    stream = io.StringIO()
    progress = ProgressDisplay(MODEL, T_TOOL_TCP, stream)
    record = Record(parts=[(0.0, np.eye(4)[None])], fingers=[(0.0, [0.0, 0.0])])
    for t, event in ((1.0, {'event': 'stage', 'stage': 'home'}), (2.0, {'event': 'done'})):
        record.joints.append((t - 0.01, HOME, np.zeros(6), HOME))
        progress.show(record)
        record.events.append({'time': t, **event})
        progress.show(record)
    record.joints.append((2.4, HOME, np.zeros(6), HOME))
    progress.show(record)
    progress.end_stage()
    _, heading, line = stream.getvalue().splitlines()
    assert heading.startswith('stage ends ') and line.split()[0] == '1.99'
