# SPDX-License-Identifier: Apache-2.0
"""Cases in several processes: the same results in the same order, whatever dies meanwhile."""

import contextlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pace import until

from lab import faults, soak, toy_cases
from lab.fault_matrix import run_matrix
from lab.workers import Workers, run_cases

REPO = Path(__file__).parents[2]
CLUSTER = 'tcp://scheduler:8786'
DRAWN = ('safeguard_stop', 'link_loss')
WORDS = ['--method', 'ik', '--stage', 'grip', *(f'--fault={fault}' for fault in DRAWN)]


@pytest.fixture(scope='module')
def dask():
    """Install what `make faults` installs."""
    requirements = REPO / 'underlay/requirements-lab.txt'
    pip = [sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps', '-r', requirements]
    subprocess.run(pip, check=True)


def results(folder, items, workers):
    return list(run_cases(partial(toy_cases.open_work, folder), items, toy_cases.lost, workers))


def test_without_workers_results_come_from_this_process(tmp_path):
    assert results(tmp_path, ['a', 'b'], Workers(1)) == ['a', 'b']
    assert (tmp_path / f'closed {os.getpid()}').exists()


@pytest.mark.drill
@pytest.mark.usefixtures('dask')
@pytest.mark.parametrize('jobs', [2, 3])
def test_results_come_in_the_order_of_the_items_and_every_worker_closes_what_it_kept(
    tmp_path, jobs
):
    items = ['a slow', 'b slow', 'c slow', 'd slow', 'e slow', 'f slow']
    assert results(tmp_path, items, Workers(jobs)) == items
    assert len(list(tmp_path.glob('closed *'))) == jobs
    assert not multiprocessing.active_children()


@pytest.mark.drill
@pytest.mark.usefixtures('dask')
def test_no_case_is_lost_when_workers_die_and_one_that_always_kills_is_told(tmp_path):
    items = ['a', 'once', 'always', 'b slow', 'once too', 'c']
    found = results(tmp_path, items, Workers(2))
    assert found[2].startswith('always lost: not judged: it killed its workers: ')
    assert found[:2] + found[3:] == ['a', 'once', 'b slow', 'once too', 'c']
    assert [len(list(tmp_path.glob(f'{item}-*'))) for item in items] == [1, 2, 2, 1, 2, 1]


@pytest.mark.drill
@pytest.mark.usefixtures('dask')
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_or_the_death_of_the_command_ends_its_workers(tmp_path, number):
    mark = f'{os.getpid()}-{number}'
    command = subprocess.Popen(
        [sys.executable, '-m', 'lab.toy_cases', tmp_path],
        cwd=REPO / 'test',
        env={**os.environ, 'UR5_LAB': mark},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        # A worker of xdist ignores SIGINT, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until(lambda: len(list(tmp_path.glob('sleeps*'))) == 2)
    if number is signal.SIGINT:
        os.killpg(command.pid, number)  # as a terminal does
    else:
        command.send_signal(number)
    assert command.wait(20.0) != 0
    until(lambda: not marked(mark))
    assert command.stderr.read().count('Traceback') <= 1, 'workers end in silence'


def marked(mark):
    """Return the processes with a mark in their environment."""
    found = []
    for folder in Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            if f'UR5_LAB={mark}'.encode() in (folder / 'environ').read_bytes():
                found.append(folder.name)
    return found


def rows_of(folder, words=()):
    assert faults.main([*WORDS, *words, '--out', str(folder)]) == 0
    (file,) = folder.glob('*.json')
    return json.loads(file.read_text())['rows']


@pytest.mark.drill
@pytest.mark.usefixtures('dask')
def test_faults_are_judged_the_same_in_this_process_in_two_and_on_a_cluster(
    tmp_path, capsys, monkeypatch
):
    here = rows_of(tmp_path / 'one', ['--jobs', '1'])
    assert tuple(row['fault'] for row in here) == DRAWN
    assert rows_of(tmp_path / 'two', ['--jobs', '2']) == here
    with cluster_of_two(tmp_path) as address:
        monkeypatch.setenv('DASK', address)
        assert rows_of(tmp_path / 'cluster') == here
        one, two = soak.soak(2, 3, workers=Workers(cluster=address))
    assert one.worker != two.worker, 'both workers were used'


@contextlib.contextmanager
def cluster_of_two(folder):
    """Start a scheduler and two workers as on other computers; give the scheduler's address."""
    dask = Path(sys.executable).with_name('dask')
    environment = {**os.environ, 'PYTHONPATH': str(REPO / 'test')}
    with contextlib.ExitStack() as stack:

        def start(*words):
            process = subprocess.Popen(
                [dask, *words], env=environment, cwd=folder, text=True, stderr=subprocess.PIPE
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        scheduler = start('scheduler', '--host', '127.0.0.1', '--port', '0', '--no-dashboard')
        address = next(
            found[0]
            for line in scheduler.stderr
            if (found := re.search(r'tcp://127\.0\.0\.1:\d+', line))
        )
        for _ in range(2):
            start('worker', address, '--nthreads', '1', '--no-dashboard')
        yield address


@pytest.mark.drill
@pytest.mark.usefixtures('dask')
def test_a_scheduler_that_does_not_answer_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr('lab.workers._CONNECT_TIME', 1.0)
    monkeypatch.setenv('DASK', 'tcp://127.0.0.1:1')
    assert faults.main([*WORDS, '--out', str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert 'DASK=tcp://127.0.0.1:1: ' in said and 'such as tcp://scheduler:8786' in said


def test_a_fault_whose_process_dies_twice_has_failed(monkeypatch):
    def dead(_open_work, items, lost, _workers):
        return (lost(item, 'its process was killed by SIGSEGV') for item in items)

    monkeypatch.setattr('lab.fault_matrix.run_cases', dead)
    (case,) = run_matrix(('link_loss',), ('grip',), workers=Workers(2))
    assert (case.fault, case.stage, case.end) == ('link_loss', 'grip', 'lost')
    assert 'SIGSEGV' in case.problem
    monkeypatch.setattr('lab.soak.run_cases', dead)
    summary = soak.summarise(list(soak.soak(3, 1, workers=Workers(2))))
    assert summary['unexplained'] == 3 and summary['ends'] == {'lost': 3}


def test_a_seed_draws_the_same_cycles_whatever_their_number():
    drawn = soak.draw(6, 3, soak.FAULTS)
    assert drawn[:3] == soak.draw(3, 3, soak.FAULTS)
    assert {c.fault for c in soak.draw(50, 3, soak.FAULTS)} > {'', 'protective_stop'}


def report(number, worker, memory):
    figures = {'memory [MB]': memory}
    return soak.CycleReport(number, '', 'placed', '', 0.0, 0.0, 0.9, figures, 1.0, '', worker)


def test_growth_is_that_of_one_worker_not_the_difference_between_two():
    steady = [report(k, 'ab'[k % 2], (100.0, 300.0)[k % 2]) for k in range(40)]
    assert soak.summarise(steady)['memory [MB]'].startswith('300.0, 300.0, 300.0: +0.0')
    grown = [report(k, 'ab'[k % 2], (100.0, 300.0 + k)[k % 2]) for k in range(40)]
    assert soak.summarise(grown)['memory [MB]'].startswith('321.0, 321.0, 339.0: +200.0')


def test_without_dask_one_line_says_how_to_do_without(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    for command, words in ((faults, WORDS), (soak, ['-n', '2'])):
        assert command.main([*words, '--jobs', '2', '--out', str(tmp_path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert 'requires dask.distributed' in line and '--jobs 1 runs without it' in line
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
