# SPDX-License-Identifier: Apache-2.0
"""A client over a link that stands in for the nodes, and messages as they would send them."""

import os
import sys
import threading
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from moveit_msgs.msg import MoveItErrorCodes
from rcl_interfaces.msg import Log
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from ur5_pick_place.client import PickPlaceClient, pick_place_client, requests
from ur5_pick_place.client import link as link_module
from ur5_pick_place.client.connection import own_node
from ur5_pick_place.client.jogging import time_at_twist
from ur5_pick_place.client.link import Link
from ur5_pick_place.client.pick_place_client import begins, report_on
from ur5_pick_place.client.received import ReceivedMessages
from ur5_pick_place.errors import (
    ExecutionError,
    InCollision,
    InvalidInput,
    NoSolution,
    PlanningError,
    TimedOut,
)
from ur5_pick_place.kinematics import BRANCHES, HOME, JOINT_NAMES
from ur5_pick_place.kinematics.transforms import tool_down
from ur5_pick_place.nodes.messages.conversions import time_to_msg


def event(kind, time=1.0, **fields):
    return {'time': time, 'event': kind, **fields}


def joints(q, names=JOINT_NAMES):
    message = JointState(name=list(names), position=[float(v) for v in q])
    message.header.stamp = time_to_msg(time.monotonic())
    return message


class FakeLink:
    """Answers at once; `asked` are the services called, and `sent` what moves the arm."""

    def __init__(self):
        self.parameters = {'mounting': 'floor'}
        self.received, self.timeout = ReceivedMessages(), 1.0
        self.received.states = {'pick_place': 'idle', 'trajectory_planner': 'ready'}
        self.received.on_joints(joints(HOME))
        self.asked, self.sent = [], []
        self.after = HOME

    def check_open(self):
        pass

    def joints(self):
        return self.received.joints()

    def services(self, _prefix):
        return ('home', 'start', 'target')

    def call(self, _kind, name, *_others):
        self.asked.append(name)
        if name == 'pick_place/open_gripper':
            raise KeyboardInterrupt
        return SimpleNamespace(success=True, message='')

    def stop_arm(self):
        raise ExecutionError('stop: timed out; USE THE EMERGENCY STOP')

    def publisher(self, _kind, topic, _seconds):
        return topic

    def repeat(self, topic, _message, _seconds):
        self.sent.append(topic)
        self.received.on_joints(joints(self.after))
        return 1.0

    def wait_for_rest(self):
        self.asked.append('rest')

    def wait(self, find, what, seconds=0.0, *_others):
        deadline = time.monotonic() + seconds
        while not (found := find()):
            if time.monotonic() > deadline:
                raise TimedOut(what)
            time.sleep(0.01)
        return found


@pytest.fixture
def link():
    return FakeLink()


@pytest.fixture
def cell(link, monkeypatch):
    """A client over the link."""
    monkeypatch.setattr(pick_place_client.Link, 'to_cell', lambda *_: link)
    return PickPlaceClient()


def test_nodes_that_a_discovery_server_hides_are_not_asked_to_be_started(monkeypatch):
    monkeypatch.setenv('ROS_DISCOVERY_SERVER', '127.0.0.1:11811')
    link = MagicMock(timeout=0.0)
    absent = {'pick_place': MagicMock(**{'service_is_ready.return_value': False})}
    with pytest.raises(TimedOut, match=r'ROS_DISCOVERY_SERVER=127\.0\.0\.1:11811 alone: .* unset'):
        Link._wait_for_nodes(link, absent, time.monotonic() - 1.0)


def test_a_wait_outlives_a_suspension_of_this_process(link, monkeypatch):
    """Ctrl-Z and fg: what came meanwhile is received before anything is missed."""
    suspended, arrived = [], threading.Event()

    class Changed(threading.Condition):
        def wait(self, timeout=None):
            if not suspended:
                suspended.append(6.0)
                threading.Timer(0.1, arrived.set).start()
            return super().wait(timeout)

    def watch():
        assert not suspended or arrived.is_set(), 'the simulator is silent'

    now = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(suspended))
    monkeypatch.setattr(link_module, 'time', now)
    link.received.changed, link.watch, link._is_closed = Changed(), watch, False
    assert Link.wait(link, lambda: suspended and arrived.is_set(), 'it', 3.0)


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
        (lambda c: c.jog([50.0, 0, 0, 0, 0, 0]), 'twist: 50 m/s .* m/s, not mm/s'),
        (lambda c: c.jog([0.1, 0, 0, 0, 0, -30]), 'twist: 30 rad/s .* rad/s, not deg/s'),
        (lambda c: c.jog(joints=[0, 0, 45, 0, 0, 0]), 'joints: 45 rad/s .* not deg/s'),
        (lambda c: c.freedrive('off'), "on = 'off': must be True or False"),
        (lambda c: c.solutions(np.eye(4), avoid_collisions='no'), 'must be True or False'),
        (lambda c: c.run(on_event='print'), "on_event = 'print': must be a function"),
        (lambda c: c.move_to(np.array([0.4, 0.0, 0.1])), 'place .* is unknown'),
        (lambda c: c.move_to('start', scaling='0.5'), "'0.5': must be a number in 0 to 1$"),
        (lambda c: c.solutions(xyz=(0.4, 0, 0.1), yaw_deg=True), 'must be a number in -360'),
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


