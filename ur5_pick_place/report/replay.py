# SPDX-License-Identifier: Apache-2.0
"""Publish what was recorded, so that RViz or the cockpit shows it; nothing that commands."""

import importlib
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import rclpy
from rclpy.exceptions import InvalidTopicNameException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions
from rclpy.validate_full_topic_name import validate_full_topic_name
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from ur5_pick_place.errors import ExecutionError, InvalidInput, one_line
from ur5_pick_place.nodes.recorder.recorded_topics import recorded_topics
from ur5_pick_place.nodes.ros.distro import count_servers
from ur5_pick_place.nodes.ros.process import init_ros
from ur5_pick_place.report.recording import Recording, read_recording

_STATIC_FRAMES = '/tf_static'
_TYPE = re.compile(r'(\w+)/msg/([A-Z]\w*)', re.ASCII)
_JOINTS = '/joint_states'
_SERVED = ('trajectory_planner/stop', 'controller_manager/switch_controller')
_DISCOVERY = 1.5  # [s] within which other nodes are usually discovered
_DEPTH = 100
_MOST_FRAMES = 1000  # messages with static frames
_LONGEST_GAP = 600.0  # [s] between two messages


def _ending(topic: str) -> str:
    """Return how a topic ends in any namespace; one of a controller, whatever its name."""
    owner, _, last = topic.rpartition('/')
    return f'/{last if owner.endswith(("_controller", "_broadcaster")) else topic.lstrip("/")}'


_TOPICS = [topic for topic in recorded_topics('any_controller') if topic.is_shown]
_SHOWN = tuple(_ending(topic.name) for topic in _TOPICS)
_LATCHED = tuple(_ending(topic.name) for topic in _TOPICS if topic.is_latched)


def replay(path: Path, rate: float) -> str:
    """
    Publish a recording on the environment's ROS_DOMAIN_ID; return what was done.

    `path`: a recording, as `read_recording` takes it. `rate`: recorded seconds per second.

    Raises `InvalidInput`: there is nothing to publish, or ROS_DOMAIN_ID is malformed;
    `ExecutionError`: a planner or a driver is there, from the start or later: its clients would
    mistake the recorded joints for those of the arm.
    """
    recording = read_recording(path, lambda topic: topic.endswith(_SHOWN))
    kinds = kinds_of(recording)
    rows = sorted(
        (log_time, topic, data)
        for topic, messages in recording.messages.items()
        for log_time, data in messages
    )
    if not rows:
        raise InvalidInput('; '.join([*recording.problems, f'{path}: nothing to replay']))
    for problem in recording.problems:  # now, as the replay may take hours
        print(f'report: {one_line(problem)}', file=sys.stderr)
    recording.problems.clear()
    init_ros(signal_handler_options=SignalHandlerOptions.NO)  # a signal ends it at once
    try:
        node = rclpy.create_node('replay')
        time.sleep(_DISCOVERY)
        _refuse_beside_a_robot(node, recording, ())
        count = Player(node, recording, kinds).play(rows, rate)
        node.destroy_node()
    finally:
        rclpy.try_shutdown()
    seconds = (rows[-1][0] - rows[0][0]) * 1e-9
    said = f'replayed {count} messages of {seconds:.1f} s'
    return '\n'.join([*recording.problems, said])


def kinds_of(recording: Recording) -> dict[str, Any]:
    """Return the class of messages of each topic; others become problems and are removed."""
    kinds: dict[str, Any] = {}
    for topic in recording.messages:
        try:
            validate_full_topic_name(topic)
            kind = _message_type(recording.types[topic])
            kind.__class__.__import_type_support__()
            rows = recording.messages[topic]
            if all(_message(data, kind) is None for _, data in rows):
                raise InvalidInput(f'its {len(rows)} messages are malformed')
            kinds[topic] = kind
        except (InvalidTopicNameException, ImportError, AttributeError, ValueError) as error:
            recording.problems.append(f'{topic!r} is not replayed: {one_line(error)}')
    recording.messages = {topic: recording.messages[topic] for topic in kinds}
    return kinds


