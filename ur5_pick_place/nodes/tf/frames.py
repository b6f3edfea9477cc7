# SPDX-License-Identifier: Apache-2.0
"""The poses of a request's frame and link, relative to the arm's `base` and `tool0`."""

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.errors import InvalidInput, TimedOut, UnknownFrame, UnknownLink, quoted
from ur5_pick_place.kinematics import LINK_NAMES, Model, link_pose
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    T_BASE_LINK_BASE,
    Array,
    inverse_transform,
    make_transform,
)
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.service_calls import wait_until
from ur5_pick_place.nodes.tf.timeline import NoHistory, Timeline
from ur5_pick_place.nodes.tf.transform_store import TransformStore
from ur5_pick_place.settings import Settings, setting

_SAME = np.eye(4)
_FRESH = 0.1  # [s] for the messages that are queued when a request asks for a frame
# [s] to wait for transforms as new as a stamp, and by which a sender's clock may be ahead of ours.
PATIENCE, _AHEAD = 0.2, 1.0
_MOVED = 2e-3  # [rad] by which the joints of an arm that has moved differ
_MAX_JOINT_GAP = 0.1  # [s] between two joint states, for the joints in between
_JOINT_STATES = 3000  # that are kept
_STEP = 0.005  # [s] between two look-ups in a thread that waits
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

ArmPose = Callable[[str], Array]
"""Returns T_base_link (4, 4) of one of `LINK_NAMES` for the joints that a request is about."""


@dataclass(frozen=True)
class StampSettings(Settings):
    """What is accepted of a pose that says by its stamp when it was true."""

    stamp_max_age: float = setting(
        5.0,
        'age of the stamp beyond which a pose in a frame that moves is refused; its conversion '
        'needs the transforms and the joints of that time',
        unit='s',
        low=0.05,
        high=60.0,
    )
    stamp_max_gap: float = setting(
        1.0,
        'time between two transforms of a frame beyond which it is not known in between, or, if '
        'the arm carries it and has moved, since the last one',
        unit='s',
        low=0.01,
        high=60.0,
    )


