# SPDX-License-Identifier: Apache-2.0
"""The tree of frames over the last seconds, and the look-up of one frame in another."""

import math
import threading
import time as wall

import rclpy
from builtin_interfaces.msg import Time as TimeMessage
from geometry_msgs.msg import TransformStamped
from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.time import Time

from tf2_ros.cache import NANOSECONDS, Sample, StaticCache, TimeCache
from tf2_ros.exceptions import (
    ConnectivityException,
    ExtrapolationException,
    InvalidArgumentException,
    LookupException,
    TransformException,
)
from tf2_ros.rigid import IDENTITY, Quaternion, Rigid, Vector, compose, invert, normalised

_DEFAULT_CACHE = Duration(seconds=10.0)
_SHUTDOWN_CHECK_S = 0.1
_QUATERNION_TOLERANCE = 1e-3
_logger = get_logger('tf2_buffer')


class Buffer:
    """
    Frames and their transforms, kept for `cache_time` (10 s unless given).

    With a `node`, a backward jump of its clock empties the buffer.

    """

    def __init__(self, cache_time: Duration | None = None, node: Node | None = None) -> None:
        self._length = (cache_time or _DEFAULT_CACHE).nanoseconds
        self._caches: dict[str, StaticCache | TimeCache] = {}
        self._frames: set[str] = set()
        self._changed = threading.Condition()
        if node is not None:
            threshold = JumpThreshold(
                min_forward=None, min_backward=Duration(seconds=-1), on_clock_change=True
            )
            self._jump_handle = node.get_clock().create_jump_callback(
                threshold, post_callback=lambda _: self.clear()
            )

    def clear(self) -> None:
        """Forget everything that changes with time; static transforms stay."""
        with self._changed:
            self._caches = {k: c for k, c in self._caches.items() if isinstance(c, StaticCache)}

    # ---- in

    def set_transform(self, transform: TransformStamped, authority: str) -> None:
        self._set(transform, authority, static=False)

    def set_transform_static(self, transform: TransformStamped, authority: str) -> None:
        self._set(transform, authority, static=True)

    def _set(self, transform: TransformStamped, authority: str, *, static: bool) -> None:
        child = transform.child_frame_id.removeprefix('/')
        parent = transform.header.frame_id.removeprefix('/')
        if fault := _fault(transform, parent, child):
            _logger.warning(f'transform {parent!r} -> {child!r} of {authority!r} ignored: {fault}')
            return
        sample = Sample(_nanoseconds(transform.header.stamp), parent, _rigid(transform))
        with self._changed:
            cache = self._caches.get(child)
            if static:
                self._caches[child] = StaticCache(sample)
            else:
                if not isinstance(cache, TimeCache):
                    cache = self._caches[child] = TimeCache(child, self._length)
                if not cache.insert(sample):
                    age = (cache.latest - sample.stamp) / NANOSECONDS
                    _logger.warning(
                        f'transform {parent!r} -> {child!r} of {authority!r} ignored: '
                        f'{age:.1f} s older than the newest',
                        throttle_duration_sec=10.0,
                    )
            self._frames.update((parent, child))
            self._changed.notify_all()

    # ---- out

    def lookup_transform(
        self, target_frame: str, source_frame: str, time: Time, timeout: Duration = Duration()
    ) -> TransformStamped:
        """
        Return T_target_source at a time; time 0 is the newest at which all of it is known.

        Raises
        ------
        InvalidArgumentException, LookupException, ConnectivityException, ExtrapolationException
            As their names say, after waiting for `timeout`.

        """
        deadline = wall.monotonic() + timeout.nanoseconds / NANOSECONDS
        with self._changed:
            while True:
                try:
                    return self._lookup(target_frame, source_frame, time.nanoseconds)
                except InvalidArgumentException:
                    raise
                except TransformException:
                    left = deadline - wall.monotonic()
                    if left <= 0.0 or not rclpy.ok():
                        raise
                self._changed.wait(min(left, _SHUTDOWN_CHECK_S))

    def can_transform(
        self, target_frame: str, source_frame: str, time: Time, timeout: Duration = Duration()
    ) -> bool:
        """Tell whether `lookup_transform` would answer within `timeout`."""
        try:
            self.lookup_transform(target_frame, source_frame, time, timeout)
        except TransformException:
            return False
        return True

    def all_frames_as_yaml(self) -> str:
        """Return every frame that has a parent with the newest one, in tf2's own words."""
        with self._changed:
            parents = {child: cache.at(0).parent for child, cache in self._caches.items()}
        return ''.join(f"{child}: \n  parent: '{name}'\n" for child, name in parents.items())

    def _lookup(self, target: str, source: str, stamp: int) -> TransformStamped:
        for name in (target, source):
            self._check_frame(name)
        if stamp == 0:
            stamp = self._latest_common_time(target, source)
        up, down, shared = self._chains(target, source, stamp)
        return _message(target, source, stamp, compose(invert(down[shared]), up[shared]))

    def _check_frame(self, name: str) -> None:
        if not name or name.startswith('/'):
            raise InvalidArgumentException(f'frame {name!r}: must be a name without leading slash')
        if name not in self._frames:
            known = ', '.join(sorted(self._frames)) or 'none'
            raise LookupException(f'frame {name!r} does not exist; known frames: {known}')

    def _latest_common_time(self, target: str, source: str) -> int:
        """Return the newest stamp [ns] that all moving frames between the two have reached."""
        up, down, shared = self._chains(target, source, 0)
        between = [*_before(shared, up), *_before(shared, down)]
        if target == source:
            between = [source]
        latest = (self._caches[name].latest for name in between if name in self._caches)
        return min((stamp for stamp in latest if stamp is not None), default=0)

    def _chains(
        self, target: str, source: str, stamp: int
    ) -> tuple[dict[str, Rigid], dict[str, Rigid], str]:
        """Return the ways up from source and target, and the first frame on both."""
        up, up_end = self._ancestors(source, stamp)
        down, down_end = self._ancestors(target, stamp)
        for shared in down:
            if shared in up:
                return up, down, shared
        raise (
            up_end
            or down_end
            or ConnectivityException(
                f'no connection from {source!r} to {target!r}: they hang below {list(up)[-1]!r} '
                f'and {list(down)[-1]!r}, two unconnected trees'
            )
        )

    def _ancestors(
        self, frame: str, stamp: int
    ) -> tuple[dict[str, Rigid], ExtrapolationException | None]:
        """Return T_ancestor_frame of all ancestors, nearest first, and what cut the way short."""
        chain = {frame: IDENTITY}
        at = frame
        while (cache := self._caches.get(at)) is not None:
            try:
                sample = cache.at(stamp)
            except ExtrapolationException as error:
                return chain, error
            if sample.parent in chain:
                raise LookupException(f'frame {sample.parent!r} is its own ancestor: a loop')
            chain[sample.parent] = compose(sample.T_parent_child, chain[at])
            at = sample.parent
        return chain, None


