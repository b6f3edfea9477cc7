# SPDX-License-Identifier: Apache-2.0
"""Joints that are silent, old or stamped wrongly: what a motion or closed loop makes of them."""

import numpy as np
import pytest
from stop_cell import CYCLE, Cell, moving, turn

from ur5_pick_place.control.loops.stream import Stream
from ur5_pick_place.control.motion_monitor import StallDetector
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import HOME, JOINT_NAMES


def test_a_trajectory_outlives_half_a_second_of_silence_and_no_more():
    cell = moving(seconds=2.0, silent=0.45)
    assert cell.state == 'moving'
    cell.run(0.15)
    assert cell.state.startswith('stopped: joint_states silent for 0.5')


def test_silence_before_the_robot_was_ever_ready_is_one_state_and_not_one_a_tick():
    cell = Cell(watched=0.02)
    cell.silent = True
    cell.run(3.0)
    assert len(cell.states) <= 3, cell.states
    assert cell.states[-1].startswith('stopped: joint_states silent for 0.5')


def test_nothing_begins_with_joints_older_than_a_tenth_of_a_second():
    cell = Cell()
    cell.silent = True
    cell.run(0.15)
    with pytest.raises(ExecutionError, match=r'joint_states are 0\.1. s old'):
        cell.start()


def test_a_stall_of_this_process_is_no_silence_of_the_robot_and_is_told_from_it():
    cell = moving(seconds=2.0)
    cell.now += 0.8  # nothing of ours was run; the joints wait to be read
    cell.executor.watch()
    assert cell.state == 'moving'
    stamp = cell.status.stamp + CYCLE
    cell.status.update_joints(stamp, cell.port.q, np.zeros(6), JOINT_NAMES, cell.now)
    assert cell.status.gap.startswith('this PC was 0.80 s late to read joint_states')


def test_a_process_that_was_frozen_latches_and_can_be_rearmed():
    cell = Cell()
    cell.now += 5.0
    cell.executor.watch()
    assert cell.state.startswith('stopped: this node was suspended for 5.0 s')
    cell.run(0.3)
    assert cell.executor.rearm().ok


class Loop:
    """A loop that is told to stop if it has a reason, and waits for an arm that others move."""

    outcome, q_planned, is_ending = None, HOME, False

    def __init__(self, stop_reason=''):
        self.stop_reason = stop_reason

    def tick(self, *_):
        return None


def test_a_clock_that_is_set_back_ends_a_closed_loop():
    cell = Cell()
    cell.executor.start_loop(lambda _: Loop(), turn(1.0, 8.0), cell.ends.append)
    cell.run(0.1)
    cell.now -= 5.0
    cell.status.update_joints(cell.now, HOME, np.zeros(6), JOINT_NAMES, cell.now)
    cell.executor.on_joints()
    assert 'the clock of joint_states was set back' in cell.state


def streamed(loop):
    status = RobotStatus(robot_mode=7, safety_mode=1, program_running=True, speed_scaling=1.0)
    stream = Stream(loop, None, lambda _reason: None, StallDetector(1.0))

    def tick(stamp):
        q = HOME + 0.3 * (stamp % 1.0)
        status.update_joints(stamp, q, np.full(6, 0.3), JOINT_NAMES, stamp)
        return stream.tick(status)[1]

    return tick


def test_a_stopped_loop_whose_arm_goes_on_is_a_fault_after_two_seconds():
    tick = streamed(Loop('stop requested'))
    faults = [(0.1 * k, tick(100.0 + 0.1 * k)) for k in range(40)]
    first = next(t for t, fault in faults if fault)
    assert 1.9 < first < 2.2
    assert 'does not come to rest after: stop requested' in dict(faults)[first]


def test_stamps_that_jump_ahead_end_a_loop_instead_of_being_worked_off():
    tick = streamed(Loop())
    assert not tick(100.0) and not tick(100.1)
    assert 'set ahead by 3600 s' in tick(3700.1)


def test_a_message_that_is_repeated_with_its_stamp_is_silence():
    cell = moving(seconds=1.0)
    stamp, q = cell.status.stamp, cell.port.q
    cell.silent = True
    for _ in range(100):
        cell.run(CYCLE)
        cell.status.update_joints(stamp, q, np.zeros(6), JOINT_NAMES, cell.now)
        cell.executor.on_joints()
        cell.executor.watch()
    assert f'joint_states with the stamp {stamp:.3f} s for 0.5' in cell.state
    assert cell.port.running is None
