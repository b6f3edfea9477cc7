# SPDX-License-Identifier: Apache-2.0
"""A cell of `make setup` is on the loopback alone: no other host hears it or gets in."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cable import MACHINES, Cable, Link, why_not

from ur5_pick_place.nodes.ros.distro import distro

MISSING = why_not()
pytestmark = [
    pytest.mark.drill,
    pytest.mark.nodes,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]
PROFILE = Path(sys.prefix, 'fastdds.xml')
LOOK = """
import time, rclpy
rclpy.init()
node = rclpy.create_node('somebody')
deadline = time.monotonic() + {seconds}
while time.monotonic() < deadline and not node.count_publishers('ik_markers'):
    time.sleep(0.05)
print(node.count_publishers('ik_markers'))
"""


def look(seconds, **environment):
    """Return how many of our node's publishers a new process sees within some time."""
    command = [sys.executable, '-c', LOOK.format(seconds=seconds)]
    env = {**os.environ, **environment}
    return int(subprocess.check_output(command, env=env, text=True, stderr=subprocess.DEVNULL))


def test_another_host_that_knows_the_address_sees_nothing(ros_domain):
    here = {
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
        distro().profiles: str(PROFILE),
    }
    elsewhere = {
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET',
        'ROS_STATIC_PEERS': MACHINES['cell'],
        distro().profiles: '',
    }
    segments = set(os.listdir('/dev/shm'))
    command = Path(sys.executable).with_name('ik_service')
    with Cable(Link()) as cable:
        with cable.at('cell'):
            node = subprocess.Popen([command], env={**os.environ, **here})
        try:
            time.sleep(2.0)
            mine = {s for s in set(os.listdir('/dev/shm')) - segments if holds(node.pid, s)}
            with cable.at('cell'):
                sockets = Path('/proc/thread-self/net/udp').read_text().splitlines()[1:]
                assert look(10.0, **here) == 1
            with cable.at('pc'):
                assert look(4.0, **elsewhere) == 0
        finally:
            node.kill()
            node.wait()
    assert sockets
    assert {line.split()[1].partition(':')[0] for line in sockets} == {'0100007F'}
    assert not mine


def holds(pid, segment):
    """Tell whether a process has a file of /dev/shm in its memory."""
    return f'/dev/shm/{segment}' in Path(f'/proc/{pid}/maps').read_text()
