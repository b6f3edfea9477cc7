# SPDX-License-Identifier: Apache-2.0
"""Faults are injected and cleared on request, by name."""

import pytest
from faulty_cell import FaultyCell

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.physics.world import World


@pytest.fixture
def cell():
    return FaultyCell()


def test_all_faults_are_cleared_at_once_but_for_those_that_the_robot_holds(cell):
    for name in ('io_states_silent', 'protective_stop', 'part_present_late'):
        cell.inject(name)
    with pytest.raises(InvalidInput, match='protective_stop: Cannot unlock'):
        cell.faults.clear_all()
    assert cell.faults.active == ('protective_stop',)
    cell.run(5.1)
    assert cell.faults.clear_all() == 'all faults cleared'
    assert 'not injected' in cell.faults.clear('protective_stop')


def test_injecting_twice_happens_twice_and_is_cleared_together():
    cell = FaultyCell(arm=World())
    before = cell.arm.T_world_part[:3, 3]
    cell.inject('part_shifted')
    cell.inject('part_shifted')
    assert cell.arm.T_world_part[0, 3] == pytest.approx(before[0] + 0.02)
    cell.clear('part_shifted')
    assert cell.arm.T_world_part[:3, 3] == pytest.approx(before, abs=1e-4)


def test_an_unknown_fault_is_refused_with_the_nearest_name(cell):
    with pytest.raises(InvalidInput, match='did you mean link_loss'):
        cell.inject('link_los')
    with pytest.raises(InvalidInput, match='known are: protective_stop'):
        cell.clear('xyz')
