# SPDX-License-Identifier: Apache-2.0
"""
Hand the messages of /tf and /tf_static to tf2, in a thread of its own.

Converting a message takes 0.1 ms and more per frame, 20 ms at 16 KB, and anybody may publish on
/tf. If the node's callbacks, a stop among them, had to wait for that, fifty tags of a camera would
make them late, and a flood far more so.

"""

import struct
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

from rclpy.node import Node
from tf2_msgs.msg import TFMessage

from ur5_pick_place.errors import one_line
from ur5_pick_place.nodes.ros.bounded_reader import BoundedReader

DEPTH = 250
"""Most messages of a topic that wait: 0.5 s of an e-Series."""

_LARGEST = 16_384  # [bytes] of a message: about 180 frames, which take 20 ms to convert
_MOST_KNOWN = 500  # sets of frames that are recognised
_MOST_FRAMES = 2000  # in tf2, which never forgets one
_MAX_LAG = 1.0  # [s] by which one kind of message may be behind another in time spent on it
# [s] Before the first conversion, so that the thread that started this one can go on; and the
# longest after a conversion.
_FIRST_PAUSE, _MAX_PAUSE = 5e-4, 0.05
_STATIC, _KNOWN, _NEW = range(3)


class TransformQueue:
    """
    Converts messages in a thread that runs while some are waiting.

    Of the messages with the same frames only the newest is converted. Sets of frames that were
    seen before take turns; among new ones the newest message is first, and the oldest of more
    than `DEPTH` is dropped. Both, and /tf_static, get the same share of the time, so that no flood
    of one delays the others for long. After each conversion the thread pauses for as long as that
    took, 50 ms at most, so that other threads get the interpreter.

    Parameters
    ----------
    node : Node
        For its log.
    buffer : tf2_ros.Buffer

    """

    def __init__(self, node: Node, buffer: Any) -> None:
        self._buffer, self._log = buffer, node.get_logger()
        self._reader = BoundedReader(node, TFMessage, '/tf', _LARGEST)
        self._static_reader = BoundedReader(node, TFMessage, '/tf_static', _LARGEST)
        self._changed = threading.Condition()  # guards the next four
        self._arrived: deque[bytes] = deque(maxlen=DEPTH)
        self._static: deque[bytes] = deque(maxlen=DEPTH)  # in order, none replaces another
        self._is_running = False  # the thread
        self._is_idle = True
        # Used by the thread alone: the newest message of each set of frames.
        self._known: dict[int, bytes] = {}
        self._new: dict[int, bytes] = {}
        self._seen: OrderedDict[int, None] = OrderedDict()  # those used last at the end
        self._spent = [0.0, 0.0, 0.0]  # [s] on each kind of message, less the least
        self._frames: set[str] = set()

    def add(self, waiting: Sequence[bytes]) -> None:
        """Take messages of /tf, oldest first; returns at once."""
        # One that is too large is not kept, but named in a warning.
        fitting = [d for d in waiting if len(d) <= _LARGEST or self._reader.read(d)]
        self._begin(self._arrived, fitting)

    def add_static(self, data: bytes) -> None:
        """Take a message of /tf_static; returns at once."""
        if len(data) <= _LARGEST or self._static_reader.read(data):
            self._begin(self._static, [data])

    def wait(self, seconds: float) -> None:
        """Return once all that was added is in tf2, or after `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_idle, seconds)

    def _begin(self, queue: 'deque[bytes]', added: Sequence[bytes]) -> None:
        if not added:
            return
        with self._changed:
            queue.extend(added)
            self._is_idle = False
            if self._is_running:
                return
            self._is_running = True
        # Not a daemon, which Python may end within C++ code, and so abort the process.
        threading.Thread(target=self._run, name='transforms', daemon=False).start()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while threading.main_thread().is_alive():
            time.sleep(pause)
            begin = time.monotonic()
            if not self._has_work():
                return
            try:
                self._convert_one()
            except Exception as error:  # of a library, for unforeseen content
                self._log.error(
                    f'error of this package, in TF: {one_line(error)}; please report it'
                )
            with self._changed:
                self._is_idle = not (self._arrived or self._static or self._known or self._new)
                self._changed.notify_all()
            pause = min(time.monotonic() - begin, _MAX_PAUSE)

    def _has_work(self) -> bool:
        """Sort what has arrived; return whether something waits, else the thread must end."""
        with self._changed:
            arrived = list(self._arrived)
            self._arrived.clear()
            self._is_running = bool(arrived or self._static or self._known or self._new)
            self._is_idle = not self._is_running
        for data in arrived:
            key = hash(_texts_of(data))
            if key in self._seen:
                self._seen.move_to_end(key)
                self._known[key] = data  # it keeps its turn
            else:
                self._new.pop(key, None)
                self._new[key] = data
        while len(self._new) > DEPTH:
            del self._new[next(iter(self._new))]
        return self._is_running

    def _convert_one(self) -> None:
        queues = (self._static, self._known, self._new)
        waiting = [kind for kind, queue in enumerate(queues) if queue]
        kind = min(waiting, key=self._spent.__getitem__)
        least = self._spent[kind]
        self._spent = [min(max(0.0, spent - least), _MAX_LAG) for spent in self._spent]
        begin = time.monotonic()
        if kind == _STATIC:
            self._give(self._static_reader, self._static.popleft(), is_static=True)
        elif kind == _KNOWN:
            self._give(self._reader, self._known.pop(next(iter(self._known))))
        else:
            key, data = self._new.popitem()
            self._seen[key] = None
            if len(self._seen) > _MOST_KNOWN:
                self._seen.popitem(last=False)
            self._give(self._reader, data)
        self._spent[kind] += time.monotonic() - begin

    def _give(self, reader: BoundedReader, data: bytes, is_static: bool = False) -> None:
        message = reader.read(data)
        set_transform = (
            self._buffer.set_transform_static if is_static else self._buffer.set_transform
        )
        for transform in message.transforms if message else ():
            if self._is_kept(transform.header.frame_id, transform.child_frame_id):
                set_transform(transform, 'default_authority')

    def _is_kept(self, *names: str) -> bool:
        new = {name for name in names if name not in self._frames}
        if new and len(self._frames) + len(new) > _MOST_FRAMES:
            self._log.warning(
                f'TF has more than {_MOST_FRAMES} frames: new ones are ignored, such as '
                f'{names[-1][:80]!r}; end the program that keeps publishing new names, then '
                'restart this node',
                throttle_duration_sec=10.0,
            )
            return False
        self._frames |= new
        return True


def _texts_of(data: bytes) -> bytes:
    """Return number, names and their lengths of a serialized TFMessage; empty if malformed."""
    order = '<' if len(data) > 1 and data[1] & 1 else '>'
    length_at = struct.Struct(f'{order}I').unpack_from
    texts, at = [data[:8]], 8
    try:
        for _ in range(length_at(data, 4)[0]):
            at += 8  # the stamp
            for _ in range(2):  # frame_id, child_frame_id
                start = at + -at % 4
                at = start + 4 + length_at(data, start)[0]
                texts.append(data[start:at])
            at += (4 - at) % 8 + 7 * 8  # the pose, aligned from the end of the header of 4 bytes
    except struct.error:
        return b''
    return b''.join(texts) if at <= len(data) else b''