def test_a_jog_that_is_refused_while_another_motion_moves_the_arm_is_no_success(
    cell, link, monkeypatch
):
    def repeat(*arguments):
        link.received.on_log(Log(level=30, name='p', msg=reason))
        return FakeLink.repeat(link, *arguments)

    reason = 'jog refused: pick_place is running: start'
    monkeypatch.setattr(link, 'repeat', repeat)
    link.after = HOME + 0.1
    with pytest.raises(ExecutionError, match=f'^{reason}$'):
        cell.jog(joints=0.1 * np.eye(6)[0])
    assert 'rest' not in link.asked, 'which may take the whole run'


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


class Action:
    """Accepts each goal and reaches it at once, or cannot send it; `senders` are the threads."""

    def __init__(self, error=None):
        self.error, self.senders = error, []

    def send_goal_async(self, _goal):
        if self.error:
            raise self.error
        return self._reply(SimpleNamespace(accepted=True, get_result_async=self._result))

    def _result(self):
        return self._reply(SimpleNamespace(result='reached'))

    def _reply(self, value):
        self.senders.append(threading.current_thread().name)
        future = Future()
        future.set_result(value)
        return future


@pytest.fixture
def real_link(ros_domain):
    link = Link(own_node(Node, 'sender', ''), 5.0)
    yield link
    link.close()


def test_the_thread_that_reads_replies_sends_the_goals(real_link, monkeypatch):
    """From another one rclpy of Jazzy drops a reply that comes before it has noted the goal."""
    action = Action()
    monkeypatch.setattr(real_link, 'action', lambda *_: action)
    assert real_link.reach(object, 'move_action', None, pytest.fail) == 'reached'
    assert action.senders == ['pick_place client'] * 2


def test_a_closed_client_says_so_instead_of_suspecting_the_driver(real_link, monkeypatch):
    monkeypatch.setattr(pick_place_client.Link, 'to_cell', lambda *_: real_link)
    cell = PickPlaceClient()
    cell.close()
    for ask in (lambda: cell.joints, lambda: cell.stamped_joints, lambda: cell.tcp, cell.go_home):
        with pytest.raises(ExecutionError, match='this client is closed: make a new'):
            ask()


def test_in_a_forked_process_a_client_sends_nothing(real_link, monkeypatch):
    """A request from there has the number of its parent's next, which the nodes then ignore."""
    monkeypatch.setattr(pick_place_client.Link, 'to_cell', lambda *_: real_link)
    cell, parent = PickPlaceClient(), os.getpid()
    for ask in (lambda: cell.state, lambda: cell.joints, cell.go_home, cell.stop):
        with monkeypatch.context() as child, pytest.raises(ExecutionError, match='make a'):
            child.setattr(os, 'getpid', lambda: parent + 1)
            ask()


def test_a_goal_that_cannot_be_sent_is_its_senders_error_and_others_go_on(real_link, monkeypatch):
    halted = []
    monkeypatch.setattr(real_link, 'action', lambda *_: Action(UnicodeError('no text')))
    with pytest.raises(UnicodeError, match='no text'):
        real_link.reach(object, 'move_action', None, halted.append)
    assert len(halted) == 1
    monkeypatch.setattr(real_link, 'action', lambda *_: Action())
    assert real_link.reach(object, 'move_action', None, pytest.fail) == 'reached'