def _before(shared: str, chain: dict[str, Rigid]) -> list[str]:
    names = list(chain)
    return names[: names.index(shared)]


def _nanoseconds(stamp: TimeMessage) -> int:
    return stamp.sec * NANOSECONDS + stamp.nanosec


def _numbers(transform: TransformStamped) -> tuple[Vector, Quaternion]:
    p, q = transform.transform.translation, transform.transform.rotation
    return (p.x, p.y, p.z), (q.x, q.y, q.z, q.w)


def _fault(transform: TransformStamped, parent: str, child: str) -> str:
    """Return why a transform cannot be taken, or nothing."""
    if not parent or not child or parent == child:
        return 'parent and child must be two names'
    if transform.header.stamp.sec < 0:
        return f'stamp of {transform.header.stamp.sec} s is negative'
    p, q = _numbers(transform)
    if not all(math.isfinite(number) for number in (*p, *q)):
        return f'{p}, {q} is not finite'
    if abs(math.hypot(*q) - 1.0) > _QUATERNION_TOLERANCE:
        return f'quaternion {q} has the norm {math.hypot(*q):.4f}'
    return ''


def _rigid(transform: TransformStamped) -> Rigid:
    p, q = _numbers(transform)
    return Rigid(p, normalised(q))


def _message(target: str, source: str, stamp: int, T_target_source: Rigid) -> TransformStamped:
    message = TransformStamped()
    message.header.stamp = Time(nanoseconds=stamp).to_msg()
    message.header.frame_id = target
    message.child_frame_id = source
    p, q = message.transform.translation, message.transform.rotation
    p.x, p.y, p.z = T_target_source.translation
    q.x, q.y, q.z, q.w = T_target_source.rotation
    return message
