# SPDX-License-Identifier: Apache-2.0
"""
Jogging over DDS: the arm moves while messages come, and rests soon after the last one.

Whatever is wrong with a message, with its sender or with the moment, nothing moves unexpectedly.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pace
import pytest
from control_msgs.msg import JointJog
from driver_client import SCALED
from geometry_msgs.msg import TwistStamped
from planner_client import MODEL, T_BASE_LINK_BASE
from rcl_interfaces.msg import Log

from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward

pytestmark = [pytest.mark.nodes, pytest.mark.usefixtures('at_home', 'quiet')]
TWIST, JOINTS = 'trajectory_planner/delta_twist_cmds', 'trajectory_planner/delta_joint_cmds'
PUBLISHER = """
import time, rclpy
from control_msgs.msg import JointJog
rclpy.init()
node = rclpy.create_node('joystick')
publisher = node.create_publisher(JointJog, 'trajectory_planner/delta_joint_cmds', 10)
message = JointJog(joint_names=['shoulder_pan_joint'], velocities=[0.3])
while True:
    publisher.publish(message)
    time.sleep(0.03)
"""


@pytest.fixture(scope='module')
def sender(client):
    """Give publishers of both topics that the planner has found, and what is logged."""
    node = client.node
    publishers = {
        TwistStamped: node.create_publisher(TwistStamped, TWIST, 10),
        JointJog: node.create_publisher(JointJog, JOINTS, 10),
    }
    for publisher in publishers.values():
        client.until(publisher.get_subscription_count, 'the planner to listen')
    client.said = []
    client.hear(Log, '/rosout', lambda m: client.said.append(m.msg), 50)
    client.run(0.3)
    return publishers


@pytest.fixture
def quiet(sender, client):
    """Begin after a pause, with an empty log."""
    client.look()
    client.look()
    client.said.clear()


def twist(y):
    message = TwistStamped()
    message.header.frame_id = 'base_link'
    message.twist.linear.y = y
    return message


def jog(*velocities):
    return JointJog(joint_names=JOINT_NAMES[: len(velocities)], velocities=velocities)


def give(client, sender, message, wall, every=0.02):
    """Publish a message again and again, for some time of this machine [s]."""
    end, due = time.monotonic() + wall, 0.0
    while time.monotonic() < end:
        if time.monotonic() >= due:
            sender[type(message)].publish(message)
            due = time.monotonic() + every
        client.spin_once(0.01)


def moving(client, sender, message):
    """Give a message until the arm moves."""
    deadline = time.monotonic() + pace.wall(10.0)
    while np.abs(client.qd).max() < 0.05:
        assert time.monotonic() < deadline, client.said
        give(client, sender, message, 0.1)


def refused(client, sender, message, words):
    """Give a message until the planner has refused it with some words."""
    deadline = time.monotonic() + pace.wall(10.0)
    while not any(words in text for text in client.said):
        assert time.monotonic() < deadline, client.said
        give(client, sender, message, 0.1)


def rests(client, within):
    """Check that the arm comes to rest within some time of this machine [s]; returns where."""
    begin = time.monotonic()
    client.until(lambda: np.abs(client.qd).max() < 0.01, 'the arm to rest')
    assert time.monotonic() - begin < within
    return client.look()


def tool(client):
    return (T_BASE_LINK_BASE @ forward(MODEL, client.look()))[:3, 3]


def test_the_tool_moves_along_a_twist_and_rests_soon_after_its_last_message(client, sender):
    before = tool(client)
    moving(client, sender, twist(y=0.2))
    client.state('moving')
    give(client, sender, twist(y=0.2), pace.wall(0.5))
    rests(client, 0.2 + pace.wall(1.0))
    client.state('ready')
    q = client.look()
    way = tool(client) - before
    assert way[1] > 0.02 and np.linalg.norm(way[[0, 2]]) < 0.05 * way[1]
    client.run(0.5)
    assert np.abs(client.look() - q).max() < 1e-3


@contextlib.contextmanager
def held_button():
    """Jog the first joint from a process of its own, that is killed."""
    joystick = subprocess.Popen([sys.executable, '-c', PUBLISHER])
    try:
        yield
    finally:
        joystick.send_signal(signal.SIGKILL)
        joystick.wait()


def test_joints_move_by_name_and_the_death_of_the_publisher_stops_them(client):
    with held_button():
        client.until(lambda: client.qd[0] > 0.2, 'the arm to move', 30.0)
    rests(client, 0.2 + pace.wall(1.0))
    assert np.abs(client.look() - HOME)[1:].max() < 2e-3
    client.state('ready')


@pytest.mark.drill
def test_a_stop_in_mid_jog_brakes_and_latches_and_a_held_button_moves_nothing(client, sender):
    with held_button():
        client.until(lambda: client.qd[0] > 0.2, 'the arm to move', 30.0)
        assert client.trigger('stop').success
        client.state('stopped: stop requested')
        q = rests(client, pace.wall(1.0))
        client.until(lambda: client.trigger('rearm').success, 'rearm')
        client.run(0.5)
        assert np.abs(client.look() - q).max() < 1e-3
        assert any('release the command' in text for text in client.said), client.said
        planner = client.processes.pids['trajectory_planner']
        os.kill(planner, signal.SIGSTOP)  # a stall of this PC is no pause of the button
        time.sleep(0.5)
        os.kill(planner, signal.SIGCONT)
        client.run(0.5)
        assert np.abs(client.look() - q).max() < 1e-3
    client.look()
    client.look()
    moving(client, sender, jog(-0.4))
    rests(client, 0.2 + pace.wall(1.0))


def test_a_flood_leaves_the_planner_answerable(client, sender):
    publish, end = sender[TwistStamped].publish, time.monotonic() + 1.0
    while time.monotonic() < end:
        for _ in range(100):
            publish(twist(y=0.05))
        client.spin_once(0.0)
    begin = time.monotonic()
    assert client.trigger('stop').success
    assert time.monotonic() - begin < pace.wall(1.0)
    rests(client, pace.wall(2.0))
    client.until(lambda: client.trigger('rearm').success, 'rearm')


def test_a_jog_is_refused_if_another_controller_is_active(client, sender):
    client.switch(off=[SCALED])
    try:
        before = client.look()
        refused(client, sender, jog(0.3), f'{SCALED} is inactive')
        assert np.abs(client.look() - before).max() < 1e-4
    finally:
        client.switch(on=[SCALED])