NOT_POSES = [
    {'xyz': (1.0, 2.0)},
    {'xyz': (0.4, np.nan, 0.1)},
    {'xyz': ('a', 'b', 'c')},
    {'xyz': (450.0, -200.0, 20.0)},  # millimetres
    {'xyz': (0.4, 0.0, 0.1), 'yaw_deg': np.inf},
    {'xyz': (0.4, 0.0, 0.1), 'yaw_deg': '30'},
    {'xyz': (0.4, 0.0, 0.1), 'T': np.eye(4)},
    {'xyz': ('0.4', '0.0', '0.1')},
    {'xyz': (0.4, True, 0.1)},
    {'xyz': (10**400, 0, 0)},
    {'xyz': (0.4, [0.0], 0.1)},
    {'T': np.eye(4) * (1 + 0j)},
    {'T': np.eye(4), 'yaw_deg': 0.0},
    {'T': np.eye(3)},
    {'T': np.diag([1.0, 1.0, 2.0, 1.0])},
    {'T': [np.eye(4)] * 2},
    {},
]


@pytest.mark.parametrize('given', NOT_POSES)
def test_what_is_no_pose_is_refused_before_anything_is_sent(given):
    with pytest.raises(InvalidInput):
        requests.tcp_pose(given.get('xyz'), given.get('yaw_deg'), given.get('T'))


