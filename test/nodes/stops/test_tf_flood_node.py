# SPDX-License-Identifier: Apache-2.0
"""A flood of /tf from another process keeps neither node from stopping, judged by the joints."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cells import execute, nodes_cell
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.nodes, pytest.mark.drill]

STOP_TIME = 0.5  # [s] on the wall; the braking comes on top
BRAKING = 0.6  # [s]

# 400 different messages of almost 16 KB, the largest that are converted, 100 a second.
FLOOD = """
import time
import rclpy
from rclpy.serialization import serialize_message
from talk import transforms
from tf2_msgs.msg import TFMessage
rclpy.init()
publisher = rclpy.create_node('flood').create_publisher(TFMessage, '/tf', 300)
names = [[f'f{k:03}_{i:03}' for i in range(170)] for k in range(400)]
messages = [serialize_message(transforms(0.1, *children)) for children in names]
for k in range(100_000):
    publisher.publish(messages[k % 400])
    if k == 100:
        print('flooding', flush=True)
    time.sleep(0.01)
"""


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    with nodes_cell(ros_domain, tmp_path_factory.mktemp('cell'), peer_timeout=2.0) as cell:
        cell.client.do('teach_home')
        yield cell


@pytest.fixture
def flood(cell) -> Iterator[None]:
    words = [sys.executable, '-c', FLOOD]
    folder = Path(__file__).parents[2] / 'support/clients'
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == 'flooding\n'
        time.sleep(1.0)
        yield
        process.kill()


@pytest.mark.parametrize('who', ['trajectory_planner', 'pick_place'])
def test_a_stop_of_either_node_stops_the_arm_in_time(cell, flood, who) -> None:
    client = cell.client
    execute(cell)
    there = client.q
    assert client.call(Trigger, f'{who}/stop').success
    assert cell.time_to_rest(STOP_TIME + BRAKING) < STOP_TIME + BRAKING
    assert np.abs(client.q - there).max() < 0.3
    assert cell.planner == 'stopped: stop requested'
    cell.rearm()
