# SPDX-License-Identifier: Apache-2.0
"""A stop, or a cancel, that comes while the gate still looks at a motion: it never begins."""

import pytest
from lab.fault_matrix import START, TARGET
from lab.in_process import InProcessCell

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import HOME


@pytest.fixture(scope='module')
def cell():
    cell = InProcessCell()
    cell.teach(START, TARGET)
    return cell


@pytest.mark.parametrize('who', ['stop', 'cancel'])
@pytest.mark.parametrize('way', ['trajectory', 'loop'])
def test_a_motion_stopped_while_it_is_gated_is_refused_and_nothing_is_sent(
    cell, monkeypatch, who, way
):
    manager, gate, canceled = cell.manager, cell.planner, []
    motion = cell.station.planner.ptp(HOME, HOME + 0.3).trajectory
    check, stops = gate.check, manager.stops

    def check_while_somebody_stops(*args):
        report = check(*args)
        manager.stop('canceled', latch=False) if who == 'stop' else canceled.append(True)
        return report

    monkeypatch.setattr(gate, 'check', check_while_somebody_stops)

    def is_wanted():
        return manager.stops == stops and not canceled

    before = sum(c.goals_started for c in cell.driver.trajectory.values())
    with pytest.raises(ExecutionError, match='stopped before it began'):
        if way == 'loop':
            manager.start_loop(lambda _: None, motion, lambda _: None, is_wanted)
        else:
            manager.start(motion, lambda _: None, is_wanted)
    cell.wait(0.5)
    assert manager.motion_state == 'ready'
    assert sum(c.goals_started for c in cell.driver.trajectory.values()) == before
    assert abs(cell.world.q - HOME).max() < 1e-3
