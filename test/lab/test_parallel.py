# SPDX-License-Identifier: Apache-2.0
"""Trials in several processes: the same results in the same order, whatever dies meanwhile."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import types
from functools import partial

import pytest
import toy_trials

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.trials import faults, soak
from ur5_pick_place.trials.fault_matrix import run_matrix
from ur5_pick_place.trials.parallel import Workers, run_trials

CLUSTER = 'tcp://scheduler:8786'


def results(folder, items, workers):
    return list(run_trials(partial(toy_trials.open_work, folder), items, toy_trials.lost, workers))


def wait_for(condition, limit=20.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize('jobs', [1, 2, 3])
def test_results_come_in_the_order_of_the_items_and_every_worker_closes_what_it_kept(
    tmp_path, jobs
):
    items = ['a slow', 'b', 'c', 'd slow', 'e']
    assert results(tmp_path, items, Workers(jobs)) == items
    assert len(list(tmp_path.glob('closed *'))) == jobs
    assert not multiprocessing.active_children()


def test_no_trial_is_lost_when_workers_die_and_one_that_always_kills_is_told(tmp_path):
    items = ['a', 'once', 'always', 'b slow', 'once too', 'c']
    found = results(tmp_path, items, Workers(2))
    cause = 'always lost: not judged: its process was killed by SIGKILL, 2 times'
    assert found == ['a', 'once', cause, 'b slow', 'once too', 'c']
    assert [len(list(tmp_path.glob(f'{item}-*'))) for item in items] == [1, 2, 2, 1, 2, 1]


def test_an_exception_in_a_worker_shows_its_traceback_here(tmp_path):
    with pytest.raises(RuntimeError, match=r'(?s)toy_trials.*ValueError: raises cannot be done'):
        results(tmp_path, ['a', 'raises'], Workers(2))
    assert not multiprocessing.active_children()


def test_no_worker_outlives_whoever_stops_reading(tmp_path):
    found = run_trials(
        partial(toy_trials.open_work, tmp_path), ['a', 'sleeps'], toy_trials.lost, Workers(2)
    )
    with contextlib.closing(found):
        assert next(found) == 'a'
        wait_for((tmp_path / 'sleeps-0').exists)
    assert not multiprocessing.active_children()
    assert len(list(tmp_path.glob('closed *'))) == 2


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_or_the_death_of_the_command_ends_its_workers(tmp_path, number):
    command = subprocess.Popen(
        [sys.executable, toy_trials.__file__, tmp_path],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        # A worker of xdist ignores SIGINT, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_for(lambda: len(list(tmp_path.glob('sleeps*'))) == 2)
    if number is signal.SIGINT:
        os.killpg(command.pid, number)  # as a terminal does
    else:
        command.send_signal(number)
    assert command.wait(20.0) != 0
    wait_for(lambda: len(list(tmp_path.glob('closed *'))) == 2)
    assert command.stderr.read().count('Traceback') <= 1, 'workers end in silence'


@pytest.mark.drill
def test_faults_are_judged_the_same_in_one_process_and_in_two(tmp_path, capsys):
    drawn = ('safeguard_stop', 'link_loss')
    words = ['--method', 'ik', '--stage', 'grip', *(f'--fault={fault}' for fault in drawn)]
    told, rows = [], []
    for jobs in ('1', '2'):
        folder = tmp_path / jobs
        assert faults.main([*words, '--jobs', jobs, '--out', str(folder)]) == 0
        told.append(capsys.readouterr().out.splitlines()[:-1])
        (file,) = folder.glob('*.json')
        rows.append(json.loads(file.read_text())['rows'])
    assert told[0] == told[1] and rows[0] == rows[1]
    assert tuple(row['fault'] for row in rows[0]) == drawn


def test_a_fault_whose_process_dies_twice_has_failed(monkeypatch):
    def dead(_open_work, items, lost, _workers):
        return (lost(item, 'its process was killed by SIGSEGV') for item in items)

    monkeypatch.setattr('ur5_pick_place.trials.fault_matrix.run_trials', dead)
    (case,) = run_matrix(('link_loss',), ('grip',), workers=Workers(2))
    assert (case.fault, case.stage, case.end) == ('link_loss', 'grip', 'lost')
    assert 'SIGSEGV' in case.problem
    monkeypatch.setattr('ur5_pick_place.trials.soak.run_trials', dead)
    summary = soak.summarise(list(soak.soak(3, 1, workers=Workers(2))))
    assert summary['unexplained'] == 3 and summary['ends'] == {'lost': 3}


@pytest.mark.drill
def test_a_soak_of_two_workers_has_the_cycles_of_its_seed_and_the_memory_of_each_worker():
    one, two = soak.soak(2, 3, workers=Workers(2))
    assert [(r.number, r.end, r.problem) for r in (one, two)] == [
        (1, 'placed', ''),
        (2, 'placed', ''),
    ]
    assert one.worker != two.worker
    assert min(r.figures['memory [MB]'] for r in (one, two)) > 0.0


def test_a_seed_draws_the_same_cycles_whatever_their_number():
    drawn = soak.draw(6, 3, soak.FAULTS)
    assert drawn[:3] == soak.draw(3, 3, soak.FAULTS)
    assert drawn[0].start == pytest.approx((0.3127523, -0.1922766, 0.4732408), abs=1e-6)
    assert drawn[5].target == pytest.approx((0.3469841, 0.1531190, -0.3267592), abs=1e-6)
    assert [c.fault for c in drawn] == ['', '', 'link_latency', '', '', 'protective_stop']
    assert drawn[5].delay == pytest.approx(3.4845566, abs=1e-6)


def report(number, worker, memory):
    figures = {'memory [MB]': memory}
    return soak.CycleReport(number, '', 'placed', '', 0.0, 0.0, 0.9, figures, 1.0, '', worker)


def test_growth_is_that_of_one_worker_not_the_difference_between_two():
    steady = [report(k, 'ab'[k % 2], (100.0, 300.0)[k % 2]) for k in range(40)]
    assert soak.summarise(steady)['memory [MB]'].startswith('300.0, 300.0, 300.0: +0.0')
    grown = [report(k, 'ab'[k % 2], (100.0, 300.0 + k)[k % 2]) for k in range(40)]
    assert soak.summarise(grown)['memory [MB]'].startswith('321.0, 321.0, 339.0: +200.0')


# -- the cluster --------------------------------------------------------------------------------


def test_without_dask_one_line_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv('DASK', CLUSTER)
    monkeypatch.setitem(sys.modules, 'distributed', None)
    for command in (faults, soak):
        assert command.main(['--method', 'ik', '--out', str(tmp_path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f'DASK={CLUSTER}: requires dask.distributed' in line
        assert 'pip install distributed' in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ('words', 'cluster', 'message'),
    [
        (['--jobs', '0'], '', '--jobs 0: must be at least 1'),
        (['--jobs', 'all'], '', 'invalid int value'),
        (['--jobs', '2'], CLUSTER, f'--jobs 2 and DASK={CLUSTER}: choose one of them'),
        (['--nodes'], CLUSTER, 'real nodes run on this machine only'),
    ],
)
def test_workers_that_cannot_be_are_refused(words, cluster, message, monkeypatch, capsys):
    monkeypatch.setenv('DASK', cluster)
    with pytest.raises(SystemExit, match='2'):
        faults.main(words)
    assert message in capsys.readouterr().err


class KilledWorker(Exception):
    """As Dask's."""


