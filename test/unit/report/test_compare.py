# SPDX-License-Identifier: Apache-2.0
"""What `compare` says of a motion is what the motion was, and it says why a method failed."""

import json
import logging
import math

import numpy as np
import pytest

from ur5_pick_place.demo import compare, comparison
from ur5_pick_place.demo.comparison import MethodRun, common_moves
from ur5_pick_place.demo.spots import DEFAULT_START, Spot
from ur5_pick_place.kinematics import HOME, load_model
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.report.line_figures import MeasuredMove, Trace, measure, trace_of

DURATION = 2.0


@pytest.fixture(autouse=True)
def _logging_as_before():
    yield
    logging.disable(logging.NOTSET)  # the command silences the driver


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
    return MeasuredMove(name, Trace(t, q, qd, T), T_goal, 7)


def test_the_figures_of_a_motion_made_by_hand_are_those_of_its_formulas():
    found = measure([bow(0.003)])
    w = math.pi / DURATION
    assert found.deviation == pytest.approx(0.003, rel=1e-6)
    assert found.duration == pytest.approx(DURATION)
    assert found.travel == pytest.approx(0.5, rel=1e-9)
    assert found.joint_speed == pytest.approx(0.25 * w, rel=1e-6)
    assert found.tcp_speed == pytest.approx(0.1 * w, rel=1e-3)
    # One joint of six has jerk 0.25 w^3 sin, whose mean square is half the peak's square.
    assert found.jerk == pytest.approx(0.25 * w**3 * math.sqrt(0.5 / 6), rel=1e-2)


def test_several_moves_add_up_or_give_their_worst():
    found, one = measure([bow(0.001), bow(0.004)]), measure([bow(0.004)])
    assert found.deviation == one.deviation
    assert (found.duration, found.iterations) == (2 * one.duration, 2 * one.iterations)
    assert found.travel == pytest.approx(2 * one.travel)
    assert found.jerk == pytest.approx(one.jerk)


def test_the_error_reached_is_that_of_the_last_pose():
    move = bow()
    T_goal = move.T_goal.copy()
    T_goal[:3, :3] = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    T_goal[2, 3] = 0.002
    assert move.trace.error(T_goal) == pytest.approx((0.002, math.pi / 2))


def test_beyond_the_end_of_the_line_counts_as_off_the_line():
    move = bow()
    assert move.trace.away_from_line(np.array([0.19, 0.0, 0.0]))[-1] == pytest.approx(0.01)


def test_only_moves_that_are_straight_for_all_methods_are_compared():
    a, b = bow(name='a'), bow(name='b')
    runs = [MethodRun('ik', moves=(a, b)), MethodRun('gradient', moves=(b,))]
    assert common_moves(runs) == ['b'] and common_moves([]) == []


def test_the_tcp_of_a_trace_is_the_tool_s():
    T_tool_tcp = np.eye(4)
    T_tool_tcp[2, 3] = 0.1
    rows = [(0.008 * i, np.array(HOME), np.zeros(6)) for i in range(3)]
    trace = trace_of(rows, load_model('ur5'), T_tool_tcp)
    bare = trace_of(rows, load_model('ur5'), np.eye(4))
    # At HOME the tool points down.
    assert np.allclose(trace.T_base_tcp[:, :3, 3], bare.T_base_tcp[:, :3, 3] - [0.0, 0.0, 0.1])


@pytest.fixture(scope='module')
def run_by_ik() -> MethodRun:
    return comparison.run_method('ik', DEFAULT_START, Spot(0.42, 0.05, 0.2))


def test_a_run_on_the_cell_places_the_cube_by_straight_moves_that_end_where_they_should(run_by_ik):
    assert run_by_ik.failure == '' and run_by_ik.part_error < 1e-3
    assert [m.name for m in run_by_ik.moves] == ['start', 'lift', 'transfer', 'target', 'retreat']
    for move in run_by_ik.moves:
        away, turn = move.trace.error(move.T_goal)
        assert away < 3e-4 and turn < 1e-3, move.name
        assert move.deviation.max() < 1e-3 and move.length > 0.075, move.name
        # Rest is proved at 0.02 rad/s; servos ring a little until the next stage begins.
        assert move.trace.joint_speed[[0, -1]].max() < 0.03, move.name
    assert sum(m.trace.duration for m in run_by_ik.moves) < run_by_ik.cycle.duration


def test_the_command_prints_keeps_and_draws_what_was_measured(
    run_by_ik, monkeypatch, tmp_path, capsys
):
    failed = MethodRun('gradient', "stage 'start': protective stop")
    done = {'ik': run_by_ik, 'gradient': failed}
    monkeypatch.setattr(compare, 'run_method', lambda method, *_: done[method])
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


def test_preset_and_lag_are_passed_on_as_settings(monkeypatch, tmp_path):
    asked = []

    def run(method, start, target, overrides):
        asked.append((method, start, overrides))
        return MethodRun(method, 'not tried')

    monkeypatch.setattr(compare, 'run_method', run)
    given = ['--preset', 'project', '--lag', '0.1', '--start', '0.5 0 -90', '--out', str(tmp_path)]
    assert compare.main(given) == 1
    assert [method for method, _, _ in asked] == ['ik', 'resolved_rate', 'gradient']
    _, start, overrides = asked[0]
    assert start == pytest.approx((0.5, 0.0, -math.pi / 2))
    loop = [overrides[name] for name in ('loop_gain', 'loop_hold', 'servo_lag')]
    assert loop == [1.0, 0.5, 0.1]
    assert overrides['velocity_scaling'] == pytest.approx(0.3), 'lag times speed as usual'


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        (['--lag', '-1'], 'servo_lag = -1.0 s: must lie in'),
        (['--start', '9 0 0'], '--start: part_x = 9.0 m: must lie in'),
        (['--target', '0.4 0 900'], '--target: part_yaw = 900.0 deg: must lie in'),
    ],
)
def test_what_the_cell_cannot_do_is_refused_before_anything_runs(given, words, capsys):
    assert compare.main(given) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize('spot', ['1 2', '1 2 x', '1 2 nan'])
def test_a_malformed_spot_is_refused(spot, capsys):
    with pytest.raises(SystemExit):
        compare.main(['--start', spot])
    assert 'argument --start' in capsys.readouterr().err
