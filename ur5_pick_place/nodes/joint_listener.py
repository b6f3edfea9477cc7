# SPDX-License-Identifier: Apache-2.0
"""The arm's present joints, from a topic on which other devices publish too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.bounded_reader import BoundedReader
from ur5_pick_place.nodes.conversions import (
    is_of_this_arm,
    joints_from_state,
    to_seconds,
    velocities_from_state,
)
from ur5_pick_place.nodes.distro import take_waiting

# Deep enough that a stall of this PC loses none: 0.5 s of an e-Series. All waiting messages are
# taken at once and the newest counts, so that old joints are not mistaken for the present ones.
_DEPTH = 250
_QOS = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
_LARGEST = 16_384  # [bytes] of a message that is converted; six joints take 300


@dataclass(frozen=True)
class Joints:
    """
    The arm's joints in a message.

    Attributes
    ----------
    stamp : float
        When it was measured [s].
    q, qd : ndarray, shape (6,)
        [rad], [rad/s]
    count : int
        Number of the arm's messages taken together, this one included.
    stamp_gap : float
        Largest interval between stamps of these messages and the one before [s].

    """

    stamp: float
    q: Array
    qd: Array
    count: int
    stamp_gap: float


class JointListener:
    """
    Subscribes to `joint_states`; ignores messages of other devices.

    Parameters
    ----------
    node : Node
    names : sequence of str
        Of the arm's joints, with the prefix.
    on_joints : callable
        Takes `Joints`.
    on_bad : callable
        Takes the error in a message of this arm.
    group : CallbackGroup

    """

    def __init__(
        self,
        node: Node,
        names: Sequence[str],
        on_joints: Callable[[Joints], object],
        on_bad: Callable[[str], object],
        group: CallbackGroup,
    ) -> None:
        self._names, self._on_joints, self._on_bad = list(names), on_joints, on_bad
        self._stamp: float | None = None
        self._reader = BoundedReader(node, JointState, 'joint_states', _LARGEST)
        self._subscription = node.create_subscription(
            JointState, 'joint_states', self._on_message, _QOS, callback_group=group, raw=True
        )

    def _on_message(self, data: bytes) -> None:
        waiting = [data, *take_waiting(self._subscription, _DEPTH)]
        messages = [
            message
            for data in waiting
            if (message := self._reader.read(data)) and is_of_this_arm(message, self._names)
        ]
        if not messages:
            return
        stamps = [to_seconds(message.header.stamp) for message in messages]
        before = stamps[0] if self._stamp is None else self._stamp
        gap = float(np.diff([before, *stamps]).max())
        self._stamp = stamps[-1]
        newest = None
        for stamp, message in zip(stamps, messages, strict=True):
            try:
                q = joints_from_state(message, self._names)
                newest = stamp, q, velocities_from_state(message, self._names)
            except InvalidInput as error:
                self._on_bad(str(error))  # even if valid ones follow
        if newest is not None:
            self._on_joints(Joints(*newest, len(messages), gap))