class Frames:
    """
    Resolve frames and links; those fixed to the arm's base or tool need no TF.

    `node`: listens to TF through this node. `tf_prefix`: as given to the driver. `T_tool_tcp` (4,
    4): the configured tool; None if there is no `tcp`. `model`: needed to convert by stamps.
    `keep`: time for which transforms are kept in any case [s].

    - `joints`: the arm's joints (6,) [rad]; to be filled by the node
    """

    def __init__(
        self,
        node: SerialNode,
        tf_prefix: str,
        T_tool_tcp: Array | None,
        model: Model | None = None,
        settings: StampSettings = StampSettings(),
        keep: float = 0.0,
    ) -> None:
        self._node, self._prefix, self.T_tool_tcp = node, tf_prefix, T_tool_tcp
        self._model, self._settings = model, settings
        keep = max(keep, settings.stamp_max_age)
        self.joints: Timeline[Array] = Timeline(keep, _JOINT_STATES)
        own = _T_TOOL_LINK if T_tool_tcp is None else {**_T_TOOL_LINK, 'tcp': T_tool_tcp}
        self._tips = ', '.join(own)
        prefixed = {tf_prefix + name: T_tip for name, T_tip in own.items()}
        links = {'': own['tool0'], **own, **prefixed}
        self._links = {name: (T, inverse_transform(T)) for name, T in links.items()}
        # The frames that move with the arm: name -> (the link that carries it, its pose there).
        self._moving = {tf_prefix + name: (name, _SAME) for name in LINK_NAMES}
        self._moving |= {name: (_TIP, T_tip) for name, T_tip in prefixed.items()}
        self._base_link = f'{tf_prefix}base_link'
        self.store = TransformStore(node, keep)

    def T_base_frame(
        self,
        frame_id: str,
        arm: ArmPose | None = None,
        waits: bool = True,
        stamp: float = 0.0,
        lead: float = 0.0,
    ) -> Array:
        """
        Return the pose (4, 4) of a frame in `base`; an empty name is the arm's `base_link`.

        `arm`: the arm pose that the request is about: it determines the pose of a link, and
        without a stamp of any frame that the arm carries, instead of the arm's present pose in TF.
        `waits`: whether to read what has arrived, and to wait up to 0.2 s for transforms as new as
        the stamp; False for a callback that blocks others, which then uses the poll before.
        `stamp`: when the message was true [s]; 0 = now. Of no meaning for a frame that does not
        move. `lead`: time by which the stamp may be newer than the transforms, the newest of which
        are then used [s].

        Raises `UnknownFrame`: the frame is not known, or not at that time.
        """
        frame = frame_id.lstrip('/')
        fixed = self._fixed(frame, waits)
        if fixed is not None:
            return fixed
        if arm is not None and frame in self._moving:
            link, T_link_frame = self._moving[frame]
            return arm(link) @ T_link_frame
        self.store.refresh(_FRESH if waits else 0.0)
        try:
            carrier = self._carrier(frame) if arm is not None else ''
            if stamp:
                return self._at(frame_id, carrier, stamp, waits, lead)
            self._check_present(carrier, frame)
            if arm is not None and carrier:
                link, T_link_carrier = self._moving[carrier]
                return arm(link) @ T_link_carrier @ self.store.pose(carrier, frame)
            return self._pose('', frame, 0.0, 0.0)
        except NoHistory as error:
            raise UnknownFrame(
                f'frame {quoted(frame_id)} moves, and where it was at the stamp is not known: '
                f'{error}'
            ) from error
        except InvalidInput as error:
            raise UnknownFrame(
                f'frame {quoted(frame_id)} is not known: {error}; use base_link or base, or '
                'publish it'
            ) from error

    def arm_at(self, stamp: float) -> ArmPose:
        """Return the arm pose at a time [s]; it raises `UnknownFrame` if that is not known."""

        def pose(link: str) -> Array:
            self._check_age(stamp)
            self._wait(self._newest_joints, stamp)
            return self._arm_at(stamp, link)

        return pose

    def recent(self, frame_id: str, step: float, count: int) -> tuple[float, list[Array]]:
        """
        Return the newest stamp [s] of a frame, and its poses (4, 4) in `base_link`.

        The stamp of a static frame is 0. `step`: time between two poses, the newest first [s].
        `count`: largest number of earlier poses; fewer if the frame is not known so long.

        Raises `UnknownFrame`: TF does not know the frame; `InvalidInput`: its pose is not finite.
        """
        self.store.refresh(_FRESH)
        frame = frame_id.lstrip('/')
        try:
            carrier = self._carrier(frame)
            newest = self._newest(carrier, frame)
            stamp = 0.0 if newest == math.inf else newest
            poses = [self._pose(carrier, frame, stamp, math.inf)]
        except UnknownFrame as error:
            raise UnknownFrame(
                f'TF frame {quoted(frame_id)} is not known: {error}; check that it is published'
            ) from error
        with contextlib.suppress(UnknownFrame):  # not known so long
            for k in range(1, count + 1 if stamp else 1):
                poses.append(self._pose(carrier, frame, max(1e-9, stamp - k * step), math.inf))
        return stamp, [T_BASE_LINK_BASE @ T for T in poses]

    def _at(self, frame_id: str, carrier: str, stamp: float, waits: bool, lead: float) -> Array:
        """Return T_base_frame (4, 4) at the time of a stamp, if the frame moves at all."""
        frame = frame_id.lstrip('/')
        newest = partial(self._newest, carrier, frame)
        if (known := newest()) == math.inf:
            return self._pose(carrier, frame, 0.0, 0.0)
        self._check_age(stamp)
        if waits:
            known = self._wait(newest, stamp)
        when = known if known < stamp <= known + lead else stamp
        return self._pose(carrier, frame, when, self._settings.stamp_max_gap)

    def _newest(self, carrier: str, frame: str) -> float:
        """Return the newest stamp [s] at which a frame is known; infinite if it does not move."""
        of_frame = self.store.newest(carrier or self._base_link, frame)
        return min(of_frame, self._newest_joints()) if carrier else of_frame

    def _newest_joints(self) -> float:
        return (self.joints.newest or (-math.inf,))[0]

    def _pose(self, carrier: str, frame: str, stamp: float, max_gap: float) -> Array:
        """Return T_base_frame (4, 4) at a time [s]; `carrier` as of `_carrier`."""
        if not carrier:
            return T_BASE_BASE_LINK @ self.store.pose(self._base_link, frame, stamp, max_gap)
        link, T_link_carrier = self._moving[carrier]
        T_carrier_frame = self.store.pose(carrier, frame, stamp, max_gap)
        return self._arm_at(stamp, link) @ T_link_carrier @ T_carrier_frame

    def _arm_at(self, stamp: float, link: str) -> Array:
        """Return T_base_link (4, 4) of a link of the arm at a time [s]."""
        assert self._model is not None  # a node that converts by stamps has one
        try:
            before, after, share = self.joints.at(stamp, _MAX_JOINT_GAP)
        except NoHistory as error:
            raise NoHistory(f'of the joint_states, {error}') from None
        return link_pose(self._model, before + share * (after - before), link)

    def _check_age(self, stamp: float) -> None:
        age = self._node.get_clock().now().nanoseconds * 1e-9 - stamp
        most = self._settings.stamp_max_age
        if not -_AHEAD <= age <= most:
            raise NoHistory(
                f'it is {abs(age):.3f} s {"old" if age > 0.0 else "ahead"}, must be at most '
                f'{most:g} s old (stamp_max_age) and {_AHEAD:g} s ahead in ROS time, or 0 for '
                'now; check the clock and use_sim_time of its sender'
            )

    def _check_present(self, carrier: str, frame: str) -> None:
        """
        Refuse a frame that moves, and whose transforms come no more, as one of now.

        A tag that the camera on the arm has lost does not move with the arm.
        """
        silence, child = self.store.silence(carrier or self._base_link, frame)
        name, most = 'stamp_max_age', self._settings.stamp_max_age
        if carrier and self._has_moved(silence):
            name, most = 'stamp_max_gap, as the arm has moved since', self._settings.stamp_max_gap
        if silence > most:
            raise InvalidInput(
                f'no transform of {child!r} has come for {silence:.1f} s, more than '
                f'{most:g} s ({name}); one that does not move belongs on /tf_static'
            )

    def _has_moved(self, seconds: float) -> bool:
        """Return whether the arm is known to have moved in the last seconds."""
        stamp, q = self.joints.newest or (0.0, np.zeros(6))
        with contextlib.suppress(NoHistory):
            return bool(np.abs(self.joints.at(stamp - seconds, math.inf)[0] - q).max() > _MOVED)
        return False

    def _wait(self, newest: Callable[[], float], stamp: float) -> float:
        """Return the newest stamp once it is at least `stamp`, or after a while."""
        end = time.monotonic() + PATIENCE
        while (known := newest()) < stamp and time.monotonic() < end:
            time.sleep(_STEP)
            self.store.refresh(0.0)
        return known

    def T_base_link(self, link_name: str, arm: ArmPose) -> Array:
        """
        Return the pose (4, 4) in `base` of a link of the arm, of `tcp` or `world`; '' is `tool0`.

        Raises `UnknownLink`: the arm has no such link, or TF does not know `world`.
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
            f'link {quoted(link_name)} is not known: use one of {known_links}, {self._tips}'
            f'{self._hint}, or world where TF has it'
        )

    def _fixed(self, frame: str, waits: bool) -> Array | None:
        """Return T_base_frame (4, 4) of a frame that is fixed to the arm's base, else None."""
        own = frame.removeprefix(self._prefix) or 'base_link'
        fixed = _T_BASE_LINK.get(own)
        if fixed is None or not self._prefix or own != frame:
            return fixed
        self.store.refresh(_FRESH if waits else 0.0)
        # Without the prefix, a name that TF has is not ours, such as a mobile base's `base_link`.
        return None if frame in self.store else fixed

    def _carrier(self, frame: str) -> str:
        """Return the frame of the arm that carries a frame; empty if none does."""
        for name in self.store.ancestors(frame):
            if name in self._moving:
                return name
            tcp = f'{self._prefix}tool0_controller'
            if name == tcp and name in self.store:  # the driver publishes it in `base`
                return f'{self._prefix}tool0'
        return ''

    def is_carried(self, frame_id: str) -> bool:
        """Return whether a frame that `T_base_frame` knows moves with a link; may wait for TF."""
        return bool(self._fresh_carrier(frame_id, waits=True))

    def is_on_tool(self, frame_id: str) -> bool:
        """Return whether a frame that `T_base_frame` knows is fixed to the tool; never waits."""
        carrier = self._fresh_carrier(frame_id, waits=False)
        return bool(carrier) and self._moving[carrier][0] == _TIP

    def _fresh_carrier(self, frame_id: str, waits: bool) -> str:
        """Return the `_carrier` of a frame, which may have come since the last poll."""
        frame = frame_id.lstrip('/')
        if frame in ('', 'base_link', f'{self._prefix}base_link'):
            return ''  # the usual case, without a search of all frames
        if frame not in self._moving:
            self.store.refresh(_FRESH if waits else 0.0)
        return self._carrier(frame)

    async def wait_for(self, frame_id: str, seconds: float, stamp: float = 0.0) -> None:
        """
        Wait until a frame is known, while other callbacks run; for a reentrant callback group.

        `stamp` as for `T_base_frame`, for an arm at the joints of a request.

        Raises `TimedOut`: TF does not know the frame after `seconds` of the steady clock.
        """
        if self._why_unknown(frame_id, stamp):
            await wait_until(
                self._node, lambda: not self._why_unknown(frame_id, stamp), seconds
            )
        if unknown := self._why_unknown(frame_id, stamp):
            raise TimedOut(f'waited {seconds:g} s for TF: {unknown}')

    def _why_unknown(self, frame_id: str, stamp: float) -> str:
        if frame_id.lstrip('/') in self._moving:
            return ''
        arm = partial(self._arm_at, stamp) if stamp and self._model else lambda _link: _SAME
        try:
            self.T_base_frame(frame_id, arm, waits=False, stamp=stamp)
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

        Raises `UnknownLink`: the link is not fixed to the tool.
        """
        return self._tip(link_name)[0]

    def T_link_tool(self, link_name: str) -> Array:
        """Return the pose (4, 4) of `tool0` in a tip link; errors as `T_tool_link`."""
        return self._tip(link_name)[1]

    def _tip(self, link_name: str) -> tuple[Array, Array]:
        poses = self._links.get(link_name.lstrip('/'))
        if poses is None:
            raise UnknownLink(
                f'tip link {quoted(link_name)} is not known: use one of {self._tips}{self._hint}'
            )
        return poses

    @property
    def _hint(self) -> str:
        return '' if self.T_tool_tcp is not None else ' (tcp needs scene_file)'
