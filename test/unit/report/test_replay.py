# SPDX-License-Identifier: Apache-2.0
"""A replay shows what was recorded to any viewer, commands nothing, and yields to a robot."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import rclpy
from builtin_interfaces.msg import Time
from driver_client import LATCHED, DriverClient
from geometry_msgs.msg import TransformStamped
from rclpy.serialization import serialize_message
from recordings import BEGIN, nodding, write_foreign, write_recording
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.report import command as report
from ur5_pick_place.report.recording import Recording
from ur5_pick_place.report.replay import Player, kinds_of

REPORT = Path(sys.executable).with_name('report')
EVENTS = [{'time': 100.5, 'event': 'started', 'job': 'run'}]


@pytest.fixture
def viewer(ros_domain: int) -> Iterator[DriverClient]:
    with contextlib.closing(DriverClient()) as found:
        yield found


def replay(path: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [REPORT, '--replay', path], env=dict(os.environ), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.drill
def test_a_topic_that_ros_has_no_name_for_is_left_out_with_a_line(viewer, tmp_path):
    nameless = [('/my cell/joint_states', JointState(), BEGIN)]
    write_recording(tmp_path / 'run.mcap', nodding(20), EVENTS, others=nameless)
    process = replay(tmp_path)
    said, errors = process.communicate(timeout=60.0)
    assert 'Traceback' not in errors
    assert "'/my cell/joint_states' is not replayed" in errors and 'replayed 41' in said


def test_a_topic_whose_type_cannot_be_published_is_left_out_with_a_line():
    types = ['std_msgs/msg/__doc__', '.x/msg/Foo', 'os/msg/Foo', 'std_msgs/msg/Foo', 'x', 'a\nb']
    topics = {f'/a{i}/joint_states': kind for i, kind in enumerate(types)}
    recording = Recording()
    for topic, kind in {**topics, '/pick_place/state': 'std_msgs/msg/String'}.items():
        recording.messages[topic] = [(BEGIN, serialize_message(String()))]
        recording.types[topic] = kind
    assert kinds_of(recording) == {'/pick_place/state': String}
    assert all(line.isprintable() for line in recording.problems)
    said = [line.partition(' is not replayed: ') for line in recording.problems]
    assert [topic for topic, _, reason in said if reason] == list(map(repr, topics))


def test_of_two_arms_with_clocks_of_their_own_one_gives_the_time():
    """Here the other is a second late."""
    recording, published = Recording(), []
    for topic, count, late in (('/left/joint_states', 3, 0), ('/right/joint_states', 2, 1)):
        recording.types[topic] = 'sensor_msgs/msg/JointState'
        recording.messages[topic] = [
            (BEGIN + i, serialize_message(JointState(header=Header(stamp=Time(sec=9 - late)))))
            for i in range(count)
        ]
    recording.messages['/left/joint_states'].append((BEGIN + 9, b'\0\1\0\0\1'))
    node = SimpleNamespace(
        create_publisher=lambda _kind, topic, _qos: SimpleNamespace(
            publish=lambda message: published.append((topic, message))
        ),
    )
    rows = sorted((at, t, data) for t, ms in recording.messages.items() for at, data in ms)
    assert Player(node, recording, kinds_of(recording)).play(rows, 1.0) == 5
    clock = [message.clock.sec for topic, message in published if topic == '/clock']
    assert clock == [9, 9, 9]
    assert recording.problems == [
        '/left/joint_states: 1 of 4 messages are malformed: not replayed'
    ]


@pytest.mark.parametrize('encoding', ['ros1', 'json', 'cdr'])
def test_what_cannot_be_published_is_refused_before_anything_starts(
    encoding, tmp_path, monkeypatch, capsys
):
    write_foreign(tmp_path / 'run.mcap', '/joint_states', encoding, b'\1\2\3\4\5\6\7\x08\x09')
    monkeypatch.setattr(rclpy, 'init', lambda **_: pytest.fail('nothing to publish'))
    assert report.main([str(tmp_path / 'run.mcap'), '--replay']) == 2
    (line,) = capsys.readouterr().err.splitlines()
    expected = 'its 400 messages are malformed' if encoding == 'cdr' else f"encoding '{encoding}'"
    assert expected in line and line.endswith('nothing to replay') and '/joint_states' in line


def test_joints_and_events_are_published_in_their_time(viewer, tmp_path):
    joints = nodding(200)
    write_recording(tmp_path / 'run.mcap', joints, EVENTS)
    heard: list = []
    viewer.node.create_subscription(JointState, 'joint_states', heard.append, 300)
    viewer.node.create_subscription(String, 'pick_place/event', heard.append, 10)
    process, begin = replay(tmp_path), time.monotonic()
    while process.poll() is None:
        viewer.spin_once(0.1)
        assert time.monotonic() < begin + 60.0
    assert process.returncode == 0, process.communicate()[1]
    assert 'replayed 401 messages' in process.communicate()[0]
    states = [m for m in heard if isinstance(m, JointState)]
    assert len(states) > 150 and len(heard) == len(states) + 1
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in states]
    assert np.diff(stamps) == pytest.approx(0.008, abs=1e-6)


@pytest.mark.drill
def test_a_viewer_that_comes_later_gets_the_plan_and_the_frames_of_every_publisher(
    viewer, tmp_path
):
    frames = [
        TFMessage(transforms=[TransformStamped(child_frame_id=name)]) for name in ('tcp', 'tray')
    ]
    plan = MarkerArray(markers=[Marker(ns='cycle')])
    others = [('/tf_static', frame, BEGIN) for frame in frames]
    others.append(('/pick_place/markers', plan, BEGIN))
    write_recording(tmp_path / 'run.mcap', nodding(1500), EVENTS, others=others)
    process = replay(tmp_path)
    try:
        viewer.until(lambda: viewer.joints, 'the joints', wall=60.0)
        heard: list = []
        viewer.hear(TFMessage, 'tf_static', heard.append, LATCHED)
        viewer.hear(MarkerArray, 'pick_place/markers', heard.append, LATCHED)
        viewer.until(lambda: all(m in heard for m in (*frames, plan)), 'plan and frames', 60.0)
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.drill
def test_beside_another_source_of_joints_nothing_is_published(viewer, tmp_path):
    write_recording(tmp_path / 'run.mcap', nodding(20), EVENTS)
    viewer.node.create_publisher(JointState, 'joint_states', 10)
    said = replay(tmp_path).communicate(timeout=60.0)[1]
    assert 'not replayed' in said and 'joint_states' in said and len(said.splitlines()) == 1
    viewer.look()
    assert not viewer.joints


@pytest.mark.parametrize('domain', ['abc', '300', '-1'])
def test_a_domain_that_is_none_is_refused_in_one_line_before_dds_begins(
    domain, tmp_path, monkeypatch, capsys
):
    write_recording(tmp_path / 'run.mcap', nodding(20), EVENTS)
    monkeypatch.setenv('ROS_DOMAIN_ID', domain)
    monkeypatch.setattr(rclpy, 'init', lambda **_: pytest.fail('DDS would end the process'))
    assert report.main([str(tmp_path), '--replay']) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f'report: ROS_DOMAIN_ID = {domain!r}: must be a whole number')
