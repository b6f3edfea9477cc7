# SPDX-License-Identifier: Apache-2.0
"""Poses of places from topics and markers: queued by callbacks, taught one at a time in a task."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from geometry_msgs.msg import PoseStamped

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.pick_place.teaching import stamp_text
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.qos import Unheard
from ur5_pick_place.task import events

_MOST = 20  # waiting poses


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
