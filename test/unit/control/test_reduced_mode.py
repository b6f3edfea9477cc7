# SPDX-License-Identifier: Apache-2.0
"""What the robot's reduced mode refuses, and stops: also a motion that began before it."""

from dataclasses import replace

import numpy as np
import pytest
from closed_loop_cell import PLANNER as LOOP_PLANNER
from closed_loop_cell import Bench
from motion_planners import FAST, PICK, make_planner
from stop_cell import Cell

from ur5_pick_place.control.robot_status import SAFETY_NORMAL, SAFETY_REDUCED
from ur5_pick_place.errors import GateRefusal
from ur5_pick_place.outcome import DONE
from ur5_pick_place.planning.limits import Scaling, tcp_and_elbow_speed

PLANNER = make_planner(replace(FAST, max_speed=1.0, reduced_speed=0.1))
THERE = PICK + [1.5, 0.0, 0.0, 0.0, 0.0, 0.0]


def cell_at_rest():
    cell = Cell(PLANNER, watched=0.0)
    cell.port.q = PICK
    cell.run(0.5)
    return cell


def begin(cell, scaling=Scaling()):
    motion = PLANNER.ptp(PICK, THERE, scaling).trajectory
    cell.executor.start(motion, cell.ends.append)
    cell.port.accept(cell.now)
    return motion


def speed(cell):
    q, qd = cell.status.q[None], cell.status.qd[None]
    return tcp_and_elbow_speed(PLANNER.model, q, qd, PLANNER.scene.tool.p_tool_tcp).max()


@pytest.mark.parametrize('seconds', [0.1, 0.25, 0.4])
def test_a_motion_that_is_too_fast_brakes_when_the_mode_becomes_reduced(seconds):
    cell = cell_at_rest()
    begin(cell)
    cell.run(seconds)
    assert cell.state == 'moving'
    cell.report()
    cell.status.safety_mode = SAFETY_REDUCED
    cell.run(0.016)
    assert len(cell.port.sent) == 2, 'the motion that brakes'
    cell.port.accept(cell.port.sent[-1].begin)
    cell.run(0.5)
    assert speed(cell) < 0.1
    cell.run(1.0)
    (outcome,) = cell.ends
    assert 'safety mode is now reduced' in outcome.reason
    assert 'limit 0.100 m/s in this mode (reduced_speed)' in outcome.reason
    assert cell.state == 'ready', 'as after a stop for the scene'
    assert np.abs(cell.port.q - THERE).max() > 0.1


@pytest.mark.parametrize(('speed', 'left'), [(0.1, 5.0), (1.0, 0.03)])
def test_a_motion_that_is_slow_enough_from_there_on_goes_on(speed, left):
    """As one that has slowed down before it enters the area in which the mode is reduced."""
    cell = cell_at_rest()
    motion = begin(cell, Scaling(speed=speed))
    cell.run(motion.duration - left)
    cell.status.safety_mode = SAFETY_REDUCED
    cell.run(left + 1.0)
    assert cell.ends == [DONE] and len(cell.port.sent) == 1 and cell.port.cancels == 0


def test_a_motion_admitted_just_before_the_mode_changed_is_stopped_too(monkeypatch):
    cell = cell_at_rest()
    motion, check = PLANNER.ptp(PICK, THERE).trajectory, PLANNER.check

    def check_and_change(*given):
        report = check(*given)
        cell.status.safety_mode = SAFETY_REDUCED
        return report

    monkeypatch.setattr(PLANNER, 'check', check_and_change)
    cell.executor.start(motion, cell.ends.append)
    cell.port.accept(cell.now)
    cell.run(0.016)
    cell.report()
    cell.run(0.016)
    assert len(cell.port.sent) == 2, 'the motion that brakes'
    cell.port.accept(cell.port.sent[-1].begin)
    cell.run(1.0)
    (outcome,) = cell.ends
    assert 'reduced_speed' in outcome.reason and np.abs(cell.port.q - THERE).max() > 1.0


def test_a_refusal_in_reduced_mode_names_reduced_speed():
    cell = cell_at_rest()
    cell.status.safety_mode = SAFETY_REDUCED
    with pytest.raises(GateRefusal, match=r'limit 0\.100 m/s \(reduced_speed\)'):
        begin(cell)
    cell.status.safety_mode = SAFETY_NORMAL
    begin(cell)
    assert cell.state == 'moving'


def test_a_closed_loop_that_is_too_fast_is_stopped_and_not_latched(monkeypatch):
    bench = Bench()
    bench.run(1.0)
    assert not bench.ends
    slow = replace(LOOP_PLANNER.settings, reduced_speed=0.01)
    monkeypatch.setattr(LOOP_PLANNER, 'settings', slow)
    bench.status.safety_mode = SAFETY_REDUCED
    bench.executor.watch()
    bench.run(1.5)
    (outcome,) = bench.ends
    assert 'limit 0.010 m/s in this mode (reduced_speed)' in outcome.reason
    assert bench.executor.motion_state == 'ready'
