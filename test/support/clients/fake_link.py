# SPDX-License-Identifier: Apache-2.0
"""A client over a link that stands in for the nodes, and messages as they would send them."""

import time
from types import SimpleNamespace

import pytest
from sensor_msgs.msg import JointState

from ur5_pick_place.client import PickPlaceClient, pick_place_client
from ur5_pick_place.client.received import ReceivedMessages
from ur5_pick_place.errors import ExecutionError, TimedOut
from ur5_pick_place.kinematics import HOME, JOINT_NAMES
from ur5_pick_place.nodes.messages.conversions import time_to_msg


def event(kind, time=1.0, **fields):
    return {'time': time, 'event': kind, **fields}


def joints(q, names=JOINT_NAMES):
    message = JointState(name=list(names), position=[float(v) for v in q])
    message.header.stamp = time_to_msg(time.monotonic())
    return message


class FakeLink:
    """Answers at once; `asked` are the services called, and `sent` what moves the arm."""

    def __init__(self):
        self.received, self.timeout = ReceivedMessages(), 1.0
        self.received.states = {'pick_place': 'idle', 'trajectory_planner': 'ready'}
        self.received.on_joints(joints(HOME))
        self.asked, self.sent = [], []
        self.after = HOME

    def check_open(self):
        pass

    def services(self, _prefix):
        return ('home', 'start', 'target')

    def call(self, _kind, name, *_others):
        self.asked.append(name)
        if name == 'pick_place/open_gripper':
            raise KeyboardInterrupt
        return SimpleNamespace(success=True, message='')

    def stop_arm(self):
        raise ExecutionError('stop: timed out; USE THE EMERGENCY STOP')

    def publisher(self, _kind, topic, _seconds):
        return topic

    def repeat(self, topic, _message, _seconds):
        self.sent.append(topic)
        self.received.on_joints(joints(self.after))
        return 1.0

    def wait_for_rest(self):
        self.asked.append('rest')

    def wait(self, find, what, seconds=0.0, *_others):
        deadline = time.monotonic() + seconds
        while not (found := find()):
            if time.monotonic() > deadline:
                raise TimedOut(what)
            time.sleep(0.01)
        return found


@pytest.fixture
def link():
    return FakeLink()


@pytest.fixture
def cell(link, monkeypatch):
    """A client over the link."""
    monkeypatch.setattr(pick_place_client.Link, 'to_cell', lambda *_: link)
    return PickPlaceClient()
