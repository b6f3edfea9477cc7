# SPDX-License-Identifier: Apache-2.0
"""
Where a cycle spends its time: slow near contact alone, and no wait that nothing needs.

The cycle runs in the simulated cell, in process; the TCP is computed from the measured joints by
the independent arm.
"""

import numpy as np
import pytest
from independent_arm import frames
from lab.in_process import InProcessCell
from obedient_robot import TICK, Robot, robot_payload

from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.outcome import DONE
from ur5_pick_place.report.motion import RecordedJoints, Samples
from ur5_pick_place.report.time_shares import FLOOR, SHARES, time_shares
from ur5_pick_place.task.grippers.outputs import DigitalGripper as Gripper
from ur5_pick_place.task.grippers.outputs import DigitalSettings as GripperSettings
from ur5_pick_place.task.job import Job, Observation, SetOutput, SetPayload
from ur5_pick_place.task.motions import TaskSettings

CYCLE = 0.008  # [s]
P_TOOL_TCP = np.array([0.0, 0.0, 0.145, 1.0])


class Recorded:
    """A cycle with what was measured at each step."""

    def __init__(self, is_closed=False):
        cell = self.cell = InProcessCell()
        cell.teach(*default_spots())
        cell.put_part(default_spots()[0])
        if is_closed:
            cell.station.machine.start('close', cell.station.gripper.close())
            cell.until(lambda: not cell.is_busy, 5.0, 'the gripper')
        cell.reset_measurements()
        commands, self.q, self.gaps = cell.port.gripper_commands, [], []
        self.height = []
        self.t, self.qd, self.fingers = [], [], []
        cell.on_step = self.look
        cell.run()
        cell.until(lambda: not cell.is_busy, 60.0, 'the end')
        self.outputs = cell.port.gripper_commands - commands
        self.p = (frames(np.array(self.q))[:, 6] @ P_TOOL_TCP)[:, :3]
        self.speed = np.linalg.norm(np.gradient(self.p, CYCLE, axis=0), axis=1)

    def look(self):
        self.q.append(self.cell.q.copy())
        self.gaps.append(self.cell.world.hand.gap)
        self.height.append(self.cell.world.T_world_part[2, 3])
        self.t.append(self.cell.time)
        self.qd.append(self.cell.driver.qd.copy())
        self.fingers.append(np.copy(self.cell.world.hand.travel))

    def samples(self):
        t, q, qd, fingers = map(np.array, (self.t, self.q, self.qd, self.fingers))
        return Samples(RecordedJoints(t, q, qd, q), (t, t), (t, fingers), self.cell.events)

    def times(self):
        return {e.get('stage', e['event']): e['time'] for e in self.cell.events}

    def near(self, place, distance):
        p = np.array(self.cell.poses[place].pose[:3])
        return np.linalg.norm(self.p - p, axis=1) <= distance


@pytest.fixture(scope='module')
def cycle():
    return Recorded()


def test_the_cycle_takes_half_of_what_approach_speed_all_the_way_took(cycle):
    assert cycle.cell.stop_reason == ''
    times = cycle.times()
    assert times['done'] - times['started'] < 5.0
    assert cycle.cell.placement(default_spots()[1])[0] < 0.5e-3


def test_the_parts_of_the_cycle_time_are_its_sum_and_agree_with_the_stages(cycle):
    planner, times = cycle.cell.station.planner, cycle.times()
    tool = planner.scene.tool.T_tool_tcp
    shares = time_shares(cycle.samples(), planner.model, tool, planner.limits)
    total = times['done'] - times['started']
    assert sum(shares[name] for name in SHARES) == pytest.approx(total, abs=3e-3)
    assert 2.5 < shares[FLOOR] < total - 1.0
    at_rest = times['lift'] - times['grip'] + times['retreat'] - times['release']
    found = shares['time_fingers_s'] + shares['time_waiting_s']
    assert found == pytest.approx(at_rest, abs=0.1)
    assert shares['time_fingers_s'] > 0.19  # 12.5 mm at 60 mm/s
    assert min(shares.values()) >= 0.0


def test_the_cube_is_let_go_before_the_arm_rises(cycle):
    lies = np.array(cycle.height)[np.array(cycle.t) >= cycle.times()['release']]
    assert np.ptp(lies) < 1e-3


def test_the_arm_is_slow_near_a_place_and_fast_elsewhere(cycle):
    settings = TaskSettings()
    for place in ('start', 'target'):
        near = cycle.near(place, settings.approach_distance)
        assert cycle.speed[near].max() < 1.06 * settings.approach_speed  # the arm lags behind
        assert cycle.speed[cycle.near(place, 0.01)].max() < 1.01 * settings.approach_speed
        assert cycle.speed[cycle.near(place, 0.06)].max() > 2.5 * settings.approach_speed
    assert cycle.speed.max() < 1.0


def test_stages_are_announced_in_order_while_moves_blend(cycle):
    stages = [e['stage'] for e in cycle.cell.events if e['event'] == 'stage']
    assert stages == [stage.name for stage in cycle.cell.station.cycle_planner.cycle]
    times, begin = cycle.times(), cycle.times()['started']
    for stage in ('start', 'transfer', 'target', 'home'):
        assert cycle.speed[int((times[stage] - begin) / CYCLE)] > 0.05, 'it does not stop there'
    for stage in ('grip', 'release'):
        assert cycle.speed[int((times[stage] - begin) / CYCLE)] < 0.02


def test_a_closed_gripper_opens_on_the_way_and_is_open_before_the_arm_comes_near():
    cycle = Recorded(is_closed=True)
    assert cycle.cell.stop_reason == ''
    assert cycle.outputs == 3
    gaps = np.array(cycle.gaps)
    opens = np.gradient(gaps, CYCLE) > 0.05
    assert (opens & (cycle.speed > 0.2)).any()
    first = int(cycle.near('start', 0.05).argmax())
    assert gaps[first] == pytest.approx(gaps.max(), abs=1e-3)
    times = cycle.times()
    assert times['done'] - times['started'] < 5.5


@pytest.mark.parametrize(
    ('feedback', 'level_from', 'ends'),
    [('tool_input', 0.2, (0.3, 0.4)), ('tool_input', 9.0, (0.8, 0.9)), ('none', 0.2, (0.8, 0.9))],
)
def test_a_grip_ends_on_the_input_else_after_its_time(feedback, level_from, ends):
    robot, (low, high) = Robot(), ends

    def look(robot):
        robot.is_part_there = robot.t > level_from

    robot.do(Job('grip', Gripper(GripperSettings(grip_feedback=feedback), 24).close()), look)
    assert low < robot.t - TICK < high + 3 * TICK


def test_the_payload_is_set_when_the_part_is_felt_and_confirmed_before_the_grip_ends():
    gripper, payload = Gripper(GripperSettings(), 24), robot_payload()

    def grip():
        yield from gripper.begin_closing()
        yield from payload.set_during(gripper, with_part=True)

    job, t, pin, reply, sent = Job('grip', grip()), 0.0, False, None, None
    while not job.is_done and t < 5.0:
        command = job.tick(Observation(t, HOME, {16: t > 0.2}, {16: pin}, 24, '', reply))
        if isinstance(command, SetOutput):
            pin, reply = command.state, DONE
        elif isinstance(command, SetPayload):
            sent, reply = t, None
        if sent is not None and t > sent + 0.5:
            reply = DONE
        t += TICK
    assert payload.confirmed_early is True and job.error == ''
    assert sent == pytest.approx(0.2, abs=2 * TICK)
    assert t > sent + 0.5
