# SPDX-License-Identifier: Apache-2.0
"""Nodes that are ended in mid-motion brake first; the driver, on another PC, stays up."""

import signal
import time

import numpy as np
import pace
import pytest
from cells import nodes_cell
from trajectory_msgs.msg import JointTrajectory

from ur5_pick_place.kinematics import JOINT_NAMES

pytestmark = [pytest.mark.nodes, pytest.mark.drill]
LIMIT = 10.0  # [rad/s^2] of the simulated cell


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    slow = {'real_time_factor': 1.0, 'max_speed': 0.25}
    with nodes_cell(ros_domain, tmp_path_factory.mktemp('cell'), **slow) as cell:
        yield cell


def end_in_motion(cell, *names):
    """Interrupt nodes in the transfer; returns how long they took [s]."""
    client = cell.client
    client.job('open_gripper')
    motions = client.collect(JointTrajectory, 'trajectory_planner/sent_goal', 10)
    cell.carry()
    client.until(lambda: np.abs(client.qd).max() > 0.2, 'the arm to move')
    transfer = motions[-1]
    since, begin = len(client.joints), time.monotonic()
    for name in names:
        cell.signal(name, signal.SIGINT)
    processes = [cell._running[name]._processes[name] for name in names]
    client.until(lambda: None not in [process.poll() for process in processes], 'their ends')
    took = time.monotonic() - begin
    assert [process.returncode for process in processes] == [0] * len(names)
    client.run(1.0)
    cell.stays_at_rest(1.0)
    braked_on(transfer, client.joints[since:], client.q)
    for name in names:
        assert 'Traceback' not in cell.log(name)
    return took


def braked_on(motion, joints, q):
    """Check that the arm came to rest on the path of a motion, before its end and gently."""
    order = [motion.joint_names.index(name) for name in JOINT_NAMES]
    path = np.array([np.array(point.positions)[order] for point in motion.points])
    fine = np.linspace(0.0, len(path) - 1.0, 20 * len(path))
    path = np.stack([np.interp(fine, np.arange(len(path)), joint) for joint in path.T], axis=1)
    assert np.abs(path - q).max(axis=1).min() < 5e-3, 'off the path'
    assert np.abs(path[-1] - q).max() > 0.1, 'it went on'
    stamps = np.array([m.header.stamp.sec + m.header.stamp.nanosec * 1e-9 for m in joints])
    speeds = np.array([m.velocity for m in joints])
    rates = np.abs(np.diff(speeds, axis=0)).max(axis=1) / np.diff(stamps)
    print(f'at most {rates.max():.2f} rad/s^2')
    assert rates.max() < 1.2 * LIMIT


def test_the_planner_brakes_when_the_task_node_is_ended(cell):
    end_in_motion(cell, 'pick_place')
    assert cell.planner.startswith('stopped: ')
    cell.start('pick_place')
    cell.recover()


def test_both_nodes_ended_together_brake_first_and_end_within_two_seconds(cell):
    took = end_in_motion(cell, 'trajectory_planner', 'pick_place')
    print(f'ended after {took:.2f} s')
    assert took < pace.wall(2.0)
