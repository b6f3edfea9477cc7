# SPDX-License-Identifier: Apache-2.0
"""What `compare` says of a motion is what the motion was, and it says why a method failed."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ur5_pick_place.demo import compare
from ur5_pick_place.demo.compare import (
    MeasuredMove,
    MethodRun,
    common_moves,
    figures_of_lines,
    measured_run,
)
from ur5_pick_place.demo.options import read_options
from ur5_pick_place.demo.recorded_run import arm_of
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.report.motion import Motion, RecordedJoints, Samples, motion_of
from ur5_pick_place.report.runs import RecordedRun

DURATION = 2.0


def bow(height: float = 0.0, name: str = 'lift') -> MeasuredMove:
    """A TCP that goes 0.2 m along x in a bow of y, while joint 1 alone turns by half a radian."""
    t = np.arange(0.0, DURATION + CYCLE / 2, CYCLE)
    phase = math.pi * t / DURATION
    q, qd = np.zeros((2, t.size, 6))
    q[:, 0] = 0.25 * (1.0 - np.cos(phase))
    qd[:, 0] = 0.25 * math.pi / DURATION * np.sin(phase)
    T = np.tile(np.eye(4), (t.size, 1, 1))
    T[:, 0, 3] = 0.1 * (1.0 - np.cos(phase))
    T[:, 1, 3] = height * np.sin(phase)
    T_goal = np.eye(4)
    T_goal[0, 3] = 0.2
    trace = Motion(t, q, qd, q, T, T[:, :3, 3], np.ones(6), 1.0)
    return MeasuredMove(name, trace, T_goal, 7)


def test_the_figures_of_a_motion_made_by_hand_are_those_of_its_formulas():
    deviation, duration, iterations, travel, joint_speed, tcp_speed, jerk = figures_of_lines(
        [bow(0.003)]
    ).values()
    w = math.pi / DURATION
    assert deviation == pytest.approx(3.0, rel=1e-6)
    assert (duration, iterations) == (pytest.approx(DURATION), 7)
    assert travel == pytest.approx(0.5, rel=1e-9)
    assert joint_speed == pytest.approx(0.25 * w, rel=1e-6)
    assert tcp_speed == pytest.approx(0.1 * w, rel=1e-3)
    # One joint of six has jerk 0.25 w^3 sin, whose mean square is half the peak's square.
    assert jerk == pytest.approx(0.25 * w**3 * math.sqrt(0.5 / 6), rel=1e-2)


def test_several_moves_add_up_or_give_their_worst():
    one, found = figures_of_lines([bow(0.004)]), figures_of_lines([bow(0.001), bow(0.004)])
    for name in ('duration [s]', 'iterations', 'joint travel [rad]'):
        assert found.pop(name) == pytest.approx(2 * one.pop(name))
    assert found == pytest.approx(one)


def test_the_error_reached_is_that_of_the_last_pose():
    move = bow()
    T_goal = move.T_goal.copy()
    T_goal[:3, :3] = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    T_goal[2, 3] = 0.002
    assert replace(move, T_goal=T_goal).error == pytest.approx((0.002, math.pi / 2))


def test_beyond_the_end_of_the_line_counts_as_off_the_line():
    move = bow()
    move.T_goal[0, 3] = 0.19
    assert move.deviation[-1] == pytest.approx(0.01)


def test_only_moves_that_are_straight_for_all_methods_are_compared():
    a, b = bow(name='a'), bow(name='b')
    runs = [MethodRun('ik', moves=(a, b)), MethodRun('gradient', moves=(b,))]
    assert common_moves(runs) == ['b'] and common_moves([]) == []


OPTIONS = read_options(['--start', '0.42 0.05 20'])
STEP = 0.08  # [s] of each stage


def recorded(method: str) -> RecordedRun:
    """A run whose stages take ten samples each; the reference moves in six of them."""
    t = 100.0 + CYCLE * np.arange(10 * len(OPTIONS.cycle) + 5)
    q = HOME + np.outer(1e-3 * np.cumsum(np.arange(t.size) % 10 < 6), np.eye(6)[5])
    joints = RecordedJoints(t, q, np.gradient(q, t, axis=0), q)
    stages = [
        {
            'stage': stage.name,
            'begin_s': t[10 * i],
            'duration_s': STEP,
            'remark': 'joint motion' * (stage.name == 'transfer'),
        }
        for i, stage in enumerate(OPTIONS.cycle)
    ]
    part = OPTIONS.task.ends[0].copy()
    part[:3, 3] += [3e-3, 4e-3, 5e-3]
    done = {'time': t[-5], 'event': 'done'}
    samples = Samples(
        joints,
        (t[-1:], part[None, None]),
        (t[-1:], np.zeros((1, 2))),
        [done],
        [(s['begin_s'] + 0.01, 40 + i) for i, s in enumerate(stages)],
    )
    result = {'method': method, 'success': True, 'reason': ''}
    motion = motion_of(joints, arm_of(OPTIONS))
    return RecordedRun(result, {'stages': stages}, motion, (), samples)


@pytest.fixture
def run_by_ik() -> MethodRun:
    return measured_run(recorded('ik'), OPTIONS, CYCLE)


def test_the_straight_moves_of_a_recording_are_measured_towards_their_places(run_by_ik):
    assert [m.name for m in run_by_ik.moves] == ['start', 'lift', 'target', 'retreat']
    start, lift, *_ = run_by_ik.moves
    up = lift.T_goal[:3, 3] - start.T_goal[:3, 3]
    assert up == pytest.approx([0.0, 0.0, 0.08])
    # `base` is turned by half a turn from base_link.
    assert start.T_goal[:2, 3] == pytest.approx([-0.42, -0.05])
    assert start.trace.t.size == 10 and run_by_ik.part_error == pytest.approx(5e-3)
    assert run_by_ik.cycle.t[-1] == pytest.approx(100.0 + STEP * len(OPTIONS.cycle) - CYCLE)


def test_iterations_are_points_that_were_sent_or_periods_of_a_moving_reference(run_by_ik):
    assert [move.iterations for move in run_by_ik.moves] == [43, 47, 49, 53]
    loop = measured_run(recorded('gradient'), OPTIONS, 2 * CYCLE)
    assert {move.iterations for move in loop.moves} == {3}


def test_a_run_that_placed_nothing_gives_its_reason():
    run = recorded('ik')
    run.result.update(success=False, reason='protective stop')
    assert measured_run(run, OPTIONS, CYCLE) == MethodRun('ik', 'protective stop')


def test_the_command_prints_keeps_and_draws_what_was_measured(
    run_by_ik, monkeypatch, tmp_path, capsys
):
    failed = MethodRun('gradient', "stage 'start': protective stop")
    monkeypatch.setattr(compare, 'run_methods', lambda *_: [run_by_ik, failed])
    given = ['--method', 'ik', '--method', 'gradient', '--out', str(tmp_path)]
    assert compare.main(given) == 1
    said = capsys.readouterr().out
    assert "gradient did not place the cube: stage 'start': protective stop" in said
    (kept,) = tmp_path.glob('compare-*.json')
    content = json.loads(kept.read_text())
    found = content['figures']['ik']
    assert content['figures']['gradient'] == {}
    assert found['cycle: duration [s]'] == pytest.approx(run_by_ik.cycle.duration)
    deviation = found['largest deviation from the line [mm]']
    (line,) = (line for line in said.splitlines() if line.startswith('largest deviation'))
    assert line.split()[-2:] == [f'{deviation:.3f}', '-']
    assert kept.with_suffix('.png').read_bytes().startswith(b'\x89PNG')


def test_python_may_leave_out_the_texts_of_modules():
    source, bare = Path(compare.__file__).read_text(), {'__name__': 'compare', '__doc__': None}
    exec(compile(source, 'compare.py', 'exec', optimize=2), bare)


def test_preset_lag_and_spots_are_passed_on_and_every_move_ends_at_rest(monkeypatch, tmp_path):
    asked = []

    def run(options, changes, _work):
        asked.append((options, changes))
        return [MethodRun(method, 'not tried') for method in options.methods]

    monkeypatch.setattr(compare, 'run_methods', run)
    given = ['--preset', 'project', '--lag', '0.1', '--start', '0.5 0 -90', '--out', str(tmp_path)]
    assert compare.main(given) == 1
    ((options, changes),) = asked
    assert options.methods == ('ik', 'resolved_rate', 'gradient')
    assert options.task.start[:3] == pytest.approx((0.5, 0.0, -math.pi / 2))
    assert not any(stage.blend for stage in options.cycle)
    assert [changes[name] for name in ('loop_gain', 'loop_hold', 'servo_lag')] == [1.0, 0.5, 0.1]
    assert changes['velocity_scaling'] == pytest.approx(0.3), 'lag times speed as usual'


def test_what_the_cell_cannot_do_is_refused_before_anything_runs(capsys):
    assert compare.main(['--lag', '-1']) == 2
    assert 'servo_lag = -1.0 s: must lie in' in capsys.readouterr().err


def test_two_measurements_that_end_in_one_second_are_both_kept(tmp_path) -> None:
    paths = [compare.keep_record(tmp_path, 'soak', {'n': n}) for n in range(5)]
    assert [json.loads(path.read_text())['n'] for path in paths] == [0, 1, 2, 3, 4]
