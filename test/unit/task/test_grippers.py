# SPDX-License-Identifier: Apache-2.0
"""
Every kind of gripper without a cell: its parameters, what it proves, what its faults are called.

The action server is made up, as it only has to misbehave.
"""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from obedient_robot import Robot, opened, robot_payload

from ur5_pick_place.demo.configuration import Configuration
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.cell.node_list import node_list
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.sim.physics.world import CellSettings
from ur5_pick_place.task.grippers.action import ActionGripper, ActionSettings, GripperJoint
from ur5_pick_place.task.grippers.outputs import (
    DigitalGripper,
    DigitalSettings,
    VacuumGripper,
    VacuumSettings,
)
from ur5_pick_place.task.grippers.registry import KINDS, check_parameters, gripper_type
from ur5_pick_place.task.job import (
    GripperReport,
    GripperView,
    Job,
    MoveGripper,
    Observation,
    SetPayload,
)

CONFIG = Path(__file__).parents[3] / 'config'
TICK = 0.008  # [s]


# ---- parameters


@pytest.mark.parametrize(
    ('kind', 'name', 'owners'),
    [
        ('action', 'close_pin', 'digital and vacuum'),
        ('vacuum', 'open_pin', 'digital'),
        ('digital', 'blow_off_time', 'vacuum'),
        ('digital', 'max_effort', 'action'),
    ],
)
def test_a_parameter_of_another_gripper_is_refused_with_its_owners(kind, name, owners):
    said = f'^{name} is a parameter of gripper: {owners}, .*{kind}'
    with pytest.raises(InvalidInput, match=said):
        Configuration({'gripper': kind, name: 1})
    check_parameters(kind, KINDS[kind].settings_type.__dataclass_fields__)


@pytest.mark.parametrize(
    ('name', 'said'),
    [
        ('vacum', f'must be one of {", ".join(KINDS)}, or module:Class'),
        (7, 'must be one of'),
        ('no_such_module:Gripper', 'No module named'),
        ('math:Gripper', "no attribute 'Gripper'"),
        ('math:pi', 'must be a class derived from Gripper'),
        (':', 'Empty module name'),
        ('ur5_pick_place.task.grippers.base:Gripper', 'lacks begin_closing'),
    ],
)
def test_an_unknown_gripper_is_refused_by_name(name, said):
    with pytest.raises(InvalidInput, match=f'gripper = {re.escape(repr(name))}: .*{said}'):
        gripper_type(name)


@pytest.mark.parametrize(
    ('kind', 'files'),
    [
        *((kind, [f'gripper_{kind}']) for kind in KINDS if kind != 'vacuum'),
        ('vacuum', ['gripper_vacuum', 'robot_sim_vacuum']),
        ('my_gripper:SerialGripper', []),
    ],
)
def test_the_users_file_chooses_the_files_of_the_gripper(kind, files, tmp_path):
    own = tmp_path / 'own.yaml'
    own.write_text(f'/**/pick_place: {{ros__parameters: {{gripper: "{kind}"}}}}')
    nodes = {spec.executable: spec for spec in node_list('sim', CONFIG, params_file=str(own))}
    read = [file.stem for file in nodes['pick_place'].parameter_files]
    assert [name for name in read if name.startswith(('gripper', 'robot_sim_'))] == files
    planner = [file.stem for file in nodes['trajectory_planner'].parameter_files]
    assert ('robot_sim_vacuum' in planner) is (kind == 'vacuum'), 'one scene for all nodes'
    assert not any(name.startswith('gripper') for name in planner)


@pytest.mark.parametrize(
    ('settings', 'said'),
    [
        (lambda: VacuumSettings(blow_pin=16), 'blow_pin = close_pin = 16'),
        (lambda: VacuumSettings(blow_off_time=math.nan), 'blow_off_time'),
        (lambda: ActionSettings(close_position=0.03), 'more than 2 position_tolerance'),
        (lambda: ActionSettings(part_positions=(0.5, 0.2)), r'must be \[low, high\]'),
        (lambda: ActionSettings(gripper_action_type='grip'), 'gripper_command'),
        (lambda: ActionSettings(gripper_action=' '), "gripper_action = ' ': must be a ROS name"),
        (lambda: ActionSettings(gripper_action='onrobot-2fg7/grip'), 'must be a ROS name'),
        (lambda: ActionSettings(gripper_action='~grip'), 'must be a ROS name'),
        (lambda: ActionSettings(part_positions=(0.1, 0.8)), 'fingers that close on nothing'),
        (lambda: ActionSettings(part_positions=(0.0, 0.5)), 'fingers that close on nothing'),
        (lambda: ActionSettings(part_positions=(2.0, 3.0)), 'must lie between open_position'),
        (lambda: CellSettings(gripper='claw'), r'another kind.* under /\*\*/pick_place'),
        (lambda: CellSettings(gripper='my_gripper:MyGripper'), r'own under /\*\*/pick_place'),
    ],
)
def test_impossible_settings_are_refused(settings, said):
    with pytest.raises(InvalidInput, match=said):
        settings()


