# SPDX-License-Identifier: Apache-2.0
"""Read recordings, as far as they are intact: MCAP files, and folders of rosbag2."""

import contextlib
import importlib
import io
import json
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from ur5_pick_place.errors import InvalidInput, MissingPackage, one_line, text_of

_SUFFIXES = ('.mcap', '.db3')
_COMPRESSED = ('.zstd', '.zst')
_PART = re.compile(r'_(\d+)$')  # of a bag that rosbag2 has split
_RECORD = re.compile(r'record-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z)')
_METADATA = 'metadata.yaml'
_FILES = re.compile(r'^ *relative_file_paths:.*(?:\n *- .*)*', re.MULTILINE)
_COUNT = re.compile(r'^  message_count: (\d{1,18})\s*$', re.MULTILINE)  # of the whole bag
_LARGEST_METADATA = 2**24  # [bytes]
_CDR = 'cdr'
_MOST_NAMED = 5
_MISSING = 'missing here, with all messages in it: copy the bag again'
_FACTS = 'ur5_pick_place'  # as nodes.mcap_file.FACTS, which needs ROS
_ZSTD = b'\x28\xb5\x2f\xfd'  # how a message begins that rosbag2 has compressed; CDR begins with 0
_LONGEST = 2**26  # [bytes] of a message
_STEP = 600_000_000_000  # [ns] between two messages of a recording
_MOST = 4_000_000  # messages that are read; more would fill the memory


class _FullError(Exception):
    """As many messages as this command takes were read."""


@dataclass
class Recording:
    """Messages of a recording, not decoded yet."""

    # by topic: log time [ns] and CDR, in order of time; only the requested topics
    messages: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # number of messages of every topic
    # type of each topic, such as `sensor_msgs/msg/JointState`
    types: dict[str, str] = field(default_factory=dict)
    # text of each type in the form of `ros2msg`
    definitions: dict[str, str] = field(default_factory=dict)
    # what the demo or the recorder added
    facts: list[dict[str, Any]] = field(default_factory=list)
    # what could not be read; empty for an intact recording
    problems: list[str] = field(default_factory=list)
    # log times of the first and last message [ns]; 0 if there are none
    begin: int = 0
    end: int = 0
    _kept: int = 0
    _last: int = 0  # log time of the last message that was read [ns]
    _step: int = 0  # the longest between two messages, of those beyond `_STEP` [ns]
    _unread: dict[str, set[str]] = field(default_factory=dict)  # topics, by why they are not read

    @property
    def count(self) -> int:
        """Number of messages of all topics."""
        return sum(self.counts.values())

    def decoded(self, topic: str) -> Iterator[tuple[int, Any]]:
        """Yield log time [ns] and message of a topic; malformed ones are left out and counted."""
        rows = self.messages.get(topic, [])
        bad = 0
        try:
            decode = self._decoder(self.types[topic]) if rows else None
        except Exception as error:  # of the library, for a damaged definition
            self.problems.append(f'{topic}: {one_line(error)}')
            return
        for log_time, data in rows:
            try:
                assert decode is not None
                message = decode(data)
            except Exception:  # of the library, for damaged bytes
                bad += 1
                continue
            yield log_time, message
        if bad:
            self.problems.append(f'{topic}: {bad} of {len(rows)} messages are malformed')

    def _decoder(self, kind: str) -> Callable[[bytes], Any]:
        from mcap.records import Schema
        from mcap_ros2.decoder import DecoderFactory

        text = self.definitions.get(kind) or _installed_definition(kind)
        schema = Schema(id=1, name=kind, encoding='ros2msg', data=text.encode())
        with contextlib.redirect_stderr(io.StringIO()):  # the library prints, and raises too
            found: Any = DecoderFactory().decoder_for('cdr', schema)
        decoder: Callable[[bytes], Any] = found
        return decoder

    def _add(self, topic: str, log_time: int, data: bytes, is_wanted: bool) -> None:
        if self._kept >= _MOST:
            raise _FullError
        self.counts[topic] = self.counts.get(topic, 0) + 1
        step = log_time - (self._last or log_time)
        if abs(step) > max(_STEP, abs(self._step)):
            self._step = step
        self._last = log_time
        self.begin = min(self.begin or log_time, log_time)
        self.end = max(self.end, log_time)
        if is_wanted:
            self._kept += 1
            self.messages.setdefault(topic, []).append((log_time, _decompressed(data)))

    def _accepts(self, topic: str, kind: str, encoding: str) -> bool:
        """Return whether messages of a topic can be read; if not, keep the reason."""
        if encoding != _CDR:
            why = f'has messages in the encoding {encoding!r}, and only CDR of ROS 2 can be read'
        elif not kind:
            why = 'has messages without a type'
        elif (known := self.types.setdefault(topic, kind)) != kind:
            why = f'has messages of another type, {kind}, beside {known}'
        else:
            return True
        self._unread.setdefault(why, set()).add(topic)
        return False

    def _note_unread(self) -> None:
        """Add the topics whose messages cannot be read to the problems."""
        for why, topics in self._unread.items():
            self.problems.append(
                f'{_named(sorted(topics))} {why}: record with `ros2 bag record`, or convert a '
                'ROS 1 bag with `rosbags-convert`'
            )

    def _note_lost(self) -> None:
        """Add the messages that the recorder reports as lost to the problems."""
        for facts in self.facts:
            lost = facts.get('lost')
            if isinstance(lost, dict) and lost:
                parts = [one_line(f'{count} of {topic}') for topic, count in lost.items()]
                self.problems.append(
                    "messages that did not fit the recorder's memory are missing, the oldest "
                    f'first: {_named(parts)}'
                )


