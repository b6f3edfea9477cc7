# SPDX-License-Identifier: Apache-2.0
"""Taught poses in the node: from the arm, a topic or the file, and published to TF."""

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tf2_ros
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, TransformStamped

from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import BRANCHES, classify, forward, link_pose
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.messages.conversions import (
    matrix_to_transform,
    pose_to_matrix,
    to_seconds,
)
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.qos import Unheard
from ur5_pick_place.nodes.tf.frame_places import FramePlaces
from ur5_pick_place.task import events
from ur5_pick_place.task.cycle.file import PlaceSettings
from ur5_pick_place.task.places.file import PosesFile
from ur5_pick_place.task.places.names import HOME
from ur5_pick_place.task.places.poses import (
    TaughtPose,
    changes,
    converted,
    is_same,
    numbers_from_matrix,
)
from ur5_pick_place.task.station import Station

_MOST = 20  # waiting poses


def stamp_text(stamp: Time) -> str:
    """Return a stamp as text, exactly; it shows a client which of its poses an event answers."""
    return f'{stamp.sec}.{stamp.nanosec:09d}'


class Taught(NamedTuple):
    """A place that was taught, a warning or '', and whether it is not where it was before."""

    pose: TaughtPose
    warning: str
    is_new: bool = True


class Teaching:
    """
    Keeps the taught poses in memory, in the file and in TF.

    `path`: the file of poses; read on construction, written at every change. `places`: of the
    cycle file.

    - `warning`: what was wrong with the file although poses could be read; else empty

    Raises `InvalidInput`: the file is malformed.
    """

    def __init__(
        self, cell: Cell, station: Station, path: Path, places: Mapping[str, PlaceSettings]
    ) -> None:
        node, self._frames, self._names = cell.node, cell.frames, tuple(places)
        self._frame_places = FramePlaces(
            cell.frames,
            places,
            lambda: node.get_clock().now().nanoseconds * 1e-9,
            cell.scene.mounting,
        )
        self._file = PosesFile(path)
        self.warning = self._file.warning
        if self.warning:
            node.get_logger().warning(self.warning)
        self._node, self._planner, self._provenance = node, station.planner, station.provenance
        self._check = station.cycle_planner.places.check_taught
        self._tf = tf2_ros.StaticTransformBroadcaster(node)
        self.show()

    @property
    def poses(self) -> Mapping[str, TaughtPose]:
        """The poses as taught, or as read from a frame for the latest plan."""
        read = {name: self._pose(T) for name, T in self._frame_places.T_base.items()}
        return {**self._file.poses, **read}

    def read_poses(self) -> Mapping[str, TaughtPose]:
        """
        Return the poses for a plan: read the places that have a frame; see `FramePlaces`.

        Raises `ExecutionError`: someone else has changed the file of taught poses.
        """
        self._file.check_unchanged()
        if self._frame_places.read():
            self.show()
        return self.poses

    def unmoved_poses(self) -> Mapping[str, TaughtPose]:
        """
        Return the poses of the latest plan.

        Raises `InvalidInput`: a frame has moved; `ExecutionError`: someone else has changed the
        file of taught poses.
        """
        self._file.check_unchanged()
        self._frame_places.check_unmoved()
        return self.poses

    @property
    def movable(self) -> tuple[str, ...]:
        """The places that can be taught as a pose: neither home, nor read from a frame."""
        return tuple(n for n in self._names if n != HOME and n not in self._frame_places)

    def places(self) -> dict[str, Array]:
        """Return the places of the cycle, (4, 4) each in `base_link`, if known and convertible."""
        found = {}
        for name in self._names:
            with contextlib.suppress(KeyError, InvalidInput):
                taught = converted(name, self.poses[name], self._provenance, self._planner.model)
                found[name] = T_BASE_LINK_BASE @ taught.T_base_tcp
        return found

    def conversions(self, poses: Mapping[str, TaughtPose]) -> list[dict[str, Any]]:
        """Return which `poses` were converted to the present robot, and what changed for each."""
        return [
            {'place': name, 'changed': changed, 'pose': pose.pose}
            for name, pose in poses.items()
            if (changed := changes(self.poses[name].provenance, pose.provenance))
        ]

    def teach_joints(self, name: str, q: Array) -> Taught:
        """
        Teach the place `name` from the arm's present joints (6,) [rad].

        Raises `PlanningError`: the arm can never be there, even without the objects of clients;
        `ExecutionError`: the file of poses cannot be written.
        """
        T = forward(self._planner.model, q) @ self._planner.scene.tool.T_tool_tcp
        branch = BRANCHES[int(classify(self._planner.model, q))]
        return self._keep(name, T, tuple(float(v) for v in q), branch)

    def teach_pose(
        self, name: str, message: PoseStamped, q: Array | None, not_at_rest: str
    ) -> Taught:
        """
        Teach the place `name` from a pose of the TCP.

        A frame that moves is taken where it was at the stamp. With stamp 0 that is now: `q` are
        the present joints (6,) [rad], for a frame that the arm carries, and `not_at_rest` is why
        the arm does not count as at rest.

        Raises `PlanningError`: the arm can never be there; `InvalidInput`: the frame is unknown,
        the numbers are not a pose, or the place is not taught as a pose; `ExecutionError`: the
        file of poses cannot be written, or the arm carries the frame and is not at rest.
        """
        if name == HOME:
            raise InvalidInput(
                f'{HOME} is defined by its joints: move the arm there and call ~/teach_{HOME}'
            )
        frame, stamp = message.header.frame_id, to_seconds(message.header.stamp)
        if stamp:
            T_base_frame = self._frames.T_base_frame(
                frame, self._frames.arm_at(stamp), stamp=stamp
            )
        elif not self._frames.is_carried(frame):
            T_base_frame = self._frames.T_base_frame(frame)
        elif q is None or not_at_rest:
            raise ExecutionError(f'{name} not taught: the arm carries {frame}, and {not_at_rest}')
        else:
            T_base_frame = self._frames.T_base_frame(
                frame, partial(link_pose, self._planner.model, q)
            )
        return self._keep(name, T_base_frame @ pose_to_matrix(message.pose))

    def _keep(
        self, name: str, T: Array, joints: tuple[float, ...] = (), branch: str = ''
    ) -> Taught:
        self._frame_places.check_taught(name)
        now = datetime.now(timezone.utc).isoformat(timespec='seconds')
        taught = replace(self._pose(T, now), joints=joints, branch=branch)
        warning, kept = self._check(name, taught), self._file.poses.get(name)
        if kept is not None and is_same(kept, taught):
            return Taught(kept, warning, is_new=False)
        self._file.keep(name, taught)
        self.show()
        return Taught(taught, warning)

    def _pose(self, T_base_tcp: Array, time: str = '') -> TaughtPose:
        return TaughtPose(numbers_from_matrix(T_base_tcp), self._provenance, time)

    def show(self) -> None:
        """Publish `tcp` and the places as static transforms."""
        transforms = [self._transform('base_link', *place) for place in self.places().items()]
        if (T_tool_tcp := self._frames.T_tool_tcp) is not None:
            transforms.append(self._transform('tool0', 'tcp', T_tool_tcp))
        self._tf.sendTransform(transforms)

    def _transform(self, parent: str, child: str, T: Array) -> TransformStamped:
        message = TransformStamped(child_frame_id=self._frames.prefix + child)
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.header.frame_id = self._frames.prefix + parent
        message.transform = matrix_to_transform(T)
        return message