def test_the_action_may_be_private_to_the_node():
    assert ActionSettings(gripper_action='~/grip').gripper_action == '~/grip'


@pytest.mark.parametrize('closed', [85.0, 100.0, 255.0])
def test_positions_may_be_millimetres_percent_or_counts(closed):
    gripper = gripper_of(close_position=closed, position_tolerance=2.0)
    error, commands = Server(stalls_at=40.0).do(grip(gripper))
    assert error == '' and [c.position for c in commands] == [closed]


# ---- what preflight says of it


PINS = dict.fromkeys(range(18), False)


@pytest.mark.parametrize(
    ('kind', 'given', 'seen', 'found', 'advice'),
    [
        ('digital', {}, {}, 'io_states not received', 'io_and_status_controller active'),
        ('digital', {}, {'inputs': PINS, 'outputs': PINS}, 'part-present input is off', ''),
        ('digital', {}, {'inputs': {}, 'outputs': PINS}, 'part_pin = 16 is not in', 'correct'),
        ('vacuum', {'blow_pin': 17}, {'outputs': {16: False}}, 'blow_pin = 17 is', 'correct'),
        ('vacuum', {'grip_feedback': 'none'}, {'inputs': PINS, 'outputs': PINS}, 'not verif', ''),
        ('digital', {'confirm_pins': False}, {}, 'not confirmed', ''),
        ('action', {}, {}, r'gripper_cmd \(gripper_command\) is not there', "start the gripper's"),
        ('action', {}, {'gripper': GripperView(is_there=True)}, 'is there', ''),
    ],
)
def test_each_kind_tells_preflight_what_is_seen_of_it(kind, given, seen, found, advice):
    gripper = KINDS[kind](KINDS[kind].settings_type(**given), 24)
    told = gripper.readiness(Observation(0.0, np.zeros(6), **seen))
    assert re.search(found, told[0]) and bool(told[1]) is bool(advice) and advice in told[1]


# ---- an action server that misbehaves


@dataclass
class Server:
    """A gripper's server: when and how it accepts a goal and ends it; `joint` as published."""

    stalls_at: float | None = None
    end: str = 'succeeded'
    accepts_after: float = 0.0
    ends_after: float = 0.3
    refusal: str = ''
    leaves_after: float = math.inf
    reports: dict | None = None
    joint: float | None = None
    t: float = 0.0
    goals: int = 0

    def do(self, steps, limit=20.0):
        """Run steps as a job; return why it ended, and the commands that it gave."""
        job, reply, sent, goal, commands = Job('grip', steps), None, 0.0, None, []
        while not job.is_done:
            assert self.t < limit, 'the job hangs'
            if goal and reply is None and self.t - sent >= self.accepts_after:
                reply = Outcome.from_reason(self.refusal)
            command = job.tick(self.seen(reply, sent, goal))
            if command:
                commands.append(command)
                reply, sent = (None, self.t) if isinstance(command, MoveGripper) else (DONE, sent)
                goal = command if isinstance(command, MoveGripper) else goal
                self.goals += isinstance(command, MoveGripper)
            self.t += TICK
        return job.error, commands

    def seen(self, reply=None, sent=0.0, goal=None):
        report = None
        if goal and reply == DONE:
            report = GripperReport(goal.position)
            if self.t - sent >= self.ends_after:
                closes = goal.position > 0.5 and self.stalls_at is not None
                at = self.stalls_at if closes else goal.position
                report = GripperReport(goal.position, at, closes, self.end)
                report = replace(report, **(self.reports or {}))
        view = GripperView(self.t < self.leaves_after, report, self.joint, True)
        return Observation(self.t, np.zeros(6), {16: False}, {16: False}, 24, '', reply,
                           gripper=view)


