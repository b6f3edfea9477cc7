# SPDX-License-Identifier: Apache-2.0
"""Topics of many messages: polled, and no bad number is missed."""

import contextlib
import gc
import os
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import rclpy
from fake_graph import ByHand, Talk
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, String
from ur_dashboard_msgs.msg import ProgramState
from ur_dashboard_msgs.srv import GetProgramState

from ur5_pick_place.nodes.driver import joint_listener
from ur5_pick_place.nodes.driver.driver_link import DriverLink
from ur5_pick_place.nodes.driver.joint_listener import JointLayout, JointListener, OneSource
from ur5_pick_place.nodes.messages.conversions import (
    joints_from_state,
    to_seconds,
    velocities_from_state,
)
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.latched_from import LatchedFrom
from ur5_pick_place.nodes.ros.qos import LATCHED, Unheard
from ur5_pick_place.nodes.ros.topic_reader import BoundedReader

NAMES = [f'joint_{i}' for i in range(6)]
SHUFFLED = [4, 0, 5, 1, 3, 2]
NEVER = 1e3  # [s]


def joints(q, stamp: float = 0.0, names=NAMES, qd=None) -> JointState:
    order = SHUFFLED[: len(names)] if len(names) == 6 else range(len(names))
    message = JointState(name=[names[i] for i in order], position=[float(q[i]) for i in order])
    message.velocity = [float((q if qd is None else qd)[i]) for i in order]
    message.header.frame_id = 'base_link'
    message.header.stamp.sec = int(stamp)
    message.header.stamp.nanosec = round((stamp - int(stamp)) * 1e9)
    return message


def test_a_publisher_that_does_not_reach_its_listener_is_told_once(talk, context):
    """DDS does not connect them; of another type nobody else says so."""
    node, told = talk.node, []
    node.create_subscription(String, 'words', print, 10)
    Unheard(node, ['words'], lambda *why: told.append(why))
    stranger = Node('stranger', context=context)  # as a process has one type for a topic
    for kind, qos, why in (
        (Float64, 10, 'std_msgs/msg/Float64, not std_msgs/msg/String'),
        (String, qos_profile_sensor_data, 'reliable'),
    ):
        publisher = stranger.create_publisher(kind, 'words', qos)
        talk.until(lambda: told)
        with contextlib.suppress(AssertionError):
            talk.until(lambda: len(told) > 1, 2.5)
        ((topic, said),) = told
        assert topic == 'words' and said.startswith('stranger publishes /words with ')
        assert why in said
        stranger.destroy_publisher(publisher)
        talk.until(lambda: not node.count_publishers('/words'))
        told.clear()
    stranger.destroy_node()


def listener(talk: Talk, **options):
    node, heard, bad = ByHand(talk.node), [], []
    JointListener(node, NAMES, heard.append, bad.append, 0.0, **options)
    return node.take, heard, bad


def test_joints_come_in_controller_order_beside_those_of_other_devices(talk, rng):
    take, heard, bad = listener(talk)
    for i in range(20):
        q, qd = rng.normal(size=6), rng.normal(size=6)
        take(joints(q, 5.0 + 0.002 * i, qd=qd), joints([0.1, 0.2], 9.0, ['finger', 'thumb']))
        np.testing.assert_array_equal([heard[-1].q, heard[-1].qd], [q, qd])
        assert heard[-1].stamp == pytest.approx(5.0 + 0.002 * i, abs=1e-9)
        assert not heard[-1].earlier
    assert len(heard) == 20 and not bad


def test_stamps_that_go_back_are_a_gap(talk):
    take, heard, bad = listener(talk)
    take(joints(np.zeros(6), 7.0))
    take(joints(np.zeros(6), 0.1), joints(np.zeros(6), 0.108))
    assert heard[-1].stamp_gap == pytest.approx(6.9) and not bad


