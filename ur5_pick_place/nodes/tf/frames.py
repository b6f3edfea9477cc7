# SPDX-License-Identifier: Apache-2.0
"""The poses of a request's frame and link, relative to the arm's `base` and `tool0`."""

import contextlib
import re
import time
from collections.abc import Callable

import numpy as np
import tf2_ros
from rclpy.clock import Clock, ClockType
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.task import Future
from rclpy.time import Time
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.errors import InvalidInput, TimedOut, UnknownFrame, UnknownLink
from ur5_pick_place.kinematics import LINK_NAMES
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    Array,
    inverse_transform,
    make_transform,
)
from ur5_pick_place.nodes.messages.conversions import transform_to_matrix
from ur5_pick_place.nodes.ros.polling import PollGroup
from ur5_pick_place.nodes.tf.transform_queue import DEPTH, TransformQueue

_SAME = np.eye(4)
_STATIC = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
# [s] between two polls of /tf, besides those of requests
_PERIOD, _HISTORY_PERIOD = 0.2, 0.05
_POLL_BUDGET = 0.003  # [s] of a poll: 250 messages of 10 frames; fewer if they are larger
_FRESH = 0.1  # [s] for the messages that are queued when a request asks for a frame
_LOOKUP_PERIOD = 0.02  # [s] between two look-ups of a frame that a request waits for
_TIP = LINK_NAMES[-1]
# The links that the robot description fixes to the base and to the tool, which are not in the DH
# table: x of `flange` points out of it, z of `ft_frame` into it.
_T_BASE_LINK: dict[str, Array] = {
    'base': _SAME,
    'base_link': T_BASE_BASE_LINK,
    'base_link_inertia': _SAME,
}
_T_TOOL_LINK: dict[str, Array] = {
    'tool0': _SAME,
    _TIP: _SAME,
    'flange': make_transform([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], np.zeros(3)),
    'ft_frame': np.diag([1.0, -1.0, -1.0, 1.0]),
}
_WORLD = 'world'  # the robot description's root, where the arm stands
_PARENT = re.compile(r"^(.+): *\n  parent: '(.*)'$", re.MULTILINE)  # in tf2's list of frames

ArmPose = Callable[[str], Array]
"""Returns T_base_link (4, 4) of one of `LINK_NAMES` for the joints that a request is about."""