def grip(gripper):
    yield from gripper.close()
    yield from gripper.expect_part()


def gripper_of(**settings):
    return ActionGripper(ActionSettings(**settings), 24)


def test_a_stall_is_a_grasp_and_the_payload_is_set_before_it_is_verified():
    gripper, server = gripper_of(), Server(stalls_at=0.3)

    def steps():
        yield from gripper.begin_closing()
        yield from robot_payload().set_during(gripper, with_part=True)
        yield from gripper.expect_part()

    error, commands = server.do(steps())
    assert error == '' and [type(c) for c in commands] == [MoveGripper, SetPayload]


def test_a_width_within_bounds_is_a_grasp_without_a_stall():
    within, beyond = {'position': 0.3}, {'position': 0.4}
    gripper = gripper_of(part_positions=(0.25, 0.35))
    assert Server(reports=within).do(grip(gripper))[0] == ''
    assert 'closed on nothing' in Server(reports=beyond).do(grip(gripper))[0]


def test_fingers_that_leave_the_part_show_it_before_they_rest():
    """Whoever opens them; those that close on it, or tremble, show nothing new."""
    gripper = gripper_of()

    def shown(position, is_still=False):
        view = GripperView(True, None, position, is_still)
        return gripper.part_signal(Observation(0.0, np.zeros(6), gripper=view))

    assert [shown(at) for at in (0.1, 0.3)] == [None, None], 'they close'
    assert shown(0.3, is_still=True) is True
    assert [shown(at) for at in (0.31, 0.27, 0.33)] == [None, False, False]
    assert shown(0.0, is_still=True) is False
    assert shown(0.3) is None


def test_an_abort_at_a_stall_is_a_grasp_as_with_allow_stalling_off():
    assert Server(stalls_at=0.3, end='aborted').do(grip(gripper_of()))[0] == ''


@pytest.mark.parametrize(
    ('server', 'said'),
    [
        (Server(), r'closed on nothing: .*gripper_cmd ended at 0.8, not stalled'),
        (Server(refusal='it rejected the goal'), 'it rejected the goal'),
        (Server(accepts_after=math.inf), 'did not answer a goal within 2.0 s'),
        (Server(end='aborted'), 'has aborted the goal of position 0.8'),
        (Server(end='canceled'), 'has canceled the goal .* another client'),
        (Server(stalls_at=0.3, end='canceled'), 'has canceled the goal .* another client'),
        (Server(ends_after=math.inf), 'has not ended .* within gripper_timeout = 5 s'),
        (Server(leaves_after=0.2), 'has gone during the goal of position 0.8'),
        (Server(stalls_at=math.nan), 'reports position nan'),
        (Server(stalls_at=0.01), 'closed on nothing: .*gripper_cmd ended at 0.01, stalled'),
        (Server(stalls_at=0.3, joint=0.8), 'closed on nothing: .*joint is at 0.8'),
        (Server(joint=0.3), 'reports no part, but its joint shows one'),
    ],
)
def test_a_grip_that_is_not_proved_ends_in_time_with_its_reason(server, said):
    error, _ = server.do(grip(gripper_of()))
    assert re.search(said, error), error
    assert server.t < 6.0


@pytest.mark.parametrize(
    ('server', 'said'),
    [
        (Server(reports={'position': 0.2, 'stalled': True}), 'opened only to 0.2, not to open_'),
        (Server(reports={'position': math.inf}), 'reports position inf'),
        (Server(end='lost'), 'has lost the goal'),
    ],
)
def test_a_gripper_that_does_not_open_ends_the_job(server, said):
    assert re.search(said, server.do(opened(gripper_of()))[0])


def test_a_missing_server_is_named_by_init_gripper():
    error, commands = Server(leaves_after=0.0).do(gripper_of().initialise())
    assert 'gripper_cmd (gripper_command) is not there' in error
    assert not any(isinstance(c, MoveGripper) for c in commands), 'it never opens on start'


