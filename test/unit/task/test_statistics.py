# SPDX-License-Identifier: Apache-2.0
"""What a line counts, in memory and in its file."""

import json
import os
import threading

import numpy as np
import pytest
from pace import until

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.pick_place import statistics_file
from ur5_pick_place.nodes.pick_place.statistics_file import StatisticsFile, statistics_path
from ur5_pick_place.task import events
from ur5_pick_place.task.statistics import (
    Statistics,
    Tally,
    cause_of,
    load_statistics,
    save_statistics,
)


def run_cycles(statistics, durations, t=10.0, picks=1):
    statistics.take(t, events.STARTED, {'job': 'run'})
    for duration in durations:
        for _ in range(picks):
            statistics.take(t + 0.5 * duration, events.GRASP_VERIFIED, {})
            statistics.take(t + 0.8 * duration, events.PLACED, {'place': 'target'})
        t += duration
        statistics.take(t, events.CYCLE_DONE, {'number': 1, 'of': 1})
    statistics.take(t, events.DONE, {'job': 'run'})


def test_cycles_parts_and_times_are_counted_from_one_end_to_the_next(rng):
    durations, statistics = rng.uniform(4.0, 9.0, 400), Statistics()
    run_cycles(statistics, durations, picks=2)
    tally = statistics.total
    assert (tally.cycles, tally.placed, tally.missed) == (400, 800, 0)
    np.testing.assert_allclose(tally.mean, durations.mean(), rtol=1e-9)
    for share in (0.05, 0.5, 0.95):
        exact = np.percentile(durations, 100 * share, method='inverted_cdf')
        np.testing.assert_allclose(tally.percentile(share), exact, rtol=0.011)


def test_a_cycle_with_a_pause_counts_but_its_time_does_not():
    statistics = Statistics()
    statistics.take(0.0, events.STARTED, {'job': 'run'})
    statistics.take(1.0, events.PAUSED, {'stage': 'lift'})
    statistics.take(600.0, events.CYCLE_DONE, {'number': 1, 'of': 2})
    statistics.take(605.0, events.CYCLE_DONE, {'number': 2, 'of': 2})
    assert statistics.total.cycles == 2
    assert (statistics.total.timed, statistics.total.mean) == (1, 5.0)


def test_a_part_counts_when_it_is_released_however_the_cycle_goes_on():
    statistics = Statistics()
    statistics.take(0.0, events.STARTED, {'job': 'run'})
    for _ in range(2):  # a cycle may verify one part twice
        statistics.take(1.0, events.GRASP_VERIFIED, {})
    statistics.take(2.0, events.PLACED, {'place': 'target'})
    stop = {'job': 'run', 'stage': 'retreat', 'reason': 'emergency stop'}
    statistics.take(3.0, events.STOPPED, stop)
    assert (statistics.total.cycles, statistics.total.placed) == (0, 1)


def test_waits_that_fail_for_different_reasons_are_different_causes():
    wait = "stage 'part at: start': input 3 was not on within timeout = 5 s: check what"
    output = 'stage "it\'s on": output 2 was set on but io_states has not shown it within 1 s'
    assert cause_of(wait) == 'input # was not on within timeout = # s'
    assert cause_of(output).startswith('output # was set on but io_states')


def test_equal_causes_with_other_figures_are_counted_together():
    one = cause_of('joint_states silent for 1.07 s: check the network')
    assert one == cause_of('joint_states silent for 0.5 s') == 'joint_states silent for # s'
    assert cause_of('\x1b[31m\n') == ' [#m'
    assert cause_of('') == 'no reason given'


