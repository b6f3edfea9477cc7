# SPDX-License-Identifier: Apache-2.0
"""Read the arm's joints from a topic on which other devices publish too."""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.messages.cdr import MessageLayout, Unreadable
from ur5_pick_place.nodes.messages.conversions import (
    is_of_this_arm,
    joints_from_state,
    to_seconds,
    velocities_from_state,
)
from ur5_pick_place.nodes.ros.bounded_reader import BoundedReader
from ur5_pick_place.nodes.ros.polling import PollGroup

# Deep enough to lose none in a stall of this PC: 0.5 s of an e-Series. All queued messages are
# taken together and the newest is used, so that old joints are not mistaken for the present ones.
_DEPTH = 250
_QOS = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
_LARGEST = 16_384  # [bytes] of a message that is converted; six joints take 300
_LAYOUTS = 16  # that are kept: one or two for each publisher
_DOUBLE = 8  # [bytes]
_UNREAD: Array = np.full(6, np.nan)


@dataclass(frozen=True)
class Joints:
    """
    The arm's joints in a message.

    Attributes
    ----------
    stamp : float
        When it was measured [s].
    q, qd : ndarray, shape (6,)
        [rad], [rad/s]; `qd` is NaN where velocities are not read.
    earlier : tuple of (float, ndarray)
        Stamp and joints of the valid messages that were taken with it, oldest first.
    count : int
        Number of the arm's messages taken together, this one included.
    stamp_gap : float
        Largest interval between stamps of these messages and the one before [s].

    """

    stamp: float
    q: Array
    qd: Array
    earlier: tuple[tuple[float, Array], ...]
    count: int
    stamp_gap: float


@dataclass(frozen=True)
class _Sample:
    """One message; `problem` = what is wrong with it."""

    stamp: float
    q: Array
    qd: Array
    problem: str = ''


class JointListener:
    """
    Subscribes to `joint_states`; ignores messages of other devices.

    Parameters
    ----------
    node : Node
    names : sequence of str
        Names of the arm's joints, with the prefix.
    on_joints : callable
        Takes `Joints`.
    on_bad : callable
        Takes a description of the error in a message of this arm.
    poll_group : PollGroup
    with_velocities : bool
        Whether velocities are read, and a message without them is an error.

    """

    def __init__(
        self,
        node: Node,
        names: Sequence[str],
        on_joints: Callable[[Joints], object],
        on_bad: Callable[[str], object],
        poll_group: PollGroup,
        with_velocities: bool = True,
    ) -> None:
        self._on_joints, self._on_bad = on_joints, on_bad
        self._stamp: float | None = None
        self._reader = _JointReader(node, names, with_velocities)
        poll_group.subscribe(JointState, 'joint_states', self._take, _QOS)

    def _take(self, waiting: Sequence[bytes]) -> None:
        samples = [sample for data in waiting if (sample := self._reader.read(data))]
        if not samples:
            return
        stamps = [sample.stamp for sample in samples]
        before = stamps[0] if self._stamp is None else self._stamp
        gap = max(b - a for a, b in zip([before, *stamps], stamps, strict=False))
        self._stamp = stamps[-1]
        for sample in samples:
            if sample.problem:
                self._on_bad(sample.problem)  # even if valid ones follow
        if valid := [sample for sample in samples if not sample.problem]:
            *others, last = valid
            earlier = tuple((sample.stamp, sample.q) for sample in others)
            self._on_joints(Joints(last.stamp, last.q, last.qd, earlier, len(samples), gap))


class _JointReader:
    """Reads the joint names of a publisher once, and then only the numbers of its messages."""

    def __init__(self, node: Node, names: Sequence[str], with_velocities: bool) -> None:
        self._names, self._with_velocities = list(names), with_velocities
        self._reader = BoundedReader(node, JointState, 'joint_states', _LARGEST)
        self._known: dict[int, _Numbers] = {}  # by the size of the message

    def read(self, data: bytes) -> _Sample | None:
        """Return the sample of this arm in a message; None if it has none or is unreadable."""
        known = self._known.get(len(data))
        if known is None or not known.layout.fits(data):
            return self._read_names(data)
        if not known.order:
            return None
        return known.read(data) or self._read_names(data)

    def _read_names(self, data: bytes) -> _Sample | None:
        state = self._reader.read(data)
        if state is None:
            return None
        sample, order = None, []
        if is_of_this_arm(state, self._names):
            sample = self._checked(state)
            if sample.problem:
                return sample
            order = [list(state.name).index(name) for name in self._names]
        if len(self._known) >= _LAYOUTS:
            self._known.clear()
        try:
            layout = MessageLayout(data, JointState)
        except Unreadable:
            return sample  # longer than the lists that this package reads
        self._known[len(data)] = _Numbers(layout, order, self._with_velocities)
        return sample

    def _checked(self, state: JointState) -> _Sample:
        stamp, q, qd = to_seconds(state.header.stamp), _UNREAD, _UNREAD
        try:
            q = joints_from_state(state, self._names)
            if self._with_velocities:
                qd = velocities_from_state(state, self._names)
        except InvalidInput as error:
            return _Sample(stamp, q, qd, str(error))
        return _Sample(stamp, q, qd)


class _Numbers:
    """
    Where the arm's numbers lie in the messages of one layout.

    Parameters
    ----------
    layout : MessageLayout
    order : list of int
        Index of each of the arm's joints in the message; empty for other devices.
    with_velocities : bool

    """

    def __init__(self, layout: MessageLayout, order: list[int], with_velocities: bool) -> None:
        self.layout, self.order = layout, order
        if not order:
            return
        (self._stamp, _), _, (self._begin, end), *others = layout.numbers
        places = np.array(order)
        if with_velocities:
            (begin, end), *_ = others
            places = np.append(places, places + (begin - self._begin) // _DOUBLE)
        self._places, self._count = places, (end - self._begin) // _DOUBLE
        self._type, self._stamp_format = np.dtype(f'{layout.order}f8'), f'{layout.order}iI'

    def read(self, data: bytes) -> _Sample | None:
        """Return the arm's joints; None if a number is not finite."""
        numbers = np.frombuffer(data, self._type, self._count, self._begin)[self._places]
        if not math.isfinite(numbers.sum()):  # NaN or infinity in any number shows in the sum
            return None
        sec, nanosec = struct.unpack_from(self._stamp_format, data, self._stamp)
        q, qd = numbers[:6].astype(float), numbers[6:].astype(float)
        return _Sample(sec + nanosec * 1e-9, q, qd if len(qd) else _UNREAD)
