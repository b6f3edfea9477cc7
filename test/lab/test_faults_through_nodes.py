# SPDX-License-Identifier: Apache-2.0
"""
Faults and cycles through the real nodes over DDS, judged as those in process are.

All faults in all stages are `make faults NODES=1`; here one of what the robot tells, one of what
the joints tell, one of the gripper, and one cycle of the soak.
"""

from contextlib import nullcontext

import pace
import pytest

from lab.cell_over_dds import open_nodes
from lab.fault_matrix import MUST_STOP, START, TARGET, Case
from lab.soak import soak

pytestmark = [pytest.mark.drill, pytest.mark.nodes]
CASES = [
    ('safeguard_stop', 'start'),
    ('joint_states_jumping', 'transfer'),
    ('part_missing', 'verify grip'),
]


@pytest.fixture(scope='module')
def cell(ros_domain):
    with open_nodes({}, pace.real_time_factor()) as cell:
        cell.teach(START, TARGET)
        yield cell


@pytest.mark.parametrize(('fault', 'stage'), CASES)
def test_a_fault_stops_all_for_the_true_reason_and_is_recovered_from(cell, fault, stage):
    outcome = Case(cell, fault, START, TARGET, 0.16, stage).run()
    assert not outcome.problem, outcome
    assert outcome.end == 'stopped' and (outcome.motions, outcome.gripper) == (0, 0)
    if fault in MUST_STOP:
        assert 0.0 < outcome.reaction <= cell.reaction_limit


def test_a_cycle_of_the_soak_is_told_with_memory_and_latency(cell):
    (report,) = soak(1, 3, open_cell=lambda _: nullcontext(cell))
    assert report.end == 'placed' and not report.problem, report
    assert 0.0 < report.error < 2e-3 and 0.5 < report.speed <= 1.005
    nodes = ('sim_driver', 'trajectory_planner', 'pick_place', 'ik_service')
    assert set(report.figures) == {*(f'{name} [MB]' for name in nodes), 'response time [ms]'}
    assert min(report.figures.values()) > 0.0
