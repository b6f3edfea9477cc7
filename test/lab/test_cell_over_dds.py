# SPDX-License-Identifier: Apache-2.0
"""What the cell behind real nodes derives from what it has received."""

import argparse
import json
import os
import types

import numpy as np
import pytest
from std_msgs.msg import String

from lab.cell_over_dds import NodesCell, open_nodes
from lab.in_process import open_in_process
from lab.options import add_nodes, cell_opener
from ur5_pick_place.demo.configuration import Configuration
from ur5_pick_place.kinematics import load_model
from ur5_pick_place.planning.scene.scene import Scene, Tool


class Client:
    """A client of a cell in which each request is granted; notes what it is asked."""

    def __init__(self):
        self._link = self.node = self
        self.asked, self.heard = [], {}

    def create_subscription(self, _kind, topic, callback, _qos):
        self.heard[topic] = callback

    def client(self, _kind, _name):
        pass

    def call(self, kind, name, _request):
        self.asked.append(name)
        return kind.Response() if 'parameters' in name else kind.Response(success=True)

    def plan(self):
        self.asked.append('plan')

    def publish(self, **event):
        self.heard['pick_place/event'](String(data=json.dumps(event)))


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def cell(client):
    nodes = types.SimpleNamespace(pids={'pick_place': os.getpid()})
    scene = Scene(table_height=0.0, tool=Tool(np.eye(4)))
    return NodesCell(client, nodes, load_model('ur5'), scene, Configuration({}), 1.0)


def test_a_cell_is_busy_while_its_job_runs_and_stopped_until_it_is_rearmed(cell, client):
    assert not cell.is_busy
    cell.run()
    assert client.asked == ['plan', 'pick_place/run']
    client.publish(event='stage', stage='lift')
    assert cell.is_busy
    client.publish(event='stopped', reason='protective stop')
    assert not cell.is_busy and cell.stop_reason == 'protective stop'
    cell.reset_measurements()
    assert cell.events == []
    assert not cell.is_busy and cell.stop_reason == 'protective stop', 'it rests as before'
    client.publish(event='rearmed')
    assert not cell.stop_reason
    cell.start('go_home')
    assert cell.is_busy


def test_measuring_the_response_time_opens_no_latch(cell, client):
    figures = cell.figures()
    assert {name.rpartition('/')[2] for name in client.asked} == {'get_parameters'}
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
