# SPDX-License-Identifier: Apache-2.0
"""How long a run on the simulated cell is waited for: by its events, not by the clock."""

import time
from types import SimpleNamespace

import numpy as np

from ur5_pick_place.demo.cycle_layout import transfer
from ur5_pick_place.demo.simulated_cell import SimulatedCell
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.scene.scene import Scene, Tool


class Cell(SimulatedCell):
    """Runs a script of (simulated time, event), and looks once a second."""

    def __init__(self, script, is_silent=False):
        self._scene = Scene(table_height=0.0, tool=Tool(np.eye(4)))
        self._link = SimpleNamespace(watch=lambda: None)
        self.now, self.heard, self._script = 0.0, time.monotonic(), script
        self.placed: list[Array] = []
        if is_silent:
            self.heard -= 4.0

    def place_cube(self, T):
        self.placed.append(T)

    def persist(self, action):
        action()

    def teach(self, place, T=None):
        return place

    def plan(self):
        pass

    def feed_later(self):
        pass

    switch_input = wait_simulated = lambda *_: None

    def run(self, on_event):
        for t, event in self._script:
            while self.now < t:
                self.now += 1.0
                self._link.watch()
            on_event(event)


def failure_of(cell):
    return cell.run_task(transfer(*default_spots()))['failure']


def test_a_run_that_goes_on_is_waited_for_however_long_it_takes():
    cycles = [(250.0 * k, {'event': 'cycle_done', 'number': k}) for k in range(1, 24)]
    assert failure_of(Cell([*cycles, (6000.0, {'event': 'done'})])) == ''


def test_a_run_that_reports_nothing_is_given_up():
    cell = Cell([(100.0, {'event': 'cycle_done', 'number': 1}), (900.0, {'event': 'done'})])
    assert failure_of(cell) == 'timed out waiting for the run to end: no event for 300 s'
    assert cell.now == 401.0


def test_a_run_whose_simulator_is_silent_is_given_up():
    assert failure_of(Cell([(9.0, {'event': 'done'})], is_silent=True)).startswith('the simulator')


def test_an_error_while_teaching_is_the_failure():
    cell = Cell([])
    cell.teach = lambda *_, **__: (_ for _ in ()).throw(ExecutionError('too far'))
    assert failure_of(cell) == 'too far'
