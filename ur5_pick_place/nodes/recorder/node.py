# SPDX-License-Identifier: Apache-2.0
"""
Hold the last minute in memory, and write it to a file at each stop, for `report`.

- ~/save: write now; the reply has the path (std_srvs/srv/Trigger)
- records_folder: record-<UTC>-stop.mcap and record-<UTC>-save.mcap, as rosbag2

It only subscribes. Messages are kept as the bytes that came and are polled, so that it costs next
to nothing while nothing happens.
"""

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from rclpy.exceptions import InvalidHandle
from rclpy.serialization import deserialize_message
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ur5_pick_place.config_files import user_path
from ur5_pick_place.control.motion_state import MotionState, is_stop_event
from ur5_pick_place.errors import InvalidInput, MissingPackage, Ur5PickPlaceError, one_line
from ur5_pick_place.nodes.cell.robot_settings import RobotSettings, load_cell
from ur5_pick_place.nodes.recorder.flight_memory import TopicMemory
from ur5_pick_place.nodes.recorder.mcap_file import McapFile, mcap_writer
from ur5_pick_place.nodes.recorder.record_folder import RecordFolder
from ur5_pick_place.nodes.recorder.recorded_topics import (
    EXECUTION_EVENT,
    MOTION_STATE,
    TASK_STATE,
    RecordedTopic,
    recorded_topics,
    subscribe_all,
)
from ur5_pick_place.nodes.ros.distro import TakenMessage
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.parameters import declare_settings
from ur5_pick_place.nodes.ros.process import refuse_if_served, run_node
from ur5_pick_place.planning.limits import MotionSettings, arm_facts, motion_limits
from ur5_pick_place.settings import Settings, setting

_POLL = 0.1  # [s] between two polls of the topics
_END = 1.5  # [s] for a record that is being written when the node ends
_STOPPED, _MOVING = MotionState.STOPPED.value, MotionState.MOVING.value
_STATE_TOPICS = (MOTION_STATE, TASK_STATE, EXECUTION_EVENT)
_BETWEEN = 5.0  # [s] between the records of two stops; a record contains all stops of its time
_LATER = 10.0  # [s] by which further stops may put off a record that is due
_BEFORE = 5.0  # [s] at least that a record contains before its first stop
_SECOND = 1_000_000_000  # [ns]
_STOP, _SAVE = 'stop', 'save'


