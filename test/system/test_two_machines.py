# SPDX-License-Identifier: Apache-2.0
"""
The cell on one machine, our nodes on another: over a bad cable, and over one that is cut.

Each runs in a process of its own, as Fast DDS looks at a process's network cards only once.
"""

import dataclasses
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from cable import CUT, MACHINES, Cable, Link, why_not
from cells import CONFIG, sim_nodes
from task_client import START, TARGET, TaskClient

from ur5_pick_place.demo.processes import NodeProcesses
from ur5_pick_place.nodes.ros.distro import distro

MISSING = why_not()
pytestmark = [
    pytest.mark.drill,
    pytest.mark.nodes,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]
DOMAIN = 42  # nobody else is in these networks
NODES = {'cell': ['sim_driver'], 'pc': ['trajectory_planner', 'pick_place']}
LINK = Link(delay=0.005, jitter=0.002, loss=0.01)


class TwoMachines:
    """The nodes on their machines, as in docs/howto/two_pcs.md says, and a client on the PC."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        os.environ['ROS_DOMAIN_ID'] = str(DOMAIN)
        os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'SUBNET'
        profile = (CONFIG / 'fastdds_two_pcs.xml').read_text()
        if os.environ['ROS_DISTRO'] == 'jazzy':  # as the file says
            profile = profile.replace('heartbeat_period', 'heartbeatPeriod')
        own = folder / 'fastdds.xml'
        own.write_text(profile)
        os.environ[distro().profiles] = str(own)
        specs = sim_nodes(folder, quick=1.5)
        self.cable = stack.enter_context(Cable(LINK))
        for machine, names in NODES.items():
            (peer,) = (address for name, address in MACHINES.items() if name != machine)
            os.environ['ROS_STATIC_PEERS'] = peer
            mine = [spec for spec in specs if spec.executable in names]
            with self.cable.at(machine):
                stack.enter_context(NodeProcesses(mine, DOMAIN, folder, reach='SUBNET'))
        stack.enter_context(self.cable.at('pc'))
        self.client = TaskClient()
        stack.callback(self.client.close)
        self._teach()

    def _teach(self) -> None:
        client = self.client
        client.wait_until_ready(20.0)
        client.teach_places()
        client.put_part(START)
        client.do('plan')


def cycle(cell: TwoMachines) -> None:
    """A whole cycle over a cable that delays and loses."""
    client = cell.client
    client.do('run')
    client.event('done', job='run')
    client.run(0.5)
    miss = np.linalg.norm(client.part_at()[:2] - TARGET[:2])
    assert miss < 2e-3, f'the cube lies {miss} m off'


def cut(cell: TwoMachines) -> None:
    """A cable that is cut for 2 s while the part is carried, and then in one direction."""
    client = cell.client
    client.do('run')
    client.event('stage', stage='transfer')
    client.run(0.2)
    seen, known = client.q.copy(), len(client.joints)
    cell.cable.set(CUT)
    end = time.monotonic() + 2.0
    client.until(lambda: time.monotonic() > end, 'the cable to be mended')
    assert re.search('joint_states silent for 1', client.states[-1]), client.states[-1]
    assert len(client.joints) < known + 20, 'the cable was cut'

    cell.cable.set(LINK)
    client.until(lambda: len(client.joints) > known + 20, 'the driver')
    rest = client.q.copy()
    assert np.abs(rest - seen).max() > 0.1, 'the driver has finished what it had'
    client.run(2.0)
    assert np.abs(client.q - rest).max() < 1e-3, 'nothing goes on by itself'
    refused = client.ask('go_home')
    assert not refused.success and 'rearm' in refused.message, refused.message

    client.until(lambda: client.ask('rearm').success, 'the cell to be rearmed')
    client.job('go_home')
    assert client.part_at()[2] > 0.2 and client.output(16), 'the part is still in the hand'

    cell.cable.set(dataclasses.replace(LINK, is_deaf=True))
    client.do('open_gripper')
    client.until(lambda: 'was not answered' in client.states[-1], 'the stop')
    cell.cable.set(LINK)
    client.until(lambda: client.ask('rearm').success, 'the cell to be rearmed')
    client.run(1.0)
    assert client.output(16), 'what was given up is not done when the cable is mended'


@pytest.mark.parametrize('what', ['cycle', 'cut'])
def test_our_nodes_may_be_on_another_machine(what: str) -> None:
    ended = subprocess.run(
        [sys.executable, __file__, what],
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=180.0,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as work, ExitStack() as stack:
        {'cycle': cycle, 'cut': cut}[sys.argv[1]](TwoMachines(Path(work), stack))
