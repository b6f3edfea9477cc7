# SPDX-License-Identifier: Apache-2.0
"""Read recordings, as far as they are intact: MCAP files, and folders of rosbag2."""

import contextlib
import importlib
import io
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ur5_pick_place.errors import InvalidInput, MissingPackage, one_line

_SUFFIXES = ('.mcap', '.db3')
_COMPRESSED = ('.zstd', '.zst')
_PART = re.compile(r'_\d+$')  # of a bag that rosbag2 has split
_RECORD = re.compile(r'record-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3})Z')
_ONE_RECORDING = ('metadata.yaml', 'result.json')  # of rosbag2 and of a demo
_MOST_NAMED = 5
_FACTS = 'ur5_pick_place'  # as nodes.mcap_file.FACTS, which needs ROS
_ZSTD = b'\x28\xb5\x2f\xfd'  # how a message begins that rosbag2 has compressed; CDR begins with 0
_LONGEST = 2**26  # [bytes] of a message
_MOST = 4_000_000  # messages that are read; more would fill the memory


class _FullError(Exception):
    """As many messages as this command takes were read."""


@dataclass
class Recording:
    """
    Messages of a recording, not decoded yet.

    Attributes
    ----------
    messages : dict of str to list of (int, bytes)
        By topic: log time [ns] and CDR, in order of time; only the requested topics.
    counts : dict of str to int
        Number of messages of every topic.
    types : dict of str to str
        Type of each topic, such as `sensor_msgs/msg/JointState`.
    definitions : dict of str to str
        Text of each type in the form of `ros2msg`.
    facts : list of dict
        What the demo or the recorder added.
    problems : list of str
        What could not be read; empty for an intact recording.
    begin, end : int
        Log times of the first and last message [ns]; 0 if there are none.

    """

    messages: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    facts: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    begin: int = 0
    end: int = 0
    _kept: int = 0

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
            decoder: Any = DecoderFactory().decoder_for('cdr', schema)
        if decoder is None:
            raise InvalidInput(f'{kind}: its definition cannot be read')
        found: Callable[[bytes], Any] = decoder
        return found

    def _add(self, topic: str, log_time: int, data: bytes, is_wanted: bool) -> None:
        if self._kept >= _MOST:
            raise _FullError
        self.counts[topic] = self.counts.get(topic, 0) + 1
        self.begin = min(self.begin or log_time, log_time)
        self.end = max(self.end, log_time)
        if is_wanted:
            self._kept += 1
            self.messages.setdefault(topic, []).append((log_time, _decompressed(data)))

    def _note_lost(self) -> None:
        """Add the messages that the recorder reports as lost to the problems."""
        for facts in self.facts:
            lost = facts.get('lost')
            if not isinstance(lost, dict) or not lost:
                continue
            parts = [one_line(f'{count} of {topic}') for topic, count in lost.items()]
            more = f' and {len(parts) - _MOST_NAMED} more topics' * (len(parts) > _MOST_NAMED)
            self.problems.append(
                "messages that did not fit the recorder's memory are missing, the oldest first: "
                f'{", ".join(parts[:_MOST_NAMED])}{more}'
            )


def newest_recording(path: Path) -> tuple[Path, str]:
    """
    Return the newest file of a folder that holds several recordings, and what else is there.

    Returns
    -------
    path : Path
        As given if it is a file, or a folder that holds one recording.
    note : str
        Which others there are; empty if none.

    """
    if not path.is_dir() or any((path / name).exists() for name in _ONE_RECORDING):
        return path, ''
    files = sorted(_files_in(path, _SUFFIXES), key=_time_of, reverse=True)
    stems = {_PART.sub('', file.stem) for file in files}
    if len(files) < 2 or (len(stems) == 1 and all(_PART.search(file.stem) for file in files)):
        return path, ''
    newest, *others = files
    more = len(others) - _MOST_NAMED
    names = ', '.join(file.name for file in others[:_MOST_NAMED])
    tail = f' and {more} more' if more > 0 else ''
    return newest, (
        f'{path} holds {len(files)} recordings: this is the newest, {newest.name}; others: '
        f'{names}{tail}'
    )


def recording_files(path: Path) -> list[Path]:
    """
    Return the files of the recording in a folder, or a file itself, in order of their numbers.

    Raises
    ------
    InvalidInput
        It is compressed as a whole, or is no recording by its name or its kind of file.

    """
    if not path.is_dir():
        if path.suffix not in _SUFFIXES and path.suffix not in _COMPRESSED:
            raise InvalidInput(f'{path}: must be a folder, or end in {" or ".join(_SUFFIXES)}')
        if not path.is_file():
            raise InvalidInput(f'{path}: is a pipe or a device: must be a folder or a file')
        files, compressed = [path], [path] if path.suffix in _COMPRESSED else []
    else:
        files = _files_in(path, _SUFFIXES)
        compressed = [f for f in _files_in(path, _COMPRESSED) if f.with_suffix('') not in files]
        if files and not (path / 'metadata.yaml').exists():
            compressed = []  # another recording
    if compressed:
        raise InvalidInput(
            f'{compressed[0]}: is compressed: decompress it first, with `unzstd '
            f'{compressed[0].name}`, or convert the bag with `ros2 bag convert`'
        )
    return sorted(files, key=lambda file: [int(n) for n in re.findall(r'\d+', file.stem)])