def _message(data: bytes, kind: Any) -> Any:
    """Return a message of a class from its bytes; None if they are malformed."""
    try:
        return deserialize_message(data, kind)
    except Exception:  # of the middleware
        return None


class Player:
    """Publishes the bytes that were recorded, and the clock of the joints."""

    def __init__(self, node: Node, recording: Recording, kinds: Mapping[str, Any]) -> None:
        self._node, self._recording, self._kinds = node, recording, kinds
        self._clock = node.create_publisher(Clock, '/clock', 10)
        counts = {topic: len(recording.messages[topic]) for topic in kinds}
        self._publishers = {
            topic: node.create_publisher(kind, topic, _qos(topic, counts[topic]))
            for topic, kind in kinds.items()
        }
        joints = [t for t, kind in kinds.items() if t.endswith(_JOINTS) and kind is JointState]
        self._timed = max(joints, key=counts.__getitem__, default='')  # one arm gives the time

    def play(self, rows: Sequence[tuple[int, str, bytes]], rate: float) -> int:
        """Publish in recorded time; return how many messages."""
        begin, first, count = time.monotonic(), rows[0][0], 0
        malformed: Counter[str] = Counter()
        looked = begin
        for log_time, topic, data in rows:
            due = begin + (log_time - first) * 1e-9 / rate
            if due - time.monotonic() > _LONGEST_GAP:
                raise InvalidInput(
                    f'{topic}: nothing for more than {_LONGEST_GAP:.0f} s: the recording is '
                    'damaged, or choose a higher --rate'
                )
            while True:
                if time.monotonic() > looked + 1.0:
                    looked = time.monotonic()
                    _refuse_beside_a_robot(self._node, self._recording, self._publishers.keys())
                if (left := due - time.monotonic()) <= 0.0:
                    break
                time.sleep(min(left, 0.5))
            message = _message(data, self._kinds[topic])
            if message is None:
                malformed[topic] += 1
                continue
            if topic == self._timed and message.header.stamp.sec >= 0:
                self._clock.publish(Clock(clock=message.header.stamp))
            self._publishers[topic].publish(data)
            count += 1
        self._recording.problems += [
            f'{topic}: {bad} of {len(self._recording.messages[topic])} messages are malformed: '
            'not replayed'
            for topic, bad in malformed.items()
        ]
        return count


def _message_type(name: str) -> Any:
    """Return the class of a type such as 'std_msgs/msg/String'; a recording may hold any text."""
    if not (parts := _TYPE.fullmatch(name)):
        raise InvalidInput(f'type {name!r}: must be as std_msgs/msg/String; record it again')
    return getattr(importlib.import_module(f'{parts[1]}.msg'), parts[2])


def _qos(topic: str, count: int) -> QoSProfile:
    """Return the QoS of a topic with `count` recorded messages."""
    if not topic.endswith(_LATCHED):
        return QoSProfile(depth=_DEPTH)
    # Its publishers, each with frames of its own, are a single one here, which keeps them all.
    depth = min(count, _MOST_FRAMES) if topic.endswith(_STATIC_FRAMES) else 1
    return QoSProfile(depth=depth, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def _refuse_beside_a_robot(node: Node, recording: Recording, own: Collection[str]) -> None:
    """Refuse beside a robot in any namespace of the recording; `own` = topics published here."""
    shown = [(t, end) for t in recording.messages for end in _SHOWN if t.endswith(end)]
    spaces = {topic.removesuffix(end) for topic, end in shown}
    spaces |= {space.rpartition('/')[0] for space in spaces} | {''}  # …/<controller>/<topic>
    topics = {f'{space}{_JOINTS}' for space in spaces}
    for topic in topics:
        others = node.count_publishers(topic) - (topic in own)
        if others > 0:
            raise _refusal(f'another node publishes {topic}')
    for space in {topic.removesuffix(_JOINTS) for topic in topics}:
        for name in _SERVED:
            if count_servers(node, f'{space}/{name}'):
                raise _refusal(f'{space}/{name} is offered')


def _refusal(what: str) -> ExecutionError:
    return ExecutionError(
        f'not replayed: {what}: a planner or a driver runs on this ROS_DOMAIN_ID; end it, or set '
        'ROS_DOMAIN_ID to another number for replay and viewers'
    )
