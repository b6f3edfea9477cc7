# SPDX-License-Identifier: Apache-2.0
"""
Jogging in the simulated cell, with physics and without ROS.

The arm follows a command in its direction, slows down before whatever is in its way and rests
there with the reason, leaves it again, and rests soon after the last command.
"""

from dataclasses import replace

import numpy as np
import pytest
from lab.in_process import InProcessCell
from scenes import box_at

from ur5_pick_place.control.loops.jog_velocity import JogVelocity, JointVelocity, ToolVelocity
from ur5_pick_place.errors import ExecutionError, GateRefusal
from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward, singularity
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, exp_so3
from ur5_pick_place.outcome import DONE
from ur5_pick_place.planning.limits import tcp_and_elbow_speed
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Part

R_BASE_LINK = T_BASE_BASE_LINK[:3, :3]
STILL = JointVelocity(np.zeros(6))


def twist(*values):
    """A twist in base_link."""
    return ToolVelocity(np.array([*values, *[0.0] * (6 - len(values))]), R_BASE_LINK)


def tool_twist(*values):
    """A twist in tool0, which turns with the tool."""
    return ToolVelocity(np.array([*values, *[0.0] * (6 - len(values))]), np.eye(3), True)


def joint(index, velocity):
    return JointVelocity(velocity * np.eye(6)[index])


class JoggedCell(InProcessCell):
    """A cell that is ready, with the arm at some joints, and a record of them."""

    def __init__(self, q=None, **overrides):
        super().__init__(overrides)
        self.until(lambda: self.manager.rearm().ok, 5.0, 'the planner to be ready')
        self.why = ''
        self.path = []
        if q is not None:
            ended = []
            motion = self.planner.auto(self.q, [np.array(q, dtype=float)])
            self.manager.start(motion.trajectory, ended.append)
            self.until(lambda: ended, 30.0, 'the start')
            self.wait(0.3)
        self.on_step = lambda: self.path.append(self.q.copy())

    def give(self, command, seconds):
        """Give a command again and again."""
        for _ in range(round(seconds / CYCLE)):
            self.why = self.jog(command).slowed_by
            self.step()

    def rest(self):
        """Give no more commands; returns the time until the jog has ended [s]."""
        begin = self.time
        self.until(lambda: not self.manager.is_moving, 3.0, 'the end of the jog')
        return self.time - begin

    @property
    def tcp(self):
        """Where the TCP was, in base_link (n, 3) [m]."""
        T = T_BASE_BASE_LINK @ forward(self.model, self.path) @ self.planner.scene.tool.T_tool_tcp
        return T[:, :3, 3]

    @property
    def speeds(self):
        """How fast the TCP was, over five cycles (n,) [m/s]."""
        return np.linalg.norm(self.tcp[5:] - self.tcp[:-5], axis=1) / (5 * CYCLE)

    def slowed_down(self):
        """Check that the arm came to rest over some way, not at once."""
        speeds = self.speeds
        top = speeds.max()
        last = np.flatnonzero(speeds > 0.05 * top)[-1]
        slower = np.flatnonzero(speeds[: last + 1] > 0.8 * top)[-1]
        assert (last - slower) * CYCLE > 0.15, 'it stopped hard'
        assert speeds[-1] < 0.01 * top


# -- the velocity ----------------------------------------------------------------------------


@pytest.fixture(scope='module')
def law():
    cell = InProcessCell()
    return JogVelocity(cell.planner, lambda: cell.planner.limits), cell


def test_the_tcp_gets_the_direction_of_a_twist_in_base_and_tool(law, rng):
    """By differences of forward kinematics, from postures off singularities."""
    velocity, cell = law
    T_tool_tcp = cell.planner.scene.tool.T_tool_tcp
    for _ in range(30):
        q = cell.q + rng.uniform(-0.4, 0.4, 6)
        wanted, R = rng.normal(size=6), exp_so3(rng.normal(size=3))
        is_on_tool = bool(rng.integers(2))
        qd, why = velocity.velocity(q, ToolVelocity(wanted, R, is_on_tool))
        a, b = (forward(cell.model, q + h * qd) @ T_tool_tcp for h in (-1e-6, 1e-6))
        spin = (b[:3, :3] - a[:3, :3]) @ a[:3, :3].T / 2e-6
        R_base = (forward(cell.model, q)[:3, :3] if is_on_tool else np.eye(3)) @ R
        got = np.concatenate([
            R_base.T @ (b[:3, 3] - a[:3, 3]) / 2e-6,
            R_base.T @ [spin[2, 1], spin[0, 2], spin[1, 0]],
        ])  # fmt: skip
        cosine = got @ wanted / np.linalg.norm(got) / np.linalg.norm(wanted)
        assert cosine > 1.0 - 1e-6 and not why


