# SPDX-License-Identifier: Apache-2.0
"""A client of the IK node, which is a process of its own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from driver_client import DriverClient
from moveit_msgs.srv import GetPositionFK, GetPositionIK
from moveit_requests import CONFIG, Codes

from ur5_pick_place.kinematics import JOINT_NAMES

KINDS = {
    'compute_ik': GetPositionIK,
    'compute_ik_all': GetPositionIK,
    'compute_fk': GetPositionFK,
}


class Client(DriverClient):
    """Calls the node's services and waits for the reply."""

    def ask(self, name: str, request: object):
        return self.call(KINDS[name], name, request)


@contextmanager
def client_of_node(namespace: str, *arguments: str) -> Iterator[Client]:
    """Run the node beside a client, which is told of it, and expect it to end on SIGINT."""
    script = 'from ur5_pick_place.nodes.ik_service.node import main; main()'
    files = [CONFIG / 'ik_service.yaml', CONFIG / 'robot_sim.yaml']
    arguments += tuple(word for file in files for word in ('--params-file', str(file)))
    arguments += ('-r', f'__ns:={namespace}')
    process = subprocess.Popen([sys.executable, '-c', script, '--ros-args', *arguments])
    client = Client(namespace)
    try:
        for name in KINDS:
            client.until(lambda name=name: client.node.count_services(name), name, 20.0)
        yield client
        assert process.poll() is None, 'the node lives to the end'
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=5.0) == 0
    finally:
        process.kill()
        client.close()


@pytest.fixture(scope='module')
def client(ros_domain: int) -> Iterator[Client]:
    with client_of_node('/') as client:
        yield client


def joints_of(reply: GetPositionIK.Response) -> np.ndarray:
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    assert list(reply.solution.joint_state.name) == list(JOINT_NAMES)
    return np.array(reply.solution.joint_state.position)