def test_joints_of_two_publishers_are_used_by_nobody_until_one_has_gone(talk, monkeypatch):
    now = SimpleNamespace(monotonic=lambda: now.time, time=0.0)
    monkeypatch.setattr(joint_listener, 'time', now)
    take, heard, bad = listener(talk)
    take(joints(np.zeros(6)))
    take(joints([0.1], names=['finger']), publisher=b'gripper')
    assert len(heard) == 1 and not bad, 'other devices publish too'
    take(joints(np.zeros(3), names=NAMES[:3]), publisher=b'other')
    assert 'joint_3' in bad.pop() and not bad, 'not the joints of an arm'
    for _ in range(3):
        now.time += 0.4
        take(joints(np.ones(6)), publisher=b'other')
        take(joints(np.zeros(6)))
    assert len(heard) == 1 and len(bad) == 6
    assert '2 publishers send joint_states of this arm' in bad[0]
    now.time += 0.9
    take(joints(np.zeros(6)))
    assert len(heard) == 1
    now.time += 0.2
    take(joints(np.zeros(6)))
    assert len(heard) == 2


@pytest.mark.parametrize(
    'numbers',
    [
        [(501, 21), (502, 22), (503, 23)],  # the other one has begun later,
        [(21, 501), (22, 502)],  # or earlier,
        [(7, 7), (8, 8)],  # or at once
    ],
)
def test_where_no_publisher_is_given_two_are_told_apart_by_their_numbers(talk, numbers):
    source, seen = OneSource(talk.node), []
    for pair in [(number,) for number in range(1, 7)] if numbers[0][0] == 7 else []:
        assert not source.problem(joints(np.zeros(6)), NAMES, b'', *pair)
    for pair in numbers:
        seen += [source.problem(joints(np.zeros(6)), NAMES, b'', number) for number in pair]
    assert any('2 publishers send joint_states of this arm' in text for text in seen[:3])
    assert all(seen[2:]) and not any('3 publishers' in text for text in seen)
    alone = OneSource(talk.node)
    for number in (5, 6, 9, 200):  # some are lost
        assert not alone.problem(joints(np.zeros(6)), NAMES, b'', number)
    for _ in range(3):
        assert not OneSource(talk.node).problem(joints(np.zeros(6)), NAMES, b'', 0)


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('place', range(5))
def test_a_number_that_is_not_finite_is_noticed_in_any_message_of_a_poll(talk, place, value):
    take, heard, bad = listener(talk)
    take(joints(np.zeros(6)))
    messages = [joints(np.full(6, 0.1 * i), 1.0 + 0.002 * i) for i in range(5)]
    messages[place].position[2] = value
    take(*messages)
    assert len(bad) == 1 and 'position' in bad[0]
    assert len(heard[-1].earlier) == 3


def test_a_publisher_that_changes_its_order_or_forgets_a_joint_is_read_anew(talk, rng):
    take, heard, bad = listener(talk)
    q = rng.normal(size=6)
    take(joints(q))
    other = joints(q)
    other.name, other.position, other.velocity = NAMES, q.tolist(), q.tolist()
    take(other)
    np.testing.assert_array_equal(heard[-1].q, q)
    other.name = [*NAMES[:5], 'joint_x']
    take(other)
    assert len(heard) == 2 and 'joint_5' in bad[0]
    without = joints(q)
    without.velocity = []
    take(without)
    assert len(heard) == 2 and 'velocity' in bad[1]


@pytest.mark.parametrize('frame', ['', 'base', 'base_link'])
@pytest.mark.parametrize('efforts', [0, 7])
def test_of_a_publisher_only_the_first_message_is_converted(
    talk, rng, monkeypatch, frame, efforts
):
    """rclpy takes longer for it than all else that is done with it."""
    take, heard, bad = listener(talk)
    converted, read = [], BoundedReader.read
    monkeypatch.setattr(
        BoundedReader, 'read', lambda self, data: converted.append(data) or read(self, data)
    )
    for i in range(5):
        q, qd = rng.normal(size=6), rng.normal(size=6)
        message = joints(q, 5.0 + i, qd=qd)
        message.header.frame_id = frame
        message.name = ['finger', *message.name]
        message.position, message.velocity = [0.1, *message.position], [0.1, *message.velocity]
        message.effort = rng.normal(size=efforts).tolist()
        take(message)
        np.testing.assert_array_equal([heard[-1].q, heard[-1].qd], [q, qd])
        assert heard[-1].stamp == 5.0 + i
    assert len(converted) == 1 and not bad


