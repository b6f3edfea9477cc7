# SPDX-License-Identifier: Apache-2.0
"""What was taught outlives the nodes: taught, all of them killed, started anew, run."""

import os
import signal
from pathlib import Path

import numpy as np
import pace
import pytest

pytest.importorskip('rclpy')

from rcl_interfaces.srv import GetParameters
from test_pick_place_node import CONFIG, START, TARGET, TaskClient

from ur5_pick_place.kinematics import HOME
from ur5_pick_place.nodes.node_list import node_list
from ur5_pick_place.task.poses_file import PosesFile
from ur5_pick_place.trials.processes import NodeProcesses

pytestmark = pytest.mark.nodes


@pytest.fixture
def start(ros_domain, tmp_path):
    """Return a function: mass of the tool -> a running cell and its client."""
    running = []

    def start(payload_mass):
        own = tmp_path / 'own.yaml'
        own.write_text(
            '/**: {ros__parameters: {parts: 2, target_grid: [1, 1, 1], '
            f'poses_file: {poses_file(tmp_path)}, payload_mass: {payload_mass}}}}}\n'
        )
        specs = node_list(
            'sim', CONFIG, params_file=str(own), sim_parameters=pace.sim()
        )
        specs = [spec for spec in specs if spec.executable != 'ik_service']
        processes = NodeProcesses(specs, ros_domain, tmp_path)
        running.append(processes)
        client = TaskClient('')
        running.append(client)
        client.wait_for_driver()
        client.until(lambda: client.states and client.part, 'the task node')
        client.until(lambda: client.ask('init_gripper').success, 'the planner to be ready')
        client.event('done', job='init_gripper')
        return processes, client

    yield start
    for item in running:
        item.close() if isinstance(item, TaskClient) else item.stop()


def poses_file(folder: Path) -> Path:
    return folder / 'poses.yaml'


def test_what_was_taught_runs_after_every_node_was_killed(start, tmp_path):
    processes, client = start(payload_mass=0.9)
    client.do('teach_home')
    client.teach('start', START)
    client.teach('target', TARGET)
    for pid in processes.pids.values():
        os.kill(pid, signal.SIGKILL)
    client.close()
    processes.stop()
    taught = PosesFile(poses_file(tmp_path))
    assert taught.poses.keys() == {'home', 'start', 'target'}
    poses_file(tmp_path).write_bytes(poses_file(tmp_path).read_bytes()[:300])  # a bad day

    _, client = start(payload_mass=1.2)
    parts = client.call(GetParameters, 'sim_driver/get_parameters', names=['parts']).values
    assert parts[0].integer_value == 2, 'all nodes read the file of the user'
    client.put_part(START)
    client.do('plan')
    for place in taught.poses:
        changed = client.event('converted', place=place)['changed']
        assert changed == {'payload': [0.9, 1.2]}
    client.do('run')
    client.event('done', job='run')
    client.run(0.3)
    assert np.linalg.norm(client.part_at()[:2] - TARGET[:2]) < 2e-3
    assert np.abs(client.q - HOME).max() < 2e-3
    log = (tmp_path / 'pick_place.log').read_text()
    assert 'cut short' in log and 'used its copy poses.yaml.last' in log
