# SPDX-License-Identifier: Apache-2.0
"""
A stop of either node at any moment of any job holds the arm, by each method.

UR5_STOPS=500 asks for more stops than the few of `make drills`.

"""

import os

import numpy as np
import pytest
from cells import nodes_cell
from std_srvs.srv import Trigger
from task_client import START

from ur5_pick_place.kinematics import HOME

pytestmark = [pytest.mark.nodes, pytest.mark.drill, pytest.mark.timeout(7200)]

STOP_TIME = 0.5  # [s] on the wall; the braking comes on top
BRAKING = 0.6  # [s]
METHODS = ('ik', 'resolved_rate', 'gradient')


@pytest.fixture(params=METHODS)
def cell(request, ros_domain, tmp_path):
    with nodes_cell(ros_domain, tmp_path, method=request.param) as cell:
        cell.client.teach_places()
        yield cell


def set_off(cell):
    """Start the job that is due after the last stop: empty the hand, go home, or run the cycle."""
    client = cell.client
    if client.output(16):
        client.do('open_gripper')
        return 1.0
    if np.abs(client.look() - HOME).max() > 1e-3:
        client.do('go_home')
        return 3.0
    client.put_part(START)
    client.do('plan')
    client.do('run')
    return 8.0


def test_every_stop_ends_in_rest_and_holds_until_rearmed(cell, rng):
    client = cell.client
    for i in range(int(os.environ.get('UR5_STOPS', '12')) // len(METHODS)):
        client.run(rng.uniform(0.0, set_off(cell)))
        who = rng.choice(['pick_place', 'trajectory_planner'])
        reply = client.call_later(Trigger, f'{who}/stop')
        took = cell.time_to_rest(STOP_TIME + BRAKING)
        assert client.wait(reply, 'the reply').success
        client.until(lambda: cell.planner.startswith('stopped'), "the planner's latch")
        refused = client.ask('go_home')
        assert not refused.success and 'rearm' in refused.message
        cell.stays_at_rest(0.3)
        print(f'stop {i} of {who}: at rest after {took:.2f} s, {client.states[-1]}')
        cell.rearm()
    for name in ('sim_driver', 'trajectory_planner', 'pick_place'):
        assert 'Traceback' not in cell.log(name)