class Future:
    """As Dask's: of a function that runs when its result is read."""

    def __init__(self, function, words):
        self._function, self._words = function, words

    def result(self):
        if 'always' in self._words:
            raise KilledWorker('4 workers')
        return self._function(*self._words)


class Client:
    """As Dask's, of a scheduler that is reached if its port is 8786."""

    cancelled = 0

    def __init__(self, address, timeout, set_as_default):
        if not address.endswith(':8786'):
            raise OSError(f'Timed out trying to connect to {address} after {timeout:.0f} s')

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        pass

    def wait_for_workers(self, n_workers, timeout):
        pass

    def submit(self, function, *words, pure):
        assert not pure
        return Future(function, words)

    def cancel(self, futures):
        Client.cancelled += len(futures)


@pytest.fixture
def distributed(monkeypatch):
    scheduler = types.SimpleNamespace(KilledWorker=KilledWorker)
    module = types.SimpleNamespace(Client=Client, scheduler=scheduler)
    monkeypatch.setitem(sys.modules, 'distributed', module)


@pytest.mark.usefixtures('distributed')
def test_a_cluster_gives_results_in_order_and_tells_what_killed_its_workers(tmp_path):
    found = results(tmp_path, ['a', 'always', 'b'], Workers(cluster=CLUSTER))
    assert found == ['a', 'always lost: not judged: it killed its workers: 4 workers', 'b']
    assert Client.cancelled == 3


@pytest.mark.usefixtures('distributed')
def test_a_scheduler_that_does_not_answer_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r'DASK=tcp://nowhere:1: Timed out .* such as tcp://'):
        results(tmp_path, ['a'], Workers(cluster='tcp://nowhere:1'))