class Frames:
    """
    Resolve frames and links; those fixed to the arm's base or tool need no TF.

    Parameters
    ----------
    node : Node
        Listens to TF through this node.
    tf_prefix : str
        As given to the driver.
    T_tool_tcp : ndarray, shape (4, 4), or None
        The configured tool; None if there is no `tcp`.
    with_history : bool
        Whether /tf is polled often enough for the earlier poses of `recent`.

    """

    def __init__(
        self, node: Node, tf_prefix: str, T_tool_tcp: Array | None, with_history: bool = False
    ) -> None:
        self._node, self._prefix, self.T_tool_tcp = node, tf_prefix, T_tool_tcp
        own = _T_TOOL_LINK if T_tool_tcp is None else {**_T_TOOL_LINK, 'tcp': T_tool_tcp}
        named = {name: (T, inverse_transform(T)) for name, T in own.items()}
        self._tips = ', '.join(named)
        prefixed = {tf_prefix + name: poses for name, poses in named.items()}
        self._links = {'': named['tool0'], **named, **prefixed}
        # The frames that move with the arm: name -> (the link that carries it, its pose there).
        self._moving = {tf_prefix + name: (name, _SAME) for name in LINK_NAMES}
        self._moving |= {name: (_TIP, T_tip) for name, (T_tip, _) in prefixed.items()}
        self._buffer = tf2_ros.Buffer()
        # tf2's own listener converts a message of any size, and each at once.
        self._queue = TransformQueue(node, self._buffer)
        node.create_subscription(
            TFMessage, '/tf_static', self._queue.add_static, _STATIC, raw=True
        )
        self._poll_group = PollGroup(node, _HISTORY_PERIOD if with_history else _PERIOD)
        self._poll_group.subscribe(
            TFMessage, '/tf', self._queue.add, QoSProfile(depth=DEPTH), budget=_POLL_BUDGET
        )

    def _refresh(self, waits: bool) -> None:
        """Take the messages that are queued; return once tf2 has them, if `waits`."""
        deadline = time.monotonic() + _FRESH
        while not self._poll_group.poll() and waits and time.monotonic() < deadline:
            pass
        if waits:
            self._queue.wait(deadline - time.monotonic())

    def T_base_frame(
        self, frame_id: str, arm: ArmPose | None = None, waits: bool = True
    ) -> Array:
        """
        Return the pose (4, 4) of a frame in `base`; an empty name is the arm's `base_link`.

        Parameters
        ----------
        frame_id : str
        arm : callable, optional
            The arm pose that the request is about: it determines the pose of a frame that the
            arm carries, instead of the arm's present pose in TF.
        waits : bool
            Whether to wait up to 0.1 s for the transforms that were received; False for a
            callback that blocks others, which then uses those of the poll before.

        Raises
        ------
        UnknownFrame
            TF does not know the frame.

        """
        frame = frame_id.lstrip('/')
        fixed = self._fixed(frame, waits)
        if fixed is not None:
            return fixed
        if arm is not None and frame in self._moving:
            link, T_link_frame = self._moving[frame]
            return arm(link) @ T_link_frame
        self._refresh(waits)
        try:
            if arm is not None and (carrier := self._carrier(frame)):
                link, T_link_carrier = self._moving[carrier]
                return arm(link) @ T_link_carrier @ self._looked_up(carrier, frame)
            return T_BASE_BASE_LINK @ self._looked_up(f'{self._prefix}base_link', frame)
        except (tf2_ros.TransformException, ValueError) as error:
            raise UnknownFrame(
                f'frame {frame_id!r} is not known: {error}; use base_link or base, or publish it'
            ) from error

    def recent(self, frame_id: str, step: float, count: int) -> tuple[float, list[Array]]:
        """
        Return the newest stamp [s] of a frame, and its poses in `base_link` then and before.

        Parameters
        ----------
        frame_id : str
        step : float
            Time between two poses, the newest first [s].
        count : int
            Largest number of earlier poses; fewer if the frame is not known so long.

        Returns
        -------
        float
            0 if the frame is static.
        list of ndarray, shape (4, 4)

        Raises
        ------
        UnknownFrame
            TF does not know the frame.
        InvalidInput
            Its pose is not finite.

        """
        self._refresh(waits=True)
        base_link, frame = f'{self._prefix}base_link', frame_id.lstrip('/')
        try:
            newest = self._buffer.lookup_transform(base_link, frame, Time())
            stamp = Time.from_msg(newest.header.stamp).nanoseconds
        except (tf2_ros.TransformException, ValueError) as error:  # as of a negative stamp
            raise UnknownFrame(
                f'TF frame {frame_id!r} is not known: {error}; check that it is published'
            ) from error
        poses = [transform_to_matrix(newest.transform)]
        with contextlib.suppress(tf2_ros.TransformException):  # not known so long
            for k in range(1, count + 1 if stamp else 1):
                time = Time(nanoseconds=max(1, stamp - round(k * step * 1e9)))
                found = self._buffer.lookup_transform(base_link, frame, time)
                poses.append(transform_to_matrix(found.transform))
        return stamp * 1e-9, poses

    def T_base_link(self, link_name: str, arm: ArmPose) -> Array:
        """
        Return the pose (4, 4) in `base` of a link of the arm, of `tcp` or `world`; '' is `tool0`.

        Raises
        ------
        UnknownLink
            The arm has no such link, or TF does not know `world`.

        """
        name = link_name.lstrip('/')
        for known in (name or 'tool0', self._prefix + name):
            if known in self._moving:
                link, T_link_known = self._moving[known]
                return arm(link) @ T_link_known
        if name == _WORLD or name.removeprefix(self._prefix) in _T_BASE_LINK:
            with contextlib.suppress(UnknownFrame):
                return self.T_base_frame(name)
        known_links = ', '.join((*_T_BASE_LINK, *LINK_NAMES[:-1]))
        raise UnknownLink(
            f'link {link_name!r} is not known: use one of {known_links}, {self._tips}'
            f'{self._hint}, or world where TF has it'
        )

    def _fixed(self, frame: str, waits: bool) -> Array | None:
        """Return T_base_frame (4, 4) of a frame that is fixed to the arm's base, else None."""
        own = frame.removeprefix(self._prefix) or 'base_link'
        fixed = _T_BASE_LINK.get(own)
        if fixed is None or not self._prefix or own != frame:
            return fixed
        self._refresh(waits)
        # Without the prefix, a name that TF has is not ours, such as a mobile base's `base_link`.
        is_in_tf = any(frame in link for link in self._links_of_tf())
        return None if is_in_tf else fixed

    def _links_of_tf(self) -> list[tuple[str, str]]:
        """Return each frame that TF knows with its parent."""
        return _PARENT.findall(self._buffer.all_frames_as_yaml())

    def _carrier(self, frame: str) -> str:
        """Return the frame of the arm that carries a frame; empty if none does."""
        if frame in self._moving:
            return frame
        parents = dict(self._links_of_tf())
        if (tcp := f'{self._prefix}tool0_controller') in parents:
            parents[tcp] = f'{self._prefix}tool0'  # the driver publishes it in `base`
        while frame in parents and frame not in self._moving:
            frame = parents.pop(frame)  # so that a loop ends
        return frame if frame in self._moving else ''

    def is_carried(self, frame_id: str, waits: bool = True) -> bool:
        """Return whether a frame that `T_base_frame` knows moves with a link; `waits` as there."""
        return bool(self._fresh_carrier(frame_id, waits))

    def is_on_tool(self, frame_id: str, waits: bool = True) -> bool:
        """Return whether a frame that `T_base_frame` knows is fixed to the tool; as there."""
        carrier = self._fresh_carrier(frame_id, waits)
        return bool(carrier) and self._moving[carrier][0] == _TIP

    def _fresh_carrier(self, frame_id: str, waits: bool) -> str:
        """Return the `_carrier` of a frame, which may have come since the last poll."""
        frame = frame_id.lstrip('/')
        if frame in ('', 'base_link', f'{self._prefix}base_link'):
            return ''  # the usual case, without a search of all frames
        if frame not in self._moving:
            self._refresh(waits)
        return self._carrier(frame)

    def _looked_up(self, target: str, source: str) -> Array:
        found = self._buffer.lookup_transform(target, source, Time())
        return transform_to_matrix(found.transform)

    async def wait_for(self, frame_id: str, seconds: float) -> None:
        """
        Wait until a frame is known, while other callbacks run; for a reentrant callback group.

        Raises
        ------
        TimedOut
            TF does not know the frame after `seconds` of the steady clock.

        """
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        deadline = clock.now() + Duration(seconds=seconds)
        over: Future[None] = Future()

        def check() -> None:
            if not self._why_unknown(frame_id, waits=False) or clock.now() >= deadline:
                over.set_result(None)

        if self._why_unknown(frame_id):
            timer = self._node.create_timer(_LOOKUP_PERIOD, check, clock=clock)
            await over
            self._node.destroy_timer(timer)
        if unknown := self._why_unknown(frame_id):
            raise TimedOut(f'waited {seconds:g} s for TF: {unknown}')

    def _why_unknown(self, frame_id: str, waits: bool = True) -> str:
        if frame_id.lstrip('/') in self._moving:
            return ''
        try:
            self.T_base_frame(frame_id, waits=waits)
        except (UnknownFrame, InvalidInput) as error:
            return str(error)
        return ''

    @property
    def prefix(self) -> str:
        """The prefix of this arm's frames."""
        return self._prefix

    def is_link(self, name: str) -> bool:
        """Return whether `T_tool_link` knows a link."""
        return name.lstrip('/') in self._links

    def prefixed(self, drawing: MarkerArray) -> MarkerArray:
        """Return `drawing` with the prefix added to its frames."""
        for marker in drawing.markers:
            if marker.header.frame_id:
                marker.header.frame_id = self._prefix + marker.header.frame_id
        return drawing

    def T_tool_link(self, link_name: str) -> Array:
        """
        Return the pose (4, 4) of a tip link in `tool0`; an empty name is `tool0`.

        Raises
        ------
        UnknownLink
            The link is not fixed to the tool.

        """
        return self._link(link_name)[0]

    def T_link_tool(self, link_name: str) -> Array:
        """Return the pose (4, 4) of `tool0` in a tip link; errors as `T_tool_link`."""
        return self._link(link_name)[1]

    @property
    def _hint(self) -> str:
        return '' if self.T_tool_tcp is not None else ' (tcp needs scene_file)'

    def _link(self, name: str) -> tuple[Array, Array]:
        poses = self._links.get(name.lstrip('/'))
        if poses is None:
            raise UnknownLink(
                f'tip link {name!r} is not known: use one of {self._tips}{self._hint}'
            )
        return poses
