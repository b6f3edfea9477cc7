# SPDX-License-Identifier: Apache-2.0
"""Runs that were never made, to draw and to read."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.demo.pictures import Film
from ur5_pick_place.kinematics import HOME, JOINT_NAMES
from ur5_pick_place.report import command as report
from ur5_pick_place.report.motion import RecordedJoints, Samples
from ur5_pick_place.sim.physics.cell import upright

BEGIN = 1_800_000_000_000_000_000  # [ns] log time of the first message
CONTROLLER = 'scaled_joint_trajectory_controller'
ARM = {
    'ur_type': 'ur5',
    'T_tool_tcp': np.eye(4).tolist(),
    'max_velocity': [np.pi] * 6,
    'max_speed': 1.0,
}
EVENTS = [
    {'time': 100.2, 'event': 'started', 'job': 'run'},
    {'time': 100.3, 'event': 'stage', 'stage': 'above start', 'remark': ''},
    {'time': 101.0, 'event': 'stopped', 'job': 'run', 'stage': 'lift', 'reason': 'part <b>lost'},
]


def lifting_recording(duration: float = 4.0) -> Film:
    """Make up a run: the shoulder turns, the cube rises half-way and comes down again."""
    t = np.arange(0.0, duration, 0.008)
    x = t / duration
    T_start, T_target = upright(0.45, -0.3, 0.0225, 0.3), upright(0.5, 0.3, 0.0225, 0.0)
    T_base_link_part = np.tile(T_start, (t.size, 1, 1))
    T_base_link_part[:, 1, 3] += 0.6 * x
    T_base_link_part[:, 2, 3] += 0.3 * np.sin(np.pi * x)
    q = HOME + np.outer(x, [0.8, 0, 0, 0, 0, 0])
    joints = RecordedJoints(t, q, np.gradient(q, t, axis=0), q)
    fingers = t, np.zeros((t.size, 2))
    samples = Samples(joints, (t, T_base_link_part[:, None]), fingers, ())
    return Film(samples, T_start, T_target, CellSetup())


def nodding(n: int = 200) -> RecordedJoints:
    """Make up joints: the shoulder nods for `n` cycles, and the reference is ahead."""
    t = 100.0 + 0.008 * np.arange(n)
    q, reference = (
        HOME + np.outer(0.2 * np.sin(t - lag), np.eye(6)[1]) for lag in (0.03, 0.0)
    )
    return RecordedJoints(t, q, np.gradient(q, t, axis=0), reference)


def log_time(joints: RecordedJoints, t: float) -> int:
    """Return when a message of time `t` was received [ns]."""
    return BEGIN + round(1e9 * (t - joints.t[0]))


def demo_facts(method: str, joints: RecordedJoints) -> dict[str, Any]:
    """Return what a demo says of a run without a cube, with these joints."""
    return {
        'method': method,
        'failure': '',
        'planning_time_s': 0.5,
        'T_tool_grip': np.eye(4).tolist(),
        'limits': {'max_velocity': 3.0, 'max_speed': 1.0},
        'ends': [],
        'start': {'x': 0.45, 'y': -0.2, 'yaw': 0.0},
        'displacement': None,
        'log_times': [BEGIN, log_time(joints, joints.t[-1])],
    }


def stamped(message: Any, t: float) -> Any:
    """Give a message its time [s]."""
    message.header.stamp.sec, message.header.stamp.nanosec = int(t), round(1e9 * (t % 1.0))
    return message


def messages(
    joints: RecordedJoints,
    events: Sequence[Mapping[str, Any]],
    space: str = '',
    prefix: str = '',
) -> list[tuple[str, Any, int]]:
    """Return topic, message and log time [ns] of all that an arm and its task publish."""
    from builtin_interfaces.msg import Time
    from control_msgs.msg import JointTrajectoryControllerState
    from sensor_msgs.msg import JointState
    from std_msgs.msg import Header, String
    from trajectory_msgs.msg import JointTrajectoryPoint

    def point(q: np.ndarray) -> JointTrajectoryPoint:
        return JointTrajectoryPoint(positions=q.tolist(), velocities=[0.0] * 6)

    names = [prefix + name for name in JOINT_NAMES]
    rows = []
    for t, q, qd, reference in zip(*vars(joints).values(), strict=True):
        header = Header(stamp=Time(sec=int(t), nanosec=int(1e9 * (t % 1.0))))
        at = log_time(joints, t)
        feedback = JointTrajectoryPoint(positions=q.tolist(), velocities=qd.tolist())
        state = JointTrajectoryControllerState(
            header=header, joint_names=names, reference=point(reference), feedback=feedback
        )
        order = np.argsort(names)
        measured = JointState(
            header=header, name=[names[i] for i in order], position=q[order],
            velocity=qd[order], effort=q,
        )  # fmt: skip
        rows.append((f'{space}/joint_states', measured, at))
        rows.append((f'{space}/{CONTROLLER}/controller_state', state, at))
    for event in events:
        text = String(data=json.dumps(event))
        rows.append((f'{space}/pick_place/event', text, log_time(joints, event['time'])))
    return sorted(rows, key=lambda row: row[2])


def write_recording(
    path: Path,
    joints: RecordedJoints,
    events: Sequence[Mapping[str, Any]],
    facts: Sequence[Mapping[str, Any]] = (),
    others: Sequence[tuple[str, Any, int]] = (),
    **names: str,
) -> None:
    """Write an MCAP file as the recorder does; `others` as `messages` returns them."""
    from rclpy.serialization import serialize_message

    from ur5_pick_place.nodes.recorder.mcap_file import McapFile

    with path.open('wb') as stream:
        file = McapFile(stream)
        for topic, message, at in [*others, *messages(joints, events, **names)]:
            file.write(topic, type(message), serialize_message(message), at, at)
        for fact in facts:
            file.add_facts(fact)
        file.finish()


def write_foreign(path: Path, topic: str, encoding: str, data: bytes, count: int = 400) -> None:
    """Write an MCAP file of another program: joint states in an encoding, 8 ms apart."""
    from mcap.writer import Writer

    with path.open('wb') as stream:
        writer = Writer(stream)
        writer.start()
        form = {'ros1': 'ros1msg', 'json': 'jsonschema', 'protobuf': 'protobuf'}.get(encoding, '')
        schema = writer.register_schema('sensor_msgs/msg/JointState', form, b'')
        channel = writer.register_channel(topic, encoding, schema)
        for i in range(count):
            writer.add_message(channel, BEGIN + 8_000_000 * i, data, BEGIN)
        writer.finish()


def write_bag(
    folder: Path,
    joints: RecordedJoints,
    events: Sequence[Mapping[str, Any]],
    storage: str,
    pack: Callable[[bytes], bytes] = bytes,
    **names: str,
) -> Path:
    """Write a rosbag2 folder as another program does; `pack` compresses its messages."""
    rosbag2 = pytest.importorskip('rosbags.rosbag2')
    from rclpy.serialization import serialize_message
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    from ur5_pick_place.nodes.recorder.mcap_file import schema_text

    plugin = rosbag2.StoragePlugin[storage]
    with rosbag2.Writer(folder, version=9, storage_plugin=plugin) as bag:
        connections = {}
        store = get_typestore(Stores.EMPTY)
        for topic, message, at in messages(joints, events, **names):
            kind = type(message)
            name = f'{kind.__module__.split(".")[0]}/msg/{kind.__name__}'
            if topic not in connections:
                store.register(get_types_from_msg(schema_text(kind), name))
                connections[topic] = bag.add_connection(topic, name, typestore=store)
            bag.write(connections[topic], at, pack(serialize_message(message)))
    return folder


def reported(path: Path, capsys: pytest.CaptureFixture) -> tuple[list[dict], str]:
    """Return what `report --json` says of a file, and its complaint."""
    assert report.main([str(path), '--json']) == 0
    said = capsys.readouterr()
    return json.loads(said.out), said.err