@dataclass(frozen=True)
class RecorderSettings(Settings):
    """What the flight recorder keeps, and where."""

    records_folder: str = setting('~/.ros/ur5_pick_place/records', 'where records are written')
    record_duration: float = setting(
        60.0, 'what is kept in memory, and is in a record', unit='s', low=10.0, high=600.0
    )
    record_after_stop: float = setting(
        3.0, 'time after a stop that its record contains', unit='s', low=0.0, high=60.0
    )
    max_records: int = setting(100, 'files that are kept, newest first', low=1, high=10_000)
    max_records_size: int = setting(
        1000, 'size of these files together', unit='MB', low=1, high=1_000_000
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.record_after_stop > (most := self.record_duration - _BEFORE):
            raise InvalidInput(
                f'record_after_stop = {self.record_after_stop:g}: must be at most {most:g} s with '
                f'record_duration = {self.record_duration:g}, or no record contains its stop: '
                'lower it, or raise record_duration'
            )


class FlightRecorder:
    """
    The messages in memory, and when a stop is to be recorded.

    `facts`: about the arm, for every record.
    """

    def __init__(self, settings: RecorderSettings, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._span = round(settings.record_duration * _SECOND)
        self._after_stop = round(settings.record_after_stop * _SECOND)
        self._lock = threading.Lock()
        self._memory: dict[str, tuple[RecordedTopic, TopicMemory]] = {}
        self._states: list[tuple[int, str, str]] = []  # when received, topic, text
        # True for states: nodes start as stopped, and an earlier stop is not for this recorder.
        self._has_stopped = {MOTION_STATE: True, TASK_STATE: True, EXECUTION_EVENT: False}
        # [ns] of the steady clock: the system's may be set back by hours.
        self._due: int | None = None
        self._next = self._latest = 0

    @property
    def has_stopped(self) -> bool:
        """Whether a stop has not been recorded yet."""
        return self._due is not None

    def take(self, name: str, topic: RecordedTopic, messages: Sequence[TakenMessage]) -> None:
        """Keep messages of a topic of that resolved name."""
        with self._lock:
            if name not in self._memory:
                memory = TopicMemory(self._span, topic.most, topic.is_latched)
                self._memory[name] = topic, memory
            self._memory[name][1].add(messages)
        for message in messages if topic.name in _STATE_TOPICS else ():
            with contextlib.suppress(RuntimeError):  # malformed
                text: str = deserialize_message(message.data, String).data
                self._states.append((message.received, topic.name, text))

    def is_due(self) -> bool:
        """Look at the states that have come; return whether a stop is now to be recorded."""
        for _, topic, text in sorted(self._states, key=lambda state: state[0]):
            self._look_for_stop(topic, text)
        self._states.clear()
        if self._due is None or time.monotonic_ns() < self._due:
            return False
        self._due = None
        return True

    def write(self, stream: BinaryIO, reason: str) -> None:
        """Write what is in memory to a binary file, with the reason."""
        rows: list[tuple[int, str, RecordedTopic, TakenMessage]] = []
        lost: dict[str, int] = {}
        with self._lock:
            now = time.time_ns()
            begin = now - self._span
            for name, (topic, memory) in self._memory.items():
                older, recent, count = memory.messages(now)
                rows += [(begin, name, topic, message) for message in older]
                rows += [(message.received, name, topic, message) for message in recent]
                if count:
                    lost[name] = count
        rows.sort(key=lambda row: row[0])
        file = McapFile(stream)
        for log_time, name, topic, message in rows:
            file.write(
                name, topic.kind, message.data, log_time, message.published, topic.is_latched
            )
        file.add_facts({**self._facts, 'recorded_for': reason, 'lost': lost})
        file.finish()

    def _look_for_stop(self, topic: str, text: str) -> None:
        """
        Count a stop, unless the topic reported it before.

        Before the robot is ready the planner's reason may change at any time, and a client may
        send `stop` as often as it likes: that counts once for each motion.
        """
        had_stopped = self._has_stopped[topic]
        if topic == EXECUTION_EVENT:
            self._has_stopped[topic] |= is_stop_event(text)
        else:
            self._has_stopped[topic] = text.startswith(_STOPPED)
        if topic == MOTION_STATE and text == _MOVING:
            self._has_stopped[EXECUTION_EVENT] = False
        if self._has_stopped[topic] and not had_stopped:
            self._expect_record(time.monotonic_ns() + self._after_stop)

    def _expect_record(self, wanted: int) -> None:
        """
        Have a record written at a time [ns, steady clock].

        A record that is already due is put off to that time, within a bound.
        """
        if self._due is None:
            self._due = max(wanted, self._next)
            stop = wanted - self._after_stop
            later = round(_LATER * _SECOND)
            self._latest = min(self._due + later, stop + self._span - round(_BEFORE * _SECOND))
        else:
            self._due = max(self._due, min(wanted, self._latest))
        self._next = self._due + round(_BETWEEN * _SECOND)


class Recorder(SerialNode):
    def __init__(self) -> None:
        super().__init__('recorder')
        self._writer: threading.Thread | None = None  # of the latest stop
        self._flight: FlightRecorder | None = None
        robot, motion, settings = declare_settings(
            self, RobotSettings, MotionSettings, RecorderSettings
        )
        refuse_if_served(self, ['~/save'])
        folder = user_path(settings.records_folder)
        self._folder = RecordFolder(
            folder, settings.max_records, settings.max_records_size * 1_000_000
        )
        self._writing = threading.Lock()
        self._missing = ''
        try:
            mcap_writer()
        except MissingPackage as error:
            self._missing = str(error)
            self.get_logger().warning(f'nothing is recorded: {error}')
        self.create_service(Trigger, '~/save', self._save)
        if self._missing:
            return
        self._flight = FlightRecorder(settings, _facts(robot, motion))
        topics = recorded_topics(robot.controller)
        self._polls = subscribe_all(self, topics, self._flight.take, _POLL)
        self.reader.every(_POLL, self._write_if_due)
        self.get_logger().info(
            f'the last {settings.record_duration:.0f} s are written to {folder} at each stop and '
            'on ~/save'
        )

    def destroy_node(self) -> None:
        """Write a stop that was not recorded yet, then end the node."""
        if self._flight and self._flight.has_stopped:
            self._begin_to_write()
        if self._writer:
            self._writer.join(_END)
        super().destroy_node()

    def _write_if_due(self) -> None:
        if self._flight and self._flight.is_due():
            self._begin_to_write()

    def _begin_to_write(self) -> None:
        self._writer = threading.Thread(target=self._write, args=(_STOP,), daemon=True)
        self._writer.start()

    async def _save(self, _request: Any, reply: Trigger.Response) -> Trigger.Response:
        reply.success, reply.message = (
            (False, self._missing) if self._missing else await self.in_pool(self._write, _SAVE)
        )
        return reply

    def _write(self, reason: str) -> tuple[bool, str]:
        """Write a record; return whether that succeeded, and its path or the error."""
        assert self._flight
        flight = self._flight

        def write(file: BinaryIO) -> None:
            with contextlib.suppress(InvalidHandle):  # the node ends
                for poll in self._polls:
                    poll()
            flight.write(file, reason)

        try:
            with self._writing:
                path = self._folder.add(reason, write)
                warning = one_line(self._folder.warning)
        except Exception as error:  # also one of the library: the next record may succeed
            text = one_line(error)
            with contextlib.suppress(Exception):  # the node may have ended meanwhile
                self.get_logger().error(text)
            return False, text
        with contextlib.suppress(Exception):
            self.get_logger().info(f'recorded: {path}')
            if warning:
                self.get_logger().warning(warning)
        return True, str(path)


def _facts(robot: RobotSettings, motion: MotionSettings) -> dict[str, Any]:
    """Return the facts of the arm; none if they cannot be known: the other nodes log why."""
    try:
        setup = load_cell(robot)
    except Ur5PickPlaceError:
        return {}
    facts = arm_facts(setup.model, setup.T_tool_tcp, motion_limits(setup.model, motion))
    return {'arm': {**facts, 'ur_type': robot.ur_type, 'mounting': robot.mounting}}


def main() -> None:
    """Run the node until it is shut down."""
    run_node(Recorder)


if __name__ == '__main__':
    main()
