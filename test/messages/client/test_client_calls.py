# SPDX-License-Identifier: Apache-2.0
"""What a client's calls ask of the nodes and tell its user, through a link that stands in."""

import runpy
import sys
import threading
import time
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
from fake_link import FakeLink, event, joints
from rcl_interfaces.msg import Log
from rclpy.task import Future
from std_srvs.srv import Trigger

from ur5_pick_place.client import link as link_module
from ur5_pick_place.client.jogging import time_at_twist
from ur5_pick_place.client.link import Link
from ur5_pick_place.errors import ExecutionError, InvalidInput, TimedOut
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.kinematics.transforms import tool_down

EXAMPLES = Path(__file__).parents[3] / 'examples'
SEEN, UNSEEN = 'grasp_verified', 'grasp_unverified'
WARNED = 'stop: stopping; call ~/rearm before the next motion; it is\\non'


def result_of(cell, monkeypatch, names):
    """Return the result of a run with these events, an event a second."""
    seen = [{'event': name, 'time': 1.0 * i} for i, name in enumerate(['started', *names, 'done'])]
    monkeypatch.setattr(cell, '_job', lambda _name, _on_event: seen)
    return cell.run()


def test_a_stop_that_fails_on_an_interrupt_is_told_aloud(cell, capsys):
    with pytest.raises(KeyboardInterrupt) as interrupt:
        cell.open_gripper()
    assert capsys.readouterr().err == 'stop: timed out; USE THE EMERGENCY STOP\n'
    if sys.version_info >= (3, 11):
        assert interrupt.value.__notes__ == ['stop: timed out; USE THE EMERGENCY STOP']


def test_the_example_of_a_stop_stops_nothing_once_its_run_has_ended(monkeypatch, capsys):
    client, Timer = MagicMock(), threading.Timer
    cell = client.return_value.__enter__.return_value
    cell.run.side_effect = ExecutionError('run refused')
    timers = []

    def short(_seconds, stop):
        timers.append(Timer(0.2, stop))
        return timers[-1]

    monkeypatch.setattr('ur5_pick_place.client.PickPlaceClient', client)
    monkeypatch.setattr(threading, 'Timer', short)
    runpy.run_path(str(EXAMPLES / 'stop_and_recover.py'))
    (timer,) = timers
    timer.join(5.0)
    assert [name for name, *_ in cell.method_calls][-4:] == ['run', 'stop', 'rearm', 'go_home']
    assert 'ended early: run refused' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('call', 'names'),
    [
        (lambda c: c.teach('target', yaw_deg=30), 'yaw_deg .* present joints'),
        (lambda c: c.teach('target', frame='tool0'), 'frame .* present joints'),
        (lambda c: c.teach('target', T=np.eye(4), yaw_deg=45), 'yaw_deg .* T'),
        (lambda c: c.solutions(np.eye(4), yaw_deg=45), 'yaw_deg .* T'),
        (lambda c: c.add_box('b', (1, 1, 1), T=np.eye(4), yaw_deg=45), 'yaw_deg .* T'),
        (lambda c: c.move_to('start', yaw_deg=0.0), "yaw_deg .* place 'start'"),
        (lambda c: c.move_to('home', frame='base'), "frame .* place 'home'"),
        (lambda c: c.move_to(joints=HOME, frame='base', yaw_deg=1), 'yaw_deg and frame .* joints'),
        (lambda c: c.jog(joints=np.ones(6), frame='tool0'), 'frame .* joints'),
    ],
)
def test_an_argument_that_would_be_ignored_is_refused(cell, link, call, names):
    with pytest.raises(InvalidInput, match=f'{names}.*: leave it out'):
        call(cell)
    assert not link.asked and not link.sent


