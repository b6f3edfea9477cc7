# SPDX-License-Identifier: Apache-2.0
"""The cell on one machine, our nodes on another: over a bad cable, and over one that is cut."""

import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')

from cable import CUT, MACHINES, Cable, Link, why_not  # noqa: E402
from test_pick_place_node import START, TARGET, TaskClient  # noqa: E402

from ur5_pick_place.nodes.demo_processes import NodeProcesses  # noqa: E402
from ur5_pick_place.nodes.node_list import node_list  # noqa: E402

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

CONFIG = Path(__file__).parents[1] / 'config'
NODES = {'cell': ['sim_driver'], 'pc': ['trajectory_planner', 'pick_place']}
LINK = Link(delay=0.005, jitter=0.002, loss=0.01)


class TwoMachines:
    """The nodes on their machines, and a client on the PC."""

    def __init__(self, domain, folder, stack, link=LINK, rtf=2.0, both=None, **task):
        own = folder / 'own.yaml'
        settings = {
            '/**': both or {},
            '/**/pick_place': {'poses_file': str(folder / 'poses.yaml'), **task},
        }
        own.write_text(json.dumps({k: {'ros__parameters': v} for k, v in settings.items() if v}))
        specs = node_list(
            'sim', CONFIG, params_file=str(own), sim_parameters={'real_time_factor': rtf}
        )
        self.cable = stack.enter_context(Cable(link))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'SUBNET')
        for machine, names in NODES.items():
            (other,) = MACHINES.keys() - {machine}
            patch.setenv('ROS_STATIC_PEERS', MACHINES[other])
            mine = [spec for spec in specs if spec.executable in names]
            with self.cable.at(machine):
                stack.enter_context(NodeProcesses(mine, domain, folder, reach='SUBNET'))
        # One network for all of this process's clients: Fast DDS looks at the network cards once.
        stack.enter_context(self.cable.at('pc'))
        self.client = TaskClient('')
        stack.callback(self.client.close)

    def prepare(self):
        client = self.client
        client.wait_for_driver()
        client.until(lambda: client.states and client.part, 'the task node', 20.0)
        client.until(lambda: client.ask('init_gripper').success, 'the planner', 20.0)
        client.event('done', job='init_gripper')
        client.do('teach_home')
        client.teach('start', START)
        client.teach('target', TARGET)

    def carry(self):
        """Run the cycle into the transfer."""
        since = len(self.client.events)
        self.client.put_part(START)
        self.client.do('plan')
        self.client.do('run')
        self.client.event('stage', since=since, stage='transfer')

