# SPDX-License-Identifier: Apache-2.0
"""The benchmark runs, says what it could not measure, and judges its own goals."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Give the modules of `bench/`, made quick."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / 'bench'))
    names = ('measure', 'peers', 'kinematics', 'trajectories')
    modules = {name: importlib.import_module(name) for name in names}
    monkeypatch.setattr(modules['measure'], 'ROUNDS', 2)
    for name, few in (('SINGLES', 5), ('BATCH', 50), ('SAMPLES', 10)):
        monkeypatch.setattr(modules['kinematics'], name, few)
    return modules


def test_every_module_imports(monkeypatch):
    folder = Path(__file__).parents[2] / 'bench'
    monkeypatch.syspath_prepend(str(folder))
    for path in folder.glob('[!_]*.py'):
        importlib.import_module(path.stem)


def test_every_measurement_is_made(bench):
    rows = [*bench['kinematics'].measure(), *bench['trajectories'].measure()]
    assert all(row.ours > 0.0 and row.theirs != 0.0 for row in rows if row.unit == 'us')
    told = ' '.join(row.what for row in rows)
    for what in ('one pose', 'wrist singular', 'each of 50', 'resolved-rate', 'torques', 'memory'):
        assert what in told
    for what in ('line A', 'line B', 'line C', 'pick to place', 'small', 'one joint'):
        assert f'{what}, timing' in told


def test_lines_and_joint_motions_take_their_optimum(bench):
    rows = bench['trajectories'].measure()
    judged = [row for row in rows if row.unit == 's']
    beside_copp = [row for row in judged if row.peer == 'copp-py']  # where it is installed
    assert len(judged) - len(beside_copp) == 6 and len(beside_copp) in (0, 4), judged
    assert all(row.met is True for row in judged), judged


def test_a_peer_that_is_not_installed_is_named(bench, monkeypatch):
    peers = bench['peers']
    monkeypatch.setattr(peers, 'skipped', {})
    assert peers._import('somebody', 'a_solver_that_nobody_wrote') is None
    assert peers.skipped == {'somebody': "No module named 'a_solver_that_nobody_wrote'"}


def test_a_goal_bounds_the_ratio_or_where_nobody_is_beside_the_value(bench):
    Row = bench['measure'].Row
    assert Row('x', 3.0, 'us', 'y', 2.0, 1.5, goal=1.6).met
    assert not Row('x', 3.0, 'us', 'y', 2.0, 1.5, goal=1.4).met
    assert Row('x', 3.0, 'us', goal=3.0).met and not Row('x', 3.1, 'us', goal=3.0).met
    assert Row('x', 3.0, 'us', 'y', 2.0, 1.5).met is None


def test_ticks_and_the_plan_of_a_cycle_are_measured(bench, monkeypatch):
    ticks = importlib.import_module('ticks')
    monkeypatch.setattr(ticks, 'METHODS', ('resolved_rate',))
    median, longest, warm, cold = ticks.measure()
    assert [row.what for row in (median, longest)] == [
        'tick of resolved_rate, median',
        'tick of resolved_rate, p99.9',
    ]
    assert 0.0 < median.ours < longest.ours and all(row.goal for row in (median, warm, cold))
    assert 0.0 < warm.ours < 2.0 and 0.0 < cold.ours < 4.0
