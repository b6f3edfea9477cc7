# SPDX-License-Identifier: Apache-2.0
"""Planner or task node killed while the part is carried: the other stops the arm and says why."""

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')

from driver_client import LATCHED  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from test_pick_place_node import START, TARGET, TaskClient  # noqa: E402

from ur5_pick_place.nodes.demo_processes import NodeProcesses  # noqa: E402
from ur5_pick_place.nodes.node_list import node_list  # noqa: E402

pytestmark = pytest.mark.nodes
CONFIG = Path(__file__).parents[1] / 'config'


class Cell:
    """The nodes of a cell, each to be killed and started again."""

    def __init__(self, domain, folder, stack):
        own = folder / 'own.yaml'
        text = (
            f'/**/pick_place: {{ros__parameters: '
            f'{{poses_file: {folder}/poses.yaml, peer_timeout: 0.5}}}}\n'
            '/**/trajectory_planner: {ros__parameters: {peer_timeout: 0.5}}\n'
        )
        own.write_text(text)
        sim = {'real_time_factor': 2.0}
        specs = node_list('sim', CONFIG, params_file=str(own), sim_parameters=sim)
        self._specs = {spec.executable: spec for spec in specs}
        self._domain, self._folder, self._stack = domain, folder, stack
        self._running = {}
        for name in ('sim_driver', 'trajectory_planner', 'pick_place'):
            self.start(name)
        self.client = TaskClient('')
        self.client.hear(
            String, 'trajectory_planner/motion_state', self._hear_planner, LATCHED
        )
        stack.callback(self.client.close)
        self.client.wait_for_driver()
        self.client.until(lambda: self.client.ask('init_gripper').success, 'the planner')
        self.client.event('done', job='init_gripper')

    def _hear_planner(self, message):
        self.planner = message.data

    def start(self, name):
        processes = NodeProcesses([self._specs[name]], self._domain, self._folder)
        self._running[name] = self._stack.enter_context(processes)

    def kill(self, name):
        os.kill(self._running[name].pids[name], signal.SIGKILL)

    def carry(self):
        """Run the cycle to the middle of the transfer."""
        client, since = self.client, len(self.client.events)
        client.put_part(START)
        client.do('teach_home')
        client.teach('start', START)
        client.teach('target', TARGET)
        client.do('plan')
        client.do('run')
        client.event('stage', since=since, stage='transfer')

    def comes_to_rest_with_the_part(self):
        client = self.client
        client.run(0.5)
        before = client.q.copy()
        client.run(1.5)
        assert np.abs(client.q - before).max() < 1e-3
        assert client.output(16), 'nothing was sent to the gripper'
        assert client.part_at()[2] > 0.05, 'the part is still in the hand'


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    with ExitStack() as stack:
        yield Cell(ros_domain, tmp_path_factory.mktemp('cell'), stack)


def test_without_the_planner_the_task_node_cancels_what_the_controller_has(cell):
    client = cell.client
    cell.carry()
    cell.kill('trajectory_planner')
    client.until(
        lambda: client.states[-1].startswith('stopped: the planner node has gone'), 'the stop'
    )
    cell.comes_to_rest_with_the_part()
    refused = client.ask('rearm')
    assert not refused.success and 'planner is not there' in refused.message
    cell.start('trajectory_planner')
    client.until(lambda: client.ask('rearm').success, 'the cell to be rearmed')
    client.job('go_home')
    assert client.part_at()[2] > 0.2


def test_without_the_task_node_the_planner_stops_and_its_successor_finds_the_part(cell):
    client = cell.client
    client.job('open_gripper')
    cell.carry()
    cell.kill('pick_place')
    client.until(lambda: 'the pick_place node has gone' in cell.planner, 'the stop')
    cell.comes_to_rest_with_the_part()
    told = len(client.states)
    cell.start('pick_place')
    client.until(lambda: client.states[told:], 'the new task node')
    client.until(lambda: client.ask('rearm').success, 'the cell to be rearmed')
    client.teach('start', START)
    since = len(client.events)
    client.job('go_home')
    assert client.event('part_in_hand', since=since)
    assert client.part_at()[2] > 0.2 and client.output(16)