@pytest.mark.parametrize('size', [1e-300, 0.01, 1.0, 1e6, 1e308])
def test_a_command_beyond_the_limits_is_scaled_down_as_a_whole(law, size):
    velocity, cell = law
    qd, _ = velocity.velocity(cell.q, twist(0.6 * size, 0.8 * size))
    speed = tcp_and_elbow_speed(
        cell.model, cell.q[None], qd[None], cell.planner.scene.tool.p_tool_tcp
    )
    expected = 0.0 if size < 1e-6 else min(size, cell.planner.limits.speed)
    assert np.abs(qd / cell.planner.limits.qd).max() <= 1.0 + 1e-9
    assert speed[0, 0] == pytest.approx(expected) or speed.max() < expected


# -- the motion ------------------------------------------------------------------------------


@pytest.fixture
def cell():
    return JoggedCell()


def test_the_tool_moves_straight_within_the_limits_and_rests_after_the_last_command(cell):
    cell.give(twist(0.0, 0.2, -0.1), 1.0)
    assert cell.manager.motion_state == 'moving'
    begin, at = cell.time, len(cell.speeds)
    assert cell.rest() < 0.2 + 0.08 + 0.4
    assert cell.manager.motion_state == 'ready'
    goes_on = np.flatnonzero(cell.speeds[at:] > 0.9 * np.hypot(0.2, 0.1))[-1] * CYCLE
    assert 0.15 < goes_on < 0.2 + 0.08 + 0.1, f'braked {goes_on} s after {begin}'
    way = cell.tcp - cell.tcp[0]
    along = np.array([0.0, 0.2, -0.1]) / np.hypot(0.2, 0.1)
    assert way[-1] @ along > 0.2
    assert np.linalg.norm(way - np.outer(way @ along, along), axis=1).max() < 2e-3
    qdd = np.diff(cell.path, 2, axis=0) / CYCLE**2
    assert np.abs(qdd / cell.planner.limits.qdd).max() < 1.1
    cell.wait(0.5)
    assert np.abs(cell.q - cell.path[-60]).max() < 1e-3


@pytest.mark.parametrize('how', ['every other one', 'a random half'])
def test_a_jog_is_as_fast_if_half_of_the_joint_states_are_lost(cell, how):
    if how == 'a random half':
        cell.driver.link.to_clients.loss = 0.5
    else:
        cell.driver.link.joint_faults.append(lambda report: report if cell.cycles % 2 else None)
    begin = cell.q[0]
    cell.give(joint(0, 0.5), 2.0)
    assert 0.8 < cell.q[0] - begin < 1.0, cell.why
    qdd = np.diff(cell.path, 2, axis=0) / CYCLE**2
    assert np.abs(qdd / cell.planner.limits.qdd).max() < 1.1


def test_on_a_robot_jogging_starts_at_a_tenth():
    cell = JoggedCell(velocity_scaling=0.1, max_speed=0.25, max_acceleration=5.0, max_jerk=50.0)
    cell.give(twist(0.0, 5.0), 0.6)
    assert 0.02 < cell.speeds.max() < 0.0255


def test_commands_may_change_their_kind_within_the_limits_of_acceleration(cell):
    for command in (twist(0.0, 0.3), joint(0, -1.0), tool_twist(0.2, 0.0, -0.1), joint(5, 2.0)):
        cell.give(command, 0.25)
    cell.give(STILL, 0.5)
    qdd = np.diff(cell.path, 2, axis=0) / CYCLE**2
    assert np.abs(qdd / cell.planner.limits.qdd).max() < 1.1
    assert cell.manager.motion_state == 'ready'


def test_zeros_begin_nothing_and_end_a_jog(cell):
    cell.give(twist(0.0, 0.1), 0.3)
    cell.jog(STILL)
    assert cell.rest() < 0.08 + 0.3


# -- what is in the way ----------------------------------------------------------------------


def put_wall(cell, x=0.66):
    box = box_at('wall', (x, 0.2, 0.4), (0.02, 0.5, 0.8))
    cell.planner.set_scene(replace(cell.planner.scene, boxes=(box,)))