@pytest.mark.parametrize(
    ('call', 'said'),
    [
        (lambda c: c.freedrive('off'), "on = 'off': must be True or False"),
        (lambda c: c.solutions(np.eye(4), avoid_collisions='no'), 'must be True or False'),
        (lambda c: c.run(on_event='print'), "on_event = 'print': must be a function"),
        (lambda c: c.move_to(np.array([0.4, 0.0, 0.1])), 'place .* is unknown'),
        (lambda c: c.teach(np.array([0.4, 0.0, 0.1])), 'place .* is unknown'),
    ],
)
def test_an_argument_of_another_kind_asks_for_nothing(cell, link, call, said):
    with pytest.raises(InvalidInput, match=said):
        call(cell)
    assert not link.asked and not link.sent


def test_home_with_a_scaling_is_a_joint_motion_with_it(cell, link, monkeypatch):
    monkeypatch.setattr(cell, '_move', link.sent.append)
    with pytest.raises(InvalidInput, match='scaling given for home, whose joints'):
        cell.move_to('home', scaling=0.05)
    link.received.on_event(event('taught', place='home', joints=HOME.tolist(), pose=[]))
    cell.move_to('home', scaling=0.05)
    (goal,) = link.sent
    wanted = goal.request.goal_constraints[0].joint_constraints
    assert [c.position for c in wanted] == pytest.approx(HOME)
    assert goal.request.max_velocity_scaling_factor == 0.05


def test_each_part_counts_as_placed_also_two_in_one_cycle(cell, monkeypatch):
    names = [SEEN, 'placed', 'grasp_missed', SEEN, 'placed', 'cycle_done']
    result = result_of(cell, monkeypatch, names)
    assert (result.placed, result.missed, result.verified, result.duration) == (2, 1, True, 7.0)
    assert str(result) == 'placed 2, missed 1, in 7.0 s'


def test_a_stop_of_the_planner_alone_is_the_state(cell, link):
    assert cell.state == 'idle'
    link.received.states['trajectory_planner'] = 'stopped: protective stop'
    assert cell.state == 'stopped: protective stop'
    link.received.states['pick_place'] = 'stopped: the robot stopped'
    assert cell.state == 'stopped: the robot stopped'


@pytest.mark.parametrize(
    ('names', 'is_verified'),
    [
        ([], False),
        (['placed'], False),
        ([UNSEEN, 'placed'], False),
        ([SEEN, SEEN, 'placed'], True),
        ([SEEN, SEEN, 'placed', 'placed'], False),
        ([SEEN, 'placed', UNSEEN, 'placed'], False),
        ([SEEN, 'placed', 'cycle_done', SEEN, 'placed'], True),
    ],
)
def test_a_run_is_verified_only_if_every_grasp_was(cell, monkeypatch, names, is_verified):
    assert result_of(cell, monkeypatch, names).verified is is_verified


def test_a_pause_returns_once_the_arm_is_at_rest(cell, link):
    cell.pause()
    assert link.asked == ['pick_place/pause', 'rest']


@pytest.mark.parametrize('twist', [True, False])
def test_a_jog_that_is_halted_on_its_way_gives_the_reason(cell, link, monkeypatch, twist):
    def repeat(*arguments):
        if reason:
            link.received.on_log(Log(level=30, name='p', msg=reason))
        return FakeLink.repeat(link, *arguments)

    def jog():
        link.received.on_joints(joints(HOME))
        poses.extend([tool_down(0.4, 0.0, 0.2, 0.0), tool_down(0.4, 0.0, 0.2 - covered, 0.0)])
        link.after = HOME + covered * np.eye(6)[0]
        arguments = {'twist': (0, 0, -0.1, 0, 0, 0)} if twist else {'joints': 0.1 * np.eye(6)[0]}
        cell.jog(**arguments, seconds=1.0)

    poses: list[np.ndarray] = []
    monkeypatch.setattr(cell, '_pose_of', lambda *_names: poses.pop(0))
    monkeypatch.setattr(link, 'repeat', repeat)
    reason, covered = 'jog: slowed down: collision ahead: hand in table', 0.005
    said = 'jog covered only 5 % of its path: slowed down: collision ahead: hand in table'
    with pytest.raises(ExecutionError, match=said):
        jog()
    covered = 0.09  # slowed down a little, and done nearly as commanded
    jog()
    reason, covered = '', 0.04  # a speed limit, the speed slider, a late start
    jog()
    covered = 0.0
    with pytest.raises(ExecutionError, match='jog: the arm did not move; look at the log'):
        jog()


