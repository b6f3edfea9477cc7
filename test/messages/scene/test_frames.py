# SPDX-License-Identifier: Apache-2.0
"""Frames from /tf: fresh when asked for, and no callback waits for the messages of others."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from fake_graph import transforms
from rclpy.serialization import serialize_message
from tf2_msgs.msg import TFMessage

from ur5_pick_place.errors import UnknownFrame
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK
from ur5_pick_place.nodes.tf import frames as frames_module
from ur5_pick_place.nodes.tf import transform_store
from ur5_pick_place.nodes.tf.frames import Frames

FULL = 170  # frames of a message of almost 16 KB


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_module, '_FRESH', 5.0)  # this PC may stall


def serialized(x: float, *children: str) -> bytes:
    return serialize_message(transforms(x, *children))


def test_the_drivers_own_tcp_is_carried_though_it_is_published_in_the_base(talk) -> None:
    frames = Frames(talk.node, 'lab_', None)
    publisher = talk.publisher(TFMessage, '/tf')
    message = transforms(0.4, 'lab_tool0_controller', 'lab_tool0', 'tray')
    message.transforms.append(transforms(0.4, 'camera').transforms[0])
    message.transforms[3].header.frame_id = 'lab_tool0_controller'
    publisher.publish(message)
    talk.until(lambda: frames.is_carried('lab_tool0_controller'))
    assert frames.is_on_tool('camera') and not frames.is_carried('tray')
    T = frames.T_base_frame('camera', lambda _link: np.eye(4))
    assert T[0, 3] == pytest.approx(0.4), 'from the tool of the request, not of TF'


def test_with_a_prefix_the_base_link_of_a_mobile_base_is_no_link_of_the_arm(talk) -> None:
    frames = Frames(talk.node, 'ur_', None)
    for name in ('base_link', 'ur_base_link', ''):
        np.testing.assert_array_equal(frames.T_base_frame(name), T_BASE_BASE_LINK)
    frames.store.add([serialized(0.4, 'mast', 'plate')])
    with pytest.raises(UnknownFrame, match="'base_link' is not known"):  # not connected yet
        frames.T_base_frame('base_link')
    mount = transforms(0.4, 'ur_base_link')
    mount.transforms[0].header.frame_id = 'mast'
    frames.store.add([serialize_message(mount)])
    for T in (
        frames.T_base_frame('base_link', lambda _link: np.eye(4)),
        frames.T_base_frame('/base_link'),
        frames.T_base_link('base_link', lambda _link: np.eye(4)),
    ):
        assert T[0, 3] == pytest.approx(0.8), 'base is turned by pi about z'
    for name in ('ur_base_link', ''):
        np.testing.assert_array_equal(frames.T_base_frame(name), T_BASE_BASE_LINK)
    for name in ('base', 'ur_base'):  # TF has no other `base`
        np.testing.assert_array_equal(frames.T_base_frame(name), np.eye(4))


@pytest.fixture
def frames(talk):
    return Frames(talk.node, '', None)


def test_without_a_prefix_base_link_is_the_arms_though_tf_has_it(frames):
    frames.store.add([serialized(0.4, 'tray')])
    np.testing.assert_array_equal(frames.T_base_frame('base_link'), T_BASE_BASE_LINK)


def test_of_many_transforms_the_newest_are_read_when_a_frame_is_asked_for(frames, talk):
    publisher = talk.publisher(TFMessage, '/tf')
    for i in range(100):
        publisher.publish(transforms(0.01 * i, 'camera', 'tray'))
        if i == 50:
            publisher.publish(transforms(0.3, 'belt_12'))
    time.sleep(0.3)
    # base_link is turned by pi about z in base.
    assert frames.T_base_frame('tray')[0, 3] == pytest.approx(-0.99)
    assert frames.T_base_frame('belt_12')[0, 3] == pytest.approx(-0.3)


def test_a_frame_with_a_negative_stamp_is_not_known(talk) -> None:
    frames = Frames(talk.node, '', np.eye(4))
    message = transforms(0.1, 'cam')
    message.transforms[0].header.stamp.sec = -1
    frames.store.add([serialize_message(message)])
    for ask in (frames.T_base_frame, lambda frame: frames.recent(frame, 0.1, 2)):
        with pytest.raises(UnknownFrame, match="'cam'"):
            ask('cam')
        with pytest.raises(UnknownFrame) as refused:
            ask('cam' * 1000)
        assert len(str(refused.value)) < 600


@pytest.mark.parametrize('topic', ['/tf', '/tf_static'])
def test_a_message_is_read_without_a_conversion_by_rclpy(frames, topic):
    """That takes 0.1 ms a frame, and the stop of an arm waits meanwhile."""
    flood = [serialized(0.1, *(f'f{k:02}_{i:03}' for i in range(FULL))) for k in range(10)]
    add = frames.store.add if topic == '/tf' else frames.store.add_static
    begin = time.thread_time()
    for data in flood:
        add([data] if topic == '/tf' else data)
    assert (time.thread_time() - begin) / (10 * FULL) < 3e-5
    assert frames.T_base_frame('f07_000')[0, 3] == pytest.approx(-0.1)


def test_a_known_frame_stays_fresh_under_a_flood_of_large_messages(talk, monkeypatch) -> None:
    monkeypatch.setattr(transform_store, '_READ_BUDGET', 0.002)
    mine = SimpleNamespace(monotonic=time.thread_time)  # whatever else this PC does
    monkeypatch.setattr(transform_store, 'time', mine)
    frames = Frames(talk.node, '', None)
    flood = [serialized(0.1, *(f'f{i:03}' for i in range(FULL))) for k in range(250)]
    taken = []
    for x in (0.1, 0.2, 0.3, 0.4):
        begin = time.thread_time()
        frames.store.add([*flood[:100], serialized(x, 'camera'), *flood[100:]])
        taken.append(time.thread_time() - begin)
        assert frames.T_base_frame('camera')[0, 3] == pytest.approx(-x)
    assert min(taken) < 0.01


def test_batches_in_the_wrong_order_leave_the_newest_transform(frames):
    """Two threads poll: one may hand on what it took after the other."""
    for xs in ((0.3, 0.5), (0.1, 0.2, 0.4)):
        frames.store.add([serialized(x, 'camera') for x in xs])
        assert frames.T_base_frame('camera')[0, 3] == pytest.approx(-0.5)
    T = frames.store.pose('base_link', 'camera', 7.0 + 0.025)
    assert T[0, 3] == pytest.approx(0.25), 'the earlier ones are in between'


def test_the_newest_static_transform_counts_whatever_else_its_message_holds(frames):
    for k in range(6):
        frames.store.add_static(serialized(0.1 * k, 'start', *(f'p{i}' for i in range(k))))
    assert frames.T_base_frame('start')[0, 3] == pytest.approx(-0.5)


def test_ever_new_frames_do_not_fill_the_memory(frames, monkeypatch):
    monkeypatch.setattr(transform_store, '_MOST_FRAMES', 50)
    monkeypatch.setattr(transform_store, '_READ_BUDGET', 5.0)
    frames.store.add([serialized(0.1, 'camera')])
    frames.store.add([serialized(0.1, f'belt_{k}') for k in range(200)])
    frames.store.add([serialized(0.2, 'camera')])
    assert frames.T_base_frame('camera')[0, 3] == pytest.approx(-0.2)
    assert sum(f'belt_{k}' in frames.store for k in range(200)) == 48


def test_malformed_transforms_are_ignored_and_the_others_taken(frames, rng, monkeypatch):
    monkeypatch.setattr(transform_store, '_READ_BUDGET', 5.0)
    good = serialized(0.1, 'camera', 'tray')
    bad = [good[:cut] for cut in range(0, len(good), 3)]
    bad += [bytes(rng.integers(0, 256, 100, np.uint8)) for _ in range(100)]
    frames.store.add([*bad, good, b'x' * 20_000])
    assert frames.T_base_frame('tray')[0, 3] == pytest.approx(-0.1)


def test_a_backlog_of_seconds_is_taken_in_its_order(talk) -> None:
    """After a stall, or with a fast simulation, one poll reads more than a second."""
    frames, backlog = Frames(talk.node, '', None), []
    for k in range(31):
        message = transforms(0.01 * k, 'camera')
        message.transforms[0].header.stamp.sec = 100 + k // 10
        message.transforms[0].header.stamp.nanosec = k % 10 * 100_000_000
        backlog.append(serialize_message(message))
    frames.store.add(backlog)
    assert frames.store.newest('base_link', 'camera') == pytest.approx(103.0)
    assert frames.T_base_frame('camera')[0, 3] == pytest.approx(-0.3)
    assert frames.store.pose('base_link', 'camera', 101.0)[0, 3] == pytest.approx(0.1)


@pytest.mark.parametrize('parent', ['base_link', 'tool0'])
def test_a_moving_frame_that_has_gone_is_not_where_it_was(talk, monkeypatch, parent) -> None:
    """Stamp 0 means now; a mount that is published once belongs on /tf_static."""
    frames, steady = Frames(talk.node, '', None), time.monotonic
    message = transforms(0.4, 'camera')
    message.transforms[0].header.frame_id = parent
    frames.store.add([serialize_message(message)])
    monkeypatch.setattr(time, 'monotonic', lambda: steady() + 3.0)
    frames.T_base_frame('camera', lambda _link: np.eye(4))
    monkeypatch.setattr(time, 'monotonic', lambda: steady() + 60.0)
    with pytest.raises(UnknownFrame, match=r"no transform of 'camera' has come for 6"):
        frames.T_base_frame('camera', lambda _link: np.eye(4))
    frames.store.add_static(serialize_message(message))
    assert frames.T_base_frame('camera', lambda _link: np.eye(4)) is not None


def test_a_camera_on_the_tool_is_known_without_the_arm_in_tf(talk) -> None:
    """A request may have its own joints, while the driver is off."""
    frames, message = Frames(talk.node, '', None), transforms(0.4, 'camera')
    message.transforms[0].header.frame_id = 'tool0'
    frames.store.add_static(serialize_message(message))
    with pytest.raises(StopIteration):  # it returns at once
        frames.wait_for('camera', 1.0).send(None)