def test_the_arm_rests_above_the_table_and_leaves_it(cell):
    cell.give(twist(0.0, 0.0, -0.4), 2.2)
    assert 'table' in cell.why and 'mm from' in cell.why
    contact = cell.planner.collision.wider(0.01).check(cell.q)
    assert 'table' in str(contact) and 0.005 < contact.distance < 0.012
    cell.slowed_down()
    cell.rest()
    low = cell.tcp[-1, 2]
    cell.give(twist(0.0, 0.2), 0.3)  # along the table
    cell.give(twist(0.0, 0.0, 0.2), 0.4)
    assert cell.tcp[-1, 2] > low + 0.03


def test_the_arm_rests_before_a_wall_that_was_added_in_mid_jog(cell):
    cell.give(twist(0.1), 0.2)
    put_wall(cell)
    cell.give(twist(0.3), 2.0)
    assert 'wall' in cell.why
    contact = cell.planner.collision.wider(0.02).check(cell.q)
    assert 'wall' in str(contact) and 0.005 < contact.distance < 0.012
    cell.slowed_down()


def test_a_wall_nearer_than_the_arm_can_brake_ends_a_jog_at_once(cell):
    cell.give(twist(0.3), 0.6)
    for x in np.arange(0.8, 0.4, -1e-3):  # ever nearer, until the ramp would meet it
        put_wall(cell, x)
        cell.manager.stop_if_blocked()
        if cell.manager._stream.ended:
            break
    assert not cell.planner.why_blocked(cell.q[None])
    cell.wait(0.5)
    assert not cell.planner.why_blocked(np.array(cell.path[-60:]))
    assert not cell.manager.is_moving


@pytest.mark.drill
def test_a_carried_part_is_kept_off_the_table(cell):
    part = Part(np.eye(4), (0.045, 0.045, 0.2))
    cell.planner.set_scene(replace(cell.planner.scene, part=part))
    cell.planner.carry(Load(0.1, np.zeros(3)))
    cell.give(twist(0.0, 0.0, -0.4), 2.4)
    assert 'part' in cell.why and 'table' in cell.why
    assert -0.001 < cell.tcp[-1, 2] - 0.1 < 0.004
    cell.slowed_down()


def test_a_joint_rests_before_its_limit_and_turns_back():
    cell = JoggedCell(max_velocity=3.0)
    high = cell.q[5] + 0.4
    limits = replace(cell.planner.limits, q_max=np.r_[cell.planner.limits.q_max[:5], high])
    cell.planner.limits = limits
    cell.give(joint(5, 2.0), 1.6)
    assert 'wrist_3_joint is' in cell.why and 'from its limit' in cell.why
    assert high - 0.03 < cell.q[5] < high - 0.009
    cell.give(joint(5, -1.0), 0.5)
    assert cell.q[5] < high - 0.1


def test_an_arm_with_a_heavy_load_rests_before_it_is_too_far_out(cell):
    cell.planner.carry(Load(18.0, np.zeros(3)))
    cell.give(twist(0.3), 2.2)
    assert 'of its torque' in cell.why
    assert 0.9 < cell.planner.holding_torque(cell.q[None]).max() < 0.96
    cell.slowed_down()


def test_of_several_joints_that_will_hold_too_much_the_first_one_counts(law, monkeypatch):
    """One that holds more, but ever less of it, does not hide them."""
    here, there = np.array([[0.99, 0.93, 0.50, 0.90, 0, 0], [0.98, 0.97, 0.99, 0.96, 0, 0]])
    velocity, cell = law
    slow = np.full(6, 0.05)
    monkeypatch.setattr(cell.planner, 'holding_torque', lambda _: np.array([here, there]))
    share, cause = velocity.room(HOME, slow, JointVelocity(slow))
    assert share == pytest.approx(0.5) and cause.startswith(f'{JOINT_NAMES[1]} holds')
    here[1] = there[1]
    share, cause = velocity.room(HOME, slow, JointVelocity(slow))
    assert share == pytest.approx(5.0 / 6.0) and cause.startswith(f'{JOINT_NAMES[3]} holds')
    there[2:4] = here[2:4]
    assert velocity.room(HOME, slow, JointVelocity(slow)) == (1.0, '')


