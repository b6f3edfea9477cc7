# SPDX-License-Identifier: Apache-2.0
"""When pick_place takes the planner for hung; and requests to a node that hangs."""

import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import rclpy
from rclpy.node import Node
from std_srvs.srv import Trigger

from ur5_pick_place.nodes.pick_place.arm_stop import PlannerLatch, ProcessorWaits
from ur5_pick_place.nodes.pick_place.node import PickPlace
from ur5_pick_place.nodes.ros import service_calls
from ur5_pick_place.nodes.ros.executor import LockedExecutor, SerialNode
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall


@pytest.fixture
def caller(ros_domain):
    rclpy.init()
    node, planner = SerialNode('caller'), rclpy.create_node('planner')
    planner.create_service(Trigger, 'stop', lambda _request, reply: reply)  # it is never spun
    client = node.create_client(Trigger, 'stop')
    assert client.wait_for_service(10.0)
    yield SimpleNamespace(node=node, client=client, state='ready')
    rclpy.try_shutdown()


def ask(caller, is_busy, stops_after=9.0):
    """Return the answer about a planner that hangs, or reports a stop in time, and the time."""
    latch = PlannerLatch(caller.node, caller.client, lambda: caller.state == 'stopped')
    latch.waits = SimpleNamespace(is_busy=is_busy, sample=print)
    answers, begin = [], time.monotonic()

    async def run():
        answers.append(await latch.request_stop())

    executor = LockedExecutor(caller.node)
    executor.create_task(run)
    while not answers:
        executor.spin_once(timeout_sec=0.01)
        if time.monotonic() - begin > stops_after:
            caller.state = 'stopped'
    executor.remove_node(caller.node)
    return answers[0], time.monotonic() - begin


def test_a_planner_that_hangs_is_waited_for_briefly_and_longer_on_a_busy_pc(caller):
    assert ask(caller, is_busy=False)[0] is False
    begun, seconds = ask(caller, is_busy=True)
    assert begun is False and seconds > 0.2
    assert not caller.client._pending_requests


def test_a_planner_that_reports_the_stop_obeys_it_though_its_reply_is_late(caller):
    begun, seconds = ask(caller, is_busy=True, stops_after=0.08)
    assert begun is True and seconds < 0.25
    assert ask(caller, is_busy=True)[0] is False, 'that state is of an earlier stop'


@pytest.mark.parametrize(('share', 'is_busy'), [(0.002, False), (0.1, True)])
def test_a_pc_is_busy_where_this_process_waits_for_a_processor(share, is_busy):
    waited = iter(share * 0.05 * k for k in range(100))
    waits = ProcessorWaits(lambda: next(waited))
    assert not waits.is_busy
    for k in range(50):
        waits.sample(10.0 + 0.05 * k)
    assert waits.is_busy is is_busy


def test_of_repeated_requests_without_reply_only_the_young_ones_are_kept(context, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: clock.now, now=0.0)
    monkeypatch.setattr(service_calls, 'time', clock)
    node, replies = Node('caller', context=context), []
    client = node.create_client(Trigger, 'hangs')
    calls = RepeatedCall(client, 1.0)
    for _ in range(100):
        clock.now += 0.21
        calls.send(Trigger.Request(), replies.append)
    assert len(client._pending_requests) <= 5
    (*_, latest) = client._pending_requests.values()
    latest.set_result('a reply')
    for done in latest._callbacks:
        done(latest)
    assert replies == ['a reply']


def test_a_task_node_that_was_suspended_with_the_planner_says_so_not_that_this_has_gone():
    node = MagicMock()
    PickPlace._on_planner_death(node)
    order = [name for name, *_ in node.mock_calls].index
    assert order('_arm_stop.begin') < order('_state.beat') < order('_machine.stop')
