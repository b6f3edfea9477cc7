# SPDX-License-Identifier: Apache-2.0
"""Requests to a node that hangs do not become more and more."""

from types import SimpleNamespace

from rclpy.node import Node
from std_srvs.srv import Trigger

from ur5_pick_place.nodes.ros import service_calls
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall


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
