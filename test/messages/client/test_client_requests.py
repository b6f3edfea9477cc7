# SPDX-License-Identifier: Apache-2.0
"""What a client makes of its user's input, of events and of joints, without any node."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from fake_link import event, joints
from moveit_msgs.msg import MoveItErrorCodes
from rcl_interfaces.msg import Log
from sensor_msgs.msg import JointState

from ur5_pick_place.client import requests
from ur5_pick_place.client.pick_place_client import begins, report_on
from ur5_pick_place.client.received import ReceivedMessages
from ur5_pick_place.errors import (
    ExecutionError,
    InCollision,
    InvalidInput,
    NoSolution,
    PlanningError,
)
from ur5_pick_place.kinematics import BRANCHES, HOME, JOINT_NAMES
from ur5_pick_place.kinematics.transforms import tool_down

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
    box = requests.upright_pose([0.4, 0.1, 0.2], 90.0, None)
    assert np.allclose(box[:3, :3], [[0, -1, 0], [1, 0, 0], [0, 0, 1]])


def test_a_number_of_numpy_is_quoted_plainly():
    with pytest.raises(InvalidInput, match='yaw_deg = 450.0 deg: must lie'):
        requests.tcp_pose((0.4, 0.0, 0.1), np.float64(450.0), None)
    with pytest.raises(InvalidInput, match=r'xyz = \(nan, 0.0\): must be 3'):
        requests.tcp_pose((np.float64('nan'), np.float32(0.0)), None, None)


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


def test_a_taught_place_whose_name_is_no_text_is_none():
    received = ReceivedMessages()
    received.on_event(event('taught', place=[[]]))
    assert not received.taught


def test_each_listener_hears_every_event_once_from_its_beginning_on():
    received = ReceivedMessages()
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


def test_joints_of_other_devices_and_malformed_ones_are_not_the_arms():
    received = ReceivedMessages()
    received.on_joints(joints([0.01], ['finger_joint']))
    received.on_joints(joints(HOME[:5], JOINT_NAMES[:5]))
    received.on_joints(joints([np.nan] * 6))
    assert not received.has_joints
    with pytest.raises(ExecutionError, match='silent'):
        received.joints()
    received.on_joints(joints(HOME[::-1], JOINT_NAMES[::-1]))
    assert np.array_equal(received.joints()[0], HOME)


def test_silence_of_a_moving_arm_is_no_rest():
    received = ReceivedMessages()
    for i in range(10):
        received.on_joints(joints(HOME + 0.02 * i))  # 2.5 rad/s
        time.sleep(0.008)
    time.sleep(0.35)
    assert not received.is_at_rest()
    received.on_joints(joints(HOME + 0.5))
    assert not received.is_at_rest(), 'it has arrived elsewhere just now'


def test_an_arm_that_was_at_rest_and_is_silent_may_move_again():
    received = ReceivedMessages()
    for _ in range(30):
        received.on_joints(joints(HOME))
        time.sleep(0.01)
    assert received.is_at_rest()
    time.sleep(0.25)
    assert not received.is_at_rest()


def test_a_node_is_gone_until_a_successor_is_there():
    received = ReceivedMessages()
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


def test_the_reason_of_a_refusal_is_the_planners_latest_with_all_words():
    received = ReceivedMessages()
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