def test_the_tool_rests_before_the_stretched_elbow_and_comes_back(cell):
    cell.give(twist(0.4), 2.2)
    assert 'from its elbow singularity' in cell.why
    far, elbow = cell.tcp[-1, 0], singularity(cell.model, cell.q).elbow
    assert 0.03 < elbow < 0.12
    cell.slowed_down()
    cell.rest()
    cell.give(twist(-0.2), 0.9)
    assert cell.tcp[-1, 0] < far - 0.05


@pytest.mark.parametrize(
    ('theta_5', 'command'),
    [
        (0.0, tool_twist(0, 0, 0, 0.5)),
        (0.01, tool_twist(0, 0, 0, -0.5)),
    ],
)
def test_the_tool_leaves_a_wrist_singularity_from_within(theta_5, command):
    cell = JoggedCell([0.0, -1.5, 1.5, -1.57, theta_5, 0.4])
    cell.give(command, 1.2)
    assert singularity(cell.model, cell.q).wrist > 0.03, cell.why


@pytest.mark.drill
def test_a_stretched_elbow_bends_when_the_tool_is_pulled_back():
    cell = JoggedCell([0.3, -1.0, 0.0, -1.0, -1.0, 0.0])
    cell.give(twist(-0.1, 0.0, 0.15), 0.5)  # not along the arm
    cell.give(twist(0.0, 0.0, -0.2), 1.2)
    assert singularity(cell.model, cell.q).elbow > 0.2, cell.why


# -- what ends it ----------------------------------------------------------------------------


def test_a_stop_brakes_and_latches_and_no_command_moves_the_arm(cell):
    cell.give(twist(0.0, 0.3), 0.5)
    cell.manager.stop('stop requested', latch=True)
    cell.rest()
    assert cell.manager.motion_state == 'stopped: stop requested'
    q = cell.q.copy()
    with pytest.raises(ExecutionError, match='stopped: stop requested; call ~/rearm'):
        cell.jog(twist(0.0, 0.3))
    cell.wait(0.3)
    assert np.abs(cell.q - q).max() < 1e-3


@pytest.mark.parametrize(
    ('fault', 'reason'),
    [
        ('protective_stop', 'protective stop'),
        ('joint_states_dropped', 'joint_states silent'),
        ('program_stopped', 'program not running'),
    ],
)
def test_a_fault_ends_a_jog_at_once_and_latches(cell, fault, reason):
    cell.give(twist(0.0, 0.3), 0.4)
    cell.inject(fault)
    for _ in range(60):
        if cell.manager.is_moving:
            cell.jog(twist(0.0, 0.3))
        cell.step()
    assert cell.manager.motion_state.startswith('stopped') and reason in cell.manager.motion_state
    q = cell.q.copy()
    cell.wait(0.5)
    assert np.abs(cell.q - q).max() < 2e-3


def test_nothing_is_left_to_be_done_when_the_slider_comes_back(cell):
    cell.give(twist(0.0, 0.3), 0.4)
    cell.driver.robot.slider = 0.0
    cell.give(twist(0.0, 0.3), 0.2)
    assert 'slider' in cell.why
    assert cell.rest() < 0.4
    q = cell.q.copy()
    cell.driver.robot.slider = 1.0
    cell.wait(0.5)
    assert np.abs(cell.q - q).max() < 2e-3


@pytest.mark.parametrize('is_stopped', [True, False], ids=['a stop', 'the last command'])
def test_at_a_slow_slider_the_arm_rests_at_once_and_a_raised_one_starts_nothing(cell, is_stopped):
    cell.driver.robot.slider = 0.1
    cell.give(joint(0, 1.0), 2.0)
    q = cell.q.copy()
    if is_stopped:
        cell.manager.stop('stop requested', latch=True)
    assert cell.rest() < 0.4
    cell.driver.robot.slider = 1.0
    cell.wait(0.5)
    assert np.abs(cell.q - q).max() < 0.03


def test_a_jog_is_refused_while_a_motion_runs_and_where_the_arm_is_in_collision(cell):
    ended = []
    motion = cell.planner.ptp(cell.q, cell.q + [0.5, 0, 0, 0, 0, 0])
    cell.manager.start(motion.trajectory, ended.append)
    with pytest.raises(ExecutionError, match='planner is moving'):
        cell.jog(twist(0.1))
    cell.until(lambda: ended == [DONE], 10.0, 'the motion, undisturbed')
    cell.planner.set_scene(replace(cell.planner.scene, table_height=0.3))
    with pytest.raises(GateRefusal, match='table'):
        cell.jog(twist(0.0, 0.0, 0.1))