def test_what_is_not_converted_is_read_as_rclpy_would_or_not_at_all(rng):
    """Whichever bit of a message is wrong; some are padding, which may be anything."""
    message = joints(rng.normal(size=6), 5.0)
    message.effort = [0.5] * 6
    layout, data = JointLayout(message, NAMES, True), bytes(serialize_message(message))
    refused = 0
    for i in range(4, len(data)):
        wrong = data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]
        if (found := layout.read(wrong)) is None:
            refused += 1
            continue
        same = deserialize_message(wrong, JointState)
        assert found[0] == to_seconds(same.header.stamp) and same.name == message.name
        np.testing.assert_array_equal(found[1], joints_from_state(same, NAMES))
        np.testing.assert_array_equal(found[2], velocities_from_state(same, NAMES))
    assert refused > 80 and layout.read(data) and not layout.read(data[:-8])


def test_velocities_that_nobody_reads_may_be_missing(talk, rng):
    take, heard, bad = listener(talk, with_velocities=False)
    for _ in range(3):
        q = rng.normal(size=6)
        message = joints(q)
        message.velocity = []
        take(message)
        np.testing.assert_array_equal(heard[-1].q, q)
    assert not bad


def test_a_jump_between_two_messages_of_a_poll_is_noticed(talk):
    problems = []
    link = link_of(talk, problems)
    publisher = talk.publisher(JointState, 'joint_states')
    for i in range(8):
        publisher.publish(joints(np.full(6, 0.5 if i == 5 else 0.0), 3.0 + 0.002 * i))
    time.sleep(0.2)
    talk.until(lambda: link.status.stamp > 3.013)
    assert sum('jumped by' in problem for problem in problems) == 2, problems


@pytest.mark.skipif(
    os.environ.get('ROS_DISTRO') == 'jazzy', reason='rclpy of Jazzy names no publisher'
)
@pytest.mark.parametrize('shows_others', [True, False])
def test_what_is_replayed_is_shown_until_the_node_itself_is_there(talk, shows_others):
    """As the page shows a recording without a planner; nobody else takes its scene."""
    values = []
    LatchedFrom(
        talk.node, String, 'scene', 'planner',
        lambda data: values.append(deserialize_message(data, String).data),
        shows_others=shows_others,
    )  # fmt: skip
    replay = talk.speaker.create_publisher(String, 'scene', LATCHED)
    replay.publish(String(data='recorded'))
    talk.spin(0.5)
    assert values == ['recorded'] * shows_others
    planner = Node('planner')
    planner.create_publisher(String, 'scene', LATCHED).publish(String(data='live'))
    talk.until(lambda: values[-1:] == ['live'])
    replay.publish(String(data='recorded later'))
    talk.spin(0.5)
    assert values[-1] == 'live'
    planner.destroy_node()


def test_joint_states_that_arrive_twice_are_no_silence(talk):
    link = link_of(talk, [])
    publisher = talk.publisher(JointState, 'joint_states')
    for k in range(30):
        for _ in range(2):
            publisher.publish(joints(np.zeros(6), 3.0 + 0.008 * k))
        if k % 5 == 4:  # several pairs in one poll
            talk.until(lambda k=k: link.status.stamp > 2.999 + 0.008 * k)


