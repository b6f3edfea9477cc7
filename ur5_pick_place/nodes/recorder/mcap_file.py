# SPDX-License-Identifier: Apache-2.0
"""Write serialized messages to an MCAP file as rosbag2 does: CDR with `ros2msg` schemas."""

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from ament_index_python.packages import get_package_share_directory
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, ReliabilityPolicy
from rosidl_parser.definition import NamespacedType

from ur5_pick_place.errors import MissingPackage
from ur5_pick_place.nodes.messages.cdr import class_of, type_name

FACTS = 'ur5_pick_place'
"""Name of the MCAP metadata with facts about the recording, as JSON by key."""

_CHUNK = 2**18  # [bytes] that are lost together if a file is damaged: 0.3 s
_SEPARATOR = 80 * '='


class McapFile:
    """
    A recording that is being written; it is complete after `finish`.

    `stream`: open for writing; stays open.

    Raises `MissingPackage`: `mcap` is not installed.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._writer = mcap_writer().Writer(stream, chunk_size=_CHUNK)
        self._writer.start(profile='ros2', library='ur5_pick_place')
        self._schemas: dict[type, int] = {}
        self._channels: dict[str, int] = {}
        self._sequences: dict[int, int] = {}

    def write(
        self,
        topic: str,
        kind: type,
        data: bytes,
        log_time: int,
        publish_time: int,
        is_latched: bool = False,
    ) -> None:
        """
        Write a message.

        `topic`: with its namespace. `kind`: the message's class. `data`: CDR with its header, as a
        raw subscription gives it. `log_time` and `publish_time`: when it was received and sent,
        system time [ns]. `is_latched`: whether the topic is replayed as transient local; that of
        its first message counts.
        """
        channel = self._channels.get(topic)
        if channel is None:
            channel = self._channels[topic] = self._writer.register_channel(
                topic=topic,
                message_encoding='cdr',
                schema_id=self._schema(kind),
                metadata={'offered_qos_profiles': _offered(is_latched)},
            )
        number = self._sequences[channel] = self._sequences.get(channel, 0) + 1
        self._writer.add_message(channel, log_time, data, publish_time, number)

    def add_facts(self, facts: Mapping[str, Any]) -> None:
        """Add facts about the recording, JSON values by name."""
        self._writer.add_metadata(FACTS, {k: json.dumps(v) for k, v in facts.items()})

    def finish(self) -> None:
        """Write what is buffered and the index."""
        self._writer.finish()

    def _schema(self, kind: type) -> int:
        if kind not in self._schemas:
            self._schemas[kind] = self._writer.register_schema(
                name=type_name(kind), encoding='ros2msg', data=schema_text(kind).encode()
            )
        return self._schemas[kind]


def _offered(is_latched: bool) -> str:
    """
    Return the QoS with which rosbag2 is to replay a topic: always reliable, maybe latched.

    In numbers, as rosbag2 wrote it until Iron; later releases read names and numbers.
    """
    forever = {'sec': 9223372036, 'nsec': 854775807}
    durability = DurabilityPolicy.TRANSIENT_LOCAL if is_latched else DurabilityPolicy.VOLATILE
    profile = {
        'history': int(HistoryPolicy.KEEP_LAST),
        'depth': 10,
        'reliability': int(ReliabilityPolicy.RELIABLE),
        'durability': int(durability),
        'deadline': forever,
        'lifespan': forever,
        'liveliness': int(LivelinessPolicy.AUTOMATIC),
        'liveliness_lease_duration': forever,
        'avoid_ros_namespace_conventions': False,
    }
    return json.dumps([profile])  # which is YAML too


def mcap_writer() -> ModuleType:
    """Return the module `mcap.writer`; raises MissingPackage if it is not installed."""
    try:
        return importlib.import_module('mcap.writer')
    except ImportError as error:
        raise MissingPackage(
            f'recordings need the Python package mcap ({error}): pip install mcap'
        ) from error


def schema_text(kind: type) -> str:
    """Return the installed definition of a message, followed by those of what it contains."""
    return _definition(kind) + ''.join(
        f'\n{_SEPARATOR}\nMSG: {type_name(other, "/")}\n{_definition(other)}'
        for other in _contained(kind)
    )


def _definition(kind: type) -> str:
    package, name = type_name(kind, '/').split('/')
    file = Path(get_package_share_directory(package), 'msg', f'{name}.msg')
    return file.read_text(encoding='utf-8')


def _contained(kind: type) -> list[type]:
    """Return the messages inside a message, at any depth, each once."""
    found: dict[type, None] = {}
    waiting = [kind]
    while waiting:
        for slot in waiting.pop().SLOT_TYPES:  # type: ignore[attr-defined]
            of = getattr(slot, 'value_type', slot)
            if isinstance(of, NamespacedType) and (inner := class_of(of)) not in found:
                found[inner] = None
                waiting.append(inner)
    return list(found)