def test_thousands_of_causes_stay_a_small_file(tmp_path):
    tally = Tally()
    for n in range(5000):
        tally.add_stop('cause ' + chr(97 + n % 26) * (1 + n // 26 % 50))
    assert sum(tally.stops.values()) == 5000
    save_statistics(tmp_path / 'statistics.json', tally)
    assert (tmp_path / 'statistics.json').stat().st_size < 10_000


def test_what_is_saved_is_what_is_loaded(tmp_path, rng):
    statistics, path = Statistics(), tmp_path / 'new folder' / 'statistics.json'
    run_cycles(statistics, rng.uniform(4, 9, 20))
    statistics.take(0.0, events.STOPPED, {'job': '', 'stage': '', 'reason': 'emergency stop'})
    assert load_statistics(path) == Tally()
    save_statistics(path, statistics.total)
    assert load_statistics(path) == statistics.total
    assert Statistics(load_statistics(path)).recent == Tally()


def test_a_spoilt_file_is_refused_and_nothing_else_is_raised(tmp_path, rng):
    path = tmp_path / 'statistics.json'
    statistics = Statistics()
    run_cycles(statistics, [5.0, 6.0])
    save_statistics(path, statistics.total)
    good = path.read_bytes()
    refused = 0
    for _ in range(300):
        spoilt = bytearray(good)
        if rng.random() < 0.5:
            del spoilt[int(rng.integers(len(spoilt))) :]
        else:
            spoilt[int(rng.integers(len(spoilt)))] = int(rng.integers(256))
        path.write_bytes(spoilt)
        try:
            tally = load_statistics(path)
            assert sum(tally.bins.values()) == tally.timed
        except InvalidInput as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 150


@pytest.mark.parametrize('bins', [{'99999': 1}, {'-99999': 1}])
def test_a_figure_beyond_all_measure_is_refused(tmp_path, bins):
    path = tmp_path / 'statistics.json'
    save_statistics(path, Tally(timed=1, time=5.0, bins={int(k): n for k, n in bins.items()}))
    with pytest.raises(InvalidInput, match='out of range'):
        load_statistics(path)


def test_the_file_is_beside_the_poses_and_survives_its_node(tmp_path):
    path = statistics_path(tmp_path / 'poses_sim.yaml')
    assert path.name == 'poses_sim_statistics.json'
    kept = StatisticsFile(path, pytest.fail)
    run_cycles(kept, [5.0])
    until(lambda: path.exists() and load_statistics(path).cycles == 1)
    again = StatisticsFile(path, pytest.fail)
    run_cycles(again, [7.0])
    figures = again.figures()
    assert figures['cycles'] == '1 since start, 2 in all'
    assert figures['cycle time mean [s]'] == '7.00 since start, 6.00 in all'


def test_causes_of_a_file_can_be_published_whatever_their_characters(tmp_path):
    path, tally = tmp_path / 's.json', Tally()
    tally.add_stop('x')
    save_statistics(path, tally)
    path.write_text(path.read_text().replace('"x"', r'"\ud800\n"'))
    (cause,) = load_statistics(path).stops
    assert cause == r'\ud800\n'


def test_an_unreadable_file_is_kept_aside_with_a_warning(tmp_path):
    path, warnings = tmp_path / 'statistics.json', []
    path.write_text('{"format": 1')
    kept = StatisticsFile(path, warnings.append)
    assert 'statistics.json.unreadable' in warnings[0]
    assert (tmp_path / 'statistics.json.unreadable').read_text() == '{"format": 1'
    assert kept.figures()['cycles'] == '0 since start, 0 in all'
    os.mkfifo(path)
    assert StatisticsFile(path, warnings.append), 'a pipe keeps no node waiting'
    assert 'is a pipe' in warnings[1]


def test_a_full_disk_is_one_warning_and_once_it_is_not_all_is_counted(tmp_path, monkeypatch):
    path, warnings, tried = tmp_path / 'statistics.json', [], threading.Event()
    save_statistics(path, Tally(cycles=3))
    before = path.read_text()

    def fail(_descriptor):
        tried.set()
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(statistics_file, '_AGAIN', 0.1)
    monkeypatch.setattr(os, 'fsync', fail)
    kept = StatisticsFile(path, warnings.append)
    for _ in range(3):
        tried.clear()
        run_cycles(kept, [5.0])
        assert tried.wait(5.0)
    until(lambda: warnings)
    assert len(warnings) == 1 and 'No space left' in warnings[0]
    assert path.read_text() == before
    assert json.loads(before)['cycles'] == 3
    assert kept.figures()['cycles'] == '3 since start, 6 in all'
    monkeypatch.setattr(os, 'fsync', lambda _descriptor: None)
    until(lambda: load_statistics(path).cycles == 6)
