# SPDX-License-Identifier: Apache-2.0
"""
The transforms of /tf and /tf_static: the newest ones, and those of the last seconds.

A message is read straight from its bytes, in microseconds, and its numbers become a pose only when
somebody asks for it. Anybody may publish on /tf: of a flood the small messages are read first, and
those for which a few milliseconds are not enough are left out.
"""

import itertools
import math
import struct
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage

from ur5_pick_place.errors import InvalidInput, UnknownFrame, quoted
from ur5_pick_place.kinematics.transforms import Array, exp_so3, inverse_transform, log_so3
from ur5_pick_place.nodes.messages.conversions import numbers_to_matrix
from ur5_pick_place.nodes.ros.distro import TakenMessage
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.tf.timeline import NoHistory, Timeline

_DEPTH = 250  # messages that wait for a poll: 0.5 s of an e-Series
_STATIC = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_PERIOD = 0.1  # [s] between two polls of /tf, besides those of requests
_POLL_BUDGET = 0.003  # [s] of a poll: 250 messages of 10 frames; fewer if they are larger
_READ_BUDGET = 0.01  # [s] for reading what a poll took
_LARGEST = 16_384  # [bytes] of a message, about 180 frames
_MOST_FRAMES = 2000
_SAMPLES = 200  # of a frame
_WARNING_PERIOD = 10.0  # [s]


class Transform(NamedTuple):
    """The pose of a frame in its parent: position and quaternion x, y, z, w."""

    parent: str
    numbers: tuple[float, ...]

    def pose(self) -> Array:
        """Return T_parent_frame (4, 4); raises `InvalidInput` if that is not a pose."""
        return numbers_to_matrix(np.array(self.numbers))