def _named(things: Sequence[str]) -> str:
    """Return the first things as text, and how many more there are."""
    more = len(things) - _MOST_NAMED
    return ', '.join(things[:_MOST_NAMED]) + (f' and {more} more' if more > 0 else '')


def newest_recording(path: Path) -> tuple[Path, str]:
    """
    Return the newest file of a folder that holds several recordings, and what else is there.

    Returns `path` as given if it is a file, or a folder that holds one recording; the note is
    empty if there are no others.
    """
    if not path.is_dir() or (path / _METADATA).exists():
        return path, ''
    files = sorted(_files_in(path, _SUFFIXES), key=_time_of, reverse=True)
    stems = {_PART.sub('', file.stem) for file in files}
    if len(files) < 2 or (len(stems) == 1 and all(_PART.search(file.stem) for file in files)):
        return path, ''
    newest, *others = files
    return newest, (
        f'{path} holds {len(files)} recordings: this is the newest, {newest.name}; others: '
        f'{_named([file.name for file in others])}'
    )


def recording_files(path: Path) -> list[Path]:
    """
    Return the files of the recording in a folder, or a file itself, in order of their numbers.

    Of a folder whose metadata name its files, only these.

    Raises `InvalidInput`: it is compressed as a whole, is no recording by its name or its kind of
    file, or lacks all files that its metadata name.
    """
    if not path.is_dir():
        return [_recording_file(path)]
    files = _files_in(path, _SUFFIXES)
    named = _files_of_bag(path)
    compressed = [f for f in _files_in(path, _COMPRESSED) if f.with_suffix('') not in files]
    if compressed and not (files and not (path / _METADATA).exists()):  # another recording
        raise _compressed(compressed[0])
    if not files:
        if named:
            raise InvalidInput(f'{path / _METADATA} names {_named(named)}, {_MISSING}')
        if bags := _files_in(path, ['.bag']):
            return [_recording_file(bags[0])]
    files = [file for file in files if file.name in named] or files
    return sorted(files, key=lambda file: [int(n) for n in re.findall(r'\d+', file.stem)])


def _recording_file(path: Path) -> Path:
    if path.suffix in _COMPRESSED:
        raise _compressed(path)
    if path.suffix not in _SUFFIXES:
        cure = ': convert it with `rosbags-convert`' if path.suffix == '.bag' else ''
        raise InvalidInput(f'{path}: must be a folder, or end in {" or ".join(_SUFFIXES)}{cure}')
    if not path.is_file():
        raise InvalidInput(f'{path}: is a pipe or a device: must be a folder or a file')
    return path


def _compressed(path: Path) -> InvalidInput:
    return InvalidInput(
        f'{path}: is compressed: decompress it first, with `unzstd {path.name}`, or convert the '
        'bag with `ros2 bag convert`'
    )


def _metadata(folder: Path) -> str:
    path = folder / _METADATA
    if not path.is_file():  # none, or a pipe, which would keep us
        return ''
    try:
        with path.open(encoding='utf-8') as file:
            return file.read(_LARGEST_METADATA)
    except (OSError, ValueError):
        return ''


def _files_of_bag(folder: Path) -> list[str]:
    """Return the names of its files that the metadata of a bag list, as if decompressed."""
    found = _FILES.search(_metadata(folder))
    try:
        names = yaml.safe_load(found[0])['relative_file_paths'] if found else []
        return [Path(re.sub(r'\.zstd?$', '', str(name))).name for name in names or []]
    except (ValueError, TypeError, RecursionError, yaml.YAMLError):
        return []