def _files_in(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    return [file for file in folder.iterdir() if file.suffix in suffixes and file.is_file()]


def _time_of(file: Path) -> float:
    """Return when a record was written [s]: from its name, as a copy has another file time."""
    if stamp := _RECORD.match(file.name):
        with contextlib.suppress(ValueError):
            time = datetime.strptime(stamp[1], '%Y-%m-%dT%H-%M-%S.%f')
            return time.replace(tzinfo=timezone.utc).timestamp()
    return file.stat().st_mtime


def read_recording(files: Sequence[Path], is_wanted: Callable[[str], bool]) -> Recording:
    """
    Return what can be read of the files of one recording; `is_wanted` chooses topics.

    Raises
    ------
    MissingPackage
        `mcap` or `mcap-ros2-support` is not installed.

    """
    try:
        import mcap.records  # noqa: F401
        import mcap_ros2.decoder  # noqa: F401
    except ImportError as error:
        raise MissingPackage(
            f'recordings cannot be read ({error}): pip install mcap mcap-ros2-support'
        ) from error
    recording = Recording()
    for file in files:
        before = recording.count
        try:
            if file.suffix == '.db3':
                _read_sqlite(file, recording, is_wanted)
            else:
                _read_mcap(file, recording, is_wanted)
        except _FullError:
            recording.problems.append(
                f'{file} has more than {_MOST} messages of the robot: only these were read'
            )
        except Exception as error:  # of the libraries, for damaged files
            read = recording.count - before
            reason = one_line(error) or type(error).__name__
            recording.problems.append(
                f'{file} is damaged or incomplete ({reason}): {read} messages could be read'
            )
    for rows in recording.messages.values():
        rows.sort(key=lambda row: row[0])
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
    from mcap.exceptions import EndOfFile
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
        except EndOfFile as error:
            raise InvalidInput('it ends early') from error
    records.take_waiting()
    if damaged:
        raise InvalidInput(f'{damaged} of {chunks} chunks are damaged')


class _McapRecords:
    """Takes the records of an MCAP file into a recording."""

    def __init__(self, recording: Recording, is_wanted: Callable[[str], bool]) -> None:
        self._recording, self._is_wanted = recording, is_wanted
        self._schemas: dict[int, Any] = {}
        self._topics: dict[int, tuple[str, bool]] = {}
        # Their channel was in a damaged chunk, and is in the summary too.
        self._waiting: list[Any] = []

    def take(self, record: Any) -> None:
        from mcap.records import Channel, Message, Metadata, Schema

        if isinstance(record, Message):
            self._take_message(record)
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
        schema = self._schemas.get(channel.schema_id)  # 0 = none, as of JSON
        if schema is None:
            self._topics[channel.id] = (channel.topic, False)
            self._recording.types.setdefault(channel.topic, '')
            return
        self._topics[channel.id] = (channel.topic, self._is_wanted(channel.topic))
        self._recording.types.setdefault(channel.topic, schema.name)
        if schema.encoding == 'ros2msg':
            text = schema.data.decode(errors='replace')
            self._recording.definitions.setdefault(schema.name, text)


def _read_sqlite(path: Path, recording: Recording, is_wanted: Callable[[str], bool]) -> None:
    with contextlib.closing(_open_sqlite(path)) as database:
        topics: dict[int, tuple[str, bool]] = {}
        for number, name, kind in database.execute('SELECT id, name, type FROM topics'):
            topics[number] = (str(name), is_wanted(str(name)))
            recording.types.setdefault(str(name), str(kind))
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
    if not path.is_file():
        raise InvalidInput('no such file')
    name = f'file:{quote(str(path.resolve()))}?mode=ro'
    database = sqlite3.connect(name, uri=True)
    try:
        database.execute('SELECT 1 FROM topics')
    except sqlite3.OperationalError:  # a journal beside it, in a folder that is read-only
        database.close()
        database = sqlite3.connect(f'{name}&immutable=1', uri=True)
    return database


def _installed_definition(kind: str) -> str:
    """Return the definition of a type as installed with ROS, for recordings without it."""
    package, _, name = kind.partition('/msg/')
    try:
        from ur5_pick_place.nodes.recorder.mcap_file import schema_text

        return schema_text(getattr(importlib.import_module(f'{package}.msg'), name))
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f'{kind}: the recording lacks its definition, and it is not installed ({error})'
        ) from error
