# SPDX-License-Identifier: Apache-2.0
"""Planner or task node killed while the part is carried: the other stops the arm and says why."""

import pytest
from cells import killable_cell
from task_client import START

pytestmark = [pytest.mark.drill, pytest.mark.nodes]


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    # Slow and in real time, so that the transfer outlasts the patience of a peer.
    slow = {'quick': 1.0, 'max_speed': 0.08}
    with killable_cell(ros_domain, tmp_path_factory.mktemp('cell'), **slow) as cell:
        yield cell


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
