# SPDX-License-Identifier: Apache-2.0
"""What the cell behind real nodes derives from what its operator has received."""

import argparse
import os
import types

import numpy as np
import pytest

from lab.cell_over_dds import NodesCell, open_nodes
from lab.in_process import open_in_process
from lab.options import add_nodes, cell_opener
from ur5_pick_place.demo.configuration import Configuration
from ur5_pick_place.kinematics import load_model
from ur5_pick_place.planning.scene.scene import Scene, Tool


class Operator:
    """Notes what it is asked."""

    def __init__(self):
        self.events, self.asked, self.peak = [], [], np.zeros(6)

    def plan(self):
        self.asked.append('plan')

    def start(self, job):
        self.asked.append(job)

    def ask_parameters(self):
        self.asked.append('parameters')


@pytest.fixture
def operator():
    return Operator()


@pytest.fixture
def cell(operator):
    nodes = types.SimpleNamespace(pids={'pick_place': os.getpid()})
    scene = Scene(table_height=0.0, tool=Tool(np.eye(4)))
    return NodesCell(operator, nodes, load_model('ur5'), scene, Configuration({}), 1.0)


def test_a_cell_is_busy_while_its_job_runs_and_stopped_until_it_is_rearmed(cell, operator):
    assert not cell.is_busy
    cell.run()
    operator.events.append({'event': 'stage', 'stage': 'lift'})
    assert cell.is_busy
    operator.events.append({'event': 'stopped', 'reason': 'protective stop'})
    assert not cell.is_busy and cell.stop_reason == 'protective stop'
    cell.reset_measurements()
    assert cell.events == []
    assert not cell.is_busy and cell.stop_reason == 'protective stop', 'it rests as before'
    operator.events.append({'event': 'rearmed'})
    assert not cell.stop_reason
    cell.start('go_home')
    assert cell.is_busy


def test_measuring_the_response_time_opens_no_latch(cell, operator):
    figures = cell.figures()
    assert set(operator.asked) == {'parameters'}
    assert figures['pick_place [MB]'] > 10.0 and figures['response time [ms]'] >= 0.0


def test_the_commands_take_the_nodes_at_a_factor_and_else_this_process():
    parser = argparse.ArgumentParser()
    add_nodes(parser)
    assert cell_opener(parser, parser.parse_args([])) is open_in_process
    for words, factor in ((['--nodes'], 2.0), (['--nodes', '--rtf', '1.5'], 1.5)):
        opener = cell_opener(parser, parser.parse_args(words))
        assert (opener.func, opener.keywords) == (open_nodes, {'real_time_factor': factor})
    for words in (['--nodes', '--rtf', '9'], ['--rtf', '1.5']):
        with pytest.raises(SystemExit):
            cell_opener(parser, parser.parse_args(words))