def test_a_point_is_meant_tool_down_with_its_yaw_in_degrees():
    T = requests.tcp_pose((0.4, 0.1, 0.2), 90, None)
    assert np.allclose(T, tool_down(0.4, 0.1, 0.2, np.pi / 2))
    point = [np.array(0.4), np.float32(0.125), 0.2]  # of no dimensions, as torch gives them too
    assert np.allclose(requests.tcp_pose(point, np.array(90), None)[:2, 3], (0.4, 0.125))
    box = requests.upright_pose([0.4, 0.1, 0.2], 90.0, None)
    assert np.allclose(box[:3, :3], [[0, -1, 0], [1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize('name', ['', None, 7, b'crate'])
def test_names_and_frames_must_be_text(name):
    with pytest.raises(InvalidInput, match='name = .*must be text'):
        requests.solid(name, 1, (0.1, 0.1, 0.1), np.eye(4), 'base_link')
    if name is None:
        assert requests.twist(np.zeros(6), name).header.frame_id == ''
        return
    with pytest.raises(InvalidInput, match='frame = .*must be text'):
        requests.twist(np.zeros(6), name)


@pytest.mark.parametrize(
    ('code', 'kind'),
    [
        (MoveItErrorCodes.NO_IK_SOLUTION, NoSolution),
        (MoveItErrorCodes.GOAL_IN_COLLISION, InCollision),
        (MoveItErrorCodes.CONTROL_FAILED, ExecutionError),
        (MoveItErrorCodes.INVALID_MOTION_PLAN, PlanningError),
    ],
)
def test_a_code_becomes_its_error_with_the_nodes_reason(code, kind):
    message = MoveItErrorCodes(val=code, message='wrist_3 outside its limits')
    with pytest.raises(kind, match='move_to: wrist_3 outside its limits'):
        requests.check_code(message, 'move_to')


def test_the_reasons_of_branches_are_told_apart_though_they_hold_semicolons():
    text = f'{BRANCHES[0]}: too far; by 1 m; {BRANCHES[5]}: in collision: hand in table'
    assert requests.branch_reasons(text) == {
        BRANCHES[0]: 'too far; by 1 m',
        BRANCHES[5]: 'in collision: hand in table',
    }
    assert requests.branch_reasons('') == {}


def test_a_branch_that_was_found_is_not_missing_though_the_answer_notes_something_on_it():
    """As near a singularity of a calibrated arm; page and client read the same answer."""
    note = '2 solutions, near a singularity; the one nearest to the seed is returned'
    text = f'{BRANCHES[0]}: {note}; {BRANCHES[5]}: out of reach; 0.1 m too far'
    names = [f'{BRANCHES[0]}/{name}' for name in JOINT_NAMES]
    found = requests.solutions(JointState(name=names, position=HOME), text)
    assert list(found) == [BRANCHES[0]] and found[BRANCHES[0]] == pytest.approx(HOME)
    assert found.missing == {BRANCHES[5]: 'out of reach; 0.1 m too far'}
    found[BRANCHES[0]] = -1e-6 * np.ones(6)
    assert '-0.0000' not in str(found) and '  0.0000' in str(found)
    for broken in (JointState(name=names[:5], position=HOME[:5]), JointState(name=names)):
        assert not requests.solutions(broken, text)


# ---- events


def test_only_the_start_of_its_own_job_begins_it():
    for other in (
        {'event': 'done', 'job': 'run', 'time': 5.0},
        {'event': 'started', 'job': 'go_home', 'time': 5.0},
        {'event': 'started', 'job': 'run', 'time': 3.0},  # another client's, received late
    ):
        assert not begins(other, 'run', 4.9)
    assert begins({'event': 'started', 'job': 'run', 'time': 5.0}, 'run', 4.9)


@pytest.mark.parametrize(
    ('reason', 'said'),
    [
        ('protective stop', "run stopped at stage 'lift': protective stop; until then"),
        ("stage 'lift': moved by hand", "run stopped: stage 'lift': moved by hand; until then"),
    ],
)
def test_the_error_of_a_stop_names_its_stage_once(cell, link, monkeypatch, reason, said):
    def call(*_):
        link.received.on_event(event('started', time.monotonic() + 1.0, job='run'))
        link.received.on_event(event('stopped', 9.0, job='run', stage='lift', reason=reason))
        return SimpleNamespace(success=True, message='')

    monkeypatch.setattr(link, 'call', call)
    with pytest.raises(ExecutionError, match=said):
        cell.run()


def test_the_report_is_that_of_the_plan_in_the_reply():
    received = [
        {'event': 'planned', 'branch': 'left-up-up', 'motion_time': 9.0},
        {'event': 'plan_report', 'rows': ['another']},
        {'event': 'planned', 'branch': 'left-up-up', 'motion_time': 4.52},
    ]
    message = '15 stages on left-up-up, 4.5 s of motion'
    assert report_on(received, message) is None
    received.append({'event': 'plan_report', 'rows': ['ours']})
    assert report_on(received, message) == (received[2], ['ours'])


@pytest.fixture
def received():
    return ReceivedMessages()


def test_a_taught_place_whose_name_is_no_text_is_none(received):
    received.on_event(event('taught', place=[[]]))
    assert not received.taught


def test_each_listener_hears_every_event_once_from_its_beginning_on(received):
    received.on_event(event('rearmed'))
    with received.listening() as first:
        received.on_event(event('started', job='run'))
        with received.listening() as second:
            threads = [
                threading.Thread(target=received.on_event, args=(event('stage', i),))
                for i in range(20)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        received.on_event(event('done', job='run'))
    assert (len(first), len(second)) == (22, 20)


# ---- joints and nodes


def test_joints_of_other_devices_and_malformed_ones_are_not_the_arms(received):
    received.on_joints(joints([0.01], ['finger_joint']))
    received.on_joints(joints(HOME[:5], JOINT_NAMES[:5]))
    received.on_joints(joints([np.nan] * 6))
    assert not received.has_joints
    with pytest.raises(ExecutionError, match='silent'):
        received.joints()
    received.on_joints(joints(HOME[::-1], JOINT_NAMES[::-1]))
    assert np.array_equal(received.joints()[0], HOME)


def test_silence_of_a_moving_arm_is_no_rest(received):
    for i in range(10):
        received.on_joints(joints(HOME + 0.02 * i))  # 2.5 rad/s
        time.sleep(0.008)
    time.sleep(0.35)
    assert not received.is_at_rest()
    received.on_joints(joints(HOME + 0.5))
    assert not received.is_at_rest(), 'it has arrived elsewhere just now'


def test_an_arm_that_was_at_rest_and_is_silent_may_move_again(received):
    for _ in range(30):
        received.on_joints(joints(HOME))
        time.sleep(0.01)
    assert received.is_at_rest()
    time.sleep(0.25)
    assert not received.is_at_rest()


def test_a_node_is_gone_until_a_successor_is_there(received):
    received.on_event(event('taught', place='start'))
    received.on_liveliness('pick_place', SimpleNamespace(alive_count=1, alive_count_change=1))
    assert not received.missing_nodes_text()
    received.on_liveliness('pick_place', SimpleNamespace(alive_count=0, alive_count_change=-1))
    assert received.missing_nodes_text() == 'node pick_place has gone or is stuck'
    assert not received.taught, 'a successor may have another tool'
    received.on_liveliness(
        'trajectory_planner', SimpleNamespace(alive_count=0, alive_count_change=-1)
    )
    assert received.missing_nodes_text() == (
        'node pick_place has gone or is stuck; node trajectory_planner has gone or is stuck'
    )
    for name in ('pick_place', 'trajectory_planner'):
        received.on_liveliness(name, SimpleNamespace(alive_count=1, alive_count_change=1))
    assert not received.missing_nodes_text()


def test_the_reason_of_a_refusal_is_the_planners_latest_with_all_words(received):
    for level, text in (
        (40, "apply refused: object 'a': old"),
        (40, "apply refused: object 'a': new"),
        (40, "apply refused: object 'b'"),
        (20, "apply refused: object 'a': no error"),
    ):
        received.on_log(Log(level=level, msg=text))
    assert received.error('apply refused', "'a'").endswith('new')
    received.forget_errors()
    assert not received.error('apply refused')