def test_a_jog_on_a_stopped_planner_gives_its_reason_at_once_and_moves_nothing(cell, link):
    link.received.states['trajectory_planner'] = 'stopped: foreign motion'
    with pytest.raises(ExecutionError, match='jog refused: stopped: foreign motion: call rearm'):
        cell.jog(joints=0.1 * np.eye(6)[0])
    assert not link.sent


def test_a_jog_whose_planner_stops_names_that_before_an_arm_that_does_not_rest(
    cell, link, monkeypatch
):
    def never_at_rest():
        link.received.states['trajectory_planner'] = 'stopped: foreign motion'
        raise TimedOut('timed out after 10 s waiting for the arm to come to rest')

    monkeypatch.setattr(link, 'wait_for_rest', never_at_rest)
    link.after = HOME + 0.1
    with pytest.raises(ExecutionError, match='jog ended: stopped: foreign motion; timed out'):
        cell.jog(joints=0.1 * np.eye(6)[0])


@pytest.mark.parametrize(
    ('twist', 'turned', 'expected'),
    [
        ((0, 0, 0, 0, 0, 0.5), 0.3, 0.6),
        ((0, 0, 0, 0, 0, 0.5), 2.0, 4.0),
        ((0, 0, 0, 0, 0, 5.0), 0.3, 1.0),  # more than a pose shows
    ],
)
def test_a_turn_is_measured_as_far_as_a_pose_shows_it(twist, turned, expected):
    before, after = (tool_down(0.4, 0.0, 0.2, yaw) for yaw in (0.0, turned))
    assert time_at_twist(before, after, np.array(twist), 1.0) == pytest.approx(expected)


class AnswersStop:
    """A service that answers each request at once."""

    def __init__(self, message=''):
        self.reply = Trigger.Response(success=True, message=message)

    def service_is_ready(self):
        return True

    def call_async(self, _request):
        future = Future()
        future.set_result(self.reply)
        return future

    def remove_pending_request(self, _future):
        pass


def link_to(monkeypatch, client, warn=print):
    """Return a link whose nodes answer a stop, without DDS and its thread."""
    for name in ('SingleThreadedExecutor', 'threading'):
        monkeypatch.setattr(link_module, name, MagicMock())
    node = MagicMock(create_client=lambda *_, **__: client)
    node.get_logger.return_value.warning = warn
    link = Link(node, 0.1)
    link.received.on_joints(joints(HOME))
    return link


def test_a_stop_waits_for_rest_however_short_the_timeout(monkeypatch):
    link = link_to(monkeypatch, AnswersStop())

    def brake():
        for i in range(80):
            link.received.on_joints(joints(HOME + 0.01 * min(i, 40)))
            time.sleep(0.01)

    thread = threading.Thread(target=brake)
    thread.start()
    link.stop_arm()
    thread.join()
    with pytest.raises(ExecutionError, match='USE THE EMERGENCY STOP'):
        time.sleep(1.0)  # joint_states are silent
        link.stop_arm()


@pytest.mark.parametrize(
    ('message', 'logged'),
    [
        ('stopping; call ~/rearm before the next motion', []),
        ('stopping; call ~/rearm before the next motion; it is\non', [WARNED] * 2),
        ('', []),
    ],
)
def test_a_warning_in_the_reply_to_a_stop_is_logged(monkeypatch, message, logged):
    warnings = []
    link = link_to(monkeypatch, AnswersStop(message), warnings.append)
    monkeypatch.setattr(link, 'wait_for_rest', lambda **_: None)
    link.stop_arm()
    assert warnings == logged