def test_a_gripper_that_cannot_be_commanded_yet_says_why_before_a_job_begins():
    dark = Observation(0.0, np.zeros(6), {16: False}, {16: False, 17: False}, 0)
    lit = replace(dark, tool_voltage=24)
    said = 'tool voltage is 0 V, not 24 V: call ~/init_gripper first'
    two_valves = DigitalGripper(DigitalSettings(open_pin=17), 24)
    two_at_the_cabinet = DigitalGripper(DigitalSettings(close_pin=0, open_pin=1), 24)
    opens_by_power = DigitalGripper(DigitalSettings(closes_when_on=False), 24)
    cup = VacuumGripper(VacuumSettings(blow_pin=17), 24)
    for gripper, reason in (
        (two_valves, said), (opens_by_power, said), (cup, said), (two_at_the_cabinet, '')
    ):
        assert gripper.why_not(True, dark) == said and gripper.why_not(False, dark) == reason
        assert not gripper.why_not(True, lit) and not gripper.why_not(False, lit)
    for closes in (True, False):
        assert 'gripper_cmd (gripper_command) is not there' in gripper_of().why_not(closes, lit)
        assert not gripper_of().why_not(closes, replace(lit, gripper=GripperView(True)))


def test_without_feedback_a_closed_gripper_must_be_opened_by_hand():
    gripper = gripper_of(grip_feedback='none')
    assert Server().do(grip(gripper))[0] == ''
    closed = Server(joint=0.3)
    assert 'nothing shows whether' in closed.do(gripper.expect_no_part())[0]
    assert Server(joint=0.0).do(gripper.expect_no_part())[0] == ''


def test_a_gripper_that_has_reported_nothing_may_hold_a_part():
    assert 'nothing shows whether' in Server().do(gripper_of().expect_no_part())[0]


def test_a_joint_counts_while_it_is_fresh_and_rests():
    joint = GripperJoint(0.02)
    assert joint.position(0.0) is None and not joint.is_still(0.0)
    for k in range(50):
        joint.update(0.01 * k, 0.02 * min(k, 20))
        if k in (20, 30):
            assert not joint.is_still(0.01 * k)
    assert joint.is_still(0.49) and joint.position(0.49) == pytest.approx(0.4)
    joint.update(0.5, math.nan)
    assert joint.position(0.5) == pytest.approx(0.4) and joint.position(1.1) is None


def test_a_joint_that_was_never_published_is_not_silent():
    joint = GripperJoint(0.02, 1.0)
    assert not joint.is_silent(10.0)
    joint.update(10.0, 0.4)
    assert joint.position(10.9) is None and not joint.is_silent(10.9)
    assert joint.is_silent(11.1)


def test_a_joint_that_is_published_once_a_second_is_not_silent_before_three():
    joint = GripperJoint(0.02)
    for t in range(5):
        joint.update(float(t), 0.4)
    assert not joint.is_silent(6.9) and joint.is_silent(7.1)
    assert joint.is_still(4.9) and joint.position(5.4) == 0.4 and joint.position(5.6) is None
    joint.forget()  # a goal begins
    assert joint.position(4.9) is None
    joint.update(5.0, 0.7)
    assert joint.position(5.1) is None, 'it may still be on its way'
    joint.update(6.0, 0.7)
    assert joint.is_still(6.1) and joint.position(6.1) == 0.7
    joint.update(7.0, 0.8)
    assert joint.position(7.1) is None, 'it may still be on its way'
    for t in np.arange(8.0, 14.0, 0.05):
        joint.update(t, 0.4)
    assert joint.is_silent(14.6), 'now it comes twenty times a second'


# ---- suction


def test_the_blow_off_is_never_on_together_with_the_suction():
    gripper = VacuumGripper(VacuumSettings(blow_pin=17, grip_feedback='none'), 24)
    robot, history = Robot(), []

    def look(robot):
        history.append((robot.t, robot.outputs[16], robot.outputs[17]))

    for steps in (gripper.close(), opened(gripper)):
        robot.do(job := Job('grip', steps), look)
        assert job.error == ''
    assert not any(suction and blow for _, suction, blow in history)
    blows = [t for t, _, blow in history if blow]
    assert blows[-1] - blows[0] == pytest.approx(0.3, abs=0.1)
    assert not any(robot.outputs.values())


def test_a_release_takes_its_least_time_also_without_a_blow_off_and_with_an_input():
    gripper = VacuumGripper(VacuumSettings(blow_off_time=0.4), 24)
    robot = Robot(outputs={16: True, 17: False})  # whose vacuum is gone at once
    robot.do(Job('release', gripper.begin_opening(is_holding=True)))
    switched = robot.t
    robot.do(job := Job('release', gripper.await_fingers()))
    assert job.error == '' and 0.3 < robot.t - switched < 0.5
