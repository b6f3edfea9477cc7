# SPDX-License-Identifier: Apache-2.0
"""One server of a name: a node that learns late of another one ends, and only while it is new."""

import time

import pytest

rclpy = pytest.importorskip('rclpy')

from rclpy.context import Context  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from ur5_pick_place.errors import Ur5PickPlaceError  # noqa: E402
from ur5_pick_place.nodes import process  # noqa: E402

NAME = 'plan'


class Server:
    """A node with a DDS participant of its own that offers a service."""

    def __init__(self, is_checked):
        self._context = Context()
        rclpy.init(context=self._context)
        self.node = rclpy.create_node('server', context=self._context)
        if is_checked:
            process.refuse_if_served(self.node, [NAME])
        self.node.create_service(Trigger, NAME, lambda _request, reply: reply)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def spin_until(self, condition):
        deadline = time.monotonic() + 20.0
        while not condition():
            assert time.monotonic() < deadline
            self._executor.spin_once(timeout_sec=0.1)

    def close(self):
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()


@pytest.fixture
def serve(ros_domain):
    servers = []

    def start(is_checked):
        servers.append(Server(is_checked))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_a_server_that_is_discovered_late_ends_the_new_node(serve):
    new = serve(is_checked=True)
    serve(is_checked=False)  # discovered only now
    with pytest.raises(Ur5PickPlaceError, match='/plan is already offered by another node'):
        new.spin_until(lambda: False)


def test_a_node_that_runs_for_long_is_not_ended_by_another(serve, monkeypatch):
    monkeypatch.setattr(process, '_LATE_DISCOVERY', 0)
    old = serve(is_checked=True)
    old.spin_until(lambda: not list(old.node.timers))
    serve(is_checked=False)
    old.spin_until(lambda: old.node.count_services(NAME) == 2)
    for _ in range(15):
        old._executor.spin_once(timeout_sec=0.1)
