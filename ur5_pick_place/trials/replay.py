# SPDX-License-Identifier: Apache-2.0
"""Publish what was recorded, so that RViz or the cockpit shows it; nothing that commands."""

import importlib
import re
import struct
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import rclpy
from rclpy.exceptions import InvalidTopicNameException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.validate_full_topic_name import validate_full_topic_name
from rosgraph_msgs.msg import Clock

from ur5_pick_place.errors import ExecutionError, InvalidInput, one_line
from ur5_pick_place.nodes.ros.distro import count_servers
from ur5_pick_place.nodes.ros.process import ros_domain_id, stay_on_loopback
from ur5_pick_place.trials.recording import Recording, read_recording

_STATIC_FRAMES = '/tf_static'
_LATCHED = (
    '/robot_mode',
    '/safety_mode',
    '/robot_program_running',
    '/trajectory_planner/motion_state',
    '/monitored_planning_scene',
    '/pick_place/state',
    '/pick_place/markers',
    _STATIC_FRAMES,
)
_SHOWN = (
    *_LATCHED,
    '/joint_states',
    '/controller_state',
    '/io_states',
    '/tool_data',
    '/speed_scaling',
    '/planned_path',
    '/pick_place/event',
    '/tf',
    '/sim_driver/part_pose',
    '/sim_driver/finger_states',
)
_TYPE = re.compile(r'(\w+)/msg/([A-Z]\w*)', re.ASCII)
_JOINTS = '/joint_states'
_SERVED = ('trajectory_planner/stop', 'controller_manager/switch_controller')
_DISCOVERY = 1.5  # [s] within which other nodes are usually discovered
_DEPTH = 100
_MOST_FRAMES = 1000  # messages with static frames
_LONGEST_GAP = 600.0  # [s] between two messages
_STAMPED = 12  # [bytes] of a message with a stamp


def replay(files: Sequence[Path], rate: float) -> str:
    """
    Publish a recording on the environment's ROS_DOMAIN_ID; return what was done.

    Parameters
    ----------
    files : sequence of Path
        Of one recording.
    rate : float
        Recorded seconds per second.

    Raises
    ------
    InvalidInput
        There is nothing to publish, or ROS_DOMAIN_ID is malformed.
    ExecutionError
        A planner or a driver is there, from the start or later: its clients would mistake the
        recorded joints for those of the arm.

    """
    ros_domain_id()
    recording = read_recording(files, lambda topic: topic.endswith(_SHOWN))
    _leave_out_invalid(recording)
    rows = sorted(
        (log_time, topic, data)
        for topic, messages in recording.messages.items()
        for log_time, data in messages
    )
    if not rows:
        raise InvalidInput('; '.join([*recording.problems, 'nothing to replay']))
    stay_on_loopback()
    rclpy.init()
    try:
        node = rclpy.create_node('replay')
        time.sleep(_DISCOVERY)
        _refuse_beside_a_robot(node, recording, ())
        count = _Player(node, recording).play(rows, rate)
        node.destroy_node()
    finally:
        rclpy.try_shutdown()
    seconds = (rows[-1][0] - rows[0][0]) * 1e-9
    said = f'replayed {count} messages of {seconds:.1f} s'
    return '\n'.join([*recording.problems, said])


def _leave_out_invalid(recording: Recording) -> None:
    """Remove topics whose names are invalid in ROS; they become problems of the recording."""
    for topic in list(recording.messages):
        try:
            validate_full_topic_name(topic)
        except InvalidTopicNameException as error:
            del recording.messages[topic]
            recording.problems.append(f'{topic!r} is not replayed: {one_line(error)}')


class _Player:
    """Publishes the bytes that were recorded, and the clock of the joints."""

    def __init__(self, node: Node, recording: Recording) -> None:
        self._node, self._recording = node, recording
        self._clock = node.create_publisher(Clock, '/clock', 10)
        self._publishers: dict[str, Any] = {}
        for topic in recording.messages:
            qos = _qos(topic, len(recording.messages[topic]))
            try:
                kind = _message_type(recording.types[topic])
                self._publishers[topic] = node.create_publisher(kind, topic, qos)
            except (ImportError, AttributeError, TypeError, ValueError) as error:
                recording.problems.append(f'{topic} is not replayed: {one_line(error)}')

    def play(self, rows: Sequence[tuple[int, str, bytes]], rate: float) -> int:
        """Publish in recorded time; return how many messages."""
        begin, first, count = time.monotonic(), rows[0][0], 0
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
            if topic not in self._publishers:
                continue
            if topic.endswith(_JOINTS) and len(data) >= _STAMPED:
                self._clock.publish(_clock_of(data))
            self._publishers[topic].publish(data)
            count += 1
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


def _clock_of(data: bytes) -> Clock:
    """Return the time of a serialized message with a header."""
    sec, nanosec = struct.unpack_from('<iI' if data[1] & 1 else '>iI', data, 4)
    clock = Clock()
    clock.clock.sec, clock.clock.nanosec = max(0, sec), nanosec
    return clock


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