@pytest.mark.drill
@pytest.mark.parametrize('answers', ['playing', 'paused', 'no connection', 'never'])
def test_a_slider_at_zero_is_told_from_a_pause_by_a_dashboard_that_answers(talk, answers):
    """One that has hung is asked once a second, and counts as none."""
    asked, late = [], Future()
    state = {'playing': ProgramState.PLAYING, 'paused': ProgramState.PAUSED}.get(answers, '')

    async def reply(_request, response):
        asked.append(time.monotonic())
        if answers == 'never':
            await late
        response.success, response.state.state = bool(state), state
        return response

    dashboard = SingleThreadedExecutor()
    dashboard.add_node(talk.speaker)
    talk.speaker.create_service(GetProgramState, 'dashboard_client/program_state', reply)
    link = link_of(talk, [])
    publisher = talk.publisher(Float64, 'speed_scaling_state_broadcaster/speed_scaling')
    begin = time.monotonic()
    with talk.polling():
        while time.monotonic() < begin + 2.5:
            publisher.publish(Float64(data=0.0))
            talk.executor.spin_once(timeout_sec=0.01)
            dashboard.spin_once(timeout_sec=0.0)
            if time.monotonic() < begin + 0.9:
                assert not link.status.is_pause_unknown, 'an answer may come'
    assert asked
    assert link.status.is_pause_unknown == (not state)
    assert link.status.program_paused == (answers == 'paused')
    assert answers != 'never' or len(asked) <= 3


def link_of(talk, problems):
    """Return a link to the driver; takes the problem of each batch of joints."""
    link = DriverLink(
        talk.node,
        NAMES,
        lambda: problems.append(link.status.bad_joints),
        lambda: None,
        lambda: False,
    )
    return link


def test_many_messages_are_taken_in_few_polls_and_in_their_order(talk):
    taken = []
    talk.node.reader.subscribe(
        JointState, 'joint_states', taken.append, qos_profile_sensor_data, 0.1
    )
    publisher = talk.publisher(JointState, 'joint_states')
    begin, sent = time.monotonic(), 0
    with talk.polling():
        while time.monotonic() < begin + 0.5:
            publisher.publish(JointState(name=[f'{sent:04}']))
            sent += 1
            talk.executor.spin_once(timeout_sec=0.001)
    assert sent > 50
    assert 3 <= len(taken) <= 7
    data = [bytes(message.data) for batch in taken for message in batch]
    assert data == sorted(data)


def test_while_it_is_busy_a_node_takes_messages_as_they_arrive(talk):
    taken, jobs = [], []
    talk.node.reader.subscribe(
        JointState, 'joint_states', taken.extend, qos_profile_sensor_data,
        lambda: 0.002 if jobs else NEVER,
    )  # fmt: skip
    publisher = talk.publisher(JointState, 'joint_states')
    publisher.publish(JointState())
    with talk.polling():
        time.sleep(0.2)
    assert not taken
    jobs.append(True)
    talk.until(lambda: len(taken) == 1)
    publisher.publish(JointState())
    talk.until(lambda: len(taken) == 2)


def test_a_group_that_is_nearly_due_is_polled_in_a_pass_that_is_due_anyway(talk) -> None:
    polls = []
    for name, period in (('often', 0.04), ('nearly as often', 0.05), ('seldom', 0.2)):
        talk.node.reader.every(
            period, lambda name=name: polls.append((name, time.monotonic()))
        )
    with talk.polling():
        time.sleep(1.0)
    times = {name: np.array([t for who, t in polls if who == name]) for name, _ in polls}
    alone = [t for t in times['nearly as often'] if np.abs(times['often'] - t).min() > 1e-3]
    assert len(alone) <= 3 and len(times['nearly as often']) > 15
    assert 4 <= len(times['seldom']) <= 7


def test_a_check_that_takes_longer_than_its_period_keeps_no_callback_waiting(talk) -> None:
    """A lock that is taken again at once is not given to the thread that waits for it."""
    begun: list[float] = []

    def work() -> None:
        begun.append(time.monotonic())
        end = begun[-1] + 0.03
        while time.monotonic() < end:
            pass

    talk.node.reader.every(0.02, work)
    lock, waited = talk.node.lock, []
    with talk.polling():
        for _ in range(40):
            before = len(begun)
            with lock:
                waited.append(len(begun) - before)
            time.sleep(0.001)
    assert max(waited) <= 5


def test_what_a_node_polls_ends_with_it() -> None:
    rclpy.init()
    node = SerialNode('brief')
    node.reader.subscribe(
        JointState, 'joint_states', lambda _: None, qos_profile_sensor_data, 0.1
    )
    gone = weakref.ref(node)
    node.destroy_node()
    rclpy.shutdown()
    del node
    gc.collect()
    assert gone() is None
