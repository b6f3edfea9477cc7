# SPDX-License-Identifier: Apache-2.0
"""
The whole cell through its real nodes: the cube is picked where it is taught, and put down.

Random spots, every other cube displaced after teaching, as many as UR5_SPOTS says (1). A cube
that was displaced sits askew in the hand; it must be put down as the grip left it there.

"""

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cells import CONFIG, sim_nodes
from recordings import ARM

from ur5_pick_place.demo.operator import Operator
from ur5_pick_place.demo.processes import NodeProcesses, own_domain
from ur5_pick_place.demo.run_file import RunFile
from ur5_pick_place.demo.spots import Displacement, SpotChecker
from ur5_pick_place.demo.task import Task, transfer
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.report.command import read_report

pytestmark = [pytest.mark.drill, pytest.mark.nodes]

SPOTS = int(os.environ.get('UR5_SPOTS', '1'))
SEED = 20


class Cell:
    """Running nodes and their operator; started anew after a failure, which stops the cell."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._operator: Operator | None = None

    def run(self, task: Task) -> dict[str, Any]:
        """Do a task; return its result."""
        path = self._folder / 'run.mcap'
        try:
            operator = self._operator = self._operator or self._start()
            with RunFile(path, {'arm': ARM}) as file, file.recording(operator.context) as rows:
                file.add(rows, {**operator.run_cycle(task), 'limits': {}})
        except BaseException:
            self.stop()  # nodes that half started must not stay
            raise
        result = read_report(path).runs[0].result
        if not result['success']:
            self.stop()
        return result

    def _start(self) -> Operator:
        specs = sim_nodes(self._folder)
        scene = load_scene(CONFIG / 'scene_sim.yaml')
        domain = self._stack.enter_context(own_domain())
        nodes = self._stack.enter_context(NodeProcesses(specs, domain, self._folder))
        operator = self._stack.enter_context(
            Operator(domain, scene, nodes.check)
        )
        operator.prepare()
        return operator

    def stop(self) -> None:
        """End the nodes."""
        self._operator = None
        self._stack.close()


@pytest.fixture(scope='module')
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    running = Cell(tmp_path_factory.mktemp('cell'))
    yield running
    running.stop()


def random_task(number: int) -> Task:
    rng = np.random.default_rng([SEED, number])
    start, target = SpotChecker(CONFIG).random_pair(rng)
    if number % 2:
        return transfer(start, target)
    shift, bearing = 0.005 * math.sqrt(rng.uniform()), rng.uniform(0.0, 2 * math.pi)
    dx, dy = shift * math.cos(bearing), shift * math.sin(bearing)
    return transfer(start, target, Displacement(dx, dy, math.radians(rng.uniform(-10.0, 10.0))))


@pytest.mark.parametrize('number', range(SPOTS))
def test_cube_is_placed_where_it_was_taught(cell: Cell, number: int) -> None:
    task = random_task(number)
    result = cell.run(task)
    assert result['success'], f'{task}: {result["reason"]}'
    what = 'in_hand' if task.displacement else 'placement'
    assert 0.0 < result[f'{what}_error_m'] < 0.002
    assert result[f'{what}_error_rad'] < math.radians(1.0)
