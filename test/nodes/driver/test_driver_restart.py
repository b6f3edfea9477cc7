# SPDX-License-Identifier: Apache-2.0
"""Rearm and freedrive with the program stopped or played, and after the driver was restarted."""

import dataclasses
import time

import numpy as np
import pace
import pytest
from cells import nodes_cell
from driver_client import SCALED
from lone_driver import FREEDRIVE
from std_srvs.srv import SetBool

from ur5_pick_place.kinematics import HOME

pytestmark = [pytest.mark.drill, pytest.mark.nodes]
RESTARTED = 10.0  # [s] on the wall; a driver that was killed stays in the ROS graph for 20 s


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    with nodes_cell(ros_domain, tmp_path_factory.mktemp('cell')) as cell:
        cell.client.do('teach_home')
        yield cell


def test_a_program_that_is_played_is_followed_by_rearm_and_a_motion_at_once(cell):
    client = cell.client
    assert client.dashboard('stop').success
    client.until(lambda: 'program not running' in cell.planner, 'the latch')
    refused = client.ask('rearm')
    assert not refused.success and 'program not running' in refused.message
    assert client.dashboard('play').success
    client.until(lambda: client.ask('rearm').success, 'rearm')
    client.job('go_home')


def test_a_rearm_is_refused_while_the_controller_is_inactive(cell):
    client = cell.client
    client.do('stop')
    assert client.switch(off=[SCALED]).ok
    refused = client.ask('rearm')
    assert not refused.success and f'{SCALED} is inactive' in refused.message
    assert client.switch(on=[SCALED]).ok
    client.do('rearm')
    client.job('go_home')


def test_a_new_planner_waits_for_the_driver_to_activate_the_controller(cell):
    client = cell.client
    client.do('stop')
    assert client.switch(off=[SCALED]).ok
    cell.kill('trajectory_planner')
    client.until(lambda: client.states[-1].startswith('stopped'), 'the stop')
    cell.start('trajectory_planner')

    def is_refused() -> bool:
        reply = client.ask('rearm')
        assert not reply.success, cell.planner
        return f'{SCALED} is inactive' in reply.message

    # By a rearm: the state itself is soon that of the stop which the task node remembers.
    client.until(is_refused, 'the planner', wall=60.0)
    assert client.switch(on=[SCALED]).ok
    cell.rearm()
    client.job('go_home')


def test_freedrive_is_not_followed_by_the_trajectory_controller_before_play(cell):
    client = cell.client
    assert client.call(SetBool, 'pick_place/freedrive', data=True).success
    assert client.dashboard('stop').success
    client.until(lambda: 'freedrive' not in client.states[-1], 'its end')
    client.run(2.0)
    assert not {SCALED, FREEDRIVE} & client.active_controllers()
    assert client.dashboard('play').success
    client.until(lambda: SCALED in client.active_controllers(), 'the trajectory controller')
    assert FREEDRIVE not in client.active_controllers()
    cell.rearm()
    client.job('go_home')


def test_a_restarted_driver_that_tells_nothing_of_its_program_has_none_running(cell):
    client = cell.client
    spec = cell._specs['sim_driver']
    stopped = {**spec.parameters, 'program_running': False}
    cell._specs['sim_driver'] = dataclasses.replace(spec, parameters=stopped)
    cell.kill('sim_driver')
    client.joints.clear()
    cell.start('sim_driver')
    client.until(lambda: client.joints, 'the new driver', wall=60.0)
    begin, messages = time.monotonic(), []
    while not any('program not running' in message for message in messages):
        assert time.monotonic() - begin < pace.wall(RESTARTED), messages
        reply = client.ask('rearm')
        assert not reply.success, 'without a program'
        messages.append(reply.message)
    assert SCALED not in client.active_controllers()
    assert client.dashboard('play').success
    cell.rearm()
    client.job('go_home')
    np.testing.assert_allclose(client.look(), HOME, atol=1e-3)
