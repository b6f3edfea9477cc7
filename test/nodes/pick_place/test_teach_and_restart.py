# SPDX-License-Identifier: Apache-2.0
"""What was taught outlives the nodes: taught, all of them killed, started anew, run."""

import os
import signal

import numpy as np
import pytest
from cells import running_cell
from rcl_interfaces.srv import GetParameters
from task_client import START, TARGET, TaskClient

from ur5_pick_place.kinematics import HOME
from ur5_pick_place.task.places.file import PosesFile

pytestmark = [pytest.mark.drill, pytest.mark.nodes]


def test_what_was_taught_runs_after_every_node_was_killed(ros_domain, tmp_path):
    def start(payload_mass):
        own = {'/**': {'parts': 2, 'target_grid': [1, 1, 1], 'payload_mass': payload_mass}}
        return running_cell(TaskClient, ros_domain, tmp_path, own=own, without=['ik_service'])

    file = tmp_path / 'poses.yaml'
    with start(payload_mass=0.9) as client:
        client.teach_places()
        for pid in client.processes.pids.values():
            os.kill(pid, signal.SIGKILL)
    taught = PosesFile(file).poses
    assert taught.keys() == {'home', 'start', 'target'}
    file.write_bytes(file.read_bytes()[:300])  # a bad day

    with start(payload_mass=1.2) as client:
        parts = client.call(GetParameters, 'sim_driver/get_parameters', names=['parts']).values
        assert parts[0].integer_value == 2, 'all nodes read the file of the user'
        client.put_part(START)
        client.do('plan')
        for place in taught:
            changed = client.event('converted', place=place)['changed']
            assert changed == {'payload': [0.9, 1.2]}
        client.do('run')
        client.event('done', job='run')
        client.run(0.3)
        assert np.linalg.norm(client.part_at()[:2] - TARGET[:2]) < 2e-3
        assert np.abs(client.q - HOME).max() < 2e-3
    log = (tmp_path / 'pick_place.log').read_text()
    assert 'cut short' in log and 'used its copy poses.yaml.last' in log
