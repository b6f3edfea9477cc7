# SPDX-License-Identifier: Apache-2.0
"""The client of demo and cell: which events end its waiting, and which do not concern it."""

import json
import math
from collections.abc import Callable

import pytest

pytest.importorskip('rclpy')

from std_msgs.msg import String

from ur5_pick_place.demo.cell_client import CellClient
from ur5_pick_place.demo.record import Record
from ur5_pick_place.errors import ExecutionError


class ScriptedCell(CellClient):
    """A cell whose task node publishes texts at given times; each wait lets a second pass."""

    def __init__(self, script: list[tuple[float, str]]) -> None:
        self.events, self.record, self.now, self._script = [], Record(), 0.0, script

    def call(self, name: str) -> None:
        """Accept every request."""

    def wait(self, is_done: Callable[[], bool], what: str, timeout: float = math.inf) -> None:
        while not is_done():
            assert self.now < 5000.0, f'waits for {what} for ever'
            self.now += 1.0
            while self._script and self._script[0][0] <= self.now:
                self._on_event(String(data=self._script.pop(0)[1]))


def text(t: float, event: str, **data: object) -> tuple[float, str]:
    return t, json.dumps({'time': t, 'event': event, **data})


def test_a_job_that_goes_on_is_waited_for_however_long_it_takes():
    cycles = [text(30.0 * k, 'cycle_done', number=k, of=24) for k in range(1, 24)]
    cell = ScriptedCell([*cycles, text(720.0, 'done', job='run')])
    cell.do('run')
    assert cell.now == 720.0


def test_a_job_that_reports_nothing_is_given_up():
    cell = ScriptedCell([text(100.0, 'stage', stage='lift', remark='')])
    with pytest.raises(ExecutionError, match='waiting for run to end: no event for 300 s'):
        cell.do('run')
    assert cell.now == pytest.approx(400.0, abs=2.0)


def test_a_stopped_job_ends_the_waiting_with_its_reason():
    stopped = text(5.0, 'stopped', job='run', stage='lift', reason='protective stop')
    with pytest.raises(ExecutionError, match="stage 'lift': protective stop"):
        ScriptedCell([stopped]).do('run')


def test_what_is_refused_to_others_is_no_failure_of_ours():
    cell = ScriptedCell(
        [
            text(1.0, 'refused', request='target_pose', reason='too far', stamp=''),
            text(2.0, 'stopped', job='go_home', stage='', reason='canceled'),
            text(3.0, 'taught', place='start', pose=[], joints=[], warning='', stamp=''),
        ]
    )
    cell.wait(cell.expect('taught', place='start'), 'start')
    assert cell.now == 3.0
    cell = ScriptedCell([text(1.0, 'refused', request='start_pose', reason='too far', stamp='')])
    with pytest.raises(ExecutionError, match='too far'):
        cell.wait(cell.expect('taught', place='start'), 'start')


@pytest.mark.parametrize(
    'nonsense',
    ['{', '[' * 20000, '7', '{"event": 7}', '{"event": "done", "job": "run"}',
     '{"event": "stopped", "time": 1.0}'],
)
def test_what_is_no_event_is_ignored(nonsense):
    cell = ScriptedCell([(1.0, nonsense), text(2.0, 'done', job='run')])
    cell.do('run')
    assert len(cell.events) == 1
