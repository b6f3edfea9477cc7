# SPDX-License-Identifier: Apache-2.0
"""The nodes' executor: messages are heard while requests are served, and failures come out."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import rclpy
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.client import Client
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSPresetProfiles
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ur5_pick_place.nodes.ros.executor import LockedExecutor, SerialNode


class Server(SerialNode):
    """Ticks every 10 ms and offers services that take their time."""

    def __init__(self) -> None:
        super().__init__('server')
        self.ticks = 0
        self.release = threading.Event()
        self.promise: Future = Future()
        for name in ('blocks', 'awaits', 'fails', 'changes_ears', 'prompt'):
            self.create_service(Trigger, name, getattr(self, name))
        self.create_timer(0.01, self.tick)

    def tick(self) -> None:
        self.ticks += 1

    async def blocks(self, _request: Trigger.Request, reply: Trigger.Response):
        reply.success = await self.in_pool(self.release.wait, 20.0)
        return reply

    async def awaits(self, _request: Trigger.Request, reply: Trigger.Response):
        reply.message = await self.promise
        return reply

    def prompt(self, _request: Trigger.Request, reply: Trigger.Response) -> Trigger.Response:
        reply.success = self.lock._is_owned()
        return reply

    async def changes_ears(self, _request: Trigger.Request, reply: Trigger.Response):
        reply.success = await self.in_pool(self.change_ears)
        return reply

    def change_ears(self) -> bool:
        """As rclpy does with /clock when use_sim_time changes."""
        speaker = self.create_publisher(String, 'talk', 10)
        for _ in range(300):
            ear = self.create_subscription(String, 'talk', lambda _message: None, 10)
            for _ in range(5):
                speaker.publish(String())
            time.sleep(0.001)
            self.destroy_subscription(ear)
        return True

    async def fails(self, _request: Trigger.Request, _reply: Trigger.Response) -> Trigger.Response:
        return await self.in_pool(self.fail)

    def fail(self) -> Trigger.Response:
        raise ValueError('this request is a bug')


class Spun:
    """A server that is spun in a thread, and a client that is spun on demand."""

    def __init__(self) -> None:
        self.server = Server()
        self.failure: Exception | None = None
        self.executor = LockedExecutor(self.server)
        self.client = Node('client')
        self._hearing = SingleThreadedExecutor()
        self._hearing.add_node(self.client)
        self.thread = threading.Thread(target=self._spin)
        self.thread.start()

    def _spin(self) -> None:
        try:
            self.executor.spin()
        except Exception as error:  # for the tests to judge
            self.failure = error

    def call(self, name: str, kind: Any = Trigger, **fields: Any) -> Future:
        client: Client = self.client.create_client(kind, name)
        assert client.wait_for_service(10.0)
        return client.call_async(kind.Request(**fields))

    def wait(self, future: Future) -> Any:
        self._hearing.spin_until_future_complete(future, 20.0)
        assert future.done()
        return future.result()


@pytest.fixture
def spun(ros_domain: int) -> Iterator[Spun]:
    rclpy.init()
    running = Spun()
    yield running
    running.server.release.set()
    rclpy.shutdown()
    running.thread.join(10.0)
    assert not running.thread.is_alive()


def test_messages_and_requests_are_heard_while_one_works(spun: Spun) -> None:
    reply = spun.call('blocks')
    before = spun.server.ticks
    deadline = time.monotonic() + 20.0
    while spun.server.ticks < before + 20:
        assert time.monotonic() < deadline, 'the timer does not run'
        time.sleep(0.01)
    assert spun.wait(spun.call('prompt')).success, 'with the lock'
    assert not reply.done() and spun.server.is_working
    spun.server.release.set()
    assert spun.wait(reply).success


def test_what_another_thread_finishes_resumes_who_waits_for_it(spun: Spun) -> None:
    reply = spun.call('awaits')
    assert not spun.wait(spun.call('prompt')).message
    spun.server.finish(spun.server.promise, 'kept')
    assert spun.wait(reply).message == 'kept'


def test_a_parameter_of_no_type_is_refused_and_ends_no_node(spun: Spun) -> None:
    odd = Parameter(name='use_sim_time', value=ParameterValue(type=77))
    reply = spun.wait(spun.call('server/set_parameters', SetParameters, parameters=[odd, odd]))
    assert [result.successful for result in reply.results] == [False, False]
    assert 'type 77' in reply.results[0].reason
    name = 'server/set_parameters_atomically'
    reply = spun.wait(spun.call(name, SetParametersAtomically, parameters=[odd]))
    assert not reply.result.successful and 'type 77' in reply.result.reason
    assert spun.failure is None


def test_a_request_may_destroy_what_is_just_being_waited_for(spun: Spun) -> None:
    reply = spun.call('changes_ears')
    assert spun.wait(reply).success
    assert spun.failure is None and spun.thread.is_alive()


def test_a_warning_of_the_middleware_comes_within_seconds(spun: Spun) -> None:
    """Such as that of a publisher whose QoS does not match."""
    warned: list[object] = []
    events = SubscriptionEventCallbacks(incompatible_qos=warned.append)
    spun.server.create_subscription(String, 'talk', print, 10, event_callbacks=events)
    spun.client.create_publisher(String, 'talk', QoSPresetProfiles.SENSOR_DATA.value)
    deadline = time.monotonic() + 20.0
    while not warned:
        assert time.monotonic() < deadline, 'the publisher was not noticed'
        time.sleep(0.01)


def test_what_a_request_raises_ends_the_executor(spun: Spun) -> None:
    spun.call('fails')
    spun.thread.join(10.0)
    assert isinstance(spun.failure, ValueError)