class PoseTopics:
    """
    Offers `~/<place>_pose`, and queues what arrives.

    Teaching solves IK, checks for collisions and writes a file to the disk. In the thread that
    handles messages, the poses of a camera at 30 Hz would delay a stop by 0.3 s.

    `names`: the places. `present`: returns the present joints (6,) [rad], which are kept with each
    pose as it arrives. `teach`: takes name, pose, and joints; computes in the pool, reports a
    refusal itself. `emit`: takes the event `refused` of a pose that is not taught.
    """

    def __init__(
        self,
        node: SerialNode,
        names: Sequence[str],
        present: Callable[[], Array | None],
        teach: Callable[[str, PoseStamped, Array | None], Awaitable[None]],
        emit: Callable[..., None],
    ) -> None:
        self._node, self._teach, self._emit, self._present = node, teach, emit, present
        self._waiting: deque[tuple[str, PoseStamped, Array | None]] = deque()
        self._is_teaching = False
        topics = {f'~/{name}_pose': name for name in names}
        for topic, name in topics.items():
            node.create_subscription(PoseStamped, topic, partial(self.put, name), 10)

        def refuse(topic: str, why: str) -> None:
            self._refuse(
                topics[topic],
                f'{why}: none of its poses arrives; publish them reliable, as PoseStamped',
            )

        Unheard(node, topics, refuse)

    def put(self, name: str, message: PoseStamped) -> None:
        """Queue a pose."""
        self._waiting.append((name, message, self._present()))
        if len(self._waiting) > _MOST:
            name, message, _ = self._waiting.popleft()
            why = 'poses arrive faster than they can be taught: publish fewer'
            self._refuse(name, why, stamp_text(message.header.stamp))
        if not self._is_teaching:
            self._is_teaching = True
            self._node.begin(self._teach_all)

    def _refuse(self, name: str, reason: str, stamp: str = '') -> None:
        self._emit(events.REFUSED, request=f'{name}_pose', reason=reason, stamp=stamp)

    async def _teach_all(self) -> None:
        while self._waiting:
            await self._teach(*self._waiting.popleft())
        self._is_teaching = False