def _missing_parts(folder: Path, files: Sequence[Path]) -> list[str]:
    """Return what is amiss with the files of a bag, by its metadata or their numbers."""
    there = {file.name for file in files}
    if named := _files_of_bag(folder):
        missing = [name for name in named if name not in there]
    else:  # its recorder was killed
        numbers = sorted(int(part[1]) for file in files if (part := _PART.search(file.stem)))
        absent = [n for a, b in pairwise(numbers) for n in islice(range(a + 1, b), _MOST)]
        stem, suffix = _PART.sub('', files[0].stem), files[0].suffix
        missing = [f'{stem}_{number}{suffix}' for number in absent]
    source = f'{_METADATA} names' if named else 'the numbers of its files imply'
    problems = [f'{folder}: {source} {_named(missing)}, {_MISSING}'] * bool(missing)
    present = sorted(file.name for file in _files_in(folder, _SUFFIXES))
    if left_out := [name for name in present if name not in there]:
        problems.append(f'{folder}: {_METADATA} does not name {_named(left_out)}: left out')
    return problems


def _files_in(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    return [file for file in folder.iterdir() if file.suffix in suffixes and file.is_file()]


def _time_of(file: Path) -> float:
    """Return when a record was written [s]: from its name, as a copy has another file time."""
    if stamp := _RECORD.match(file.name):
        with contextlib.suppress(ValueError):
            return datetime.strptime(stamp[1], '%Y-%m-%dT%H-%M-%S.%f%z').timestamp()
    return file.stat().st_mtime


def read_recording(path: Path, is_wanted: Callable[[str], bool]) -> Recording:
    """
    Return what can be read of a recording, a file or a folder; `is_wanted` chooses topics.

    Raises `InvalidInput`: as `recording_files`; `MissingPackage`: `mcap` or `mcap-ros2-support` is
    not installed.
    """
    try:
        import mcap.records  # noqa: F401
        import mcap_ros2.decoder  # noqa: F401
    except ImportError as error:
        raise MissingPackage(
            f'recordings cannot be read ({error}): pip install mcap mcap-ros2-support'
        ) from error
    files = recording_files(path)
    recording = Recording()
    if path.is_dir() and files:
        recording.problems += _missing_parts(path, files)
    for file in files:
        before = recording.count
        try:
            read_file = _read_sqlite if file.suffix == '.db3' else _read_mcap
            read_file(file, recording, is_wanted)
        except _FullError:
            recording.problems.append(
                f'{file} has more than {_MOST} messages of the robot: only these were read'
            )
        except Exception as error:  # of the libraries, for damaged files
            read = recording.count - before
            recording.problems.append(
                f'{file} is damaged or incomplete ({text_of(error)}): {read} messages could '
                'be read'
            )
    counted = _COUNT.search(_metadata(path))
    if counted and not recording.problems and (lost := int(counted[1]) - recording.count) > 0:
        recording.problems.append(
            f'{path}: {lost} messages that {_METADATA} counts are missing: copy the bag again'
        )
    for rows in recording.messages.values():
        rows.sort(key=lambda row: row[0])
    if step := recording._step:
        recording.problems.append(
            f'{path}: the times of its messages jump by {1e-9 * step:.0f} s, as after a pause of '
            'the recorder or when a clock is set: durations and order may be wrong'
        )
    recording._note_unread()
    recording._note_lost()
    return recording


def _decompressed(data: bytes) -> bytes:
    """Return a message of a bag with `compression_mode: MESSAGE` as it was; others as they are."""
    if not data.startswith(_ZSTD):
        return data
    import zstandard  # comes with mcap

    with contextlib.suppress(zstandard.ZstdError):
        if zstandard.frame_content_size(data) <= _LONGEST:
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=_LONGEST)
    return data


def _read_mcap(path: Path, recording: Recording, is_wanted: Callable[[str], bool]) -> None:
    from mcap.exceptions import EndOfFile, RecordLengthLimitExceeded
    from mcap.records import Chunk
    from mcap.stream_reader import StreamReader, breakup_chunk

    records = _McapRecords(recording, is_wanted)
    chunks = damaged = 0
    with path.open('rb') as file:
        # No record is longer than the file: a damaged length would else fill the memory.
        size = max(path.stat().st_size, 1)
        reader = StreamReader(file, emit_chunks=True, record_size_limit=size)
        try:
            for record in reader.records:
                if not isinstance(record, Chunk):
                    records.take(record)
                    continue
                chunks += 1
                try:
                    if record.uncompressed_size > 64 * size + 2**24:
                        raise InvalidInput('size')
                    for inner in breakup_chunk(record, validate_crc=True):
                        records.take(inner)
                except _FullError:
                    raise
                except Exception:  # of the library; the next chunk may be intact
                    damaged += 1
        except (EndOfFile, RecordLengthLimitExceeded, struct.error) as error:
            raise InvalidInput('it ends early') from error
    records.take_waiting()
    if damaged:
        raise InvalidInput(f'{damaged} of {chunks} chunks are damaged')
    if records.lost > 0:
        raise InvalidInput(f'{records.lost} messages that its summary counts are missing')


