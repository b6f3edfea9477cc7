# SPDX-License-Identifier: Apache-2.0
"""A client of the IK node, which is a process of its own."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import rclpy
from moveit_msgs.srv import GetPositionFK, GetPositionIK
from moveit_requests import CONFIG, Codes
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.kinematics import JOINT_NAMES


class Client:
    """Calls the node's services and waits for the reply, ten seconds at most."""

    def __init__(self, namespace: str) -> None:
        self.node = Node('test_ik_service', namespace=namespace)
        self.markers: list[MarkerArray] = []
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._services = {
            'compute_ik': self.node.create_client(GetPositionIK, 'compute_ik'),
            'compute_ik_all': self.node.create_client(GetPositionIK, 'compute_ik_all'),
            'compute_fk': self.node.create_client(GetPositionFK, 'compute_fk'),
        }

    def wait_for_node(self) -> None:
        for name, client in self._services.items():
            assert client.wait_for_service(timeout_sec=20.0), f'{name} did not appear'

    def call_async(self, name: str, request: object):
        return self._services[name].call_async(request)

    def call(self, name: str, request: object):
        future = self.call_async(name, request)
        self._executor.spin_until_future_complete(future, timeout_sec=10.0)
        assert future.done(), f'{name} did not answer'
        return future.result()

    def spin_until(self, condition: Callable[[], bool], timeout: float = 10.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, 'waited too long'
            self._executor.spin_once(timeout_sec=0.05)


@pytest.fixture(scope='module')
def context(ros_domain: int) -> Iterator[None]:
    rclpy.init()
    yield
    rclpy.try_shutdown()


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
        client.wait_for_node()
        yield client
        assert process.poll() is None, 'the node lives to the end'
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=5.0) == 0
    finally:
        process.kill()
        client.node.destroy_node()


@pytest.fixture(scope='module')
def client(context: None) -> Iterator[Client]:
    with client_of_node('/') as client:
        yield client


def joints_of(reply: GetPositionIK.Response) -> np.ndarray:
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    assert list(reply.solution.joint_state.name) == list(JOINT_NAMES)
    return np.array(reply.solution.joint_state.position)