class TransformStore:
    """
    Receives and keeps transforms; safe to share between threads.

    `node`: listens to TF through this node. `keep`: time for which the transforms of a moving
    frame are kept [s].
    """

    def __init__(self, node: SerialNode, keep: float) -> None:
        self._log, self._keep = node.get_logger(), keep
        self._static: dict[str, Transform] = {}
        self._moving: dict[str, Timeline[Transform]] = {}
        self._arrived: dict[str, float] = {}  # steady time of the latest one [s], by frame
        self._names: set[str] = set()
        # Raw, as rclpy converts a message of any size, and each at once.
        node.create_subscription(TFMessage, '/tf_static', self.add_static, _STATIC, raw=True)
        self._poll = node.reader.subscribe(
            TFMessage, '/tf', self._take, QoSProfile(depth=_DEPTH), _PERIOD, _POLL_BUDGET
        )

    def refresh(self, seconds: float) -> None:
        """Read the messages that are queued, in one poll or in as many as fit into `seconds`."""
        deadline = time.monotonic() + seconds
        while self._poll() and time.monotonic() < deadline:
            pass

    def _take(self, waiting: Sequence[TakenMessage]) -> None:
        self.add([message.data for message in waiting])

    def add(self, waiting: Sequence[bytes]) -> None:
        """Read messages of /tf."""
        end = time.monotonic() + _READ_BUDGET
        problem = ''
        found: dict[int, list[tuple[str, float, Transform]]] = {}
        for i in sorted(range(len(waiting)), key=lambda i: (len(waiting[i]), -i)):
            if time.monotonic() > end:
                problem = 'there is more than can be read, some messages were ignored'
                break
            try:
                found[i] = self._read(waiting[i])
            except InvalidInput as error:
                problem = str(error)
        # In the order in which they were sent: to a timeline, older ones after newer are a reset.
        for child, stamp, transform in itertools.chain(*(found[i] for i in sorted(found))):
            if stamp >= 0.0:
                self._static.pop(child, None)
                known = self._moving.get(child) or Timeline(self._keep, _SAMPLES)
                known.add(stamp, transform)
                self._arrived[child] = time.monotonic()
                self._moving[child] = known
        if problem:
            self._warn(f'/tf: {problem}; list its publishers: ros2 topic info -v /tf')

    def add_static(self, data: bytes) -> None:
        """Read a message of /tf_static."""
        try:
            found = self._read(data)
        except InvalidInput as error:
            topic = '/tf_static'
            self._warn(f'{topic}: {error}; list its publishers: ros2 topic info -v {topic}')
            return
        for child, _, transform in found:
            self._moving.pop(child, None)
            self._static[child] = transform

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def ancestors(self, frame: str) -> Iterator[str]:
        """Yield a frame, its present parent, the parent of that, and so on."""
        seen: set[str] = set()
        while frame not in seen:
            yield frame
            seen.add(frame)
            if (transform := self._newest(frame)) is None:
                return
            frame = transform.parent

    def newest(self, target: str, source: str) -> float:
        """
        Return the newest stamp [s] at which all transforms between two frames are known.

        Infinite if the frames do not move relative to each other.

        Raises `UnknownFrame`: there is no such frame, or they are not connected.
        """
        newest = [known.newest for known in self._between(target, source).values()]
        return min((found[0] for found in newest if found), default=math.inf)

    def silence(self, target: str, source: str) -> tuple[float, str]:
        """Return for how long none has come [s], and of which frame; errors as `newest`."""
        now, moving = time.monotonic(), self._between(target, source)
        return max(((now - self._arrived[name], name) for name in moving), default=(0.0, ''))

    def pose(
        self, target: str, source: str, stamp: float = 0.0, max_gap: float = math.inf
    ) -> Array:
        """
        Return T_target_source (4, 4).

        `stamp`: when [s]; 0 = the newest transforms. `max_gap`: longest time between two
        transforms for a pose in between [s].

        Raises `UnknownFrame`: the frames are not connected, or were not at that time;
        `InvalidInput`: a transform is not a pose.
        """
        common = self._common(target, source)
        up, down = (self._climb(name, common, stamp, max_gap) for name in (source, target))
        for frame, T_frame_source in up.items():
            if frame in down:
                return np.asarray(inverse_transform(down[frame]) @ T_frame_source)
        raise UnknownFrame(f'no transforms connected {quoted(source)} to {target!r} at that time')

    # -- internal --------------------------------------------------------------------------------

    def _between(self, target: str, source: str) -> dict[str, Timeline[Transform]]:
        """Return what is kept of the frames between two that move in their parents."""
        common = self._common(target, source)
        return {
            name: known
            for end in (source, target)
            for name in itertools.takewhile(lambda name: name != common, self.ancestors(end))
            if (known := self._moving.get(name))
        }

    def _common(self, target: str, source: str) -> str:
        """Return the nearest common ancestor of two frames at present."""
        above = set(self.ancestors(target))
        for frame in self.ancestors(source):
            if frame in above:
                return frame
        for name in (source, target):
            if name not in self:
                raise UnknownFrame(f'no transform of {quoted(name)} was received')
        raise UnknownFrame(f'no transforms connect {quoted(source)} to {target!r}')

    def _read(self, data: bytes) -> list[tuple[str, float, Transform]]:
        """Return each frame of a message with its stamp [s]; raises `InvalidInput`."""
        if len(data) > _LARGEST:
            raise InvalidInput(f'a message of {len(data)} bytes was ignored (at most {_LARGEST})')
        try:
            found = list(_transforms(data))
        except (struct.error, UnicodeDecodeError) as error:
            raise InvalidInput(f'a malformed message of {len(data)} bytes was ignored') from error
        return [one for one in found if one[0] != one[2].parent and self._is_kept(one)]

    def _is_kept(self, found: tuple[str, float, Transform]) -> bool:
        new = {found[0], found[2].parent} - self._names
        if new and len(self._names) + len(new) > _MOST_FRAMES:
            self._warn(
                f'TF has more than {_MOST_FRAMES} frames: new ones are ignored, such as '
                f'{found[0][:80]!r}; end the program that keeps publishing new names, then '
                'restart this node'
            )
            return False
        self._names |= new
        return True

    def _warn(self, text: str) -> None:
        self._log.warning(text, throttle_duration_sec=_WARNING_PERIOD)

    def _newest(self, frame: str) -> Transform | None:
        known = self._moving.get(frame)
        newest = known.newest if known else None
        return newest[1] if newest else self._static.get(frame)

    def _climb(self, frame: str, top: str, stamp: float, max_gap: float) -> dict[str, Array]:
        """Return T_ancestor_frame (4, 4) of a frame and its ancestors up to `top`, at a time."""
        T = np.eye(4)
        found = {frame: T}
        while frame != top and (step := self._step(frame, stamp, max_gap)):
            frame, T = step[0], step[1] @ T
            if frame in found:
                break  # a loop
            found[frame] = T
        return found

    def _step(self, frame: str, stamp: float, max_gap: float) -> tuple[str, Array] | None:
        """Return the parent of a frame and T_parent_frame (4, 4) at a time [s]."""
        known = self._moving.get(frame)
        if not (known and stamp):
            newest = self._newest(frame)
            return newest and (newest.parent, newest.pose())
        try:
            before, after, share = known.at(stamp, max_gap)
        except NoHistory as error:
            raise NoHistory(f'of its transforms ({frame}), {error}') from None
        if before.parent != after.parent or before == after:
            return before.parent, before.pose()
        return before.parent, _between(before.pose(), after.pose(), share)


def _between(T_0: Array, T_1: Array, s: float) -> Array:
    """Return the pose (4, 4) at a share `s` of the way from one pose to another."""
    T = T_0.copy()
    T[:3, 3] += s * (T_1[:3, 3] - T_0[:3, 3])
    T[:3, :3] = T_0[:3, :3] @ exp_so3(s * log_so3(T_0[:3, :3].T @ T_1[:3, :3]))
    return T


def _transforms(data: bytes) -> Iterator[tuple[str, float, Transform]]:
    """Yield each frame of a serialized TFMessage with its stamp [s]; raises if malformed."""
    order = '<' if len(data) > 1 and data[1] & 1 else '>'
    stamp_at, length_at, pose_at = (
        struct.Struct(order + code).unpack_from for code in ('iI', 'I', '7d')
    )
    at = 8
    for _ in range(length_at(data, 4)[0]):
        sec, nanosec = stamp_at(data, at)
        at += 8
        names = []
        for _ in range(2):  # frame_id, child_frame_id
            at += -at % 4
            end = at + 4 + length_at(data, at)[0]
            names.append(data[at + 4 : end - 1].decode().lstrip('/'))
            at = end
        at += (4 - at) % 8  # aligned from the end of the header of 4 bytes
        numbers = pose_at(data, at)
        at += 7 * 8
        yield names[1], sec + 1e-9 * nanosec, Transform(names[0], numbers)
