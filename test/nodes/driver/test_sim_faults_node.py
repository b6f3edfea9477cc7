# SPDX-License-Identifier: Apache-2.0
"""Faults injected through the simulated driver's services, seen by a client over real DDS."""

import pytest
from driver_client import IO, SCALED, goal, rest
from lone_driver import THERE
from std_srvs.srv import SetBool, Trigger

from ur5_pick_place.kinematics import HOME
from ur5_pick_place.sim.faults import FAULTS

pytestmark = [pytest.mark.nodes, pytest.mark.drill]


@pytest.fixture
def cell(driver):
    """The driver's client, with the arm at home and nothing injected."""
    if abs(driver.q - HOME).max() > 1e-3:
        driver.move(HOME)
    yield driver
    driver.forget()
    assert driver.call(Trigger, 'sim_driver/clear_faults').success


def inject(cell, name, data=True):
    response = cell.call(SetBool, f'sim_driver/faults/{name}', data=data)
    assert response.success, response.message
    return response.message


def clear(cell, name):
    return inject(cell, name, data=False)


def actions(cell):
    """How many servers of the trajectory action there are."""
    return cell.node.count_services(f'{SCALED}/follow_joint_trajectory/_action/send_goal')


def test_there_is_a_service_for_every_fault_and_it_tells_what_happened(cell):
    wanted = [f'sim_driver/faults/{name}' for name in FAULTS]
    cell.until(lambda: all(map(cell.node.count_services, wanted)), 'a service for every fault')
    assert inject(cell, 'io_states_silent') == FAULTS['io_states_silent'].text
    assert clear(cell, 'io_states_silent') == 'io_states_silent cleared'
    assert 'not injected' in clear(cell, 'io_states_silent')


def test_joint_states_that_are_dropped_are_not_published_until_they_are_again(cell):
    inject(cell, 'joint_states_dropped')
    cell.look()
    before = len(cell.joints)
    cell.look()
    assert len(cell.joints) == before
    clear(cell, 'joint_states_dropped')
    cell.until(lambda: len(cell.joints) > before + 10, 'joint_states')


def test_a_service_that_has_gone_comes_back(cell):
    inject(cell, 'set_io_absent')
    cell.until(lambda: not cell.node.count_services(f'{IO}/set_io'), 'set_io to go')
    assert cell.node.count_services(f'{IO}/set_payload')
    clear(cell, 'set_io_absent')
    cell.until(lambda: cell.node.count_services(f'{IO}/set_io'), 'set_io to come back')
    assert cell.set_io(1, 5, 1)
    cell.until(lambda: cell.output(5), 'pin 5 on')
    assert cell.set_io(1, 5, 0)


def test_an_action_server_that_has_gone_leaves_the_motion_and_comes_back(cell):
    cell.send(goal(rest(THERE, 1.0)))
    inject(cell, 'action_server_gone')
    cell.until(lambda: not actions(cell), 'the action server to go')
    cell.run(1.3)
    assert cell.q == pytest.approx(THERE, abs=1e-3)
    clear(cell, 'action_server_gone')
    cell.until(lambda: actions(cell), 'the action server to come back')
    cell.move(HOME)
