# SPDX-License-Identifier: Apache-2.0
"""
Faults and cycles through the real nodes over DDS, judged as those in process are.

All faults in all stages are `make faults NODES=1`; here one of what the robot tells, one of what
the joints tell, one of the gripper, and one cycle of the soak.

"""

import json

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2: make setup')

from ur5_pick_place.commands import soak
from ur5_pick_place.nodes.nodes_cell import open_nodes
from ur5_pick_place.rig.matrix import MUST_STOP, START, TARGET, Case

CASES = [
    ('safeguard_stop', 'start'),
    ('joint_states_jumping', 'transfer'),
    ('part_missing', 'verify grip'),
]


@pytest.fixture(scope='module')
def cell(ros_domain):
    with open_nodes({}) as cell:
        cell.teach(START, TARGET)
        yield cell


@pytest.mark.parametrize(('fault', 'stage'), CASES)
def test_a_fault_stops_all_for_the_true_reason_and_is_recovered_from(cell, fault, stage):
    outcome = Case(cell, fault, START, TARGET, 0.16, stage).run()
    assert not outcome.problem, outcome
    assert outcome.end == 'stopped' and (outcome.goals, outcome.gripper) == (0, 0)
    if fault in MUST_STOP:
        assert 0.0 < outcome.reaction <= cell.notice


def test_a_cycle_of_the_soak_is_told_with_memory_and_latency(ros_domain, tmp_path, capsys):
    assert soak.main(['--nodes', '-n', '1', '--seed', '3', '--out', str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "'placed': 1" in said and 'unexplained: 0' in said
    (record,) = tmp_path.glob('soak-*.json')
    (row,) = json.loads(record.read_text())['rows']
    nodes = ('sim_driver', 'trajectory_planner', 'pick_place')
    assert set(row['figures']) == {*(f'{name} [MB]' for name in nodes), 'answer [ms]'}
    assert min(row['figures'].values()) > 0.0 and 0.5 < row['speed'] <= 1.005
