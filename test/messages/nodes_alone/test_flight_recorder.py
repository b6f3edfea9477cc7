# SPDX-License-Identifier: Apache-2.0
"""The flight recorder's memory is bounded, and its folder loses nothing to a full disk."""

import errno
import fcntl
import os
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import numpy as np
import pytest
import yaml
from rclpy.serialization import serialize_message
from recordings import CONTROLLER
from std_msgs.msg import String

from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.nodes.messages.conversions import joint_state_msg
from ur5_pick_place.nodes.recorder import node as recorder
from ur5_pick_place.nodes.recorder import record_folder
from ur5_pick_place.nodes.recorder.flight_memory import TopicMemory
from ur5_pick_place.nodes.recorder.node import FlightRecorder, RecorderSettings
from ur5_pick_place.nodes.recorder.record_folder import RecordFolder
from ur5_pick_place.nodes.recorder.recorded_topics import recorded_topics
from ur5_pick_place.nodes.ros.distro import TakenMessage

SECOND = 1_000_000_000


def message(second: float, size: int = 100, publisher: bytes = b'a') -> TakenMessage:
    at = round(second * SECOND)
    return TakenMessage(bytes(size), at, at, publisher)


def test_the_last_minute_is_kept_and_no_more():
    memory = TopicMemory(60 * SECOND, 10**6, is_latched=False)
    for second in range(200):
        memory.add([message(second)])
    older, recent, lost = memory.messages(199 * SECOND)
    assert [m.received // SECOND for m in recent] == list(range(139, 200))
    assert not older and not lost
    assert memory.messages(1000 * SECOND) == ([], [], 0)


def test_a_flood_fills_no_memory_and_is_owned_up_to():
    memory = TopicMemory(60 * SECOND, 10**6, is_latched=False)
    for i in range(0, 5000, 10):
        memory.add([message(k * 1e-3, size=5000) for k in range(i, i + 10)])
        assert memory.size <= 10**6
    _, recent, lost = memory.messages(5 * SECOND)
    assert len(recent) + lost == 5000 and 180 < len(recent) < 200
    assert recent[-1].received == 4_999_000_000


def test_one_message_that_is_too_large_costs_no_other():
    memory = TopicMemory(60 * SECOND, 10**6, is_latched=False)
    memory.add([message(1)])
    memory.add([message(2, size=2_000_000)])
    older, recent, lost = memory.messages(3 * SECOND)
    assert (older, [m.received for m in recent], lost) == ([], [SECOND], 1)


def test_the_last_of_each_latched_publisher_is_kept_however_old():
    memory = TopicMemory(60 * SECOND, 10**6, is_latched=True)
    for second, publisher in ((1, b'a'), (2, b'b'), (3, b'a'), (900, b'b')):
        memory.add([message(second, publisher=publisher)])
    older, recent, _ = memory.messages(910 * SECOND)
    assert [m.received // SECOND for m in older] == [3]
    assert [m.received // SECOND for m in recent] == [900]


def test_latched_publishers_without_number_are_bounded_too():
    memory = TopicMemory(SECOND, 10**6, is_latched=True)
    for i in range(3000):
        memory.add([message(10.0 * i, size=10_000, publisher=str(i).encode())])
        assert memory.size <= 10**6


def test_a_minute_of_an_e_series_fits_with_a_gripper_that_publishes_as_often():
    names = [f'left_{name}' for name in JOINT_NAMES], ['left_robotiq_85_left_knuckle_joint']
    data = [serialize_message(joint_state_msg(np.zeros(len(n)), n)) for n in names]
    data = [d + bytes(16 * len(n)) for d, n in zip(data, names, strict=True)]  # speed and effort
    (topic,) = [t for t in recorded_topics('a_controller') if t.name == 'joint_states']
    memory = TopicMemory(60 * SECOND, topic.most, is_latched=False)
    count = 5 * 60 * 500 // 4  # a quarter more than is needed
    for i in range(count):
        for d in data:
            memory.add([TakenMessage(d, i * 60 * SECOND // count, 0, b'a')])
    _, recent, lost = memory.messages(60 * SECOND)
    assert (len(recent), lost) == (2 * count, 0)
    assert sum(t.most for t in recorded_topics(CONTROLLER)) < 450e6, 'all topics together'


# -- stops ---------------------------------------------------------------------------------------


class Told:
    """
    A recorder that takes what is said as `(topic, text)`.

    It has clocks of its own; after each time that something is said, `patience` [s] go by.
    """

    def __init__(
        self, monkeypatch, behind: float = 0.0, patience: float = 100.0, **settings: float
    ) -> None:
        self.topics = {topic.name: topic for topic in recorded_topics('a_controller')}
        self._behind = round(behind * SECOND)
        self.now, self.steady, self._patience = time.time_ns(), 0, round(patience * SECOND)
        clocks = {'time_ns': lambda: self.now, 'monotonic_ns': lambda: self.steady}
        monkeypatch.setattr(recorder, 'time', SimpleNamespace(**clocks))
        self.recorder = FlightRecorder(RecorderSettings(**settings), {})

    def say(self, *rows: tuple[str, str | bytes]) -> bool:
        """Return whether what is said now makes a record."""
        taken = []
        for name, text in rows:
            self.now += SECOND // 100
            data = text if isinstance(text, bytes) else serialize_message(String(data=text))
            taken.append((name, TakenMessage(data, self.now, self.now - self._behind, b'a')))
        for name, message in sorted(taken, key=lambda row: row[0]):  # one topic after the other
            self.recorder.take(f'/{name}', self.topics[name], [message])
        is_due = self.recorder.is_due()
        self.steady += self._patience
        return self.recorder.is_due() or is_due


CONTROLLERS = 'a_controller', CONTROLLER, 'joint_trajectory_controller'
LATCHED, RELIABLE = 1, 1  # in numbers of rmw
PLANNER, TASK = 'trajectory_planner/motion_state', 'pick_place/state'
EVENT = 'trajectory_execution_event'


def test_reasons_that_change_before_the_robot_was_ever_ready_make_no_record(monkeypatch):
    told = Told(monkeypatch)
    for i in range(50):
        assert not told.say((PLANNER, f'stopped: joint_states silent for {i / 10:.2f} s'))
    assert not told.say((PLANNER, 'ready'))
    assert told.say((PLANNER, 'stopped: protective stop'))
    for reason in ('emergency stop', 'protective stop'):
        assert not told.say((PLANNER, f'stopped: {reason}')), 'one stop, one record'


@pytest.mark.parametrize('topic', [PLANNER, TASK])
def test_a_stop_counts_whatever_the_clock_of_the_planner_is(topic, monkeypatch):
    told = Told(monkeypatch, behind=3600.0)
    assert told.say((topic, 'idle' if topic == TASK else 'ready'), (topic, 'stopped: lost'))


def test_a_stop_is_recorded_after_the_clock_was_set_back_by_an_hour(monkeypatch):
    told = Told(monkeypatch)
    for _ in range(3):
        assert told.say((TASK, 'idle'), (TASK, 'stopped: by hand'))
        told.now -= 3600 * SECOND


def test_a_state_that_is_malformed_is_none(monkeypatch):
    told = Told(monkeypatch)
    told.say((PLANNER, 'ready'))
    for data in (b'', b'\0\1', b'\0\1\0\0\xff\xff\xff\xffready'):
        assert not told.say((PLANNER, data))
    assert told.say((PLANNER, 'stopped: lost'))


def test_what_was_stopped_before_the_recorder_began_makes_no_record(monkeypatch):
    told = Told(monkeypatch)
    assert not told.say((PLANNER, 'stopped: protective stop'), (TASK, 'stopped: protective stop'))


def test_a_stop_by_an_event_makes_one_record_for_each_motion(monkeypatch):
    told = Told(monkeypatch)
    told.say((PLANNER, 'ready'))
    for _ in range(2):
        assert not told.say((EVENT, 'pause'), (PLANNER, 'moving'))
        assert told.say((EVENT, 'stop'), (PLANNER, 'ready'))
        assert not told.say((EVENT, 'stop'), (EVENT, 'stop'))
    assert told.say((EVENT, 'stop'), (PLANNER, 'moving'), (EVENT, 'STOP')), 'in order of time'


@pytest.mark.parametrize(
    ('stops', 'due'),
    [
        ([0.0], 3.0),
        ([0.0, 2.5], 5.5),
        ([0.0, 2.5, 5.0], 8.0),
        ([2.0 * i for i in range(10)], 13.0),  # at most 10 s late
    ],
)
def test_a_record_that_is_due_waits_for_what_follows_a_further_stop(stops, due, monkeypatch):
    told = Told(monkeypatch, patience=0.1)
    for second in np.arange(0.0, 20.0, 0.1).round(1):
        rows = [(TASK, 'idle'), (TASK, 'stopped: by hand')] if second in stops else []
        if told.say(*rows):
            break
    assert second == pytest.approx(due, abs=0.15)


@pytest.mark.parametrize('after', [0.0, 3.0, 5.0])
def test_the_shortest_record_contains_its_first_stop_however_many_follow(after, monkeypatch):
    told = Told(monkeypatch, patience=0.1, record_duration=10.0, record_after_stop=after)
    first = 0.0
    for second in np.arange(0.0, 60.0, 0.1).round(1):
        first = first or second
        if told.say((TASK, 'idle'), (TASK, 'stopped: by hand')):
            assert second - first < 5.2, 'of the 10 s, half are before the first stop'
            first = 0.0


@pytest.mark.parametrize(('duration', 'after'), [(10.0, 60.0), (10.0, 5.1), (60.0, 60.0)])
def test_settings_with_which_no_record_contains_its_stop_are_refused(duration, after):
    with pytest.raises(InvalidInput) as error:
        RecorderSettings(record_duration=duration, record_after_stop=after)
    assert f'record_after_stop = {after:g}: must be at most {duration - 5:g} s' in str(error.value)
    assert f'record_duration = {duration:g}' in str(error.value)
    RecorderSettings(record_duration=duration, record_after_stop=duration - 5.0)


def test_what_late_viewers_need_is_replayed_to_them_by_rosbag2(tmp_path, monkeypatch):
    """As rosbags reads it, and as rosbag2 does: numbers until Iron, either form since."""
    highlevel = pytest.importorskip('rosbags.highlevel')
    from mcap.reader import make_reader

    told, path = Told(monkeypatch), tmp_path / 'record.mcap'
    told.say(*((name, '') for name in told.topics))
    with path.open('wb') as stream:
        told.recorder.write(stream, 'save')
    with highlevel.AnyReader([path]) as bag:
        profiles = {c.topic.strip('/'): c.ext.offered_qos_profiles for c in bag.connections}
    assert {topic for topic, (qos,) in profiles.items() if qos.durability.value == LATCHED} == {
        'io_and_status_controller/robot_mode', 'io_and_status_controller/safety_mode',
        'io_and_status_controller/robot_program_running', 'trajectory_planner/motion_state',
        'monitored_planning_scene', 'pick_place/state', 'pick_place/markers', 'tf_static',
        'robot_description',
        *(f'{name}/follow_joint_trajectory/_action/status' for name in CONTROLLERS),
    }  # fmt: skip
    assert all(qos.reliability.value == RELIABLE for (qos,) in profiles.values())
    with path.open('rb') as stream:
        channels = make_reader(stream).get_summary().channels.values()
        (profile,), *_ = (yaml.safe_load(c.metadata['offered_qos_profiles']) for c in channels)
    policies = ('history', 'reliability', 'durability', 'liveliness')
    assert all(isinstance(profile[policy], int) for policy in policies)
    assert profile['lifespan'] == profile['deadline'] == profile['liveliness_lease_duration']
    assert profile['lifespan']['sec'] * SECOND + profile['lifespan']['nsec'] == 2**63 - 1


# -- the folder ----------------------------------------------------------------------------------


def content(size: int = 1000) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        for _ in range(10):
            file.write(bytes(size // 10))

    return write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(('max_files', 'max_bytes', 'kept'), [(3, 10**6, 3), (100, 2500, 2)])
def test_the_newest_records_are_kept(tmp_path, max_files, max_bytes, kept):
    records = RecordFolder(tmp_path / 'a' / 'b', max_files, max_bytes)
    paths = [records.add('stop', content()) for _ in range(5)]
    assert names(tmp_path / 'a' / 'b') == [path.name for path in paths[-kept:]]
    large = records.add('save', content(9000))
    assert large.exists(), 'the newest is never removed'


def test_records_of_one_millisecond_are_told_apart_and_stay_in_order(tmp_path, monkeypatch):
    now = datetime(2026, 3, 1, tzinfo=timezone.utc)
    monkeypatch.setattr(record_folder, 'datetime', SimpleNamespace(now=lambda _zone: now))
    records = RecordFolder(tmp_path, max_files=9, max_bytes=10**6)
    written = [records.add('stop', content()).name for _ in range(3)]
    assert names(tmp_path) == written
    assert written[2] == 'record-2026-03-01T00-00-00.002Z-stop.mcap'


def test_nothing_but_records_is_ever_removed(tmp_path):
    (tmp_path / 'thesis.mcap').write_text('mine')
    (tmp_path / 'record-of-mine.mcap').mkdir()
    (tmp_path / 'record-crash-of-monday.mcap').write_text('kept by another name')
    records = RecordFolder(tmp_path, max_files=1, max_bytes=1)
    last = [records.add('stop', content()) for _ in range(3)][-1]
    assert names(tmp_path) == sorted(
        ['thesis.mcap', 'record-of-mine.mcap', 'record-crash-of-monday.mcap', last.name]
    )


def test_remains_of_a_recorder_that_was_killed_are_removed(tmp_path):
    (tmp_path / '.record-x.mcap.unfinished').write_text('half')
    record = RecordFolder(tmp_path, 3, 10**6).add('stop', content())
    assert names(tmp_path) == [record.name]


def test_a_file_that_cannot_be_removed_costs_no_record_and_the_next_oldest_goes(
    tmp_path, monkeypatch
):
    records = RecordFolder(tmp_path, max_files=3, max_bytes=10**6)
    first = [records.add('stop', content()).name for _ in range(3)]
    assert not records.warning
    kept = {'.record-x.mcap.unfinished', first[0]}
    (tmp_path / '.record-x.mcap.unfinished').write_text('half')
    unlink = Path.unlink

    def unlink_others(path: Path, missing_ok: bool = False) -> None:
        if path.name in kept:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, 'unlink', unlink_others)
    newer = [records.add('stop', content()).name for _ in range(2)]
    assert names(tmp_path) == sorted([*kept, *newer])
    for name in kept:
        assert f'{tmp_path / name} cannot be removed (Operation not permitted)' in records.warning
    monkeypatch.undo()
    newest = records.add('stop', content()).name
    assert names(tmp_path) == sorted([*newer, newest]) and not records.warning


@pytest.mark.parametrize('where', ['write', 'fsync', 'rename'])
def test_a_full_disk_costs_no_older_record(where, tmp_path, monkeypatch):
    records = RecordFolder(tmp_path, max_files=2, max_bytes=10**6)
    kept = [records.add('stop', content()).name for _ in range(2)]

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(file: BinaryIO) -> None:
        content()(file)
        if where == 'write':
            full()

    if where != 'write':
        monkeypatch.setattr(record_folder.os, where, full)
    with pytest.raises(ExecutionError, match='No space left on device.*older records were kept'):
        records.add('stop', write)
    monkeypatch.undo()
    assert names(tmp_path) == kept
    newest = records.add('stop', content())
    assert names(tmp_path) == [kept[1], newest.name]


def test_a_recorder_that_hangs_does_not_hold_up_another(tmp_path, monkeypatch):
    monkeypatch.setattr(record_folder, '_TIMEOUT', 0.2)
    hanging = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(hanging, fcntl.LOCK_EX)
    try:
        with pytest.raises(ExecutionError, match='another recorder has been writing') as refused:
            RecordFolder(tmp_path, 2, 10**6).add('stop', content())
    finally:
        os.close(hanging)
    assert 'wait until it has finished' in str(refused.value)
    assert str(tmp_path) in str(refused.value) and 'space' not in str(refused.value)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(ExecutionError, match=r'no record was written to .*/file/records'):
        RecordFolder(tmp_path / 'file' / 'records', 2, 10**6).add('stop', content())