class _McapRecords:
    """Takes the records of an MCAP file into a recording."""

    def __init__(self, recording: Recording, is_wanted: Callable[[str], bool]) -> None:
        self._recording, self._is_wanted = recording, is_wanted
        self._schemas: dict[int, Any] = {}
        self._topics: dict[int, tuple[str, bool]] = {}
        # Their channel was in a damaged chunk, and is in the summary too.
        self._waiting: list[Any] = []
        self.lost = 0  # messages that the summary at the end counts and that were not there

    def take(self, record: Any) -> None:
        from mcap.records import Channel, Message, Metadata, Schema, Statistics

        if isinstance(record, Message):
            self.lost -= 1
            self._take_message(record)
        elif isinstance(record, Statistics):
            self.lost += record.message_count
        elif isinstance(record, Schema):
            self._schemas[record.id] = record
        elif isinstance(record, Channel):
            self._take_channel(record)
        elif isinstance(record, Metadata) and record.name == _FACTS:
            with contextlib.suppress(ValueError, RecursionError):
                facts = {key: json.loads(text) for key, text in record.metadata.items()}
                self._recording.facts.append(facts)

    def take_waiting(self) -> None:
        """Take the messages whose channel came after them; those without are left out."""
        for message in self._waiting:
            if message.channel_id in self._topics:
                self._take_message(message)

    def _take_message(self, message: Any) -> None:
        if message.channel_id in self._topics:
            topic, wanted = self._topics[message.channel_id]
            self._recording._add(topic, message.log_time, message.data, wanted)
        else:
            self._waiting.append(message)

    def _take_channel(self, channel: Any) -> None:
        schema: Any = self._schemas.get(channel.schema_id)  # 0 = none, as of JSON
        topic, kind = channel.topic, schema.name if schema else ''
        is_read = self._is_wanted(topic) and self._recording._accepts(
            topic, kind, channel.message_encoding
        )
        self._topics[channel.id] = (topic, is_read)
        if is_read and schema.encoding == 'ros2msg':
            text = schema.data.decode(errors='replace')
            self._recording.definitions.setdefault(kind, text)


def _read_sqlite(path: Path, recording: Recording, is_wanted: Callable[[str], bool]) -> None:
    with contextlib.closing(_open_sqlite(path)) as database:
        topics: dict[int, tuple[str, bool]] = {}
        rows = database.execute('SELECT id, name, type, serialization_format FROM topics')
        for number, *words in rows:
            name, kind, encoding = map(str, words)
            topics[number] = (name, is_wanted(name) and recording._accepts(name, kind, encoding))
        with contextlib.suppress(sqlite3.OperationalError):  # before ROS 2 Iron
            for kind, encoding, text in database.execute(
                'SELECT topic_type, encoding, encoded_message_definition FROM message_definitions'
            ):
                if encoding == 'ros2msg':
                    recording.definitions.setdefault(str(kind), str(text))
        rows = database.execute('SELECT topic_id, timestamp, data FROM messages ORDER BY id')
        for number, log_time, data in rows:
            topic, wanted = topics[number]
            recording._add(topic, int(log_time), bytes(data), wanted)


def _open_sqlite(path: Path) -> sqlite3.Connection:
    name = f'file:{quote(str(path.resolve()))}?mode=ro'
    database = sqlite3.connect(name, uri=True)
    try:
        database.execute('SELECT 1 FROM topics')
    except sqlite3.OperationalError:  # a journal beside it, in a folder that is read-only
        database.close()
        database = sqlite3.connect(f'{name}&immutable=1', uri=True)
    except sqlite3.DatabaseError:  # cut short: with this, what is left can be read
        database.execute('PRAGMA writable_schema=ON')
    return database


def _installed_definition(kind: str) -> str:
    """Return the definition of a type as installed with ROS, for recordings without it."""
    package, _, name = kind.partition('/msg/')
    try:
        from ur5_pick_place.nodes.recorder.mcap_file import schema_text

        return schema_text(getattr(importlib.import_module(f'{package}.msg'), name))
    except (ImportError, AttributeError, LookupError, OSError, ValueError) as error:
        raise InvalidInput(
            f'{kind}: the recording lacks its definition, and it is not installed ({error})'
        ) from error
